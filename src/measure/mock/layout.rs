//! The text that nccl-tests 2.19 prints, column by column, after lines that say it is a prediction.
//!
//! Source of the layout: NVIDIA/nccl-tests 2.19.6 `src/util.cu`. Library versions are 0, since none ran.

use std::fmt::Write as _;

use super::{Device, Mock, PREDICTED, Place, Row, Step, ranges};
use crate::base::quantity::{Bytes, Ratio, without_zeros};
use crate::machine::placement::laid;

/// The version whose layout is used.
pub(super) const LAYOUT: &str = "2.19.6";

/// The first process id; each rank has the next.
pub(super) const PID: u32 = 100_000;

impl Mock {
    /// What nccl-tests would print; `written` is the JSON file that it wrote.
    #[must_use]
    pub fn text(&self, written: Option<&str>) -> String {
        let mut out = String::new();
        for line in self.heading() {
            let _ = writeln!(out, "# {line}");
        }
        if let Some(file) = written {
            let _ = writeln!(out, "# Writing JSON output to {file}");
        }
        self.run(&mut out);
        out.push_str("# Using devices\n");
        for device in &self.devices {
            let Device { rank, device: number, .. } = device;
            let (pid, host, bus) = (PID + rank, device.host(), device.bus());
            let _ = writeln!(
                out,
                "#  Rank {rank:2} Group  0 Pid {pid:6} on {host:>10} device {number:2} [{bus}] {}",
                self.model()
            );
        }
        columns(&mut out);
        for row in &self.rows {
            self.row(&mut out, row);
        }
        let _ = writeln!(out, "# {:<20} : 0 OK", "Out of bounds values");
        let average = general(self.average.0 / 1e9);
        // nccl-tests adds after the average whether it is high enough; no limit is set here.
        let _ = writeln!(out, "# {:<20} : {average} ", "Avg bus bandwidth");
        let _ = writeln!(out, "#\n# Collective test concluded: {}\n#\n", self.ask.program.name);
        out
    }

    /// States that it is a prediction, of what, and how it was made.
    #[must_use]
    pub fn heading(&self) -> Vec<String> {
        let Self { machine, ranks, nodes, per_node, .. } = self;
        let laid = match nodes {
            1 => " = one node".to_owned(),
            _ => laid(*ranks, *nodes, *per_node),
        };
        let version = env!("CARGO_PKG_VERSION");
        let mut lines = vec![format!(
            "{PREDICTED} {version}, not measured: no GPU ran, no network carried anything"
        )];
        let noise = match self.ask.noise {
            Ratio(0.0) => "no noise".to_owned(),
            Ratio(noise) => format!("noise {} %", general(noise * 100.0)),
        };
        let seed = self.ask.seed;
        lines.push(format!("machine {machine}, {ranks} ranks{laid}; {noise}; seed {seed}"));
        if self.faults.is_empty() {
            lines.push("no fault".to_owned());
        }
        lines.extend(self.faults.iter().map(|fault| format!("fault {fault}")));
        lines.push(format!("takes {}", ranges(&self.takes)));
        lines.extend(self.notes.iter().map(|note| format!("note {note}")));
        lines
    }

    /// The name of the devices.
    pub(super) fn model(&self) -> String {
        format!("predicted {}", self.machine)
    }

    fn run(&self, out: &mut String) {
        let (ask, sizes) = (&self.ask, &self.ask.sizes);
        let _ = writeln!(out, "# nccl-tests version {LAYOUT} nccl-headers=0 nccl-library=0");
        let _ = writeln!(out, "# Collective test starting: {}", ask.program.name);
        let (step, kind) = match sizes.step {
            Step::Factor(factor) => (factor, "factor"),
            Step::Plus(Bytes(more)) => (more, "bytes"),
        };
        let _ = writeln!(
            out,
            "# nThread 1 nGpus {} minBytes {} maxBytes {} step: {step}({kind}) warmup iters: {} \
             iters: {} agg iters: 1 validation: {} graph: 0 unalign: 0\n#",
            ask.gpus_per_thread, sizes.first.0, sizes.last.0, ask.warmup, ask.iterations, ask.check
        );
    }

    fn row(&self, out: &mut String, row: &Row) {
        let ask = &self.ask;
        let _ = write!(
            out,
            "{:12}  {:12}  {:>8}  {:>6}  {:6}",
            row.size.0, row.count, ask.dtype, ask.redop, ask.root
        );
        for place in [&row.out_of_place, &row.in_place] {
            figures(out, place);
        }
        out.push('\n');
    }
}

impl Device {
    /// The name of its node.
    pub(super) fn host(&self) -> String {
        format!("node{}", self.node)
    }

    /// Its address, the same for ranks that share it.
    pub(super) fn bus(&self) -> String {
        let (domain, bus) = (self.device / 0xf0, 0x10 + self.device % 0xf0);
        format!("{domain:04x}:{bus:02x}:00")
    }
}

/// The heading of the table.
fn columns(out: &mut String) {
    let none = "";
    let _ = write!(out, "#\n# {none:>10}  {none:>12}  {none:>8}  {none:>6}  {none:>6}");
    out.push_str("           out-of-place                       in-place          \n");
    let places = [("time", "algbw", "busbw", "#wrong"), ("(us)", "(GB/s)", "(GB/s)", "")];
    let before = [["size", "count", "type", "redop", "root"], ["(B)", "(elements)", "", "", ""]];
    for ([size, count, dtype, redop, root], (time, algbw, busbw, wrong)) in
        before.into_iter().zip(places)
    {
        let _ = write!(out, "# {size:>10}  {count:>12}  {dtype:>8}  {redop:>6}  {root:>6}");
        for _ in 0..2 {
            let _ = write!(out, "  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}");
        }
        // A column with times of day would follow.
        out.push_str(" \n");
    }
}

fn figures(out: &mut String, place: &Place) {
    let time = fitting(place.time.0 * 1e6, 7);
    let (algbw, busbw) = (fitting(place.algbw.0 / 1e9, 6), fitting(place.busbw.0 / 1e9, 6));
    let _ = match place.wrong {
        Some(wrong) => write!(out, "  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}"),
        None => write!(out, "  {time:>7}  {algbw:>6}  {busbw:>6}    N/A"),
    };
}

/// Up to two decimals, as space allows, then powers of ten.
fn fitting(value: f64, width: usize) -> String {
    for decimals in [2, 1, 0] {
        let text = format!("{value:width$.decimals$}");
        if text.len() <= width {
            return text;
        }
    }
    let decimals = usize::from(width >= 7);
    power(&format!("{value:.decimals$e}"))
}

/// As C's `%g`: six digits, without zeros at the end.
fn general(value: f64) -> String {
    let text = format!("{value:.5e}");
    let exponent: i32 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    if value == 0.0 {
        return "0".to_owned();
    }
    let trim = |text: &str| without_zeros(text).to_owned();
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim(&format!("{value:.decimals$}"));
    }
    let (mantissa, _) = text.split_once('e').unwrap_or((&text, ""));
    power(&format!("{}e{exponent}", trim(mantissa)))
}

/// `1.2e7` as C writes it, `1.2e+07`.
fn power(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lose_decimals_before_they_leave_their_column() {
        for (value, width, text) in [
            (0.0, 6, "  0.00"),
            (17.243, 7, "  17.24"),
            (9999.99, 7, "9999.99"),
            (9999.999, 7, "10000.0"),
            (123_456.78, 7, " 123457"),
            (12_345_678.9, 7, "1.2e+07"),
            (1234.56, 6, "1234.6"),
            (3_000_000.0, 6, "3e+06"),
        ] {
            assert_eq!(fitting(value, width), text, "{value}");
        }
    }

    #[test]
    fn averages_are_written_as_c_does() {
        for (value, text) in [
            (0.0, "0"),
            (107.314_22, "107.314"),
            (0.000_123_456_7, "0.000123457"),
            (0.000_012_345, "1.2345e-05"),
            (250.0, "250"),
            (1_234_567.0, "1.23457e+06"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
