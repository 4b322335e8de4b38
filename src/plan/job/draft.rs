//! The given keys of a job, which may be incomplete. Drafts are layered: the command line over a
//! file, a file over the files that it names.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;

use super::files::{self, known};
use super::words::width;
use super::{
    Adapters, Degrees, Device, Dispatcher, Doing, Framework, Job, Overlap, Pins, Precision,
    Recompute, Reshard, Schedule, Sharding, Stated, Transformer, Weights, memory,
};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result, advice};
use crate::machine::parameters::{Parameter, Parameters};
use crate::plan::Shard;
use crate::plan::table::Machines;

/// The keys of a job; those behind `serve` are of a server alone.
pub(crate) const KEYS: &[&str] = &[
    "from",
    "gpus",
    "tp",
    "pp",
    "cp",
    "ulysses",
    "dp",
    "ep",
    "etp",
    "sequence_parallel",
    "chunks_per_stage",
    "layers_per_chunk",
    "global_batch",
    "micro_batch",
    "accumulation",
    "local_batch",
    "sequence",
    "precision",
    "adapters",
    "recompute",
    "fused_loss",
    "compiled_loss",
    "sharding",
    "gradients_reduced_in",
    "shard_size",
    "replicate",
    "reshard",
    "overlap",
    "schedule",
    "dispatcher",
    "node_limit",
    "compiled",
    "transformer_engine",
    "cuda_graphs",
    "fused_experts",
    "attention",
    "memory_kind",
    "machine",
    "gpus_per_node",
    "device",
    "network",
    "memory_GB",
    "peak_bf16_tflops",
    "peak_fp8_tflops",
    "hbm_TB_s",
    "profile",
    "step_s",
    "serve",
    "role",
    "engine",
    "custom_all_reduce",
    "fused_norm",
    "all2all",
    "env",
    "dcp",
    "context",
    "input",
    "output",
    "sequences",
    "chunk",
    "utilization",
    "cache_type",
    "state_type",
    "weights_type",
    "quantization",
];

/// Those of a server alone: all behind `serve`, but what a model's own file says of its states, and how weights are stored.
fn of_servers() -> impl Iterator<Item = &'static str> {
    let behind = KEYS.iter().copied().skip_while(|key| *key != "serve").skip(1);
    behind.filter(|key| !["state_type", FROZEN].contains(key))
}

/// The type of a server's weights, or of those beside adapters.
const FROZEN: &str = "weights_type";

/// Keys as given.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Draft {
    pub name: String,
    pub(super) keys: BTreeMap<String, String>,
    pub model: Option<Transformer>,
    /// Its `model_type`, if a table or a file that describes it says so.
    pub family: Option<String>,
    /// The most tokens of a sequence that the described model may have: a launch's own length is above it.
    pub longest: Option<u32>,
    /// A model that is named but not described.
    pub model_name: Option<String>,
    /// The name by which a launch calls its model, beside which a `config.json` may describe it.
    pub called: Option<String>,
    /// The `config.json` that describes the model.
    pub described: Option<String>,
    /// How the model's file, or its name, says that weights are stored.
    pub stored: Option<String>,
    /// The only phase that a server runs.
    pub only: Option<Doing>,
    /// The server of a file that prefills, and the one that decodes, of which `role` chooses one.
    pub halves: Vec<Draft>,
    /// A server's usual chunk is of all of its groups.
    pub of_all_groups: bool,
    /// The most sequences of the graphs for decoding that SGLang captures; 0: none are.
    pub captured: Option<u32>,
    /// What a reader inferred.
    pub inferred: Vec<String>,
    /// Keys that have no effect here.
    pub unread: Vec<String>,
    /// Values that a file leaves open, by the file's names.
    pub asked: Vec<String>,
    /// Values that only a run decides, by the keys that say them otherwise.
    pub undecided: Vec<(&'static str, String)>,
    /// Further files of the question that this one has read itself.
    pub taken: Vec<String>,
    /// A measured step that fixes the rate of kernels.
    pub anchor: Option<Box<Draft>>,
    /// GPUs of a node that a launch runs on.
    pub launched: Option<u32>,
    /// Values that count unless a file gives the key: a program's own, and below them those of its launcher.
    pub(super) usual: BTreeMap<(Whose, &'static str), String>,
    /// It is what starts a run, which today's release runs; a job in figures may be of its GPU's years.
    pub starts: bool,
}

/// Whose default a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    Program,
    Launcher,
}

/// The usual precision of a program that is told none.
pub(super) const WIDE: &str = "fp32";

/// The key of what is missing, of which a file may say more.
fn first(what: &str) -> &str {
    what.split(' ').next().unwrap_or("")
}

/// A job that lacks keys.
pub(super) fn incomplete(missing: &[&str]) -> Error {
    let key = missing.first().map_or("gpus", |missing| first(missing));
    let example = if key == "machine" { "dgx-h100" } else { "…" };
    Error::input(format!("the job does not say {}", missing.join(", ")))
        .help(format!("write --set {key}={example}, or a job in TOML before it"))
}

impl Draft {
    /// Sets a key.
    ///
    /// # Errors
    /// It is not a key of a job.
    pub fn put(&mut self, key: &str, value: impl Into<String>) -> Result<()> {
        if key == "model" {
            self.model_name = Some(value.into());
            return Ok(());
        }
        let mut value = value.into();
        // As the rows of a search have it.
        let key = if key == "chunks" { "chunks_per_stage" } else { key };
        if let ("sharding", Some((kind, ranks))) = (key, value.rsplit_once(" over "))
            && ranks.parse::<u32>().is_ok()
        {
            self.keys.insert("shard_size".to_owned(), ranks.to_owned());
            value = kind.to_owned();
        }
        let known = KEYS.iter().find(|known| **known == key).ok_or_else(|| {
            let error = Error::input(format!("unknown key `{key}` of a job"));
            match key.contains('.') {
                true => error.help("a job's machine is changed in its profile: --set machine=FILE"),
                false => error.help(advice(key, KEYS)),
            }
        })?;
        self.keys.insert((*known).to_owned(), value);
        Ok(())
    }

    /// Sets so many ranks of CP that exchange heads for tokens.
    ///
    /// # Errors
    /// None of its own.
    pub(super) fn put_ulysses(&mut self, ranks: impl Display) -> Result<()> {
        self.put("cp", ranks.to_string())?;
        self.put("ulysses", "true")
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// The same without the layout, which a search varies.
    #[must_use]
    pub fn without_layout(mut self) -> Self {
        for key in ["tp", "pp", "cp", "dp", "ep", "etp", "chunks_per_stage", "layers_per_chunk"]
            .iter()
            .chain(&["gpus", "recompute", "shard_size", "replicate", "micro_batch"])
            .chain(&["sequence_parallel", "accumulation"])
        {
            self.keys.remove(*key);
            self.usual.retain(|(_, usual), _| usual != key);
        }
        self
    }

    /// The given parts of the layout, which a search keeps fixed.
    ///
    /// # Errors
    /// A value that is not a count.
    pub fn pins(&self) -> Result<Pins> {
        Ok(Pins {
            tp: self.count("tp")?,
            pp: self.count("pp")?,
            cp: self.count("cp")?,
            ep: self.count("ep")?,
            etp: self.count("etp")?,
            chunks: self.count("chunks_per_stage")?,
            micro: self.count("micro_batch")?,
            recompute: self.read("recompute")?,
            sequence: self.said("sequence_parallel")?,
            sharding: self.get("sharding").is_some(),
            shard_size: self.count("shard_size")?,
        })
    }

    /// The same, completed from `base`.
    #[must_use]
    pub fn over(mut self, base: &Self) -> Self {
        // Other micro-batches make other accumulations of the same batch.
        let follows = self.get("micro_batch").is_some()
            && self.get("global_batch").or(base.get("global_batch")).is_some();
        let takes = |key: &str| key != "accumulation" || !follows;
        for (key, value) in base.keys.iter().filter(|(key, _)| takes(key)) {
            self.keys.entry(key.clone()).or_insert_with(|| value.clone());
        }
        // A known name replaces a description below it.
        let named = self.model_name.as_deref().is_some_and(|name| known(name).is_ok());
        if self.model.is_none() && !named {
            self.model.clone_from(&base.model);
            self.family.clone_from(&base.family);
            self.longest = base.longest;
            self.described.clone_from(&base.described);
            self.model_name = self.model_name.or_else(|| base.model_name.clone());
            self.stored = self.stored.or_else(|| base.stored.clone());
        }
        self.called = self.called.or_else(|| base.called.clone());
        self.only = self.only.or(base.only);
        if self.halves.is_empty() {
            self.halves.clone_from(&base.halves);
        }
        self.of_all_groups |= base.of_all_groups;
        self.captured = self.captured.or(base.captured);
        self.inferred.extend(base.inferred.iter().cloned());
        self.unread.extend(base.unread.iter().cloned());
        self.asked.extend(base.asked.iter().cloned());
        self.undecided.extend(base.undecided.iter().cloned());
        if self.name.is_empty() {
            self.name.clone_from(&base.name);
        }
        self.anchor = self.anchor.or_else(|| base.anchor.clone());
        self.launched = self.launched.or(base.launched);
        for (key, value) in &base.usual {
            self.usual.entry(*key).or_insert_with(|| value.clone());
        }
        self.starts |= base.starts;
        self
    }

    /// Has these values count unless a file gives them.
    pub(super) fn usually<const N: usize>(&mut self, whose: Whose, all: [(&'static str, &str); N]) {
        for (key, value) in all {
            self.usual.insert((whose, key), value.to_owned());
        }
    }

    /// Puts what is usual where nothing was given. How sums overlap belongs to how states are sharded, and accumulations
    /// follow from a given batch.
    fn take_usual(&mut self) {
        let shards = self.get("sharding").is_some();
        let launched = self.usual.contains_key(&(Whose::Launcher, "sharding"));
        let whole = self.get("global_batch").is_some();
        for ((_, key), value) in std::mem::take(&mut self.usual) {
            let follows = key == "overlap" && shards || key == "accumulation" && whole;
            if follows || self.get(key).is_some() {
                continue;
            }
            match key {
                // It is not priced.
                "precision" if value == WIDE => {
                    let what = "priced in 16 bits: without bf16, fp16 or mixed_precision training is in 32";
                    if !self.inferred.iter().any(|known| known == what) {
                        self.inferred.push(what.to_owned());
                    }
                    continue;
                }
                "sharding" if !launched => {
                    self.inferred.push(format!("sharding {value}: no file says another"));
                }
                "micro_batch" | "accumulation" | "sequence" => {
                    self.inferred.push(format!("{key} {value}"));
                }
                // TensorRT-LLM's: other engines' depend on the GPU.
                "sequences" | "chunk" | "utilization" => {
                    self.inferred.push(format!("{key} {value}: the default of trtllm-serve"));
                }
                _ => {}
            }
            self.keys.insert(key.to_owned(), value);
        }
    }

    /// The same with its model, if that is only named: the layers of all files are there now.
    ///
    /// # Errors
    /// The name is unknown; a `config.json` describes another model than a launch names.
    pub(super) fn settled(&self) -> Result<Self> {
        let mut settled = self.clone();
        settled.take_usual();
        if let Some(name) = settled.model_name.take_if(|_| self.model.is_none()) {
            return Ok(settled.over(&known(&name)?));
        }
        let Some(called) = self.called.as_deref().filter(|_| self.model_name.is_none()) else {
            return Ok(settled);
        };
        match (&self.model, &self.described) {
            (None, _) => Ok(settled.over(&known(called)?)),
            (Some(model), Some(file)) => {
                contradicts(model, called, file)?;
                // A file of widths alone leaves the type of the weights to the name.
                settled.stored = settled.stored.or(files::stored(called).map(str::to_owned));
                Ok(settled)
            }
            (Some(_), None) => Ok(settled),
        }
    }

    fn read<T: FromStr<Err = Error>>(&self, key: &str) -> Result<Option<T>> {
        let read = |text: &str| text.parse().map_err(|e: Error| e.at(format!("{key} = {text}")));
        self.get(key).map(read).transpose()
    }

    pub(super) fn count(&self, key: &str) -> Result<Option<u32>> {
        let read = |text: &str| {
            text.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(|| {
                Error::input(format!("`{text}` is not a count"))
                    .at(format!("{key} = {text}"))
                    .help(format!("write a whole number from 1, such as --set {key}=8"))
            })
        };
        self.get(key).map(read).transpose()
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        Ok(self.said(key)?.unwrap_or(false))
    }

    /// The same; `None` if it is not given.
    pub(super) fn said(&self, key: &str) -> Result<Option<bool>> {
        let Some(text) = self.get(key).map(str::to_ascii_lowercase) else { return Ok(None) };
        match text.as_str() {
            "true" | "yes" | "on" | "1" => Ok(Some(true)),
            "false" | "no" | "off" | "0" => Ok(Some(false)),
            _ => Err(Error::input(format!("`{text}` is neither true nor false"))
                .at(format!("{key} = {text}"))
                .help("write true or false")),
        }
    }

    /// Whether it gives the number of sequences per step.
    pub(super) fn says_batch(&self) -> bool {
        ["global_batch", "accumulation"].iter().any(|key| self.get(key).is_some())
    }

    /// The sequences of a step that micro-batches and accumulations make on the job's own layout, over its own GPUs or so
    /// many; `None` if it says them itself, or not at all.
    pub fn whole_batch(&self, gpus: u32) -> Result<Option<u32>> {
        let mut own = self.clone();
        own.take_usual();
        let (micro, times) = (own.count("micro_batch")?, own.count("accumulation")?);
        let (Some(micro), Some(times), None) = (micro, times, own.get("global_batch")) else {
            return Ok(None);
        };
        if own.get("gpus").is_none() && own.get("dp").is_none() {
            own.put("gpus", gpus.to_string())?;
        }
        let dp = own.degrees(&mut Vec::new(), &mut Vec::new())?.dp;
        whole(micro, times, dp).map(Some)
    }

    /// Whether it serves instead of training: it says so, or has keys of a server and none of a batch.
    pub fn serves(&self) -> bool {
        let has = |key: &str| self.get(key).is_some();
        let trains = self.says_batch() || has("micro_batch") || has("sequence");
        let said = self.said("serve").unwrap_or(Some(false));
        let stored = has(FROZEN) && !self.adapts();
        said.unwrap_or_else(|| (of_servers().any(has) || stored) && !trains)
    }

    /// The given keys that have no effect on training.
    pub fn unread(&self) -> Vec<String> {
        let given = of_servers().chain((!self.adapts()).then_some(FROZEN));
        let given = given.filter(|key| self.get(key).is_some());
        let given = given.map(|key| match key {
            FROZEN => format!("{key}: a key of servers and of adapters"),
            key => format!("{key}: a key of a server"),
        });
        self.unread.iter().cloned().chain(given).collect()
    }

    /// The measured time of a step.
    pub fn measured(&self) -> Result<Option<f64>> {
        let read = |text: &str| {
            let plain = text.trim().trim_end_matches('s').trim();
            plain.parse::<f64>().ok().filter(|s| s.is_finite() && *s > 0.0).ok_or_else(|| {
                Error::input(format!("`{text}` is not the time of a step"))
                    .at(format!("step_s = {text}"))
                    .help("write seconds, such as 12.5")
            })
        };
        self.get("step_s").map(read).transpose()
    }

    /// The job, if complete; `memory_only` needs no batch.
    ///
    /// # Errors
    /// All missing keys by name; contradictions.
    pub fn job(&self, machines: &Machines<'_>, memory_only: bool) -> Result<Job> {
        if !self.serves() {
            return self.settled()?.trained(machines, memory_only);
        }
        Err(Error::input("the arguments start a server, which has no training step")
            .help("`collcost plan FILE` and budgets answer for its decode, prefill and memory"))
    }

    /// What is missing, with what a file left open: that may have been given since.
    pub(super) fn with_asked<'a>(&'a self, mut missing: Vec<&'a str>) -> Vec<&'a str> {
        // Two of the three sizes of a batch say the third.
        let sizes = ["global_batch", "micro_batch", "accumulation"];
        let is_whole = sizes.iter().filter(|key| self.get(key).is_some()).count() > 1;
        let open = |asked: &&String| match first(asked) {
            "model" => self.model.is_none(),
            key => self.get(key).is_none() && !(is_whole && sizes.contains(&key)),
        };
        missing.retain(|key| !self.asked.iter().any(|asked| first(asked) == first(key)));
        missing.extend(self.asked.iter().filter(open).map(String::as_str));
        missing
    }

    /// The job of a settled draft.
    fn trained(&self, machines: &Machines<'_>, memory_only: bool) -> Result<Job> {
        self.flag("serve")?;
        let mut inferred = self.inferred.clone();
        let mut missing: Vec<&str> = Vec::new();
        if self.model.is_none() {
            missing.push("model (a table of widths, or a config.json)");
        }
        let mut degrees = self.degrees(&mut missing, &mut inferred)?;
        let sequence = self.count("sequence")?;
        if sequence.is_none() {
            missing.push("sequence");
        }
        let micro = self.count("micro_batch")?;
        let accumulation = self.count("accumulation")?;
        let mut global = self.count("global_batch")?;
        if global.is_none() && !memory_only {
            match (micro, accumulation) {
                (Some(micro), Some(times)) => global = Some(whole(micro, times, degrees.dp)?),
                _ => missing.push("global_batch"),
            }
        }
        if ["machine", "device", "profile"].iter().all(|key| self.get(key).is_none()) {
            missing.push("machine");
        }
        let missing = self.with_asked(missing);
        let (Some(model), Some(sequence), []) = (&self.model, sequence, missing.as_slice()) else {
            return Err(incomplete(&missing));
        };
        model.is_there()?;
        let device = self.device(machines)?;
        let sharding = self.sharding(&mut inferred)?;
        if sharding.offload.is_some() {
            inferred.push(
                "offload: its copies to the host and its optimizer are not in the time, which is too short"
                    .to_owned(),
            );
        }
        if model.counts_windows_whole() {
            inferred.push("sliding-window attention is counted over the whole sequence".to_owned());
        }
        batch_is_whole((global, micro, accumulation), degrees.dp)?;
        let micro = micro.unwrap_or_else(|| {
            let each = global.zip(accumulation).map(|(g, a)| (g / a / degrees.dp).max(1));
            if each.is_none() {
                inferred.push("micro_batch 1".to_owned());
            }
            each.unwrap_or(1)
        });
        if self.get("chunks_per_stage").is_none() {
            degrees.chunks = self.chunks(model, degrees, &mut inferred)?;
        }
        degrees.etp = self.experts_divided(model, degrees, sharding.framework, &mut inferred)?;
        let recompute = self.read("recompute")?.unwrap_or(Recompute::Unstated);
        let schedule =
            self.read::<Schedule>("schedule")?.unwrap_or(Schedule::OneForwardOneBackward);
        // Models with gated layers, from Llama on, and with experts are of later years than the software.
        let early = device.is_early()
            && !(self.starts || sharding.framework.is_torch())
            && !(model.gated || model.experts.is_some());
        let unfused = match self.get("attention") {
            Some("flash" | "fused") => false,
            Some("unfused") => true,
            Some(other) => {
                return Err(Error::input(format!("`{other}` is not a kind of attention"))
                    .at(format!("attention = {other}"))
                    .help("write flash or unfused"));
            }
            None => {
                // Transformer Engine's fused kernels begin with Ampere.
                let volta = device.name.starts_with("V100") && !sharding.framework.is_torch();
                if early || volta {
                    inferred.push(format!("attention unfused, as on {} before 2023", device.name));
                }
                early || volta
            }
        };
        let node_limit = self.count("node_limit")?;
        let dispatcher = self.read("dispatcher")?.unwrap_or(match node_limit {
            Some(_) => Dispatcher::OnceANode,
            None => Dispatcher::AllToAll,
        });
        let machine = self.links(machines, &device, degrees.gpus(), &mut inferred)?;
        let stated = self.read("memory_kind")?.unwrap_or(match sharding.framework {
            // XLA plans its memory before a step runs.
            _ if device.is_tpu() => Stated::Allocated,
            Framework::Fsdp2 => Stated::Reserved,
            _ if early => Stated::Driver,
            _ => Stated::Allocated,
        });
        let mut job = Job {
            name: self.name.clone(),
            model: model.clone(),
            shard_size: self.shard_size(degrees.replicas())?,
            reshard: self.read("reshard")?,
            degrees,
            adapters: self.adapters(model, &mut inferred)?,
            frozen: Weights::read(self.frozen(), model.experts.is_some())?,
            sharding,
            global,
            micro,
            local: self.count("local_batch")?,
            sequence,
            precision: self.precision(&device, &mut inferred)?,
            recompute,
            least: false,
            fused_loss: self.flag("fused_loss")?
                || self.get("recompute").is_some_and(|r| r.contains("fused")),
            compiled_loss: device.is_tpu() || self.flag("compiled_loss")?,
            overlap: self.read::<Overlap>("overlap")?.unwrap_or_default(),
            ulysses: self.flag("ulysses")?,
            schedule,
            dispatcher,
            node_limit,
            compiled: device.is_tpu() || self.flag("compiled")?,
            transformer_engine: self.flag("transformer_engine")?,
            unfused_attention: unfused,
            graphs: self.said("cuda_graphs")?,
            fused_experts: self.flag("fused_experts")?,
            early,
            device,
            machine,
            stated,
            inferred,
        };
        check(&job)?;
        let in_8_bits = job.precision == Precision::Fp8 && job.frozen.products.bytes == 1.0;
        if job.adapters.is_some() && job.frozen.products.bytes < 2.0 && !in_8_bits {
            let what =
                "frozen weights are widened to 16 bits for each product, which is not in the time";
            job.inferred.push(what.to_owned());
        }
        if job.launches_one_by_one() {
            job.inferred.push(
                "layers of experts without CUDA graphs may wait for their host: the high end has 18 ms a layer".to_owned(),
            );
        }
        if self.get("recompute").is_none() {
            // One answer is of one run: its time is that of what its memory needs.
            let peak = memory(&job);
            (job.recompute, job.least) = (peak.recompute, true);
            let why = match peak.stated(job.stated) <= job.device.capacity() {
                true => "the least that surely fits",
                false if job.recompute == Recompute::Full => "not even all of it surely fits",
                false => "the least with which all tensors fit",
            };
            job.inferred.push(format!("recompute {}: {why}", job.recompute));
        }
        Ok(job)
    }

    /// How weights beside adapters are stored: as said, or as a checkpoint's name says of those that stay packed.
    fn frozen(&self) -> Option<&str> {
        const PACKED: [&str; 6] = ["nf4", "awq", "gptq", "int8", "w4a16", "w8a16"];
        let packed = |kind: &&str| self.adapts() && PACKED.contains(kind);
        self.get(FROZEN).or(self.stored.as_deref().filter(packed))
    }

    /// Whether adapters alone are trained.
    pub(super) fn adapts(&self) -> bool {
        self.get("adapters").is_some_and(|text| text != "none")
    }

    /// The adapters; of a model with experts those of attention, if all products are named.
    fn adapters(
        &self,
        model: &Transformer,
        inferred: &mut Vec<String>,
    ) -> Result<Option<Adapters>> {
        let read = || self.read::<Adapters>("adapters");
        let Some(adapters) = self.adapts().then(read).transpose()?.flatten() else {
            return Ok(None);
        };
        let adapters = adapters.of(model);
        let few = adapters.of_attention(model);
        if model.adapted(adapters).is_some()
            || model.adapted(few).is_none()
            || adapters.modules.contains(&false)
        {
            return Ok(Some(adapters));
        }
        inferred.push("adapters of experts are not counted".to_owned());
        Ok(Some(few))
    }

    /// The type of the large products, which the GPU has.
    fn precision(&self, device: &Device, inferred: &mut Vec<String>) -> Result<Precision> {
        let Some(precision) = self.read("precision")? else {
            if device.has_bf16() {
                return Ok(Precision::Bf16);
            }
            inferred.push(format!("precision fp16: {} has no bf16", device.name));
            return Ok(Precision::Fp16);
        };
        let text = self.get("precision").unwrap_or_default();
        let blocks = text.to_ascii_lowercase().contains("mxfp8");
        let lacks = match precision {
            // NVIDIA/TransformerEngine, transformer_engine/pytorch/quantization.py: `check_mxfp8_support`.
            Precision::Fp8 if blocks => !device.has_blocks(),
            // The same file: `check_fp8_support`, `check_nvfp4_support`.
            Precision::Fp8 | Precision::Fp4 => !device.casts(precision),
            Precision::Bf16 => !device.has_bf16(),
            Precision::Fp16 => false,
        };
        if lacks {
            let what = match precision {
                Precision::Fp4 => {
                    format!("precision {text}, for which {} has no known rate", device.name)
                }
                _ => format!("precision {text}, which {} does not have", device.name),
            };
            return Err(Error::input(what).help(match precision {
                Precision::Bf16 => "write precision = fp16",
                Precision::Fp8 if !blocks => {
                    "write precision = bf16, or a machine with Ada, Hopper or later GPUs"
                }
                _ => "write precision = bf16, or a machine with B200, B300, GB200 or GB300",
            }));
        }
        if precision == Precision::Fp4 {
            inferred.push(
                "all products of the body in FP4: layers that stay in 16 bits are not counted"
                    .to_owned(),
            );
        }
        Ok(precision)
    }

    /// Replicas that share one set of shards; `replicate` counts such sets.
    fn shard_size(&self, replicas: u32) -> Result<u32> {
        match (self.count("shard_size")?, self.count("replicate")?) {
            (Some(size), _) => Ok(size.min(replicas)),
            (None, Some(sets)) if replicas.is_multiple_of(sets) => Ok(replicas / sets),
            (None, Some(sets)) => {
                let what = format!("{replicas} ranks of dp and cp do not divide into {sets} sets");
                Err(Error::input(what)
                    .at(format!("replicate = {sets}"))
                    .help("write a number of GPUs that does"))
            }
            (None, None) => Ok(replicas),
        }
    }

    fn degrees(&self, missing: &mut Vec<&str>, inferred: &mut Vec<String>) -> Result<Degrees> {
        let one = |key: &str| self.count(key).map(|n| n.unwrap_or(1));
        let (tp, pp, cp, ep) = (one("tp")?, one("pp")?, one("cp")?, one("ep")?);
        let inner = (u64::from(tp) * u64::from(pp)).saturating_mul(u64::from(cp));
        let gpus = self.count("gpus")?;
        let given = if self.get("dp") == Some("auto") { None } else { self.count("dp")? };
        if inner.saturating_mul(u64::from(given.unwrap_or(1))) > u64::from(u32::MAX) {
            let what = format!("tp {tp} · pp {pp} · cp {cp} · dp are more than {} GPUs", u32::MAX);
            return Err(Error::input(what).help("write smaller degrees"));
        }
        let dp = match (given, gpus) {
            (Some(dp), Some(gpus)) if inner * u64::from(dp) != u64::from(gpus) => {
                let what = format!("tp {tp} · pp {pp} · cp {cp} · dp {dp} is not {gpus} GPUs");
                return Err(Error::input(what)
                    .help("write dp = auto (the rest of them), or leave out gpus"));
            }
            (Some(dp), _) => dp,
            (None, Some(gpus)) if u64::from(gpus).is_multiple_of(inner) => {
                let dp = gpus / inner as u32;
                inferred.push(format!("dp {dp}: the rest of {gpus} GPUs"));
                dp
            }
            (None, Some(gpus)) => {
                let what = format!("{gpus} GPUs do not divide by tp {tp} · pp {pp} · cp {cp}");
                return Err(Error::input(what).help("write gpus as a multiple of them"));
            }
            (None, None) => {
                missing.push("gpus");
                1
            }
        };
        // One stage has no chunks, and one rank of TP all tokens.
        let chunks = self.count("chunks_per_stage")?.filter(|_| pp > 1).unwrap_or(1);
        let sequence = self.flag("sequence_parallel")? && tp > 1;
        Ok(Degrees { tp, pp, cp, dp, ep, etp: 1, chunks, sequence })
    }

    /// Ranks that divide each expert: in Megatron-LM those of TP unless told otherwise
    /// (`expert_tensor_parallel_size`, megatron/training/arguments.py), elsewhere mostly one.
    fn experts_divided(
        &self,
        model: &Transformer,
        d: Degrees,
        framework: Framework,
        inferred: &mut Vec<String>,
    ) -> Result<u32> {
        if let Some(etp) = self.count("etp")? {
            return Ok(etp);
        }
        if model.experts.is_none() || d.tp == 1 {
            return Ok(1);
        }
        // What a script starts, Megatron itself divides so or refuses.
        let fits = self.starts || (d.dp * d.cp).is_multiple_of(d.ep);
        // torchtitan divides them where it does not spread them (`apply_moe_ep_tp`, torchtitan/models/llama4/infra).
        let (etp, of) = match framework {
            Framework::Megatron if fits => (d.tp, "Megatron"),
            Framework::Fsdp2 if d.ep == 1 => (d.tp, "torchtitan without EP"),
            _ => (1, ""),
        };
        inferred.push(match etp {
            1 => "etp 1: experts are not divided by TP".to_owned(),
            _ => format!("etp {etp}: experts are divided by TP, as in {of}"),
        });
        Ok(etp)
    }

    /// Chunks per stage if not given: one, or the number that follows from `layers_per_chunk`.
    fn chunks(&self, model: &Transformer, d: Degrees, inferred: &mut Vec<String>) -> Result<u32> {
        if d.pp == 1 {
            return Ok(1);
        }
        if let Some(each) = self.count("layers_per_chunk")? {
            // As many as hold all layers, or fewer of more.
            let chunks = model.layers.div_ceil(each).div_ceil(d.pp);
            let fewer = (model.layers / d.pp / each).max(1);
            let chunks = if chunks * d.pp <= model.layers + 2 { chunks } else { fewer };
            if chunks.saturating_mul(d.pp).saturating_mul(each) != model.layers {
                inferred.push(format!(
                    "chunks per stage: {chunks}, as {} layers are no chunks of {each} on {} stages",
                    model.layers, d.pp
                ));
            }
            return Ok(chunks);
        }
        let interleaved = self.get("schedule").map(|schedule| schedule.contains("interleaved"));
        if interleaved == Some(false) {
            return Ok(1);
        }
        let divides = |v: &u32| {
            let all = d.pp.saturating_mul(*v);
            model.layers.is_multiple_of(all) || (model.layers + 2).is_multiple_of(all)
        };
        if let Some(chunks) = (2..=8).rev().find(divides) {
            inferred.push(format!(
                "{chunks} chunks per stage, the most up to 8 that divide the layers"
            ));
            return Ok(chunks);
        }
        // One is not interleaved; two is torchtitan's number.
        let chunks = if interleaved == Some(true) && d.pp <= model.layers / 2 { 2 } else { 1 };
        inferred.push(format!(
            "{} per stage, as no number from 2 to 8 divides the layers",
            if chunks == 1 { "1 chunk" } else { "2 chunks" }
        ));
        Ok(chunks)
    }

    fn sharding(&self, inferred: &mut Vec<String>) -> Result<Sharding> {
        let text = self.get("sharding").unwrap_or_else(|| {
            inferred.push("sharding none: every replica keeps all".to_owned());
            "none"
        });
        let mut sharding = Sharding::read(text).map_err(|e| e.at(format!("sharding = {text}")))?;
        if let Some(text) = self.get("gradients_reduced_in") {
            sharding.gradient =
                width(text).map_err(|e| e.at(format!("gradients_reduced_in = {text}")))?;
        }
        Ok(sharding)
    }

    /// The GPU of a description, of a machine's name or of its title.
    pub(super) fn device(&self, machines: &Machines<'_>) -> Result<Device> {
        let mut device = match (self.get("device"), self.get("profile").or(self.get("machine"))) {
            (Some(text), _) => Device::named(text)?,
            (None, Some(name)) => {
                let title = machines.profile(name).map(|p| p.title.clone());
                match title {
                    // The links of A100-SXM4-40GB are those of a DGX A100, its memory is not.
                    Ok(title) => {
                        let last = name.to_ascii_lowercase();
                        let last = last.rsplit(['-', '_', ' ']).next().unwrap_or("");
                        let memory = last.strip_suffix("gb").map(|gb| format!(", {gb} GB"));
                        let device = Device::named(&(title + &memory.unwrap_or_default()))?;
                        // Another card in the same place: an A10G is no A10.
                        let other = Device::named(name).ok();
                        let is_other =
                            |own: &Device| own.profile == device.profile && own.name != device.name;
                        other.filter(is_other).unwrap_or(device)
                    }
                    Err(error) => Device::named(name).map_err(|_| error)?,
                }
            }
            (None, None) => Device::named("")?,
        };
        let number = |key: &str| -> Result<Option<f64>> {
            let Some(text) = self.get(key) else { return Ok(None) };
            let parsed = text.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
            parsed.map(Some).ok_or_else(|| {
                Error::input(format!("`{text}` is not a number above 0"))
                    .at(format!("{key} = {text}"))
            })
        };
        if let Some(gigabytes) = number("memory_GB")? {
            device.hold(gigabytes);
        }
        for (key, into) in [
            ("peak_bf16_tflops", &mut device.peak_bf16_tflops),
            ("peak_fp8_tflops", &mut device.peak_fp8_tflops),
            ("hbm_TB_s", &mut device.hbm_tb_s),
        ] {
            *into = number(key)?.unwrap_or(*into);
        }
        Ok(device)
    }

    /// The links: of the named machine, otherwise of the built-in machine with such GPUs, with the
    /// described network.
    pub(super) fn links(
        &self,
        machines: &Machines<'_>,
        device: &Device,
        gpus: u64,
        inferred: &mut Vec<String>,
    ) -> Result<crate::plan::table::MachineEntry> {
        if let Some(like) = &device.like {
            let name = &device.name;
            inferred
                .push(format!("kernels reach the part of {name}'s maximum that {like}'s reach"));
        }
        let named = self.get("profile").or(self.get("machine"));
        // A machine is a profile, or words that name its GPU.
        let known = match named.map(|name| (name, machines.profile(name))) {
            Some((name, Ok(_))) => Some(name),
            Some((name, Err(error))) => Device::named(name).map(|_| None).map_err(|_| error)?,
            None => None,
        };
        let name = known.unwrap_or(&device.profile);
        let mut said = Parameters::default();
        let fabric = machines.on(name, said.clone())?.machine(Collective::AllReduce)?.fabric;
        if known.is_some() && self.get("network").is_some() {
            inferred.push(format!("network is not read: links are those of the profile {name}"));
        }
        if known.is_none() {
            inferred.push(format!("links of {name}"));
            let nics = fabric.tiers.last().and_then(|t| t.nics).map_or(8, NonZeroU32::get);
            if let Some(node) = self.get("network").map_or(Ok(None), network)? {
                // The machine's number of NICs is unchanged; the node's rate is divided over them.
                let rate = node / f64::from(nics);
                said.put(Parameter::named("bw_inter")?, &format!("{rate}GB/s"))?;
                inferred.push(format!("{node:.1} GB/s per node over {nics} NICs"));
            }
        }
        // A job over several domains of 72 uses a power of two of each.
        let span = fabric.node.and_then(|tier| fabric.tiers[tier].span).map(NonZeroU32::get);
        let per_node = Parameter::named("gpus_per_node")?;
        if let Some(text) = self.get(per_node.key) {
            said.put(per_node, text).map_err(|e| e.at(format!("{} = {text}", per_node.key)))?;
        } else if let Some((each, span)) = self.launched.zip(span).filter(|(each, span)| {
            // A domain of more GPUs has several nodes.
            each < span && *span <= 16 && gpus > u64::from(*each)
        }) {
            said.put(per_node, &each.to_string())?;
            inferred.push(format!("{each} of a node's {span} GPUs, as launched"));
        } else if let Some(span) = span.filter(|s| u64::from(*s) < gpus && !s.is_power_of_two()) {
            let taken = 1 << span.ilog2();
            said.put(per_node, &taken.to_string())?;
            inferred.push(format!("{taken} of a domain's {span} GPUs"));
        }
        machines.on(name, said)
    }
}

/// The sequences of a step.
fn whole(micro: u32, times: u32, dp: u32) -> Result<u32> {
    micro.checked_mul(times).and_then(|all| all.checked_mul(dp)).ok_or_else(|| {
        let what = format!(
            "micro-batches of {micro} · {times} accumulations · dp {dp} are too many sequences"
        );
        Error::input(what).help("write smaller ones")
    })
}

/// Refuses a batch that is not what its parts make (`_batch_assertion`, deepspeed/runtime/config.py of
/// <https://github.com/deepspeedai/DeepSpeed>).
fn batch_is_whole(
    (global, micro, times): (Option<u32>, Option<u32>, Option<u32>),
    dp: u32,
) -> Result<()> {
    let (Some(global), Some(times)) = (global, times) else { return Ok(()) };
    let each = u64::from(times) * u64::from(dp);
    let all = micro.map(|micro| u64::from(micro) * each);
    if all.map_or(u64::from(global).is_multiple_of(each), |all| all == u64::from(global)) {
        return Ok(());
    }
    let parts = micro.map_or(String::new(), |micro| format!("micro-batches of {micro} · "));
    let what = format!("{global} sequences are not {parts}{times} accumulations · dp {dp}");
    let made = all.map_or(format!("a multiple of {each}"), |all| all.to_string());
    Err(Error::input(what)
        .at(format!("global_batch = {global}"))
        .help(format!("write {made}, or leave out the accumulation")))
}

/// Refuses a `config.json` beside a launch that names a model of other widths.
fn contradicts(model: &Transformer, called: &str, file: &str) -> Result<()> {
    let Some(other) = known(called).ok().and_then(|draft| draft.model) else { return Ok(()) };
    let widths = |m: &Transformer| {
        let experts = m.experts.map_or(String::new(), |e| format!(", {} experts", e.experts));
        format!("{} layers of {} channels and {} heads{experts}", m.layers, m.hidden, m.heads)
    };
    let (own, other) = (widths(model), widths(&other));
    if own == other {
        return Ok(());
    }
    Err(Error::input(format!(
        "the arguments name `{called}`, which has {other}, but {file} has {own}"
    ))
    .at(file.to_owned())
    .help("leave out the file, or name its model in the arguments"))
}

/// Checks for contradictions.
pub(super) fn check(job: &Job) -> Result<()> {
    let (d, model) = (job.degrees, &job.model);
    let refuse = |what: String, help: &str| Err(Error::input(what).help(help));
    if d.pp > model.layers {
        return refuse(
            format!("{} stages for {} layers", d.pp, model.layers),
            "write at most as many",
        );
    }
    // Some splits count the embedding and the head as a layer each.
    if u64::from(d.pp) * u64::from(d.chunks) > u64::from(model.layers) + 2 {
        return refuse(
            format!("{} stages of {} chunks for {} layers", d.pp, d.chunks, model.layers),
            "write chunks of a layer or more",
        );
    }
    if d.tp > model.heads {
        return refuse(format!("tp {} cuts {} heads", d.tp, model.heads), "write at most as many");
    }
    // `num_attention_heads`, megatron/core/transformer/transformer_config.py of Megatron-LM.
    if !model.heads.is_multiple_of(d.tp) {
        return refuse(
            format!("tp {} does not divide {} heads", d.tp, model.heads),
            "write a divisor of them",
        );
    }
    if let Some(linear) = model.linear.filter(|one| !one.key_heads.is_multiple_of(d.tp)) {
        return refuse(
            format!(
                "tp {} does not divide the {} heads of linear attention",
                d.tp, linear.key_heads
            ),
            "write a divisor of them",
        );
    }
    if let Some(adapters) = job.adapters.filter(|adapters| adapters.rank > model.hidden) {
        return refuse(
            format!("adapters of rank {} for {} channels", adapters.rank, model.hidden),
            "write a rank below them, such as 16",
        );
    }
    if let Some(adapters) = job.adapters.filter(|adapters| model.adapted(*adapters).is_none()) {
        let few = adapters.of_attention(model);
        let what = format!("adapters of {adapters} are not known of this model");
        return Err(Error::unsupported(what).help(match model.adapted(few) {
            Some(_) => format!("write adapters = \"{few}\": those of experts are not known"),
            None => "write adapters = \"none\": those of latent attention and of state spaces are not known"
                .to_owned(),
        }));
    }
    match model.experts {
        None if d.ep > 1 => {
            return refuse(format!("ep {}, but the model has no experts", d.ep), "leave out ep");
        }
        Some(e) if e.top_k > e.experts => {
            return refuse(
                format!("{} experts a token of {} experts", e.top_k, e.experts),
                "write at most as many as there are",
            );
        }
        Some(e) if !e.experts.is_multiple_of(d.ep) => {
            return refuse(
                format!("{} experts do not divide over ep {}", e.experts, d.ep),
                "write a divisor",
            );
        }
        _ => {}
    }
    if job.reshard.is_some() && !job.sharding.gathers {
        return refuse(
            "reshard is given, but parameters are not sharded".to_owned(),
            "write sharding = fsdp or zero3, or leave out reshard",
        );
    }
    let whole = job.sharding.shard == Shard::Gradients;
    if whole && job.reshard.is_some_and(|reshard| reshard != Reshard::Never) {
        return refuse(
            "reshard is given, but SHARD_GRAD_OP keeps whole parameters between the passes"
                .to_owned(),
            "write reshard = \"never\", or sharding = fsdp",
        );
    }
    if !d.replicas().is_multiple_of(job.shard_size) {
        return refuse(
            format!(
                "{} ranks of dp and cp do not divide into sets of {} shards",
                d.replicas(),
                job.shard_size
            ),
            "write shard_size as a divisor of them",
        );
    }
    if !job.copies_divide() {
        return refuse(
            format!("reshard does not divide the {} ranks of a set of shards", job.shard_size),
            "write always, never, or a divisor",
        );
    }
    if model.experts.is_none() && d.etp > 1 {
        return refuse(format!("etp {}, but the model has no experts", d.etp), "leave out etp");
    }
    let places = u64::from(d.dp) * u64::from(d.cp) * u64::from(d.tp);
    if !places.is_multiple_of(u64::from(d.ep) * u64::from(d.etp)) {
        return refuse(
            format!("ep {} · etp {} does not divide the {places} ranks of a stage", d.ep, d.etp),
            "write a divisor of them",
        );
    }
    Ok(())
}

/// The rate of a node in GB/s, from words such as `8 of 400 Gb/s`, `4 HDR InfiniBand
/// a node` or `1,600 Gb/s RoCE a node`; none if it is said not to be stated.
fn network(text: &str) -> Result<Option<f64>> {
    if text.contains("not stated") {
        return Ok(None);
    }
    rate_of_node(text).map(Some).ok_or_else(|| {
        Error::input(format!("`{text}` does not say the rate of a node's network"))
            .at(format!("network = {text}"))
            .help(
                "write its NICs, such as \"8 of 400 Gb/s\" or \"4 HDR\" (EDR, HDR, NDR, XDR), or \"1600 Gb/s a \
                 node\"; or machine = FILE, a profile with its links",
            )
    })
}

/// Omni-Path reached about half of its rate in BLOOM's runs.
fn rate_of_node(text: &str) -> Option<f64> {
    const KINDS: [(&str, f64); 4] =
        [("EDR", 100.0), ("HDR", 200.0), ("NDR", 400.0), ("XDR", 800.0)];
    let outside = text.rsplit(';').next()?;
    let plain = outside.replace(['(', ')'], " ").replace(',', "").replace("Gb/s", " Gb/s");
    let words: Vec<&str> = plain.split_whitespace().collect();
    let number = |word: &str| word.parse::<f64>().ok();
    let rate = words.windows(2).find(|w| w[1].starts_with("Gb/s")).and_then(|w| number(w[0]));
    let kind = KINDS.iter().find(|(name, _)| words.contains(name)).map(|(_, rate)| *rate);
    let counts = |next: &str| {
        ["of", "x", "Omni-Path", "EFA"].contains(&next) || KINDS.iter().any(|(k, _)| *k == next)
    };
    let count = words.windows(2).find(|w| counts(w[1])).and_then(|w| number(w[0]));
    let reached = if outside.contains("Omni-Path") { 0.5 } else { 1.0 };
    match (count, rate.or(kind)) {
        (Some(count), Some(rate)) => Some(count * rate / 8.0 * reached),
        (None, Some(all)) if outside.contains("a node") => Some(all / 8.0 * reached),
        _ => None,
    }
}
