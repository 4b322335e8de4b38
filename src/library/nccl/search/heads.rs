//! Channels of one head and all other GPUs: NVLS, and in-network reduction by all GPUs at once.
//!
//! Source: NVIDIA/nccl, `src/graph/search.cc`.

use super::routes::{Rate, Stop};
use super::searcher::{Searcher, portion};

impl Searcher {
    /// A head of NVLS: the switch sends to every GPU and every GPU sends to the switch, twice as
    /// much for the head.
    pub(super) fn switch(&mut self, head: usize) {
        let gpus = self.gpus();
        let (mut down, mut up) = (0, 0);
        while down < gpus && self.share(Stop::Switch, Stop::Gpu(down), down == head) {
            down += 1;
        }
        if down == gpus {
            while up < gpus && self.share(Stop::Gpu(up), Stop::Switch, up == head) {
                up += 1;
            }
            if up == gpus {
                self.complete();
            }
        }
        for gpu in (0..up).rev() {
            self.share_back(Stop::Gpu(gpu), Stop::Switch, gpu == head);
        }
        for gpu in (0..down).rev() {
            self.share_back(Stop::Switch, Stop::Gpu(gpu), gpu == head);
        }
    }

    /// Walks a path between GPU and switch; the head's takes twice the rate and may be of any type.
    fn share(&mut self, from: Stop, to: Stop, head: bool) -> bool {
        if !head {
            return self.walk(from, to, self.rates.intra);
        }
        let hops = self.passed(from, to, self.rates.double);
        self.trial.hops += 2 * hops.unwrap_or(0) as i32;
        hops.is_some()
    }

    /// The hops of a path of any type, if it has that much left.
    fn passed(&mut self, from: Stop, to: Stop, rate: Rate) -> Option<u32> {
        let route = self.routes.get(from, to);
        let is_lost = route.level >= self.world.levels.dis && self.walks.lost_fail;
        (!is_lost && self.routes.take(route, rate)).then_some(route.hops)
    }

    fn share_back(&mut self, from: Stop, to: Stop, head: bool) {
        let (times, rate) = if head { (2, self.rates.double) } else { (1, self.rates.intra) };
        let route = self.routes.get(from, to);
        self.routes.give_back(route, rate);
        self.trial.hops -= times * route.hops as i32;
    }

    /// A head of in-network reduction by all GPUs at once: it sends each other GPU its share.
    pub(super) fn all_others(&mut self, head: usize) {
        let gpus = self.gpus();
        let (mut out, mut back) = (0, 0);
        while out < gpus && self.part(Stop::Gpu(head), Stop::Gpu(out)) {
            out += 1;
        }
        if out == gpus {
            while back < gpus && self.part(Stop::Gpu(back), Stop::Gpu(head)) {
                back += 1;
            }
            if back == gpus {
                let others = (0..gpus).filter(|&gpu| gpu != head);
                for (index, gpu) in others.enumerate() {
                    self.trial.put(self.trial.channels, index + 1, gpu);
                }
                self.complete();
            }
        }
        for gpu in (0..back).rev() {
            self.part_back(Stop::Gpu(gpu), Stop::Gpu(head));
        }
        for gpu in (0..out).rev() {
            self.part_back(Stop::Gpu(head), Stop::Gpu(gpu));
        }
    }

    fn part(&mut self, from: Stop, to: Stop) -> bool {
        let portion = portion(self.gpus());
        if portion == 1.0 {
            return self.walk(from, to, self.rates.intra);
        }
        let hops = self.passed(from, to, self.rates.part);
        if let Some(hops) = hops {
            self.trial.hops = (self.trial.hops as f32 + portion * hops as f32) as i32;
        }
        hops.is_some()
    }

    fn part_back(&mut self, from: Stop, to: Stop) {
        let portion = portion(self.gpus());
        let route = self.routes.get(from, to);
        self.routes.give_back(route, self.rates.part);
        self.trial.hops = (self.trial.hops as f32 - portion * route.hops as f32) as i32;
    }
}
