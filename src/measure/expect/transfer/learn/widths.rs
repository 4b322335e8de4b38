//! The widths of bands: quantiles of a machine's errors by models without it.
//!
//! With k machines it is the quantile at 0.75·(1 + 0.3/k) of |ln(measured/expected)|: the sign of a few
//! machines' errors does not generalise, and few machines show smaller errors than more would. A cell with
//! few machines is combined with all cells of its size.

#![allow(clippy::needless_range_loop, reason = "tables are filled by what their indices mean")]

use super::super::far;
use super::super::features::Group;
use super::super::model::{Band, Bands, GROUPS, Gains};
use super::gains::Losses;
use crate::base::order::sorted;
use crate::base::stats::quantile;
use crate::measure::expect::seen::SEEN_TRUST;

/// What was held out.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    pub(super) points: Vec<Point>,
    pub(super) beyond: Vec<Beyond>,
    /// By point, the error at the seen size, as far as it is trusted.
    known: Vec<f64>,
    losses: Losses,
}

/// One octave of one curve.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Point {
    pub(super) machine: usize,
    pub(super) group: Group,
    pub(super) several: bool,
    pub(super) domain: bool,
    pub(super) near: usize,
    pub(super) region: usize,
    pub(super) step: Option<usize>,
    /// ln(measured/expected).
    pub(super) error: f64,
    /// The error of the curve itself.
    pub(super) scatter: f64,
    pub(super) octave: f64,
    pub(super) seen: Option<Seen>,
}

/// The seen point of a point's curve.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) at: usize,
    pub(super) apart: f64,
}

/// A value on more ranks than were shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beyond {
    pub(super) machine: usize,
    pub(super) group: Group,
    pub(super) several: bool,
    pub(super) step: usize,
    pub(super) region: usize,
    pub(super) error: f64,
}

/// The part of the errors that a band should contain, before it is widened for few machines.
const PART: f64 = 0.75;
const FEW: f64 = 0.3;
const MOST: f64 = 0.98;
/// The weight of all cells of a size relative to a cell's own machines, as a number of machines.
const LEAN: f64 = 1.0;
/// The same for groups whose machines have little in common.
const LEAN_APART: f64 = 0.5;
/// The width if nothing was held out: a factor of three.
const UNKNOWN: f64 = 1.1;

/// Errors with their machines.
#[derive(Default)]
struct Errors {
    /// |ln(measured/expected)|, ascending.
    all: Vec<f64>,
    /// |expected/measured − 1|, ascending.
    off: Vec<f64>,
    machines: Vec<usize>,
}

impl FromIterator<(usize, f64)> for Errors {
    fn from_iter<I: IntoIterator<Item = (usize, f64)>>(from: I) -> Self {
        let (mut machines, errors): (Vec<usize>, Vec<f64>) = from.into_iter().unzip();
        let all = sorted(errors.iter().map(|e| e.abs()));
        let off = sorted(errors.iter().map(|e| ((-e).exp() - 1.0).abs()));
        machines.sort_unstable();
        machines.dedup();
        Self { all, off, machines }
    }
}

impl Errors {
    fn machines(&self) -> f64 {
        self.machines.len() as f64
    }

    /// The median and the 90th percentile; `None` without errors.
    fn figures(&self) -> Option<(f64, f64)> {
        (!self.off.is_empty()).then(|| (quantile(&self.off, 0.5), quantile(&self.off, 0.9)))
    }

    /// `None` without errors.
    fn half(&self) -> Option<f64> {
        let part = (PART * (1.0 + FEW / self.machines())).min(MOST);
        let n = self.all.len();
        (n > 0).then(|| {
            // The i-th of n is at (i − ½)/n.
            let at = (part * n as f64 - 0.5).clamp(0.0, (n - 1) as f64);
            let (below, part) = (at as usize, at.fract());
            let above = (below + 1).min(n - 1);
            self.all[below] + part * (self.all[above] - self.all[below])
        })
    }

    /// Its own half width, combined with `other`, which weighs as this many machines.
    fn leaning(&self, other: f64, by: f64) -> f64 {
        self.half()
            .map_or(other, |own| (self.machines() * own + by * other) / (self.machines() + by))
    }

    /// The same as a band, with its own figures, or else those of `other`.
    fn band(&self, other: &Self, by: f64) -> Band {
        let half = self.leaning(other.half().unwrap_or(UNKNOWN), by);
        let (median, p90) = self.figures().or(other.figures()).unwrap_or((UNKNOWN, UNKNOWN));
        Band::new(half, median, p90)
    }
}

impl Held {
    pub(super) fn new(points: Vec<Point>, beyond: Vec<Beyond>) -> Self {
        let mut held = Self { points, beyond, ..Self::default() };
        let halves = held.halves();
        let known = |p: &Point| {
            p.seen.map_or(0.0, |s| {
                let reach = SEEN_TRUST * halves[s.at];
                held.points[s.at].error.clamp(-reach, reach)
            })
        };
        held.known = held.points.iter().map(known).collect();
        held.losses = Losses::new(&held.points, &held.known);
        held
    }

    /// The widths of all bands, without the errors of `skip`.
    pub(super) fn bands(&self, skip: Option<usize>) -> Bands {
        Bands {
            near: self.near(skip),
            seen: self.seen(skip),
            gains: self.gains(skip, None),
            beyond: self.more(skip),
        }
    }

    fn errors(&self, skip: Option<usize>, which: impl Fn(&Point) -> bool) -> Errors {
        let kept = self.points.iter().filter(|p| Some(p.machine) != skip && which(p));
        kept.map(|p| (p.machine, p.error.hypot(p.scatter).copysign(p.error))).collect()
    }

    fn near(&self, skip: Option<usize>) -> [[[[Band; 3]; 4]; 2]; GROUPS] {
        let mut bands = [[[[Band::default(); 3]; 4]; 2]; GROUPS];
        for several in 0..2 {
            for region in 0..3 {
                let of = |group: Group, near: Option<usize>| {
                    self.errors(skip, |p| {
                        (usize::from(p.several), p.region, p.group) == (several, region, group)
                            && near.is_none_or(|near| near == p.near)
                    })
                };
                let parent = of(Group::Usual, None).half().unwrap_or(UNKNOWN);
                let own =
                    [0, 1, 2, 3].map(|near| of(Group::Usual, Some(near)).leaning(parent, LEAN));
                // An unmeasured board is never more certain.
                let none = own[1..].iter().copied().fold(0.0, f64::max);
                for group in Group::ALL {
                    let held_out = of(group, None);
                    let apart = held_out.leaning(none, LEAN_APART);
                    for near in 0..4 {
                        let half = match group {
                            Group::Usual if near == 3 => none,
                            Group::Usual => own[near],
                            // Its machines of one board differ by tens.
                            _ => apart.max(own[near]),
                        };
                        let figures = |near| self.figures(skip, group, several == 1, near, region);
                        // As the width: an unmeasured board is never more certain.
                        let (median, p90) = match near {
                            3 => (1..4).map(figures).fold((0.0, 0.0), |most: (f64, f64), of| {
                                (most.0.max(of.0), most.1.max(of.1))
                            }),
                            _ => figures(near),
                        };
                        let mut band = Band::new(half, median, p90);
                        if group == Group::Pcie && held_out.all.is_empty() {
                            band = band.wider(bands[group as usize][0][near][region]);
                        }
                        bands[group as usize][several][near][region] = band;
                    }
                }
            }
        }
        bands
    }

    /// The median and the 90th percentile of the errors there; if nothing was held out, those at the
    /// most similar nearness, then at other sizes, then on usual machines.
    fn figures(
        &self,
        skip: Option<usize>,
        group: Group,
        several: bool,
        near: usize,
        region: usize,
    ) -> (f64, f64) {
        let mut alike: Vec<(Group, usize, usize)> = [group, Group::Usual]
            .into_iter()
            .flat_map(|of| (0..4).map(move |n| (of, n)))
            .flat_map(|(of, n)| (0..3).map(move |r| (of, n, r)))
            .collect();
        alike.sort_by_key(|&(of, n, r)| (of != group, r.abs_diff(region), n.abs_diff(near)));
        let of = |(of, n, r): (Group, usize, usize)| {
            let alike = |p: &Point| (p.group, p.several, p.near, p.region) == (of, several, n, r);
            self.errors(skip, alike).figures()
        };
        alike.into_iter().find_map(of).unwrap_or((UNKNOWN, UNKNOWN))
    }

    fn more(&self, skip: Option<usize>) -> [[[[Band; 3]; 3]; 2]; GROUPS] {
        let mut all = [[[[Band::default(); 3]; 3]; 2]; GROUPS];
        for group in Group::ALL {
            for several in [false, true] {
                let mut last = [Band::default(); 3];
                for step in 0..3 {
                    let of = |region: Option<usize>| -> Errors {
                        let kept = self.beyond.iter().filter(|b| {
                            Some(b.machine) != skip
                                && (b.group, b.several, b.step) == (group, several, step)
                                && region.is_none_or(|region| region == b.region)
                        });
                        kept.map(|b| (b.machine, b.error)).collect()
                    };
                    for region in 0..3 {
                        // More ranks are never more certain.
                        let own = of(Some(region)).band(&of(None), LEAN);
                        if of(None).half().is_some() && own.half > last[region].half {
                            last[region] = own;
                        }
                        let link = all[0][usize::from(several)][step][region];
                        let own = if last[region].half > 0.0 { last[region] } else { link };
                        all[group as usize][usize::from(several)][step][region] = own;
                    }
                }
            }
        }
        all
    }

    /// The gains learned without `skip` and `own`.
    fn gains(&self, skip: Option<usize>, own: Option<usize>) -> Gains {
        let skip: Vec<usize> = skip.into_iter().chain(own).collect();
        self.losses.gains(&skip)
    }

    fn seen(&self, skip: Option<usize>) -> [[[[Band; 3]; 2]; 2]; GROUPS] {
        let machines = self.points.iter().map(|p| p.machine + 1).max().unwrap_or(0);
        let gains: Vec<Gains> = (0..machines).map(|own| self.gains(skip, Some(own))).collect();
        let errors = |which: &dyn Fn(&Point, &Seen) -> bool| -> Errors {
            let kept = self.points.iter().zip(&self.known).filter(|p| Some(p.0.machine) != skip);
            let asked = kept.filter_map(|(p, known)| p.seen.map(|s| (p, s, known)));
            asked
                .filter(|(p, s, _)| which(p, s))
                .map(|(p, s, known)| {
                    let of = gains[p.machine][p.group as usize][usize::from(p.several)];
                    let told = of[usize::from(s.apart > 0.0)].at(s.apart) * known;
                    let error = p.error - told;
                    (p.machine, error.hypot(p.scatter).copysign(error))
                })
                .collect()
        };
        let mut all = [[[[Band::default(); 3]; 2]; 2]; GROUPS];
        for larger in 0..2 {
            for class in 0..3 {
                let at = |s: &Seen| (usize::from(s.apart > 0.0), far(s.apart)) == (larger, class);
                let parent = errors(&|p, s| p.group == Group::Usual && at(s));
                for several in 0..2 {
                    let own = |group: Group| {
                        let asked = (group, several);
                        errors(&|p, s| (p.group, usize::from(p.several)) == asked && at(s))
                    };
                    let usual = own(Group::Usual).band(&parent, LEAN);
                    for group in Group::ALL {
                        let own = own(group);
                        let one = all[group as usize][0][larger][class];
                        all[group as usize][several][larger][class] = match group {
                            Group::Usual => usual,
                            Group::Pcie if own.all.is_empty() => usual.wider(one),
                            _ if own.all.is_empty() => usual,
                            _ => own.band(&parent, LEAN_APART),
                        };
                    }
                }
            }
        }
        all
    }

    /// The errors in words, each machine left out.
    pub(super) fn words(&self) -> String {
        let errors: Errors = self.points.iter().map(|p| (p.machine, p.error)).collect();
        let (median, p90) = errors.figures().unwrap_or_default();
        let halves = self.halves();
        let held = |of: &(&Point, &f64)| of.0.error.abs() <= *of.1;
        let inside = self.points.iter().zip(&halves).filter(held).count();
        let all = self.points.len();
        format!(
            "{all} sizes of {} machines, each left out: {:.1} % off in the median, {:.0} % at the 90th percentile, \
             {:.0} % in the band",
            errors.machines(),
            100.0 * median,
            100.0 * p90,
            100.0 * inside as f64 / all.max(1) as f64
        )
    }

    /// Half the width of each point's band, from the errors of the other machines.
    fn halves(&self) -> Vec<f64> {
        let machines = self.points.iter().map(|p| p.machine + 1).max().unwrap_or(0);
        let bands: Vec<_> =
            (0..machines).map(|g| (self.near(Some(g)), self.more(Some(g)))).collect();
        let half = |p: &Point| {
            let (near, beyond) = &bands[p.machine];
            let (class, several) = (p.group as usize, usize::from(p.several));
            let own = near[class][several][p.near][p.region].half;
            let row = usize::from(p.several || p.domain);
            own.max(p.step.map_or(0.0, |step| beyond[class][row][step][p.region].half))
        };
        self.points.iter().map(half).collect()
    }
}
