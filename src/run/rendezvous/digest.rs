//! Distinguishes two builds whose schedules differ although their versions are equal.

use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use crate::model::algorithm::Registry;
use crate::model::formula::Shape;
use crate::model::schedule::{Endpoint, List, Schedule};

/// Numbers of ranks with which every algorithm is included: the fewest, odd ones, a power of two.
const RANKS: [u32; 4] = [2, 3, 5, 8];

/// Hexadecimal digits of the digest that are sent: enough to detect mistakes, and it need not
/// resist attacks.
const DIGITS: usize = 12;

/// The version and the digest of all schedules for a few numbers of ranks: `0.2.0+6b0e1f93a2c4`.
pub(super) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let mut digest = Sha256::new();
        for algorithm in Registry::builtin().iter() {
            digest.update(algorithm.meta().id);
            for &collective in algorithm.meta().collectives {
                let shapes = RANKS.iter().map(|&n| Shape::new(collective, n));
                let shapes = shapes.filter(|shape| algorithm.applies(shape).is_ok());
                let schedules = shapes.filter_map(|shape| algorithm.schedule(&shape));
                schedules.for_each(|schedule| add(&mut digest, &*schedule));
            }
        }
        let digits: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}+{}", env!("CARGO_PKG_VERSION"), &digits[..DIGITS])
    })
}

fn add(digest: &mut Sha256, schedule: &dyn Schedule) {
    let list = List::of(schedule);
    let number = |digest: &mut Sha256, number: u64| digest.update(number.to_le_bytes());
    number(digest, list.chunks().into());
    (0..list.chunks()).for_each(|chunk| number(digest, list.owner(chunk).into()));
    for message in list.iter() {
        number(digest, message.round);
        for end in [message.from, message.to] {
            match end {
                Endpoint::Rank(rank) => number(digest, rank.into()),
                Endpoint::Switch(switch) => number(digest, u64::from(switch) | 1 << 32),
            }
        }
        number(digest, message.op as u64);
        number(digest, message.runs.len() as u64);
        for run in message.runs {
            number(digest, u64::from(run.start) << 32 | u64::from(run.len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::collective::Collective;
    use crate::model::schedule::{Op, Run};

    #[test]
    fn a_version_fits_a_greeting() {
        let (number, digest) = version().split_once('+').unwrap();
        assert_eq!((number, digest.len()), (env!("CARGO_PKG_VERSION"), DIGITS));
        assert!(version().len() <= super::super::handshake::TOOL);
    }

    #[test]
    fn another_message_is_another_digest() {
        let of = |to: u32, op: Op| {
            let frame = crate::model::schedule::Frame::new(Collective::AllReduce, 3, 1, 1);
            let mut list = List::new(frame);
            list.push(0, Endpoint::Rank(0), Endpoint::Rank(to), op, &[Run { start: 0, len: 1 }]);
            let mut digest = Sha256::new();
            add(&mut digest, &list);
            digest.finalize()
        };
        assert_ne!(of(1, Op::Reduce), of(2, Op::Reduce));
        assert_ne!(of(1, Op::Reduce), of(1, Op::Copy));
        assert_eq!(of(1, Op::Copy), of(1, Op::Copy));
    }
}
