//! The data that messages write and wait for: the chunks of each place, or ranges of them.
//!
//! Where messages hold many chunks, all chunks of a place that no message distinguishes form one
//! cell: a rank of Rabenseifner's all-reduce has lg N of them instead of N. Data that are never
//! sent on need no cell: a pairwise all-to-all has none.

use super::MEMORY;
use super::costs::Costs;
use super::jobs::{check_count, check_memory, samples};
use crate::base::error::{Error, Result};
use crate::model::schedule::{Layout, Run, Schedule, Sends, each_message};
use std::ops::Range;

/// The cells of all places.
pub(super) enum Cells {
    /// Every chunk at every place.
    Chunks { places: usize, chunks: usize },
    /// Ranges of chunks: the start of each, place by place in order, and the start of each place's
    /// ranges there.
    Ranges { starts: Vec<u32>, first: Vec<usize> },
}

/// With more cells than this, chunks of vectors that each belong to one rank are distinguished only
/// where they are.
const MANY: usize = 1 << 22;

impl Cells {
    /// The cells that distinguish what the messages of `schedule` do.
    ///
    /// # Errors
    /// More than [`MEMORY`] holds; an invalid message.
    pub fn of(schedule: &dyn Schedule, costs: &Costs) -> Result<Self> {
        let (places, chunks) = (costs.places(), costs.frame.chunks() as usize);
        let all = places.saturating_mul(chunks);
        let is_sparse = costs.frame.layout == Layout::Owned && all > MANY;
        if !is_sparse && all as u64 <= MEMORY / 8 && !has_long_runs(schedule, costs) {
            return Ok(Self::Chunks { places, chunks });
        }
        // Checked before all messages are visited.
        check_count(schedule, costs)?;
        Self::ranges(schedule, costs)
    }

    pub(super) fn ranges(schedule: &dyn Schedule, costs: &Costs) -> Result<Self> {
        // The data that a place sends lie in a hull; only additions wait for other data that arrive
        // there.
        let adds = costs.adds() && costs.frame.collective.reduces();
        let mut sent: Vec<Option<Run>> = vec![None; costs.places()];
        let mut sends = Sends::default();
        for round in 0..costs.frame.rounds {
            each_message(schedule, round, &mut sends, |from, transfer| {
                let hull = &mut sent[costs.message(from, transfer)?.from as usize];
                for run in transfer.runs {
                    *hull = Some(hull.map_or(*run, |hull| around(hull, *run)));
                }
                Ok::<_, Error>(())
            })?;
        }
        let mut bounds = vec![Bounds::default(); costs.places()];
        let mut kept = 0;
        for round in 0..costs.frame.rounds {
            each_message(schedule, round, &mut sends, |from, transfer| {
                let message = costs.message(from, transfer)?;
                for run in transfer.runs {
                    kept += bounds[message.from as usize].put(*run);
                    if adds || sent[message.to as usize].is_some_and(|hull| meet(hull, *run)) {
                        let receiver = &mut bounds[message.to as usize];
                        receiver.is_written = true;
                        kept += receiver.put(*run);
                    }
                }
                check_memory(kept as f64 * 4.0, costs)
            })?;
        }
        let mut first = Vec::with_capacity(bounds.len() + 1);
        let mut starts = Vec::new();
        for mut own in bounds {
            first.push(starts.len());
            if own.is_written {
                own.settle();
                starts.extend(own.all);
            }
        }
        first.push(starts.len());
        Ok(Self::Ranges { starts, first })
    }

    /// The number of cells.
    pub fn count(&self) -> usize {
        match self {
            Self::Chunks { places, chunks } => places * chunks,
            Self::Ranges { starts, .. } => starts.len(),
        }
    }

    /// The memory needed to distinguish them, in bytes.
    pub fn memory(&self) -> u64 {
        match self {
            Self::Chunks { .. } => 0,
            Self::Ranges { starts, first } => (4 * starts.len() + 8 * first.len()) as u64,
        }
    }

    /// The cells of some chunks at a place.
    #[inline(always)]
    pub fn of_run(&self, place: u32, run: Run) -> Range<usize> {
        match self {
            Self::Chunks { chunks, .. } => {
                let start = place as usize * chunks + run.start as usize;
                start..start + run.len as usize
            }
            Self::Ranges { starts, first } => {
                let (from, to) = (first[place as usize], first[place as usize + 1]);
                let own = &starts[from..to];
                if own.is_empty() {
                    return 0..0;
                }
                let start = own.partition_point(|&bound| bound < run.start);
                let ends = run.start + run.len;
                // Usually a run is one cell.
                let end = match own.get(start + 1) {
                    Some(&next) if next == ends => start + 1,
                    _ => start + own[start..].partition_point(|&bound| bound < ends),
                };
                from + start..from + end
            }
        }
    }
}

/// Whether messages hold runs of many chunks, judged from a sample.
fn has_long_runs(schedule: &dyn Schedule, costs: &Costs) -> bool {
    let (mut runs, mut chunks) = (0, 0);
    samples(schedule, costs, |sends| {
        for run in sends.iter().flat_map(|transfer| transfer.runs) {
            runs += 1;
            chunks += u64::from(run.len);
        }
    });
    chunks > 2 * runs
}

/// The chunks from the first to the last of two runs.
fn around(a: Run, b: Run) -> Run {
    let start = a.start.min(b.start);
    Run { start, len: (a.start + a.len).max(b.start + b.len) - start }
}

fn meet(a: Run, b: Run) -> bool {
    a.start < b.start + b.len && b.start < a.start + a.len
}

/// The bounds of the cells of one place so far.
#[derive(Clone, Default)]
struct Bounds {
    all: Vec<u32>,
    /// How many were left when duplicates were last removed.
    settled: usize,
    /// Whether data that may be sent on arrive there.
    is_written: bool,
}

impl Bounds {
    /// Inserts both ends of `run`, and returns how much longer the list has become.
    fn put(&mut self, run: Run) -> isize {
        let before = self.all.len() as isize;
        self.all.extend([run.start, run.start + run.len]);
        if self.all.len() > 64 + 2 * self.settled {
            self.settle();
        }
        self.all.len() as isize - before
    }

    fn settle(&mut self) {
        self.all.sort_unstable();
        self.all.dedup();
        self.settled = self.all.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Collective::{AllReduce, AllToAll};
    use crate::base::quantity::{Bandwidth, Seconds, Volume};
    use crate::cost::simulate::Setup;
    use crate::machine::fabric::Fabric;
    use crate::model::algorithm::Registry;
    use crate::model::formula::Shape;

    #[test]
    fn ranges_are_what_messages_tell_apart() {
        let registry = Registry::builtin();
        let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
        for (collective, name) in
            [(AllReduce, "rabenseifner"), (AllReduce, "ring"), (AllToAll, "pairwise")]
        {
            let shape = Shape::new(collective, 16);
            let schedule = registry.find(collective, name).unwrap().algorithm.schedule(&shape);
            let schedule = schedule.unwrap();
            let costs = Costs::new(&*schedule, &fabric, &Setup::new(Volume(1.0))).unwrap();
            let cells = Cells::ranges(&*schedule, &costs).unwrap();
            // Sent data are found to have arrived in the same rounds as with single chunks.
            let chunks = Cells::Chunks { places: 16, chunks: costs.frame.chunks() as usize };
            let mut seen = [&cells, &chunks].map(|cells| (cells, vec![None; cells.count()]));
            let mut sends = Sends::default();
            for round in 0..schedule.rounds() {
                let [found, wanted] = seen.each_mut().map(|(cells, written)| {
                    let mut found = Vec::new();
                    let mut came = Vec::new();
                    each_message(&*schedule, round, &mut sends, |from, transfer| {
                        let message = costs.message(from, transfer)?;
                        for &run in transfer.runs {
                            let cells_of = |place| cells.of_run(place, run);
                            found.push(written[cells_of(message.from)].iter().max().copied());
                            came.push(cells_of(message.to));
                        }
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                    came.into_iter().for_each(|cells| written[cells].fill(Some(round)));
                    found.into_iter().map(Option::flatten).collect::<Vec<_>>()
                });
                assert_eq!(found, wanted, "{name} {round}");
            }
            let most = [("rabenseifner", 16 * 16), ("ring", 17 * 16), ("pairwise", 0)];
            let (_, most) = most.into_iter().find(|(of, _)| *of == name).unwrap();
            assert!(cells.count() <= most, "{name}: {}", cells.count());
        }
    }
}
