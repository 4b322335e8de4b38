//! Measured times of engines' all-reduces: `evidence/engines.csv`, or the raw tables it is made from.

use std::sync::LazyLock;

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::library::engines::Kernel;
use crate::measure::expect::{knots, smooth};

/// Measured times as smooth curves, one for each table, machine, kernel and number of ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelTimes {
    pub(super) curves: Vec<Curve>,
}

/// One kernel on one number of ranks in one table: straight lines between knots.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub machine: String,
    /// The engine and its release.
    pub table: String,
    pub graph: bool,
    pub backend: String,
    pub kernel: String,
    pub ranks: u32,
    /// Octaves of bytes, and the logarithm of µs.
    pub knots: Vec<(f64, f64)>,
}

impl Curve {
    /// ln µs where it was measured.
    pub fn at(&self, octave: f64) -> Option<f64> {
        knots::at(&self.knots, octave)
    }

    /// Whether both are of the same kernel on the same machine.
    pub fn is_as(&self, other: &Self) -> bool {
        (&self.machine, &self.backend, &self.kernel, self.graph)
            == (&other.machine, &other.backend, &other.kernel, other.graph)
    }

    /// Whether it is of that kernel on that machine.
    pub fn is(&self, machine: &str, kernel: Kernel) -> bool {
        self.machine == machine
            && self.graph == kernel.graph
            && self.backend == kernel.backend
            && self.kernel == kernel.kernel
    }

    /// Whether something other than the kernel slowed a call: no kernel takes far longer than for the
    /// next larger size. Slow hosts last for several calls; so the next smaller size must be faster too.
    pub fn disturbed(&self, &(octave, ln): &(f64, f64)) -> bool {
        let calm = |other: &(f64, f64)| ln > other.1 + DISTURBED;
        let next = self.knots.iter().find(|k| k.0 > octave);
        next.is_some_and(calm) && self.knots.iter().rfind(|k| k.0 < octave).is_none_or(calm)
    }
}

/// As a logarithm, twice the difference that one in ten repeats of a call exceeds in the raw tables:
/// 18 %.
const DISTURBED: f64 = 0.33;

/// One call in a raw table.
#[derive(Debug, Clone, PartialEq)]
pub struct RawTimes {
    /// `h100_sxm`.
    pub machine: String,
    /// `vllm 0.24.0`.
    pub table: String,
    /// What ran, by the engine's rules.
    pub kernel: Kernel,
    /// Ranks.
    pub ranks: u32,
    /// Sizes with their times.
    pub points: Vec<(Bytes, Seconds)>,
}

const ORIGIN: &str = "evidence/engines.csv";

static BUILT_IN: LazyLock<Result<KernelTimes>> =
    LazyLock::new(|| KernelTimes::parse(include_str!("../../../../evidence/engines.csv"), ORIGIN));

impl KernelTimes {
    /// The built-in curves.
    ///
    /// # Errors
    /// The built-in file is wrong.
    pub fn built_in() -> Result<&'static Self> {
        BUILT_IN.as_ref().map_err(Clone::clone)
    }

    /// The curves in a file's `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// A line is not a curve.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let lines = text.lines().enumerate().filter(|(_, l)| !l.starts_with('#')).skip(1);
        let curves = lines.map(|(i, line)| {
            curve(line).ok_or_else(|| {
                Error::input("the line is not a curve of a kernel")
                    .at(format!("{origin}:{}", i + 1))
                    .help("write machine,table,mode,backend,kernel,ranks,scatter,octave:us …")
            })
        });
        Ok(Self { curves: curves.collect::<Result<_>>()? })
    }

    /// Raw times unchanged, with a knot per size.
    #[must_use]
    pub fn raw(tables: &[RawTimes]) -> Self {
        Self { curves: tables.iter().map(|t| t.curve(&t.points)).collect() }
    }

    /// Raw times smoothed, without disturbed calls, as lines of the evidence file.
    #[must_use]
    pub fn smoothed(tables: &[RawTimes]) -> String {
        tables.iter().filter_map(RawTimes::line).collect()
    }
}

fn curve(line: &str) -> Option<Curve> {
    let words: Vec<&str> = line.split(',').collect();
    let &[machine, table, mode, backend, kernel, ranks, scatter, points] = &words[..] else {
        return None;
    };
    let point = |text: &str| {
        let (octave, us) = text.split_once(':')?;
        let us: f64 = us.parse().ok().filter(|us: &f64| us.is_finite() && *us > 0.0)?;
        Some((octave.parse::<f64>().ok()?, us.ln()))
    };
    let knots = points.split_whitespace().map(point).collect::<Option<Vec<_>>>()?;
    let rises = !knots.is_empty() && knots.is_sorted_by(|a, b| a.0 < b.0);
    let known = matches!(mode, "graph" | "eager") && scatter.parse::<f64>().is_ok_and(|s| s >= 0.0);
    // Between the knots are straight lines; the model is fitted to the sizes on them.
    let sizes = knots::octaves(&knots).map(f64::from);
    let sizes: Vec<_> = sizes.filter_map(|k| Some((k, knots::at(&knots, k)?))).collect();
    (rises && known).then_some(Curve {
        machine: machine.to_owned(),
        table: table.to_owned(),
        graph: mode == "graph",
        backend: backend.to_owned(),
        kernel: kernel.to_owned(),
        ranks: ranks.parse().ok()?,
        knots: if sizes.is_empty() { knots } else { sizes },
    })
}

impl RawTimes {
    fn curve(&self, points: &[(Bytes, Seconds)]) -> Curve {
        let knot = |p: &(Bytes, Seconds)| ((p.0.0 as f64).log2(), (p.1.0 * 1e6).ln());
        Curve {
            machine: self.machine.clone(),
            table: self.table.clone(),
            graph: self.kernel.graph,
            backend: self.kernel.backend.to_owned(),
            kernel: self.kernel.kernel.to_owned(),
            ranks: self.ranks,
            knots: points.iter().map(knot).collect(),
        }
    }

    fn line(&self) -> Option<String> {
        let raw = self.curve(&self.points);
        let calls = self.points.iter().zip(&raw.knots);
        let calm: Vec<_> = calls.filter(|c| !raw.disturbed(c.1)).map(|c| *c.0).collect();
        let smooth = smooth(&calm)?;
        let knots = smooth.knots.iter().map(|(size, time)| {
            let octave = ((size.0 as f64).log2() * 1e3).round() / 1e3;
            format!("{octave}:{}", four(time.0 * 1e6))
        });
        Some(format!(
            "{},{},{},{},{},{},{:.3},{}\n",
            self.machine,
            self.table,
            if self.kernel.graph { "graph" } else { "eager" },
            self.kernel.backend,
            self.kernel.kernel,
            self.ranks,
            smooth.scatter.0,
            knots.collect::<Vec<_>>().join(" ")
        ))
    }
}

/// Four digits.
fn four(us: f64) -> String {
    let digits = (3.0 - us.log10().floor()).max(0.0);
    format!("{us:.0$}", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(us: &[f64]) -> String {
        let points = (8..).zip(us).map(|(k, us)| (Bytes(1 << k), Seconds(us * 1e-6))).collect();
        let kernel = Kernel { backend: "custom", kernel: "one-shot-pull", graph: true };
        let (machine, table) = ("h100_sxm".to_owned(), "vllm 0.24.0".to_owned());
        KernelTimes::smoothed(&[RawTimes { machine, table, kernel, ranks: 8, points }])
    }

    #[test]
    fn a_disturbed_call_is_no_knot() {
        assert!(line(&[3.3, 38.0, 3.3, 3.3]).ends_with(",8:3.300 11:3.300\n"));
        assert!(line(&[4.8, 3.3, 3.3, 3.3]).ends_with(",9:3.300 11:3.300\n"));
        // Scatter, a slow host, and the largest call are none.
        for whole in [[3.3, 4.4, 3.3, 3.3], [3.3, 6.6, 6.6, 3.3], [3.3, 3.3, 3.3, 38.0]] {
            let most = whole.iter().copied().fold(0.0, f64::max);
            assert!(line(&whole).contains(&format!(":{}", four(most))), "{}", line(&whole));
        }
    }

    #[test]
    fn no_built_in_curve_holds_a_disturbed_call() {
        for curve in &KernelTimes::built_in().unwrap().curves {
            let stands_out = curve.knots.iter().find(|k| curve.disturbed(k));
            assert_eq!(stands_out, None, "{curve:?}");
        }
    }
}
