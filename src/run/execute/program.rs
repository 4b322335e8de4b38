//! A schedule as programs of each rank: messages with the bytes of a real buffer.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::contents::{Element, Source};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::model::schedule::{
    Endpoint, Frame, Layout, Op, Schedule, Sends, every_message, holds, sends_more_than, verify,
    wants,
};
use crate::run::transport::{Action, Incoming, Landing, Local, Outgoing, Part, Step};

/// The most messages of a schedule that can be run.
const MOST_MESSAGES: u64 = 1 << 20;

/// Bytes of a buffer and their contents, actual or expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// The position in the buffer.
    pub span: Range<usize>,
    /// The number of its first element in its vector.
    pub first: u64,
    /// Whose numbers they are.
    pub source: Source,
}

/// The work of one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The rank.
    pub rank: u32,
    /// How many ranks contribute to a full sum.
    pub ranks: u32,
    /// The elements of its buffer.
    pub element: Element,
    /// The size of its buffer in bytes.
    pub bytes: usize,
    /// The rank's input.
    pub start: Vec<Patch>,
    /// The expected result.
    pub end: Vec<Patch>,
    /// Its steps, one for each round in which it is active.
    pub steps: Vec<Step>,
}

/// The programs of all ranks for a vector of `size`, as [`Collective`] counts it.
///
/// Data that are added are `f32`; a barrier joins one bit per rank; everything else is bytes, which
/// need not divide evenly.
///
/// # Errors
/// A schedule with switches, which no transport has; one that does not implement its collective, or
/// has too many messages; bytes that are not a whole number of elements, or too many.
pub fn compile(schedule: &dyn Schedule, size: Bytes) -> Result<Vec<Program>> {
    refuse(schedule)?;
    verify(schedule).map_err(|fault| Error::input(format!("the schedule is wrong: {fault}")))?;
    let frame = schedule.frame();
    let room = Room::new(&frame, size)?;
    let mut programs: Vec<Program> = (0..frame.ranks).map(|rank| room.empty(rank)).collect();
    for program in &mut programs {
        room.contents(schedule, program);
    }
    let mut sends = Sends::default();
    for round in 0..frame.rounds {
        let mut steps: BTreeMap<u32, Step> = BTreeMap::new();
        every_message(schedule, round, &mut sends, |from, transfer| {
            let (Endpoint::Rank(from), Endpoint::Rank(to)) = (from, transfer.to) else { return };
            let chunks = transfer.runs.iter().flat_map(|run| run.chunks());
            let spans = chunks.map(|chunk| room.span(chunk)).filter(|span| !span.is_empty());
            send(&mut steps, (from, to), transfer.op, spans);
        });
        for (rank, mut step) in steps {
            land(&mut step);
            programs[rank as usize].steps.push(step);
        }
    }
    if room.adds_up() {
        for program in &mut programs {
            program.steps.push(Step { local: room.additions(), ..Step::default() });
        }
    }
    Ok(programs)
}

/// Refuses a schedule that ranks alone cannot run, or that is too long.
pub(super) fn refuse(schedule: &dyn Schedule) -> Result<()> {
    if schedule.frame().switches > 0 {
        return Err(Error::unsupported(
            "the schedule needs a switch that adds or multicasts, but there is none",
        )
        .help("name an algorithm that needs only ranks"));
    }
    if sends_more_than(schedule, MOST_MESSAGES) {
        return Err(Error::input(format!("the schedule has more than {MOST_MESSAGES} messages"))
            .help("run fewer segments or ranks"));
    }
    Ok(())
}

/// How the buffers of all ranks are laid out.
struct Room {
    frame: Frame,
    element: Element,
    /// Elements of a vector.
    elements: u64,
    bytes: usize,
}

impl Room {
    fn new(frame: &Frame, size: Bytes) -> Result<Self> {
        let element = match frame.collective {
            Collective::Barrier => Element::Bits,
            collective if collective.reduces() => Element::Float,
            _ => Element::Byte,
        };
        let each = element.bytes() as u64;
        let elements = match element {
            // A barrier has no data; its messages carry which ranks have entered.
            Element::Bits => u64::from(frame.parts) * u64::from(frame.ranks.div_ceil(64)),
            _ if size.0.is_multiple_of(each) => size.0 / each,
            _ => {
                return Err(Error::input(format!("{} B are not a whole number of f32", size.0))
                    .help("write a multiple of 4"));
            }
        };
        let vectors = match frame.layout {
            Layout::Shared => 1,
            Layout::Owned => u64::from(frame.ranks),
        };
        let bytes = elements.checked_mul(each).and_then(|bytes| bytes.checked_mul(vectors));
        let bytes = bytes.filter(|&bytes| bytes < 1 << 46).and_then(|b| usize::try_from(b).ok());
        let bytes = bytes.ok_or_else(|| {
            Error::input("the buffers exceed any memory").help("run a smaller size")
        })?;
        Ok(Self { frame: *frame, element, elements, bytes })
    }

    fn empty(&self, rank: u32) -> Program {
        Program {
            rank,
            ranks: self.frame.ranks,
            element: self.element,
            bytes: self.bytes,
            start: Vec::new(),
            end: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn span(&self, chunk: u32) -> Range<usize> {
        let Range { start, end } = self.frame.range(chunk, self.elements);
        // No more than `bytes`, which is a usize.
        start as usize * self.element.bytes()..end as usize * self.element.bytes()
    }

    /// A rank's input, and its expected result.
    fn contents(&self, schedule: &dyn Schedule, program: &mut Program) {
        let rank = program.rank;
        for chunk in 0..self.frame.chunks() {
            let span = self.span(chunk);
            if span.is_empty() {
                continue;
            }
            let first = match self.element {
                Element::Bits => 0,
                each => (span.start / each.bytes()) as u64 % self.elements,
            };
            let mut holders = (0..self.frame.ranks).filter(|&rank| holds(schedule, rank, chunk));
            let patch = |source| Patch { span: span.clone(), first, source };
            if holds(schedule, rank, chunk) {
                program.start.push(patch(Source::Rank(rank)));
            }
            // Several holders contribute to one sum.
            let source = match (holders.next(), holders.next()) {
                (Some(only), None) if self.element == Element::Byte || self.adds_up() => {
                    Source::Rank(only)
                }
                _ => Source::All,
            };
            if wants(schedule, rank, chunk) {
                program.end.push(patch(source));
            }
        }
        if self.adds_up() {
            let span = 0..self.elements as usize * self.element.bytes();
            program.end.retain(|patch| patch.span.start >= span.end);
            if !span.is_empty() {
                program.end.push(Patch { span, first: 0, source: Source::All });
            }
        }
    }

    /// Whether ranks gather all vectors and add them at the end.
    fn adds_up(&self) -> bool {
        self.frame.layout == Layout::Owned && self.frame.collective.reduces()
    }

    /// All vectors added to the first.
    fn additions(&self) -> Vec<Local> {
        let vector = self.elements as usize * self.element.bytes();
        (1..self.frame.ranks as usize)
            .map(|rank| {
                let from = rank * vector..(rank + 1) * vector;
                Local { from, to: 0, action: Action::Add }
            })
            .collect()
    }
}

/// Adds a message at both its ends; a message to the same rank is extended.
fn send(
    steps: &mut BTreeMap<u32, Step>,
    (from, to): (u32, u32),
    op: Op,
    spans: impl Iterator<Item = Range<usize>> + Clone,
) {
    let action = match op {
        Op::Copy => Action::Store,
        Op::Reduce => Action::Add,
        Op::Or => Action::Join,
    };
    let step = steps.entry(from).or_default();
    let found = step.sends.iter().position(|send| send.to == to);
    let index = found.unwrap_or(step.sends.len());
    if found.is_none() {
        step.sends.push(Outgoing { to, spans: Vec::new() });
    }
    let outgoing = &mut step.sends[index].spans;
    for span in spans.clone() {
        match outgoing.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => outgoing.push(span),
        }
    }
    let step = steps.entry(to).or_default();
    let found = step.receives.iter().position(|receive| receive.from == from);
    let index = found.unwrap_or(step.receives.len());
    if found.is_none() {
        step.receives.push(Incoming { from, parts: Vec::new(), landing: Landing::Direct });
    }
    let parts = &mut step.receives[index].parts;
    for span in spans {
        match parts.last_mut() {
            Some(last) if last.span.end == span.start && last.action == action => {
                last.span.end = span.end;
            }
            _ => parts.push(Part { span, action }),
        }
    }
}

/// Determines when each message of a step may be stored in place.
fn land(step: &mut Step) {
    for receive in &mut step.receives {
        let meets = |send: &&(usize, &Outgoing)| {
            let (_, send) = send;
            send.spans.iter().any(|span| {
                receive.parts.iter().any(|p| p.span.start < span.end && span.start < p.span.end)
            })
        };
        let mut met = step.sends.iter().enumerate();
        let mut met = met.by_ref().filter(|send| meets(&send));
        receive.landing = match (met.next(), met.next()) {
            (None, _) => Landing::Direct,
            (Some((index, send)), None) if is_same(send, receive) => Landing::Behind(index),
            _ => Landing::Aside,
        };
    }
}

/// Whether a message arrives where another one leaves, byte for byte in the same order.
fn is_same(send: &Outgoing, receive: &Incoming) -> bool {
    send.spans.iter().eq(receive.parts.iter().map(|part| &part.span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::algorithm::Registry;
    use crate::model::formula::Shape;
    use crate::model::schedule::ring::Ring;

    #[test]
    fn a_ring_sends_one_part_and_adds_another() {
        let programs = compile(&Ring::new(Collective::AllReduce, 3), Bytes(28)).unwrap();
        // Seven floats in three parts: 3, 2, 2.
        let first = &programs[0].steps[0];
        let sent = &first.sends[0];
        assert_eq!((sent.to, sent.spans.len(), &sent.spans[0]), (1, 1, &(0..12)));
        let part = Part { span: 20..28, action: Action::Add };
        let receive = Incoming { from: 2, parts: vec![part], landing: Landing::Direct };
        assert_eq!(first.receives, [receive]);
        assert_eq!(programs[0].steps.len(), 4);
    }

    #[test]
    fn an_exchange_lands_behind_what_leaves() {
        let registry = Registry::builtin();
        let named = registry.find(Collective::AllReduce, "recursive-doubling").unwrap();
        let shape = Shape::new(Collective::AllReduce, 4);
        let schedule = named.algorithm.schedule(&shape).unwrap();
        let programs = compile(&*schedule, Bytes(1024)).unwrap();
        for step in programs.iter().flat_map(|program| &program.steps) {
            assert_eq!(step.receives[0].landing, Landing::Behind(0));
        }
    }

    #[test]
    fn floats_must_be_whole_and_switches_are_refused() {
        let ring = Ring::new(Collective::AllReduce, 2);
        assert!(compile(&ring, Bytes(6)).unwrap_err().to_string().contains("multiple of 4"));
        let registry = Registry::builtin();
        let shape = Shape::new(Collective::AllReduce, 4);
        let switched = registry
            .of(Collective::AllReduce)
            .filter_map(|algorithm| algorithm.schedule(&shape))
            .find(|schedule| schedule.switches() > 0)
            .unwrap();
        assert!(compile(&*switched, Bytes(64)).unwrap_err().is_unsupported());
    }
}
