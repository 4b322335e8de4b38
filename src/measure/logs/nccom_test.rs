//! nccom-test of AWS Neuron.
//!
//! ```text
//! nccom-test -r 2 allr
//!      size(B)    count(elems)     type    time:avg(us)    algbw(GB/s)    busbw(GB/s)
//!     33554432        33554432    uint8             768          40.69          40.69
//! Avg bus bandwidth:      40.6901GB/s
//! ```
//!
//! Only the command states N and the collective. GB/s are 2^30 bytes per second, as the size over the
//! printed time shows. Source: AWS Neuron documentation 2.28, "NCCOM-TEST User Guide".

use super::draft::{Draft, Raw};
use super::nccl_tests::factor;
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::refused::Refused;
use crate::machine::sample::{DataType, Mode};

/// Bytes of its GB.
const GB: f64 = 1_073_741_824.0;

/// The columns of a row.
#[derive(Debug, Clone, Copy)]
struct Columns {
    count: usize,
    dtype: usize,
    time: usize,
    algbw: usize,
    busbw: usize,
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    columns: Option<Columns>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        if line.is_numeric() {
            return match self.columns {
                Some(columns) => row(line, log, columns),
                None => Ok(Taken::No),
            };
        }
        let text = line.text;
        if text.starts_with("size(B)") {
            return self.heading(line, log);
        }
        if self.columns.is_some() && text.starts_with("Avg bus bandwidth") {
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
        let (fields, count) = field::split(line.text);
        let fields = &fields[..count];
        let column = |names: &[&str]| {
            names.iter().find_map(|name| fields.iter().position(|f| f.starts_with(name)))
        };
        let time = column(&["time:avg(", "time(", "time:p50("]);
        let (Some(dtype), Some(time), Some(algbw), Some(busbw)) =
            (column(&["type"]), time, column(&["algbw("]), column(&["busbw("]))
        else {
            return Ok(Taken::No);
        };
        if !fields[time].ends_with("(us)") {
            let what = format!("nccom-test does not use the table's unit in `{}`", fields[time]);
            return Err(Refused::at(line.number, what));
        }
        self.columns = Some(Columns { count, dtype, time, algbw, busbw });
        let mut draft = Draft::new("nccom-test", line.number, "nccom-test");
        draft.mode = Mode::Stream;
        draft.library = Some("Neuron".to_owned());
        let command = log.launcher.command.as_ref().filter(|c| c.program == "nccom-test");
        if let Some(command) = command {
            let collective = command.arguments.iter().rev().find_map(|a| a.parse().ok());
            draft.tested = collective.map(Tested::Collective);
            let ranks = command.argument(&["-r", "--nworkers"]);
            draft.ranks.extend(ranks.map(|n| (n, "command")));
        }
        log.tables.push(draft);
        Ok(Taken::Began)
    }
}

fn row(line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
    let (fields, count) = field::split(line.text);
    let fields = &fields[..count];
    field::plain_size(fields, line.number)?;
    let Some(size) = fields.first().and_then(|f| field::whole(f)) else { return Ok(Taken::No) };
    let Some(draft) = log.last() else { return Ok(Taken::No) };
    if count < columns.count {
        let of = columns.count;
        draft.leave_out(line.number, format!("the row is cut off: {count} of {of} fields"));
        return Ok(Taken::Yes);
    }
    let Some(time) = field::micros(fields[columns.time], line.number)? else {
        draft.leave_out(line.number, "a time of 0, or none");
        return Ok(Taken::Yes);
    };
    // Times are whole microseconds; the rate was computed before they were rounded.
    let rate = size as f64 / time.0 / GB;
    let printed = field::number(fields[columns.algbw]);
    if printed.is_some_and(|p| (p - rate).abs() > 0.006 + rate * 0.6e-6 / time.0) {
        draft.leave_out(line.number, "time and algbw contradict each other: the row is damaged");
        return Ok(Taken::Yes);
    }
    draft.rows.push(Raw {
        count: fields.get(1).and_then(|f| field::whole(f)),
        dtype: DataType::named(fields[columns.dtype]),
        factor: factor(fields[columns.algbw], fields[columns.busbw]),
        ..Raw::timed(line.number, size, time)
    });
    Ok(Taken::Yes)
}
