//! The constants of the base: least soft-L1 loss of ln T, by Levenberg and Marquardt.
//!
//! ```text
//! Σ w·ρ((ln d − ln t)/0.2)² + Σ (½·(ln p − ln start)/sd)²     ρ(z)² = 2·(√(1 + z²) − 1)
//! ```
//!
//! The weight of a value is (values of its machine)^−0.6, so a machine with many tables does not dominate.
//! A constant without evidence keeps its starting value.

use std::ops::Range;

use super::evidence::{Evidence, Line};
use crate::measure::expect::transfer::base::{Base, Constants, Family};

/// A constant with its starting value and the scale, as a logarithm, on which it may easily move.
pub(super) struct Unknown {
    pub(super) name: &'static str,
    at: fn(&mut Constants) -> &mut f64,
    start: f64,
    spread: f64,
}

macro_rules! unknown {
    ($($($name:ident).+ $start:literal $spread:literal)*) => {
        [$(Unknown {
            name: stringify!($($name).+),
            at: |k| &mut k.$($name).+,
            start: $start,
            spread: $spread,
        }),*]
    };
}

/// How many constants there are.
pub(super) const COUNT: usize = 75;

/// Those before this one are of GPUs, the others of hosts.
const HOSTS: usize = 47;

pub(super) const UNKNOWNS: [Unknown; COUNT] = unknown![
    launch 20.0 1.0
    launch_slope 1.0 0.3
    volta 1.0 0.25
    ampere 1.0 0.25
    blackwell 1.0 0.25
    launch_amd 20.0 1.0
    launch_pcie 20.0 1.0
    growth 0.48 0.5
    growth_pcie 0.6 0.5
    growth_all_to_all 0.5 0.5
    gathers 0.7 0.5
    all_to_all 0.6 0.5
    network 9.0 1.0
    efa 4.5 1.0
    efa_before 1.5 0.7
    tcp 1.5 0.7
    rack 2.0 1.0
    slingshot 1.5 0.7
    slingshot_nodes 0.5 0.7
    slingshot_others 1.5 0.7
    slingshot_ranks 0.1 1.0
    slingshot_overlap 3.0 0.7
    slingshot_reached 0.9 0.3
    by_nodes 0.5 0.7
    by_ranks 0.05 1.0
    reached_all_reduce 0.79 0.3
    reached_nvls 1.09 0.3
    reached_gathers 0.76 0.3
    reached_all_to_all 0.6 0.3
    reached_amd 0.75 0.3
    reached_pair 0.6 0.5
    reached_host 0.35 0.7
    reached_socket 0.4 0.7
    reached_nic 0.8 0.3
    two_nodes 1.0 0.3
    two_nodes_chains 1.0 0.3
    copy 0.5 1.0
    overlap 0.66 0.7
    overlap_nodes 1.35 0.7
    overlap_growth 0.15 0.7
    old 1.5 0.5
    channel 20.0 0.5
    channel_before 0.7 0.5
    reached_sends 0.8 0.3
    spread 3.0 0.7
    many_nodes 0.6 0.5
    many_ranks 0.6 0.5
    hosts.launch 0.3 1.0
    hosts.inside 0.4 1.0
    hosts.crowd 0.1 0.7
    hosts.between 1.2 1.0
    hosts.efa 1.2 1.0
    hosts.tcp 1.2 1.0
    hosts.shared 0.1 0.7
    hosts.shared_tcp 0.2 0.7
    hosts.broadcast 0.6 0.7
    hosts.reduce 0.6 0.7
    hosts.gathers 1.2 0.7
    hosts.all_to_all 1.5 0.7
    hosts.reduce_scatter 1.3 0.7
    hosts.rooted 0.4 0.7
    hosts.barrier 1.1 0.7
    hosts.each 0.1 1.0
    hosts.adds 0.2 1.0
    hosts.adds_beside 0.01 1.0
    hosts.copies 0.1 1.0
    hosts.copies_beside 0.003 1.0
    hosts.gathers_beside 0.01 1.0
    hosts.reached 0.9 0.1
    hosts.wire 0.1 1.0
    hosts.wire_tcp 0.5 1.0
    hosts.again 0.2 1.0
    hosts.again_tcp 2.0 0.7
    hosts.overlap 1.0 0.7
    hosts.overlap_hosts 1.0 0.7
];

/// The logarithms of the constants.
pub(super) type Logs = [f64; COUNT];

/// The starting values of a fit.
pub(super) fn start() -> Logs {
    UNKNOWNS.map(|u| u.start.ln())
}

/// The constants of a family.
pub(super) fn own(family: Family) -> Range<usize> {
    if family == Family::Hosts { HOSTS..COUNT } else { 0..HOSTS }
}

/// Their values.
pub(super) fn constants(logs: &Logs) -> Constants {
    let mut k = Constants::default();
    for (unknown, log) in UNKNOWNS.iter().zip(logs) {
        *(unknown.at)(&mut k) = log.exp();
    }
    k
}

/// One of the constants.
pub(super) fn value(of: &Constants, unknown: &Unknown) -> f64 {
    *(unknown.at)(&mut of.clone())
}

/// Errors above this count linearly.
const SOFT: f64 = 0.2;
/// How strongly constants are pulled to their starting values.
const PULL: f64 = 0.5;
/// How a value's weight falls with the number of values of its machine.
const CROWD: f64 = -0.6;
const ROUNDS: u32 = 60;
/// The step of slopes.
const STEP: f64 = 1e-6;

/// The base of a line.
pub(super) fn base(k: &Constants, line: &Line) -> Base {
    Base::new(k, &line.features, line.asked)
}

/// ln µs of a base.
pub(super) fn ln_us(base: &Base, octave: f64) -> f64 {
    (1e6 * base.time(octave.exp2())).ln()
}

/// The constants of all lines for which `which` holds, begun at `from`.
pub(super) fn fit(evidence: &Evidence, which: impl Fn(&Line) -> bool, from: &Logs) -> Logs {
    let lines = evidence.lines.iter().filter(|l| !l.unlike && which(l));
    let lines: Vec<&Line> = lines.collect();
    let mut crowd = vec![0.0; evidence.machines.len()];
    for line in &lines {
        crowd[line.machine] += line.values.len() as f64;
    }
    let weight = |line: &Line| crowd[line.machine].powf(CROWD);
    let mut x = *from;
    let mut now = loss(&lines, weight, &x);
    let mut damping = 1e-3;
    for _ in 0..ROUNDS {
        let (hessian, gradient) = slopes(&lines, own(evidence.family), weight, &x);
        let mut better = None;
        for _ in 0..12 {
            let mut a = hessian;
            for (i, row) in a.iter_mut().enumerate() {
                row[i] *= 1.0 + damping;
            }
            let step = super::process::solve(&mut a, gradient);
            let tried: Logs = std::array::from_fn(|i| x[i] - step[i].clamp(-1.0, 1.0));
            let then = loss(&lines, weight, &tried);
            if then < now {
                better = Some((tried, then));
                break;
            }
            damping *= 4.0;
        }
        let Some((tried, then)) = better else { break };
        let gained = now - then;
        (x, now) = (tried, then);
        damping = (damping * 0.25_f64).max(1e-9);
        if gained < 1e-9 * now {
            break;
        }
    }
    x
}

fn pulled(x: &Logs, i: usize) -> f64 {
    PULL * (x[i] - UNKNOWNS[i].start.ln()) / UNKNOWNS[i].spread
}

fn loss(lines: &[&Line], weight: impl Fn(&Line) -> f64, x: &Logs) -> f64 {
    let k = constants(x);
    let of = |line: &&Line| {
        let base = base(&k, line);
        let each = |&(octave, y): &(f64, f64)| {
            let z = (ln_us(&base, octave) - y) / SOFT;
            2.0 * ((1.0 + z * z).sqrt() - 1.0)
        };
        weight(line) * line.values.iter().map(each).sum::<f64>()
    };
    let pull: f64 = (0..COUNT).map(|i| pulled(x, i).powi(2)).sum();
    lines.iter().map(of).sum::<f64>() + pull
}

type Square = [[f64; COUNT]; COUNT];

/// The matrix of Gauss and Newton and half the gradient.
fn slopes(
    lines: &[&Line],
    own: Range<usize>,
    weight: impl Fn(&Line) -> f64,
    x: &Logs,
) -> (Square, Logs) {
    let k = constants(x);
    let near: Vec<(usize, Constants)> = own
        .map(|i| {
            let mut other = *x;
            other[i] += STEP;
            (i, constants(&other))
        })
        .collect();
    let (mut h, mut g) = ([[0.0; COUNT]; COUNT], [0.0; COUNT]);
    for line in lines {
        let here = base(&k, line);
        // Most constants do not affect most lines.
        let moved: Vec<(usize, Base)> = near
            .iter()
            .map(|(i, k)| (*i, base(k, line)))
            .filter(|(_, there)| *there != here)
            .collect();
        let line_weight = weight(line) / (SOFT * SOFT);
        for &(octave, y) in &line.values {
            let at = ln_us(&here, octave);
            let e = at - y;
            let weight = line_weight / (1.0 + (e / SOFT).powi(2)).sqrt();
            let slope: Vec<(usize, f64)> =
                moved.iter().map(|(i, there)| (*i, (ln_us(there, octave) - at) / STEP)).collect();
            for &(i, di) in &slope {
                g[i] += weight * e * di;
                for &(j, dj) in &slope {
                    h[i][j] += weight * di * dj;
                }
            }
        }
    }
    for i in 0..COUNT {
        let pull = PULL / UNKNOWNS[i].spread;
        g[i] += pull * pulled(x, i);
        h[i][i] += pull * pull;
    }
    (h, g)
}
