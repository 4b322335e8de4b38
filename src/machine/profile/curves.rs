//! Fitted curves in a profile's file.
//!
//! ```toml
//! [[measured]]
//! collective = "allreduce"
//! dtype = "f16"
//! source = "NCCL 2.27.3, …"
//! rows = 63
//! placed = [[2, 1], [4, 1], [8, 1]]      # ranks, nodes
//! from = "512 B"
//! to = "512 MiB"
//! delta = 0.383
//! shape = 0.21
//!
//! [[measured.component]]
//! steps = "ring"
//! launch = "8.09us"
//! alpha = "0.92us"
//! bandwidth = "294GB/s"
//!
//! [[measured.band]]                       # measured over expected, p10 and p90
//! held = "size"
//! sizes = [512, 2048]
//! low = [0.97, 0.98]
//! high = [1.03, 1.02]
//! ```

use serde::de::{self, Deserialize, Deserializer};

use super::write::{Written, bytes, digits, line, list_of, quoted, text};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio};
use crate::machine::curve::{Bands, Component, Curve, Held, Placed, Residuals};
use crate::machine::sample::DataType;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    collective: String,
    dtype: Option<String>,
    source: String,
    rows: u32,
    placed: Vec<(u32, u32)>,
    from: Bytes,
    to: Bytes,
    #[serde(default)]
    delta: f64,
    #[serde(default)]
    shape: f64,
    component: Vec<Component>,
    #[serde(default)]
    residuals: Vec<StoredResiduals>,
    /// Whether times of ranks between measured ones are interpolated linearly.
    #[serde(default)]
    straight: bool,
    #[serde(default)]
    band: Vec<StoredBand>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredResiduals {
    ranks: u32,
    nodes: u32,
    sizes: Vec<u64>,
    values: Vec<Ratio>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBand {
    held: Held,
    sizes: Vec<u64>,
    low: Vec<Ratio>,
    high: Vec<Ratio>,
}

/// Reads `[[measured]]`.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Curve>, D::Error> {
    let stored = Vec::<Stored>::deserialize(from)?;
    stored.into_iter().map(|s| s.curve().map_err(de::Error::custom)).collect()
}

impl Stored {
    fn curve(self) -> Result<Curve, String> {
        let collective: Collective = self.collective.parse().map_err(|e| format!("{e}"))?;
        let name = collective.id();
        let dtype = match &self.dtype {
            None => None,
            Some(d) => Some(DataType::named(d).ok_or(format!("`{d}` is not a data type"))?),
        };
        if self.component.is_empty() || self.placed.is_empty() {
            return Err(format!("the measured {name} has no component or no ranks"));
        }
        if let Some((ranks, nodes)) = self.placed.iter().find(|(n, d)| *d == 0 || d > n) {
            return Err(format!("the measured {name} has {ranks} ranks on {nodes} nodes"));
        }
        let within = |c: &Component| {
            let times = [Some(c.launch), Some(c.alpha), c.alpha_between];
            let rates = [c.bandwidth, c.bandwidth_between];
            times.iter().flatten().all(|t| t.0 >= 0.0 && t.0.is_finite())
                && rates.iter().flatten().all(|b| b.0 > 0.0)
                && rates.iter().any(Option::is_some)
        };
        if !self.component.iter().all(within)
            || !(0.0..1e3).contains(&self.shape)
            || !(-1.0..1e3).contains(&self.delta)
            || self.from > self.to
        {
            return Err(format!(
                "the measured {name} has a negative time or shape, no bandwidth, or no sizes"
            ));
        }
        Ok(Curve {
            collective,
            dtype,
            components: self.component,
            delta: Ratio(self.delta),
            shape: Ratio(self.shape),
            placed: self.placed.iter().map(|&(ranks, nodes)| Placed { ranks, nodes }).collect(),
            from: self.from,
            to: self.to,
            residuals: residuals(&self.residuals, name)?.map(|r| r.straight(self.straight)),
            bands: bands(&self.band, name)?,
            rows: self.rows,
            source: self.source,
        })
    }
}

fn residuals(stored: &[StoredResiduals], name: &str) -> Result<Option<Residuals>, String> {
    let mut all = Vec::new();
    for StoredResiduals { ranks, nodes, sizes, values } in stored {
        let above_zero = values.iter().all(|v| v.0 > 0.0 && v.0.is_finite());
        if sizes.len() != values.len() || !above_zero || *nodes == 0 {
            return Err(format!(
                "a residual of the measured {name} is not above 0, or has no size"
            ));
        }
        let placed = Placed { ranks: *ranks, nodes: *nodes };
        all.extend(sizes.iter().zip(values).map(|(&size, &value)| (placed, Bytes(size), value)));
    }
    Ok((!all.is_empty()).then(|| Residuals::of(all)))
}

fn bands(stored: &[StoredBand], name: &str) -> Result<Bands, String> {
    let mut all = Vec::new();
    for StoredBand { held, sizes, low, high } in stored {
        let ordered = low.iter().zip(high).all(|(l, h)| l.0 > 0.0 && l.0 <= 1.0 && h.0 >= 1.0);
        if sizes.len() != low.len() || sizes.len() != high.len() || !sizes.is_sorted() || !ordered {
            return Err(format!(
                "a band of the measured {name} needs sizes in order, low <= 1 <= high"
            ));
        }
        let points = sizes.iter().zip(low.iter().zip(high));
        all.push((*held, points.map(|(&s, (&l, &h))| (Bytes(s), l, h)).collect()));
    }
    Ok(Bands::of(all))
}

/// Writes what [`read`] reads.
pub(super) fn write(out: &mut String, curve: &Curve) {
    out.push_str("\n[[measured]]\n");
    line(out, "collective", &quoted(curve.collective.id()));
    text(out, "dtype", curve.dtype.map(DataType::id));
    line(out, "source", &quoted(&curve.source));
    line(out, "rows", &curve.rows.to_string());
    let placed = curve.placed.iter().map(|p| format!("[{}, {}]", p.ranks, p.nodes));
    line(out, "placed", &list_of(placed));
    line(out, "from", &bytes(curve.from));
    line(out, "to", &bytes(curve.to));
    line(out, "delta", &curve.delta.written());
    line(out, "shape", &curve.shape.written());
    if curve.residuals.as_ref().is_some_and(Residuals::is_straight) {
        line(out, "straight", "true");
    }
    for c in &curve.components {
        out.push_str("\n[[measured.component]]\n");
        line(out, "steps", &quoted(c.steps.id()));
        line(out, "launch", &c.launch.written());
        line(out, "alpha", &c.alpha.written());
        given(out, "alpha_between", c.alpha_between.as_ref());
        given(out, "bandwidth", c.bandwidth.as_ref());
        given(out, "bandwidth_between", c.bandwidth_between.as_ref());
    }
    let rows: Vec<(Placed, Bytes, Ratio)> =
        curve.residuals.iter().flat_map(Residuals::iter).collect();
    for of in rows.chunk_by(|a, b| a.0 == b.0) {
        out.push_str("\n[[measured.residuals]]\n");
        line(out, "ranks", &of[0].0.ranks.to_string());
        line(out, "nodes", &of[0].0.nodes.to_string());
        line(out, "sizes", &list_of(of.iter().map(|r| r.1.0.to_string())));
        line(out, "values", &list_of(of.iter().map(|r| four(r.2))));
    }
    for (held, points) in curve.bands.iter() {
        out.push_str("\n[[measured.band]]\n");
        line(out, "held", &quoted(held.id()));
        line(out, "sizes", &list_of(points.iter().map(|p| p.0.0.to_string())));
        line(out, "low", &list_of(points.iter().map(|p| four(p.1))));
        line(out, "high", &list_of(points.iter().map(|p| four(p.2))));
    }
}

fn given<T: Written>(out: &mut String, key: &str, value: Option<&T>) {
    if let Some(value) = value {
        line(out, key, &value.written());
    }
}

/// Four digits after the decimal point, and always a decimal point.
fn four(ratio: Ratio) -> String {
    let text = digits((ratio.0 * 1e4).round() / 1e4);
    if text.contains('.') { text } else { text + ".0" }
}
