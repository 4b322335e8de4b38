//! The time to dispatch tokens to experts and to combine them, with the kernels made for that.
//!
//! ```text
//! T = start + slope·x + root·√x + token·t + copy·t·k + expert·E
//! ```
//!
//! x is the number of bytes that leave a rank of one node: t tokens of width h, each sent once to every
//! other rank that holds one of its k of E experts (DeepEP's normal kernels), or once to every expert on
//! another rank (low latency). The fits are in `evidence/experts.csv`, one line per machine and kernel, with
//! the error when a quarter of the models (h, k, E) is left out in turn. What was published over nodes is in
//! [`dispatches`].

use std::sync::LazyLock;

use super::kernels::Board;
use super::{Basis, Expectation, HeldOut, dispatches};
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::machine::query::Query;
use crate::measure::fit::lad;
use crate::measure::fit::nnls::MOST;

/// The chance that `k` of `open` experts hit one of `part` of them.
#[must_use]
pub(crate) fn hit(open: f64, part: f64, k: u32) -> f64 {
    let missed: f64 = (0..k)
        .map(|i| (open - part - f64::from(i)).max(0.0) / (open - f64::from(i)).max(1.0))
        .product();
    1.0 - missed
}

/// The tokens of one layer that are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tokens {
    /// Tokens of one rank.
    pub each: u64,
    /// Bytes per token, including its scales.
    pub width: Bytes,
    /// Experts per token.
    pub top_k: u32,
    /// The number of routed experts.
    pub experts: u32,
    /// The number of ranks that hold them.
    pub ranks: u32,
}

impl Tokens {
    /// kB that leave a rank.
    pub(super) fn leave(&self, low_latency: bool) -> f64 {
        let (k, n) = (f64::from(self.top_k), f64::from(self.ranks.max(1)));
        let all = f64::from(self.experts);
        let copies = match low_latency {
            true => k * (n - 1.0) / n,
            false => (n - 1.0) * hit(all, (all / n).floor(), self.top_k),
        };
        self.each as f64 * copies * self.width.0 as f64 / 1e3
    }

    fn columns(&self, low_latency: bool) -> [f64; 6] {
        let (t, k, x) = (self.each as f64, f64::from(self.top_k), self.leave(low_latency));
        [1.0, x, x.sqrt(), t, t * k, f64::from(self.experts)]
    }

    /// µs by the parameters of a fit.
    fn told(&self, low_latency: bool, x: [f64; 6]) -> f64 {
        self.columns(low_latency).iter().zip(x).map(|(c, x)| c * x).sum()
    }
}

/// One measured phase.
#[derive(Debug, Clone, PartialEq)]
pub struct RawTokens {
    /// `h100_sxm`.
    pub machine: String,
    /// `deepep-normal`, `deepep-ll`, …
    pub backend: String,
    /// `dispatch` or `combine`.
    pub phase: String,
    /// The type that is sent.
    pub dtype: String,
    /// SMs that the kernel was given; 0 if unknown.
    pub sms: u32,
    /// What was moved.
    pub tokens: Tokens,
    /// The type of model: width, experts per token, experts.
    pub model: (u32, u32, u32),
    /// The measured time.
    pub time: Seconds,
}

/// A line of the evidence.
#[derive(Debug, Clone, PartialEq)]
struct Fit {
    machine: String,
    backend: String,
    phase: String,
    dtype: String,
    sms: u32,
    ranks: u32,
    points: usize,
    error: HeldOut,
    band: (f64, f64),
    x: [f64; 6],
}

fn is_low_latency(backend: &str) -> bool {
    backend.ends_with("-ll")
}

/// The kernels that were fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpertTimes(Vec<Fit>);

static BUILT_IN: LazyLock<ExpertTimes> = LazyLock::new(|| {
    let lines = include_str!("../../../evidence/experts.csv").lines();
    ExpertTimes(lines.filter(|l| !l.starts_with('#')).skip(1).filter_map(Fit::read).collect())
});

impl ExpertTimes {
    /// The built-in kernels.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Fits raw times, each with the error on held-out models.
    #[must_use]
    pub fn fitted(rows: &[RawTokens]) -> Self {
        type Key<'a> = (&'a str, &'a str, &'a str, &'a str, u32, u32);
        let mut groups: std::collections::BTreeMap<Key<'_>, Vec<&RawTokens>> = Default::default();
        for r in rows {
            let key = (&*r.machine, &*r.backend, &*r.phase, &*r.dtype, r.sms, r.tokens.ranks);
            groups.entry(key).or_default().push(r);
        }
        let fit = |((machine, backend, phase, dtype, sms, ranks), rows): (Key<'_>, Vec<_>)| {
            let ratios = left_out(&rows, is_low_latency(backend));
            let points = (!ratios.is_empty()).then_some(ratios.len())?;
            let (error, band) = HeldOut::of(ratios);
            Some(Fit {
                machine: machine.to_owned(),
                backend: backend.to_owned(),
                phase: phase.to_owned(),
                dtype: dtype.to_owned(),
                sms,
                ranks,
                points,
                error,
                band,
                x: fitted(rows.iter().copied(), is_low_latency(backend)),
            })
        };
        Self(groups.into_iter().filter_map(fit).collect())
    }

    /// Lines of the evidence file.
    #[must_use]
    pub fn to_csv(&self) -> String {
        self.0.iter().map(Fit::line).collect()
    }

    /// |expected/measured − 1| over all lines, by the points of each: medians and 90th percentiles.
    #[must_use]
    pub fn held_out(&self) -> HeldOut {
        let of = |part: fn(&HeldOut) -> f64| {
            let points: f64 = self.0.iter().map(|f| f.points as f64).sum();
            Ratio(self.0.iter().map(|f| f.points as f64 * part(&f.error)).sum::<f64>() / points)
        };
        HeldOut { median: of(|e| e.median.0), p90: of(|e| e.p90.0) }
    }

    /// The time of one phase on the machine of `query`; `None` if nobody measured that kernel on this many
    /// ranks of it or of a sibling.
    #[must_use]
    pub fn at(
        &self,
        query: &Query,
        backend: &str,
        phase: &str,
        tokens: Tokens,
    ) -> Option<Expectation> {
        let of = (backend, phase);
        if is_low_latency(backend) {
            let start = self
                .fit(query, of, None)
                .map(|(_, fit)| Tokens { each: 0, ..tokens }.told(true, fit.x));
            if let Some(published) = dispatches::at(query, of, tokens, start) {
                return Some(published);
            }
        }
        let (own, fit) =
            self.fit(query, of, Some(tokens.ranks)).filter(|_| !query.placement.is_spread())?;
        let time = Seconds(tokens.told(is_low_latency(backend), fit.x) * 1e-6);
        let wide = if own { 1.0 } else { SIBLING };
        Some(Expectation {
            time,
            low: time * Ratio(fit.band.0 / wide),
            high: time * Ratio(fit.band.1 * wide),
            basis: if own { Basis::Measured } else { Basis::SameBoard },
            reach: None,
            error: own.then_some(fit.error),
        })
    }

    /// The fit of the nearest machine, and whether it is the machine itself; of one number of ranks or of any.
    fn fit(
        &self,
        query: &Query,
        (backend, phase): (&str, &str),
        ranks: Option<u32>,
    ) -> Option<(bool, &Fit)> {
        let board = Board::of(query)?;
        board.nearest().iter().find_map(|m| {
            let is = |f: &&Fit| {
                f.machine == m.name
                    && f.backend == backend
                    && f.phase == phase
                    && ranks.is_none_or(|ranks| f.ranks == ranks)
                    && (f.sms == 0 || f.sms == SMS)
            };
            Some((board.id.as_deref() == Some(m.board), self.0.iter().find(is)?))
        })
    }
}

/// SMs that DeepEP's normal kernels get by default.
const SMS: u32 = 20;
/// How much wider bands are for a board that was not measured.
pub(super) const SIBLING: f64 = 1.2;

fn fitted<'a>(rows: impl Iterator<Item = &'a RawTokens>, low_latency: bool) -> [f64; 6] {
    let row = |raw: &RawTokens| lad::Row::of(raw.tokens.columns(low_latency), raw.time.0 * 1e6);
    let rows: Vec<lad::Row> = rows.map(row).collect();
    let x = lad::fit(rows.iter(), 6);
    std::array::from_fn(|i| x[i])
}

/// measured/expected of each row, by fits to the other three quarters of the models.
fn left_out(rows: &[&RawTokens], low_latency: bool) -> Vec<f64> {
    let mut models: Vec<_> = rows.iter().map(|r| r.model).collect();
    models.sort_unstable();
    models.dedup();
    let quarter = |r: &RawTokens| models.binary_search(&r.model).map_or(0, |i| i % 4);
    let mut ratios = Vec::new();
    for left in 0..models.len().min(4) {
        let others = rows.iter().copied().filter(|r| quarter(r) != left);
        if others.clone().count() < MOST {
            continue;
        }
        let x = fitted(others, low_latency);
        for row in rows.iter().filter(|r| quarter(r) == left) {
            ratios.push(row.time.0 * 1e6 / row.tokens.told(low_latency, x));
        }
    }
    ratios.retain(|r| r.is_finite() && *r > 0.0);
    ratios
}

impl Fit {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(',').collect();
        let [machine, backend, phase, dtype, numbers @ ..] = &words[..] else { return None };
        let numbers: Vec<f64> = numbers.iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let &[sms, ranks, points, median, p90, low, high, a, b, c, d, e, f] = &numbers[..] else {
            return None;
        };
        Some(Self {
            machine: (*machine).to_owned(),
            backend: (*backend).to_owned(),
            phase: (*phase).to_owned(),
            dtype: (*dtype).to_owned(),
            sms: sms as u32,
            ranks: ranks as u32,
            points: points as usize,
            error: HeldOut { median: Ratio(median), p90: Ratio(p90) },
            band: (low, high),
            x: [a, b, c, d, e, f],
        })
    }

    fn line(&self) -> String {
        let Self { machine, backend, phase, dtype, sms, ranks, points, error, band, x } = self;
        let x: Vec<String> = x.iter().map(|x| format!("{x:.4e}")).collect();
        format!(
            "{machine},{backend},{phase},{dtype},{sms},{ranks},{points},{:.3},{:.3},{:.3},{:.3},{}\n",
            error.median.0,
            error.p90.0,
            band.0,
            band.1,
            x.join(",")
        )
    }
}
