//! The fields of a question, and reading them with one clear message for each fault.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Bandwidth, Ratio, Seconds, Volume};
use crate::model::formula::{Params, Ports, Relay, Shape, Tie, Trees};

/// The kinds of questions.
pub const KINDS: &[&str] = &[
    "cost",
    "paper",
    "pipeline",
    "pipeline_table",
    "crossover",
    "crossover_approx",
    "select",
    "hierarchical",
    "busbw",
    "bytes",
    "threshold",
    "eta",
    "simulate",
    "trace",
    "calibrate",
    "buckets",
    "step",
    "expect",
    "choose",
    "explain",
    "compare",
    "plan",
    "list",
];

/// A number, or a text that is a number or has another meaning.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Number(f64),
    Text(Cow<'a, str>),
}

/// One line of any kind but `expect`, whose fields are the parameters of a question.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Question<'a> {
    /// All fields may borrow from the line: said of one, it holds for the struct.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    kind: Option<Cow<'a, str>>,
    primitive: Option<Cow<'a, str>>,
    collective: Option<Cow<'a, str>>,
    /// Kind `choose` of a library; the fields of reports are read separately.
    pub library: Option<&'a RawValue>,
    /// Kind `choose` or `select` of an inference engine, whose fields are read separately.
    pub engine: Option<&'a RawValue>,
    pub algorithm: Option<Cow<'a, str>>,
    pub algorithm_a: Option<Cow<'a, str>>,
    pub algorithm_b: Option<Cow<'a, str>>,
    pub candidates: Option<Cow<'a, str>>,
    pub preset: Option<Cow<'a, str>>,
    pub unit: Option<Cow<'a, str>>,
    style: Option<Cow<'a, str>>,
    tie: Option<Cow<'a, str>>,
    fold: Option<Cow<'a, str>>,
    ag: Option<Cow<'a, str>>,
    tree: Option<Cow<'a, str>>,
    first: Option<Cow<'a, str>>,
    params: Option<Cow<'a, str>>,
    pub mode: Option<Cow<'a, str>>,
    duplex: Option<Cow<'a, str>>,
    pub n: Option<Value<'a>>,
    size_bytes: Option<Value<'a>>,
    alpha_s: Option<Value<'a>>,
    #[serde(rename = "bandwidth_Bps", alias = "bw_Bps")]
    bandwidth: Option<Value<'a>>,
    alpha_switch_s: Option<Value<'a>>,
    pub ports: Option<Value<'a>>,
    pub segments: Option<Value<'a>>,
    pub depth: Option<Value<'a>>,
    c_real: Option<Value<'a>>,
    agg: Option<Value<'a>>,
    #[serde(rename = "K", alias = "B", alias = "radix")]
    radix: Option<Value<'a>>,
    pub gpus_per_node: Option<Value<'a>>,
    pub nodes: Option<Value<'a>>,
    #[serde(alias = "intra_alpha_s")]
    pub alpha_intra_s: Option<Value<'a>>,
    #[serde(rename = "bw_intra_Bps", alias = "bandwidth_intra_Bps", alias = "intra_bw_Bps")]
    pub bw_intra: Option<Value<'a>>,
    pub alpha_inter_s: Option<Value<'a>>,
    #[serde(rename = "bw_inter_Bps", alias = "bandwidth_inter_Bps")]
    pub bw_inter: Option<Value<'a>>,
    pub points: Option<&'a RawValue>,
    #[serde(rename = "algbw_Bps")]
    pub algbw: Option<Value<'a>>,
    pub n_alpha: Option<Value<'a>>,
    pub n_beta: Option<Value<'a>>,
    pub eta_alpha: Option<Value<'a>>,
    pub eta_beta: Option<Value<'a>>,
    pub data: Option<&'a RawValue>,
    pub step: Option<Value<'a>>,
    pub tensors: Option<Value<'a>>,
    pub tensor_bytes: Option<Value<'a>>,
    pub bucket_cap_bytes: Option<Value<'a>>,
    pub tp: Option<Value<'a>>,
    pub tp_layers: Option<Value<'a>>,
    pub tp_bytes: Option<Value<'a>>,
    pub sp: Option<Value<'a>>,
    pub sp_layers: Option<Value<'a>>,
    pub sp_bytes: Option<Value<'a>>,
    pub ep: Option<Value<'a>>,
    pub moe_layers: Option<Value<'a>>,
    pub ep_bytes: Option<Value<'a>>,
    pub pp: Option<Value<'a>>,
    pub pp_bytes: Option<Value<'a>>,
}

pub(super) fn parse(line: &str) -> Result<Question<'_>> {
    let refuse = |why: &str| {
        Error::input(format!("the line is not a question: {why}"))
            .help("write one JSON object per line, such as {\"id\":1,\"kind\":\"cost\", …}")
    };
    match line.trim_start().starts_with('{') {
        true => serde_json::from_str(line).map_err(|e| refuse(&e.to_string())),
        false => Err(refuse("it is no JSON object")),
    }
}

/// The id of a line that may hold what no question has.
pub(super) fn id(line: &str) -> Option<&RawValue> {
    #[derive(serde::Deserialize)]
    struct Id<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    // Serde would read the items of a list as fields in order.
    let object = line.trim_start().starts_with('{');
    serde_json::from_str::<Id<'_>>(line).ok().filter(|_| object)?.id
}

/// What `collective` or its other name, `primitive`, says.
///
/// # Errors
/// They name two.
pub(super) fn one_name<'a>(
    one: Option<&'a str>,
    other: Option<&'a str>,
) -> Result<Option<&'a str>> {
    match (one, other) {
        (Some(one), Some(other)) if one.parse::<Collective>() != other.parse() => {
            Err(Error::input(format!("two collectives, `{one}` and `{other}`"))
                .help("`primitive` is another name of `collective`: leave one of them out"))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// The fields of a table of cases besides its questions, and `expect_…`, the expected answer.
const OF_CASES: &[&str] = &[
    "row",
    "note",
    "what",
    "makespan_s",
    "max_sent_bytes",
    "max_recv_bytes",
    "total_bytes",
    "messages",
    "max_messages_per_rank",
    "rounds",
    "closed_form_s",
    "match",
    "policy",
];

/// Refuses the first field that no kind has.
pub(super) fn refuse_unknown_fields(line: &str) -> Result<()> {
    static KNOWN: OnceLock<&[&str]> = OnceLock::new();
    let known = *KNOWN.get_or_init(fields);
    let mut unknown = None;
    // The line has been read as a question before.
    let _ = serde_json::Deserializer::from_str(line).deserialize_map(Keys(known, &mut unknown));
    refuse_unknown(unknown.as_deref().into_iter(), || known.iter().copied())
}

/// The names of a question's fields, with their aliases.
fn fields() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // It reads nothing, but records the fields that it would have to read.
    let _ = Question::deserialize(Names(&mut names));
    names
}

/// Records the field names of the struct that it is asked for.
struct Names<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> std::result::Result<V::Value, Self::Error> {
        Err(de::Error::custom("only the names are asked for"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Looks for the first key of an object that is neither known nor a key of a table of cases.
struct Keys<'k, 'a>(&'static [&'static str], &'k mut Option<Cow<'a, str>>);

/// A key, which is not copied.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Visitor<'a> for Keys<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            // Most differ in length: a linear search is faster than a binary one.
            if !self.0.contains(&&*key) && !is_of_cases(&key) {
                *self.1 = Some(key);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

fn is_of_cases(key: &str) -> bool {
    OF_CASES.contains(&key) || key.starts_with("expect_")
}

/// Refuses the first key that is neither in `known` nor a key of a table of cases.
pub(super) fn refuse_unknown<'a, K: Iterator<Item = &'static str>>(
    mut keys: impl Iterator<Item = &'a str>,
    known: impl Fn() -> K,
) -> Result<()> {
    let unknown = keys.find(|key| !is_of_cases(key) && !known().any(|known| known == *key));
    let Some(key) = unknown else { return Ok(()) };
    Err(Error::input(format!("unknown key `{key}`")).help(advice(key, known())))
}

pub(super) fn unknown_kind(kind: &str) -> Error {
    Error::input(format!("`{kind}` is not a kind of question")).help(advice(kind, KINDS))
}

/// A required field.
pub(super) fn needed<'q, T>(field: &'q Option<T>, name: &str) -> Result<&'q T> {
    field.as_ref().ok_or_else(|| missing(name))
}

pub(super) fn missing(name: &str) -> Error {
    Error::input(format!("the question has no `{name}`"))
}

impl Value<'_> {
    /// As a finite number.
    pub fn number(&self, name: &str) -> Result<f64> {
        let number = match self {
            Self::Number(value) => Some(*value),
            Self::Text(text) => text.trim().parse().ok(),
        };
        number.filter(|v: &f64| v.is_finite()).ok_or_else(|| {
            Error::input(format!("`{name}` is not a finite number"))
                .at(format!("\"{name}\": {self}"))
        })
    }

    /// As a number of at least `least`.
    pub fn at_least(&self, name: &str, least: f64) -> Result<f64> {
        let value = self.number(name)?;
        if value < least {
            return Err(Error::input(format!("`{name}` must be at least {least}"))
                .at(format!("\"{name}\": {self}")));
        }
        Ok(value)
    }

    /// As a whole number of at least `least`.
    pub fn whole(&self, name: &str, least: u32) -> Result<u32> {
        let value = self.at_least(name, f64::from(least))?;
        if value.fract() != 0.0 || value > f64::from(u32::MAX) {
            return Err(Error::input(format!(
                "`{name}` must be a whole number up to {}",
                u32::MAX
            ))
            .at(format!("\"{name}\": {self}")));
        }
        Ok(value as u32)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

impl<'a> Question<'a> {
    /// The same with the contents of `params`, such as `P=4;tree=heap`, as separate fields.
    pub fn unfolded(mut self) -> Result<Self> {
        let Some(params) = self.params.take() else { return Ok(self) };
        for pair in params.split(';').filter(|pair| !pair.is_empty()) {
            let unknown = || {
                Error::input(format!("`{pair}` is not a parameter"))
                    .at(format!("\"params\": \"{params}\""))
                    .help("known: P, K, B, G, agg, fold, first, ag, style, tie and tree")
            };
            let (name, value) = pair.split_once('=').ok_or_else(unknown)?;
            let text = Some(Cow::Owned(value.to_owned()));
            let number = Some(Value::Text(Cow::Owned(value.to_owned())));
            match name {
                "P" => self.segments = number,
                "K" | "B" => self.radix = number,
                "G" => self.gpus_per_node = number,
                "agg" => self.agg = number,
                "fold" => self.fold = text,
                "first" => self.first = text,
                "ag" => self.ag = text,
                "style" => self.style = text,
                "tie" => self.tie = text,
                "tree" => self.tree = text,
                _ => return Err(unknown()),
            }
        }
        Ok(self)
    }

    pub fn kind(&self) -> Result<&str> {
        needed(&self.kind, "kind").map(AsRef::as_ref)
    }

    /// The collective; `None` if the question names none.
    pub fn collective(&self) -> Result<Option<Collective>> {
        let Some(name) = one_name(self.collective.as_deref(), self.primitive.as_deref())? else {
            return Ok(None);
        };
        // The usual spelling is compared without building a plain copy of the name.
        let usual = Collective::ALL.iter().find(|c| c.id() == name);
        usual.map_or_else(|| name.parse().map(Some), |&c| Ok(Some(c)))
    }

    pub fn ranks(&self) -> Result<u32> {
        needed(&self.n, "n")?.whole("n", 1)
    }

    pub fn size(&self) -> Result<Volume> {
        needed(&self.size_bytes, "size_bytes")?.at_least("size_bytes", 0.0).map(Volume)
    }

    pub fn segments(&self) -> Result<u32> {
        self.segments.as_ref().map_or(Ok(1), |p| p.whole("segments", 1))
    }

    /// Whether the limit for large vectors is requested instead of a number of segments.
    pub fn is_asymptotic(&self) -> bool {
        matches!(&self.segments, Some(Value::Text(text)) if text == "asymptotic")
    }

    pub fn alpha(&self) -> Result<Seconds> {
        time(&self.alpha_s, "alpha_s")
    }

    pub fn alpha_switch(&self) -> Result<Seconds> {
        time(&self.alpha_switch_s, "alpha_switch_s")
    }

    pub fn bandwidth(&self) -> Result<Bandwidth> {
        rate(&self.bandwidth, "bandwidth_Bps")
    }

    pub fn ports(&self) -> Result<Ports> {
        let unbounded = |t: &str| matches!(t, "unbounded" | "inf");
        let k = match &self.ports {
            Some(Value::Text(text)) if unbounded(text) => return Ok(Ports::Unbounded),
            Some(value) => value.whole("ports", 0)?,
            None => 1,
        };
        match (self.duplex.as_deref().unwrap_or("full"), Ports::full(k)) {
            ("full" | "fd", ports) => Ok(ports),
            ("half" | "hd", Ports::Full(k)) => Ok(Ports::Half(k)),
            ("half" | "hd", ports) => Ok(ports),
            (text, _) if unbounded(text) => Ok(Ports::Unbounded),
            (other, _) => Err(Error::input(format!("`{other}` is not a duplex mode"))
                .at(format!("\"duplex\": \"{other}\""))
                .help("write full, half or unbounded")),
        }
    }

    /// The algorithm's name, with the variants that tables write as parameters.
    pub fn algorithm(&self) -> Result<Cow<'_, str>> {
        let name: &str = needed(&self.algorithm, "algorithm")?;
        if matches!(name, "rabenseifner" | "rabenseifner_ar") {
            let half = self.fold.as_deref() == Some("half") && !self.ranks()?.is_power_of_two();
            return Ok(match (half, self.first.as_deref()) {
                (false, Some("far")) => "rabenseifner-far",
                (true, Some("far")) => "rabenseifner-half-fold-far",
                (true, _) => "rabenseifner-half-fold",
                _ => name,
            }
            .into());
        }
        Ok(match (name, self.ag.as_deref()) {
            ("scatter_allgather_bcast", Some("ring")) => "scatter-ring".into(),
            _ => name.into(),
        })
    }

    /// The shape that the question is about.
    pub fn shape(&self, collective: Collective) -> Result<Shape> {
        let params = Params {
            radix: self.radix.as_ref().map(|k| k.whole("K", 2)).transpose()?,
            aggregation: match &self.agg {
                Some(Value::Text(text)) if text == "none" || text.is_empty() => None,
                Some(a) => std::num::NonZeroU32::new(a.whole("agg", 1)?),
                None => None,
            },
            c_real: self.c_real.as_ref().map(|c| c.number("c_real")).transpose()?.map(Ratio),
            relay: match self.style.as_deref() {
                Some("chunk") => Relay::Chunk,
                _ => Relay::Aggregated,
            },
            tie: match self.tie.as_deref() {
                Some("split") => Tie::Split,
                _ => Tie::Right,
            },
            trees: match (self.tree.as_deref(), self.algorithm.as_deref()) {
                (Some("heap"), _) => Trees::Heap,
                (_, Some("dbt_ar" | "two_tree_bcast")) => Trees::Levels,
                _ => Trees::Coloured,
            },
            ..Params::default()
        };
        let group = self.gpus_per_node.as_ref().map(|g| g.whole("gpus_per_node", 1)).transpose()?;
        let group = group.and_then(std::num::NonZeroU32::new);
        let shape =
            Shape { params, group, ports: self.ports()?, ..Shape::new(collective, self.ranks()?) };
        Ok(shape.with_segments(if self.is_asymptotic() { 1 } else { self.segments()? }))
    }
}

/// A time in seconds, 0 or more.
pub(super) fn time(value: &Option<Value<'_>>, name: &str) -> Result<Seconds> {
    needed(value, name)?.at_least(name, 0.0).map(Seconds)
}

/// A rate in bytes per second, above 0.
pub(super) fn rate(value: &Option<Value<'_>>, name: &str) -> Result<Bandwidth> {
    let value = needed(value, name)?;
    let rate = value.number(name)?;
    if rate <= 0.0 {
        return Err(
            Error::input(format!("`{name}` must be above 0")).at(format!("\"{name}\": {value}"))
        );
    }
    Ok(Bandwidth(rate))
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Value<'de>, E> {
                Ok(Value::Number(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<Value<'de>, E> {
                Ok(Value::Number(value as f64))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<Value<'de>, E> {
                Ok(Value::Number(value as f64))
            }

            fn visit_borrowed_str<E: de::Error>(
                self,
                text: &'de str,
            ) -> std::result::Result<Value<'de>, E> {
                Ok(Value::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Value<'de>, E> {
                Ok(Value::Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
