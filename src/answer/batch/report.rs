//! Kinds whose answer is a report, as a subcommand writes it with `--format json`: `explain`,
//! `compare`, `plan`, `list`, and `choose` of a library.

use std::borrow::Cow;
use std::mem::discriminant;

use serde::Serialize;
use serde_json::value::RawValue;

use super::choose::variables;
use super::expect::Fields;
use super::question::missing;
use super::{Batch, FindProfile};
use crate::answer::explain::Explanation;
use crate::answer::{self, LARGEST, explain};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::library::engines::{Conditions, Variables};
use crate::library::{Call, Site, element, policy, refuse_variables};
use crate::machine::profile::Profile;
use crate::machine::query::{Machine, Query};
use crate::measure::expect::site;
use crate::measure::verdict::{Facts, Typed, judge};
use crate::plan::table::{Fault, Files, Machines};
use crate::plan::{self as steps, Asked, Tweak};

/// The fields in addition to the parameters of a question, by kind.
const CHOOSE: [&str; 8] =
    ["id", "kind", "library", "collective", "primitive", "size_bytes", "dtype", "env"];
const EXPLAIN: [&str; 7] =
    ["id", "kind", "what", "collective", "primitive", "algorithm", "size_bytes"];
const COMPARE: [&str; 6] = ["id", "kind", "collective", "primitive", "points", "dtype"];
const LIST: [&str; 3] = ["id", "kind", "what"];
const PLAN: [&str; 6] = ["id", "kind", "toml", "preset", "step", "set"];

/// Where a plan has the parameters of its steps and machines.
const ELSEWHERE: &str = "a plan has as many ranks as its layout; its keys and its machine's are in `set`: \
                         {\"dp\": 64, \"profile\": \"dgx-a100\", \"inter.bw\": \"800Gb/s\"}";

/// The maximum number of times in a comparison: each is priced.
const MOST: usize = 1000;

/// What `explain` shows.
const SHOWN: Bytes = Bytes(16 << 20);

impl Batch {
    /// Kind `choose` with a `library`: at one size, or over all sizes.
    pub(super) fn choose_of_library(&mut self, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let fields = Fields::read(line, &CHOOSE)?;
        let library = fields.text("library")?.ok_or_else(|| missing("library"))?;
        // The key is that of a machine's library, too.
        let machine = fields.without("library");
        let (query, size) = self.query_or(&machine, Some(Collective::AllReduce))?;
        let dtype = fields.dtype()?;
        let element = element(&library, dtype);
        let range = size.map_or((element, LARGEST), |size| (size, size));
        let query = Query { size: range.0, ..query };
        let call = Call { element, ..Call::of(&query) };
        let variables = variables(&fields)?;
        if variables != Variables::default() {
            refuse_variables(std::iter::once(&*library)).map_err(|e| fields.at(e, "env"))?;
        }
        let conditions = Conditions { dtype, variables, ..Conditions::default() };
        let site = Site { conditions, ..site(&query) };
        let policy = policy(&library, &site).map_err(|e| fields.at(e, "library"))?;
        let report =
            answer::select::select(&self.registry, &query, &call, (&*policy, None), range)?;
        write(out, "choose", &report)
    }

    /// Kind `explain`: a collective, an algorithm of it, a topic, or one of K1 to K26.
    pub(super) fn explain(&mut self, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let fields = Fields::read(line, &EXPLAIN)?;
        let algorithm = fields.text("algorithm")?;
        let report = match fields.text("what")? {
            Some(what) => match what.parse() {
                Ok(collective) => self.derived(&fields, collective, algorithm)?,
                Err(_) => {
                    let ranks = fields.text("n")?.and_then(|n| n.parse().ok());
                    let topic = explain::topic(&what, ranks, algorithm.as_deref());
                    let topic = topic.map_err(|e| fields.at(e, "what"))?;
                    fields.refuse_but(
                        &["id", "kind", "what", "n", "algorithm"],
                        "the page is about no call: leave it out",
                    )?;
                    topic
                }
            },
            None => self.derived(&fields, Collective::AllReduce, algorithm)?,
        };
        write(out, "explain", &report)
    }

    fn derived(
        &mut self,
        fields: &Fields<'_>,
        default: Collective,
        algorithm: Option<Cow<'_, str>>,
    ) -> Result<Explanation> {
        let (query, size) = self.query_or(fields, Some(default))?;
        let query = Query { size: size.unwrap_or(SHOWN), ..query };
        match algorithm {
            Some(name) => explain::algorithm(&self.registry, &query, &name),
            None => explain::collective(&self.registry, &query, size.is_some()),
        }
    }

    /// Kind `compare`: whether measured times are healthy.
    pub(super) fn compare(&mut self, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let fields = Fields::read(line, &COMPARE)?;
        let (query, _) = self.query_or(&fields, None)?;
        let (times, typed) = times(&fields, &query)?;
        let dtype = fields.dtype()?;
        let facts = Facts { typed, ..Facts::default() };
        let verdict = judge(&self.registry, &query, dtype, false, &times, &facts)?;
        let run = answer::compare::run(verdict, &query, dtype, None, &[]);
        let Machine { name, chosen, .. } = &query.machine;
        let machine = (name.clone(), *chosen, query.machine.given_in_words());
        write(out, "compare", &answer::compare::compare(machine, vec![run], Vec::new()))
    }

    /// Kind `list`: everything that has a name, or a part of it.
    pub(super) fn list(&mut self, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let fields = Fields::read_only(line, &LIST, "names depend on no call: leave it out")?;
        let what = fields.text("what")?;
        let report = answer::list::list(&self.registry, what.as_deref());
        write(out, "list", &report.map_err(|e| fields.at(e, "what"))?)
    }

    /// Kind `plan`: the steps of a file's text, or of a preset.
    pub(super) fn plan(&mut self, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let fields = Fields::read_only(line, &PLAN, ELSEWHERE)?;
        let (text, preset, step) =
            (fields.text("toml")?, fields.text("preset")?, fields.text("step")?);
        let asked = match (&text, &preset) {
            (Some(_), None) => Asked::File { name: GIVEN, step: step.as_deref() },
            (None, Some(_)) if step.is_some() => {
                return Err(fields.at(
                    Error::input("`step` is for `toml`: a preset is one step").help("leave it out"),
                    "step",
                ));
            }
            (None, Some(name)) if steps::preset_names().any(|known| known == name) => {
                Asked::Preset(name)
            }
            (None, Some(name)) => {
                let known: Vec<&str> = steps::preset_names().collect();
                return Err(fields.at(
                    Error::input(format!("`{name}` is not a preset"))
                        .help(format!("known: {}", known.join(", "))),
                    "preset",
                ));
            }
            _ => {
                return Err(Error::input("a plan needs either `toml` or `preset`")
                    .help("give the text of a file with [step.NAME], or a preset's name"));
            }
        };
        // A parameter of the machine has a dot.
        let mut set = Vec::new();
        for pair in fields.texts("set")? {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                fields.at(Error::input(format!("`{pair}` sets nothing")).help("write tp=4"), "set")
            })?;
            set.push((key.to_owned(), value.to_owned()));
        }
        let (set, tweak) = Tweak::sorted(set);
        let files = Text { text: text.as_deref().unwrap_or(""), find: self.find_profile };
        let loaded = steps::load(&Machines::new(&files), &asked, &set)
            .map_err(|faults| Fault::error_of(&faults))?;
        let report = answer::plan::plan(&self.registry, &loaded, &tweak, false)?;
        write(out, "plan", &report)
    }
}

/// The name under which faults in the question's own text are reported.
const GIVEN: &str = "toml";

/// One text, the known machines, and no files.
struct Text<'t> {
    text: &'t str,
    find: FindProfile,
}

impl Files for Text<'_> {
    fn profile(&self, name: &str) -> Result<Profile> {
        (self.find)(name)
    }

    fn text(&self, path: &str) -> Result<String> {
        match path {
            GIVEN => Ok(self.text.to_owned()),
            other => self.matching(other).map(|_| String::new()),
        }
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        Err(Error::input(format!("`{pattern}`: no files are read here"))
            .help("put the contents of the file into the question"))
    }
}

/// Calls by their sizes, and what kind of number was given for them.
type Times = (Vec<(Bytes, Seconds)>, Option<Typed>);

/// `points`: pairs of a size with its time, or with its busbw as a text such as `200GB/s`.
fn times(fields: &Fields<'_>, query: &Query) -> Result<Times> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum One {
        Number(f64),
        Text(String),
    }
    const HELP: &str =
        "write \"points\": [[1048576, 55e-6], [\"1GiB\", \"5.2ms\"], [\"4GiB\", \"200GB/s\"]]";
    let refuse = |what: &str| fields.at(Error::input(what).help(HELP), "points");
    let raw: &RawValue = fields.raw("points").ok_or_else(|| missing("points"))?;
    let pairs = "`points` must be pairs of a size and its time";
    let points: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| refuse(pairs))?;
    if points.is_empty() || points.len() > MOST {
        let what = format!("`points` must be 1 to {MOST} pairs, not {}", points.len());
        return Err(Error::input(what).at("points").help(HELP));
    }
    let mut times = Vec::with_capacity(points.len());
    let mut given = None;
    for (i, point) in points.into_iter().enumerate() {
        // The point, not the whole list.
        let place = |e: Error| e.at(format!("points[{i}]: {}", point.get())).or_help(HELP);
        let [size, time] = serde_json::from_str::<[One; 2]>(point.get())
            .map_err(|_| place(Error::input(pairs)))?;
        let size = match size {
            One::Number(size) if size >= 0.0 => Bytes(size.round() as u64),
            One::Number(_) => return Err(place(Error::input("a size must be a number from 0"))),
            One::Text(text) => text.parse().map_err(place)?,
        };
        let typed = match time {
            One::Number(time) => Typed::Time(Seconds(time)),
            One::Text(text) => match text.parse() {
                Ok(busbw) => Typed::Busbw(busbw),
                Err(_) => Typed::Time(text.parse().map_err(place)?),
            },
        };
        times.push(typed.call(query, size).map_err(place)?);
        given = Some(match given {
            // A rate beside a time: neither is meant in another convention alone.
            Some(other) if discriminant(&other) != discriminant(&typed) => {
                Typed::Time(Seconds::default())
            }
            _ => typed,
        });
    }
    Ok((times, given))
}

/// Appends the report under the kind's name.
fn write(out: &mut Vec<u8>, kind: &str, report: &impl Serialize) -> Result<()> {
    out.extend_from_slice(format!(",\"{kind}\":").as_bytes());
    serde_json::to_writer(out, report)
        .map_err(|e| Error::environment(format!("a report cannot be written: {e}")))
}
