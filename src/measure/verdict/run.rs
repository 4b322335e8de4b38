//! The runs of a log: rows with the same collective, number of ranks, element type, library and variables form
//! one run. Formats with several backends, kernels or algorithms name them in the library.

use std::collections::BTreeMap;

use super::{Facts, Sizes};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::curve::{Observation, Placed, contradiction, observations};
use crate::machine::query::Machine;
use crate::machine::sample::DataType;
use crate::measure::logs::{BLOCKING, HOST_CLOCK, Imported, Measured, Traced};
use crate::model::algorithm::{GPU_MPI, MPI, RunBy};

/// What one verdict is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The log; absent for one typed number.
    pub file: Option<String>,
    /// The collective.
    pub collective: Collective,
    /// N, if known.
    pub ranks: Option<u32>,
    /// The number of nodes, if known.
    pub nodes: Option<u32>,
    /// The type of the elements, if known.
    pub dtype: Option<DataType>,
    /// The library, with the kernel or algorithm where the log names it.
    pub library: Option<String>,
    /// Sizes with their times.
    pub times: Vec<(Bytes, Seconds)>,
    /// What else the log says.
    pub facts: Facts,
    /// For the calls of a job: what else is known of each size.
    pub traced: Vec<(Bytes, Traced)>,
}

impl Run {
    /// Tells a machine whose profile names neither a library nor chips that the log names one of MPI: its ranks are
    /// processes on hosts, also where each has a node to itself, or GPUs, also where there are several on one.
    pub fn tell(&self, machine: &mut Machine) {
        machine.gpus_per_thread = machine.gpus_per_thread.or(self.facts.evidence.gpus_per_thread());
        let is_gloo = self.library.as_deref().is_some_and(|name| name.starts_with("Gloo"));
        let library = match self.facts.run_by {
            Some(RunBy::Hosts) if !is_gloo => MPI,
            Some(RunBy::GpuMpi) => GPU_MPI,
            _ => return,
        };
        if machine.library.is_none() && machine.hardware.is_none() {
            machine.library = Some(library.to_owned());
        }
    }
}

/// The runs of `log`, called `file`; `left_out` receives what does not count and why. A size that was
/// timed more than once counts by its median.
#[must_use]
pub fn runs(file: &str, log: &Imported, left_out: &mut Vec<String>) -> Vec<Run> {
    type Key<'l> = (usize, Collective, Option<u32>, Option<u32>, Option<DataType>, Option<&'l str>);
    // A run of each table, by what they share.
    let mut by: BTreeMap<Key, BTreeMap<usize, Run>> = BTreeMap::new();
    for (at, table) in log.tables.iter().enumerate() {
        let (part, evidence) = log.evidence.of(at);
        if let Some(refused) = &table.refused {
            left_out.push(format!("{file}:{}: {}", table.line, refused.what));
        }
        let Some(collective) = table.tested.collective() else { continue };
        let in_place = table.rows.iter().all(|r| r.in_place);
        let mut places = 0;
        for row in &table.rows {
            let Measured::Time(time) = row.measured else { continue };
            let library = table.library.as_deref();
            let key = (part, collective, table.ranks, table.nodes, row.dtype, library);
            let run = by.entry(key).or_default().entry(at).or_insert_with(|| Run {
                file: Some(file.to_owned()),
                collective,
                ranks: table.ranks,
                nodes: table.nodes,
                dtype: row.dtype,
                library: table.library.clone(),
                times: Vec::new(),
                facts: Facts { evidence: evidence.clone(), ..Facts::default() },
                traced: Vec::new(),
            });
            run.facts.bounds.extend(row.traced.filter(|t| t.at_most).map(|_| row.size));
            run.traced.extend(row.traced.map(|t| (row.size, t)));
            run.facts.wrong += row.wrong.unwrap_or(0);
            run.facts.shared_gpu |= table.shares_gpus;
            // Its list of devices names the hosts; benchmarks of engines run on one.
            run.facts.nodes_open |=
                matches!(table.format, "nccl-tests" | "imb") && table.nodes.is_none();
            run.facts.full_node = table.full_node;
            run.facts.sizes = sizes(table.format);
            run.facts.run_by = run.facts.run_by.or(table.run_by());
            run.facts.gpus = run
                .facts
                .gpus
                .take()
                .or_else(|| table.gpus.clone().or_else(|| table.system.clone()));
            // A host that waits for every call makes them longer, not shorter; so do late ranks.
            run.facts.at_most |=
                table.notes().any(|note| [BLOCKING, HOST_CLOCK].contains(&note.as_str()));
            for caveat in table.notes() {
                if !run.facts.caveats.contains(caveat) {
                    run.facts.caveats.push(caveat.clone());
                }
            }
            if run.facts.damage.is_empty() {
                run.facts.damage.extend(table.damage());
            }
            if row.in_place == in_place {
                run.times.push((row.size, time));
            } else {
                run.facts.in_place.push((row.size, time));
                places += 1;
            }
        }
        for row in &table.wrong_left_out {
            let library = table.library.as_deref();
            let key = (part, collective, table.ranks, table.nodes, row.dtype, library);
            if let Some(run) = by.get_mut(&key).and_then(|tables| tables.get_mut(&at)) {
                run.facts.wrong += row.wrong.unwrap_or(0);
            }
        }
        if places > 0 {
            left_out.push(format!(
                "{file}:{}: {places} in-place times; the out-of-place ones count",
                table.line
            ));
        }
    }
    by.into_values()
        .flat_map(|tables| joined(tables.into_values().collect()))
        .map(medians)
        .collect()
}

/// The runs of tables that share all that their log says, as one run, unless their times contradict each other: the
/// median of those would be the time of none. The groups of a job's trace stay together.
fn joined(tables: Vec<Run>) -> Vec<Run> {
    let tables: Vec<Run> = tables.into_iter().filter(|run| !run.times.is_empty()).collect();
    let each: Vec<Run> = tables.iter().cloned().map(medians).collect();
    let all: Vec<Observation> = each.iter().flat_map(|run| observed(run, &run.times)).collect();
    if tables.iter().all(|run| run.traced.is_empty()) && contradiction(&all).is_some() {
        return tables;
    }
    let mut tables = tables.into_iter();
    let Some(mut first) = tables.next() else { return Vec::new() };
    for other in tables {
        first.facts.add(&other.facts);
        first.times.extend(other.times);
        first.traced.extend(other.traced);
    }
    vec![first]
}

/// Times of a run, as observations of one machine.
fn observed(run: &Run, times: &[(Bytes, Seconds)]) -> Vec<Observation> {
    let placed = Placed { ranks: run.ranks.unwrap_or(1), nodes: run.nodes.unwrap_or(1) };
    times.iter().map(|&(size, time)| Observation { placed, size, time }).collect()
}

/// What a format's sizes count is documented for all but these.
fn sizes(format: &str) -> Sizes {
    match format {
        "csv" => Sizes::Table,
        "hccl" => Sizes::Open,
        _ => Sizes::Documented,
    }
}

fn medians(mut run: Run) -> Run {
    let each = observed(&run, &run.times);
    let in_place = observed(&run, &run.facts.in_place);
    run.facts.caveats.extend(contradiction(&each));
    let by_size = |all| observations(all).into_iter().map(|o| (o.size, o.time)).collect();
    run.times = by_size(each);
    run.facts.in_place = by_size(in_place);
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::profile::Profile;
    use crate::machine::query::Given;

    /// Only a network that names neither a library nor chips learns whose ranks ran.
    #[test]
    fn a_bare_network_is_told_who_ran() {
        let told = |machine: &str, run_by, library: &str| {
            let run = Run {
                file: None,
                collective: Collective::AllReduce,
                ranks: None,
                nodes: None,
                dtype: None,
                library: Some(library.to_owned()),
                times: Vec::new(),
                facts: Facts { run_by: Some(run_by), ..Facts::default() },
                traced: Vec::new(),
            };
            let profile = Profile::builtin(machine).unwrap();
            let mut machine =
                Machine::on(&profile, "--on", &Given::default(), Collective::AllReduce).unwrap();
            run.tell(&mut machine);
            machine.library
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told("ib-ndr", RunBy::Hosts, "MPI"), some(MPI));
        assert_eq!(told("ib-ndr", RunBy::GpuMpi, "MPI-CUDA"), some(GPU_MPI));
        assert_eq!(told("ib-ndr", RunBy::Hosts, "Gloo 0.5"), None);
        assert_eq!(told("ib-ndr", RunBy::Nccl, "NCCL"), None);
        assert_eq!(told("ib-hdr", RunBy::Hosts, "MPI"), some("openmpi"));
        let gpus = told("p5.48xlarge", RunBy::Hosts, "MPI");
        assert_eq!(gpus, told("p5.48xlarge", RunBy::Nccl, "NCCL"));
    }
}
