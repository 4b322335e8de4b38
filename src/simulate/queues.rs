//! Jobs that wait for resources: one queue a resource, the first in the schedule in front.

use super::jobs::NONE;

/// Pairing heaps (Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1, 1986) over one set of jobs:
/// a job waits in one queue at a time, so two numbers a job are all they need.
#[derive(Default)]
pub(super) struct Queues {
    /// The first job of each resource's queue.
    first: Vec<u32>,
    /// The first of the heaps below each job, and the next heap beside it.
    below: Vec<u32>,
    beside: Vec<u32>,
}

impl Queues {
    /// Empty queues for so many resources and jobs.
    pub fn reset(&mut self, resources: usize, jobs: usize) {
        self.first.clear();
        self.first.resize(resources, NONE);
        self.below.resize(jobs, NONE);
        self.beside.resize(jobs, NONE);
    }

    /// The first job that waits for `resource`.
    #[inline]
    pub fn first(&self, resource: u32) -> Option<u32> {
        Some(self.first[resource as usize]).filter(|&job| job != NONE)
    }

    /// Puts `job` into the queue of `resource`.
    #[inline]
    pub fn push(&mut self, resource: u32, job: u32) {
        self.below[job as usize] = NONE;
        self.beside[job as usize] = NONE;
        self.first[resource as usize] = self.meld(self.first[resource as usize], job);
    }

    /// Takes the first job out of the queue of `resource`.
    pub fn pop(&mut self, resource: u32) {
        let first = self.first[resource as usize];
        if first == NONE {
            return;
        }
        // Pairs from the front, then all of those from the back.
        let mut rest = self.below[first as usize];
        let mut pairs = NONE;
        while rest != NONE {
            let second = self.beside[rest as usize];
            let after = if second == NONE { NONE } else { self.beside[second as usize] };
            let pair = self.meld(rest, second);
            self.beside[pair as usize] = pairs;
            pairs = pair;
            rest = after;
        }
        let mut heap = NONE;
        while pairs != NONE {
            let after = self.beside[pairs as usize];
            heap = self.meld(heap, pairs);
            pairs = after;
        }
        self.first[resource as usize] = heap;
    }

    /// One heap of two; the lower job is in front.
    #[inline]
    fn meld(&mut self, a: u32, b: u32) -> u32 {
        let (front, back) = match (a, b) {
            (NONE, heap) | (heap, NONE) => {
                if heap != NONE {
                    self.beside[heap as usize] = NONE;
                }
                return heap;
            }
            _ if a < b => (a, b),
            _ => (b, a),
        };
        self.beside[back as usize] = self.below[front as usize];
        self.below[front as usize] = back;
        self.beside[front as usize] = NONE;
        front
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_out_in_order() {
        let mut queues = Queues::default();
        queues.reset(2, 100);
        // Every job once, in an order that is none; odd ones wait for the second resource.
        for i in 0..100 {
            let job = i * 37 % 100;
            queues.push(job % 2, job);
        }
        for resource in [0, 1] {
            for job in (resource..100).step_by(2) {
                assert_eq!(queues.first(resource), Some(job));
                queues.pop(resource);
            }
            assert_eq!(queues.first(resource), None);
        }
        // Out and in again.
        queues.push(0, 7);
        queues.push(0, 3);
        queues.pop(0);
        queues.push(0, 3);
        assert_eq!(queues.first(0), Some(3));
    }
}
