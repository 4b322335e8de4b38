//! The parameters that an algorithm is tested with: those that change its schedule.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;

use crate::base::collective::Collective;
use crate::model::algorithm::Algorithm;
use crate::model::formula::{Dims, Params, Ports, Relay, Shape, Tie, Trees};
use crate::model::schedule::{Schedule, Sends, every_message};

/// A parameter besides ranks and segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knob {
    Radix,
    Aggregation,
    Relay,
    Dims,
    Rails,
    Trees,
    Group,
    Ports,
}

const KNOBS: [Knob; 8] = [
    Knob::Radix,
    Knob::Aggregation,
    Knob::Relay,
    Knob::Dims,
    Knob::Rails,
    Knob::Trees,
    Knob::Group,
    Knob::Ports,
];

/// Numbers of ranks used to find out which parameters affect an algorithm: a prime, even numbers, a
/// square, powers of two.
const PROBES: [u32; 6] = [5, 6, 8, 9, 12, 16];

/// The settings of one algorithm for one collective.
pub(super) struct Settings<'a> {
    algorithm: &'a dyn Algorithm,
    collective: Collective,
    knobs: Vec<Knob>,
}

impl<'a> Settings<'a> {
    /// Finds out which parameters change the schedule.
    pub fn new(algorithm: &'a dyn Algorithm, collective: Collective) -> Self {
        let matters = |knob: &Knob| {
            PROBES.into_iter().any(|n| {
                let plain = Shape::new(collective, n);
                let print = print_of(algorithm, &plain);
                turned(*knob, plain).iter().any(|shape| print_of(algorithm, shape) != print)
            })
        };
        let knobs = KNOBS.into_iter().filter(matters).collect();
        Self { algorithm, collective, knobs }
    }

    /// The shapes of `n` ranks, varying one parameter at a time, without segments.
    pub fn of(&self, n: u32) -> Vec<Shape> {
        let plain = Shape::new(self.collective, n);
        let mut shapes = vec![plain];
        for &knob in &self.knobs {
            shapes.extend(turned(knob, plain));
        }
        shapes.retain(|shape| self.algorithm.applies(shape).is_ok());
        shapes
    }
}

/// `plain` with every tested setting of one parameter.
fn turned(knob: Knob, plain: Shape) -> Vec<Shape> {
    let n = plain.ranks;
    let whole = NonZeroU32::new;
    let with = |params| Shape { params, ..plain };
    let none = Params::default();
    match knob {
        Knob::Radix => {
            [2, 3, 4, 8].map(|radix| with(Params { radix: Some(radix), ..none })).to_vec()
        }
        Knob::Aggregation => {
            [1, 4].map(|most| with(Params { aggregation: whole(most), ..none })).to_vec()
        }
        Knob::Relay => {
            let ways = [
                (Relay::Aggregated, Tie::Split),
                (Relay::Chunk, Tie::Right),
                (Relay::Chunk, Tie::Split),
            ];
            ways.map(|(relay, tie)| with(Params { relay, tie, ..none })).to_vec()
        }
        Knob::Dims => {
            let open = [[false; 4], [true, false, false, false]];
            let with = |dims| open.map(|open| with(Params { dims: Some(dims), open, ..none }));
            boxes(n).into_iter().flat_map(with).collect()
        }
        Knob::Rails => [2, 4].map(|rails| with(Params { rails: whole(rails), ..none })).to_vec(),
        Knob::Trees => {
            [Trees::Levels, Trees::Heap].map(|trees| with(Params { trees, ..none })).to_vec()
        }
        Knob::Group => {
            let groups = [2, 3, 4, 8].into_iter().filter(|&group| group < n);
            let alone = |group| Shape { group: whole(group), ..plain };
            groups
                .flat_map(|group| {
                    let rails = Params { rails: whole(group), ..none };
                    let slices = Params { dims: boxes(group).pop(), ..none };
                    let with = |params| Shape { params, ..alone(group) };
                    [alone(group), with(rails), with(slices)]
                })
                .collect()
        }
        Knob::Ports => {
            let ports = [Ports::full(2), Ports::Half(NonZeroU32::MIN), Ports::Unbounded];
            ports.map(|ports| plain.with_ports(ports)).to_vec()
        }
    }
}

/// The tori of `n` ranks: a line, the squarest rectangle in both orientations, the most cubic box.
fn boxes(n: u32) -> Vec<Dims> {
    let divisor = |n: u32, root: f64| {
        let most = root.round() as u32;
        (1..=most).rev().find(|&d| n.is_multiple_of(d)).unwrap_or(1)
    };
    let a = divisor(n, f64::from(n).sqrt().floor());
    let third = divisor(n, f64::from(n).cbrt());
    let second = divisor(n / third, f64::from(n / third).sqrt().floor());
    let sides: [&[u32]; 4] = [&[n], &[a, n / a], &[n / a, a], &[third, second, n / third / second]];
    sides.into_iter().filter_map(Dims::new).collect()
}

/// A hash of the schedule of a shape; `None` if there is no schedule.
fn print_of(algorithm: &dyn Algorithm, shape: &Shape) -> Option<u64> {
    algorithm.applies(shape).ok()?;
    // Two segments show the effect of a parameter on a pipeline.
    let segments = if algorithm.is_pipelined() { 2 } else { 0 };
    let schedule = algorithm.schedule(&shape.with_segments(segments))?;
    Some(print(&*schedule))
}

/// A hash of all messages of a schedule.
pub(super) fn print(schedule: &dyn Schedule) -> u64 {
    let mut hasher = DefaultHasher::new();
    schedule.chunks().hash(&mut hasher);
    let mut sends = Sends::default();
    for round in 0..schedule.rounds() {
        every_message(schedule, round, &mut sends, |from, message| {
            (round, from, message.to, message.op, message.runs).hash(&mut hasher);
        });
    }
    hasher.finish()
}
