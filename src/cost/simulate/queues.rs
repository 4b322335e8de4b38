//! Jobs that wait for resources: one queue per resource, in schedule order.

use super::jobs::NONE;

/// Pairing heaps (Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1, 1986) over one set of jobs:
/// a job waits in one queue at a time, so two numbers per job are enough. A queue is named by its
/// first job, [`NONE`] if no job waits.
#[derive(Default)]
pub(super) struct Queues {
    jobs: Vec<Waiting>,
}

/// The first of the heaps below a job, and the next heap at its level.
#[derive(Clone, Copy)]
struct Waiting {
    below: u32,
    beside: u32,
}

impl Queues {
    /// Room for this many jobs.
    pub fn reset(&mut self, jobs: usize) {
        self.jobs.resize(jobs, Waiting { below: NONE, beside: NONE });
    }

    /// The queue after `job` has joined `queue`.
    #[inline]
    pub fn push(&mut self, queue: u32, job: u32) -> u32 {
        self.jobs[job as usize] = Waiting { below: NONE, beside: NONE };
        self.meld(queue, job)
    }

    /// The queue after its first job, which exists, was removed.
    #[inline]
    pub fn pop(&mut self, queue: u32) -> u32 {
        // Pairs from the front, then all of those from the back.
        let mut rest = self.jobs[queue as usize].below;
        let mut pairs = NONE;
        while rest != NONE {
            let second = self.jobs[rest as usize].beside;
            let after = if second == NONE { NONE } else { self.jobs[second as usize].beside };
            let pair = self.meld(rest, second);
            self.jobs[pair as usize].beside = pairs;
            pairs = pair;
            rest = after;
        }
        let mut heap = NONE;
        while pairs != NONE {
            let after = self.jobs[pairs as usize].beside;
            heap = self.meld(heap, pairs);
            pairs = after;
        }
        heap
    }

    /// One heap out of two, of which one exists; the lower job is in front.
    #[inline]
    fn meld(&mut self, a: u32, b: u32) -> u32 {
        // `NONE` is above all jobs.
        let (front, back) = if a < b { (a, b) } else { (b, a) };
        let below = &mut self.jobs[front as usize];
        below.beside = NONE;
        if back != NONE {
            let rest = std::mem::replace(&mut below.below, back);
            self.jobs[back as usize].beside = rest;
        }
        front
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_out_in_order() {
        let mut queues = Queues::default();
        queues.reset(100);
        let mut first = [NONE; 2];
        // Every job once, in no particular order; odd ones wait for the second resource.
        for i in 0..100 {
            let job = i * 37 % 100;
            let queue = &mut first[job as usize % 2];
            *queue = queues.push(*queue, job);
        }
        for resource in [0, 1] {
            for job in (resource..100).step_by(2) {
                assert_eq!(first[resource as usize], job);
                first[resource as usize] = queues.pop(job);
            }
            assert_eq!(first[resource as usize], NONE);
        }
        // Out and in again.
        let queue = queues.push(NONE, 7);
        let queue = queues.push(queue, 3);
        let queue = queues.pop(queue);
        assert_eq!(queues.push(queue, 3), 3);
    }
}
