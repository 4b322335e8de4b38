//! Everything that may be the cause, and how likely it is.
//!
//! A suspect is a short name, a sentence, what to run next, and the ratio of its times to the expected
//! ones at each size, in one or more forms. Its probability is how often it was the true cause elsewhere
//! (`prior`) times how likely the measured times are with it (`likelihood`).

use super::clues::{Clue, needed};
use super::lab::Lab;
use super::likelihood::{Figures, Likelihood, sum_ln};
use super::mechanism::{MECHANISMS, Mechanism, PROTO_NEXT, Wire};
use super::{Cause, Facts, Point, Sizes, prior};
use crate::base::order::falling;
use crate::base::quantity::{Bytes, Ratio};
use crate::base::stats::median;
use crate::library::nccl::{Algo, Proto};
use crate::model::algorithm::RunBy;

/// Something that may be the cause.
#[derive(Clone)]
pub(super) struct Suspect {
    pub id: &'static str,
    pub what: String,
    pub next: String,
    pub predicted: Predicted,
    /// How certain its prediction is.
    pub figures: Figures,
    /// The algorithm that a setting forces.
    pub forces: Option<Algo>,
    /// The protocol that a setting leaves out.
    pub lacks: Option<Proto>,
    /// ln of how likely it is, up to a constant.
    pub score: f64,
    /// How likely its cause is, over all suspects of that cause.
    pub chance: f64,
    /// What a log says in its favour.
    pub says: Vec<String>,
    /// Whether the log names it, and the times do not exclude it.
    pub named: bool,
}

impl Default for Suspect {
    fn default() -> Self {
        Self {
            id: "",
            what: String::new(),
            next: String::new(),
            predicted: Predicted::Times(Vec::new()),
            figures: Figures::default(),
            forces: None,
            lacks: None,
            score: 0.0,
            chance: 1.0,
            says: Vec::new(),
            named: false,
        }
    }
}

/// What a suspect predicts for every point.
#[derive(Clone)]
pub(super) enum Predicted {
    /// ln(time with it/healthy time), in each of its forms.
    Times(Vec<Vec<f64>>),
    /// The log itself, or a bound, shows it; this is the evidence.
    Said(String),
}

/// A cause must reduce the error of the prediction to less than this part of the error without it.
const NEARER: f64 = 0.65;
/// A cause that changes no size by more than this does not apply to the run.
const LEAST: f64 = 0.01;
/// With a cause that a log names, times must be likelier by this, as a logarithm: e times.
const LIKELIER: f64 = 1.0;
/// A setting that costs less, as a logarithm, makes no run ill: 15 %.
const COSTS: f64 = 0.14;
/// Causes that would slow each call whose bytes cross the NICs.
pub(super) const OF_NICS: [&str; 10] = [
    "missing-nic",
    "gdr-off",
    "acs",
    "tcp",
    "fabric",
    "nic-setting",
    "bad-node",
    "pcie-degraded",
    "cpu",
    "topology",
];
/// What the documented columns of a table weigh against another convention, as a logarithm: as much as
/// a line of a log that typically comes with something else.
const AGAINST: f64 = -2.0;
/// From this size on, bytes decide the time.
const LARGE: Bytes = Bytes(1 << 20);

impl Suspect {
    /// Its closest form, with the mean of |ln(measured/predicted)|.
    fn nearest(&self, points: &[Point]) -> Option<(&[f64], f64)> {
        let Predicted::Times(forms) = &self.predicted else { return None };
        let off = |form: &[f64]| {
            let all = points.iter().zip(form).map(|(p, f)| (p.beyond() - f).abs());
            all.sum::<f64>() / points.len().max(1) as f64
        };
        let all = forms.iter().map(|form| (form.as_slice(), off(form)));
        all.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether a clue refers to it.
    fn is_meant(&self, clue: &Clue) -> bool {
        let forces = match (&clue.forces, self.forces) {
            (Some(all), Some(one)) => all.contains(&one),
            _ => true,
        };
        let lacks = match (&clue.lacks, self.lacks) {
            (Some(all), Some(one)) => all.contains(&one),
            _ => true,
        };
        clue.id == self.id && clue.next.is_none_or(|next| next == self.next) && forces && lacks
    }

    /// The least that it costs at large sizes, as a logarithm, if a variable sets it: the machine's own
    /// choice would then be faster by that, whatever the run's times are.
    fn costs(&self, points: &[Point]) -> Option<f64> {
        let Predicted::Times(forms) = &self.predicted else { return None };
        let large: Vec<usize> = (0..points.len()).filter(|&i| points[i].size >= LARGE).collect();
        let cost = |form: &Vec<f64>| median(large.iter().map(|&i| form[i]).collect());
        forms.iter().filter_map(cost).reduce(f64::min)
    }

    /// Whether it costs something, large calls are later than expected, by no less than it costs less what
    /// healthy machines differ, and it explains the times better than nothing does.
    fn is_as_long(&self, points: &[Point]) -> bool {
        let large = || points.iter().filter(|p| p.size >= LARGE);
        let later = median(large().map(Point::beyond).collect()).unwrap_or(0.0);
        let reach = median(large().map(Point::reach).collect()).unwrap_or(0.0);
        let costs = |cost| cost >= COSTS && later > 0.0 && later > cost - reach;
        self.costs(points).is_some_and(costs) && self.nearer(points, 1.0).is_some()
    }

    /// The cause, if it improves the prediction.
    pub(super) fn cause(&self, points: &[Point]) -> Option<Cause> {
        // A cause that a log names needs less support from the times.
        self.nearer(points, if self.says.is_empty() { NEARER } else { 1.0 })
    }

    /// The cause if a log names it, however well it explains the times.
    pub(super) fn named_cause(&self, points: &[Point]) -> Option<Cause> {
        self.named.then(|| self.nearer(points, f64::INFINITY))?
    }

    /// The cause, if its prediction is at most `nearer` times as far off as none.
    fn nearer(&self, points: &[Point], nearer: f64) -> Option<Cause> {
        let without =
            points.iter().map(|p| p.beyond().abs()).sum::<f64>() / points.len().max(1) as f64;
        let (evidence, off) = match &self.predicted {
            Predicted::Said(what) => (what.clone(), None),
            Predicted::Times(_) => {
                let (predicted, off) = self.nearest(points)?;
                let last = points.len().checked_sub(1).filter(|_| off <= nearer * without)?;
                let times = |i: usize| {
                    format!(
                        "{:.2} x at {} (measured {:.2} x)",
                        (predicted[i] + points[i].known.later).exp(),
                        points[i].size,
                        points[i].ratio().0
                    )
                };
                let ends =
                    if last == 0 { times(0) } else { format!("{}, {}", times(0), times(last)) };
                let mut evidence = format!(
                    "predicts {ends}; off by {:.0} % over all sizes, {:.0} % without it",
                    100.0 * off,
                    100.0 * without
                );
                if !self.says.is_empty() {
                    evidence += &format!("; the log says: {}", self.says.join(", "));
                }
                (evidence, Some(Ratio(off)))
            }
        };
        Some(Cause {
            id: self.id,
            what: self.what.clone(),
            chance: Ratio(self.chance),
            off,
            evidence,
            next: self.next.clone(),
        })
    }
}

/// The suspects, the likeliest first, and how likely it is that nothing is wrong.
pub(super) struct Lineup {
    pub suspects: Vec<Suspect>,
    /// ln of how much likelier the times are with a cause than without one, priors included.
    pub odds: f64,
    /// Whether a log names the mechanism of a cause, and the times are likelier with it than without one.
    pub named: bool,
    /// Whether a variable sets what is known to cost, and the times are as long as that makes them.
    pub set: bool,
}

/// What the machine may have, independent of the measured times.
#[derive(Default)]
pub(super) struct Ways {
    /// Ways to causes; all forms of one way are equally likely.
    causes: Vec<Vec<Suspect>>,
    /// The times of healthy machines, as ln of how much longer they are than all that is known says: those that start
    /// at once, each equally likely, and those that start later.
    healthy: Vec<Vec<f64>>,
    late: Vec<Vec<f64>>,
}

impl Ways {
    /// The form of a cause that is nearest to the times, if it is nearer than none.
    pub fn closest(&self, id: &str, points: &[Point]) -> Option<&[f64]> {
        let of = |suspect: &&Suspect| suspect.id == id && suspect.nearer(points, 1.0).is_some();
        let suspect = self.causes.iter().flatten().find(of)?;
        suspect.nearest(points).map(|(form, _)| form)
    }
}

/// Calls on a virtual machine begin later: healthy published ones by up to these multiples of the shortest
/// call.
const BEGINS: [f64; 3] = [0.4, 0.8, 1.6];
/// Half of the published curves come from virtual machines.
const VIRTUAL: f64 = 0.5;

/// The suspects of a machine, independent of the measured times.
pub(super) fn ways(lab: &Lab) -> Ways {
    let sizes: Vec<Bytes> = lab.points.iter().map(|p| p.size).collect();
    let own = lab.points.iter().all(|p| p.doubt == 0.0);
    let wire = Wire::new(lab.query, &|size| lab.healthy(size), &sizes, own);
    let mut ways = vec![
        lab.nics(),
        lab.switches().into_iter().collect(),
        lab.tiers(),
        lab.trays().into_iter().collect(),
        lab.protocols(),
        lab.algorithms(),
        lab.cliff().into_iter().collect(),
    ];
    ways.extend(lab.slow().into_iter().map(|one| vec![one]));
    // What a variable forces is known, and another algorithm cannot run.
    let may_be = |cause: &&Mechanism| lab.only.is_none() || cause.forces.is_none();
    ways.extend(MECHANISMS.iter().filter(may_be).filter_map(|cause| {
        let next = cause.next.of(lab.run_by)?.to_owned();
        let forms = (cause.forms)(&wire);
        let (id, what) = (cause.id, cause.what.to_owned());
        let (figures, forces) = (cause.figures, cause.forces);
        let predicted = Predicted::Times(forms);
        // The protocol of middle sizes.
        let lacks = (next == PROTO_NEXT).then_some(Proto::Ll128);
        Some(vec![Suspect {
            id,
            what,
            next,
            figures,
            forces,
            lacks,
            predicted,
            ..Suspect::default()
        }])
    }));
    // The rate of the wire may say more than the expectation, or the machine may be none of those that it is from.
    let expected: Vec<f64> = lab.points.iter().map(|p| -p.known.later).collect();
    let mut healthy = vec![vec![0.0; lab.points.len()]];
    healthy.extend(Some(expected).filter(|form| form.iter().any(|&f| f != 0.0)));
    let mut late = Vec::new();
    if !own {
        late.extend(BEGINS.map(|part| wire.later(part)));
    }
    if lab.is_not_added() {
        let missing = MECHANISMS.iter().filter(|cause| cause.id == "nvls-missing");
        late.extend(missing.flat_map(|cause| (cause.forms)(&wire)));
    }
    Ways { causes: changing(ways), healthy, late }
}

/// Drops forms that change nothing.
fn changing(mut ways: Vec<Vec<Suspect>>) -> Vec<Vec<Suspect>> {
    for way in &mut ways {
        way.retain_mut(|suspect| {
            let Predicted::Times(forms) = &mut suspect.predicted else { return true };
            forms.retain(|form| form.iter().any(|f| f.abs() > LEAST));
            !forms.is_empty()
        });
    }
    ways.retain(|way| !way.is_empty());
    ways
}

/// How likely each suspect is, given the measured times.
pub(super) fn line_up(
    lab: &Lab,
    ways: &Ways,
    (facts, impossible, clues): (&Facts, Option<&(Bytes, String)>, &[Clue]),
) -> Lineup {
    let points = lab.points;
    let typed = changing(lab.conventions(facts).into_iter().map(|one| vec![one]).collect());
    let all = || ways.causes.iter().chain(&typed);
    let likelihood = Likelihood::of(points);
    let mean = |forms: &[Vec<f64>], figures| {
        let each: Vec<f64> = forms.iter().map(|form| likelihood.ln(form, figures)).collect();
        sum_ln(&each) - (each.len() as f64).ln()
    };
    let at_once = mean(&ways.healthy, Figures::Exact);
    let healthy = match ways.late.as_slice() {
        [] => at_once,
        late => {
            sum_ln(&[at_once + (1.0 - VIRTUAL).ln(), mean(late, Figures::Exact) + VIRTUAL.ln()])
        }
    };
    let mut found: Vec<Suspect> = Vec::new();
    let (mut named, mut set) = (false, false);
    for way in all() {
        // All ways to one cause are equally likely.
        let shared = all().filter(|other| other[0].id == way[0].id).count() * way.len();
        for suspect in way {
            let Predicted::Times(forms) = &suspect.predicted else { continue };
            if needed(suspect.id).is_some_and(|sign| !facts.evidence.says(sign)) {
                continue;
            }
            if facts.carried.is_some() && OF_NICS.contains(&suspect.id) {
                continue;
            }
            let mean = mean(forms, suspect.figures);
            let about = || clues.iter().filter(|clue| suspect.is_meant(clue));
            let read = about().map(|clue| clue.ln).sum::<f64>();
            let is_named = about().any(Clue::is_name);
            named |= is_named && mean > healthy + LIKELIER;
            set |= about().any(|clue| clue.is_set()) && suspect.is_as_long(points);
            let against = match suspect.id {
                "wrong-convention" if facts.sizes == Sizes::Table => AGAINST,
                _ => 0.0,
            };
            let score =
                prior::ln(suspect.id, lab.query) + mean - (shared as f64).ln() + read + against;
            let says = about().filter(|clue| clue.ln > 0.0).map(|clue| clue.says.clone()).collect();
            // The times do not speak against it more than the clue speaks for it.
            let named = is_named && mean + read > healthy;
            found.push(Suspect { score, says, named, ..suspect.clone() });
        }
    }
    let scores: Vec<f64> = found.iter().map(|s| s.score).collect();
    let sum = sum_ln(&scores);
    let chances: Vec<f64> = found
        .iter()
        .map(|one| found.iter().filter(|s| s.id == one.id).map(|s| (s.score - sum).exp()).sum())
        .collect();
    found.iter_mut().zip(chances).for_each(|(suspect, chance)| suspect.chance = chance);
    falling(&mut found, |s| s.score);
    falling(&mut found, |s| s.chance);
    let mut suspects = said(facts, impossible, lab.run_by);
    suspects.extend(found);
    Lineup { suspects, odds: sum - healthy - prior::healthy(), named, set }
}

/// What finds the part that corrupts results on GPUs, and on hosts.
const WRONG_NEXT: &str = "nvidia-smi -q -d ECC; dmesg | grep -i xid; run with -c 1 on each pair of GPUs or nodes \
                          alone until the bad one is found";
const WRONG_ON_HOSTS: &str = "dmesg and edac-util for errors of the memory; run with a check of the results on each \
                              pair of nodes alone until the bad one is found";

/// Suspects that the log itself, or a bound, shows.
fn said(facts: &Facts, impossible: Option<&(Bytes, String)>, run_by: RunBy) -> Vec<Suspect> {
    let mut all = Vec::new();
    if facts.shared_gpu {
        all.push(Suspect {
            id: "shared-gpu",
            what: "several ranks share one GPU: the run does not measure the machine".to_owned(),
            next: "start one rank per GPU: mpirun --map-by ppr:8:node, CUDA_VISIBLE_DEVICES, -g 1"
                .to_owned(),
            predicted: Predicted::Said("the log says so".to_owned()),
            ..Suspect::default()
        });
    }
    if facts.wrong > 0 {
        all.push(Suspect {
            id: "wrong-results",
            what: "results were wrong: data were lost or mixed up, and the times do not count"
                .to_owned(),
            next: match run_by {
                RunBy::Hosts => WRONG_ON_HOSTS,
                _ => WRONG_NEXT,
            }
            .to_owned(),
            predicted: Predicted::Said(facts.wrong_words()),
            ..Suspect::default()
        });
    }
    // At sizes dominated by latency, nothing else makes a call so fast.
    if let Some((_, why)) = impossible.filter(|(size, _)| *size < LARGE) {
        all.push(Suspect {
            id: "not-one-call",
            what: "what was timed is not one separate call".to_owned(),
            next: match run_by.is_mpi() {
                true => "time each call between two barriers, until its last rank is done",
                false => {
                    "run without -G, with -m 1, and with a wait for the end: cudaEventSynchronize"
                }
            }
            .to_owned(),
            predicted: Predicted::Said(why.clone()),
            ..Suspect::default()
        });
    }
    all
}
