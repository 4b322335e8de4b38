//! Operations of GPUs alone: a line over the sizes for each.

use super::ladder::{Ladder, ladder};
use super::profile::{About, Stated};
use super::{Estimate, Statistic, point};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Ratio, Seconds};
use crate::base::stats::median;
use crate::machine::profile::{self, Interval, Links, Profile, TierKind};
use crate::machine::sample::{Device, Op, Origin, Samples};

/// An operation of GPUs with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFit {
    /// The operation.
    pub op: Op,
    /// Its start and its slopes.
    pub ladder: Ladder,
}

impl DeviceFit {
    /// The rate of many bytes; `None` if the time does not grow with them.
    #[must_use]
    pub fn bandwidth(&self) -> Option<Estimate<Bandwidth>> {
        let slope = self.ladder.last()?;
        (slope.value.0 > 0.0).then(|| slope.bandwidth())
    }
}

/// The operations of GPUs alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Devices {
    /// Each operation, in order.
    pub figures: Vec<DeviceFit>,
    /// Operations with too few sizes for a line.
    pub left_out: Vec<String>,
}

/// Whether the samples are of GPUs alone.
#[must_use]
pub fn has_devices(samples: &Samples) -> bool {
    samples.blocks.iter().any(|b| matches!(b.op, Op::Device(_)))
}

/// A line for every operation in `samples`; intervals come from `draws` draws by `seed`.
///
/// # Errors
/// No operation was timed at four sizes.
pub fn devices(samples: &Samples, draws: u32, seed: u64) -> Result<Devices> {
    let points = point::points(&samples.blocks, &Origin { wait: None, ..samples.origin.clone() });
    let mut ops: Vec<&Op> = points.iter().map(|p| &p.op).filter(|op| !op.moves_data()).collect();
    ops.sort_unstable();
    ops.dedup();
    let mut found = Devices { figures: Vec::new(), left_out: Vec::new() };
    for op in ops {
        match ladder(&points, op, f64::INFINITY, (Statistic::Typical, draws, seed)) {
            Some(ladder) => found.figures.push(DeviceFit { op: op.clone(), ladder }),
            None => found.left_out.push(op.to_string()),
        }
    }
    match found.figures.is_empty() {
        true => Err(Error::input("no operation of GPUs was timed at four sizes")
            .at(samples.origin.files.join(", "))
            .help("measure more --sizes")),
        false => Ok(found),
    }
}

impl Devices {
    fn of(&self, wanted: impl Fn(&Op) -> bool) -> impl Iterator<Item = &DeviceFit> {
        self.figures.iter().filter(move |figure| wanted(&figure.op))
    }

    /// The machine: pairs of GPUs as its links, each pair with its own parameters as well.
    #[must_use]
    pub fn profile(&self, samples: &Samples, about: &About) -> Profile {
        let files = samples.origin.files.join(", ");
        let source = format!("{}: collcost fit of {files}", about.command);
        let date = samples.origin.date.as_ref().and_then(|d| d.parse().ok()).or(about.date);
        let stated = Stated { source: &source, date };
        let copies = || self.of(|op| matches!(op, Op::Device(Device::Copy { .. })));
        let both = || self.of(|op| matches!(op, Op::Device(Device::Exchange { .. })));
        let rate = |fit: &DeviceFit| fit.bandwidth().map(|b| b.value.0);
        let alpha = median(copies().map(|fit| fit.ladder.start.value.0).collect());
        let one_way = median(copies().filter_map(rate).collect());
        let each_way = median(both().filter_map(rate).collect());
        let duplex = each_way.zip(one_way).map(|(both, one)| Ratio((both / one).min(1.0)));
        let tier = Links {
            kind: Some(TierKind::Node),
            alpha: alpha.filter(|a| *a > 0.0).map(|a| stated.alone(Seconds(a))),
            bandwidth: one_way.map(|b| stated.alone(Bandwidth(b))),
            duplex_factor: duplex.map(|d| stated.alone(d)),
            ..Links::bare("peer")
        };
        let gamma = self.of(|op| *op == Op::Reduce).next().and_then(|fit| fit.ladder.last());
        let mut notes = vec![
            "the host starts each copy and waits for it: alpha is the time of that, and \
             no library's"
                .to_owned(),
        ];
        if copies().next().is_none() {
            notes.push("single-gpu: there was one GPU, and no link was measured".to_owned());
        }
        let title = "fitted: GPUs by themselves, copies between pairs".to_owned();
        Profile {
            notes,
            tiers: vec![tier],
            gamma: gamma.map(|g| stated.alone(g.value)),
            devices: self.figures.iter().map(stored).collect(),
            ..Profile::bare(about.name.clone(), title)
        }
    }
}

fn stored(fit: &DeviceFit) -> profile::Device {
    let interval = |Estimate { value, low, high }| Interval { value, low, high };
    profile::Device {
        operation: fit.op.to_string().trim_start_matches("device/").to_owned(),
        start: interval(fit.ladder.start),
        bandwidth: fit.bandwidth().map(|Estimate { value, low, high }| Interval {
            value,
            low,
            high,
        }),
    }
}
