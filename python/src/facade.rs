//! The library's functions but for `price`, with a question as keywords, and reports as plain dictionaries.

use std::path::{Path, PathBuf};

use collcost_core::base::error::Error as Fault;
use collcost_core::base::quantity::Bytes;
use collcost_core::measure::expect::Expecting;
use collcost_core::model::algorithm::Registry;
use collcost_core::plan::config::is_file;
use collcost_core::{Question, answer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyString};
use serde_json::{Value, json};

use crate::sizes::{Numbers, Row};
use crate::{Error, plain, refused};

/// The size, as the command reads it: a number of bytes, or `"16MiB"`.
pub fn size_of(size: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    // Python itself refuses to write a number of thousands of digits.
    let text = size.str().map_err(|e| Error::new_err(e.to_string()))?;
    text.to_string().parse().map_err(|e: Fault| refused(&e))
}

/// Keywords of a question: any parameter by its key in `collcost.toml`.
pub fn question(
    collective: &str,
    size: Bytes,
    with: Option<&Bound<'_, PyDict>>,
) -> PyResult<Question> {
    let collective = collective.parse().map_err(|e: Fault| refused(&e))?;
    let mut question = Question::new(collective, size);
    let mut machine = None;
    for (key, value) in with.into_iter().flat_map(|with| with.iter()) {
        if value.is_none() {
            continue;
        }
        let (key, value) = (key.cast::<PyString>()?.to_string(), text(&value)?);
        let asked = match key.as_str() {
            "on" | "profile" => match machine.replace(value.clone()) {
                None => question.on(&value),
                Some(_) => Err(Fault::input("`on` and `profile` both name the machine")
                    .help("leave one of them out")),
            },
            key => question.with(key, &value),
        };
        question = asked.map_err(|e| refused(&e))?;
    }
    Ok(question)
}

/// A value as the configuration writes it: `true`, also of numpy, and whole numbers without a point.
fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(flag) = value.extract::<bool>() {
        return Ok(flag.to_string());
    }
    match value.cast::<PyFloat>().map(|float| float.value()) {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Ok(value.str()?.to_string()),
    }
}

/// A file by its name, or as a path of Python's.
pub fn name_of(file: &Path) -> PyResult<&str> {
    file.to_str().ok_or_else(|| Error::new_err(format!("{}: not UTF-8", file.display())))
}

/// A report of the library as plain data. Other threads run while it is made.
pub fn report<T, F>(py: Python<'_>, make: F) -> PyResult<Py<PyAny>>
where
    T: serde::Serialize,
    F: FnOnce() -> Result<T, Fault> + Send,
{
    let text = py.detach(|| {
        let text = serde_json::to_string(&make()?);
        text.map_err(|e| Fault::environment(format!("the report cannot be written: {e}")))
    });
    plain(py, &text.map_err(|e| refused(&e))?)
}

/// A machine: its figures, each with where it comes from.
#[pyfunction]
pub fn machine(py: Python<'_>, name: PathBuf) -> PyResult<Py<PyAny>> {
    let name = name_of(&name)?;
    let origin = if is_file(name) { name } else { "built in" };
    report(py, || Ok(answer::profile(&collcost_core::machine(name)?, origin)))
}

/// The names of a part of what has any: `machines`, `collectives`, `algorithms`, `policies`, `parameters` …
#[pyfunction]
#[pyo3(signature = (what="machines"))]
pub fn names(py: Python<'_>, what: &str) -> PyResult<Py<PyAny>> {
    report(py, || {
        let list = answer::list::list(&Registry::builtin(), Some(what))?;
        Ok(list.names().map(str::to_owned).collect::<Vec<_>>())
    })
}

/// What a call will take: time, band, what runs, and what that is known from.
#[pyfunction]
#[pyo3(signature = (collective, size, **with_))]
pub fn expect(
    py: Python<'_>,
    collective: &str,
    size: &Bound<'_, PyAny>,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let asked = question(collective, size_of(size)?, with_)?;
    report(py, || collcost_core::expect(&asked))
}

/// The same for many sizes at once: `time_s`, `low_s`, `high_s`, each as the sizes came: a list, or an
/// array.
#[pyfunction]
#[pyo3(signature = (collective, sizes, **with_))]
pub fn times<'py>(
    py: Python<'py>,
    collective: &str,
    sizes: &Bound<'py, PyAny>,
    with_: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let numbers = Numbers::read(sizes)?;
    let asked = question(collective, Bytes::default(), with_)?;
    let registry = Registry::builtin();
    let query = asked.query().map_err(|e| refused(&e))?;
    let expecting = Expecting::new(&registry, &query).map_err(|e| refused(&e))?;
    let (mut time, mut low, mut high) = (numbers.row(py)?, numbers.row(py)?, numbers.row(py)?);
    for sizes in numbers.blocks() {
        for size in sizes? {
            query.shape.collective.sized(Some(size)).map_err(|e| refused(&e))?;
            let found = expecting.at(size);
            time.push(found.time.0);
            low.push(found.low.0);
            high.push(found.high.0);
        }
        [&mut time, &mut low, &mut high].into_iter().try_for_each(Row::flush)?;
        py.check_signals()?;
    }
    let report = PyDict::new(py);
    for (key, row) in [("time_s", time), ("low_s", low), ("high_s", high)] {
        report.set_item(key, row.back()?)?;
    }
    Ok(report)
}

/// Every algorithm that applies with its ideal price, the cheapest first.
#[pyfunction]
#[pyo3(signature = (collective, size, **with_))]
pub fn ideal(
    py: Python<'_>,
    collective: &str,
    size: &Bound<'_, PyAny>,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let asked = question(collective, size_of(size)?, with_)?;
    report(py, || collcost_core::ideal(&asked))
}

/// What a library chooses: `nccl`, `openmpi@4.1`, `mpich`, or that with a tuning file: `rules-file:PATH`.
#[pyfunction]
#[pyo3(signature = (collective, size, library="nccl", **with_))]
pub fn choose(
    py: Python<'_>,
    collective: &str,
    size: &Bound<'_, PyAny>,
    library: &str,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let asked = question(collective, size_of(size)?, with_)?;
    report(py, || {
        let c = collcost_core::choose(&asked, library)?;
        Ok(json!({ "name": c.name, "id": c.id, "rule": c.rule }))
    })
}

/// The formula of an algorithm, with the question's numbers, step by step.
#[pyfunction]
#[pyo3(signature = (collective, size, algorithm, **with_))]
pub fn explain(
    py: Python<'_>,
    collective: &str,
    size: &Bound<'_, PyAny>,
    algorithm: &str,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let asked = question(collective, size_of(size)?, with_)?;
    report(py, || collcost_core::explain(&asked, algorithm))
}

/// Whether measured times are healthy, and if not, why: `verdict` as the command prints it, `health` (what
/// the times look like), `points`, `causes`, `notes`.
#[pyfunction]
#[pyo3(signature = (collective, sizes, times, **with_))]
pub fn compare(
    py: Python<'_>,
    collective: &str,
    sizes: &Bound<'_, PyAny>,
    times: &Bound<'_, PyAny>,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let (sizes, times) = (Numbers::read(sizes)?.sizes()?, Numbers::read(times)?.times()?);
    if sizes.len() != times.len() || sizes.is_empty() {
        return Err(Error::new_err("a time for each size is needed"));
    }
    let pairs: Vec<_> = sizes.into_iter().zip(times).collect();
    let asked = question(collective, Bytes(0), with_)?;
    report(py, || {
        let verdict = collcost_core::compare(&asked, &pairs)?;
        let points: Vec<Value> = verdict
            .points
            .iter()
            .map(|p| {
                json!({
                    "size_bytes": p.size.0,
                    "measured_s": p.measured.0,
                    "time_s": p.expected.time.0,
                    "low_s": p.expected.low.0,
                    "high_s": p.expected.high.0,
                })
            })
            .collect();
        let run = answer::compare::run(verdict, &asked.query()?, None, None, &[]);
        Ok(json!({
            "verdict": run.verdict,
            "health": run.health,
            "points": points,
            "causes": run.causes,
            "notes": run.notes,
        }))
    })
}

/// Where the answer changes as the size grows: what the library runs, and the lowest ideal time.
#[pyfunction]
#[pyo3(signature = (collective, **with_))]
pub fn crossover(
    py: Python<'_>,
    collective: &str,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let asked = question(collective, Bytes(0), with_)?;
    report(py, || collcost_core::crossover(&asked))
}

/// The collectives of the steps in a file.
#[pyfunction]
pub fn plan(py: Python<'_>, file: PathBuf) -> PyResult<Py<PyAny>> {
    let file = name_of(&file)?;
    report(py, || collcost_core::plan(file))
}

/// The training jobs of configurations; keywords override their keys.
#[pyfunction]
#[pyo3(signature = (*files, **set))]
pub fn jobs(
    py: Python<'_>,
    files: Vec<PathBuf>,
    set: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    planned(py, &files, set, collcost_core::jobs)
}

/// The same of what serves a model: memory, a decode step and a prefill.
#[pyfunction]
#[pyo3(signature = (*files, **set))]
pub fn server(
    py: Python<'_>,
    files: Vec<PathBuf>,
    set: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    planned(py, &files, set, collcost_core::server)
}

fn planned<T: serde::Serialize>(
    py: Python<'_>,
    files: &[PathBuf],
    set: Option<&Bound<'_, PyDict>>,
    plan: fn(&[&str], &[(&str, &str)]) -> Result<T, Fault>,
) -> PyResult<Py<PyAny>> {
    let files: Vec<&str> = files.iter().map(|file| name_of(file)).collect::<PyResult<_>>()?;
    let one = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        Ok((key.cast::<PyString>()?.to_string(), text(&value)?))
    };
    let set: Vec<(String, String)> =
        set.into_iter().flat_map(|set| set.iter()).map(one).collect::<PyResult<_>>()?;
    let set: Vec<(&str, &str)> = set.iter().map(|(key, value)| (&**key, &**value)).collect();
    report(py, || plan(&files, &set))
}

/// Gradients of 32 bits, by their bytes in the order of registration, fused by a rule and priced.
#[pyfunction]
#[pyo3(signature = (gradients, rule="ddp", **with_))]
pub fn bucket(
    py: Python<'_>,
    gradients: &Bound<'_, PyAny>,
    rule: &str,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let sizes = Numbers::read(gradients)?.sizes()?;
    let asked = question("allreduce", Bytes(0), with_)?;
    report(py, || collcost_core::bucket(&asked, &sizes, rule))
}

/// Plays the schedule of an algorithm, or of what the library runs, message by message.
#[pyfunction]
#[pyo3(signature = (collective, size, algorithm=None, **with_))]
pub fn simulate(
    py: Python<'_>,
    collective: &str,
    size: &Bound<'_, PyAny>,
    algorithm: Option<&str>,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let asked = question(collective, size_of(size)?, with_)?;
    report(py, || {
        let o = collcost_core::simulate(&asked, algorithm)?;
        Ok(json!({
            "time_s": o.makespan.0,
            "max_sent_bytes": o.max_sent.0,
            "max_received_bytes": o.max_received.0,
            "total_bytes": o.total.0,
            "messages": o.messages,
            "max_messages": o.max_messages,
            "rounds": o.rounds,
        }))
    })
}
