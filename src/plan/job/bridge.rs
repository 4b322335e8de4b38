//! Launches of Megatron-Bridge's benchmarks: what their arguments say, and the recipe that they name.
//!
//! Sources: github.com/NVIDIA-NeMo/Megatron-Bridge at 067f987 (August 2026), `scripts/performance/argument_parser.py` and
//! `utils/overrides.py`: arguments and what they change; `src/megatron/bridge/perf_recipes`: the recipes of `recipes.csv`,
//! without nine whose experts are spread over more ranks than a stage has.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::arguments::Arguments;
use super::container::statements_of;
use super::draft::Draft;
use super::megatron;
use super::shell::as_written;
use super::started::{Started, alike, distinct, trainings};
use crate::base::error::{Error, Result};

const SCRIPTS: [&str; 3] = ["setup_experiment.py", "run_script.py", "run_recipe.py"];

/// The argument that names a recipe, which every launch has. Releases 0.1 and 0.2 have a name and a size.
const NAMED: [&str; 4] = ["--model_recipe_name", "--model-recipe-name", "-mr ", "--model_size"];

/// Short names of arguments, and others than Megatron's.
const NAMES: [(&str, &str); 19] = [
    ("-mr", "model-recipe-name"),
    ("-ng", "num-gpus"),
    ("-g", "gpu"),
    ("-c", "compute-dtype"),
    ("-tp", "tensor-model-parallel-size"),
    ("-pp", "pipeline-model-parallel-size"),
    ("-cp", "context-parallel-size"),
    ("-ep", "expert-model-parallel-size"),
    ("-et", "expert-tensor-parallel-size"),
    ("-vp", CHUNKS),
    ("virtual-pipeline-model-parallel-size", CHUNKS),
    ("-gb", "global-batch-size"),
    ("-mb", "micro-batch-size"),
    ("-sl", "seq-length"),
    ("-rl", "recompute-num-layers"),
    ("-ol", "cpu-offloading-num-layers"),
    ("activation-offload-layers", "cpu-offloading-num-layers"),
    ("optimizer-type", "optimizer"),
    ("moe-a2a-overlap", "overlap-moe-expert-parallel-comm"),
];
const CHUNKS: &str = "num-virtual-stages-per-pipeline-rank";

/// What launches of one script also share, if they are one.
const COMPARED: &[&str] = &[
    "task",
    "recompute-modules",
    "use-megatron-fsdp",
    "cuda-graph-impl",
    "moe-flex-dispatcher-backend",
];

/// Arguments that make another model.
const WIDTHS: [&str; 4] = ["num-layers", "hidden-size", "num-moe-experts", "first-k-dense-replace"];

/// The machine of a kind of GPU.
const MACHINES: [(&str, &str); 5] = [
    ("h100", "dgx-h100"),
    ("b200", "dgx-b200"),
    ("b300", "dgx-b300"),
    ("gb200", "gb200-nvl72"),
    ("gb300", "gb300-nvl72"),
];

/// Types of products, and Megatron's arguments for them.
const TYPES: [(&str, &[(&str, &str)]); 6] = [
    ("bf16", &[]),
    ("fp8cs", &[("fp8-format", "hybrid"), ("fp8-recipe", "tensorwise")]),
    ("fp8ds", &[("fp8-format", "hybrid"), ("fp8-recipe", "delayed")]),
    ("fp8sc", &[("fp8-format", "hybrid"), ("fp8-recipe", "blockwise")]),
    ("fp8mx", &[("fp8-format", "e4m3"), ("fp8-recipe", "mxfp8")]),
    ("nvfp4", &[("fp4-format", "e2m1"), ("fp4-recipe", "nvfp4")]),
];

/// The layout of a model's pre-training on so many GPUs of a kind, for a type of products.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Recipe {
    recipe: String,
    gpus: u32,
    gpu: String,
    #[serde(rename = "type")]
    kind: String,
    tp: u32,
    pp: u32,
    cp: u32,
    chunks: u32,
    ep: u32,
    global: u32,
    micro: u32,
    sequence: u32,
    /// Whether it shards by Megatron's FSDP.
    fsdp: String,
    /// Modules, or `block` and layers, that run again.
    again: String,
    dispatcher: String,
    /// Whether CUDA graphs replay a part of a step or all of it.
    graphs: String,
    fused: String,
    /// What runs beside computation.
    beside: String,
    /// Layers whose activations are kept on the host.
    offloaded: Option<u32>,
}

impl Recipe {
    fn replicas(&self, gpus: u32) -> Option<u32> {
        gpus.checked_div(self.tp * self.pp * self.cp)
    }

    /// Megatron's arguments for it.
    fn arguments(&self) -> Vec<(&'static str, String)> {
        let counts = [
            ("tensor-model-parallel-size", self.tp),
            ("pipeline-model-parallel-size", self.pp),
            ("context-parallel-size", self.cp),
            ("expert-model-parallel-size", self.ep),
            // TP divides no recipe's experts.
            ("expert-tensor-parallel-size", 1),
            (CHUNKS, self.chunks),
            ("global-batch-size", self.global),
            ("micro-batch-size", self.micro),
            ("seq-length", self.sequence),
        ];
        let mut all: Vec<_> = counts.map(|(key, count)| (key, count.to_string())).into();
        let mut put = |key, value: &str| all.push((key, value.to_owned()));
        match self.again.strip_prefix("block ") {
            Some(layers) => put("recompute-num-layers", layers),
            None if self.again.is_empty() => {}
            None => put("recompute-modules", &self.again),
        }
        for (word, key) in [
            ("gradients", "overlap-grad-reduce"),
            ("params", "overlap-param-gather"),
            ("tp", "tp-comm-overlap"),
            ("ep", "overlap-moe-expert-parallel-comm"),
        ] {
            if self.beside.split(' ').any(|one| one == word) {
                put(key, "true");
            }
        }
        if !self.fsdp.is_empty() {
            put("use-megatron-fsdp", "true");
        }
        if !self.dispatcher.is_empty() {
            put("moe-flex-dispatcher-backend", &self.dispatcher);
        }
        if !self.graphs.is_empty() {
            put("cuda-graph-impl", &self.graphs);
        }
        if !self.fused.is_empty() {
            put("use-transformer-engine-op-fuser", "true");
            put("moe-mlp-glu-interleave-size", "32");
        }
        all
    }
}

const RECIPES: &str = include_str!("recipes.csv");

fn recipes() -> Result<Vec<Recipe>> {
    let all = csv::Reader::from_reader(RECIPES.as_bytes()).into_deserialize();
    all.collect::<std::result::Result<_, _>>()
        .map_err(|e| Error::environment(format!("the table of recipes: {e}")))
}

/// Whether a text is such a launch.
pub(super) fn is(text: &str) -> bool {
    [&SCRIPTS[..], &NAMED].iter().all(|marks| marks.iter().any(|mark| text.contains(mark)))
}

/// Reads a launch.
///
/// # Errors
/// Several launches that differ; a fine-tuning.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let all = statements_of(text, file);
    let mut found = trainings(&all, &NAMED);
    // What is before its script is of a launcher: `srun -c 16`.
    for one in &mut found {
        let from = SCRIPTS.iter().find_map(|script| one.statement.text.find(script)).unwrap_or(0);
        one.statement.text.drain(..from);
    }
    let sure = distinct(&found, "trainings", file)?;
    let mut args = match sure.is_empty() {
        true => Arguments::read(all.clone()),
        false => {
            let names = NAMES.iter().flat_map(|(short, whole)| [short, whole]);
            alike(&sure, &all, names.chain(COMPARED), file)?
        }
    };
    args.rename(|key| NAMES.iter().find(|(name, _)| *name == key).map(|(_, whole)| *whole));
    let mut draft = Draft { starts: true, inferred: args.open().collect(), ..Draft::default() };
    if let Some(task) = args.any(&["task"]).filter(|task| *task != "pretrain") {
        return Err(Error::input(format!("recipes of Megatron-Bridge for {task} are not known"))
            .at(format!("{file}: --task"))
            .help("write the job in TOML: model, gpus, layout, batch, sharding, machine"));
    }
    // Modules are set after layers (`_set_recompute_overrides`), and both above the recipe's.
    if let Some(modules) = args.any(&["recompute-modules"]).map(|all| all.replace(',', " ")) {
        args.set("recompute-modules", modules);
        args.put_usual("recompute-granularity", "selective");
    } else if args.number(&["recompute-num-layers"]) == Some(0) {
        args.put_usual("recompute-granularity", "none");
    }
    let changed: Vec<&str> = WIDTHS.into_iter().filter(|key| args.has(key)).collect();
    if !changed.is_empty() {
        draft.asked.push(format!("model (--{})", changed.join(", --")));
    }
    draft.unread.extend(overridden(&sure));
    take_recipe(&mut args, &mut draft)?;
    for (given, key, value) in [
        ("recompute-num-layers", "recompute-granularity", "full"),
        ("recompute-num-layers", "recompute-method", "block"),
        ("recompute-modules", "recompute-granularity", "selective"),
    ] {
        if args.has(given) {
            args.put_usual(key, value);
        }
    }
    // `_benchmark_common` (perf_recipes/_common.py).
    for key in ["bf16", "grad-reduce-in-bf16"] {
        args.put_usual(key, "true");
    }
    // Muon's states are not shared (recipes/kimi/h100/kimi_k2.py).
    if args.any(&["optimizer"]) != Some("muon") {
        args.put_usual("use-distributed-optimizer", "true");
    }
    // Tokens between products are divided wherever products are.
    args.put_usual("sequence-parallel", "true");
    // A default that is switched off is not there, either.
    args.without_off();
    let dispatcher = args.any(&["moe-flex-dispatcher-backend"]).unwrap_or("alltoall").to_owned();
    args.put_usual("moe-token-dispatcher-type", &dispatcher);
    megatron::put(&args, true, &mut draft)?;
    Ok(draft)
}

/// Keys that a launch sets behind its arguments (`model.num_layers=4`).
fn overridden(launches: &[&Started]) -> Vec<String> {
    let is_key = |key: &str| {
        key.contains('.') && key.chars().all(|c| c.is_ascii_lowercase() || "._+~".contains(c))
    };
    let words = launches.iter().flat_map(|one| one.statement.text.split_whitespace());
    let words = words.filter(|word| word.split_once('=').is_some_and(|(key, _)| is_key(key)));
    words.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Puts the model, the machine and its GPUs, and below the launch's own arguments those of its recipe.
fn take_recipe(args: &mut Arguments, draft: &mut Draft) -> Result<()> {
    let name = match (args.any(&["model-recipe-name"]), args.any(&["model-size"])) {
        (None, Some(size)) => format!("{}_{size}", args.any(&["model-name"]).unwrap_or("")),
        (name, _) => name.unwrap_or("").to_owned(),
    };
    let name = name.to_ascii_lowercase();
    draft.called = Some(repository(&name));
    let said = args.any(&["gpu"]).unwrap_or("");
    let gpu = said.to_ascii_lowercase();
    match MACHINES.iter().find(|(kind, _)| *kind == gpu) {
        Some((_, machine)) => draft.put("machine", *machine)?,
        None => draft.asked.push(format!("machine (--gpu {})", as_written(said))),
    }
    let gpus = args.number(&["num-gpus"]);
    match gpus {
        Some(gpus) => draft.put("gpus", gpus.to_string())?,
        None => {
            let said = as_written(args.any(&["num-gpus"]).unwrap_or(""));
            draft.asked.push(format!("gpus ({})", format!("--num_gpus {said}").trim_end()));
        }
    }
    let mut kind = args.any(&["compute-dtype"]).unwrap_or("bf16").replace('_', "");
    if kind == "fp8" {
        kind.push_str(args.any(&["fp8-recipe"]).unwrap_or(""));
    }
    match TYPES.iter().find(|(own, _)| *own == kind) {
        Some((_, own)) => own.iter().for_each(|(key, value)| args.set(key, *value)),
        None => draft.asked.push(format!("precision (--compute_dtype {kind})")),
    }
    if name == "kimi_k2" {
        args.put_usual("optimizer", "muon");
    }
    let mut all = recipes()?;
    all.retain(|one| {
        one.recipe == name && one.gpu == gpu && one.kind == kind && !args.has("use-recipes")
    });
    // Of another number of GPUs the batch of a replica is kept (`weak_scaled_global_batch_size`).
    let exact = all.iter().find(|one| Some(one.gpus) == gpus);
    let Some(recipe) = exact.or_else(|| all.iter().max_by_key(|one| one.gpus)) else {
        let asked = [
            ("tp", "tensor-model-parallel-size"),
            ("pp", "pipeline-model-parallel-size"),
            ("micro_batch", "micro-batch-size"),
            ("global_batch", "global-batch-size"),
            ("sequence", "seq-length"),
        ];
        for (key, _) in asked.into_iter().filter(|(_, flag)| !args.has(flag)) {
            draft.asked.push(format!("{key} (no recipe of {name} on {gpu} in {kind} is known)"));
        }
        return Ok(());
    };
    let mut recipe = recipe.clone();
    let called = format!("{name}_pretrain_{}gpu_{gpu}_{kind}_config", recipe.gpus);
    draft.inferred.push(format!("layout of Megatron-Bridge's {called}, of August 2026"));
    if let (None, Some(gpus), None) = (exact, gpus, args.get("global-batch-size")) {
        let [own, base] = [gpus, recipe.gpus].map(|gpus| recipe.replicas(gpus).unwrap_or(0));
        let scaled = u64::from(recipe.global) * u64::from(own) / u64::from(base.max(1));
        recipe.global = u32::try_from(scaled).unwrap_or(u32::MAX);
        draft.inferred.push(format!("{} sequences: as many a replica as there", recipe.global));
    }
    if let Some(layers) = recipe.offloaded {
        draft.unread.push(format!("activations of {layers} layers on the host"));
    }
    for (key, value) in recipe.arguments() {
        args.put_usual(key, &value);
    }
    Ok(())
}

/// The repository whose widths a recipe's model has.
fn repository(name: &str) -> String {
    match name {
        "llama31_405b" => "llama3-405b".to_owned(),
        _ => name.replace('_', "-"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::estimate;
    use super::super::{Framework, Job, Precision, Wires, tests};
    use super::*;
    use crate::base::order::rising;
    use crate::model::algorithm::Registry;

    fn launched(text: &str) -> Draft {
        tests::draft("run.sh", text.to_owned().leak())
    }

    fn job(text: &str) -> Job {
        tests::job("run.sh", text.to_owned().leak(), &[])
    }

    const PUBLISHED: &str = include_str!("../../../tests/data/published_recipes.csv");

    /// Of those may be some that are off by more than a fifth: gpt-oss in 16 bits and Mamba-2 beside experts are predicted
    /// too short, Kimi K2 too long.
    const FAR: [&str; 4] = ["gpt_oss_120b ", "kimi_k2 ", "nemotron_3_", "qwen3_30b_a3b h100"];

    /// A step that Megatron-Bridge published for a recipe.
    #[derive(Deserialize)]
    struct Published {
        recipe: String,
        gpus: u32,
        gpu: String,
        #[serde(rename = "type")]
        kind: String,
        release: String,
        tokens_per_s_per_gpu: f64,
    }

    /// docs/performance-summary.md and its archive: recipes whose layout is that of the table's. Rates of dense products on
    /// Blackwell were fitted to seven of them, nothing to steps with fused experts.
    #[allow(clippy::print_stdout)]
    #[test]
    fn recipes_take_what_was_published() {
        let all: Vec<Published> = csv::Reader::from_reader(PUBLISHED.as_bytes())
            .into_deserialize()
            .collect::<std::result::Result<_, _>>()
            .unwrap();
        let (mut far, mut inside, mut fused) = (Vec::new(), 0, Vec::new());
        for one in &all {
            let kind = one.kind.replacen("fp8", "fp8_", 1);
            let job = job(&format!(
                "python scripts/performance/setup_experiment.py -m x -mr {} -ng {} -g {} -c {kind}\n",
                one.recipe, one.gpus, one.gpu
            ));
            let found =
                estimate(&job, &Wires::new(&Registry::builtin(), &job.machine), None).unwrap();
            let sequences = f64::from(job.global.unwrap()) * f64::from(job.sequence);
            let published = sequences / f64::from(one.gpus) / one.tokens_per_s_per_gpu;
            let off = found.step / published;
            inside += usize::from(found.low < published && published < found.high);
            let name = format!("{} {} {} {}", one.recipe, one.gpu, one.kind, one.release);
            println!("{name:44} {published:6.2} s {off:5.2} {}", job.fused_experts);
            if job.fused_experts && job.model.experts.is_some_and(|experts| experts.gated) {
                fused.push((off - 1.0).abs());
            }
            if (off - 1.0).abs() > 0.2 {
                far.push(name);
            }
        }
        rising(&mut fused, |off| *off);
        println!("{inside} of {} inside; fused: {fused:.3?}; far: {far:#?}", all.len());
        assert!(inside * 10 >= all.len() * 8, "{inside} of {}", all.len());
        assert!(fused.len() == 9 && fused[4] < 0.05, "{fused:?}");
        assert!(far.iter().all(|one| FAR.iter().any(|of| one.starts_with(of))), "{far:?}");
    }

    #[test]
    fn arguments_stand_above_the_recipe() {
        let base = "torchrun --nproc-per-node=8 scripts/performance/run_script.py --model_family_name llama \
            --model_recipe_name llama31_405b --gpu gb300 --compute_dtype fp8_mx";
        let own = job(&format!("{base} --num_gpus 256\n"));
        let d = own.degrees;
        assert_eq!((d.tp, d.pp, d.cp, d.chunks, d.dp), (2, 8, 2, 4, 8));
        assert_eq!((own.global, own.micro, own.sequence), (Some(1536), 1, 8192));
        assert_eq!((own.device.name.as_str(), own.precision), ("GB300", Precision::Fp8));
        assert_eq!((own.sharding.gradient, own.sharding.framework), (2.0, Framework::Megatron));
        // As many sequences a replica on other GPUs, unless they are given.
        let scaled = job(&format!("{base} --num_gpus 512\n"));
        assert_eq!((scaled.global, scaled.degrees.dp), (Some(3072), 16));
        let other = job(&format!(
            "{base} --num_gpus 512 -gb 1024 -vp None -tp 4 --use_megatron_fsdp false --recompute_modules mlp,moe_act\n"
        ));
        assert_eq!((other.global, other.degrees.chunks, other.degrees.tp), (Some(1024), 1, 4));
        assert_eq!(other.recompute.to_string(), "modules mlp");
        let small = "srun -N 1 -c 16 python scripts/performance/run_script.py -mr llama3_8b -ng 8 -g h100 -c fp8_cs";
        let of = |more: &str| job(&format!("{small} {more}\n")).recompute.to_string();
        assert_eq!(["", "-rl 0", "--recompute_modules mlp"].map(of), ["block 5", "none", "mlp"]);
        let none = job(
            "python setup_experiment.py -m deepseek -mr deepseek_v3 -ng 256 -g gb300 -c fp8_mx \
             --moe_flex_dispatcher_backend None --cuda_graph_impl none\n",
        );
        assert!(none.dispatcher == super::super::Dispatcher::AllToAll && none.fused_experts);
        assert_eq!(none.graphs, Some(false));
        let older = "run_script.py --model_name llama31 --model_size 405b --compute_dtype fp8 --fp8_recipe cs \
            --gpu b200 -ng 256\n";
        let newer = "run_script.py -mr llama31_405b -c fp8_cs -g b200 -ng 256\n";
        let of = |text: &str| {
            let job = job(text);
            (job.degrees, job.precision, job.global, job.device.name)
        };
        assert_eq!(of(older), of(newer));
    }

    #[test]
    fn what_no_recipe_says_is_asked_for() {
        let asked = launched(
            "python setup_experiment.py -m llama -mr llama3_70b -ng 64 -g h100 -c fp8_mx -tp 4 --seq_length 8192\n",
        );
        let of = |key: &str| asked.asked.iter().any(|one| one.starts_with(key));
        assert_eq!(["tp ", "pp ", "micro_batch", "sequence"].map(of), [false, true, true, false]);
        assert_eq!((asked.get("machine"), asked.get("gpus")), (Some("dgx-h100"), Some("64")));
        let changed = launched(
            "python run_script.py -mr deepseek_v3 -ng 256 -g gb300 -c fp8_mx --num_layers 4 model.mtp_num_layers=0\n",
        );
        assert_eq!(changed.asked, ["model (--num-layers)"]);
        assert_eq!(changed.unread, ["model.mtp_num_layers=0"]);
        let tuned = "python setup_experiment.py -mr llama3_70b --task sft -ng 8 -g h100\n";
        let error = read(tuned, "run.sh").unwrap_err().to_string();
        assert!(error.contains("recipes of Megatron-Bridge for sft are not known"), "{error}");
    }

    #[test]
    fn every_recipe_is_a_job() {
        for one in recipes().unwrap() {
            let kind = one.kind.replacen("fp8", "fp8_", 1);
            let job = job(&format!(
                "python setup_experiment.py -mr {} -ng {} -g {} -c {kind}\n",
                one.recipe, one.gpus, one.gpu
            ));
            assert_eq!(job.degrees.gpus(), u64::from(one.gpus), "{one:?}");
        }
    }
}
