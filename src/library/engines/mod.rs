//! Inference engines: which all-reduce each engine runs by its own rules. One file per engine.
//!
//! An engine tries one path after another. The first path that accepts the call runs it; each path
//! that refuses it gives a reason. Sizes are S, the bytes of one rank's tensor. `Ask` records every
//! size that a rule compares S with, so the sizes at which a choice changes come from the rules
//! themselves and are not written anywhere else.
//!
//! To add an engine, add a file here and a line in [`ENGINES`]. To add a release, add its name to the
//! engine's `releases`, and a branch where its rules differ.

mod aiter;
mod ask;
mod board;
mod flashinfer;
mod legacy;
mod mscclpp;
mod nccl_symm;
mod quick_reduce;
mod sglang;
mod symm_mem;
mod tensorrt_llm;
mod torch;
mod variables;
mod vllm;
mod xla;

pub use ask::Release;
pub use board::Board;
pub use variables::Variables;
pub(crate) use variables::same;

use ask::Ask;

use super::{Call, Choice, FellBack, Meta, Part, Policy, Runs, Site, Where};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio};
use crate::library::nccl::Version;
use crate::machine::profile::{Hardware, NetworkKind};
use crate::machine::sample::DataType;

/// An engine: its names, its releases, its rules.
pub struct Engine {
    /// Its name on the command line.
    pub id: &'static str,
    /// Other names that are accepted.
    pub aliases: &'static [&'static str],
    /// A one-line description.
    pub title: &'static str,
    /// The releases whose rules are known, newest first.
    pub releases: &'static [&'static str],
    /// The public code that the rules were read from.
    pub source: &'static str,
    /// Variables and flags that the rules read.
    pub variables: &'static [&'static str],
    /// Backends, and the settings that turn each on or off or change its kernel.
    force: &'static [(&'static str, &'static str)],
    /// Settings that make it run other kernels of its own, if these accept the call.
    ways: &'static [&'static [&'static str]],
    /// Whether it is an alternative to other engines for serving a model.
    rivals: bool,
    /// The collectives that it has rules for.
    collectives: &'static [Collective],
    /// Chooses what runs.
    choose: fn(&Ask<'_>) -> Taken,
}

impl Engine {
    fn meta(&self, release: &str) -> Meta {
        Meta {
            id: format!("{}@{release}", self.id),
            library: None,
            title: self.title.to_owned(),
            counts: "the bytes of one rank's tensor, in whole blocks of 16; its rows and columns \
                     if --hidden gives them"
                .to_owned(),
            source: self.source.to_owned(),
        }
    }
}

/// All engines.
pub const ENGINES: &[&Engine] = &[
    &vllm::ENGINE,
    &sglang::ENGINE,
    &tensorrt_llm::ENGINE,
    &flashinfer::ENGINE,
    &mscclpp::ENGINE,
    &torch::ENGINE,
    &xla::ENGINE,
    &nccl_symm::ENGINE,
];

/// The backend and the kernel that run a call, such as `custom` and `one-shot-pull`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The backend: `nccl`, `custom`, `flashinfer-mnnvl`, …
    pub backend: &'static str,
    /// The kernel; `library` if the backend chooses the kernel itself.
    pub kernel: &'static str,
    /// Whether the call is captured in a CUDA graph.
    pub graph: bool,
}

/// How a program makes its calls, as far as the engines' rules depend on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// The data type of the elements; absent: the usual one of the library, see [`Self::dtype`].
    pub dtype: Option<DataType>,
    /// Columns of the tensor. If absent: one row has up to 4,096 elements, as in benchmarks.
    pub hidden: Option<u64>,
    /// Whether the call is captured in a CUDA graph.
    pub graph: bool,
    /// Whether the residual and a norm follow it, as in a model's layers.
    pub followed: bool,
    /// Environment variables and flags of the engine.
    pub variables: Variables,
}

impl Default for Conditions {
    fn default() -> Self {
        let variables = Variables::default();
        Self { dtype: None, hidden: None, graph: true, followed: false, variables }
    }
}

impl Conditions {
    /// The data type of an engine's tensor: bf16 if none is given.
    #[must_use]
    pub fn dtype(&self) -> DataType {
        self.dtype.unwrap_or(DataType::Bf16)
    }
}

/// What an engine runs.
struct Taken {
    kernel: Kernel,
    rule: String,
    /// Whether the kernel also adds the residual and applies the norm.
    norm: bool,
    /// Paths that refused, and why.
    refused: Vec<(&'static str, String)>,
    notes: Vec<String>,
}

/// The answer of a path: it accepts the call, or gives the reason why not.
type Tried = std::result::Result<Taken, String>;

/// A path with its backend's name.
type Named = (&'static str, fn(&Ask<'_>) -> Tried);

impl Taken {
    fn new(backend: &'static str, kernel: &'static str, rule: impl Into<String>) -> Self {
        let kernel = Kernel { backend, kernel, graph: true };
        Self { kernel, norm: false, rule: rule.into(), refused: Vec::new(), notes: Vec::new() }
    }

    /// NCCL or RCCL runs the call and chooses the kernel itself.
    fn nccl(rule: impl Into<String>) -> Self {
        Self::new("nccl", "library", rule)
    }

    /// Nothing runs.
    fn none(rule: impl Into<String>) -> Self {
        Self::new("none", "none", rule)
    }

    fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same for a call that the residual and the norm follow: in the kernel, which keeps its name,
    /// where it can have them.
    fn with_norm(mut self) -> Self {
        let kernel = self.kernel.kernel;
        self.norm = matches!(kernel, "one-shot-push" | "two-shot-push" | "two-shot-pull");
        if self.norm || self.kernel.backend == "trtllm" && kernel == "two-shot-multimem" {
            self.note("the residual and the norm are in the kernel; the time is known without them")
        } else {
            self.note("the residual and the norm are kernels of their own")
        }
    }
}

/// The first path that accepts the call; `last` if no path does.
fn first_of(ask: &Ask<'_>, paths: &[Named], last: Taken) -> Taken {
    let mut refused = Vec::new();
    for (name, path) in paths {
        match path(ask) {
            Ok(taken) => return Taken { refused, ..taken },
            Err(why) => refused.push((*name, why)),
        }
    }
    Taken { refused, ..last }
}

/// The engine of that name, and the requested release: `vllm@0.33.0`, `sglang`.
fn named(name: &str) -> Option<(&'static Engine, Option<&str>)> {
    let (library, version) = match name.split_once('@') {
        Some((library, version)) => (library, Some(version)),
        None => (name, None),
    };
    let is = |e: &&&Engine| e.id == library || e.aliases.contains(&library);
    ENGINES.iter().find(is).map(|engine| (*engine, version))
}

/// Whether `name` names an engine, with or without a release.
#[must_use]
pub fn is_engine(name: &str) -> bool {
    named(name).is_some()
}

/// The release whose rules hold for an engine's name, with a note if it is not the named one; `None` if no engine has
/// that name.
///
/// # Errors
/// What follows `@` is no release, or one before all whose rules are known.
pub(crate) fn release_of(name: &str) -> Result<Option<(&'static str, Vec<String>)>> {
    let Some((engine, version)) = named(name) else { return Ok(None) };
    release(engine, version).map(|(text, _, notes)| Some((text, notes)))
}

/// The rules of the engine called `name` on a machine; `None` if no engine has that name.
pub(super) fn asked(name: &str, site: &Site) -> Option<Result<Box<dyn Policy>>> {
    let (engine, version) = named(name)?;
    Some(Rules::new(engine, version, site).map(|rules| Box::new(rules) as Box<dyn Policy>))
}

/// An engine's rules in one release, on one machine.
struct Rules {
    engine: &'static Engine,
    meta: Meta,
    release: Release,
    board: Board,
    nic: Option<Bandwidth>,
    conditions: Conditions,
    notes: Vec<String>,
}

impl Rules {
    fn new(engine: &'static Engine, version: Option<&str>, site: &Site) -> Result<Self> {
        let (rules, release, mut notes) = release(engine, version)?;
        let board = Board::of(site).ok_or_else(|| {
            Error::unsupported(format!("`{}` does not say which GPUs it has", site.machine))
                .help("name a machine with GPUs, such as --on b200; collcost profiles lists them")
        })?;
        let conditions = site.conditions.clone();
        let known = |name: &str| engine.variables.iter().any(|v| variables::same(v, name));
        for name in conditions.variables.names().filter(|name| !known(name)) {
            notes.push(format!("`{name}` is not a variable that these rules read"));
        }
        let meta = engine.meta(rules);
        let nic = site.hardware.as_ref().and_then(started_by_gpus);
        Ok(Self { engine, meta, release, board, nic, conditions, notes })
    }

    fn ask(&self, call: &Call, size: u64) -> Ask<'_> {
        let nodes = call.nodes.max(call.ranks.div_ceil(self.board.tray));
        let ask = Ask::new(self.release, &self.board, &self.conditions, call, nodes, size);
        ask.with_nic(self.nic)
    }

    /// S of a call: one rank's tensor.
    fn size(call: &Call) -> u64 {
        match call.collective {
            Collective::AllGather | Collective::ReduceScatter => call.block().0,
            _ => call.size.0,
        }
    }
}

/// The rate of a NIC on which NCCL lets GPUs start transfers (GIN): its own transport is InfiniBand's and
/// RoCE's (NVIDIA/nccl, `src/transport/net_ib/gin.cc`).
fn started_by_gpus(hardware: &Hardware) -> Option<Bandwidth> {
    let starts = matches!(hardware.network, None | Some(NetworkKind::Ib | NetworkKind::Roce));
    let of_nodes = Ratio(f64::from(hardware.span) / f64::from(hardware.nics.max(1)));
    hardware.between.filter(|_| starts).map(|rate| rate * of_nodes)
}

/// The release whose rules are used for `version`, as text and as a number, and notes.
fn release(engine: &Engine, version: Option<&str>) -> Result<(&'static str, Release, Vec<String>)> {
    // Of NCCL's own kernels the release that PyTorch pins is meant, as of NCCL.
    let usual = match engine.id == nccl_symm::ENGINE.id {
        true => Version::NEWEST.id(),
        false => engine.releases[0],
    };
    let Some(asked) = version else { return Ok((usual, usual.parse()?, Vec::new())) };
    let wanted: Release = asked.parse()?;
    let mut known = Vec::new();
    for text in engine.releases {
        known.push((*text, text.parse::<Release>()?));
    }
    let (text, release) = known.into_iter().find(|(_, r)| *r <= wanted).ok_or_else(|| {
        let oldest = engine.releases[engine.releases.len() - 1];
        Error::unsupported(format!("the rules of {} {asked} are not known here", engine.id))
            .help(format!("the oldest whose rules are known: {oldest}"))
    })?;
    let exact = release == wanted;
    let note = || format!("{text} is used for {asked}, whose rules are not known here");
    Ok((text, release, if exact { Vec::new() } else { vec![note()] }))
}

impl Policy for Rules {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        if !self.engine.collectives.contains(&call.collective) {
            let known: Vec<&str> = self.engine.collectives.iter().map(|c| c.id()).collect();
            let what = format!("{} has no rule for {}", self.meta.id, call.operation());
            return Err(Error::unsupported(what).help(format!("ask for {}", known.join(", "))));
        }
        let taken = match call.ranks {
            0 | 1 => Taken::none("one rank: nothing to reduce"),
            _ => (self.engine.choose)(&self.ask(call, Self::size(call))),
        };
        let ran = Kernel { graph: self.conditions.graph, ..taken.kernel };
        let Kernel { backend, kernel, .. } = ran;
        let turned =
            |(from, why): (&'static str, String)| FellBack { from: from.into(), id: None, why };
        let force = self.engine.force.iter().filter(|(of, _)| *of == backend);
        let others = self.engine.force.iter().filter(|(of, _)| *of != backend);
        let notes = taken.notes.into_iter().chain(self.notes.iter().cloned());
        Ok(Choice {
            kernel: Some(ran),
            fell_back: taken.refused.into_iter().map(turned).collect(),
            force: force.chain(others).map(|(of, how)| format!("{of}: {how}")).collect(),
            notes: notes.map(Into::into).collect(),
            ..Choice::new(format!("{backend}/{kernel}"), taken.rule, runs(call, ran, taken.norm))
        })
    }

    fn rivals(&self) -> Vec<Box<dyn Policy>> {
        let others = ENGINES.iter().filter(|e| e.rivals && e.id != self.engine.id);
        let beside = others.filter_map(|engine| {
            let (rules, release, _) = release(engine, None).ok()?;
            let conditions = Conditions {
                variables: self.conditions.variables.only("p2p"),
                ..self.conditions.clone()
            };
            let meta = engine.meta(rules);
            let (board, nic, notes) = (self.board.clone(), self.nic, Vec::new());
            Some(Self { engine, meta, release, board, nic, conditions, notes })
        });
        beside.map(|rules| Box::new(rules) as Box<dyn Policy>).collect()
    }

    fn ways(&self) -> Vec<(String, Box<dyn Policy>)> {
        let with = |settings: &[&str]| {
            let mut conditions = self.conditions.clone();
            settings.iter().try_for_each(|text| conditions.variables.put(text)).ok()?;
            let (engine, meta, release) = (self.engine, self.meta.clone(), self.release);
            let rules = Self {
                engine,
                meta,
                release,
                board: self.board.clone(),
                nic: self.nic,
                conditions,
                notes: Vec::new(),
            };
            Some((settings.join(" "), Box::new(rules) as Box<dyn Policy>))
        };
        self.engine.ways.iter().filter_map(|settings| with(settings)).collect()
    }

    /// The sizes that the rules compare S with. Nothing changes between two neighboring ones, so
    /// evaluating the rules at each until no new size appears finds all that can be reached.
    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        self.choose(call)?;
        if call.ranks < 2 {
            return Ok(Vec::new());
        }
        // Below one block most kernels have no call.
        let mut known = std::collections::BTreeSet::from([BLOCK]);
        let mut open = vec![BLOCK, 1 << 40];
        while let Some(size) = open.pop() {
            let ask = self.ask(call, size);
            (self.engine.choose)(&ask);
            // A variable may say more than any size.
            let borders = ask.borders().into_iter();
            for border in borders.filter_map(|b| b.checked_next_multiple_of(BLOCK)) {
                if known.insert(border) {
                    open.extend([border, border.saturating_sub(BLOCK).max(BLOCK)]);
                }
            }
        }
        let parts = match call.collective {
            Collective::AllGather | Collective::ReduceScatter => u64::from(call.ranks),
            _ => 1,
        };
        Ok(known.into_iter().map(|s| Bytes(s.saturating_mul(parts))).collect())
    }
}

/// Kernels accept whole multiples of this many bytes.
const BLOCK: u64 = 16;

/// A kernel as an algorithm of this crate: it sends whole vectors or blocks to all other ranks, or
/// uses the switch.
fn runs(call: &Call, kernel: Kernel, norm: bool) -> Runs {
    let of = |algorithm, wire| {
        let part = Part::new(call.collective, call.ranks, Where::All, algorithm);
        Runs::Parts(vec![Part { wire: Ratio(wire), ..part }])
    };
    match kernel.kernel {
        "none" => Runs::unpriced("nothing runs"),
        "library" => Runs::unpriced("the library chooses itself; for its rules: select nccl"),
        _ if call.collective != Collective::AllReduce => {
            Runs::unpriced("no closed form describes this kernel")
        }
        "one-shot-push" if norm => of("one-shot-norm", 1.0),
        "two-shot-push" | "two-shot-pull" if norm => of("two-shot-norm", 1.0),
        "one-shot-pull" | "one-shot-push" => of("one-shot", 1.0),
        "two-shot-pull" | "two-shot-push" | "two-shot-push-fp" | "RSxLD_AGxST" => {
            of("two-shot", 1.0)
        }
        "rsag" | "rsag-zero-copy" | "rsag-pipeline" | "fullmesh" => of("two-shot", 1.0),
        "one-shot-multimem" => of("one-shot-multimem", 1.0),
        "two-shot-multimem" | "RSxLDMC_AGxSTMC" => of("inc", 1.0),
        "nvls-zero-copy" | "nvls-warp-pipeline" | "nvls-block-pipeline" => of("inc", 1.0),
        // Eight bytes on the wire carry four bytes of data.
        name => match in_packets(name) {
            Some(algorithm) => of(algorithm, 2.0),
            None => Runs::unpriced("no closed form describes this kernel"),
        },
    }
}

/// The algorithm that a kernel runs in packets, whose words carry a flag each: NCCL's protocol LL.
#[must_use]
pub fn in_packets(kernel: &str) -> Option<&'static str> {
    Some(match kernel {
        "allpair-packet" | "one-shot-packet" | "AGxLL_R" => "one-shot",
        "packet" | "two-shot-packet" => "two-shot",
        "nvls-packet" | "AGxLLMC_R" => "one-shot-multicast",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_named_once_and_releases_fall() {
        let names: Vec<&str> =
            ENGINES.iter().flat_map(|e| e.aliases.iter().copied().chain([e.id])).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
        }
        for engine in ENGINES {
            let releases: Vec<Release> =
                engine.releases.iter().map(|r| r.parse().unwrap()).collect();
            assert!(releases.windows(2).all(|p| p[0] > p[1]), "{}", engine.id);
            assert!(!engine.source.is_empty());
        }
    }

    #[test]
    fn a_release_between_is_answered_by_the_one_before() {
        let answer = |name| release(named(name).unwrap().0, named(name).unwrap().1);
        let asked = |name| answer(name).unwrap();
        assert_eq!(asked("vllm").0, "0.33.0");
        assert_eq!(asked("vllm@0.29.1").0, "0.29.0");
        assert_eq!(asked("sglang@0.5.10.post1").0, "0.5.10");
        assert_eq!(asked("trtllm@1.3.0rc20").0, "1.3.0");
        // Kernels of NCCL that came with 2.27 are none of 2.26.
        for older in ["vllm@0.6.0", "nccl-symm@2.26.2"] {
            assert!(answer(older).unwrap_err().to_string().contains("not known here"), "{older}");
        }
        assert!(asked("vllm@0.27.0").2.is_empty() && !asked("vllm@0.29.1").2.is_empty());
    }
}
