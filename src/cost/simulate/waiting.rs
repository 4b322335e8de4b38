//! Jobs that wait for resources: for each resource all jobs that need it, in schedule order, and
//! which of them wait.
//!
//! A waiting job is marked with each of its resources. When one is free again, its jobs are looked
//! through for the first whose other resources are free too. Keeping a job with only one resource
//! that it lacks costs more: where many ranks exchange data with many and start apart, it moves
//! back and forth, half of all jobs at every message (1,024 ranks: 142 s instead of 3).
//!
//! Where ranks send one message each to most others, as in an all-to-all, nearly all jobs wait and
//! nearly none could start. Then a bit stands for each pair of ranks, words of bits are compared
//! with the ports that are free, and the number of a job follows from its ranks.

use super::jobs::{Job, Jobs, NONE};

/// A job among those of a resource.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub job: u32,
    /// Another of its resources, looked at before all of them: the same if there is none.
    other: u32,
}

/// The entries of a resource.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    start: u32,
    end: u32,
    /// No entry before this one waits.
    first: u32,
    /// How many wait.
    count: u32,
}

/// Made when the first job waits: most rounds have none that does.
#[derive(Default)]
pub(super) struct Waiting {
    rows: Vec<Row>,
    entries: Vec<Entry>,
    /// Where the entries of each job are, as many for each as a job needs at most.
    places: Vec<u32>,
    /// One bit for each entry: whether the job waits.
    bits: Vec<u64>,
    pairs: Pairs,
}

/// The jobs of ranks that send at most one message to each other rank, all in the same order.
#[derive(Default)]
struct Pairs {
    /// N; 0 if this is not used.
    ranks: usize,
    /// The words of a row of N bits.
    words: usize,
    /// The job of rank 0 to the rank at each distance, and how many jobs later that of the next
    /// rank comes.
    first: Vec<u32>,
    step: u32,
    /// Whether jobs to a lesser distance come before all jobs to a greater one.
    by_distance: bool,
    /// For each send port, then for each receive port: the ranks to, or from, which a job waits.
    waits: Vec<u64>,
    /// The free send ports, then the free receive ports.
    free: Vec<u64>,
}

impl Pairs {
    /// Whether the jobs are such, and enough of them.
    fn make(&mut self, jobs: &Jobs) -> bool {
        let count = jobs.jobs.len();
        let Some(ranks) = jobs.in_pairs().filter(|n| n * n <= 4 * count) else { return false };
        // Round after round, or all messages of a rank one after the other.
        self.ranks = ranks;
        let steps = [1, (count / ranks) as u32];
        if !steps.into_iter().any(|step| self.number(jobs, step)) {
            self.ranks = 0;
            return false;
        }
        self.words = ranks.div_ceil(64);
        self.waits.clear();
        self.waits.resize(2 * ranks * self.words, 0);
        self.free.clear();
        self.free.resize(2 * self.words, 0);
        for port in (0..2 * ranks).filter(|port| jobs.resources[1 + port] != 0) {
            let (side, rank) = (port / ranks, port % ranks);
            self.free[side * self.words + rank / 64] |= 1 << (rank % 64);
        }
        true
    }

    /// Whether the jobs to the same distance are `step` apart from rank to rank.
    fn number(&mut self, jobs: &Jobs, step: u32) -> bool {
        self.step = step;
        self.first.clear();
        self.first.resize(self.ranks, NONE);
        (0..).zip(&jobs.jobs).all(|(number, job)| {
            let distance = self.distance(job.from as usize, job.to as usize);
            let Some(first) = u32::checked_sub(number, job.from * step) else { return false };
            let other = std::mem::replace(&mut self.first[distance], first);
            other == NONE || other == first
        }) && {
            let last = (self.ranks as u32 - 1).saturating_mul(step);
            let there = self.first.iter().filter(|&&first| first != NONE);
            self.by_distance = there.is_sorted_by(|&a, &b| a.saturating_add(last) < *b);
            true
        }
    }

    /// How many ranks after `from` rank `to` is.
    #[inline(always)]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.ranks - from }
    }

    /// The sender and the receiver of a job.
    #[inline(always)]
    fn ranks_of(&Job { from, to, .. }: &Job) -> [usize; 2] {
        [from as usize, to as usize]
    }

    /// The words and the bits that stand for a job: at its send port and at its receive port.
    #[inline(always)]
    fn marks(&self, [from, to]: [usize; 2]) -> [(usize, u64); 2] {
        let word = |row: usize, rank: usize| (row * self.words + rank / 64, 1 << (rank % 64));
        [word(from, to), word(self.ranks + to, from)]
    }

    /// The words and the bits of its ports among the free ones.
    #[inline(always)]
    fn ports(&self, [from, to]: [usize; 2]) -> [(usize, u64); 2] {
        let word = |side: usize, rank: usize| (side * self.words + rank / 64, 1 << (rank % 64));
        [word(0, from), word(1, to)]
    }

    /// The first job, from `job` on, that waits for a port and whose other port is free, with that.
    fn startable(&self, resource: u32, job: u32) -> Option<Entry> {
        let port = resource as usize - 1;
        let (sends, rank) = (port < self.ranks, port % self.ranks);
        let waits = &self.waits[port * self.words..][..self.words];
        let free = &self.free[if sends { self.words } else { 0 }..][..self.words];
        let entry = |other: usize| {
            let (from, to) = if sends { (rank, other) } else { (other, rank) };
            let job = self.first[self.distance(from, to)] + from as u32 * self.step;
            // The other port is on the other side; ports are numbered from 1.
            Entry { job, other: (other + if sends { self.ranks } else { 0 }) as u32 + 1 }
        };
        if self.by_distance {
            // The nearest comes first: upwards from the rank to those it sends to, downwards to those
            // it receives from, and round the end.
            let (above, below) = (!0 << (rank % 64), !(!0 << (rank % 64)));
            let (near, far) = if sends { (above, below) } else { (below, above) };
            let (own, last) = (rank / 64, self.words - 1);
            let mut word = own;
            for step in 0..=self.words {
                let part = match step {
                    0 => near,
                    _ if step == self.words => far,
                    _ => !0,
                };
                let mut bits = waits[word] & free[word] & part;
                while bits != 0 {
                    let bit = if sends { bits.trailing_zeros() } else { bits.ilog2() };
                    bits ^= 1 << bit;
                    let found = entry(word * 64 + bit as usize);
                    if found.job >= job {
                        return Some(found);
                    }
                }
                word = match sends {
                    true if word == last => 0,
                    true => word + 1,
                    false => word.checked_sub(1).unwrap_or(last),
                };
            }
            return None;
        }
        let mut first: Option<Entry> = None;
        for (word, (waits, free)) in waits.iter().zip(free).enumerate() {
            let mut bits = waits & free;
            while bits != 0 {
                let other = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let found = entry(other);
                if found.job >= job && first.is_none_or(|first| found.job < first.job) {
                    first = Some(found);
                }
            }
        }
        first
    }
}

impl Waiting {
    /// No job waits.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.pairs.ranks = 0;
    }

    /// The ports of `job` are taken.
    #[inline(always)]
    pub fn taken(&mut self, jobs: &Jobs, job: u32) {
        if self.pairs.ranks > 0 {
            for (word, bit) in self.pairs.ports(Pairs::ranks_of(&jobs.jobs[job as usize])) {
                self.pairs.free[word] &= !bit;
            }
        }
    }

    /// The ports of `job` are free again.
    #[inline(always)]
    pub fn given(&mut self, jobs: &Jobs, job: u32) {
        if self.pairs.ranks > 0 {
            for (word, bit) in self.pairs.ports(Pairs::ranks_of(&jobs.jobs[job as usize])) {
                self.pairs.free[word] |= bit;
            }
        }
    }

    fn make(&mut self, jobs: &Jobs) {
        self.rows.resize(jobs.resources.len(), Row::default());
        let all = 0..jobs.jobs.len() as u32;
        for job in all.clone() {
            jobs.limited_needs(job, |need, _| self.rows[need as usize].end += 1);
        }
        let mut start = 0;
        for row in &mut self.rows {
            let count = row.end;
            *row = Row { start, end: start, first: start + count, count: 0 };
            start += count;
        }
        self.entries.clear();
        self.entries.resize(start as usize, Entry::default());
        self.bits.clear();
        self.bits.resize(start as usize / 64 + 1, 0);
        self.places.clear();
        self.places.resize(all.len() * jobs.most_needs(), 0);
        for job in all {
            let mut place = job as usize * jobs.most_needs();
            jobs.limited_needs(job, |need, other| {
                let row = &mut self.rows[need as usize];
                self.entries[row.end as usize] = Entry { job, other };
                self.places[place] = row.end;
                row.end += 1;
                place += 1;
            });
        }
    }

    /// `job` waits.
    pub fn add(&mut self, jobs: &Jobs, job: u32) {
        if self.rows.is_empty() && self.pairs.ranks == 0 && !self.pairs.make(jobs) {
            self.make(jobs);
        }
        if self.pairs.ranks > 0 {
            for (word, bit) in self.pairs.marks(Pairs::ranks_of(&jobs.jobs[job as usize])) {
                self.pairs.waits[word] |= bit;
            }
            return;
        }
        let mut place = job as usize * jobs.most_needs();
        jobs.limited_needs(job, |need, _| {
            let at = self.places[place];
            let row = &mut self.rows[need as usize];
            row.first = row.first.min(at);
            row.count += 1;
            self.bits[at as usize / 64] |= 1 << (at % 64);
            place += 1;
        });
    }

    /// A job found by [`Self::startable`] waits no longer and holds its resources.
    ///
    /// Of pairs the job itself is not looked at: that it is far away in memory is then not waited
    /// for.
    #[inline(always)]
    pub fn take(&mut self, jobs: &mut Jobs, Entry { job, other }: Entry, resource: u32) {
        if self.pairs.ranks > 0 {
            jobs.hold([resource, other]);
            let [from, to] = [resource.min(other) as usize - 1, resource.max(other) as usize - 1];
            let ranks = [from, to - self.pairs.ranks];
            for (word, bit) in self.pairs.marks(ranks) {
                self.pairs.waits[word] &= !bit;
            }
            for (word, bit) in self.pairs.ports(ranks) {
                self.pairs.free[word] &= !bit;
            }
            return;
        }
        jobs.take(job);
        let mut place = job as usize * jobs.most_needs();
        jobs.limited_needs(job, |need, _| {
            let at = self.places[place];
            self.rows[need as usize].count -= 1;
            self.bits[at as usize / 64] &= !(1 << (at % 64));
            place += 1;
        });
    }

    /// The first job that waits for a resource, or one before it.
    #[inline]
    pub fn first(&mut self, resource: u32) -> Option<u32> {
        if self.pairs.ranks > 0 {
            return Some(0);
        }
        let row = *self.rows.get(resource as usize)?;
        if row.count == 0 {
            return None;
        }
        let at = self.from(row.first, row.end).next()?;
        self.rows[resource as usize].first = at;
        Some(self.entries[at as usize].job)
    }

    /// The first job, from `job` on, that waits for a resource and can start.
    pub fn startable(&self, jobs: &Jobs, resource: u32, job: u32) -> Option<Entry> {
        if self.pairs.ranks > 0 {
            return self.pairs.startable(resource, job);
        }
        let row = self.rows[resource as usize];
        let at = match self.entries.get(row.first as usize) {
            Some(first) if first.job == job => row.first,
            _ => self.position(resource, job),
        };
        let can_start = |at: &u32| {
            let Entry { job, other } = self.entries[*at as usize];
            jobs.resources[other as usize] != 0 && jobs.can_start(job)
        };
        self.from(at, row.end).find(can_start).map(|at| self.entries[at as usize])
    }

    /// The position of the first job, from `job` on, among those of a resource.
    fn position(&self, resource: u32, job: u32) -> u32 {
        let Row { start, end, .. } = self.rows[resource as usize];
        let own = &self.entries[start as usize..end as usize];
        start + own.partition_point(|entry| entry.job < job) as u32
    }

    /// The entries that wait, from `at` on.
    #[inline(always)]
    fn from(&self, at: u32, end: u32) -> impl Iterator<Item = u32> {
        let words = if at < end { at / 64..end.div_ceil(64) } else { 0..0 };
        words.flat_map(move |word| {
            let before = if word == at / 64 { at % 64 } else { 0 };
            let mut bits = self.bits[word as usize] >> before << before;
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                Some(word * 64 + bit).filter(|&at| bit < 64 && at < end)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Collective::AllToAll;
    use crate::base::quantity::{Bandwidth, Seconds, Volume};
    use crate::cost::simulate::cells::Cells;
    use crate::cost::simulate::costs::Costs;
    use crate::cost::simulate::{Setup, tally::Tally};
    use crate::machine::fabric::Fabric;
    use crate::model::algorithm::Registry;
    use crate::model::formula::Shape;

    /// Jobs start, wait and end at random; what could start is the same by pairs and by rows.
    #[test]
    fn pairs_find_what_rows_find() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut found = 0;
        let cases = ["pairwise", "linear"].map(|id| [2, 3, 7, 64, 65, 100].map(|n| (id, n)));
        for (id, n) in cases.into_iter().flatten() {
            let shape = Shape::new(AllToAll, n);
            let named = Registry::builtin().find(AllToAll, id).unwrap();
            let schedule = named.algorithm.schedule(&shape).unwrap();
            let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
            let costs = Costs::new(&*schedule, &fabric, &Setup::new(Volume(1.0))).unwrap();
            let cells = Cells::ranges(&*schedule, &costs).unwrap();
            let (mut jobs, mut tally) = (Jobs::default(), Tally::default());
            tally.reset(costs.places());
            let rounds = 0..costs.frame.rounds;
            jobs.fill(&*schedule, &costs, (Some(&cells), rounds), &mut tally).unwrap();
            let (mut pairs, mut rows) = (Waiting::default(), Waiting::default());
            rows.make(&jobs);
            let (mut waits, mut runs): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
            let mut left: Vec<u32> = (0..jobs.jobs.len() as u32).collect();
            while !(left.is_empty() && waits.is_empty()) {
                let none = waits.is_empty() && runs.is_empty();
                if !left.is_empty() && (none || random(3) > 0) {
                    let job = left.swap_remove(random(left.len()));
                    pairs.add(&jobs, job);
                    rows.add(&jobs, job);
                    waits.push(job);
                } else if !runs.is_empty() && random(3) > 0 {
                    let job = runs.swap_remove(random(runs.len()));
                    pairs.given(&jobs, job);
                    jobs.give(job, |_| {});
                }
                let port = 1 + random(2 * n as usize) as u32;
                if jobs.resources[port as usize] == 0 {
                    continue;
                }
                let from = random(jobs.jobs.len()) as u32;
                for from in [from, 0] {
                    let found = [&pairs, &rows].map(|waiting| waiting.startable(&jobs, port, from));
                    assert_eq!(
                        found[0].map(|found| (found.job, found.other)),
                        found[1].map(|found| (found.job, found.other)),
                        "{id}, {n} ranks, port {port}, from job {from}"
                    );
                }
                if let Some(entry) = rows.startable(&jobs, port, 0) {
                    found += 1;
                    let job = entry.job;
                    pairs.take(&mut jobs, entry, port);
                    jobs.give(job, |_| {});
                    rows.take(&mut jobs, entry, port);
                    waits.retain(|&other| other != job);
                    runs.push(job);
                }
            }
            assert_eq!(pairs.pairs.ranks, n as usize);
        }
        assert!(found > 1000, "{found}");
    }
}
