//! The module `collcost`: price and check in a line each, reports as plain dictionaries.

mod facade;
mod sizes;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use collcost_core::answer;
use collcost_core::base::error::Error as Fault;
use collcost_core::machine::parameters::in_keys;
use collcost_core::machine::profile::Date;
use collcost_core::model::algorithm::Registry;
use collcost_core::plan::check::{Disk, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule};

pyo3::create_exception!(collcost, Error, PyValueError, "A question that cannot be answered.");

fn refused(error: &Fault) -> PyErr {
    Error::new_err(in_keys(&error.to_string()))
}

/// A report as Python's json module reads it.
fn plain(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    let read = PyModule::import(py, "json")?.call_method1("loads", (text,))?;
    Ok(read.unbind())
}

/// What a collective will take, and every algorithm with its ideal price and the lower bound.
///
/// `size` counts as nccl-tests counts it: bytes, or a text such as "16MiB" or "7B@bf16". `on` is a
/// built-in machine or a profile's file; `alpha` and `bw` together make a machine of two figures.
#[pyfunction]
#[pyo3(signature = (collective, size, n, *, algorithm=None, **with_))]
fn price(
    py: Python<'_>,
    collective: &str,
    size: &Bound<'_, PyAny>,
    n: &Bound<'_, PyAny>,
    algorithm: Option<&str>,
    with_: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    if n.is_none() {
        return Err(Error::new_err("`n` is the number of ranks, and None is none"));
    }
    let with = with_.map_or_else(|| Ok(PyDict::new(py)), |with| with.copy())?;
    with.set_item("n", n)?;
    let asked = facade::question(collective, facade::size_of(size)?, Some(&with))?;
    facade::report(py, || answer::cost(&Registry::builtin(), &asked.query()?, algorithm, true))
}

/// Holds the budgets of a file against the model, or against measurements.
#[pyfunction]
#[pyo3(signature = (file=PathBuf::from("collcost.toml")), text_signature = "(file='collcost.toml')")]
fn check(py: Python<'_>, file: PathBuf) -> PyResult<Py<PyAny>> {
    let file = facade::name_of(&file)?;
    // Waivers end by this computer's clock, as in the command.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let today = u32::try_from(since.as_secs() / 86_400).ok().map(Date::after_epoch);
    let options = Options { today, ..Options::default() };
    facade::report(py, || {
        let checked = collcost_core::plan::check::check(&Disk, file, &options);
        // As the command ends with 2: a gate that reads `failed` alone would pass.
        if let Some(fault) = checked.faults.first() {
            let place = format!("{}, line {}", fault.file, fault.line);
            let error = Fault::input(fault.what.clone()).at(place);
            return Err(match &fault.help {
                Some(help) => error.help(help.clone()),
                None => error,
            });
        }
        Ok(answer::check::check(file, &checked, false))
    })
}

/// What collective operations cost.
#[pymodule]
fn collcost(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_function(wrap_pyfunction!(price, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(facade::machine, module)?)?;
    module.add_function(wrap_pyfunction!(facade::names, module)?)?;
    module.add_function(wrap_pyfunction!(facade::expect, module)?)?;
    module.add_function(wrap_pyfunction!(facade::times, module)?)?;
    module.add_function(wrap_pyfunction!(facade::ideal, module)?)?;
    module.add_function(wrap_pyfunction!(facade::choose, module)?)?;
    module.add_function(wrap_pyfunction!(facade::explain, module)?)?;
    module.add_function(wrap_pyfunction!(facade::compare, module)?)?;
    module.add_function(wrap_pyfunction!(facade::crossover, module)?)?;
    module.add_function(wrap_pyfunction!(facade::plan, module)?)?;
    module.add_function(wrap_pyfunction!(facade::jobs, module)?)?;
    module.add_function(wrap_pyfunction!(facade::server, module)?)?;
    module.add_function(wrap_pyfunction!(facade::bucket, module)?)?;
    module.add_function(wrap_pyfunction!(facade::simulate, module)?)
}
