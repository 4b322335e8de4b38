//! A step from its table: `[step.NAME]` of a file, over a preset, overridden by the command line.

use std::num::NonZeroU32;
use std::str::FromStr;

use toml::de::DeValue;

use super::{
    Axis, Compute, From, Hides, Mode, Model, OwnCall, OwnGroup, Parallel, Routing, Shard, Step,
    Sync,
};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::{Asked, Bytes, Ratio, Seconds, scale_of_parameters};
use crate::machine::sample::DataType;
use crate::plan::bucket::Limit;
use crate::plan::table::{Faults, Fields, Layer, Machines, parameters};

/// The keys of a step, besides those of a machine.
pub const KEYS: &[&str] = &[
    "preset",
    "mode",
    "params",
    "expert_params",
    "layers",
    "hidden",
    "kv_hidden",
    "sequence",
    "batch",
    "microbatches",
    "dtype",
    "grad_dtype",
    "compress",
    "tp",
    "sp",
    "cp",
    "dp",
    "pp",
    "ep",
    "order",
    "shard",
    "shard_size",
    "reshard",
    "every",
    "bucket",
    "experts",
    "top_k",
    "moe_layers",
    "node_limit",
    "skew",
    "dispatch_dtype",
    "all2all",
    "engine",
    "forward",
    "backward",
    "compute",
    "kernels",
    "call",
];

const CALL_KEYS: &[&str] = &["name", "collective", "group", "size", "count", "algorithm", "hides"];

/// A count of parameters, such as `70B`.
struct Params(u64);

impl FromStr for Params {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::input(format!("`{text}` is not a number of parameters"))
                .help("write 70B, 350M or 7e9")
        };
        let plain = text.trim().replace('_', "");
        let digits = plain.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale = scale_of_parameters(&plain[digits.len()..]).ok_or_else(refuse)?;
        let count = digits.parse::<f64>().map_err(|_| refuse())? * scale;
        if !(1.0..1e18).contains(&count) {
            return Err(refuse());
        }
        Ok(Self(count.round() as u64))
    }
}

/// A rank's arithmetic, such as `400TFLOP/s`.
struct Flops(f64);

impl FromStr for Flops {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const UNITS: [(&str, f64); 3] = [("TFLOP", 1e12), ("GFLOP", 1e9), ("PFLOP", 1e15)];
        let refuse = || {
            Error::input(format!("`{text}` is not a rate of arithmetic"))
                .help("write what a rank reaches, such as 400TFLOP/s")
        };
        let plain = text.trim().trim_end_matches("/s").trim_end_matches(['s', 'S']);
        let found = UNITS.iter().find_map(|(unit, scale)| Some((plain.strip_suffix(unit)?, scale)));
        let (number, scale) = found.ok_or_else(refuse)?;
        let rate = number.trim().parse::<f64>().map_err(|_| refuse())? * scale;
        if rate.is_finite() && rate > 0.0 { Ok(Self(rate)) } else { Err(refuse()) }
    }
}

/// A number of at least 1.
struct Skew(f64);

impl FromStr for Skew {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().parse::<f64>() {
            Ok(x) if x.is_finite() && x >= 1.0 => Ok(Self(x)),
            _ => Err(Error::input(format!("`{text}` is not a skew"))
                .help("write the busiest rank's tokens over the mean, such as 1.5")),
        }
    }
}

impl FromStr for Axis {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = [Self::Tp, Self::Cp, Self::Dp, Self::Pp, Self::Ep];
        known.into_iter().find(|a| a.id() == text).ok_or_else(|| {
            Error::input(format!("`{text}` is not a kind of parallelism"))
                .help("known: tp, cp, dp, pp and ep")
        })
    }
}

/// The steps of a file: names with their tables. A step that is not a table is a fault.
pub fn steps<'a>(layer: Layer<'a>, faults: &'a Faults) -> Vec<(&'a str, Layer<'a>)> {
    let Some(found) = layer.table.get("step") else { return Vec::new() };
    let refuse = |start: usize, what: String| {
        let place = layer.document.place(&(start..start));
        let help = Some("write [step.NAME] on its own line".to_owned());
        faults.borrow_mut().push(crate::plan::table::Fault::new(layer.file, place, what, help));
    };
    let Some(table) = found.get_ref().as_table() else {
        refuse(found.span().start, "`step` is a table of steps".to_owned());
        return Vec::new();
    };
    let mut steps = Vec::new();
    for (name, value) in table {
        match value.get_ref().as_table() {
            Some(table) => {
                let start = name.span().start;
                steps.push((name.get_ref().as_ref(), Layer { table, start, ..layer }));
            }
            None => refuse(value.span().start, format!("`{}` is not a step", name.get_ref())),
        }
    }
    steps
}

/// Reads a step from its layers, the nearest first; a preset that they name must be among them. If
/// they name no machine, that of `settings` is used. Faults are kept in `faults`, and then there is
/// no step.
pub fn read<'a>(
    name: &str,
    layers: Vec<Layer<'a>>,
    settings: &[Layer<'a>],
    machines: &Machines<'_>,
    faults: &'a Faults,
) -> Option<Step> {
    let before = faults.borrow().len();
    let fields = Fields::new(layers, "a step", faults).over(settings);
    let known: Vec<&str> = KEYS.iter().copied().chain(parameters(false).map(|p| p.key)).collect();
    fields.only(&known);
    let step = fill(name, &fields, machines, faults);
    step.filter(|_| faults.borrow().len() == before)
}

fn fill<'a>(
    name: &str,
    fields: &Fields<'a>,
    machines: &Machines<'_>,
    faults: &'a Faults,
) -> Option<Step> {
    let count = |key: &str, absent: u32| {
        let read = fields.read::<crate::plan::table::Count>(key);
        read.map_or(absent, |c| c.0.get())
    };
    let dtype = |key: &str, absent: DataType| fields.read(key).unwrap_or(absent);
    let mode = fields.read::<Mode>("mode").unwrap_or_default();
    let machine = machines.entry(fields);
    let weights = dtype("dtype", DataType::Bf16);
    let needed = |key: &str, what: &str| {
        if !fields.has(key) {
            fields.fault(key, format!("the step has no `{key}`"), format!("write {key} = {what}"));
        }
    };
    let own = own_calls(fields, faults);
    // A step with only its own calls needs no model.
    let alone = !own.is_empty() && !fields.has("layers");
    if !alone {
        needed("params", "\"70B\"");
        needed("layers", "80");
        needed("hidden", "8192");
    }
    let model = Model {
        params: fields.read::<Params>("params").map_or(0, |p| p.0),
        expert_params: fields.read::<Params>("expert_params").map_or(0, |p| p.0),
        layers: count("layers", 1),
        hidden: count("hidden", 1),
        kv_hidden: count("kv_hidden", count("hidden", 1)),
        sequence: if mode == Mode::Decoding { 1 } else { count("sequence", 4096) },
        batch: count("batch", 1),
        dtype: weights,
        moe_layers: count("moe_layers", count("layers", 1)),
        routing: routing(fields, weights),
    };
    let parallel = parallel(fields, machine.as_ref().and_then(|m| m.said.layout.per_node));
    let sync = Sync {
        shard: fields.read::<Shard>("shard").unwrap_or_default(),
        shard_size: count("shard_size", parallel.dp.saturating_mul(parallel.cp)),
        reshard: fields.flag("reshard", true),
        dtype: dtype("compress", dtype("grad_dtype", weights)),
        every: count("every", 1),
        cap: fields.read::<Bytes>("bucket").map(Limit::Bytes),
    };
    check(fields, &model, &parallel, &sync, mode);
    let engine = fields.text("engine").filter(|name| {
        let known = crate::library::is_engine(name);
        if !known {
            let what = format!("`{name}` is not an inference engine");
            fields.fault(
                "engine",
                what,
                "write vllm, sglang or tensorrt-llm, with @RELEASE or without",
            );
        }
        known
    });
    let compute = compute(fields, &model, &parallel, mode);
    Some(Step {
        name: name.to_owned(),
        mode,
        machine: machine?,
        model: if alone { Model { params: 0, ..model } } else { model },
        parallel,
        sync,
        engine,
        compute,
        own,
    })
}

fn routing(fields: &Fields<'_>, weights: DataType) -> Option<Routing> {
    let count = |key: &str| fields.read::<crate::plan::table::Count>(key).map(|c| c.0.get());
    let experts = count("experts");
    let (top_k, node_limit) = (count("top_k"), count("node_limit"));
    let skew = fields.read::<Skew>("skew");
    let dispatch = fields.read::<DataType>("dispatch_dtype");
    let kernels = fields.text("all2all").and_then(|text| {
        let known = super::moe::KERNELS.into_iter().find(|k| *k == text);
        if known.is_none() {
            let help = format!("write {}", super::moe::KERNELS.join(" or "));
            fields.fault(
                "all2all",
                format!("`{text}` is not a kind of kernels between experts"),
                &help,
            );
        }
        known
    });
    if experts.is_none() {
        for key in
            ["ep", "top_k", "node_limit", "skew", "dispatch_dtype", "all2all", "expert_params"]
        {
            if fields.has(key) && fields.text(key).as_deref() != Some("1") {
                fields.fault(
                    key,
                    format!("`{key}` needs a model with experts"),
                    "write experts = 64",
                );
            }
        }
    }
    Some(Routing {
        experts: experts?,
        top_k: top_k.unwrap_or(2),
        node_limit,
        skew: Ratio(skew.map_or(1.0, |s| s.0)),
        dispatch: dispatch.unwrap_or(weights),
        kernels,
    })
}

fn parallel(fields: &Fields<'_>, per_node: Option<NonZeroU32>) -> Parallel {
    let read = |key: &str| fields.read::<crate::plan::table::Count>(key).map(|c| c.0.get());
    let order = fields.text("order").map_or(Axis::ORDER.to_vec(), |text| {
        let axes: Result<Vec<Axis>> = text.split([',', '-']).map(|a| a.trim().parse()).collect();
        let mut order = match axes {
            Ok(order) => order,
            Err(error) => {
                fields.error("order", &error);
                return Axis::ORDER.to_vec();
            }
        };
        let twice = order.iter().enumerate().any(|(i, a)| order[..i].contains(a));
        if twice || order.contains(&Axis::Ep) {
            let help = "name tp, cp, dp and pp once each; ep is inside dp, next to tp";
            fields.fault("order", format!("`{text}` is not an order of the ranks"), help);
        }
        let left: Vec<Axis> = Axis::ORDER.into_iter().filter(|a| !order.contains(a)).collect();
        order.extend(left);
        order
    });
    Parallel {
        tp: read("tp").unwrap_or(1),
        sequence: fields.flag("sp", false),
        cp: read("cp").unwrap_or(1),
        dp: read("dp").unwrap_or(1),
        pp: read("pp").unwrap_or(1),
        ep: read("ep").unwrap_or(1),
        order,
        per_node: per_node.map(NonZeroU32::get),
        microbatches: read("microbatches").unwrap_or(1),
    }
}

/// The most ranks of a step; placing a group visits each rank once.
const MOST: u64 = 1 << 22;

/// Checks keys that are valid alone but contradict each other.
fn check(fields: &Fields<'_>, model: &Model, parallel: &Parallel, sync: &Sync, mode: Mode) {
    let replicas = u64::from(parallel.dp) * u64::from(parallel.cp);
    if parallel.ranks() > MOST {
        let what = format!("{} ranks are more than a step may have", parallel.ranks());
        fields.fault("dp", what, format!("use at most {MOST}"));
    }
    if !replicas.is_multiple_of(u64::from(parallel.ep)) {
        let what = format!("{} ranks of experts do not divide {replicas} replicas", parallel.ep);
        fields.fault("ep", what, "EP is inside DP (and CP): write a divisor of it");
    }
    if !replicas.is_multiple_of(u64::from(sync.shard_size)) {
        let what = format!("parts of {} replicas do not divide {replicas}", sync.shard_size);
        fields.fault("shard_size", what, "write a divisor of dp");
    }
    if parallel.pp > model.layers && model.params > 0 {
        let what = format!("{} stages for {} layers", parallel.pp, model.layers);
        fields.fault("pp", what, "write at most as many stages as layers");
    }
    if model.moe_layers > model.layers {
        let what = format!("{} layers with experts of {}", model.moe_layers, model.layers);
        fields.fault("moe_layers", what, "write at most as many as there are layers");
    }
    if model.expert_params > model.params {
        fields.fault(
            "expert_params",
            "more parameters of experts than in total",
            "params counts all",
        );
    }
    if let Some(routing) = model.routing {
        if routing.top_k > routing.experts {
            let what = format!("{} experts per token of {}", routing.top_k, routing.experts);
            fields.fault("top_k", what, "write at most as many as there are experts");
        }
        if !routing.experts.is_multiple_of(parallel.ep) {
            let what =
                format!("{} experts do not divide over {} ranks", routing.experts, parallel.ep);
            fields.fault("ep", what, "write a divisor of the experts");
        }
    }
    if mode == Mode::Decoding {
        for key in ["shard", "every", "compress", "bucket", "microbatches", "backward"] {
            if fields.has(key) {
                let what = format!("`{key}` does not apply to decoding, which sums nothing");
                fields.fault(key, what, "leave it out, or write mode = \"training\"");
            }
        }
    }
}

/// The passes as given, or by arithmetic: 2 operations per parameter and token forward, 4 back.
fn compute(fields: &Fields<'_>, model: &Model, parallel: &Parallel, mode: Mode) -> Option<Compute> {
    let (forward, backward) =
        (fields.read::<Seconds>("forward"), fields.read::<Seconds>("backward"));
    // The nearest one applies: a step's own rate of one kind replaces its preset's of the other.
    let rates = [("kernels", From::Kernels), ("compute", From::EndToEnd)];
    let nearest = rates.into_iter().filter(|(key, _)| fields.has(key));
    let nearest = nearest.min_by_key(|(key, _)| fields.depth(key));
    if let Some((key, from)) = nearest
        && let Some(Flops(rate)) = fields.read::<Flops>(key)
    {
        if forward.is_some() || backward.is_some() {
            let help = format!("leave out {key}, or forward and backward");
            fields.fault(key, "the passes are given, but also follow from arithmetic", help);
        }
        let routed = model.routing.map_or(1.0, |r| f64::from(r.top_k) / f64::from(r.experts));
        let dense = model.params.saturating_sub(model.expert_params) as f64;
        let active = dense + routed * model.expert_params as f64;
        let tokens = f64::from(model.sequence) * f64::from(model.batch) / f64::from(parallel.cp);
        let one = 2.0 * active * tokens / f64::from(parallel.tp) / f64::from(parallel.pp) / rate;
        let (forward, backward) = (Seconds(one), Seconds(2.0 * one));
        return Some(Compute { forward, backward, from });
    }
    match (forward, backward, mode) {
        (Some(forward), Some(backward), _) => {
            Some(Compute { forward, backward, from: From::Given })
        }
        (Some(forward), None, Mode::Decoding) => {
            Some(Compute { forward, backward: Seconds(0.0), from: From::Given })
        }
        // A backward pass takes twice the time of the forward one: two products for one.
        (None, Some(backward), _) => {
            Some(Compute { forward: backward * Ratio(0.5), backward, from: From::Given })
        }
        (Some(forward), None, Mode::Training) => {
            Some(Compute { forward, backward: forward * Ratio(2.0), from: From::Given })
        }
        (None, None, _) => None,
    }
}

fn own_calls<'a>(fields: &Fields<'a>, faults: &'a Faults) -> Vec<OwnCall> {
    let Some((layer, found)) = fields.find("call") else { return Vec::new() };
    let Some(list) = found.get_ref().as_array() else {
        fields.fault("call", "`call` is a list of tables", "write [[step.NAME.call]]");
        return Vec::new();
    };
    let mut calls = Vec::new();
    for (i, item) in list.iter().enumerate() {
        let DeValue::Table(table) = item.get_ref() else {
            fields.fault("call", "a call is a table", "write [[step.NAME.call]]");
            continue;
        };
        let own = Layer { table, start: item.span().start, ..*layer };
        let own = Fields::new(vec![own], "[[step.….call]]", faults);
        own.only(CALL_KEYS);
        calls.extend(own_call(&own, i));
    }
    calls
}

fn own_call(fields: &Fields<'_>, number: usize) -> Option<OwnCall> {
    let collective = fields.read::<Collective>("collective");
    let typed = fields.read("size").map(|Asked(size)| size);
    let size = match collective.map(|collective| collective.sized(typed)) {
        Some(Ok(size)) => size,
        Some(Err(error)) => {
            fields.error("size", &error);
            return None;
        }
        None => typed,
    };
    for (key, has) in
        [("collective", fields.has("collective")), ("size", fields.has("size") || size.is_some())]
    {
        if !has {
            fields.fault(key, format!("the call has no `{key}`"), "every call has both");
        }
    }
    let group = match fields.text("group") {
        None => OwnGroup::All,
        Some(text) => match (text.parse::<NonZeroU32>(), text.parse::<Axis>()) {
            (Ok(ranks), _) => OwnGroup::Ranks(ranks.get()),
            (_, Ok(axis)) => OwnGroup::Axis(axis),
            (_, Err(error)) => {
                fields.error("group", &error.or_help("or write a number of ranks"));
                return None;
            }
        },
    };
    let hides = match fields.text("hides").as_deref() {
        None | Some("nothing") => Hides::Nothing,
        Some("forward") => Hides::Forward,
        Some("backward") => Hides::Backward,
        Some(other) => {
            let known = ["nothing", "forward", "backward"];
            let help = did_you_mean(other, known, || "write forward or backward".to_owned());
            fields.fault("hides", format!("`{other}` cannot hide a call"), help);
            return None;
        }
    };
    Some(OwnCall {
        name: fields.text("name").unwrap_or_else(|| format!("call {}", number + 1)),
        collective: collective?,
        group,
        size: size?,
        count: fields.read::<crate::plan::table::Count>("count").map_or(1, |c| c.0.get()),
        algorithm: fields.text("algorithm"),
        hides,
    })
}
