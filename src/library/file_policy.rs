//! A tuning file as a policy: what its library runs with it.
//!
//! The readers refuse what a library would silently drop, so a file accepted here has an effect in
//! the library. Open MPI's rules come before the fixed decisions of 4.1, those of files with a version before 5.0's,
//! those in JSON before 6.0's, which decide if the file has no rule. MPICH's tree replaces the MPIR layer, below the device's own compositions. In NCCL's
//! table the first matching line that NCCL considers decides; if there is none, NCCL itself decides.

use super::openmpi::{self, Decision};
use super::{Call, Choice, FellBack, Meta, Policy, Runs, Site, mpich};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::rules::{self as table, Channels};
use crate::library::nccl::{Algo, Proto, Version, policy};
use crate::library::openmpi::operations::Counts;
use crate::library::openmpi::rules as dynamic;
use crate::library::tuning_file::TuningFile;
use crate::model::algorithm::{self, Library, Reason};

/// The policy of a tuning file; `file` names it in rules and errors.
///
/// # Errors
/// The errors of the library's own policy, which decides if the file does not.
pub fn of_file(rules: TuningFile, file: &str, site: &Site) -> Result<Box<dyn Policy>> {
    let meta = |library, title: &str, counts: &str| Meta {
        id: format!("rules-file:{file}"),
        library: Some(library),
        title: title.to_owned(),
        counts: counts.to_owned(),
        source: file.to_owned(),
    };
    let open_mpi = |rules, version: openmpi::Version| -> Box<dyn Policy> {
        let title = format!("Open MPI's dynamic rules, over {}'s own", version.name());
        let meta = meta(Library::OpenMpi, &title, COUNTS);
        let own = version.policy(meta.clone());
        Box::new(OpenMpi { meta, rules, own, file: file.to_owned(), version })
    };
    Ok(match rules {
        TuningFile::OpenMpi(rules) => open_mpi(rules, openmpi::Version::V41),
        TuningFile::OpenMpiVersioned(rules) => open_mpi(rules, openmpi::Version::V50),
        TuningFile::OpenMpiJson(rules) => open_mpi(rules, openmpi::Version::V60),
        TuningFile::Mpich(tree) => {
            let counts = "avg_msg_size: the vector, or a rank's block; total_msg_size: of all ranks, \
                          elements in gathers and scatters; count: of one buffer, of all ranks in an \
                          allgatherv and a reduce_scatter";
            let meta = meta(Library::Mpich, "MPICH's selection tree, below CH4", counts);
            mpich::of_file(meta, tree, file.to_owned())
        }
        TuningFile::Nccl(rules) => {
            let meta = meta(Library::Nccl, "the table of NCCL's example tuner plugin", "M");
            let own = policy::Nccl::new(site, Version::NEWEST).ok();
            Box::new(Nccl { meta, rules, file: file.to_owned(), own })
        }
    })
}

/// What sizes count in Open MPI's dynamic rules.
const COUNTS: &str = "M, but allgatherv: one rank's part, M/N, and alltoallv: nothing";

/// Open MPI's dynamic rules.
struct OpenMpi {
    meta: Meta,
    rules: dynamic::Rules,
    /// Decides if no rule does.
    own: Box<dyn Policy>,
    file: String,
    /// The release that reads it.
    version: openmpi::Version,
}

impl OpenMpi {
    /// What happens where ranks leave out the arguments that Open MPI counts: they look up 0 bytes.
    ///
    /// Source: v4.1.6, v5.0.9 and v6.0.x `coll_tuned_decision_dynamic.c`, `sdtype` and `scount` on every rank.
    fn split(&self, call: &Call) -> Option<&'static str> {
        let (name, note) = match call.collective {
            C::Gather => ("gather", SPLIT_GATHER),
            C::Scatter => ("scatter", SPLIT_SCATTER),
            _ => return None,
        };
        let coll = dynamic::Coll::named(name)?;
        let runs = |size| self.rules.rule(coll, call.ranks, size).map(|rule| rule.algorithm);
        (call.ranks > 1 && runs(call.size) != runs(Bytes(0))).then_some(note)
    }

    fn by_rules(&self, call: &Call) -> Result<Choice> {
        let rules = openmpi::rules_of(&self.meta, call)?;
        let coll = dynamic::Coll::named(rules.name);
        let ruled = coll.and_then(|coll| self.rules.rule(coll, call.ranks, call.size));
        let Some(rule) = ruled.filter(|rule| rule.algorithm > 0) else {
            let why = match ruled {
                // A rule without a line fills what the ranges of JSON do not cover.
                Some(rule) if rule.line.0 > 0 => {
                    format!("{}:{} leaves it to the library", self.file, rule.line.0)
                }
                _ => format!("{} has no rule for {}", self.file, rules.name),
            };
            let choice = self.own.choose(call)?;
            return Ok(Choice { rule: format!("{why}: {}", choice.rule), ..choice });
        };
        let at = format!("{}:{}", self.file, rule.line.0);
        let last = self.version.last(rules.name, rules.algorithms.len());
        if rule.algorithm as usize > last {
            let (name, id, release) = (rules.name, rule.algorithm, self.version.name());
            return Err(Error::input(format!("{name} has no algorithm {id} in Open MPI {release}"))
                .at(at)
                .help(format!(
                    "its first call fails there; files without a version are taken as {release}'s: 5.0.7 and later \
                     also read rule-file-version-1 in front"
                )));
        }
        let from = match coll.map(dynamic::Coll::counts) {
            Some(Counts::Nothing) => "the first rule, for any size".to_owned(),
            Some(Counts::Block) => format!("from {} bytes of each rank on", rule.from.0),
            _ => format!("from {} bytes on", rule.from.0),
        };
        let decision = Decision {
            id: rule.algorithm,
            segment: rule.segment.0,
            fan: rule.fan,
            radix: (self.version == openmpi::Version::V60).then_some(rule.fan),
            rule: format!("{at}: {from}: algorithm {}", rule.algorithm),
        };
        let choice = openmpi::carry_out(self, rules, &decision, call).map_err(|e| e.at(at))?;
        Ok(self.version.behind_han(choice, call))
    }
}

const SPLIT_GATHER: &str = "Open MPI counts what each rank sends: a root that gathers in place looks up the rule for \
                            0 bytes, another than the other ranks', and the call hangs or gives wrong data";

const SPLIT_SCATTER: &str = "Open MPI counts sendcount and sendtype, which only the root has to set: ranks without \
                             them look up the rule for 0 bytes, another than the root's, and the call crashes";

impl Policy for OpenMpi {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let mut choice = self.by_rules(call)?;
        choice.notes.extend(self.split(call).map(Into::into));
        Ok(choice)
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        let rules = openmpi::rules_of(&self.meta, call)?;
        let mut edges = self.own.edges(call)?;
        if let Some(coll) = dynamic::Coll::named(rules.name) {
            let segments = self.rules.collectives.iter().flat_map(|c| &c.comms);
            let segments = segments.flat_map(|c| &c.rules).map(|r| r.segment.0);
            edges.extend(segments.flat_map(|each| openmpi::segment_edges(call, each)));
            edges.extend(self.rules.edges(coll, call.ranks));
        }
        edges.extend(openmpi::inner_edges(self, rules, call)?);
        Ok(edges)
    }

    fn force(&self, call: &Call, algorithm: &str) -> std::result::Result<String, Reason> {
        // A rule of the file wins over the option that forces an algorithm; from 5.0 on the option does
        // (v5.0.0 `coll_tuned_decision_dynamic.c` looks at `user_forced` before `com_rules`).
        let line = self.own.force(call, algorithm)?;
        let rule_wins = self.version == openmpi::Version::V41;
        Ok(if rule_wins { format!("{line}{WITHOUT}") } else { line })
    }

    fn cut(&self, call: &Call, forced: String, segment: Bytes) -> String {
        match forced.strip_suffix(WITHOUT) {
            Some(line) => format!("{}{WITHOUT}", self.own.cut(call, line.to_owned(), segment)),
            None => self.own.cut(call, forced, segment),
        }
    }

    fn name_of(&self, call: &Call, algorithm: &algorithm::Meta) -> Option<String> {
        self.own.name_of(call, algorithm)
    }
}

/// What older releases need beside the option that forces an algorithm.
const WITHOUT: &str = ", without the file before Open MPI 5.0";

/// The table of NCCL's example plugin.
struct Nccl {
    meta: Meta,
    rules: table::Rules,
    file: String,
    /// Says what NCCL considers, if its graphs are known.
    own: Option<policy::Nccl>,
}

impl Nccl {
    /// Whether NCCL considers what a line names. The plugin goes on to the next line otherwise
    /// (`plugin.c`, `pluginGetCollInfo`: "marked as IGNORE").
    fn considers(&self, call: &Call, rule: &table::Rule) -> bool {
        let (algorithm, protocol) = (rule.algorithm, rule.protocol);
        match &self.own {
            Some(own) => own.considers(call, algorithm, protocol),
            None => has_kernel(call, algorithm, protocol),
        }
    }
}

/// Whether NCCL has a kernel for it on any machine (`tuning.cc`, `ncclTopoTuneModel`).
fn has_kernel(call: &Call, algorithm: Algo, protocol: Proto) -> bool {
    let reduces = call.collective == C::AllReduce;
    let gathers = matches!(call.collective, C::AllGather | C::ReduceScatter);
    let is_simple = protocol == Proto::Simple;
    match algorithm {
        Algo::Ring => true,
        Algo::Tree => reduces,
        Algo::NvlsTree | Algo::CollNetChain => reduces && is_simple,
        Algo::Nvls | Algo::CollNetDirect => (reduces || gathers) && is_simple,
        Algo::Pat => gathers && is_simple && call.per_node() == 1,
    }
}

impl Policy for Nccl {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        if !table::COLLECTIVES.contains(&call.collective) {
            let ids: Vec<&str> = table::COLLECTIVES.iter().map(|c| c.id()).collect();
            return Err(Error::unsupported(format!(
                "the plugin is not called for {}",
                call.operation()
            ))
            .help(format!("ask for {}", ids.join(", "))));
        }
        let asked = table::Call {
            collective: call.collective,
            size: call.size,
            nodes: call.nodes,
            ranks: call.ranks,
            pipe_ops: 1,
            registered: false,
        };
        let mut fitting = self.rules.fitting(asked);
        let mut fell_back = Vec::new();
        let found = fitting.find(|rule| {
            let is_considered = self.considers(call, rule);
            if !is_considered {
                let from = format!("{} / {}", rule.algorithm.lower(), rule.protocol.lower());
                let why = format!("{}:{}: NCCL does not consider it", self.file, rule.line.0);
                fell_back.push(FellBack { from: from.into(), id: None, why });
            }
            is_considered
        });
        let Some(rule) = found else {
            let rule = format!("no line of {} applies", self.file);
            let why = "NCCL chooses itself: select the policy of its version";
            let note = "the plugin still leaves one channel if no line applies";
            let choice = Choice::new("NCCL's own choice", rule, Runs::unpriced(why));
            return Ok(Choice { notes: vec![note.into()], fell_back, ..choice });
        };
        let channels = match rule.channels {
            Channels::One => ", 1 channel".to_owned(),
            Channels::Own => String::new(),
            Channels::AtMost(most) => format!(", {most} channels"),
        };
        let name = format!("{} / {}{channels}", rule.algorithm.lower(), rule.protocol.lower());
        let cell = (rule.algorithm, rule.protocol);
        let runs = policy::runs((call.ranks, call.nodes), call.collective, cell);
        let (from, to) = (rule.from.0, rule.to.0);
        let words = format!("{}:{}: {from} to {to} bytes: {name}", self.file, rule.line.0);
        let price = "priced by algorithm and protocol: channels are NCCL's parameter";
        let mut notes = vec![price.into()];
        if self.own.is_none() {
            notes.push("NCCL's graphs are not known here: it may not consider this line".into());
        }
        Ok(Choice { notes, fell_back, ..Choice::new(name, words, runs) })
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        self.choose(call)?;
        Ok(self.rules.edges(call.collective))
    }
}
