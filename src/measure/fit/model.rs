//! The model t = Σ f(m) + n_γ·M·γ with f(m) = α + Σ β_j·(bytes of m in segment j), and its fit.

use super::lad::{self, Row};
use super::nnls::MOST;
use super::path::Path;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::base::random::Random;
use crate::base::stats::HALF_WIDTH;
use crate::machine::link::{Bucket, Exchange, Knot, Link, Slopes, Times};

/// A row of the design: a point with its path.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub path: Path,
    /// The measured time.
    pub time: f64,
    /// How much it counts.
    pub weight: f64,
    /// The operation, as a number: rows of one operation are drawn together.
    pub group: usize,
    /// The point in the list of all points.
    pub point: usize,
}

/// Prior knowledge of γ: its value, and the half width of its interval over the value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prior {
    pub gamma: f64,
    pub half: f64,
}

impl Prior {
    /// Another value that its interval allows.
    pub fn drawn(self, random: &mut Random) -> Self {
        Self { gamma: self.gamma * (self.half / HALF_WIDTH * random.normal()).exp(), ..self }
    }

    /// It as one more row of `p` coefficients.
    fn row(self, p: usize) -> Row {
        let mut columns = [0.0; MOST];
        columns[p - 1] = 1.0 / self.gamma;
        // A precision of 2 % weighs as much as one point, as everywhere.
        Row { columns, weight: (0.02 / self.half.max(1e-3)).min(10.0) }
    }
}

/// The coefficients of the model.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    /// Where one slope ends and the next begins, bytes.
    pub knots: Vec<f64>,
    /// γ, if it is known from runs without messages.
    pub prior: Option<Prior>,
    /// The token bucket, if there is one.
    pub bucket: Option<Bucket>,
    /// How much longer bytes take if ranks send and receive at once.
    pub exchange: Exchange,
}

impl Basis {
    pub fn p(&self) -> usize {
        2 + self.knots.len() + usize::from(self.prior.is_some())
    }

    /// Whether there is a bucket, and messages of at least these bytes are much larger than it.
    pub fn settles(&self, smallest: f64) -> bool {
        self.bucket.is_some_and(|bucket| smallest >= bucket.settled().0 as f64)
    }

    /// The column of the last slope.
    pub fn last(&self) -> usize {
        1 + self.knots.len()
    }

    /// Links with these coefficients.
    pub fn times(&self, x: &[f64; MOST]) -> Times {
        let knots = self.knots.iter().zip(&x[1..]).map(|(&to, &each)| (to, each));
        Times::of(x[0], Slopes::new(knots, x[self.last()]), self.exchange)
    }

    /// Links on which one coefficient is 1 and the others 0: what each adds to a time.
    fn units(&self) -> Vec<Times> {
        let unit = |i: usize| {
            let mut x = [0.0; MOST];
            x[i] = 1.0;
            self.times(&x)
        };
        (0..=self.last()).map(unit).collect()
    }

    /// The row of a point, relative to its time: the seconds that each coefficient of 1 adds.
    fn row(&self, entry: &Entry, units: &[Times]) -> Row {
        let mut columns = [0.0; MOST];
        for (column, unit) in columns.iter_mut().zip(units) {
            *column = entry.path.time(unit).0;
        }
        if self.prior.is_some() {
            columns[2 + self.knots.len()] = entry.path.reduced.0;
        }
        Row { columns: columns.map(|c| c / entry.time), weight: entry.weight }
    }

    /// The prior knowledge of γ as one more row.
    pub fn prior_row(&self) -> Option<Row> {
        self.prior.map(|prior| prior.row(self.p()))
    }
}

/// Coefficients with their meaning.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub basis: Basis,
    pub x: [f64; MOST],
}

impl Model {
    pub fn alpha(&self) -> f64 {
        self.x[0]
    }

    pub fn beta(&self) -> f64 {
        self.x[self.basis.last()]
    }

    pub fn gamma(&self) -> Option<f64> {
        self.basis.prior.map(|_| self.x[self.basis.p() - 1])
    }

    pub fn predict(&self, path: &Path) -> f64 {
        self.on(path, &self.basis.times(&self.x))
    }

    /// The time of a run on links of these times, with its additions.
    pub fn on(&self, path: &Path, times: &Times) -> f64 {
        path.time(times).0 + path.reduced.0 * self.gamma().unwrap_or(0.0)
    }

    /// The fitted link; without a last slope the rate is unknown, not infinite.
    pub fn link(&self) -> Link {
        let rate = |each: f64| (each > 0.0).then(|| Bandwidth(1.0 / each));
        let knots = self.basis.knots.iter().zip(&self.x[1..]);
        let knots = knots
            .map(|(&to, &each)| Knot { below: Bytes(to.round() as u64), bandwidth: rate(each) });
        Link {
            alpha: Some(Seconds(self.alpha())),
            bandwidth: rate(self.beta()),
            knots: knots.collect(),
            duplex: Ratio(1.0 / self.basis.exchange.slower),
            duplex_above: Bytes(self.basis.exchange.above.round() as u64),
            ..Link::unknown()
        }
    }
}

/// Rows ready to be fitted again and again.
pub(super) struct Design<'a> {
    pub basis: &'a Basis,
    pub rows: Vec<Row>,
    smallest: Vec<f64>,
    time: Vec<f64>,
}

impl<'a> Design<'a> {
    pub fn new(basis: &'a Basis, entries: &[Entry]) -> Self {
        let units = basis.units();
        Self {
            basis,
            rows: entries.iter().map(|e| basis.row(e, &units)).collect(),
            smallest: entries.iter().map(|e| e.path.smallest()).collect(),
            time: entries.iter().map(|e| e.time).collect(),
        }
    }

    /// All coefficients at once, from the rows `chosen`; a row counts as often as it is listed.
    pub fn fit_jointly(&self, chosen: &[usize]) -> [f64; MOST] {
        self.jointly(chosen, self.basis.prior)
    }

    fn jointly(&self, chosen: &[usize], prior: Option<Prior>) -> [f64; MOST] {
        let prior = prior.map(|prior| prior.row(self.basis.p()));
        lad::fit(chosen.iter().map(|&i| &self.rows[i]).chain(&prior), self.basis.p())
    }

    /// Whether bytes at the long-run rate make up the time of a row.
    pub fn is_bulk(&self, row: usize, alpha: f64) -> bool {
        self.is_settled(row) || self.time[row] > 20.0 * alpha
    }

    /// Whether there is a bucket, and a row's messages are much larger than it.
    pub fn is_settled(&self, row: usize) -> bool {
        self.basis.settles(self.smallest[row])
    }

    /// The same, and then the last slope from the rows that only it decides.
    pub fn fit(&self, chosen: &[usize]) -> [f64; MOST] {
        self.fit_knowing(chosen, self.basis.prior)
    }

    /// The same with other prior knowledge of γ than the basis has, where that has any.
    pub fn fit_knowing(&self, chosen: &[usize], prior: Option<Prior>) -> [f64; MOST] {
        let p = self.basis.p();
        let mut x = self.jointly(chosen, prior);
        let last = self.basis.last();
        let alpha = x[0];
        let pairs: Vec<(f64, f64)> = chosen
            .iter()
            .filter(|&&i| self.is_bulk(i, alpha))
            .map(|&i| {
                let row = &self.rows[i];
                let own = row.columns[last];
                let others = row.error(&x, p) + 1.0 - own * x[last];
                let weight = row.weight * self.shown(i);
                (weight * own, weight * (1.0 - others))
            })
            .collect();
        let enough = pairs.iter().filter(|(a, _)| *a > 0.0).count() >= LEAST_BULK;
        if enough && let Some(slope) = lad::ratio(pairs.into_iter()).filter(|s| *s > 0.0) {
            x[last] = slope;
        }
        x
    }

    /// How much a row says of the long-run rate: messages below the bucket's size may leave at once.
    /// Weighed like others, many such rows put β 8 % off four large exchanges that agreed on it within
    /// 0.1 %.
    fn shown(&self, row: usize) -> f64 {
        let part = |bucket: Bucket| self.smallest[row] / bucket.burst.0.max(1) as f64;
        self.basis.bucket.map_or(1.0, |bucket| part(bucket).min(1.0))
    }

    /// The mean error, each error capped at a half: beyond that, how far a point is off does not matter.
    pub fn badness(&self, x: &[f64; MOST]) -> f64 {
        let p = self.basis.p();
        let sum: f64 = self.rows.iter().map(|r| r.weight * r.error(x, p).abs().min(0.5)).sum();
        sum / self.rows.iter().map(|r| r.weight).sum::<f64>()
    }
}

/// Fewer points say less about the last slope than the joint fit does.
const LEAST_BULK: usize = 4;
