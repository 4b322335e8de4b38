//! Samples in the format of the recordings of 2026: one line per run, with named columns.
//!
//! `blk`, `op`, `n`, `M`, `tglob`, and `t0local` for `pp` are required; `nivcsw` and `rundelay_us` are
//! read if present; others are ignored. Times are in seconds. The time of a run is `tglob`, from the first
//! rank's start to the last one's end; for `pp`, a ping-pong, it is `t0local`/2, one way by the clock of
//! rank 0. `nivcsw` counts over the whole block. The recordings are over TCP, except those with copies and
//! additions (`cpy`, `red`), which are over shared memory.

use std::collections::BTreeMap;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::sample::{Block, Clock, Mode, Op, Origin, Sample, Samples};

/// The operations of the recordings.
const OPS: &[(&str, Option<Collective>, &str)] = &[
    ("pp", None, "one-way"),
    ("sr", None, "shift"),
    ("cpy", None, "copy"),
    ("red", None, "local-reduce"),
    ("ring", Some(Collective::AllReduce), "ring"),
    ("rd", Some(Collective::AllReduce), "recursive-doubling"),
    ("rab", Some(Collective::AllReduce), "rabenseifner"),
    ("rs", Some(Collective::ReduceScatter), "ring"),
    ("ag", Some(Collective::AllGather), "ring"),
    ("bruck", Some(Collective::AllGather), "bruck"),
    ("bcast", Some(Collective::Broadcast), "binomial"),
    ("a2a", Some(Collective::AllToAll), "pairwise"),
];

fn op(name: &str) -> Option<Op> {
    let &(_, collective, id) = OPS.iter().find(|(known, ..)| *known == name)?;
    match (collective, id) {
        (Some(collective), algorithm) => Some(Op::run(collective, algorithm)),
        (None, other) => other.parse().ok(),
    }
}

const MEND: &str = "the columns blk, op, n, M, tglob and t0local are required";

/// Whether a text begins like such a table.
#[must_use]
pub fn is(text: &str) -> bool {
    let first = text.lines().next().unwrap_or("");
    first.split(',').any(|c| c.trim() == "tglob")
}

/// Reads the text of `file`.
///
/// Operations that this crate does not have, such as `pb`, are counted in
/// [`left_out`](Samples::left_out).
///
/// # Errors
/// A missing column; a field that is not a number, with its line; no line at all.
pub fn read(text: &str, file: &str) -> Result<Samples> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let heading = reader.headers().map_err(|e| damaged(&e, file))?.clone();
    let column = |name: &str| heading.iter().position(|c| c == name);
    let needed = |name: &str| {
        column(name).ok_or_else(|| {
            Error::input(format!("there is no column `{name}`")).at(format!("{file}:1")).help(MEND)
        })
    };
    let (block, kind, ranks, size) = (needed("blk")?, needed("op")?, needed("n")?, needed("M")?);
    let (span, own) = (needed("tglob")?, needed("t0local")?);
    let (switches, delay) = (column("nivcsw"), column("rundelay_us"));
    let mut blocks: Vec<Block> = Vec::new();
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    let mut last_left_out = None;
    for row in reader.records() {
        let row = row.map_err(|e| damaged(&e, file))?;
        let line = row.position().map_or(0, csv::Position::line);
        let number = |column: usize| {
            let field = &row[column];
            let value = field.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
            value.ok_or_else(|| {
                Error::input(format!("`{field}` in column `{}` is not a number", &heading[column]))
                    .at(format!("{file}:{line}"))
                    .help("write a number of 0 or more")
            })
        };
        let whole = |column: usize, most: f64| {
            number(column).and_then(|x| match x.fract() == 0.0 && x <= most {
                true => Ok(x as u64),
                false => Err(Error::input(format!(
                    "`{}` in column `{}` is not a count",
                    &row[column], &heading[column]
                ))
                .at(format!("{file}:{line}"))
                .help("write a whole number")),
            })
        };
        let number_of_block = whole(block, f64::from(u32::MAX))? as u32;
        let Some(op) = op(&row[kind]) else {
            if last_left_out != Some(number_of_block) {
                *left_out.entry(row[kind].to_owned()).or_default() += 1;
            }
            last_left_out = Some(number_of_block);
            continue;
        };
        let (ranks, size) = (whole(ranks, 1e9)? as u32, Bytes(whole(size, 9e18)?));
        let time = match op {
            Op::OneWay => number(own)? / 2.0,
            _ => number(span)?,
        };
        if time == 0.0 || ranks == 0 {
            return Err(Error::input("a run without time or ranks")
                .at(format!("{file}:{line}"))
                .help("remove the line"));
        }
        let run_delay = delay.map(number).transpose()?.map(|us| Seconds(us * 1e-6));
        let sample = Sample { run_delay, ..Sample::of(Seconds(time)) };
        let preempted = switches.map(|c| whole(c, 9e18)).transpose()?;
        match blocks.last_mut() {
            Some(b) if b.block == number_of_block && b.op == op && b.size == size => {
                b.samples.push(sample);
            }
            _ => blocks.push(Block {
                op,
                ranks,
                size,
                launch: 0,
                block: number_of_block,
                mode: Mode::Isolated,
                inner: 1,
                nodes: None,
                preempted,
                clock: Clock::default(),
                chose: None,
                samples: vec![sample],
            }),
        }
    }
    if blocks.is_empty() {
        return Err(Error::input("the file holds no samples").at(file).help(MEND));
    }
    // Work in memory was recorded only together with messages through shared memory.
    let local = blocks.iter().any(|b| !b.op.moves_data());
    let transport = Some(if local { "shm" } else { "tcp" }.to_owned());
    let origin = Origin { files: vec![file.to_owned()], transport, ..Origin::default() };
    let left_out = left_out.into_iter().collect();
    Ok(Samples { origin, blocks, left_out, ..Samples::default() })
}

fn damaged(error: &csv::Error, file: &str) -> Error {
    let line = error.position().map(csv::Position::line);
    let place = line.map_or(file.to_owned(), |line| format!("{file}:{line}"));
    let what = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields, not {expected_len}")
        }
        _ => "the line is not CSV".to_owned(),
    };
    Error::input(what).at(place).help(MEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
blk,op,n,M,rep,tmax,tglob,t0local,skew,nivcsw,rundelay_us
0,pp,2,8,0,9,9,0.00002,0,4,1.5
0,pp,2,8,1,9,9,0.00003,0,4,1.5
1,rab,2,16,0,9,0.5,9,0,4,0
2,pb,2,16,0,9,0.5,9,0,4,0
2,pb,2,16,1,9,0.5,9,0,4,0
";

    #[test]
    fn the_time_is_one_way_of_a_ping_pong_and_the_span_of_others() {
        let samples = read(TEXT, "x.csv").unwrap();
        let of = |b: usize| &samples.blocks[b];
        assert_eq!((of(0).op.clone(), of(0).samples.len()), (Op::OneWay, 2));
        assert_eq!(of(0).samples[1].span, Seconds(0.000_015));
        assert_eq!(of(0).samples[1].run_delay, Some(Seconds(1.5 * 1e-6)));
        assert_eq!(of(1).op.to_string(), "allreduce/rabenseifner");
        assert_eq!(of(1).samples[0].span, Seconds(0.5));
        assert_eq!(samples.left_out, [("pb".to_owned(), 1)]);
        assert!(is(TEXT));
    }

    #[test]
    fn faults_name_their_line() {
        for (text, what, place) in [
            (TEXT.replace("0.00003", "x"), "`x` in column `t0local` is not a number", "x.csv:3"),
            (TEXT.replace("tglob", "time"), "no column `tglob`", "x.csv:1"),
            (TEXT.replace(",4,0\n1", ",4\n1"), "fields, not 11", "x.csv"),
            (
                TEXT.replace("1,rab,2,16", "1,rab,2,1.5"),
                "`1.5` in column `M` is not a count",
                "x.csv:4",
            ),
            (TEXT[..58].to_owned(), "holds no samples", "x.csv"),
        ] {
            if text == TEXT {
                continue;
            }
            let error = read(&text, "x.csv").unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(place), "{what}: {error}");
        }
    }
}
