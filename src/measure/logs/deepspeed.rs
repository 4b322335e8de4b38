//! DeepSpeed's comms logger, its summary and its lines, and `ds_bench`.
//!
//! ```text
//! Comm. Op            Message Size  Count  Total Latency(ms)  Avg Latency(ms)  tput_avg (Gbps)  busbw_avg (Gbps)
//! all_reduce
//!                     64.0 MB       30     14.76              0.49             2182.40          1909.60
//! comm op: all_reduce | time (ms): 0.49 | msg size: 64.0 MB | algbw (Gbps): 2182.40 | busbw (Gbps): 1909.60
//! ```
//!
//! Sizes are in units of 1024 with two decimals, rates in 10^9 bits per second. The time has two decimals of a
//! millisecond, so that of a short call is computed from busbw and checked against the printed one. In the summary
//! both are means over calls, and the mean of rates is above the rate of the mean time where calls differ. An
//! all-gather's size is a rank's block. Lines of a call stand behind log_dist's `[Rank 0] ` since July 2023 (pull
//! request 3996), and in debug mode an operation's name is followed by ` | [Caller Func: …]`. Before 2026 a
//! reduce-scatter's rates were computed with N times its size; the time shows which. N is not printed. Times are
//! of the host's clock around calls.
//!
//! Source: deepspeedai/DeepSpeed deepspeed/utils/comms_logging.py of 2023 and of 2026,
//! benchmarks/communication.

use super::draft::{Draft, Raw};
use super::{HOST_CLOCK, Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::base::quantity::Seconds;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    /// Whether a summary is open.
    open: bool,
    /// Whether `ds_bench`'s table is open.
    bench: bool,
}

/// A row, as both layouts have it.
struct Call {
    size: f64,
    /// ms, with two decimals.
    time: f64,
    /// 10^9 bits per second.
    busbw: f64,
    /// Whether time and busbw are means over several calls.
    is_mean: bool,
}

/// The start of a line about one call, behind what loggers write in front of it.
const CALL: &str = "comm op: ";

/// A line about a call, from [`CALL`] on.
fn call_of(text: &str) -> Option<&str> {
    let at = text.find(CALL)?;
    let before = text[..at].trim_end();
    (before.is_empty() || before.ends_with(['|', ']'])).then(|| &text[at..])
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if text.starts_with("Comm. Op") && text.contains("busbw_avg") {
            (self.open, self.bench) = (true, false);
            return Ok(Taken::Yes);
        }
        if let Some(call) = call_of(text) {
            return Ok(self.verbose(call, line.number, log));
        }
        if let Some(rest) = text.trim_matches(['-', ' ']).strip_prefix("Performance of ") {
            return Ok(self.bench(rest, line.number, log));
        }
        if self.bench && line.is_numeric() {
            return Ok(bench_row(text, line.number, log));
        }
        if !self.open {
            return Ok(Taken::No);
        }
        if !line.is_numeric() {
            let op = text.split(" | [Caller Func: ").next().unwrap_or(text);
            let plain =
                op.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
            if !plain {
                self.open = false;
                return Ok(Taken::No);
            }
            begin(op, line.number, log);
            return Ok(Taken::Began);
        }
        let (fields, count) = field::split(text);
        let number = |i: usize| field::number(fields[i]);
        let call = || {
            Some(Call {
                size: bytes(fields[0], fields[1])?,
                time: number(4)?,
                busbw: number(count - 1)?,
                is_mean: true,
            })
        };
        match (count >= 7).then(call).flatten() {
            Some(call) => row(&call, line.number, log),
            None => log.leave_out(line.number, "the row is cut off"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

impl Table {
    /// A line per call: consecutive ones of one operation are a table.
    fn verbose(&mut self, text: &str, number: usize, log: &mut Log) -> Taken {
        let of = |key: &str| {
            let (_, rest) = text.split_once(key)?;
            Some(rest.split('|').next().unwrap_or("").trim())
        };
        let op = of(CALL).unwrap_or("");
        let same = log.last().is_some_and(|d| d.format == "deepspeed" && d.title == op);
        if !same {
            begin(op, number, log);
        }
        let call = || {
            let (size, unit) = of("msg size: ")?.split_once(' ')?;
            let time = field::number(of("time (ms): ")?)?;
            Some(Call {
                size: bytes(size, unit)?,
                time,
                busbw: field::number(of("busbw (Gbps): ")?)?,
                is_mean: false,
            })
        };
        match call() {
            Some(call) => row(&call, number, log),
            None => log.leave_out(number, "the line is cut off"),
        }
        if same { Taken::Yes } else { Taken::Began }
    }

    /// `all_reduce on 16 devices`.
    fn bench(&mut self, rest: &str, number: usize, log: &mut Log) -> Taken {
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let [op, "on", devices, ..] = words.as_slice() else { return Taken::No };
        let mut draft = Draft::new("deepspeed", number, format!("ds_bench {op}"));
        draft.tested = Some(Tested::named(op, op));
        draft.ranks.extend(devices.parse().ok().map(|n| (n, "heading")));
        if !matches!(
            draft.tested,
            Some(Tested::Collective(Collective::AllReduce | Collective::Broadcast))
        ) {
            draft.refuse(
                "what ds_bench's sizes count is known only for all-reduce and broadcast",
                "measure with nccl-tests",
            );
        }
        log.tables.push(draft);
        (self.open, self.bench) = (false, true);
        Taken::Began
    }
}

/// `2.0 MB  524288x4  512.3 us  …`: the description has the exact size.
fn bench_row(text: &str, number: usize, log: &mut Log) -> Taken {
    let Some(draft) = log.last() else { return Taken::No };
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let found = words.iter().enumerate().find_map(|(i, word)| {
        let (count, each) = word.split_once('x')?;
        let size = count.parse::<u64>().ok()?.checked_mul(each.parse().ok()?)?;
        let unit = match *words.get(i + 2)? {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            _ => return None,
        };
        Some((size, field::number(words.get(i + 1)?)? * unit))
    });
    match found.filter(|f| f.1 > 0.0) {
        Some((size, time)) => draft.rows.push(Raw::timed(number, size, Seconds(time))),
        None => draft.leave_out(number, "the row is cut off"),
    }
    Taken::Yes
}

fn begin(op: &str, number: usize, log: &mut Log) {
    let mut draft = Draft::new("deepspeed", number, op);
    let plain = op.trim_end_matches("_tensor").trim_end_matches("_into").trim_end_matches("_base");
    let plain = plain.trim_end_matches("_coalesced").trim_end_matches("_single");
    draft.tested = Some(Tested::named(plain, op));
    draft.warn(HOST_CLOCK);
    draft.warn("sizes were rounded to two decimals of their unit");
    log.tables.push(draft);
}

/// `64.0 MB`: units of 1024.
fn bytes(number: &str, unit: &str) -> Option<f64> {
    let power = ["B", "KB", "MB", "GB", "TB"].iter().position(|u| *u == unit)?;
    Some(field::number(number)? * 1024_f64.powi(power as i32))
}

fn row(call: &Call, number: usize, log: &mut Log) {
    let asked = log.asked.ranks;
    let Some(draft) = log.last() else { return };
    let Some(Tested::Collective(collective)) = draft.tested.clone() else { return };
    use Collective as C;
    if !matches!(
        collective,
        C::AllReduce | C::AllGather | C::ReduceScatter | C::AllToAll | C::Broadcast
    ) {
        return draft.pass_over(number, "what the size counts is unknown for this operation");
    }
    let coarse = Seconds(call.time * 1e-3);
    let Some(ranks) = asked.filter(|&n| n > 1) else {
        // Refused at the end, as N is not stated.
        return draft.rows.push(Raw::timed(number, call.size as u64, coarse));
    };
    let n = f64::from(ranks);
    let total = if collective == C::AllGather { call.size * n } else { call.size };
    let factor = collective.busbw_factor(ranks).0;
    let by_rate = |size: f64| size * factor * 8.0 / (call.busbw * 1e9);
    // Two decimals of a millisecond, and of a size that was rounded itself.
    let fits = |time: f64| (time - coarse.0).abs() <= 0.006e-3 + 0.02 * time;
    let mut candidates = vec![by_rate(total)];
    if collective == C::ReduceScatter {
        candidates.push(by_rate(total * n));
    }
    // From here on two decimals of a mean time are a percent of it or less.
    if call.is_mean && coarse.0 >= LONG {
        // A size that is multiplied by N must not be taken for calls that differ.
        let least = if collective == C::AllGather { 0.6 } else { DIFFER };
        let near = |time: f64| time >= least * coarse.0 && (time <= coarse.0 || fits(time));
        return match candidates.into_iter().any(near) {
            true => draft.rows.push(Raw::timed(number, total.round() as u64, coarse)),
            false => draft.leave_out(number, CONTRADICTS),
        };
    }
    let mut fitting = candidates.into_iter().filter(|&time| time > 0.0 && fits(time));
    match (fitting.next(), fitting.next()) {
        (Some(time), None) => {
            draft.rows.push(Raw::timed(number, total.round() as u64, Seconds(time)))
        }
        (Some(_), Some(_)) => {
            draft.pass_over(
                number,
                "too short to show whether its rate was computed with N times the size",
            );
        }
        (None, _) => draft.leave_out(number, CONTRADICTS),
    }
}

/// A mean time from here on is used as printed.
const LONG: f64 = 0.5e-3;
/// Calls that differ much have a mean of rates up to this much above the rate of their mean time.
const DIFFER: f64 = 1.0 / 3.0;
const CONTRADICTS: &str =
    "time and busbw contradict each other: the row is damaged, or has other ranks";

#[cfg(test)]
mod tests {
    use crate::base::collective::Collective;
    use crate::measure::logs::{Asked, Imported, Measured, look};

    fn of(text: &str, ranks: u32) -> Imported {
        let asked = Asked { ranks: Some(ranks), ..Asked::default() };
        look(text.as_bytes(), "job.log", &asked).unwrap()
    }

    fn rows(log: &Imported) -> Vec<(u64, f64)> {
        let rows = log.tables.iter().flat_map(|t| &t.rows).map(|row| match row.measured {
            Measured::Time(time) => (row.size.0 >> 20, (time.0 * 1e5).round() / 1e2),
            Measured::Rate(_) => panic!("{row:?}"),
        });
        rows.collect()
    }

    const HEAD: &str = "Comm. Op  Message Size  Count  Total Latency(ms)  Avg Latency(ms)  tput_avg (Gbps)  busbw_avg (Gbps)\n";

    /// Calls of 3.48 ms that differ by 30 % have a mean rate 6 % above that of the mean time.
    #[test]
    fn a_summarys_long_calls_take_their_mean_time() {
        let table = format!(
            "{HEAD}all_reduce | [Caller Func: allreduce_fn]\n\
             128.0 MB  40  145.00  3.48  660.78  619.48\n\
             all_gather_into_tensor\n\
             32.0 MB  40  165.45  4.10  1123.74  1053.51\n"
        );
        assert_eq!(rows(&of(&table, 16)), [(128, 3.48), (512, 4.1)]);
        // With eight ranks the all-gather's rate is half of what it must be at least.
        let other = of(&table, 8);
        assert_eq!(rows(&other).len(), 1);
        assert!(other.tables[1].left_out[0].why.contains("contradict"), "{other:?}");
        // A mean of rates is never below the rate of the mean.
        let slow = table.replace("619.48", "500.00");
        assert!(of(&slow, 16).tables[0].rows.is_empty());
    }

    #[test]
    fn lines_of_calls_stand_behind_a_logger() {
        let call = "comm op: all_reduce | time (ms): 2.02 | msg size: 64.0 MB | algbw (Gbps): 531.56 | busbw (Gbps): 498.34\n";
        for before in [
            "",
            "rank=0 | ",
            "[2026-08-01 10:00:00,123] [INFO] [logging.py:107:log_dist] [Rank 0] ",
        ] {
            let log = of(&format!("{before}{call}"), 16);
            assert_eq!(log.tables[0].tested.collective(), Some(Collective::AllReduce), "{before}");
            assert_eq!(rows(&log), [(64, 2.02)], "{before}");
        }
    }
}
