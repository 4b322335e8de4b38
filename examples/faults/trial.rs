//! Verdicts held to faults of known causes, and to healthy runs.

use std::collections::BTreeMap;

use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::curve::{self, Observation};
use collcost::measure::expect::{Expecting, Study};
use collcost::measure::verdict::{Facts, Judge, Ruling, Verdict};
use collcost::model::algorithm::Registry;

use super::evidence::Series;
use super::physics::{Draws, KINDS, Kind, Wire, fault};

/// What a run is held against.
#[derive(Clone, Copy)]
pub enum Beside<'a> {
    /// What all other machines teach: nothing of this cluster, and no curve of its profile.
    Others(&'a Study),
    /// Three healthy runs of the cluster itself, fitted.
    OwnRuns,
}

/// A fault counts from where it slows a size by so much: what nobody can see is no fault of a verdict.
/// Clusters of one kind differ by more than the runs of one do.
impl Beside<'_> {
    pub fn visible(self) -> f64 {
        match self {
            Self::Others(_) => 1.5,
            Self::OwnRuns => 1.15,
        }
    }
}

/// How many of what.
#[derive(Default, Clone, Copy)]
pub struct Count {
    pub all: u32,
    pub ill: u32,
    pub unclear: u32,
    /// The first cause is a right one: the canonical, or one that times cannot keep apart from it.
    pub first: u32,
    /// It is the canonical one.
    pub named: u32,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.ill += other.ill;
        self.unclear += other.unclear;
        self.first += other.first;
        self.named += other.named;
    }

    pub fn part(self, of: fn(Self) -> u32) -> f64 {
        f64::from(of(self)) / f64::from(self.all.max(1))
    }
}

/// By the name of a kind of faults; `healthy` and `all times 1.5` beside them.
pub type Counts = BTreeMap<&'static str, Count>;

pub const HEALTHY: &str = "nothing: healthy";
pub const SLOWED: &str = "all times 1.5";

/// Judges `draws` faults of each kind on one series, as many healthy runs and as many slowed by 1.5.
pub fn trial(series: &Series, beside: Beside, draws: u64, seed: u64) -> Counts {
    let registry = Registry::builtin();
    let wire = Wire::new(series);
    let octaves: Vec<f64> = series.octaves().collect();
    let noise = series.scatter.clamp(0.02, 0.1);
    let noisy = |times: &[f64], random: &mut Draws| -> Vec<(Bytes, Seconds)> {
        let run = (0.01 * random.normal()).exp();
        let time = |t: &f64, d: &mut Draws| Seconds(t * run * (noise * d.normal()).exp());
        let sizes = octaves.iter().map(|o| Bytes(o.exp2() as u64));
        sizes.zip(times).map(|(size, t)| (size, time(t, random))).collect()
    };
    let healthy: Vec<f64> = octaves.iter().map(|&o| series.time(o)).collect();
    let mut query = series.query.clone();
    let mut random = Draws::new(seed);
    let learned = match beside {
        Beside::Others(study) => Some(study.without(&series.machine)),
        Beside::OwnRuns => {
            let runs = (0..3).flat_map(|_| noisy(&healthy, &mut random));
            let placed = query.placement.placed();
            let runs: Vec<_> =
                runs.map(|(size, time)| Observation { placed, size, time }).collect();
            let asked = curve::Asked::new(series.collective, None);
            query.machine.curves.extend(curve::fit(&runs, &asked).ok());
            None
        }
    };
    let mut expecting = Expecting::new(&registry, &query).expect("an expectation");
    if let Some(learned) = &learned {
        expecting = expecting.taught(&query, learned);
    }
    let sizes = octaves.iter().map(|o| Bytes(o.exp2() as u64));
    let judge = Judge::new(&expecting, (&registry, &query, None), sizes);
    let judged =
        |times: &[f64], random: &mut Draws| judge.verdict(&noisy(times, random), &Facts::default());
    let mut counts = Counts::new();
    let slowed: Vec<f64> = healthy.iter().map(|t| 1.5 * t).collect();
    for _ in 0..draws {
        counts.entry(HEALTHY).or_default().add(count(&judged(&healthy, &mut random), &[]));
        counts.entry(SLOWED).or_default().add(count(&judged(&slowed, &mut random), &[]));
    }
    let own = matches!(beside, Beside::OwnRuns);
    for kind in KINDS.iter().filter(|kind| own || !kind.own) {
        for _ in 0..draws {
            let Some(times) = ill(kind, &wire, &octaves, &mut random) else { continue };
            let most = times.iter().zip(&healthy).map(|(ill, t)| ill / t).fold(0.0, f64::max);
            if most >= beside.visible() {
                counts
                    .entry(kind.name)
                    .or_default()
                    .add(count(&judged(&times, &mut random), kind.right));
            }
        }
    }
    counts
}

/// Times with a fault of a kind, drawn; none where the machine cannot have it.
fn ill(kind: &Kind, wire: &Wire, octaves: &[f64], random: &mut Draws) -> Option<Vec<f64>> {
    let effect = fault(kind, wire, random)?;
    Some(octaves.iter().map(|&o| wire.time(&effect, o)).collect())
}

fn count(verdict: &Verdict, right: &[&str]) -> Count {
    // What cannot be told lists possible causes, which name none.
    let named = verdict.causes.first().filter(|_| verdict.ruling == Ruling::Ill);
    let first = named.map_or("", |c| c.id);
    let one = |is: bool| u32::from(is);
    Count {
        all: 1,
        ill: one(verdict.ruling == Ruling::Ill),
        unclear: one(verdict.ruling == Ruling::CannotTell),
        first: one(right.contains(&first)),
        named: one(right.first() == Some(&first)),
    }
}

/// All of several counts.
pub fn sum(all: impl IntoIterator<Item = Counts>) -> Counts {
    let mut sum = Counts::new();
    for counts in all {
        for (name, count) in counts {
            sum.entry(name).or_default().add(count);
        }
    }
    sum
}

/// All kinds of faults together, without the healthy and the slowed runs.
pub fn faults(counts: &Counts) -> Count {
    let mut all = Count::default();
    let of_faults = counts.iter().filter(|(name, _)| ![HEALTHY, SLOWED].contains(name));
    of_faults.for_each(|(_, count)| all.add(*count));
    all
}

/// A table of counts, as docs/background/verdicts.md has it.
pub fn table(counts: &Counts) -> String {
    let percent = |count: &Count, of: fn(Count) -> u32| format!("{:.0}", 100.0 * count.part(of));
    let row = |name: &str, c: &Count| {
        let ill = percent(c, |c| c.ill);
        let unclear = percent(c, |c| c.unclear);
        // Causes are named of ill runs.
        let of_ill = Count { all: c.ill, ..*c };
        let (first, named) = (percent(&of_ill, |c| c.first), percent(&of_ill, |c| c.named));
        format!("| {name} | {} | {ill} | {unclear} | {first} | {named} |\n", c.all)
    };
    let mut text =
        "| fault | runs | ill, % | cannot tell, % | right cause first, % | canonical, % |\n\
                    |---|---|---|---|---|---|\n"
            .to_owned();
    counts.iter().for_each(|(name, c)| text += &row(name, c));
    text + &row("all faults", &faults(counts))
}
