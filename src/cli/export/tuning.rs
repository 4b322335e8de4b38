//! A library's tuning file: what it should choose.

use super::Args;
use collcost::answer::tune::{self, Compared, LEAST_GAIN, Margin, Offer, Plan, Rendezvous, Span};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::library::mpich::rules::Version;
use collcost::library::nccl::rules::COLLECTIVES;
use collcost::library::openmpi::rules::{Coll, MessageRule};
use collcost::library::tuning_file::mpich_json;
use collcost::library::tuning_file::openmpi_rules;
use collcost::library::{Call, Operation, Policy, Site, entry, policy};
use collcost::machine::query::Query;
use collcost::model::algorithm::Registry;

/// A library's tuning files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Tuning {
    OpenMpi,
    Mpich,
    Nccl,
}

/// A size of calls whose way depends on their size no more.
const LONG: Bytes = Bytes(1 << 40);

/// A version with the policy of its own rules.
type Known = (&'static str, &'static str);

/// Libraries with the versions that read their format, the default first.
const TARGETS: &[(Tuning, &str, &[Known])] = &[
    (Tuning::OpenMpi, "openmpi", &[("4.1", "openmpi@4.1"), ("5.0", "openmpi@5.0")]),
    (
        Tuning::Mpich,
        "mpich",
        &[
            ("4.0", "mpich@4.0"),
            ("4.1", "mpich@4"),
            ("4.2", "mpich@4"),
            ("4.3", "mpich@4"),
            ("5.0", "mpich@4"),
        ],
    ),
];

impl Tuning {
    /// The names of the formats.
    pub(super) const NAMES: [&str; 3] = ["openmpi-rules", "mpich-json", "nccl-tuner-csv"];

    /// The format of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "openmpi-rules" => Some(Self::OpenMpi),
            "mpich-json" => Some(Self::Mpich),
            "nccl-tuner-csv" => Some(Self::Nccl),
            _ => None,
        }
    }

    /// The version that the file is for, and the policy of its own rules.
    pub(in crate::cli) fn target(self, asked: Option<&String>) -> Result<Known> {
        let Some(&(_, library, versions)) = TARGETS.iter().find(|(of, ..)| *of == self) else {
            return Err(Error::unsupported("no version reads this format"));
        };
        let Some(asked) = asked else { return Ok(versions[0]) };
        let plain = asked.to_ascii_lowercase();
        let version = plain.strip_prefix(library).map(|v| v.trim_start_matches(['@', '-', 'v']));
        let is = |known: &&Known| {
            let behind = version.and_then(|v| v.strip_prefix(known.0));
            behind.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        // A policy's name, or a short one: the newest release that it is the name of.
        let named = || {
            let (id, own) = (entry(&plain).ok()?.id, version.unwrap_or_default());
            let known = versions.iter().filter(|known| known.1 == id);
            known.max_by_key(|known| known.0.starts_with(own))
        };
        versions.iter().find(is).or_else(named).copied().ok_or_else(|| {
            let known: Vec<_> = versions.iter().map(|(v, _)| format!("{library}@{v}")).collect();
            Error::input(format!("no file can be written for `{asked}`"))
                .at(format!("--for {asked}"))
                .help(format!("known versions: {}", known.join(", ")))
        })
    }

    /// The text of a file with the rules of `plans`, and the notes for which the format has no room:
    /// below `head`, and with what is known of each rule, as `how` it is.
    pub(in crate::cli) fn text(
        self,
        version: &str,
        plans: &[Plan],
        (mut head, how): (Vec<String>, &str),
        file: Option<&str>,
    ) -> Result<(String, Vec<String>)> {
        if self == Self::Mpich {
            head.extend(tune::mpich::head(file));
            let version = if version == "4.0" { Version::V4_0 } else { Version::V4_1 };
            return Ok((mpich_json(&tune::mpich::tree(plans, version)?), head));
        }
        head.extend(tune::openmpi::head(version, file));
        let says = |coll: Coll, ranks: u32, rule: &MessageRule| {
            span_of(plans, coll, ranks, rule)?.says(how)
        };
        Ok((openmpi_rules(&tune::openmpi::table(plans), &head, &says), Vec::new()))
    }

    pub(in crate::cli) fn operations(self) -> Vec<Operation> {
        match self {
            Self::OpenMpi => tune::openmpi::operations().collect(),
            Self::Mpich => tune::mpich::operations().collect(),
            Self::Nccl => COLLECTIVES.iter().copied().map(Operation::from).collect(),
        }
    }
}

impl Args {
    /// The text of a tuning file, and the notes for which the format has no room.
    pub(super) fn tuning(&self, tuning: Tuning) -> Result<(String, Vec<String>)> {
        self.refuse_schedule_flags()?;
        if tuning == Tuning::Nccl {
            return self.nccl();
        }
        if let Some(comm) = &self.comm {
            return Err(Error::input("only NCCL has communicators with known graphs")
                .at(format!("--comm {comm}"))
                .help("leave out --comm"));
        }
        let (version, rules) = tuning.target(self.target.as_ref())?;
        let place = |e: Error| e.at(format!("export {}", self.format));
        let own = policy(rules, &Site::default()).map_err(place)?;
        let registry = Registry::builtin();
        let mut plans = Vec::new();
        let mut first: Option<Query> = None;
        let mut in_memory: Vec<(Operation, u32)> = Vec::new();
        for operation in self.asked(tuning)? {
            let collective = operation.collective;
            for query in self.on.queries(collective, Bytes(0))? {
                // A rank alone sends nothing, whatever a rule says.
                if query.shape.ranks == 1 {
                    continue;
                }
                if tuning == Tuning::Mpich {
                    tune::mpich::check(&query).map_err(place)?;
                    if !tune::mpich::reaches(operation, &query, LONG) {
                        in_memory.push((operation, query.shape.ranks));
                        first.get_or_insert(query);
                        continue;
                    }
                }
                let offers = |call: &Call| offers(tuning, &*own, call);
                let rendezvous = match tuning {
                    Tuning::OpenMpi => Rendezvous::open_mpi(&query).map_err(place)?,
                    _ => None,
                };
                let compared = Compared {
                    registry: &registry,
                    policy: &*own,
                    offers: &offers,
                    query: &query,
                    operation,
                    rendezvous,
                };
                plans.push(compared.plan().map_err(place)?);
                first.get_or_insert(query);
            }
        }
        if first.is_none() {
            return Err(Error::input("a rank alone has no choice of algorithms")
                .at(format!("export {} -n 1", self.format))
                .help("give more ranks, such as -n 2..64"));
        }
        let mut head = self.head(version, rules, first.as_ref(), (&plans, &in_memory));
        head.extend(in_memory.iter().map(|(operation, ranks)| {
            format!(
                "{operation} of {ranks} ranks on one node: in shared memory, which this file does not control"
            )
        }));
        let file = self.output.as_deref();
        tuning.text(version, &plans, (head, "predicted"), file).map_err(place)
    }

    fn refuse_schedule_flags(&self) -> Result<()> {
        let flags = [
            ("--algorithm", &self.call.algorithm),
            ("--size", &self.call.size),
            ("--size-is", &self.call.size_is),
            ("--root", &self.root),
        ];
        match flags.iter().find_map(|(flag, text)| text.as_ref().map(|text| (flag, text))) {
            Some((flag, text)) => {
                Err(Error::input("a tuning file is for all sizes and algorithms")
                    .at(format!("{flag} {text}"))
                    .help(format!("leave out {flag}")))
            }
            None => Ok(()),
        }
    }

    /// The requested operations, or all.
    pub(super) fn asked(&self, tuning: Tuning) -> Result<Vec<Operation>> {
        let all = tuning.operations();
        let mut asked = Vec::new();
        for word in &self.call.words {
            let collective: Collective = word.parse()?;
            let of = all.iter().filter(|o| o.collective == collective);
            asked.extend(of.copied());
            if !all.iter().any(|o| o.collective == collective) {
                let names: Vec<_> = all.iter().map(ToString::to_string).collect();
                return Err(Error::input(format!("this format has no rules for {collective}"))
                    .at(format!("export {} {word}", self.format))
                    .help(format!("known operations: {}", names.join(", "))));
            }
        }
        Ok(if asked.is_empty() { all } else { asked })
    }

    /// The origin of the file.
    fn head(
        &self,
        version: &str,
        rules: &str,
        query: Option<&Query>,
        (plans, in_memory): (&[Plan], &[(Operation, u32)]),
    ) -> Vec<String> {
        let untouched = in_memory.iter().map(|(_, ranks)| *ranks);
        let mut ranks: Vec<u32> = plans.iter().map(|plan| plan.ranks).chain(untouched).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let ranks: Vec<_> = ranks.iter().map(u32::to_string).collect();
        let machine = query.map_or("no machine", |query| &query.machine.name);
        let library = rules.split('@').next().unwrap_or(rules);
        let margin = query.map(Margin::of);
        let least = margin.map_or(LEAST_GAIN, |margin| margin.least());
        let mut lines = vec![
            format!("written by collcost {} for {library} {version}", env!("CARGO_PKG_VERSION")),
            format!("machine {machine}, communicators of {} ranks", ranks.join(", ")),
            format!(
                "a rule exists where the closed forms of the machine predict at least {} % less time",
                (least.0 * 100.0 - 1e-9).ceil()
            ),
            format!(
                "than the own choice of {rules}; elsewhere, and for other ranks, that choice stays"
            ),
        ];
        lines.extend(margin.and_then(|margin| margin.says()));
        if !plans.is_empty() && !plans.iter().any(Plan::has_rules) {
            lines.push("no choice gains that much: the file changes nothing".to_owned());
        }
        lines
    }
}

pub(in crate::cli) fn offers(tuning: Tuning, own: &dyn Policy, call: &Call) -> Result<Vec<Offer>> {
    match tuning {
        Tuning::OpenMpi => tune::openmpi::offers(own, call),
        Tuning::Mpich => tune::mpich::offers(call),
        // NCCL's lines rest on measurements.
        Tuning::Nccl => Ok(Vec::new()),
    }
}

/// The span of a rule.
fn span_of<'a>(plans: &'a [Plan], coll: Coll, ranks: u32, rule: &MessageRule) -> Option<&'a Span> {
    let is =
        |plan: &&Plan| plan.ranks == ranks && tune::openmpi::coll(plan.operation) == Some(coll);
    plans.iter().find(is)?.spans.iter().find(|span| span.from == rule.from)
}
