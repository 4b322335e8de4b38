//! Finds the hosts of a fleet that are slower than the others.
//!
//! Hosts that ran the same thing are compared with each other, so no profile is needed. For every size
//! that hosts share, a host's time counts as ln(time/median over hosts). Its score is the median of these
//! over sizes, so single outliers do not move it. The centre of all scores is their median. Their spread
//! is Qₙ, a low quantile of the distances between pairs of hosts, so a third of the hosts may be slow
//! without hiding each other.
//!
//! A failing link slows large sizes alone, and most sizes of a sweep are small; a fault may slow one collective of
//! several. So each host has a score over all that it ran, one for each collective, and one for each range of sizes
//! of it.
//!
//! The largest of N healthy scores grows with N. A host is named only above a limit that the largest
//! healthy score, over all these parts, exceeds once in a thousand fleets. A spread estimated from N hosts is itself uncertain,
//! so the limit is a quantile of Student's t. For normal numbers Qₙ is as good as a standard deviation of
//! 0.82 as many numbers; the median absolute deviation is as good as one of 0.37 as many, and missed one
//! slow host of 64 in a hundred.
//!
//! Sources: Rousseeuw and Croux, "Alternatives to the median absolute deviation", JASA 88 (1993), for
//! Qₙ, its efficiency and its factors at few numbers; the bound over N hosts and all parts is Bonferroni's,
//! of which the whole has one half and its parts share the other.

use std::collections::BTreeMap;

use super::two::region_of;
use super::{Run, is_call};
use crate::base::collective::Collective;
use crate::base::order::{falling, sorted};
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::base::stats::{median, student};
use crate::machine::sample::DataType;
use crate::measure::logs::unversioned;

/// Fewer hosts cannot be compared.
pub const LEAST_HOSTS: usize = 5;

/// One healthy fleet in this many has a host named.
const FLEETS: f64 = 1000.0;
/// Qₙ of normal numbers times this is their standard deviation …
const NORMAL: f64 = 2.2219;
/// … and is as precise as a standard deviation of this part of them.
const EFFICIENCY: f64 = 0.82;
/// At most this many numbers are compared in pairs; of more, an evenly spaced subset is.
const MOST: usize = 1000;
/// A smaller difference is not a fault, however certain it is.
const LEAST: f64 = 0.05;
/// Clocks and counters cannot resolve a smaller spread.
const FLOOR: f64 = 1e-3;

/// One host compared with the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Its name: the file.
    pub name: String,
    /// Its calls' time over the median host's.
    pub factor: Ratio,
    /// How many spreads it is above the median host.
    pub score: Ratio,
    /// The number of sizes that count.
    pub sizes: usize,
    /// The part in which it is slow, if it is not over all that it ran; then the figures above are of this part.
    pub part: Option<Part>,
    /// Whether it is slower than the slowest of as many healthy hosts would be.
    pub is_slow: bool,
    /// The number of wrong elements in its results, whatever its times are.
    pub wrong: u64,
}

/// A part of what hosts ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The operation.
    pub collective: Collective,
    /// The smallest size.
    pub from: Bytes,
    /// The largest.
    pub to: Bytes,
}

/// A healthy host's time at a size, and its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The operation.
    pub collective: Collective,
    /// N.
    pub ranks: Option<u32>,
    /// The type of the elements.
    pub dtype: Option<DataType>,
    /// M.
    pub size: Bytes,
    /// The median host's time.
    pub time: Seconds,
    /// A single time above this comes from a slow host.
    pub limit: Seconds,
}

/// Many hosts that ran the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// The hosts, the slowest first.
    pub hosts: Vec<Host>,
    /// By how much hosts differ, as a logarithm.
    pub spread: Ratio,
    /// How many spreads a host must be above the median to be named.
    pub limit: Ratio,
    /// For checks that see one size of one host.
    pub thresholds: Vec<Threshold>,
    /// The hosts that ran no size which enough others ran.
    pub alone: Vec<String>,
    /// The hosts whose results were wrong, compared with others or not.
    pub wrong: Vec<String>,
}

/// Releases of one library are compared with each other, its kernels and other libraries are not.
type What = (Collective, Option<u32>, Option<u32>, Option<DataType>, Option<String>, Bytes);

/// A part of fewer sizes has no score of its own: the median of two numbers is moved by either.
const LEAST_SIZES: usize = 3;

/// A size that enough hosts ran.
struct Size {
    what: What,
    hosts: usize,
    /// ln of the median host's time.
    centre: f64,
    /// How far hosts are apart.
    spread: f64,
    /// Each host's distance from the centre.
    apart: Vec<(usize, f64)>,
}

impl Size {
    fn of((what, of): (What, Vec<(usize, f64)>)) -> Option<Self> {
        let times: Vec<f64> = of.iter().map(|o| o.1).collect();
        let (centre, spread) = spread(&times)?;
        let apart = of.iter().map(|&(host, time)| (host, time - centre)).collect();
        Some(Self { what, hosts: of.len(), centre, spread, apart })
    }

    fn collective(&self) -> Collective {
        self.what.0
    }

    fn bytes(&self) -> Bytes {
        self.what.5
    }

    fn threshold(self) -> Threshold {
        let (collective, ranks, _, dtype, _, size) = self.what;
        let over = (limit(self.hosts, 1) * self.spread).max(LEAST);
        let (time, limit) = (Seconds(self.centre.exp()), Seconds((self.centre + over).exp()));
        Threshold { collective, ranks, dtype, size, time, limit }
    }
}

/// The scores of hosts over some sizes.
struct Scores {
    part: Option<Part>,
    /// Each host's number of sizes and its distance from the median host; absent without sizes enough.
    hosts: Vec<Option<(usize, f64)>>,
    scored: usize,
    spread: f64,
}

impl Scores {
    /// `None` if fewer than [`LEAST_HOSTS`] have `least` sizes.
    fn of(part: Option<Part>, sizes: &[&Size], (hosts, least): (usize, usize)) -> Option<Self> {
        let mut apart: Vec<Vec<f64>> = vec![Vec::new(); hosts];
        for &(host, off) in sizes.iter().flat_map(|size| &size.apart) {
            apart[host].push(off);
        }
        let middle = |of: Vec<f64>| (of.len() >= least).then_some(of.len()).zip(median(of));
        let mut hosts: Vec<Option<(usize, f64)>> = apart.into_iter().map(middle).collect();
        let scores: Vec<f64> = hosts.iter().flatten().map(|h| h.1).collect();
        if scores.len() < LEAST_HOSTS {
            return None;
        }
        let (centre, spread) = spread(&scores)?;
        hosts.iter_mut().flatten().for_each(|h| h.1 -= centre);
        Some(Self { part, hosts, scored: scores.len(), spread })
    }

    /// The score of a host if that is one of no healthy host, where it is one of so many.
    fn slow(&self, host: usize, of: usize) -> Option<f64> {
        let (_, over) = self.hosts[host]?;
        let score = over / self.spread;
        (over > LEAST && score > limit(self.scored, of)).then_some(score)
    }

    /// A host by these scores.
    fn host(&self, host: usize, (name, wrong): (&str, u64), is_slow: bool) -> Option<Host> {
        let (sizes, over) = self.hosts[host]?;
        Some(Host {
            name: name.to_owned(),
            factor: Ratio(over.exp()),
            score: Ratio(over / self.spread),
            sizes,
            part: self.part,
            is_slow,
            wrong,
        })
    }
}

/// The scores over each collective, if there are several, and over each range of its sizes, if there are several.
fn parts(sizes: &[Size], hosts: usize) -> Vec<Scores> {
    let mut by: BTreeMap<(Collective, Option<usize>), Vec<&Size>> = BTreeMap::new();
    for size in sizes {
        let region = region_of(size.bytes());
        for key in [None, Some(region)] {
            by.entry((size.collective(), key)).or_default().push(size);
        }
    }
    let whole: BTreeMap<Collective, usize> =
        by.iter().filter(|(key, _)| key.1.is_none()).map(|(key, of)| (key.0, of.len())).collect();
    let is_part = |(collective, region): (Collective, Option<usize>), count: usize| match region {
        None => whole.len() > 1,
        Some(_) => count < whole[&collective],
    };
    let scores = |(key, of): (&(Collective, Option<usize>), &Vec<&Size>)| {
        let bytes = || of.iter().map(|size| size.bytes());
        let part = Part { collective: key.0, from: bytes().min()?, to: bytes().max()? };
        Scores::of(Some(part).filter(|_| is_part(*key, of.len())), of, (hosts, LEAST_SIZES))
    };
    by.iter().filter_map(scores).filter(|scores| scores.part.is_some()).collect()
}

/// The number of spreads that the largest of `hosts` healthy scores exceeds once in [`FLEETS`], where each host has
/// `of` scores.
fn limit(hosts: usize, of: usize) -> f64 {
    let freedom = (EFFICIENCY * (hosts as f64 - 1.0)).max(1.0);
    let part = 1.0 - 1.0 / (FLEETS * hosts as f64 * of as f64);
    student(part, freedom)
}

/// The spread of numbers around their median, and that median.
fn spread(numbers: &[f64]) -> Option<(f64, f64)> {
    let centre = median(numbers.to_vec())?;
    let sorted = sorted(numbers.iter().copied());
    let every = sorted.len().div_ceil(MOST);
    let some: Vec<f64> = sorted.into_iter().step_by(every).collect();
    let n = some.len();
    let mut apart = Vec::with_capacity(n * n / 2);
    for (j, x) in some.iter().enumerate() {
        apart.extend(some[..j].iter().map(|y| x - y));
    }
    let half = n / 2 + 1;
    let rank = half * (half - 1) / 2;
    if apart.is_empty() {
        return Some((centre, FLOOR));
    }
    let (_, low, _) = apart.select_nth_unstable_by(rank.max(1) - 1, f64::total_cmp);
    Some((centre, (few(n) * NORMAL * *low).max(FLOOR)))
}

/// The factor for Qₙ of few numbers.
fn few(numbers: usize) -> f64 {
    const TABLE: [f64; 8] = [0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872];
    let n = numbers as f64;
    match numbers {
        2..=9 => TABLE[numbers - 2],
        _ if numbers % 2 == 1 => n / (n + 1.4),
        _ => n / (n + 3.8),
    }
}

/// Compares hosts by what they all ran; `None` if fewer than [`LEAST_HOSTS`] share a size.
#[must_use]
pub fn fleet(hosts: &[(String, Vec<Run>)]) -> Option<Fleet> {
    let mut by: BTreeMap<What, Vec<(usize, f64)>> = BTreeMap::new();
    for (host, (_, runs)) in hosts.iter().enumerate() {
        for run in runs {
            let library = run.library.as_deref().map(|l| unversioned(l).to_lowercase());
            let counts = |t: &&(Bytes, Seconds)| is_call(run.collective, t.0) && t.1.0 > 0.0;
            for &(size, time) in run.times.iter().filter(counts) {
                let Run { collective, ranks, nodes, dtype, .. } = *run;
                let what = (collective, ranks, nodes, dtype, library.clone(), size);
                by.entry(what).or_default().push((host, time.0.ln()));
            }
        }
    }
    by.retain(|_, of| of.len() >= LEAST_HOSTS);
    let sizes: Vec<Size> = by.into_iter().filter_map(Size::of).collect();
    let whole = Scores::of(None, &sizes.iter().collect::<Vec<_>>(), (hosts.len(), 1))?;
    let parts = parts(&sizes, hosts.len());
    let (all, each) = if parts.is_empty() { (1, 1) } else { (2, 2 * parts.len()) };
    let wrong = |host: usize| hosts[host].1.iter().map(|run| run.facts.wrong).sum::<u64>();
    let one = |host: usize| {
        let of_part = |scores: &&Scores| scores.slow(host, each).unwrap_or(0.0);
        let worst = parts.iter().max_by(|a, b| of_part(a).total_cmp(&of_part(b)));
        let worst = worst.filter(|scores| scores.slow(host, each).is_some());
        let is_slow = whole.slow(host, all).is_some();
        let scores = worst.filter(|_| !is_slow).unwrap_or(&whole);
        scores.host(host, (&hosts[host].0, wrong(host)), is_slow || worst.is_some())
    };
    let mut found: Vec<Host> = (0..hosts.len()).filter_map(one).collect();
    falling(&mut found, |host| host.score.0);
    // A part has a spread of its own, so that scores of parts are not in one order with the others'.
    found.sort_by_key(|host| !host.is_slow);
    let names = |is: &dyn Fn(usize) -> bool| -> Vec<String> {
        (0..hosts.len()).filter(|&host| is(host)).map(|host| hosts[host].0.clone()).collect()
    };
    Some(Fleet {
        hosts: found,
        spread: Ratio(whole.spread),
        limit: Ratio(limit(whole.scored, all)),
        alone: names(&|host| whole.hosts[host].is_none()),
        wrong: names(&|host| wrong(host) > 0),
        thresholds: sizes.into_iter().map(Size::threshold).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    /// `count` hosts whose calls vary by `noise` between hosts and again between sizes; the last takes
    /// `slow` times as long.
    fn hosts(count: usize, (noise, slow): (f64, f64), seed: u64) -> Vec<(String, Vec<Run>)> {
        let mut random = Random::new(seed);
        (0..count)
            .map(|i| {
                let own =
                    noise * random.normal() + if i + 1 == count { f64::ln(slow) } else { 0.0 };
                let mut time = |k: u32| {
                    let healthy = 20e-6 + f64::from(1 << k) / 1e9;
                    (Bytes(1 << k), Seconds(healthy * (own + noise * random.normal()).exp()))
                };
                let run = Run {
                    file: None,
                    collective: Collective::AllReduce,
                    ranks: Some(8),
                    nodes: Some(1),
                    dtype: None,
                    library: None,
                    times: (10..30).step_by(2).map(&mut time).collect(),
                    facts: super::super::Facts::default(),
                    traced: Vec::new(),
                };
                (format!("host{i}"), vec![run])
            })
            .collect()
    }

    fn named(hosts: &[(String, Vec<Run>)]) -> Vec<String> {
        let fleet = fleet(hosts).expect("enough hosts");
        fleet.hosts.into_iter().filter(|h| h.is_slow).map(|h| h.name).collect()
    }

    #[test]
    fn one_slow_host_of_64_is_named_and_nobody_without() {
        for seed in 0..100 {
            assert_eq!(named(&hosts(64, (0.02, 1.2), seed)), ["host63"], "seed {seed}");
            assert!(named(&hosts(64, (0.02, 1.0), seed)).is_empty(), "seed {seed}");
        }
    }

    /// A failing link slows large sizes alone, a fault of one collective nothing else.
    #[test]
    fn a_host_is_named_for_a_part_of_what_it_ran() {
        for seed in 0..50 {
            let mut all = hosts(8, (0.02, 1.0), seed);
            // Nine of 31 sizes take twice as long.
            for (host, (_, runs)) in all.iter_mut().enumerate() {
                let mut random = Random::new(1000 * seed + host as u64);
                let mut time = |k: u32| {
                    let slow = if host == 3 && k >= 25 { 2.0 } else { 1.0 };
                    let healthy = slow * (20e-6 + f64::from(k).exp2() / 1e9);
                    (Bytes(1 << k), Seconds(healthy * (0.02 * random.normal()).exp()))
                };
                runs[0].times = (3..34).map(&mut time).collect();
            }
            let found = fleet(&all).unwrap();
            let slow: Vec<&Host> = found.hosts.iter().filter(|h| h.is_slow).collect();
            assert_eq!(slow.len(), 1, "seed {seed}");
            let part = slow[0].part.expect("a part");
            assert_eq!((slow[0].name.as_str(), part.from), ("host3", Bytes(1 << 22)));
            assert!((1.8..2.2).contains(&slow[0].factor.0), "{slow:?}");

            let mut all = hosts(8, (0.02, 1.0), seed);
            for (host, (_, runs)) in all.iter_mut().enumerate() {
                for (collective, from) in [(Collective::AllGather, 2), (Collective::Reduce, 3)] {
                    let mut other = hosts(1, (0.02, 1.0), 99 * seed + from + 7 * host as u64);
                    let mut run = other.remove(0).1.remove(0);
                    run.collective = collective;
                    let slow = if host == 5 && from == 2 { 3.0 } else { 1.0 };
                    run.times.iter_mut().for_each(|t| t.1 = t.1 * Ratio(slow));
                    runs.push(run);
                }
            }
            let found = fleet(&all).unwrap();
            let slow: Vec<&Host> = found.hosts.iter().filter(|h| h.is_slow).collect();
            assert_eq!(slow.len(), 1, "seed {seed}: {slow:?}");
            let part = slow[0].part.map(|part| part.collective);
            assert_eq!((slow[0].name.as_str(), part), ("host5", Some(Collective::AllGather)));
        }
    }

    #[test]
    fn of_noisy_or_few_hosts_nobody_is_named_without_a_fault() {
        let mut wrong = 0;
        for seed in 0..100 {
            for (count, noise) in [(5, 0.02), (8, 0.05), (16, 0.1), (256, 0.02)] {
                wrong += usize::from(!named(&hosts(count, (noise, 1.0), seed)).is_empty());
            }
        }
        assert!(wrong <= 2, "{wrong} of 400");
        assert!(fleet(&hosts(4, (0.02, 1.5), 1)).is_none());
    }

    #[test]
    fn a_third_of_slow_hosts_does_not_hide_itself() {
        let mut all = hosts(62, (0.01, 1.0), 3);
        all.extend((0..30).map(|i| {
            let (_, runs) = hosts(1, (0.01, 1.3), 100 + i).remove(0);
            (format!("slow{i}"), runs)
        }));
        let named = named(&all);
        assert!(named.len() == 30 && named.iter().all(|n| n.starts_with("slow")), "{named:?}");
    }

    /// Wrong results are told of a host whose times are like the others', and kernels are not mixed.
    #[test]
    fn wrong_results_and_other_kernels_are_told_apart() {
        let mut all = hosts(8, (0.01, 1.0), 5);
        all[3].1[0].facts.wrong = 77;
        let found = fleet(&all).unwrap();
        assert_eq!(found.wrong, ["host3"]);
        let of = |found: &Fleet| found.hosts.iter().map(|h| (h.is_slow, h.wrong)).max();
        assert_eq!(of(&found), Some((false, 77)));
        // Half of the hosts have a second kernel that takes twice as long.
        for (_, runs) in all.iter_mut().take(4) {
            runs[0].library = Some("vLLM pynccl".to_owned());
            let mut other = runs[0].clone();
            other.library = Some("vLLM ca_1stage".to_owned());
            other.times.iter_mut().for_each(|t| t.1 = t.1 * Ratio(2.0));
            runs.push(other);
        }
        assert!(fleet(&all).is_none(), "four hosts are too few");
        for (at, (_, runs)) in all.iter_mut().enumerate() {
            runs.truncate(1);
            runs[0].library = Some(format!("NCCL 2.{at}.1"));
        }
        assert!(fleet(&all).is_some(), "releases are compared");
    }

    #[test]
    fn limits_are_those_of_students_t() {
        // 51.7 degrees of freedom, one in 64,000: between those of 50 (4.58) and 60 (4.51).
        assert!((limit(64, 1) - 4.57).abs() < 0.05, "{}", limit(64, 1));
        assert!(limit(5, 1) > limit(64, 1) && limit(64, 4) > limit(64, 1));
    }
}
