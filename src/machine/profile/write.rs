//! Writes a profile as text that reads back as the same profile.

use std::fmt::Write as _;

use super::calibration::{Calibration, Quality, StatedError};
use super::{
    Generation, LinkKind, Links, Measured, NcclTuner, NetworkKind, Profile, TierKind, curves, gpu,
};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte, without_zeros};
use crate::machine::wires::Torus;

/// A quantity as written in a profile's file, with six digits.
pub(super) trait Written {
    fn written(&self) -> String;
}

impl Written for Seconds {
    fn written(&self) -> String {
        let (scale, unit) = match self.0.abs() {
            s if s >= 1.0 => (1.0, "s"),
            s if s >= 1e-3 => (1e3, "ms"),
            s if s >= 1e-6 || s == 0.0 => (1e6, "us"),
            _ => (1e9, "ns"),
        };
        quoted(&format!("{}{unit}", digits(self.0 * scale)))
    }
}

impl Written for Bandwidth {
    fn written(&self) -> String {
        let (scale, unit) = if self.0 >= 1e9 { (1e9, "GB/s") } else { (1e6, "MB/s") };
        quoted(&format!("{}{unit}", digits(self.0 / scale)))
    }
}

impl Written for SecondsPerByte {
    fn written(&self) -> String {
        quoted(&format!("{}ps/B", digits(self.0 * 1e12)))
    }
}

impl Written for Ratio {
    fn written(&self) -> String {
        let text = digits(self.0);
        // A TOML float.
        if text.contains(['.', 'e']) { text } else { text + ".0" }
    }
}

/// Six significant digits, without trailing zeros.
pub(super) fn digits(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return "0".to_owned();
    }
    let before = x.abs().log10().floor() as i32;
    if !(-6..15).contains(&before) {
        return format!("{x:.5e}");
    }
    let decimals = usize::try_from(5 - before).unwrap_or(0);
    without_zeros(&format!("{x:.decimals$}")).to_owned()
}

/// A TOML string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            // Writing to a string cannot fail.
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

fn list(items: &[String]) -> String {
    list_of(items.iter().map(|i| quoted(i)))
}

/// A list of values that are already written.
pub(super) fn list_of(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

pub(super) fn line(out: &mut String, key: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{key} = {value}");
}

pub(super) fn text(out: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        line(out, key, &quoted(value));
    }
}

fn figure<T: Written>(out: &mut String, table: &str, measured: Option<&Measured<T>>) {
    let Some(m) = measured else { return };
    let _ = writeln!(out, "\n[{table}]");
    line(out, "value", &m.value.written());
    for (key, end) in [("low", &m.low), ("high", &m.high)] {
        if let Some(end) = end {
            line(out, key, &end.written());
        }
    }
    line(out, "how", &quoted(&m.how.to_string()));
    line(out, "source", &quoted(&m.source));
    text(out, "date", m.date.map(|d| d.to_string()).as_deref());
}

impl Profile {
    /// The file of this profile: [`Profile::parse`] reads it back, quantities to six digits.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        line(&mut out, "schema", &self.schema.to_string());
        line(&mut out, "name", &quoted(&self.name));
        line(&mut out, "title", &quoted(&self.title));
        if !self.aliases.is_empty() {
            line(&mut out, "aliases", &list(&self.aliases));
        }
        text(&mut out, "board", self.board.as_deref());
        text(&mut out, "generation", self.generation.map(Generation::id));
        text(&mut out, "link", self.link.map(LinkKind::id));
        text(&mut out, "network", self.network.map(NetworkKind::id));
        if let Some(direct) = self.gpu_direct {
            line(&mut out, "gpu_direct", &direct.to_string());
        }
        if let Some(p2p) = self.p2p {
            line(&mut out, "p2p", &p2p.to_string());
        }
        text(&mut out, "library", self.library.as_deref());
        text(&mut out, "nccl_graphs", self.nccl_graphs.as_deref());
        text(&mut out, "nccl_inside", self.nccl_inside.as_deref());
        text(&mut out, "nccl_tuner", self.nccl_tuner.map(NcclTuner::id));
        text(&mut out, "nccl_topology", self.nccl_topology.as_deref());
        text(&mut out, "fabric", self.fabric_file.as_deref());
        text(&mut out, "picture", self.picture.as_deref());
        if !self.notes.is_empty() {
            line(&mut out, "notes", &list(&self.notes));
        }
        if let Some(fit) = &self.fit {
            calibration(&mut out, fit);
        }
        for tier in &self.tiers {
            links(&mut out, tier);
        }
        for (call, launch) in &self.launch {
            figure(&mut out, &format!("launch.{}", call.id()), Some(launch));
        }
        figure(&mut out, "gamma", self.gamma.as_ref());
        figure(&mut out, "c_real", self.c_real.as_ref());
        for curve in &self.curves {
            curves::write(&mut out, curve);
        }
        if let Some(nccl) = &self.nccl {
            gpu::write(&mut out, nccl);
        }
        gpu::write_devices(&mut out, &self.devices);
        out
    }
}

fn links(out: &mut String, tier: &Links) {
    out.push_str("\n[[tier]]\n");
    line(out, "name", &quoted(&tier.name));
    text(out, "kind", tier.kind.map(TierKind::id));
    for (key, count) in [("span", tier.span), ("nics", tier.nics)] {
        if let Some(count) = count {
            line(out, key, &count.to_string());
        }
    }
    if tier.is_mesh() {
        line(out, "mesh", "true");
    }
    if tier.cube_mesh == Some(true) {
        line(out, "cube_mesh", "true");
    }
    if let Some(Torus { sides, wraps, cubes }) = tier.torus {
        let sides = quoted(&sides.to_string());
        let cubes = if cubes { ", cubes = true" } else { "" };
        line(out, "torus", &format!("{{ sides = {sides}, wraps = {wraps}{cubes} }}"));
    }
    if let Some(ports) = tier.ports {
        use crate::model::formula::Ports;
        let ports = match ports {
            Ports::Full(k) => k.to_string(),
            Ports::Half(k) => format!("{k}hd"),
            Ports::Unbounded => "unbounded".to_owned(),
        };
        line(out, "ports", &quoted(&ports));
    }
    if tier.discipline != super::Discipline::Serial {
        line(out, "discipline", &quoted(&tier.discipline.to_string()));
    }
    let knots: Vec<String> = tier
        .knots
        .iter()
        .map(|k| {
            let rate =
                k.bandwidth.map_or(String::new(), |b| format!(", bandwidth = {}", b.written()));
            format!("{{ below = {}{rate} }}", bytes(k.below))
        })
        .collect();
    if !knots.is_empty() {
        line(out, "knots", &format!("[{}]", knots.join(", ")));
    }
    if let Some(above) = tier.duplex_above {
        line(out, "duplex_above", &bytes(above));
    }
    figure(out, "tier.alpha", tier.alpha.as_ref());
    figure(out, "tier.bandwidth", tier.bandwidth.as_ref());
    figure(out, "tier.efficiency", tier.efficiency.as_ref());
    figure(out, "tier.duplex_factor", tier.duplex_factor.as_ref());
    for (k, share) in &tier.sharing {
        figure(out, &format!("tier.sharing.{k}"), Some(share));
    }
    if let Some(switch) = &tier.switch {
        out.push_str("\n[tier.switch]\n");
        line(out, "multicast", &switch.multicast.to_string());
        line(out, "alu", &switch.alu.to_string());
        figure(out, "tier.switch.alpha", switch.alpha.as_ref());
        figure(out, "tier.switch.efficiency", switch.efficiency.as_ref());
    }
}

/// A size to the byte.
pub(super) fn bytes(size: Bytes) -> String {
    quoted(&size.0.to_string())
}

fn calibration(out: &mut String, fit: &Calibration) {
    out.push_str("\n[fit]\n");
    line(out, "command", &quoted(&fit.command));
    line(out, "tool", &quoted(&fit.tool));
    text(out, "machine", fit.machine.as_deref());
    text(out, "fingerprint", fit.fingerprint.as_deref());
    text(out, "transport", fit.transport.as_deref());
    text(out, "wait", fit.wait.as_deref());
    line(out, "statistic", &quoted(&fit.statistic));
    line(out, "samples", &list(&fit.samples));
    let ranks: Vec<String> = fit.ranks.iter().map(ToString::to_string).collect();
    line(out, "ranks", &list_of(ranks.into_iter()));
    line(out, "from", &bytes(fit.from));
    line(out, "to", &bytes(fit.to));
    line(out, "points", &fit.points.to_string());
    line(out, "runs", &fit.runs.to_string());
    line(out, "quality", &quoted(fit.quality.id()));
    if fit.quality != Quality::Good {
        line(out, "marks", &list(&fit.marks));
    }
    out.push_str("\n[fit.errors]\n");
    let errors = &fit.errors;
    for (key, error) in [
        ("algorithms", errors.algorithms),
        ("algorithms_bulk", errors.algorithms_bulk),
        ("sizes", errors.sizes),
        ("line", errors.line),
        ("line_bulk", errors.line_bulk),
    ] {
        if let Some(StatedError { median, p90 }) = error {
            let both = format!("{{ median = {}, p90 = {} }}", median.written(), p90.written());
            line(out, key, &both);
        }
    }
    for (key, band) in [
        ("all", errors.bands.all),
        ("latency", errors.bands.latency),
        ("middle", errors.bands.middle),
        ("bulk", errors.bands.bulk),
    ] {
        if let Some(band) = band {
            let (low, high) = (band.low(), band.high());
            let both = format!("{{ low = {}, high = {} }}", low.written(), high.written());
            line(out, &format!("bands.{key}"), &both);
        }
    }
    if let Some(bucket) = fit.bucket {
        out.push_str("\n[fit.bucket]\n");
        line(out, "rate", &bucket.rate.written());
        line(out, "burst", &bytes(bucket.burst));
    }
    if let Some(other) = &fit.other {
        out.push_str("\n[fit.other]\n");
        line(out, "statistic", &quoted(&other.statistic));
        line(out, "alpha", &other.alpha.written());
        line(out, "bandwidth", &other.bandwidth.written());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_machine_is_written_as_it_is_read() {
        for name in Profile::names() {
            let profile = Profile::builtin(name).unwrap();
            let text = profile.to_toml();
            let again =
                Profile::parse(&text, name).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            assert_eq!(again.figures().count(), profile.figures().count(), "{name}");
            for (a, b) in again.figures().zip(profile.figures()) {
                assert_eq!((a.tier, &a.key, a.how, a.source), (b.tier, &b.key, b.how, b.source));
                let off = a.value.number() / b.value.number() - 1.0;
                assert!(off.abs() < 1e-5, "{name} {}: {} {}", a.key, a.value, b.value);
            }
            let kinds =
                |p: &Profile| (0..p.tiers.len()).map(|i| p.tier_kind(i)).collect::<Vec<_>>();
            assert_eq!(kinds(&again), kinds(&profile), "{name}");
            assert_eq!(again.curves.len(), profile.curves.len(), "{name}");
            let facts = |p: &Profile| (p.board.clone(), p.generation, p.link, p.network);
            assert_eq!(facts(&again), facts(&profile), "{name}");
            let graphs = |p: &Profile| (p.nccl_graphs.clone(), p.nccl_inside.clone());
            assert_eq!(graphs(&again), graphs(&profile), "{name}");
            assert_eq!((again.notes, again.picture), (profile.notes, profile.picture));
        }
    }

    #[test]
    fn six_digits_and_no_more() {
        let cases = [(0.000_024_24, "24.24us"), (1.5, "1.5s"), (123_456_789e-12, "123.457us")];
        for (seconds, text) in cases {
            assert_eq!(Seconds(seconds).written(), format!("\"{text}\""));
        }
        assert_eq!(Bandwidth(23_906_213.4).written(), "\"23.9062MB/s\"");
        assert_eq!(Ratio(2.0).written(), "2.0");
        assert_eq!(quoted("a \"b\"\\"), r#""a \"b\"\\""#);
    }
}
