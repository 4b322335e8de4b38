//! Infers the collective and N from the columns of nccl-tests if nothing else states them.
//!
//! busbw over algbw is 2(N − 1)/N for all-reduce, (N − 1)/N if every rank has a block, and 1 for one
//! vector from or to a root (nccl-tests, doc/PERFORMANCE.md). In the second case the column `count` counts
//! one rank's block, so size over count is N elements. Together with the columns `redop` and `root` this
//! often leaves one collective; if it leaves two, none is guessed.

use std::path::Path;

use super::draft::{Raw, Redop};
use crate::base::collective::Collective;

/// What rows reveal about N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ranks {
    /// Nothing: the rates have too few digits, or the collective's factor is 1.
    Unknown,
    /// N is in this range.
    Between(u32, u32),
    /// No N fits.
    None,
}

/// Above this N, factors differ by less than any log prints.
const MOST: f64 = 1e6;

/// N from busbw over algbw, for the rows of `collective`.
pub(super) fn ranks(rows: &[Raw], collective: Collective) -> Ranks {
    // The factor is limit·(N − 1)/N, or the same for every N.
    let (two, three) = (collective.busbw_factor(2).0, collective.busbw_factor(3).0);
    if two == three {
        return Ranks::Unknown;
    }
    let limit = 2.0 * two;
    let of = |factor: f64| limit / (limit - factor);
    let (mut low, mut high) = (1.0_f64, MOST);
    let mut seen = false;
    for (least, most) in rows.iter().filter_map(|r| r.factor) {
        seen = true;
        // No N comes to more than the limit; the least is rounded, too.
        if least.0 > limit * (1.0 + 1e-9) {
            return Ranks::None;
        }
        low = low.max(if least.0 >= limit { MOST } else { of(least.0) });
        high = high.min(if most.0 >= limit { MOST } else { of(most.0).max(0.0) });
    }
    // The size of a rank's block gives N exactly.
    if let Some(n) = parts(rows).filter(|&n| n > 1 && limit == 1.0) {
        (low, high, seen) = (low.max(f64::from(n)), high.min(f64::from(n)), true);
    }
    if !seen || high >= MOST {
        return Ranks::Unknown;
    }
    // The digits were rounded, and so were these.
    let (low, high) = ((low - 1e-9).ceil() as u32, (high + 1e-9).floor() as u32);
    if low > high { Ranks::None } else { Ranks::Between(low.max(1), high) }
}

/// Of so many rows one may contradict the others, and so many must agree.
const ROWS: usize = 4;
const AGREE: usize = 3;

/// The rows that contradict the rest, which agree on one N; `None` if the rest is not nearly all.
pub(super) fn odd(rows: &[Raw], collective: Collective) -> Option<Vec<usize>> {
    let each: Vec<Ranks> =
        rows.iter().map(|row| ranks(std::slice::from_ref(row), collective)).collect();
    // Where the most ranges overlap: one begins there.
    let mut ends: Vec<(u32, i32)> = Vec::new();
    for range in &each {
        if let Ranks::Between(low, high) = *range {
            ends.extend([(low, 1), (high.saturating_add(1), -1)]);
        }
    }
    ends.sort_unstable();
    let (mut open, mut most, mut at) = (0, 0, 0);
    for (n, step) in ends {
        open += step;
        if open > most {
            (most, at) = (open, n);
        }
    }
    let is_odd = |range: &Ranks| match *range {
        Ranks::Unknown => false,
        Ranks::Between(low, high) => !(low..=high).contains(&at),
        Ranks::None => true,
    };
    let odd: Vec<usize> = (0..rows.len()).filter(|&i| is_odd(&each[i])).collect();
    let agree = usize::try_from(most).unwrap_or(0);
    (agree >= AGREE && odd.len() * ROWS <= agree + odd.len()).then_some(odd)
}

/// The one collective that all columns fit, if there is one.
pub(super) fn collective(rows: &[Raw], ranks: Option<u32>) -> Option<Collective> {
    let (certain, left) = fitting(rows, ranks)?;
    left.first().copied().filter(|_| certain && left.len() == 1)
}

/// The collectives that all columns fit, and whether the columns leave no other.
pub(super) fn fitting(rows: &[Raw], ranks: Option<u32>) -> Option<(bool, Vec<Collective>)> {
    use Collective as C;
    let part = parts(rows)?;
    let rows: Vec<&Raw> = rows.iter().filter(|r| r.size > 0).collect();
    let first = *rows.first()?;
    let block = part > 1;
    if block && ranks.is_some_and(|n| n != part) {
        return None;
    }
    let n = ranks.or(Some(part).filter(|_| block));
    if n == Some(1) {
        return None;
    }
    let reduces = matches!(first.redop, Some(Redop::Sum | Redop::Other));
    let rooted = first.root.is_some_and(|root| root >= 0);
    let candidates: &[C] = match (block, reduces, rooted) {
        (false, true, false) => &[C::AllReduce, C::SendRecv],
        (false, true, true) => &[C::Reduce],
        (false, false, true) => &[C::Broadcast],
        (false, false, false) => &[],
        (true, true, _) => &[C::ReduceScatter],
        (true, false, false) => &[C::AllGather, C::AllToAll],
        (true, false, true) => &[C::Scatter, C::Gather],
    };
    // A factor that is 1 at these ranks decides nothing.
    let fits = |c: &&C| {
        rows.iter().filter_map(|r| r.factor).all(|(least, most)| match n {
            Some(n) => (least.0..=most.0).contains(&c.busbw_factor(n).0),
            None if **c == C::AllReduce => most.0 >= 1.0 && least.0 < 2.0,
            None => (least.0..=most.0).contains(&1.0),
        })
    };
    let seen = rows.iter().any(|r| r.factor.is_some());
    let left: Vec<C> = candidates.iter().filter(fits).copied().collect();
    // Only the factor distinguishes an all-reduce from an exchange.
    Some((seen || candidates.len() == 1, left))
}

/// The one collective that a file is named for, as `all_gather_output.dat.5`.
pub(super) fn named(file: &str) -> Option<Collective> {
    let name = Path::new(file).file_name()?.to_string_lossy().to_lowercase();
    // Words, which may be written apart.
    let mut rest = format!("_{}", name.replace(['-', '.', ' '], "_"));
    let mut found = Vec::new();
    // Longer names contain shorter ones.
    for (word, apart) in NAMES {
        for form in [word, apart].map(|form| format!("_{form}")) {
            if rest.contains(&form) {
                found.push(word.parse().ok()?);
                rest = rest.replace(&form, "_");
                break;
            }
        }
    }
    let [one] = found[..] else { return None };
    Some(one)
}

const NAMES: [(&str, &str); 10] = [
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("bcast", "bcast"),
];

/// How many times `count` elements the size is, if that is the same in all rows.
fn parts(rows: &[Raw]) -> Option<u32> {
    let of = |r: &Raw| {
        let bytes = r.count?.checked_mul(r.dtype?.bytes().0).filter(|&b| b > 0)?;
        r.size.is_multiple_of(bytes).then_some(r.size / bytes)
    };
    let mut rows = rows.iter().filter(|r| r.size > 0);
    let part = of(rows.next()?)?;
    let all = part > 0 && rows.all(|r| of(r) == Some(part));
    u32::try_from(part).ok().filter(|_| all)
}
