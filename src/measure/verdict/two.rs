//! Compares two runs of the same thing, accounting for noise.

use std::collections::{BTreeMap, BTreeSet};

use super::SLOWDOWN;
use crate::base::order::sorted;
use crate::base::quantity::{Bytes, Ratio};
use crate::base::stats::median;
use crate::measure::logs::{Imported, Measured, Table};

/// Sizes over which two runs are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// What ran, with its ranks.
    pub what: String,
    /// The smallest size.
    pub from: Bytes,
    /// The largest.
    pub to: Bytes,
    /// The number of sizes that both have. Both places of a size, in and out of place, count as one: calls that
    /// follow each other are not independent.
    pub pairs: usize,
    /// The median of the second run's times over the first's.
    pub ratio: Ratio,
    /// The 95 % interval of that median, by the sign test; absent if too few neighbouring sizes tell the noise.
    pub interval: Option<(Ratio, Ratio)>,
    /// Whether they differ by more than noise.
    pub differs: bool,
}

/// Two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Two {
    /// Small, middle and large sizes of every test that both ran.
    pub regions: Vec<Region>,
    /// The noise: how much the ratio of both varies between neighbouring sizes.
    pub noise: Ratio,
    /// How many times of wrong results each log has.
    pub wrong: [usize; 2],
    /// In what the runs differ besides their times, and what else to know of these.
    pub notes: Vec<String>,
}

/// Two runs always differ by this much.
const LEAST: f64 = 0.01;
/// Sizes are divided at 64 KiB and 4 MiB.
const EDGES: [u64; 2] = [1 << 16, 1 << 22];

/// Small, middle and large sizes.
pub(super) fn region_of(size: Bytes) -> usize {
    EDGES.iter().filter(|&&edge| size.0 >= edge).count()
}

/// What ran a test: the part of the log, whose variables it shares, the library, and the nodes.
type Ran = (usize, Option<String>, Option<u32>);

/// The rows of one test in a log.
#[derive(Debug, Default)]
struct Test {
    /// The times of each size, in and out of place.
    times: BTreeMap<(u64, bool), Vec<f64>>,
    gpus: Option<String>,
    caveats: BTreeSet<String>,
}

/// The tests of a log by the operation, its ranks and its type, and by what ran them.
type Tests = BTreeMap<String, BTreeMap<Ran, Test>>;

/// Compares two logs over the rows that both have; `None` if they share fewer than three.
///
/// A test that each log ran in one way is compared whatever that was, with a note where it differs: the change
/// may be what is asked about. Of a test that one of them ran in several ways, only equal ones are compared.
#[must_use]
pub fn two(first: &Imported, second: &Imported) -> Option<Two> {
    let (a, b) = (tests(first), tests(second));
    let mut by: BTreeMap<(String, usize), Vec<(u64, f64)>> = BTreeMap::new();
    let mut notes = Vec::new();
    for (what, ways) in &a {
        let Some(others) = b.get(what) else { continue };
        for (what, (ran, test), (its, other)) in paired(what, ways, others, &mut notes) {
            notes.extend(differences((ran, test), (its, other)));
            for (size, ratio) in ratios(test, other) {
                by.entry((what.clone(), region_of(Bytes(size)))).or_default().push((size, ratio));
            }
        }
    }
    let pairs: usize = by.values().map(Vec::len).sum();
    if pairs < 3 {
        return None;
    }
    let noises = [0, 1, 2].map(|kind| {
        let steps = steps(by.iter().filter(|((_, of), _)| *of == kind).map(|(_, of)| of));
        // One step is no spread.
        (steps.len() > 1).then(|| deviation(steps))
    });
    let noise = deviation(steps(by.values()));
    let one =
        |((what, kind), of): ((String, usize), Vec<(u64, f64)>)| region(what, &of, noises[kind]);
    let regions = by.into_iter().map(one).collect();
    let wrong = [wrong(first), wrong(second)];
    let logs = [("first", first), ("second", second)].into_iter().zip(wrong);
    let told = logs.filter(|(_, times)| *times > 0);
    let mut all: Vec<String> = told
        .map(|((which, log), times)| {
            let some = if log.tables.iter().any(Table::failed) { "some of " } else { "" };
            format!("results of the {which} were wrong at {some}{times} times: fix that first")
        })
        .collect();
    for note in notes {
        if !all.contains(&note) {
            all.push(note);
        }
    }
    Some(Two { regions, noise: Ratio(noise), wrong, notes: all })
}

/// How far the ratios of neighbouring sizes of each test are apart.
fn steps<'a>(tests: impl Iterator<Item = &'a Vec<(u64, f64)>>) -> Vec<f64> {
    tests.flat_map(|of| of.windows(2).map(|w| (w[1].1 - w[0].1).abs())).collect()
}

/// The deviation of one size: the difference of two has √2 times it, and the median of |x| is 0.67 of a deviation.
fn deviation(steps: Vec<f64>) -> f64 {
    median(steps).unwrap_or(0.0) / (0.6745 * 2_f64.sqrt())
}

/// ln of the second test's time over the first's at each size that both have, as the mean over both places.
fn ratios(test: &Test, other: &Test) -> BTreeMap<u64, f64> {
    let mut by: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (place, times) in &test.times {
        // A size that was timed more than once in one way counts by its median.
        let (time, then) = (median(times.clone()), other.times.get(place).cloned());
        let Some((time, then)) = time.zip(then.and_then(median)) else { continue };
        by.entry(place.0).or_default().push((then / time).ln());
    }
    by.into_iter().map(|(size, of)| (size, of.iter().sum::<f64>() / of.len() as f64)).collect()
}

/// How many times are of wrong results.
fn wrong(log: &Imported) -> usize {
    log.tables.iter().flat_map(Table::wrong_rows).count()
}

/// One way to run a test, with its rows.
type Way<'a> = (&'a Ran, &'a Test);

/// The ways of a test that are compared with each other, under its name.
fn paired<'a>(
    what: &str,
    ways: &'a BTreeMap<Ran, Test>,
    others: &'a BTreeMap<Ran, Test>,
    notes: &mut Vec<String>,
) -> Vec<(String, Way<'a>, Way<'a>)> {
    if let (1, Some(way), 1, Some(other)) =
        (ways.len(), ways.iter().next(), others.len(), others.iter().next())
    {
        return vec![(what.to_owned(), way, other)];
    }
    let both: Vec<_> = ways
        .iter()
        .filter_map(|way| {
            let (_, library, nodes) = way.0;
            let library = library.as_ref().map_or(String::new(), |l| format!(", {l}"));
            let nodes = nodes.map_or(String::new(), |n| format!(", {n} nodes"));
            let name = format!("{what}{library}{nodes}");
            Some((name, way, others.get_key_value(way.0)?))
        })
        .collect();
    if both.len() < ways.len().max(others.len()) {
        notes.push(format!(
            "{what} ran in {} and in {} ways (library, nodes, variables): the {} that both have are compared",
            ways.len(),
            others.len(),
            both.len()
        ));
    }
    both
}

/// In what two runs of a test differ besides their times.
fn differences((ran, test): Way, (its, other): Way) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differ = |first: Option<String>, second: Option<String>| {
        if let (Some(first), Some(second)) = (first, second)
            && first != second
        {
            notes.push(format!("the first ran {first}, the second {second}"));
        }
    };
    differ(ran.1.clone(), its.1.clone());
    let on =
        |nodes: Option<u32>| nodes.map(|n| format!("on {n} node{}", if n == 1 { "" } else { "s" }));
    differ(on(ran.2), on(its.2));
    let gpus = |test: &Test| test.gpus.as_ref().map(|gpus| format!("on {gpus}"));
    differ(gpus(test), gpus(other));
    notes.extend(test.caveats.intersection(&other.caveats).cloned());
    for (which, own, its) in [("first", test, other), ("second", other, test)] {
        let only = own.caveats.difference(&its.caveats);
        notes.extend(only.map(|caveat| format!("only the {which}: {caveat}")));
    }
    notes
}

/// The tests of a log's collectives.
fn tests(log: &Imported) -> Tests {
    let mut tests = Tests::new();
    for (at, table) in log.tables.iter().enumerate() {
        let Some(collective) = table.tested.collective() else { continue };
        let ranks = table.ranks.map_or(String::new(), |n| format!(", {n} ranks"));
        let ran: Ran = (log.evidence.of(at).0, table.library.clone(), table.nodes);
        for row in &table.rows {
            let Measured::Time(time) = row.measured else { continue };
            let dtype = row.dtype.map_or(String::new(), |d| format!(", {d}"));
            let what = format!("{}{ranks}{dtype}", collective.name());
            let test = tests.entry(what).or_default().entry(ran.clone()).or_default();
            test.gpus =
                test.gpus.take().or_else(|| table.gpus.clone().or_else(|| table.system.clone()));
            test.caveats.extend(table.notes().cloned().chain(table.damage()));
            test.times.entry((row.size.0, row.in_place)).or_default().push(time.0);
        }
    }
    tests
}

/// `noise`: that of sizes as large as these, which differs from that of others; absent if it is not known.
fn region(what: String, of: &[(u64, f64)], noise: Option<f64>) -> Region {
    let sorted = sorted(of.iter().map(|o| o.1));
    let middle = median(sorted.clone()).unwrap_or(0.0);
    let ends = noise.map(|noise| interval(&sorted, noise));
    let differs = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
    let size = |pick: fn(u64, u64) -> u64| of.iter().map(|o| o.0).reduce(pick).unwrap_or(0);
    Region {
        what,
        from: Bytes(size(u64::min)),
        to: Bytes(size(u64::max)),
        pairs: of.len(),
        ratio: Ratio(middle.exp()),
        interval: ends.map(|(low, high)| (Ratio(low.exp()), Ratio(high.exp()))),
        // Runs of one machine differ by less than a slowdown that is looked for.
        differs: match ends {
            Some(ends) => differs(ends) && middle.abs() > LEAST,
            None => middle.abs() > SLOWDOWN.0.ln(),
        },
    }
}

/// The order statistics that enclose the median in 95 cases of 100; with few pairs, the extremes widened
/// by twice the noise.
fn interval(sorted: &[f64], noise: f64) -> (f64, f64) {
    let n = sorted.len() as f64;
    let reach = 0.98 * n.sqrt();
    let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(sorted.len() - 1)];
    let (low, high) = (at((n / 2.0 - reach).floor()), at((n / 2.0 + reach).ceil() - 1.0));
    // With fewer than six pairs, even all of them on one side prove nothing.
    let wider = if sorted.len() < 6 { 2.0 * noise } else { 0.0 };
    (low - wider, high + wider)
}
