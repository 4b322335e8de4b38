//! Jobs in TOML: one at the top of a file or several under `[[run]]`, with `[model.NAME]` and
//! `[machine.NAME]` beside them.
//!
//! ```toml
//! gpus = 64
//! layout = { tp = 4, pp = 8, dp = 2, sequence_parallel = true, chunks_per_stage = 5 }
//! sharding = "zero1, gradients kept and reduced in fp32"
//! batch = { global = 256, micro = 1, sequence = 8192 }
//! precision = "fp8"
//!
//! [model]
//! layers = 80
//! hidden = 8192
//! # …
//! [machine]
//! profile = "dgx-h100"
//! ```

use toml::{Table, Value};

use super::draft::{Draft, KEYS};
use super::model::{Attention, Experts, Heads, Indexer, Linear, Rule, Small, Transformer, Window};
use crate::base::error::{Error, Result, advice, did_you_mean};
use crate::base::text_pos::Refused;

/// The keys for the source of a table's values, and for measurements.
const BESIDE: &[&str] = &[
    "id",
    "name",
    "source",
    "step_from",
    "tflops_per_gpu",
    "tokens_per_s_per_gpu",
    "rate_convention",
    "trust",
    "not_stated",
    "peak_memory",
    "kind",
    "where",
    "url",
    "fits",
    "peak_GiB",
    "model_note",
];

/// The keys of a model's widths.
const MODEL: &[&str] = &[
    "layers",
    "hidden",
    "ffn",
    "heads",
    "kv_heads",
    "head_dim",
    "vocab",
    "gated",
    "tied_embeddings",
    "learned_positions",
    "dense_layers",
    "mla",
    "compressed",
    "moe",
    "window",
    "indexer",
    "keys_are_values",
    "reusing",
    "per_layer",
    "attention_gate",
    "linear",
    "params_by_formula",
    "active_by_formula",
];
/// The same of its tables.
const TABLES: [(&str, &[&str]); 6] = [
    ("mla", &["q_lora", "kv_lora", "rope", "nope", "v"]),
    ("compressed", &["query", "rope", "groups", "rank", "sparse", "heavy"]),
    ("moe", &["layers", "experts", "top_k", "ffn", "shared_ffn", "gated", "latent"]),
    ("window", &["layers", "tokens", "heads", "kv_heads", "head_dim", "reusing"]),
    ("indexer", &["layers", "heads", "width", "tokens"]),
    ("linear", &["rule", "layers", "key_heads", "key", "value_heads", "value", "kernel"]),
];

/// A job of a file, and whether only its memory is computed.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub draft: Draft,
    pub memory_only: bool,
}

/// The jobs of a text, in their order.
///
/// # Errors
/// Invalid TOML; a value that must be a table; a missing width of a model.
pub(crate) fn rows(text: &str, file: &str) -> Result<Vec<Row>> {
    let whole: Table = toml::from_str(text).map_err(|e| Refused::new(&e, text).error(file))?;
    let mut rows = Vec::new();
    for (key, memory_only) in [("run", false), ("memory", true)] {
        let listed: Vec<&Table> = match whole.get(key) {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_table).collect(),
            Some(Value::Table(one)) => vec![one],
            _ => Vec::new(),
        };
        for table in listed {
            let described = ["model", "machine", "sequence"].iter().all(|k| table.contains_key(*k));
            if memory_only && !described {
                // Rows of formulas, without a machine.
                continue;
            }
            let draft = draft(table, &whole).map_err(|e| e.within(&label(table, file)))?;
            rows.push(Row { draft, memory_only });
        }
    }
    if rows.is_empty() {
        let draft = draft(&whole, &whole).map_err(|e| e.within(file))?;
        // A row of only peaks or limits: it has no step.
        let peaks = ["peak_GiB", "peak_memory", "device_GB", "fits"];
        let memory_only = !draft.says_batch() && peaks.iter().any(|key| whole.contains_key(*key));
        rows.push(Row { draft, memory_only });
    }
    Ok(rows)
}

fn label(table: &Table, file: &str) -> String {
    let id = table.get("id").and_then(Value::as_str);
    id.map_or(file.to_owned(), |id| format!("{file}, {id}"))
}

fn draft(table: &Table, whole: &Table) -> Result<Draft> {
    let mut draft = Draft::default();
    for key in ["id", "name"] {
        if let Some(name) = table.get(key).and_then(Value::as_str) {
            name.clone_into(&mut draft.name);
        }
    }
    for (key, value) in table {
        match (key.as_str(), value) {
            ("model", Value::Table(widths)) if widths.contains_key("layers") => {
                draft.model = Some(described(widths)?);
            }
            ("model", Value::String(name)) => match named(whole, "model", name, "layers") {
                Some(widths) => draft.model = Some(described(widths)?),
                None => draft.model_name = Some(name.clone()),
            },
            ("machine", Value::Table(figures)) if has_figures(figures) => {
                machine(figures, &mut draft)?
            }
            ("machine", Value::String(name)) => match named(whole, "machine", name, "device") {
                Some(figures) => machine(figures, &mut draft)?,
                None => draft.put("machine", name.clone())?,
            },
            ("layout", Value::Table(degrees)) => {
                for (key, value) in degrees {
                    put(&mut draft, key, value)?;
                }
            }
            ("batch", Value::Table(batch)) => {
                for (key, value) in batch {
                    let key = match key.as_str() {
                        "global" => "global_batch",
                        "micro" => "micro_batch",
                        other => other,
                    };
                    put(&mut draft, key, value)?;
                }
            }
            ("micro", value) => put(&mut draft, "micro_batch", value)?,
            ("anchor", Value::Table(own)) => {
                draft.anchor = Some(Box::new(self::draft(own, whole)?));
            }
            ("anchor", value) => {
                let mut own = Draft::default();
                put(&mut own, "step_s", value)?;
                draft.anchor = Some(Box::new(own));
            }
            ("peak_memory", Value::Table(peak)) => {
                if let Some(kind) = peak.get("kind") {
                    put(&mut draft, "memory_kind", kind)?;
                }
            }
            ("device_GB", value) => put(&mut draft, "memory_GB", value)?,
            (key, value) if KEYS.contains(&key) => put(&mut draft, key, value)?,
            ("run" | "memory" | "source" | "model" | "machine", _) => {}
            (key, _) if BESIDE.contains(&key) => {}
            (key, _) => draft.unread.push(key.to_owned()),
        }
    }
    Ok(draft)
}

/// A table of machines by name contains only tables.
fn has_figures(table: &Table) -> bool {
    table.values().any(|value| !value.is_table())
}

/// The table of a name; or the only one, if it has no name and a key of its kind.
fn named<'a>(whole: &'a Table, kind: &str, name: &str, own: &str) -> Option<&'a Table> {
    let tables = whole.get(kind)?.as_table()?;
    tables.get(name).and_then(Value::as_table).or(tables.contains_key(own).then_some(tables))
}

fn put(draft: &mut Draft, key: &str, value: &Value) -> Result<()> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            words.join(",")
        }
        Value::Table(_) => {
            return Err(Error::input(format!("`{key}` is not a table")).help("write a value"));
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(yes) => yes.to_string(),
        Value::Datetime(when) => when.to_string(),
    };
    draft.put(key, text)
}

fn machine(table: &Table, draft: &mut Draft) -> Result<()> {
    for (key, value) in table {
        if KEYS.contains(&key.as_str()) {
            put(draft, key, value)?;
        } else if !BESIDE.contains(&key.as_str()) && !value.is_table() {
            let what = format!("unknown key `{key}` of a job's machine");
            let links = "its links are those of its profile: machine = FILE, or --set machine=FILE";
            return Err(Error::input(what)
                .help(did_you_mean(key, KEYS.iter().copied(), || links.to_owned())));
        }
    }
    Ok(())
}

/// A model from its widths, all of which are known: one that is left out makes another model.
fn described(table: &Table) -> Result<Transformer> {
    only(table, MODEL, "a model")?;
    let is_flag = |key: &str| {
        ["gated", "tied_embeddings", "keys_are_values", "attention_gate"].contains(&key)
    };
    let is_part = |key: &str| TABLES.iter().any(|(name, _)| *name == key);
    let odd = table
        .iter()
        .find(|(key, value)| is_flag(key) && !value.is_bool() || is_part(key) && !value.is_table());
    if let Some((key, _)) = odd {
        let help = if is_flag(key) { "write true or false" } else { "write a table: { … }" };
        return Err(
            Error::input(format!("`{key}` of a model has another kind of value")).help(help)
        );
    }
    for (name, keys) in TABLES {
        if let Some(inner) = table.get(name).and_then(Value::as_table) {
            only(inner, keys, &format!("`{name}`"))?;
        }
    }
    model(table)
}

fn only(table: &Table, keys: &[&str], of: &str) -> Result<()> {
    let unknown = table.iter().find(|(key, value)| {
        let beside = BESIDE.contains(&key.as_str())
            || value.as_table().is_some_and(|one| one.contains_key("hidden"));
        !keys.contains(&key.as_str()) && !beside
    });
    match unknown {
        Some((key, _)) => {
            Err(Error::input(format!("unknown key `{key}` of {of}")).help(advice(key, keys)))
        }
        None => Ok(()),
    }
}

fn width(table: &Table, key: &str) -> Result<Option<u32>> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let number = value.as_integer().and_then(|n| u32::try_from(n).ok());
    number.map(Some).ok_or_else(|| {
        Error::input(format!("`{key}` is not a width"))
            .at(key.to_owned())
            .help("write a whole number")
    })
}

/// A switch of a part of a model.
fn is_on(part: &Table, key: &str) -> Result<Option<bool>> {
    let Some(value) = part.get(key) else { return Ok(None) };
    value.as_bool().map(Some).ok_or_else(|| {
        Error::input(format!("`{key}` is neither true nor false"))
            .at(key.to_owned())
            .help("write true or false")
    })
}

/// A width that a part of a model must have.
fn of_part(part: &Table, name: &str, key: &str) -> Result<u32> {
    width(part, key)?.ok_or_else(|| Error::input(format!("`{name}` has no `{key}`")))
}

/// How tokens change the states of linear attention.
fn rule(linear: &Table) -> Result<Rule> {
    match linear.get("rule").map(Value::as_str) {
        None | Some(Some("delta")) => Ok(Rule::Delta),
        Some(Some("kda")) => Ok(Rule::Channels { gate: true }),
        Some(Some("kda narrow")) => Ok(Rule::Channels { gate: false }),
        Some(Some("mamba2")) => Ok(Rule::StateSpace),
        Some(_) => Err(Error::input("`rule` of `linear` is not a known rule")
            .at("rule")
            .help("write \"delta\", \"kda\", \"kda narrow\" or \"mamba2\"")),
    }
}

/// A model from its widths.
pub(super) fn model(table: &Table) -> Result<Transformer> {
    let needed = |key: &str| {
        width(table, key)?.ok_or_else(|| {
            Error::input(format!("the model has no `{key}`")).help(format!("write {key} = …"))
        })
    };
    let flag = |key: &str| table.get(key).and_then(Value::as_bool);
    let (hidden, heads) = (needed("hidden")?, needed("heads")?);
    let gated = flag("gated").unwrap_or(true);
    let head = width(table, "head_dim")?.unwrap_or(hidden / heads.max(1));
    let attention = match table.get("mla").and_then(Value::as_table) {
        Some(mla) => {
            let of = |key: &str| Ok::<_, Error>(width(mla, key)?.unwrap_or(0));
            Attention::Latent {
                query: of("q_lora")?,
                latent: of("kv_lora")?,
                rope: of("rope")?,
                nope: of("nope")?,
                value: of("v")?,
            }
        }
        None => match table.get("compressed").and_then(Value::as_table) {
            Some(compressed) => {
                let of = |key: &str| of_part(compressed, "compressed", key);
                Attention::Compressed {
                    query: of("query")?,
                    head,
                    rope: of("rope")?,
                    groups: of("groups")?,
                    rank: of("rank")?,
                    sparse: of("sparse")?,
                    heavy: of("heavy")?,
                }
            }
            None => {
                Attention::Grouped { kv_heads: width(table, "kv_heads")?.unwrap_or(heads), head }
            }
        },
    };
    let layers = needed("layers")?;
    let experts = match table.get("moe").and_then(Value::as_table) {
        None => None,
        Some(moe) => {
            let of = |key: &str| of_part(moe, "moe", key);
            Some(Experts {
                layers: width(moe, "layers")?.unwrap_or(layers),
                experts: of("experts")?,
                top_k: of("top_k")?,
                ffn: of("ffn")?,
                shared: width(moe, "shared_ffn")?.unwrap_or(0),
                router_bias: false,
                bias: false,
                gated: is_on(moe, "gated")?.unwrap_or(true),
                latent: width(moe, "latent")?,
            })
        }
    };
    let window = match table.get("window").and_then(Value::as_table) {
        None => None,
        Some(window) => {
            let of = |key: &str| of_part(window, "window", key);
            let own = |key: &str, usual| Ok::<_, Error>(width(window, key)?.unwrap_or(usual));
            let differs =
                ["heads", "kv_heads", "head_dim"].iter().any(|key| window.contains_key(*key));
            let own = Heads {
                heads: own("heads", heads)?,
                kv_heads: own("kv_heads", width(table, "kv_heads")?.unwrap_or(heads))?,
                head: own("head_dim", head)?,
            };
            Some(Window {
                layers: of("layers")?.min(layers),
                tokens: of("tokens")?,
                own: differs.then_some(own),
                reusing: width(window, "reusing")?.unwrap_or(0),
            })
        }
    };
    let indexer = match table.get("indexer").and_then(Value::as_table) {
        None => None,
        Some(indexer) => {
            let of = |key: &str| of_part(indexer, "indexer", key);
            Some(Indexer {
                layers: of("layers")?.min(layers),
                heads: of("heads")?,
                width: of("width")?,
                tokens: of("tokens")?,
            })
        }
    };
    let linear = match table.get("linear").and_then(Value::as_table) {
        None => None,
        Some(linear) => {
            let of = |key: &str| of_part(linear, "linear", key);
            Some(Linear {
                rule: rule(linear)?,
                layers: of("layers")?.min(layers),
                key_heads: of("key_heads")?,
                key: of("key")?,
                value_heads: of("value_heads")?,
                value: of("value")?,
                kernel: of("kernel")?,
            })
        }
    };
    let h = u64::from(hidden);
    let states = linear.map_or(0, |one| u64::from(one.layers) * one.small());
    // Only norms, or also the biases of GPT's products.
    let small = match gated {
        true => Small { layer: 2 * h, outside: h + states },
        false => Small { layer: 9 * h + 4 * h, outside: 2 * h + states },
    };
    Ok(Transformer {
        layers,
        hidden,
        ffn: needed("ffn")?,
        gated,
        dense: width(table, "dense_layers")?,
        heads,
        attention,
        keys_are_values: flag("keys_are_values").unwrap_or(false),
        reusing: width(table, "reusing")?.unwrap_or(0),
        per_layer: width(table, "per_layer")?.unwrap_or(0),
        attention_gate: flag("attention_gate").unwrap_or(false),
        linear,
        vocab: needed("vocab")?,
        tied: flag("tied_embeddings").unwrap_or(false),
        positions: width(table, "learned_positions")?.unwrap_or(0),
        experts,
        window,
        indexer,
        small,
        summed_once: false,
    })
}
