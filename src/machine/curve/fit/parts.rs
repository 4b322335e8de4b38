//! The unknowns of a fit: the logarithms of every component's parameters, δ and ln c.

use super::row::Row;
use crate::base::quantity::{Bandwidth, Seconds};
use crate::machine::curve::LEAST_FACTOR;
use crate::machine::curve::component::{Component, Steps};

/// s and s' of the four forms.
pub(super) type Steps4 = [(f64, f64); 4];

/// The most components.
pub(super) const MOST: usize = 3;
/// Unknowns of a component: ln o, ln α, ln α', ln 1/BW, ln 1/BW'.
pub(super) const EACH: usize = 5;
/// The most unknowns.
pub(super) const ALL: usize = EACH * MOST + 2;

/// The ranges of δ and ln c.
const DELTA: (f64, f64) = (-0.9, 6.0);
const SHAPE: (f64, f64) = (-7.0, 2.0);

/// Forms and unknowns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    forms: [Steps; MOST],
    count: usize,
    /// Whether δ and c are unknowns; otherwise both are 0.
    pub curved: bool,
    /// The components' unknowns one after another, then δ and ln c.
    x: [f64; ALL],
}

/// One component at a row: its time and the terms of it.
pub(super) struct At {
    pub time: f64,
    /// L.
    pub latency: f64,
    /// o, α·s, α'·s'.
    pub terms: [f64; 3],
    /// c·√(L·b).
    pub root: f64,
    /// b.
    pub bytes: f64,
    /// f(N) + δ.
    pub factor: f64,
}

impl Parts {
    pub(super) fn new(forms: &[Steps], each: &[[f64; EACH]], curved: bool) -> Self {
        let mut parts =
            Self { forms: [Steps::Const; MOST], count: forms.len(), curved, x: [0.0; ALL] };
        for (k, (form, figures)) in forms.iter().zip(each).enumerate() {
            parts.forms[k] = *form;
            parts.x[EACH * k..EACH * (k + 1)].copy_from_slice(figures);
        }
        if curved {
            parts.set_ends(0.2, -1.0);
        }
        parts
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn forms(&self) -> &[Steps] {
        &self.forms[..self.count]
    }

    /// The number of unknowns.
    pub(super) fn len(&self) -> usize {
        EACH * self.count + if self.curved { 2 } else { 0 }
    }

    pub(super) fn x(&self) -> &[f64] {
        &self.x[..self.len()]
    }

    /// The same forms with other unknowns, limited to their ranges.
    pub(super) fn with(&self, x: &[f64]) -> Self {
        let mut other = *self;
        other.x[..x.len()].copy_from_slice(x);
        if self.curved {
            other.set_ends(other.delta(), other.x[EACH * self.count + 1]);
        }
        other
    }

    fn set_ends(&mut self, delta: f64, shape: f64) {
        self.x[EACH * self.count] = delta.clamp(DELTA.0, DELTA.1);
        self.x[EACH * self.count + 1] = shape.clamp(SHAPE.0, SHAPE.1);
    }

    pub(super) fn delta(&self) -> f64 {
        if self.curved { self.x[EACH * self.count] } else { 0.0 }
    }

    pub(super) fn shape(&self) -> f64 {
        if self.curved { self.x[EACH * self.count + 1].exp() } else { 0.0 }
    }

    /// Component `k` at a row.
    pub(super) fn at(&self, k: usize, row: &Row) -> At {
        let x = &self.x[EACH * k..EACH * (k + 1)];
        let (inside, between) = row.steps[self.forms[k] as usize];
        let far = if row.between { between * x[2].exp() } else { 0.0 };
        let terms = [x[0].exp(), inside * x[1].exp(), far];
        let latency: f64 = terms.iter().sum();
        let factor = (row.factor + self.delta()).max(LEAST_FACTOR);
        let bytes = row.bytes * factor * (if row.between { x[4] } else { x[3] }).exp();
        let root = self.shape() * (latency * bytes).sqrt();
        At { time: latency + root + bytes, latency, terms, root, bytes, factor }
    }

    /// The component that gives the time at a row.
    pub(super) fn active(&self, row: &Row) -> (usize, At) {
        let mut best = (0, self.at(0, row));
        for k in 1..self.count {
            let other = self.at(k, row);
            if other.time < best.1.time {
                best = (k, other);
            }
        }
        best
    }

    pub(super) fn time(&self, row: &Row) -> f64 {
        self.active(row).1.time
    }

    /// Component `k` as quantities, given which kinds of rows there are.
    pub(super) fn component(&self, k: usize, inside: bool, between: bool) -> Component {
        let x = &self.x[EACH * k..EACH * (k + 1)];
        Component {
            steps: self.forms[k],
            launch: Seconds(x[0].exp()),
            alpha: Seconds(x[1].exp()),
            alpha_between: between.then(|| Seconds(x[2].exp())),
            bandwidth: inside.then(|| Bandwidth((-x[3]).exp())),
            bandwidth_between: between.then(|| Bandwidth((-x[4]).exp())),
        }
    }
}
