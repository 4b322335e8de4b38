//! Jobs that wait for resources: for each resource all jobs that need it, in schedule order, and
//! which of them wait.
//!
//! A waiting job is marked with each of its resources. When one is free again, its jobs are looked
//! through for the first whose other resources are free too. Keeping a job with only one resource
//! that it lacks costs more: where many ranks exchange data with many and start apart, it moves
//! back and forth, half of all jobs at every message (1,024 ranks: 142 s instead of 3).

use super::jobs::Jobs;

/// A job among those of a resource.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    job: u32,
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
}

impl Waiting {
    /// No job waits.
    pub fn clear(&mut self) {
        self.rows.clear();
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
        if self.rows.is_empty() {
            self.make(jobs);
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

    /// `job` waits no longer.
    pub fn remove(&mut self, jobs: &Jobs, job: u32) {
        let mut place = job as usize * jobs.most_needs();
        jobs.limited_needs(job, |need, _| {
            let at = self.places[place];
            self.rows[need as usize].count -= 1;
            self.bits[at as usize / 64] &= !(1 << (at % 64));
            place += 1;
        });
    }

    /// The first job that waits for a resource.
    #[inline]
    pub fn first(&mut self, resource: u32) -> Option<u32> {
        let row = *self.rows.get(resource as usize)?;
        if row.count == 0 {
            return None;
        }
        let at = self.from(row.first, row.end).next()?;
        self.rows[resource as usize].first = at;
        Some(self.entries[at as usize].job)
    }

    /// The first job, from `job` on, that waits for a resource and can start.
    pub fn startable(&self, jobs: &Jobs, resource: u32, job: u32) -> Option<u32> {
        let row = self.rows[resource as usize];
        let at = match self.entries.get(row.first as usize) {
            Some(first) if first.job == job => row.first,
            _ => self.position(resource, job),
        };
        let can_start = |at: &u32| {
            let Entry { job, other } = self.entries[*at as usize];
            jobs.resources[other as usize] != 0 && jobs.can_start(job)
        };
        let at = self.from(at, row.end).find(can_start)?;
        Some(self.entries[at as usize].job)
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
