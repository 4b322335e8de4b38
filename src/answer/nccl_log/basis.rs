//! What a log is compared with: version, communicator and settings, whether given, read or found by
//! trial.

use super::{Asked, CellDifference, CommView, Given, choices};
use crate::base::dtype::DataType;
use crate::base::error::{Error, Result};
use crate::library::nccl::log::{Detail, Known, Layout, Log, Table};
use crate::library::nccl::{
    self, Algo, Arch, Behind, Bounds, Capability, Chooser, Communicator, Function, Operation,
    Printed, Processor, Proto, Reduction, Settings, Tenths, Vendor, Version, since,
};

/// What choices and cells are compared with.
pub(super) struct Basis {
    /// The version that the log or the user names.
    pub version: Option<String>,
    /// The version whose rules are used.
    pub rules: Option<Version>,
    /// What the tuner computes, if the communicator is known; several if all of them give the log's
    /// table and its choices.
    pub computed: Vec<Computed>,
    /// What the printed table allows, if it is not known.
    pub bounds: Option<Bounds>,
    pub behind: Behind,
    pub notes: Vec<String>,
}

/// A communicator's table and choices.
pub(super) struct Computed {
    pub comm: Communicator,
    pub version: Version,
    pub table: nccl::Table,
    /// For floats; then for types that the switch cannot reduce, and for 8-bit floats.
    pub choosers: [(Chooser, &'static str); 3],
}

/// Comparisons of a table.
pub(super) struct Compared {
    pub compared: u64,
    pub views: Vec<CellDifference>,
}

/// GPUs that are tried if none is given: each follows different rules.
const GPUS: [u32; 8] = [90, 100, 80, 86, 70, 75, 60, 120];

/// Processors that are tried.
const PROCESSORS: [Processor; 3] = [
    Processor { arch: Arch::X86, vendor: Vendor::Intel },
    Processor { arch: Arch::X86, vendor: Vendor::Amd },
    Processor { arch: Arch::Arm, vendor: Vendor::Other },
];

impl Basis {
    pub(super) fn find(
        log: &Log,
        table: Option<&Table>,
        known: &Known<'_>,
        asked: &Asked,
    ) -> Result<Self> {
        let mut basis = Self {
            version: None,
            rules: None,
            computed: Vec::new(),
            bounds: None,
            behind: known.behind(),
            notes: Vec::new(),
        };
        let Some(versions) = basis.versions(log, table, asked)? else { return Ok(basis) };
        let settings = log.settings()?;
        let tried = Tried { versions: &versions, settings: &settings, table, known, asked };
        basis.notes.extend(tried.notes());
        let best = choices::nearest(log, table, tried.best()?);
        if let Some(computed) = best.first() {
            basis.rules = Some(computed.version);
            basis.notes.extend(tried.found(&best));
            basis.notes.extend(tried.otherwise(computed)?);
        } else if let [only] = versions.as_slice() {
            basis.rules = Some(*only);
        } else if table.is_some() {
            basis.rules = versions.first().copied();
            basis.notes.push(format!(
                "the log names no version: this uses the rules of {}; set it with --nccl",
                versions.first().map_or("", |v| v.id())
            ));
        }
        basis.computed = best;
        if let (true, Some(rules), Some(table)) = (basis.computed.is_empty(), basis.rules, table) {
            basis.guess_channels(log, table);
            let behind = basis.behind;
            basis.bounds = Some(Bounds::new(
                rules,
                &behind,
                &Settings::default(),
                |function, algo, proto| table.cell(function, algo, proto),
                |algo, proto| table.threads(algo, proto),
            )?);
            basis.notes.push(
                "the communicator is not known well enough to compute its table: choices are \
                 compared with the printed one"
                    .to_owned(),
            );
        }
        if let Some(computed) = basis.computed.first() {
            let Communicator { ranks, nodes, min_cc, channels, nvls_channels, .. } = computed.comm;
            basis.behind = Behind {
                ranks: Some(ranks),
                nodes: Some(nodes),
                min_cc: agreed(&basis.computed, |c| c.min_cc).then_some(min_cc),
                channels: agreed(&basis.computed, |c| c.channels).then_some(channels),
                nvls_channels: agreed(&basis.computed, |c| c.nvls_channels)
                    .then_some(nvls_channels),
            };
        }
        Ok(basis)
    }

    /// If nothing else gives the channels, large calls show them.
    fn guess_channels(&mut self, log: &Log, table: &Table) {
        let shown =
            log.choices_of(Some(table)).filter_map(|choice| match (choice.algo, choice.detail) {
                (Algo::Ring | Algo::Tree, Detail::Channels(0, last)) => last.checked_add(1),
                _ => None,
            });
        if let (None, Some(channels)) = (self.behind.channels, shown.max()) {
            self.behind.channels = Some(channels);
            self.notes
                .push(format!("channels are assumed to be {channels}, the most of any choice"));
        }
    }

    /// The versions whose rules may have written the log; empty if none of the known ones.
    fn versions(
        &mut self,
        log: &Log,
        table: Option<&Table>,
        asked: &Asked,
    ) -> Result<Option<Vec<Version>>> {
        let announced = if asked.version.is_some() { None } else { log.version()? };
        let named = match (&asked.version, announced) {
            (Some(asked), _) => {
                contradict(log, *asked)?;
                self.version = Some(asked.id().to_owned());
                Some(*asked)
            }
            (None, Some(at)) => match at.what.parse::<Version>() {
                Ok(version) => {
                    self.version = Some(version.id().to_owned());
                    Some(version)
                }
                Err(unknown) => {
                    self.version = Some(at.what.clone());
                    let near = Version::near(&at.what);
                    let then = near
                        .map_or("what it printed is decoded, not checked".into(), |near| {
                            format!("the log is compared with those of {near}, the nearest")
                        });
                    self.notes.push(format!("{}: {then}", unknown.what()));
                    if near.is_none() {
                        return Ok(None);
                    }
                    near
                }
            },
            (None, None) => None,
        };
        if table.is_some_and(|t| t.layout == Layout::OneBlock) {
            self.notes.push(
                "the table is of NCCL 2.17 or older, which chose by other rules: it is decoded, \
                 not checked"
                    .to_owned(),
            );
            return Ok(None);
        }
        if let Some(named) = named {
            let has_pat = named.has(since::PAT);
            if let Some(table) = table.filter(|t| has_pat && !t.algos.contains(&Algo::Pat)) {
                let what = format!("the table ends before PAT, which NCCL {named} has");
                return Err(Error::input(what)
                    .at(format!("{}:{}", log.file, table.line))
                    .help("copy the whole table, or give the version that wrote it with --nccl"));
            }
            return Ok(Some(vec![named]));
        }
        let new = table.is_some_and(|t| t.algos.contains(&Algo::Pat));
        let models = table.is_some_and(|t| t.is_of_cost_models());
        let fits = |v: &Version| {
            v.has(since::COST_MODELS) == models && (table.is_none() || v.has(since::PAT) == new)
        };
        // Of versions with the same result, the newest.
        let versions: Vec<Version> = Version::ALL.into_iter().rev().filter(fits).collect();
        Ok((table.is_some() || asked.given.is_some()).then_some(versions))
    }

    /// The communicator as far as it is known.
    pub(super) fn view(&self, known: &Known<'_>) -> CommView {
        let processor = match self.computed.first().map(|computed| &computed.comm) {
            Some(comm) if agreed(&self.computed, |c| (c.arch, c.vendor)) => {
                Some(Processor { arch: comm.arch, vendor: comm.vendor })
            }
            _ => known.processor,
        };
        CommView {
            ranks: self.behind.ranks,
            nodes: self.behind.nodes,
            compute_capability: self.behind.min_cc,
            processor: processor.map(|p| p.arch.name()),
            processor_vendor: processor.map(|p| p.vendor.name()),
            channels: self.behind.channels,
            nvls_channels: self.behind.nvls_channels.filter(|&n| n > 0),
        }
    }
}

/// Whether a figure is the same in every case.
fn agreed<T: PartialEq>(cases: &[Computed], of: impl Fn(&Communicator) -> T) -> bool {
    cases.iter().all(|case| of(&case.comm) == of(&cases[0].comm))
}

/// Refuses a version beside a log that announces others, all of which are known.
fn contradict(log: &Log, asked: Version) -> Result<()> {
    let announced: Option<Vec<Version>> =
        log.versions.iter().map(|at| at.what.parse().ok()).collect();
    match (announced, log.versions.first()) {
        (Some(known), Some(first)) if !known.contains(&asked) => {
            Err(Error::input(format!("the log has NCCL {}, not {asked}", first.what))
                .at(format!("{}:{}", log.file, first.line))
                .help("leave out --nccl; `collcost nccl diff` compares releases"))
        }
        _ => Ok(()),
    }
}

/// All possible cases.
struct Tried<'a> {
    versions: &'a [Version],
    settings: &'a Settings,
    table: Option<&'a Table>,
    known: &'a Known<'a>,
    asked: &'a Asked,
}

impl Tried<'_> {
    /// The cases whose table is nearest to the printed one; several where they are equally near.
    fn best(&self) -> Result<Vec<Computed>> {
        let mut best: Vec<Computed> = Vec::new();
        let mut least = u64::MAX;
        for &version in self.versions {
            for comm in self.communicators(version)? {
                let computed = Computed::new(comm, version, self.settings)?;
                let far = match self.table {
                    Some(table) => computed.differences(table).views.len() as u64,
                    None => 0,
                };
                if far < least {
                    best.clear();
                    least = far;
                }
                if far == least {
                    best.push(computed);
                }
            }
        }
        Ok(best)
    }

    /// If the table differs: the version, GPUs and processors that give it, if any.
    fn otherwise(&self, best: &Computed) -> Result<Option<String>> {
        let Some(table) = self.table.filter(|t| !best.differences(t).views.is_empty()) else {
            return Ok(None);
        };
        let mut known = self.known.clone();
        (known.gpu, known.processor) = (None, None);
        let free = Tried { versions: &Version::ALL, known: &known, ..*self };
        let found = free.best()?;
        let found = found.first().filter(|found| found.differences(table).views.is_empty());
        Ok(found.map(|Computed { comm, version, .. }| {
            let processor = match comm.vendor {
                Vendor::Other => comm.arch.name(),
                vendor => vendor.name(),
            };
            format!(
                "every figure is as computed for NCCL {version}, cc{}, {processor}",
                comm.min_cc
            )
        }))
    }

    fn communicators(&self, version: Version) -> Result<Vec<Communicator>> {
        let graphs = match &self.asked.given {
            Some(Given::Whole(_, comm)) => return Ok(vec![**comm]),
            Some(Given::Graphs(_, graphs)) => Some(graphs),
            None => None,
        };
        // Without a table nothing shows which guess is right.
        if self.known.gpu.is_none() && self.table.is_none() {
            return Ok(Vec::new());
        }
        let gpus = self.known.gpu.map_or(GPUS.map(Capability).to_vec(), |gpu| vec![gpu]);
        let processors = self.known.processor.map_or(PROCESSORS.to_vec(), |p| vec![p]);
        let mut found = Vec::new();
        for &gpu in &gpus {
            for &processor in &processors {
                let comm = match graphs {
                    Some(graphs) => {
                        let Behind { ranks, nodes, .. } = self.known.behind();
                        let told = nccl::Told {
                            ranks,
                            nodes,
                            gpu: Some(gpu),
                            processor: Some(processor),
                            start: self.known.start,
                        };
                        Some(graphs.communicator(&told, version)?)
                    }
                    None => self.known.communicator(version, gpu, processor)?,
                };
                found.extend(comm);
            }
        }
        Ok(found)
    }

    /// The parts of a communicator that the log leaves out.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let (searched, ranks) = (self.known.searched(), self.known.ranks.unwrap_or(0) as usize);
        if self.asked.given.is_none() && searched > 0 && searched < ranks {
            notes.push(format!(
                "graphs of {searched} of {ranks} ranks: if others found worse ones, all use those"
            ));
        }
        notes
    }

    /// The results of the trials.
    fn found(&self, best: &[Computed]) -> Vec<String> {
        let Some(table) = self.table else { return Vec::new() };
        let mut notes = Vec::new();
        let names = |of: &dyn Fn(&Computed) -> String| {
            let mut names: Vec<String> = Vec::new();
            for name in best.iter().map(of) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let several = names.len() > 1;
            let names = names.join(" or ");
            match (best[0].differences(table).views.is_empty(), several) {
                (true, false) => format!("{names} gives this table"),
                (true, true) => format!("this table may be of {names}"),
                (false, _) => format!("{names} comes nearest to this table"),
            }
        };
        if self.versions.len() > 1 {
            let found = names(&|c| c.version.id().to_owned());
            notes.push(format!("the log names no version; {found}"));
        }
        let whole = matches!(self.asked.given, Some(Given::Whole(..)));
        if self.known.gpu.is_none() && !whole {
            let found = names(&|c| format!("cc{}", c.comm.min_cc));
            notes.push(format!("the log does not name the GPUs; {found}"));
        }
        if self.known.processor.is_none() && !whole && best[0].comm.nodes > 1 {
            let found = names(&|c| match c.comm.vendor {
                Vendor::Other => c.comm.arch.name().to_owned(),
                vendor => vendor.name().to_owned(),
            });
            notes.push(format!("the log does not name the processors; {found}"));
        }
        notes
    }
}

impl Computed {
    fn new(comm: Communicator, version: Version, settings: &Settings) -> Result<Self> {
        let table = nccl::Table::new(&comm, version, settings)?;
        let chooser = |element| {
            let reduction = Reduction { element, operation: Operation::Sum };
            Chooser::new(&comm, version, &table, reduction)
        };
        let choosers = [
            (chooser(DataType::F32), "floats"),
            (chooser(DataType::I8), "types that the switch cannot reduce"),
            (chooser(DataType::F8e4m3), "8-bit floats"),
        ];
        Ok(Self { comm, version, table, choosers })
    }

    /// Every value of a printed table that differs from the computed one.
    pub(super) fn differences(&self, printed: &Table) -> Compared {
        let mut found = Compared { compared: 0, views: Vec::new() };
        for &algo in &printed.algos {
            for proto in Proto::ALL {
                if let Some(threads) = printed.threads(algo, proto) {
                    let line = printed.line_of(Function::Broadcast, algo).saturating_sub(1);
                    let computed = self.table.threads(algo, proto);
                    found.hold((line, None, algo, proto), "threads", &threads, &computed);
                }
                for function in Function::ALL {
                    let Some(Printed { latency, bandwidth }) = printed.cell(function, algo, proto)
                    else {
                        continue;
                    };
                    let at = (printed.line_of(function, algo), Some(function), algo, proto);
                    let computed = |value: f32| {
                        Tenths::of(value).map_or_else(|| format!("{value:.1}"), |t| t.to_string())
                    };
                    let cell = self.table.latency(function, algo, proto).0;
                    found.hold(at, "latency", &latency, &computed(cell));
                    let cell = self.table.bandwidth(function, algo, proto).0;
                    found.hold(at, "bandwidth", &bandwidth, &computed(cell));
                }
            }
        }
        found.views.sort_by_key(|view| view.line);
        found
    }
}

impl Compared {
    fn hold(
        &mut self,
        (line, function, algo, proto): (usize, Option<Function>, Algo, Proto),
        figure: &'static str,
        logged: &impl ToString,
        computed: &impl ToString,
    ) {
        self.compared += 1;
        let (logged, computed) = (logged.to_string(), computed.to_string());
        if logged != computed {
            self.views.push(CellDifference {
                line,
                function: function.map(Function::name),
                algorithm: algo.name(),
                protocol: proto.name(),
                figure,
                logged,
                computed,
            });
        }
    }
}
