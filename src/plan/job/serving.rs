//! Arguments of vLLM and SGLang: a command line, in a script, inside a page or in the YAML of Kubernetes
//! and Compose, or their own flat YAML.
//!
//! Sources: docs.vllm.ai (engine arguments); vllm-project/vllm, vllm/engine/arg_utils.py;
//! docs.sglang.io/advanced_features/server_arguments.html.

use super::arguments::{Arguments, is_off};
use super::container::{ran, statements_of};
use super::draft::Draft;
use super::files::{is_yaml, known};
use super::flags;
use super::options::Beside;
use super::serve::{COPIES, Doing, GATHER, REDUCE};
use super::shell::{Statement, statements};
use super::started::{Started, arguments, asked, degree, distinct, named, put_release, started};
use super::weights::by_checkpoint;
use crate::base::error::{Error, Result};
use crate::base::yaml::{Scalar, is_absent, scalars};
use crate::library::engines::{ENGINES, same};

/// Whether a text starts such a server, or has its arguments alone.
pub(super) fn is(text: &str, file: &str) -> bool {
    let names =
        COMMANDS.iter().chain(&BENCHES).chain([&IMAGE]).any(|(start, _)| text.contains(start));
    let key = |word: &str| KEYS.iter().any(|key| word.starts_with(key));
    let flag = |word: &str| word.strip_prefix("--").is_some_and(key);
    let all = statements(text);
    let in_words =
        |text: &str| text.split(|c: char| c.is_whitespace() || "\"'(=".contains(c)).any(flag);
    let yaml = is_yaml(file);
    names && (yaml || !servers(&all).is_empty())
        || yaml && (!servers(&ran(text)).is_empty() || text.contains("vllmConfig:"))
        || text.lines().map(|line| line.trim_start().trim_start_matches("- ")).any(key)
        || all.iter().any(|statement| in_words(&statement.text))
}

/// Arguments of a server that no other program has; also keys of its own file (`--config`).
const KEYS: [&str; 5] = [
    "model-path",
    "max-model-len",
    "gpu-memory-utilization",
    "tensor-parallel-size",
    "mem-fraction-static",
];

/// Whether a key of a file is one of them.
fn is_key(key: &str) -> bool {
    KEYS.contains(&&*key.replace('_', "-"))
}

/// What starts a server, and which engine that is.
const COMMANDS: [(&str, &str); 7] = [
    ("vllm serve", "vllm"),
    ("vllm.entrypoints", "vllm"),
    ("dynamo.vllm", "vllm"),
    ("sglang.launch_server", "sglang"),
    ("sglang serve", "sglang"),
    ("sglang_router.launch_server", "sglang"),
    ("dynamo.sglang", "sglang"),
];

/// Benchmarks that start an engine themselves, where no command starts a server.
const BENCHES: [(&str, &str); 4] = [
    ("vllm bench throughput", "vllm"),
    ("vllm bench latency", "vllm"),
    ("sglang.bench_one_batch", "sglang"),
    ("sglang.bench_offline_throughput", "sglang"),
];

/// vLLM's image, which starts the server with the arguments behind it, where no command does.
const IMAGE: (&str, &str) = ("/vllm-openai", "vllm");

/// Flags that change what runs, but are priced as if they were absent; those of one object may follow a dot.
const UNPRICED: [(&[&str], &str); 17] = [
    (
        &[
            "prefill-context-parallel-size",
            "-pcp",
            "attention-context-parallel-size",
            "attn-cp-size",
            "enable-prefill-cp",
        ],
        "context parallelism of prefills (and its further GPUs)",
    ),
    (
        &[
            "speculative-config",
            "-sc",
            "speculative-algorithm",
            "spec-method",
            "spec-model",
            "spec-tokens",
        ],
        "speculative decoding",
    ),
    (&["cpu-offload-gb"], "weights on the host"),
    (&["enforce-eager", "disable-cuda-graph"], "the host's launch of each kernel"),
    (&["enable-dp-lm-head"], "a head for each group"),
    (&["moe-dense-tp-size"], "a TP of its own for dense layers"),
    (&["moe-dp-size", "moe-data-parallel-size"], "replicas of experts"),
    (&["dwdp-size"], "weights of experts that other ranks hold"),
    (&["enable-layernorm-sp"], "norms on parts of the sequence"),
    (&["enable-eplb", "eplb-config", "ep-num-redundant-experts"], "redundant experts"),
    (
        &["enable-dbo", "enable-two-batch-overlap", "enable-single-batch-overlap"],
        "exchanges under the computing of another half of the batch",
    ),
    (&["kv-cache-memory-bytes", "kv-cache-memory"], "a cache of a given size"),
    (&["max-total-tokens"], "a cache of given tokens"),
    (&["num-gpu-blocks-override"], "a cache of given blocks"),
    (&["disable-hybrid-kv-cache-manager"], "layers with a window that keep all tokens"),
    (&["enable-lora", "lora-modules", "lora-paths"], "adapters"),
    (&["enable-pdmux"], "prefills and decoding at the same time"),
];

/// Flags of vLLM's compiler, which may have its settings as one object.
const COMPILER: [&str; 2] = ["compilation-config", "-cc"];

/// Its setting of all-reduces and norms in one kernel, as releases name it.
const FUSES: [&str; 2] =
    ["pass-config.fuse-allreduce-rms", "pass-config.enable-fi-allreduce-fusion"];

/// vLLM's exchange of tokens, as releases until 0.11 take it from the environment.
const BACKEND: &str = "VLLM_ALL2ALL_BACKEND";

/// Exchanges of tokens that are priced as another.
const LIKE: [(&str, &str); 2] = [
    ("deepep_v2", "DeepEP's second kernels as its first, of which times are known"),
    ("megamoe", "the exchange that is one kernel with the experts as an exchange alone"),
];

/// Whether a script starts a server.
pub(super) fn starts(all: &[Statement]) -> bool {
    !servers(all).is_empty()
}

/// Options that SGLang has and vLLM has not.
const SGLANG: [&str; 11] = [
    "model-path",
    "mem-fraction-static",
    "tp-size",
    "dp-size",
    "ep-size",
    "context-length",
    "chunked-prefill-size",
    "max-running-requests",
    "enable-dp-attention",
    "moe-a2a-backend",
    "disaggregation-mode",
];

/// The engine where no command starts it: SGLang if something names it, or by its arguments.
fn engine(names_sglang: bool, args: &Arguments) -> &'static str {
    let sglang = names_sglang || SGLANG.iter().any(|key| args.has(key));
    if sglang { "sglang" } else { "vllm" }
}

/// The servers of a script, each with its own part of a statement; none if nothing starts one.
fn servers(all: &[Statement]) -> Vec<Started> {
    let ways: [&[(&str, &'static str)]; 3] = [&COMMANDS, &BENCHES, &[IMAGE]];
    ways.iter().map(|way| started(all, way)).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Reads arguments of either server.
///
/// # Errors
/// Two servers that are not the same; groups that do not divide their ranks.
pub(super) fn read(beside: &Beside<'_>) -> Result<Draft> {
    let (text, file) = (beside.text, beside.file);
    let yaml = is_yaml(file);
    let all = statements_of(text, file);
    let described = if yaml { scalars(text) } else { Vec::new() };
    if let Some(places) = two_roles(&described) {
        // Other commands may stand beside tables of options.
        let in_table = |place: &&[String]| {
            let mut own = described.iter().filter_map(|one| one.path.strip_prefix(*place));
            own.any(|path| matches!(path, [key] if is_key(key)))
        };
        if yaml && servers(&all).is_empty() && places.iter().all(in_table) {
            return halves(&described, places);
        }
        let [one, other] = places.map(|place| place.join("."));
        let what =
            format!("it has the options of two servers: {one} prefills, and {other} decodes");
        return Err(Error::input(what).at(file.to_owned()).help("keep one of them in the file"));
    }
    let chart = of_chart(&described, file)?;
    if yaml && all.is_empty() {
        // Its own file has its keys at the top; in others they are somewhere below.
        let own = |one: &Scalar| matches!(&one.path[..], [key] if is_key(key));
        let flat = described.iter().any(own);
        let mut args = if flat { Arguments::default() } else { Arguments::of_yaml(text) };
        args.put_below(options(&described));
        args.put_below(chart.into_iter());
        let named = |one: &Scalar| one.path.iter().any(|part| part.contains("sglang"));
        let engine = engine(described.iter().any(named), &args);
        let mut draft = draft(&mut args, (engine, flat), None, &all, text)?;
        ask_for_spread(&described, &mut draft);
        return Ok(draft);
    }
    let plain: Vec<&str> = all.iter().map(|statement| statement.text.as_str()).collect();
    let text = &plain.join("\n");
    let servers = servers(&all);
    let Some(first) = servers.first() else {
        let mut args = Arguments::read(all.clone());
        args.put_below(chart.into_iter());
        let engine = engine(text.contains("sglang"), &args);
        let mut draft = draft(&mut args, (engine, false), None, &all, text)?;
        ask_for_spread(&described, &mut draft);
        return Ok(draft);
    };
    // Benchmarks have flags of their own.
    let serves = started(&all, &BENCHES).is_empty() || !started(&all, &COMMANDS).is_empty();
    let of = |servers: &[&Started]| {
        let mut args = arguments(servers, &all);
        let mut notes = (Vec::new(), Vec::new());
        if let Some(path) = args.any(&["config"]).map(str::to_owned) {
            // The command's own arguments are above those of its file.
            match beside.options(&path) {
                Some(found) => {
                    args.put_below(options(&scalars(&found.text)));
                    notes.1.extend(found.taken);
                }
                None => notes
                    .0
                    .push(format!("priced without the arguments of {path}, which is not there")),
            }
        }
        let called = servers.iter().find_map(|server| named(&server.statement.text));
        let engine = servers.first().map_or(first.engine, |s| s.engine);
        let mut draft = draft(&mut args, (engine, serves), called.as_deref(), &all, text)?;
        draft.inferred.extend(notes.0);
        draft.taken.extend(notes.1);
        ask_for_spread(&described, &mut draft);
        Ok(draft)
    };
    // Those of branches are one server, of which a run decides.
    let sure = distinct(&servers, "servers", file)?;
    let mut each = sure.iter().map(|server| of(&[*server])).collect::<Result<Vec<Draft>>>()?;
    // A command may only name the image, or what another starts.
    each.retain(|draft| draft.called.is_some());
    if let Some(differing) = each.iter().find(|other| !alike(&each[0], other)) {
        let [one, other] =
            [&each[0], differing].map(|draft| draft.called.clone().unwrap_or_default());
        let differs = ["engine", "tp", "dp", "pp", "ep"].iter().find_map(|key| {
            let [one, other] = [&each[0], differing].map(|draft| draft.get(key).unwrap_or("1"));
            (one != other).then(|| format!("one with {key} {one} and one with {key} {other}"))
        });
        let differs = differs.unwrap_or_else(|| "one prefills, and one decodes".to_owned());
        let what = match one == other {
            true => format!("it starts several servers of {one}: {differs}"),
            false => format!("it starts servers of {one} and of {other}"),
        };
        return Err(Error::input(what).at(file.to_owned()).help("keep one of them in the file"));
    }
    of(&servers.iter().collect::<Vec<_>>())
}

/// Whether two servers are the same, but for their addresses.
fn alike(one: &Draft, other: &Draft) -> bool {
    let degrees = |draft: &Draft| {
        ["engine", "tp", "dp", "pp", "ep"].map(|key| draft.get(key).map(str::to_owned))
    };
    (&one.called, one.only, degrees(one)) == (&other.called, other.only, degrees(other))
}

/// Where the options of a server that prefills are, and of one that decodes, if a file has both.
fn two_roles(all: &[Scalar]) -> Option<[&[String]; 2]> {
    let place = |role: &str| {
        all.iter().find_map(|one| {
            let (key, above) = one.path.split_last()?;
            let at = above.iter().position(|part| part.to_ascii_lowercase().contains(role))?;
            let is_own = is_key(key) || above[at..].iter().any(|p| p == SPREAD);
            is_own.then(|| &above[..=at])
        })
    };
    Some([place("prefill")?, place("decode")?]).filter(|[one, other]| one != other)
}

/// A draft of both, of which a key chooses one.
fn halves(all: &[Scalar], places: [&[String]; 2]) -> Result<Draft> {
    let half = |place: &[String], doing: Doing| {
        let own = all.iter().filter_map(|one| {
            let path = one.path.strip_prefix(place)?.to_vec();
            Some(Scalar { path, text: one.text.clone() })
        });
        let own: Vec<Scalar> = own.collect();
        let mut args = Arguments::default();
        args.put_below(options(&own));
        let engine = engine(place.iter().any(|part| part.contains("sglang")), &args);
        let mut half = draft(&mut args, (engine, true), None, &[], "")?;
        half.only = Some(doing);
        ask_for_spread(&own, &mut half);
        Ok(half)
    };
    let mut both = Draft::default();
    both.put("serve", "true")?;
    let [prefill, decode] = places;
    both.halves = vec![half(prefill, Doing::Prefill)?, half(decode, Doing::Decode)?];
    Ok(both)
}

/// The options in the values of vLLM's production-stack: `modelSpec[].vllmConfig.tensorParallelSize`, and `modelURL`.
///
/// # Errors
/// They are of several models.
fn of_chart(all: &[Scalar], file: &str) -> Result<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for one in all.iter().filter(|one| one.path.iter().any(|part| part == "modelSpec")) {
        let Some((key, above)) = one.path.split_last() else { continue };
        let in_table = above.last().is_some_and(|table| table == "vllmConfig");
        let option = match key.as_str() {
            "modelURL" => "model".to_owned(),
            _ if in_table && !is_absent(&one.text) => kebab(key),
            _ => continue,
        };
        match found.iter().find(|(known, _)| *known == option) {
            Some((_, text)) if *text != one.text => {
                let what = format!("it has servers with {option} {text} and {}", one.text);
                return Err(Error::input(what)
                    .at(file.to_owned())
                    .help("keep one of them in the file"));
            }
            Some(_) => {}
            None => found.push((option, one.text.clone())),
        }
    }
    Ok(found)
}

/// `tensorParallelSize` as an option has it: `tensor-parallel-size`.
fn kebab(key: &str) -> String {
    let mut plain = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            plain.push('-');
        }
        plain.push(letter.to_ascii_lowercase());
    }
    plain
}

/// The key below which llm-d's charts and KServe's LLMInferenceService have the degrees of a server.
const SPREAD: &str = "parallelism";

/// Asks for degrees that a chart or a service describes, whose templates are not here.
fn ask_for_spread(all: &[Scalar], draft: &mut Draft) {
    const DEGREES: [(&str, &str); 4] =
        [("tensor", "tp"), ("data", "dp"), ("pipeline", "pp"), ("expert", "ep")];
    for one in all.iter().filter(|one| !matches!(&*one.text, "1" | "false" | "")) {
        let [.., above, key] = &one.path[..] else { continue };
        let degree = DEGREES.iter().find(|(name, _)| above == SPREAD && name == key);
        draft.asked.extend(
            degree.map(|(_, degree)| format!("{degree} ({} {})", one.path.join("."), one.text)),
        );
    }
}

/// The options of a server's own file, by their path: `compilation-config.pass-config.fuse-allreduce-rms`. A switch that
/// is off counts as absent.
fn options(all: &[Scalar]) -> impl Iterator<Item = (String, String)> {
    let said = all.iter().filter(|one| one.path.len() > 1 || !is_absent(&one.text));
    said.map(|one| (one.option(), one.text.clone()))
}

/// The job of arguments of an engine's server; `text` may set variables. Whether flags that are not read are named
/// follows the engine.
fn draft(
    args: &mut Arguments,
    (engine, is_whole): (&str, bool),
    called: Option<&str>,
    ran: &[Statement],
    text: &str,
) -> Result<Draft> {
    args.rename(|key| flags::whole(key, engine));
    let args = &*args;
    let mut draft = Draft::default();
    draft.put("serve", "true")?;
    let sglang = engine == "sglang";
    let called = args.any(&["model-path", "model"]).or(called);
    // A folder or a variable says less than the name under which a known model is served.
    let is_place = called.is_none_or(|name| name.starts_with(['/', '$', '.']));
    let served = args.any(&["served-model-name"]).filter(|name| is_place && known(name).is_ok());
    if let Some(name) = served {
        draft.inferred.push(format!("model {name}: its --served-model-name"));
    }
    draft.called = served.or(called).map(str::to_owned);
    let mut degree = |key: &str, names: &[&str]| degree(&mut draft, args, key, names);
    let tp = degree("tp", &["tensor-parallel-size", "tp-size", "tp", "-tp"]);
    let dp = degree("dp", &["data-parallel-size", "dp-size", "dp", "-dp"]);
    let pp = degree("pp", &["pipeline-parallel-size", "pp-size", "pp", "-pp"]);
    let ep = degree("ep", &["expert-parallel-size", "ep-size", "ep"]);
    // SGLang's data-parallel attention is inside its TP; otherwise replicas are outside it.
    let apart = degree("dp", &["attention-data-parallel-size", "attn-dp-size"]).filter(|_| sglang);
    let inside = sglang && (args.has("enable-dp-attention") || apart.is_some_and(|dp| dp > 1));
    let (all, dp) = (tp.unwrap_or(1), apart.or(dp));
    let replicas = dp.unwrap_or(1);
    let attention = if inside { (all / replicas.max(1)).max(1) } else { all };
    if inside && replicas > 0 && !all.is_multiple_of(replicas) && tp.is_some() {
        let what = format!("tp {all} is not divided by its {replicas} groups of attention");
        return Err(Error::input(what).at("tp, dp").help("write a dp that divides tp"));
    }
    let of_ranks = |asked: &String| asked.starts_with("tp ") || asked.starts_with("dp ");
    let is_open = draft.asked.iter().any(of_ranks);
    let mut degrees = vec![("tp", tp.map(|_| attention)), ("dp", dp), ("pp", pp)];
    if inside && is_open {
        // The attention's TP follows from both.
        degrees.drain(..2);
        draft.asked.retain(|asked| !of_ranks(asked));
        draft.asked.push("tp (of attention: that of the server over its groups)".to_owned());
        draft.asked.push("dp (the groups of attention)".to_owned());
    }
    draft.of_all_groups = inside;
    let backend = args.any(&["all2all-backend", "moe-a2a-backend"]);
    let backend = backend.or_else(|| variable(text, BACKEND)).unwrap_or("");
    let deepep = backend.contains("deepep") || args.has("enable-deepep-moe");
    let spread = args.has("enable-expert-parallel") || args.has("-ep");
    let follows = match sglang {
        true if deepep || args.has("enable-ep-moe") || spans_tp(backend) => Some(all),
        false if spread => Some(attention.saturating_mul(replicas)),
        _ => None,
    };
    match follows {
        Some(_) if is_open => draft.asked.push("ep (all ranks that share experts)".to_owned()),
        follows => degrees.push(("ep", follows.or(ep))),
    }
    for (key, value) in degrees {
        if let Some(value) = value {
            draft.put(key, value.to_string())?;
        }
    }
    draft.captured = match args.number(&["cuda-graph-max-bs", "cuda-graph-max-bs-decode"]) {
        _ if args.has("disable-cuda-graph") => Some(0),
        found => found,
    };
    put_sizes(args, &mut draft, if inside { replicas.max(1) } else { 1 })?;
    put_release(engine, ran, &mut draft)?;
    draft.only = match args.any(&["disaggregation-mode"]) {
        Some("decode") => Some(Doing::Decode),
        Some("prefill") => Some(Doing::Prefill),
        // Dynamo's flags of vLLM's workers.
        _ if args.has("is-decode-worker") => Some(Doing::Decode),
        _ if args.has("is-prefill-worker") => Some(Doing::Prefill),
        _ => None,
    };
    // vLLM's backends name the kernels, SGLang's have a mode, by default by phase.
    let mode = args.any(&["deepep-mode"]).unwrap_or(if sglang { "auto" } else { backend });
    let exchange = match (sglang, backend) {
        _ if deepep && mode == "auto" => "deepep-auto",
        _ if deepep && mode.replace('-', "_").contains("low_latency") => "deepep-ll",
        _ if deepep => "deepep-normal",
        (true, named) if spans_tp(named) => COPIES,
        (true, _) if inside => GATHER,
        (true, _) => REDUCE,
        (false, "" | "naive" | "allgather_reducescatter") => GATHER,
        (false, _) => COPIES,
    };
    draft.put("all2all", exchange)?;
    let like = LIKE.iter().find(|(name, _)| backend.replace('-', "_") == *name);
    draft.inferred.extend(like.map(|(_, how)| format!("{backend}: {how}")));
    let switches = switches(args, engine, text);
    if !switches.is_empty() {
        draft.put("env", switches.join(" "))?;
    }
    if args.has("disable-custom-all-reduce") {
        draft.put("custom_all_reduce", "false")?;
    }
    if let Some(fused) = fused_norm(args, sglang) {
        draft.put("fused_norm", fused.to_string())?;
    }
    if matches!(args.any(&["dtype"]), Some("float32" | "float")) {
        draft.inferred.push("priced with elements of 16 bits, not of 32".to_owned());
    }
    for (flags, what) in UNPRICED {
        if flags.iter().filter(|flag| args.has_part(flag)).count() > 0 {
            draft.inferred.push(format!("priced without {what}"));
        }
    }
    if compiles_otherwise(args) {
        draft.inferred.push("priced without another compilation than the usual one".to_owned());
    }
    if args.any(&["cuda-graph-backend-decode"]) == Some("disabled") {
        let what = "priced without the host's launch of each kernel";
        draft.inferred.push(what.to_owned());
    }
    draft.inferred.extend(args.open());
    if is_whole {
        draft.inferred.extend(flags::unread(args, engine));
    }
    Ok(draft)
}

/// The last value that a text gives a variable: `NAME=value`, or `name: NAME` and `value: …` in YAML.
fn variable<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let given = text.match_indices(name).filter_map(|(at, _)| {
        let behind = &text[at + name.len()..];
        let sets = ["=", ": ", " value: "].iter().find_map(|sign| behind.strip_prefix(sign))?;
        let value = sets.trim_start_matches(['"', '\'']);
        let value = value.split(|c: char| c.is_whitespace() || "\"';&|,\\".contains(c)).next()?;
        (!text[..at].ends_with(is_name) && !value.is_empty()).then_some(value)
    });
    given.last()
}

/// The sizes that arguments say; SGLang counts some of `groups` of its data-parallel attention together.
fn put_sizes(args: &Arguments, draft: &mut Draft, groups: u32) -> Result<()> {
    const COPIED: [(&str, &[&str]); 9] = [
        ("dcp", &["decode-context-parallel-size", "dcp-size", "-dcp"]),
        ("sequences", &["max-num-active-seqs", "max-num-seqs"]),
        (
            "utilization",
            &["gpu-memory-utilization", "device-memory-utilization", "mem-fraction-static"],
        ),
        ("cache_type", &["kv-cache-dtype"]),
        ("state_type", &["mamba-ssm-cache-dtype", "mamba-ssm-dtype"]),
        ("quantization", &["quantization", "-q"]),
        ("context", &["max-model-len", "context-length"]),
        ("sequences", &["max-running-requests"]),
        ("chunk", &["max-num-batched-tokens", "chunked-prefill-size"]),
    ];
    let share = |all: u32| (all / groups).max(1).to_string();
    for (key, names) in COPIED {
        let Some(value) = args.any(names) else { continue };
        if value.contains(['$', '{', '`']) {
            draft.undecided.push((key, format!("{key} {value}, which only a run decides,")));
            continue;
        }
        match key {
            "quantization" if by_checkpoint(value).is_none() => draft.put("weights_type", value)?,
            "context" if matches!(value, "auto" | "-1") => {
                draft.inferred.push("the length that fits is asked for: set context".to_owned());
            }
            "chunk" if value == "-1" => {
                draft.inferred.push("prompts in one piece are asked for: set chunk".to_owned());
            }
            "context" | "chunk" | "sequences" | "dcp" => {
                let of_all = key == "chunk" || names.contains(&"max-running-requests");
                match counted(value).parse::<u32>() {
                    Ok(all) if of_all => draft.put(key, share(all))?,
                    Ok(each) => draft.put(key, each.to_string())?,
                    Err(_) => draft.asked.push(asked(args, key, names, value)),
                }
            }
            "utilization" if value.parse::<f64>().is_err() => {
                draft.asked.push(asked(args, key, names, value));
            }
            _ => draft.put(key, value)?,
        }
    }
    if args.any(&["performance-mode"]) == Some("throughput") {
        let what =
            "priced without twice the sequences and the chunk of --performance-mode: set both";
        draft.inferred.push(what.to_owned());
    }
    Ok(())
}

/// What the rules of all-reduces read of an engine's flags and of variables in a text, as `NAME=VALUE`.
fn switches(args: &Arguments, engine: &str, text: &str) -> Vec<String> {
    let known = ENGINES.iter().filter(|known| known.id == engine).flat_map(|of| of.variables);
    // These have keys of their own.
    let own = ["enable_flashinfer_allreduce_fusion", "disable_custom_all_reduce"];
    let known = known.filter(|name| !own.iter().any(|own| same(name, own)));
    let set = |name: &&&str| {
        let flag = name.replace('_', "-");
        let typed = args.get(&flag).map(|value| if value.is_empty() { "1" } else { value });
        let value = typed.or_else(|| variable(text, name))?;
        let is_plain = !value.is_empty() && !value.contains(['$', '{', '`', ' ']);
        is_plain.then(|| format!("{name}={value}"))
    };
    known.filter_map(|name| set(&name)).collect()
}

/// Whether flags say that all-reduces and norms are one kernel, or that they are not: vLLM's pass belongs to
/// optimization level 2 (vllm/config/vllm.py), SGLang has flags for it (python/sglang/srt/server_args.py).
fn fused_norm(args: &Arguments, sglang: bool) -> Option<bool> {
    let has = |flags: &[&str]| flags.iter().any(|flag| args.has(flag));
    match sglang {
        true if has(&["enforce-disable-flashinfer-allreduce-fusion"]) => Some(false),
        true => has(&["enable-flashinfer-allreduce-fusion", "flashinfer-allreduce-fusion-backend"])
            .then_some(true),
        false => {
            let low = matches!(args.any(&["optimization-level", "-O"]), Some("0" | "1"));
            let low = low || has(&["enforce-eager", "-O0", "-O1"]);
            let mut said = settings(args).into_iter().filter(|(key, _)| FUSES.contains(&&**key));
            said.next().map(|(_, value)| !is_off(&value)).or(low.then_some(false))
        }
    }
}

/// The settings of vLLM's compiler: of its object, or with flags of their own.
fn settings(args: &Arguments) -> Vec<(String, String)> {
    let parts = COMPILER.iter().flat_map(|flag| args.parts(flag));
    let parts = parts.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let object = args.any(&COMPILER).filter(|value| value.starts_with('{'));
    let object = scalars(object.unwrap_or_default()).into_iter();
    parts.chain(object.map(|one| (one.option(), one.text))).collect()
}

/// Whether flags choose another compilation, but for what is read of it.
fn compiles_otherwise(args: &Arguments) -> bool {
    let all = settings(args);
    let level = ["optimization-level", "-O0", "-O1", "-O"].iter().any(|flag| args.has(flag));
    let has = COMPILER.iter().any(|flag| args.has(flag));
    level || has && all.is_empty() || all.iter().any(|(key, _)| !FUSES.contains(&&**key))
}

/// Whether SGLang spreads experts over all ranks of TP, whatever `--ep-size` says: every exchange of
/// tokens does, except those that leave TP's all-reduce in place (`_A2A_EP_SPANNING_BACKENDS` in
/// sgl-project/sglang, python/sglang/srt/arg_groups/overrides.py).
fn spans_tp(backend: &str) -> bool {
    !matches!(backend, "" | "none" | "ascend_tp")
}

/// A count as vLLM reads it: `128k` is 128,000 and `128K` is 131,072 (`human_readable_int`,
/// vllm/utils/argparse_utils.py). What is no such count is unchanged.
fn counted(text: &str) -> String {
    let scaled = |unit: char, by: f64| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some((number * by).floor().to_string())
    };
    let found = [('k', 1e3), ('K', 1024.0), ('m', 1e6), ('M', 1_048_576.0)];
    found.into_iter().find_map(|(unit, by)| scaled(unit, by)).unwrap_or_else(|| text.to_owned())
}
