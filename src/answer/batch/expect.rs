//! Kind `expect`: how long a call will take on a named machine, as every other subcommand reports
//! it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::value::RawValue;

use super::question::{missing, one_name, refuse_unknown};
use super::{Batch, answer};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Asked, Bytes, Seconds};
use crate::machine::parameters::{PARAMETERS, Parameters};
use crate::machine::profile::{DEFAULT, Profile};
use crate::machine::query::{Machine, Query};
use crate::machine::sample::DataType;
use crate::measure::expect::{Expect, Expecting};

/// The fields in addition to the parameters of a question.
const OWN: [&str; 7] = ["id", "kind", "collective", "primitive", "size_bytes", "algorithm", "seen"];

impl Batch {
    /// Kind `expect`.
    pub(super) fn expect(&mut self, line: &str, out: &mut Vec<u8>) -> Result<()> {
        let fields = Fields::read(line, &OWN)?;
        let said = said(&fields)?;
        let (mut query, size) = self.asked(&fields, &said, None)?;
        let size = size.ok_or_else(|| missing("size_bytes"))?;
        if let Some(seen) = fields.seen()? {
            query.see([seen]).map_err(|e| fields.at(e, "seen"))?;
        }
        let expecting =
            Expecting::of(&self.registry, &query, fields.text("algorithm")?.as_deref())?;
        let expect = Expect::new(&expecting, size);
        answer::text(out, "machine", &query.machine.name);
        answer::number(out, "ranks", f64::from(query.shape.ranks))?;
        out.extend_from_slice(b",\"expect\":");
        serde_json::to_writer(out, &expect)
            .map_err(|e| Error::environment(format!("an expectation cannot be written: {e}")))
    }

    /// The question that the parameters make, and its size; `default` if no collective is named.
    pub(super) fn query(
        &mut self,
        fields: &Fields<'_>,
        default: Option<Collective>,
    ) -> Result<(Query, Bytes)> {
        let (query, size) = self.query_or(fields, default)?;
        size.map(|size| (query, size)).ok_or_else(|| missing("size_bytes"))
    }

    /// The same if no size is required; the size of the query is then 0.
    pub(super) fn query_or(
        &mut self,
        fields: &Fields<'_>,
        default: Option<Collective>,
    ) -> Result<(Query, Option<Bytes>)> {
        self.asked(fields, &said(fields)?, default)
    }

    fn asked(
        &mut self,
        fields: &Fields<'_>,
        said: &Parameters,
        default: Option<Collective>,
    ) -> Result<(Query, Option<Bytes>)> {
        let names = (fields.text("collective")?, fields.text("primitive")?);
        let collective = match (one_name(names.0.as_deref(), names.1.as_deref())?, default) {
            (Some(name), _) => name.parse()?,
            (None, Some(default)) => default,
            (None, None) => return Err(missing("collective")),
        };
        let size =
            collective.sized(fields.size()?).map_err(|error| fields.at(error, "size_bytes"))?;
        let given = &said.given;
        let own = given.alpha.is_some() && given.bandwidth.is_some();
        let machine = match said.profile.as_deref() {
            // Two parameters make a machine of their own, as everywhere.
            None if own => Machine::new(None, given, collective)?,
            name => {
                let profile = self.profile(name.unwrap_or(DEFAULT))?;
                let chosen = if name.is_some() { "profile" } else { "default" };
                Machine::on(&profile, chosen, given, collective)?
            }
        };
        let query =
            Query::new(machine, collective, size.unwrap_or_default(), said.layout, said.params)?;
        match said.idle(&query, |_| true) {
            Some((key, error)) => Err(fields.at(error, key)),
            None => Ok((query, size)),
        }
    }

    /// A machine by name; many questions share one.
    fn profile(&mut self, name: &str) -> Result<Rc<Profile>> {
        if let Some(known) = self.profiles.get(name) {
            return Ok(Rc::clone(known));
        }
        let found = Rc::new((self.find_profile)(name)?);
        self.profiles.insert(name.into(), Rc::clone(&found));
        Ok(found)
    }
}

/// The parameters of a question.
fn said(fields: &Fields<'_>) -> Result<Parameters> {
    let mut said = Parameters::default();
    for parameter in PARAMETERS {
        if let Some(text) = fields.text(parameter.key)? {
            said.put(parameter, &text).map_err(|e| fields.at(e, parameter.key))?;
        }
    }
    Ok(said)
}

/// A number as written; a whole one as people write it: some programs have 8.0 for 8.
fn whole(raw: &str) -> Cow<'_, str> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    match raw.parse::<f64>() {
        Ok(n) if raw.contains(['.', 'e', 'E']) && n.fract() == 0.0 && n.abs() < EXACT => {
            Cow::Owned(format!("{n}"))
        }
        _ => Cow::Borrowed(raw),
    }
}

/// The fields of a line, as written.
#[derive(Clone)]
pub(super) struct Fields<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads a line that may hold `own` and the parameters of a question.
    pub(super) fn read(line: &'a str, own: &[&'static str]) -> Result<Self> {
        let fields = Self::all(line)?;
        let known = || own.iter().copied().chain(PARAMETERS.iter().map(|p| p.key));
        refuse_unknown(fields.keys(), known)?;
        Ok(fields)
    }

    /// Reads a line that may hold `own` alone; the parameters of a question belong where `instead` says.
    pub(super) fn read_only(line: &'a str, own: &[&'static str], instead: &str) -> Result<Self> {
        let fields = Self::all(line)?;
        let others = fields.keys().filter(|key| PARAMETERS.iter().all(|p| p.key != *key));
        refuse_unknown(others, || own.iter().copied())?;
        fields.refuse_but(own, instead)?;
        Ok(fields)
    }

    /// Refuses the first field that is not in `but`.
    pub(super) fn refuse_but(&self, but: &[&str], instead: &str) -> Result<()> {
        self.keys().find(|key| !but.contains(key)).map_or(Ok(()), |key| {
            let error = Error::input(format!("`{key}` has no effect here"));
            Err(self.at(error.help(instead), key))
        })
    }

    fn all(line: &'a str) -> Result<Self> {
        serde_json::from_str(line)
            .map(Self)
            .map_err(|e| Error::input(format!("the line is not a question: {e}")))
    }

    /// The same without a field.
    pub(super) fn without(&self, key: &str) -> Self {
        let mut fields = self.clone();
        fields.0.remove(key);
        fields
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(AsRef::as_ref)
    }

    /// A text, or a number or a boolean as written; `None` if it is null.
    pub(super) fn text(&self, key: &str) -> Result<Option<Cow<'a, str>>> {
        let Some(raw) = self.0.get(key).map(|raw| raw.get()) else { return Ok(None) };
        match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw)
                .map(Some)
                .map_err(|e| self.at(Error::input(format!("`{key}` is not a text: {e}")), key)),
            Some(b'{' | b'[') => {
                Err(self.at(Error::input(format!("`{key}` must be a number or a text")), key))
            }
            _ => Ok(Some(raw).filter(|raw| *raw != "null").map(whole)),
        }
    }

    /// `{"NAME": "VALUE"}` or `["NAME=VALUE"]`, as strings of the second form.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Texts {
            Pairs(BTreeMap<String, serde_json::Value>),
            List(Vec<String>),
            One(String),
        }
        let Some(raw) = self.0.get(key).map(|raw| raw.get()) else { return Ok(Vec::new()) };
        let plain = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let texts: Option<Texts> = serde_json::from_str(raw).map_err(|_| {
            let error = Error::input(format!("`{key}` names no variables"));
            self.at(error.help("write {\"NAME\": \"VALUE\"}"), key)
        })?;
        Ok(match texts {
            None => Vec::new(),
            Some(Texts::Pairs(pairs)) => {
                pairs.into_iter().map(|(name, value)| format!("{name}={}", plain(value))).collect()
            }
            Some(Texts::List(list)) => list,
            Some(Texts::One(text)) => vec![text],
        })
    }

    /// Bytes as every kind counts them: a number, which may be a fraction, or a text such as 16MiB.
    fn size(&self) -> Result<Option<Bytes>> {
        const MOST: f64 = u64::MAX as f64;
        let key = "size_bytes";
        let Some(text) = self.text(key)? else { return Ok(None) };
        match text.trim().parse::<f64>() {
            Ok(size) if (0.0..MOST).contains(&size) => Ok(Some(Bytes(size.round() as u64))),
            Ok(_) => {
                let what = format!("`{key}` must be a number from 0 to 2^64");
                Err(self.at(Error::input(what), key))
            }
            Err(_) => text.parse().map(|Asked(size)| Some(size)).map_err(|e| self.at(e, key)),
        }
    }

    /// The type of the elements.
    pub(super) fn dtype(&self) -> Result<Option<DataType>> {
        let read = self.text("dtype")?.map(|name| name.parse::<DataType>());
        read.transpose().map_err(|e| self.at(e, "dtype"))
    }

    /// A field as written.
    pub(super) fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.0.get(key).copied()
    }

    /// `1MiB=88us`.
    fn seen(&self) -> Result<Option<(Bytes, Seconds)>> {
        let place = |e: Error| self.at(e, "seen");
        let Some(text) = self.text("seen")? else { return Ok(None) };
        let (size, time) = text.split_once('=').ok_or_else(|| {
            place(Error::input("this is not a size with its time").help("write 1MiB=88us"))
        })?;
        Ok(Some((size.trim().parse().map_err(place)?, time.trim().parse().map_err(place)?)))
    }

    /// The error with the field that caused it.
    pub(super) fn at(&self, error: Error, key: &str) -> Error {
        let raw = self.0.get(key).map_or("null", |raw| raw.get());
        error.at(format!("\"{key}\": {raw}"))
    }
}
