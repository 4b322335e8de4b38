//! The layer that picks algorithms: rules of ranks, bytes and the operation.
//!
//! Source: pmodels/mpich v4.2.3, `maint/tuning/coll/mpir/generic.json`; the same tree from 4.0 to
//! 5.0. The tree is not everything: when a communicator is created, `src/mpi/coll/src/csel.c` walks it
//! as far as the communicator decides, and it walks the rest at the call. The second walk, in every
//! version from 4.0 to 5.0.1, treats `comm_size<8` as `comm_size<=8`. Among blocking calls this affects
//! only the all-to-all, whose first test is of the call (`is_sendbuf_inplace`). The broadcast's
//! `comm_size<8` is decided in the first walk and works as written. Debian's 4.0.2 was seen to do both.

use std::borrow::Cow;

use crate::base::collective::Collective as C;
use crate::library::{Call, Flavour};

/// An algorithm of the MPIR layer, and the test that led to it.
pub(super) struct Mpir {
    pub name: Cow<'static, str>,
    /// This crate's algorithm, or the reason why there is none.
    pub ours: std::result::Result<&'static str, &'static str>,
    pub rule: String,
    pub note: Option<&'static str>,
    /// The algorithm in the first calls of a communicator.
    pub early: Option<Cow<'static, str>>,
}

/// Bytes of the thresholds of the broadcast on both layers.
pub(super) const SHORT: u64 = 12_288;
pub(super) const LONG: u64 = 524_288;
/// Bytes up to which a reduce is short, on both layers.
pub(super) const SHORT_REDUCE: u64 = 2048;
/// The total of an all-gather over a number of ranks that is not a power of two.
pub(super) const LONG_BRUCK: u64 = 81_920;
/// The most ranks for which no all-to-all is Bruck's: `comm_size<8` in the tree, treated as `<=8`.
const FEW: u32 = 8;
/// Bytes for each peer of an all-to-all: Bruck up to the first, all at once up to the second.
pub(super) const TO_EACH: [u64; 2] = [256, 32_768];

fn picked(name: &'static str, ours: &'static str, rule: impl Into<String>) -> Mpir {
    Mpir { name: name.into(), ours: Ok(ours), rule: rule.into(), note: None, early: None }
}

fn unpriced(name: &'static str, why: &'static str, rule: impl Into<String>) -> Mpir {
    Mpir { name: name.into(), ours: Err(why), rule: rule.into(), note: None, early: None }
}

/// The algorithm that the MPIR layer picks over `ranks` ranks; `None` if it has no rule.
pub(super) fn mpir(collective: C, ranks: u32, call: &Call) -> Option<Mpir> {
    let bytes = call.size.0;
    let power = ranks.is_power_of_two();
    let shape = if power { "a power of two" } else { "not a power of two" };
    Some(match collective {
        C::Broadcast if ranks < 8 => picked("binomial", "in-order-binomial", "below 8 ranks"),
        C::Broadcast if bytes <= SHORT => {
            picked("binomial", "in-order-binomial", format!("at most {SHORT} bytes"))
        }
        C::Broadcast if power && bytes <= LONG => picked(
            "scatter_recursive_doubling_allgather",
            "scatter-allgather",
            format!("{shape}, at most {LONG} bytes"),
        ),
        C::Broadcast => {
            let from = if power { LONG } else { SHORT };
            let rule = format!("{shape}, above {from} bytes");
            picked("scatter_ring_allgather", "scatter-ring", rule)
        }
        C::AllReduce => all_reduce(ranks, call),
        C::Reduce if bytes <= SHORT_REDUCE => {
            picked("binomial", "in-order-binomial", format!("at most {SHORT_REDUCE} bytes"))
        }
        C::Reduce => match folds(ranks, call) {
            Ok(rule) => picked("reduce_scatter_gather", "reduce-scatter-gather", rule),
            Err(rule) => picked("binomial", "in-order-binomial", rule),
        },
        C::AllGather if power && bytes < LONG => picked(
            "recursive_doubling",
            "recursive-doubling",
            format!("{shape}, below {LONG} bytes in all"),
        ),
        C::AllGather if !power && bytes < LONG_BRUCK => {
            picked("brucks", "bruck", format!("{shape}, below {LONG_BRUCK} bytes in all"))
        }
        C::AllGather => {
            let from = if power { LONG } else { LONG_BRUCK };
            picked("ring", "ring", format!("{shape}, {from} bytes in all or more"))
        }
        C::ReduceScatter => reduce_scatter(power, call),
        C::AllToAll => all_to_all(ranks, call),
        C::Gather | C::Scatter => picked("binomial", "binomial", "any size"),
        C::Barrier => picked("k_dissemination", "dissemination", "any ranks, k = 2"),
        _ => return None,
    })
}

fn all_reduce(ranks: u32, call: &Call) -> Mpir {
    let doubling = |rule: String| picked("recursive_doubling", "recursive-doubling", rule);
    if call.size.0 <= 8 {
        return doubling("at most 8 bytes".into());
    }
    match folds(ranks, call) {
        Ok(rule) => picked("reduce_scatter_allgather", "rabenseifner", rule),
        Err(rule) => doubling(rule),
    }
}

/// Whether a vector can be halved among the ranks: a predefined operation, and enough elements.
pub(super) fn folds(ranks: u32, call: &Call) -> std::result::Result<String, String> {
    let power = 1_u64 << ranks.max(1).ilog2();
    let count = call.count();
    if !call.builtin_op {
        return Err("a user-defined operation".into());
    }
    if count < power {
        return Err(format!(
            "{count} elements are fewer than {power}, the largest power of two in {ranks}"
        ));
    }
    Ok(format!("a predefined operation, {count} elements are not fewer than {power}"))
}

fn reduce_scatter(power: bool, call: &Call) -> Mpir {
    let rule = |what: &str| format!("commutative, {what} {LONG} bytes in all");
    match (call.commutative, call.size.0 < LONG) {
        (true, true) => picked("recursive_halving", "recursive-halving", rule("below")),
        (true, false) => Mpir {
            note: Some("pairwise sends N − 1 blocks, each to another rank: priced as the ring"),
            ..picked("pairwise", "ring", rule("not below"))
        },
        (false, _) if power => unpriced(
            "noncommutative",
            "no closed form here keeps the order in a reduce-scatter",
            "does not commute, a power of two",
        ),
        (false, _) => unpriced(
            "recursive_doubling",
            "no closed form here doubles in a reduce-scatter",
            "does not commute, not a power of two",
        ),
    }
}

fn all_to_all(ranks: u32, call: &Call) -> Mpir {
    let block = call.block().0;
    let [bruck, scattered] = TO_EACH;
    if call.in_place {
        let note = "in place, the pairs exchange one after another: priced as pairwise";
        return Mpir {
            note: Some(note),
            ..picked("pairwise_sendrecv_replace", "pairwise", "in place")
        };
    }
    if call.flavour == Flavour::Vector {
        return picked("scattered", "direct", "a separate count for each peer");
    }
    if ranks > FEW && block <= bruck {
        let rule = format!("more than {FEW} ranks, at most {bruck} bytes per peer");
        return picked("brucks", "bruck", rule);
    }
    if block <= scattered {
        let slip = "MPICH's tree has Bruck's from 8 ranks on (comm_size<8 comes before it), but at \
                    the call csel.c compares with <=: 8 ranks follow the rule for fewer";
        let rule = format!("at most {scattered} bytes per peer");
        let note = (ranks == FEW && block <= bruck).then_some(slip);
        return Mpir { note, ..picked("scattered", "direct", rule) };
    }
    picked("pairwise", "pairwise", format!("above {scattered} bytes per peer"))
}
