//! Drafts from files: the reader for a file, the files that it names, and the layers of files.

use std::cell::Cell;
use std::path::Path;

use toml::{Table, Value};

use super::draft::Draft;
use super::model::Transformer;
use super::options::Beside;
use super::row::{Row, model, rows};
use super::{
    accelerate, automodel, bridge, deepspeed, huggingface, maxtext, mcore, megatron, nanotron,
    neox, serving, tensorrt, torchtitan, trainer, vllm_recipe, weights,
};
use crate::base::error::{Error, Result, nearest};
use crate::plan::table::{Files, joined};

/// The jobs of files; each file overrides those after it. Only the first may have several jobs.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn drafts(files: &dyn Files, names: &[String]) -> Result<Vec<Row>> {
    within(files, names, &Cell::new(MOST))
}

/// Files of a job, with those that they name.
const MOST: usize = 16;

/// The jobs of files, of which so many are left.
fn within(files: &dyn Files, names: &[String], left: &Cell<usize>) -> Result<Vec<Row>> {
    let texts = names.iter().map(|name| files.text(name)).collect::<Result<Vec<_>>>()?;
    let is_other = |at: usize| texts.get(at).is_some_and(|text| huggingface::is(text));
    let parts = neox::together(names, &texts, is_other);
    // A launch may name the YAML of its options, which is then no layer of its own.
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|at| is_yaml(&names[*at]));
    let mut layers: Vec<(usize, Vec<Row>)> = Vec::new();
    for at in order {
        let taken = |row: &Row| row.draft.taken.contains(&names[at]);
        if layers.iter().flat_map(|(_, rows)| rows).any(taken) {
            continue;
        }
        let rows = match parts.iter().position(|part| *part == at) {
            // Those of GPT-NeoX are read with the first of them.
            Some(1..) => continue,
            Some(0) => {
                let own = |at: &usize| (names[*at].as_str(), texts[*at].as_str());
                let own: Vec<_> = parts.iter().map(own).collect();
                vec![Row { draft: neox::read(&own)?, memory_only: false }]
            }
            None => read(files, &names[at], &texts[at], names, left)?,
        };
        layers.push((at, rows));
    }
    layers.sort_by_key(|(at, _)| *at);
    let mut layers = layers.into_iter().map(|(_, rows)| rows);
    let mut found = layers.next().unwrap_or_default();
    for base in layers {
        for row in &mut found {
            if let Some(base) = base.first() {
                row.draft = row.draft.clone().over(&base.draft);
            }
        }
    }
    for row in &mut found {
        if row.draft.name.is_empty() {
            row.draft.name = names.first().cloned().unwrap_or_default();
        }
    }
    Ok(found)
}

/// Whether `text` is a job in one of the formats and not a file of steps.
pub(crate) fn is_job(name: &str, text: &str) -> bool {
    if !name.ends_with(".toml") {
        return true;
    }
    const OWN: [&str; 5] = ["step", "budget", "include", "defaults", "preset"];
    let keys: Option<Table> = toml::from_str(text).ok();
    keys.is_some_and(|keys| !keys.is_empty() && !OWN.iter().any(|own| keys.contains_key(*own)))
}

fn read(
    files: &dyn Files,
    name: &str,
    text: &str,
    named: &[String],
    left: &Cell<usize>,
) -> Result<Vec<Row>> {
    left.set(left.get().checked_sub(1).ok_or_else(|| {
        Error::input(format!("files name each other: these are more than {MOST}"))
            .at(name.to_owned())
            .help("leave out the name of a file that is above it")
    })?);
    let one = |draft| vec![Row { draft, memory_only: false }];
    let beside = Beside { files, file: name, text, named };
    let mut found = if huggingface::is(text) {
        one(huggingface::read(text, name)?)
    } else if torchtitan::is(text) {
        one(torchtitan::read(text, name)?)
    } else if automodel::is(text, name) {
        one(automodel::read(text, name)?)
    } else if accelerate::is(text, name) {
        one(accelerate::read(text, name)?)
    } else if bridge::is(text) {
        one(bridge::read(text, name)?)
    } else if maxtext::is(text, name) {
        one(maxtext::read(text, name)?)
    } else if mcore::is(text, name) {
        one(mcore::read(text, name)?)
    } else if nanotron::is(text, name) {
        one(nanotron::read(text, name)?)
    } else if deepspeed::is(text) && !megatron::is(text) && !trainer::is(text, name) {
        one(deepspeed::read(text, name)?)
    } else if megatron::is(text) {
        one(megatron::read(text, name)?)
    } else if trainer::is(text, name) {
        one(trainer::read(text, name)?)
    } else if name.ends_with(".toml") {
        rows(text, name)?
    } else if tensorrt::is(text, name) {
        one(tensorrt::read(&beside)?)
    } else if vllm_recipe::is(text, name) {
        one(vllm_recipe::read(&beside)?)
    } else if serving::is(text, name) {
        one(serving::read(&beside)?)
    } else if neox::is_setting(text, name) {
        return Err(neox::unread(name));
    } else {
        return Err(unread(text).at(name.to_owned()));
    };
    for row in &mut found {
        if row.draft.name.is_empty() {
            name.clone_into(&mut row.draft.name);
        }
        row.draft = below(files, name, row.draft.clone(), left)?;
    }
    Ok(found)
}

/// Whether a file is YAML by its name.
pub(super) fn is_yaml(file: &str) -> bool {
    file.ends_with(".yaml") || file.ends_with(".yml")
}

/// Words by which a configuration is known to be of a program whose jobs are not read.
const OTHERS: [(&str, &[&str]); 14] = [
    ("verl", &["actor_rollout_ref"]),
    ("OpenRLHF", &["openrlhf.cli"]),
    ("Axolotl", &["axolotl train", "axolotl.cli.train"]),
    ("LLaMA-Factory", &["llamafactory-cli"]),
    ("Megatron-Bridge in Python", &["megatron.bridge", "megatron-bridge"]),
    (
        "NeMo on a command line or in Python",
        &["nemo_run", "nemo.collections", "trainer.num_nodes="],
    ),
    ("MaxText's benchmarks", &["benchmarks.benchmark_runner"]),
    ("MaxText's post-training", &["maxtext.trainers.post_train", "MaxText.sft", "MaxText.rl"]),
    ("LLM Foundry", &["\nmax_duration:", "llmfoundry"]),
    ("torchtune", &["_component_: torchtune"]),
    ("LitGPT", &["litgpt"]),
    ("Levanter", &["levanter"]),
    ("OLMo-core", &["olmo_core"]),
    ("ColossalAI", &["colossalai"]),
];

/// The program whose configuration a text is, if it is one of those.
fn other(text: &str) -> Option<&'static str> {
    let begins = |mark: &str| mark.strip_prefix('\n').is_some_and(|key| text.starts_with(key));
    let has = |mark: &&str| text.contains(mark) || begins(mark);
    OTHERS.iter().find(|(_, marks)| marks.iter().any(has)).map(|(name, _)| *name)
}

/// The refusal of a text that no reader takes.
fn unread(text: &str) -> Error {
    match other(text) {
        Some(name @ ("Axolotl" | "LLaMA-Factory")) => {
            Error::input(format!("this starts {name}, but its keys are not here"))
                .help("name the YAML that it is given")
        }
        Some(name) => Error::input(format!("this is a configuration of {name}, which is not read"))
            .help("write the job in TOML: model, gpus, layout, batch, sharding, machine"),
        None => Error::input("this file is not a known kind of job").help(
            "name a config.json, torchtitan's TOML, arguments of Megatron-LM or MaxText, a launch of Megatron-Bridge, \
             DeepSpeed's JSON, the YAML of Primus, NeMo 1, NeMo AutoModel, GPT-NeoX, nanotron or Accelerate, that of TRL, LLaMA-Factory or Axolotl, arguments of vLLM, SGLang or \
             TensorRT-LLM, or a job in TOML",
        ),
    }
}

/// Reads what a draft names: another configuration under `from`, and a model's `config.json`.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn beside(files: &dyn Files, file: &str, draft: Draft) -> Result<Draft> {
    below(files, file, draft, &Cell::new(MOST))
}

/// A file that another names: beside it, or where its launcher starts, which is where the command is or a folder above
/// the file.
fn beside_or_here(files: &dyn Files, file: &str, path: &str) -> String {
    let beside = joined(file, path);
    let above = Path::new(file).ancestors().skip(2);
    let above = above.map(|folder| folder.join(path).to_string_lossy().into_owned());
    let mut all = [beside.clone(), path.to_owned()].into_iter().chain(above);
    all.find(|path| files.text(path).is_ok()).unwrap_or(beside)
}

fn below(files: &dyn Files, file: &str, mut draft: Draft, left: &Cell<usize>) -> Result<Draft> {
    if let Some(from) = draft.get("from").map(str::to_owned) {
        let names: Vec<String> =
            from.split(',').map(|path| beside_or_here(files, file, path.trim())).collect();
        for mut base in within(files, &names, left)? {
            // The answer is headed by what was asked for.
            base.draft.name.clear();
            draft = draft.over(&base.draft);
        }
    }
    // Other names wait for the layers above: one of them may describe the model.
    let Some(name) = draft.model_name.take_if(|name| name.ends_with(".json")) else {
        return Ok(draft);
    };
    let path = joined(file, &name);
    let mut named = huggingface::read(&files.text(&path)?, &path)?;
    // A description by name replaces what a launch calls its model.
    named.described = None;
    draft.model = None;
    Ok(draft.over(&named))
}

const MODELS: &str = include_str!("models.toml");

/// Ends of repositories' names that say how a model was trained on, or how it was made shorter, not which widths it has.
const TUNED: [&str; 24] = [
    "instruct",
    "chat",
    "it",
    "base",
    "pt",
    "sft",
    "dpo",
    "hf",
    "thinking",
    "think",
    "reasoning",
    "plus",
    "zero",
    "terminus",
    "preview",
    "exp",
    "dynamic",
    "block",
    "static",
    "pertensor",
    "kv",
    "autoround",
    "quantized",
    "quark",
];

/// Ends that name the type of the weights, and the word for it; those that are ends of others come after them. NVIDIA's
/// copies call NVFP4 `FP4` as well.
const STORED: [(&str, &str); 20] = [
    ("bf16", "bf16"),
    ("mxfp8", "fp8"),
    ("fp8", "fp8"),
    ("gptq-int8", "w8a16"),
    ("int8", "int8"),
    ("w8a8", "int8"),
    ("w8a16", "w8a16"),
    ("awq-int4", "awq"),
    ("awq-4bit", "awq"),
    ("awq", "awq"),
    ("gptq", "gptq"),
    ("int4", "gptq"),
    ("w4a16", "gptq"),
    ("w4afp8", "w4afp8"),
    ("bnb-4bit", "nf4"),
    ("mxfp4", "mxfp4"),
    ("nvfp4-v2", "nvfp4"),
    ("nvfp4", "nvfp4"),
    ("fp4-v2", "nvfp4"),
    ("fp4", "nvfp4"),
];

/// A repository's name without its owner, or a flavor's, in lower case.
fn alone(name: &str) -> String {
    let lower = name.to_ascii_lowercase().replace(' ', "-");
    let own = lower.rsplit('/').next().unwrap_or(&lower);
    own.strip_prefix("meta-").unwrap_or(own).to_owned()
}

/// A name without its last word, if this is one of those ends or the month of a release (`2507`), and the type of the
/// weights if it names one.
fn shorter(name: &str) -> Option<(&str, Option<&'static str>)> {
    let without = |end: &str| name.strip_suffix(end)?.strip_suffix(['-', '.', '_']);
    let stored = STORED.iter().find_map(|(end, kind)| Some((without(end)?, Some(*kind))));
    let tuned = || TUNED.iter().find_map(|end| Some((without(end)?, None)));
    let month = || {
        let (before, end) = name.rsplit_once('-')?;
        (end.len() == 4 && end.bytes().all(|c| c.is_ascii_digit())).then_some((before, None))
    };
    stored.or_else(tuned).or_else(month)
}

/// A repository's name without its owner and those ends, in lower case, and the type of the weights
/// if it names one: `Qwen/Qwen3-235B-A22B-FP8` is `qwen3-235b-a22b` in fp8.
fn plain(name: &str) -> (String, Option<&'static str>) {
    let own = alone(name);
    let (mut rest, mut stored) = (own.as_str(), None);
    while let Some((before, kind)) = shorter(rest) {
        (rest, stored) = (before, stored.or(kind));
    }
    (rest.to_owned(), stored)
}

/// The letters that a name begins with, and the figures before its first size: `qwen` and `3.5` of
/// `qwen3.5-397b-a17b`. Another release is another model.
fn series(name: &str) -> (&str, String) {
    let letters = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
    let is_size =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with('b');
    let words = name.split('-').take_while(|word| !is_size(word));
    let figures = words.flat_map(str::chars).filter(|c| c.is_ascii_digit() || *c == '.');
    (&name[..letters], figures.collect())
}

/// The type of weights that a repository's name ends with.
pub(super) fn stored(name: &str) -> Option<&'static str> {
    plain(name).1
}

/// What a table says of a release, by the beginning of its name: its own, or what holds for most with these widths.
fn of_release<'a>(name: &str, widths: &'a Table, own: &str, most: &str) -> Option<&'a Value> {
    let alone_name = alone(name);
    let releases = widths.get(own).and_then(Value::as_table).into_iter().flatten();
    let mut release = releases.filter(|(release, _)| alone_name.starts_with(&alone(release)));
    release.next().map_or_else(|| widths.get(most), |(_, value)| Some(value))
}

/// The table of models.
fn table() -> Result<Table> {
    toml::from_str(MODELS)
        .map_err(|e| Error::environment(format!("the table of models: {}", e.message())))
}

/// The known model with the widths of another, that of the shortest name, and the size of its vocabulary.
pub(super) fn of_widths(model: &Transformer) -> Option<(String, u32)> {
    let widths = |m: &Transformer| (m.layers, m.hidden, m.ffn, m.gated, m.heads, m.attention);
    let known = |(name, own): (String, Value)| Some((name, self::model(own.as_table()?).ok()?));
    let known = table().ok()?.into_iter().filter_map(known);
    let same = known.filter(|(_, known)| widths(known) == widths(model));
    let (name, same) = same.min_by_key(|(name, _)| name.len())?;
    Some((name, same.vocab))
}

/// A model by a name of [`MODELS`], or by that of a repository with the same widths.
///
/// # Errors
/// It is unknown.
pub(crate) fn known(name: &str) -> Result<Draft> {
    let whole = table()?;
    fn names<'a>((key, widths): (&'a String, &'a Value)) -> impl Iterator<Item = &'a str> {
        let names = widths.get("names").and_then(Value::as_array).into_iter().flatten();
        std::iter::once(key.as_str()).chain(names.filter_map(Value::as_str))
    }
    let (bare, stored) = plain(name);
    let by = |same: &dyn Fn(&str) -> bool| whole.iter().find(|one| names(*one).any(same));
    let own = alone(name);
    let exact = by(&|other| alone(other) == own);
    let stored = stored.filter(|_| exact.is_none());
    let found = exact.or_else(|| by(&|other| plain(other).0 == bare));
    match found.and_then(|(_, widths)| widths.as_table()) {
        Some(widths) => {
            let family = widths.get("family").and_then(Value::as_str).map(str::to_owned);
            let mut draft = Draft { model: Some(model(widths)?), family, ..Draft::default() };
            let usual = || of_release(name, widths, "stored", "weights")?.as_str();
            draft.stored = stored.or_else(usual).map(str::to_owned);
            // Qwen's own copies in FP8 have scales of blocks, as DeepSeek's; other owners' and words have other scales.
            let lower = name.to_ascii_lowercase();
            let own = match lower.rsplit_once('/') {
                Some((owner, _)) => owner == "qwen" || owner.starts_with(['/', '.']),
                None => true,
            };
            if stored == Some("fp8")
                && own
                && alone(name).starts_with("qwen")
                && lower.ends_with("fp8")
            {
                draft.stored = Some(weights::BLOCKS.to_owned());
            }
            let longest = of_release(name, widths, "contexts", "context");
            draft.longest = longest.and_then(Value::as_integer).and_then(|n| n.try_into().ok());
            if let Some(kind) = widths.get("state_type").and_then(Value::as_str) {
                draft.put("state_type", kind)?;
            }
            if widths.contains_key("images") || alone(name).contains("-vl-") {
                draft.inferred.push(huggingface::IMAGES.to_owned());
            }
            let chunked = widths.contains_key("attention_chunk");
            draft.inferred.extend(draft.model.as_ref().and_then(huggingface::single));
            draft.inferred.extend(huggingface::unpriced(draft.model.as_ref(), chunked));
            Ok(draft)
        }
        None if name.contains('$') => {
            Err(Error::input(format!("only a run decides which model `{name}` is"))
                .help("write --set model=NAME, or name its config.json too"))
        }
        None => {
            let all: Vec<_> = whole.iter().flat_map(names).map(|n| (plain(n).0, n)).collect();
            let (letters, figures) = series(&bare);
            let same = all.iter().filter(|(bare, _)| series(bare).1 == figures);
            let near = nearest(&bare, same.map(|(bare, _)| bare.as_str()));
            let near = near.and_then(|near| all.iter().find(|(bare, _)| bare == near));
            let related: Vec<&str> =
                whole.keys().map(String::as_str).filter(|key| series(key).0 == letters).collect();
            let help = match near {
                Some((_, near)) => format!("did you mean `{near}`? or name its config.json too"),
                None if related.is_empty() => {
                    let mut all: Vec<&str> = whole.keys().map(|key| series(key).0).collect();
                    all.dedup();
                    format!("name its config.json too; known: models of {}", all.join(", "))
                }
                None => format!("name its config.json too; known: {}", related.join(", ")),
            };
            Err(Error::input(format!("the widths of `{name}` are not known")).help(help))
        }
    }
}
