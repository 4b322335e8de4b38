//! The operations that are timed, as programs of each rank.

use super::contents::{Element, Source};
use super::program::{Patch, Program, compile, refuse};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::sample::{Op, partner};
use crate::model::algorithm::Registry;
use crate::model::schedule::Schedule;
use crate::run::transport::{Action, Incoming, Landing, Local, Outgoing, Part, Step};

/// The programs of `ranks` ranks for one run of `op` with M = `size`.
///
/// A one-way message is run there and back, so one rank's end shows that both are finished:
/// [`runs`] gives the number of operations in one run. All ranks copy and add at once, as they do
/// in a collective.
///
/// # Errors
/// An algorithm that `registry` does not have, that does not apply, or that has no schedule; any
/// error of [`compile`]; more ranks than there are.
pub fn programs(registry: &Registry, op: &Op, ranks: u32, size: Bytes) -> Result<Vec<Program>> {
    if let Some(schedule) = schedule(registry, op, ranks)? {
        return compile(&*schedule, size);
    }
    let bytes = usize::try_from(size.0).ok().filter(|&bytes| bytes < 1 << 46);
    let bytes = bytes.ok_or_else(|| Error::input("the buffers exceed any memory"))?;
    if *op == Op::Reduce && !bytes.is_multiple_of(size_of::<f32>()) {
        return Err(Error::input(format!("{bytes} B are not a whole number of f32"))
            .help("write a multiple of 4"));
    }
    Ok((0..ranks).map(|rank| simple(op, rank, ranks, bytes)).collect())
}

/// Whether `ranks` ranks can run `op`, without its programs: those of a thousand ranks take seconds.
///
/// # Errors
/// As [`programs`], but for what depends on the size.
pub fn runnable(registry: &Registry, op: &Op, ranks: u32) -> Result<()> {
    schedule(registry, op, ranks)?.map_or(Ok(()), |schedule| refuse(&*schedule))
}

/// The schedule of `op`; `None` for one that is no collective.
fn schedule(registry: &Registry, op: &Op, ranks: u32) -> Result<Option<Box<dyn Schedule>>> {
    let least = match op {
        Op::OneWay | Op::Shift | Op::ShiftBy(_) | Op::Pairs(_) => 2,
        Op::FanOut(k) => k.get().saturating_add(1),
        Op::Copy | Op::Reduce | Op::Run(_) | Op::Library(_) | Op::Forced(_) | Op::Device(_) => 1,
    };
    if ranks < least {
        return Err(Error::input(format!("{op} needs {least} ranks, but there are {ranks}"))
            .help("start more ranks"));
    }
    if let Op::Device(_) = op {
        return Err(
            Error::unsupported(format!("{op} runs only on GPUs")).help("add --transport cuda")
        );
    }
    if let Op::Library(_) | Op::Forced(_) = op {
        return Err(Error::unsupported(format!(
            "{op} belongs to a library and cannot be run here"
        )));
    }
    if let Op::Run(run) = op {
        let algorithm = registry.find(run.collective, &run.algorithm)?.algorithm;
        let shape = run.shape(ranks);
        let refused = |why: String| Error::unsupported(format!("{op}: {why}"));
        algorithm.applies(&shape).map_err(|why| refused(why.to_string()))?;
        let schedule = algorithm.schedule(&shape);
        let schedule = schedule.ok_or_else(|| refused("it has no schedule to run".to_owned()))?;
        return Ok(Some(schedule));
    }
    Ok(None)
}

/// How many times an operation is in one run of its programs.
#[must_use]
pub fn runs(op: &Op) -> u32 {
    match op {
        Op::OneWay => 2,
        _ => 1,
    }
}

/// Two vectors per rank: its input is in the first, its result in the second.
fn simple(op: &Op, rank: u32, ranks: u32, bytes: usize) -> Program {
    let (own, other) = (0..bytes, bytes..2 * bytes);
    let patch = |span: &std::ops::Range<usize>, source| Patch {
        span: span.clone(),
        first: 0,
        source: Source::Rank(source),
    };
    let send = |to| Outgoing { to, spans: vec![own.clone()] };
    let receive = |from| Incoming {
        from,
        parts: vec![Part { span: other.clone(), action: Action::Store }],
        landing: Landing::Direct,
    };
    let step =
        |sends: Vec<Outgoing>, receives: Vec<Incoming>| Step { sends, receives, ..Step::default() };
    let local = |action| Step {
        local: vec![Local { from: other.clone(), to: 0, action }],
        ..Step::default()
    };
    let mut program = Program {
        rank,
        ranks,
        element: Element::Byte,
        bytes: 2 * bytes,
        start: vec![patch(&own, rank)],
        end: Vec::new(),
        steps: Vec::new(),
    };
    match op {
        Op::OneWay if rank < 2 => {
            let peer = 1 - rank;
            let there = step(vec![send(peer)], Vec::new());
            let back = step(Vec::new(), vec![receive(peer)]);
            program.end = vec![patch(&other, peer)];
            program.steps = if rank == 0 { vec![there, back] } else { vec![back, there] };
        }
        Op::Shift | Op::ShiftBy(_) => {
            let by = if let Op::ShiftBy(k) = op { k.get() % ranks } else { 1 };
            let (next, before) = ((rank + by) % ranks, (rank + ranks - by) % ranks);
            program.end = vec![patch(&other, before)];
            program.steps = vec![step(vec![send(next)], vec![receive(before)])];
        }
        Op::Pairs(round) => {
            if let Some(peer) = partner(rank, ranks, *round) {
                program.end = vec![patch(&other, peer)];
                program.steps = vec![step(vec![send(peer)], vec![receive(peer)])];
            }
        }
        Op::FanOut(k) if rank == 0 => {
            program.steps = vec![step((1..=k.get()).map(send).collect(), Vec::new())];
        }
        Op::FanOut(k) if rank <= k.get() => {
            program.end = vec![patch(&other, 0)];
            program.steps = vec![step(Vec::new(), vec![receive(0)])];
        }
        Op::Copy => {
            program.start = vec![patch(&own, rank), patch(&other, rank + ranks)];
            program.end = vec![patch(&own, rank + ranks)];
            program.steps = vec![local(Action::Store)];
        }
        Op::Reduce => {
            // A sum of two vectors, as if two ranks had contributed them.
            program.element = Element::Float;
            program.ranks = 2;
            program.start = vec![patch(&own, 0), patch(&other, 1)];
            program.end = vec![Patch { span: own.clone(), first: 0, source: Source::All }];
            program.steps = vec![local(Action::Add)];
        }
        Op::OneWay
        | Op::FanOut(_)
        | Op::Run(_)
        | Op::Library(_)
        | Op::Forced(_)
        | Op::Device(_) => {}
    }
    program
}
