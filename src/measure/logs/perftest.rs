//! perftest: `ib_write_bw`, `ib_write_lat` and others.
//!
//! ```text
//!                     RDMA_Write BW Test
//!  #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
//!  65536      5000             11030.78            11030.45             0.176487
//! ```
//!
//! `MB/sec` is 2^20 bytes per second, which newer versions write as such; `Gb/sec` is 10^9 bits. The
//! message rate checks it. A latency test prints one way, half of a round trip; `t_typical` is its median. Those
//! of reads and atomics print the whole round trip, `rtt_factor` in `perftest_parameters.c`, and are refused.
//! Source: linux-rdma/perftest `src/perftest_parameters.h`, `src/perftest_parameters.c`.

use super::draft::{Draft, Raw};
use super::{Line, Log, Measured, Read, Reader, Taken, Tested, field};
use crate::base::quantity::Bandwidth;
use crate::base::refused::Refused;
use crate::machine::sample::{DataType, Mode};

/// The columns of a row.
#[derive(Debug, Clone, Copy)]
struct Columns {
    count: usize,
    figure: usize,
    /// The unit of a rate; `None` for a time.
    unit: Option<Bandwidth>,
    /// Millions of messages per second.
    messages: Option<usize>,
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    title: Option<String>,
    columns: Option<Columns>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if text.starts_with("#bytes") || text.starts_with("bytes ") {
            return self.heading(line, log);
        }
        if line.is_numeric() {
            return match self.columns {
                Some(columns) => row(line, log, columns),
                None => Ok(Taken::No),
            };
        }
        if text.ends_with(" Test") && !text.contains("OSU ") {
            let kinds = ["BW Test", "Latency Test", "Bidirectional BW Test"];
            if kinds.iter().any(|k| text.ends_with(k)) && text.split_whitespace().count() <= 8 {
                log.begun = Some((line.number, "perftest"));
                *self = Self { title: Some(text.to_owned()), columns: None };
                return Ok(Taken::Yes);
            }
        }
        if self.columns.is_some() && text.starts_with("-----") {
            self.columns = None;
            return Ok(Taken::Yes);
        }
        Ok(Taken::No)
    }

    fn leave(&mut self) {
        self.columns = None;
    }
}

impl Table {
    fn heading(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        // Headings have blanks in their names: `BW peak[MiB/sec]`, `99% percentile[usec]`.
        let text = line.bare();
        if !text.contains("#iterations") && !text.contains(" iterations ") {
            return Ok(Taken::No);
        }
        let glued = text
            .replace("BW peak", "BW_peak")
            .replace("BW average", "BW_average")
            .replace(" Port", "_Port")
            .replace("% percentile", "%_percentile")
            .replace("tps average", "tps_average");
        let names: Vec<&str> = glued.split_ascii_whitespace().collect();
        let column = |prefix: &str| names.iter().position(|n| n.starts_with(prefix));
        let rate = column("BW_average");
        let time = column("t_typical").or(column("t_avg"));
        let Some(figure) = rate.or(time) else { return Ok(Taken::No) };
        let unit = names[figure].split_once('[').map_or("", |(_, u)| u.trim_end_matches(']'));
        let unit = match (rate, unit) {
            (Some(_), "MB/sec" | "MiB/sec") => Some(Bandwidth(1_048_576.0)),
            (Some(_), "Gb/sec") => Some(Bandwidth(0.125e9)),
            (None, "usec") => None,
            _ => {
                let what = format!("perftest does not use the table's unit [{unit}]");
                return Err(
                    Refused::at(line.number, what).help("give the unchanged output of perftest")
                );
            }
        };
        let title = self.title.take().unwrap_or_else(|| "perftest".to_owned());
        let mut draft = Draft::new("perftest", line.number, title.clone());
        draft.tested = Some(match rate {
            Some(_) => Tested::Rate { both_ways: title.contains("Bidirectional") },
            None => Tested::OneWay,
        });
        draft.mode = Mode::Isolated;
        draft.library = Some("verbs".to_owned());
        match (title.as_str(), rate) {
            ("perftest", Some(_)) => {
                draft.warn("no title states whether the rate is one-way or both ways");
            }
            ("perftest", None) => {
                draft.warn("no title states whether the time is of a write, or of a whole read");
            }
            (title, None) if ["RDMA_Read", "Atomic"].iter().any(|verb| title.starts_with(verb)) => {
                draft.tested = Some(Tested::Other(title.to_owned()));
                draft.refuse(
                    "times of reads and atomics are whole round trips, not messages",
                    "measure with ib_write_lat or ib_send_lat",
                );
            }
            _ => {}
        }
        log.tables.push(draft);
        let messages = column("MsgRate");
        self.columns = Some(Columns { count: names.len(), figure, unit, messages });
        Ok(Taken::Began)
    }
}

fn row(line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
    let (fields, count) = field::split(line.text);
    let fields = &fields[..count];
    field::plain_size(fields, line.number)?;
    let Some(size) = fields.first().and_then(|f| field::whole(f)) else { return Ok(Taken::No) };
    let Some(draft) = log.last() else { return Ok(Taken::No) };
    let numbers = fields.iter().take_while(|f| field::number(f).is_some()).count();
    // The message rate is the last field and has six digits; a truncated one has fewer.
    let last = columns.messages.filter(|&m| m + 1 == columns.count).and_then(|m| fields.get(m));
    if numbers < columns.count || last.is_some_and(|f| field::decimals(f) < 6) {
        let of = columns.count;
        let what = format!("the row is cut off: {numbers} of {of} fields, or digits of the last");
        draft.leave_out(line.number, what);
        return Ok(Taken::Yes);
    }
    let figure = fields[columns.figure];
    let measured = match columns.unit {
        Some(unit) => field::rate(figure, unit, line.number)?.map(Measured::Rate),
        None => field::micros(figure, line.number)?.map(Measured::Time),
    };
    let Some(measured) = measured else {
        draft.leave_out(line.number, "a time or rate of 0");
        return Ok(Taken::Yes);
    };
    if let (Measured::Rate(rate), Some(m)) = (measured, columns.messages)
        && let Some(messages) = field::number(fields[m])
    {
        let by_messages = messages * 1e6 * size as f64;
        // One has two digits after the point, the other six; 2^20 and 10^6 differ by 4.9 %.
        let digits = 0.006 / field::number(figure).unwrap_or(1.0) + 0.6e-6 / messages;
        if by_messages > 0.0 && (rate.0 / by_messages - 1.0).abs() > 0.02 + digits {
            let why = "the rate is not the message rate times the size: another unit, or damaged";
            draft.leave_out(line.number, why);
            return Ok(Taken::Yes);
        }
    }
    let iterations = fields.get(1).and_then(|f| field::whole(f));
    let iterations = iterations.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    draft.iterations = draft.iterations.max(iterations);
    draft.rows.push(Raw { dtype: Some(DataType::Byte), ..Raw::of(line.number, size, measured) });
    Ok(Taken::Yes)
}
