//! MSCCL's XML: each GPU has thread blocks of steps, and each block has one peer.
//!
//! ```xml
//! <algo name="ring" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" …>
//!   <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
//!     <tb id="0" send="1" recv="-1" chan="0">
//!       <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" …/>
//! ```
//!
//! A block sends to one peer or receives from one, in schedule order. A step waits for step `deps`
//! of block `depid`; if it must wait for several, `nop` steps before it wait for the others. A send
//! waits for the steps that wrote its chunks, a write for all that read or wrote them before. Each
//! run of a message that is contiguous at both ends is a separate step, so that a message of
//! several runs becomes several steps. A run of chunks that arrive where they are sent in the same
//! round is cut into pieces that a connection holds: what arrives waits for the whole step, and its
//! sender waits in the same way. The root, and the round of each send, are in attributes that MSCCL
//! ignores.

use std::collections::{HashMap, HashSet};
use std::fmt;

use quick_xml::escape::escape;

use super::{Job, Written};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::model::schedule::{Endpoint, Layout, Op, Schedule, Sends, every_message};

pub(super) fn write<'a>(job: &Job<'a>) -> Result<Written<'a>> {
    let places = Places::new(job.schedule)?;
    let mut program = Program::new(*job, places);
    program.fill(job.schedule);
    let mut notes = program.refused();
    match job.schedule.collective() {
        C::ReduceScatter => notes.push(format!(
            "MSCCL reads coll=\"{REDUCE_SCATTER}\"; for RCCL and msccl-scheduler, write \
             coll=\"reducescatter\" instead"
        )),
        C::Gather | C::Scatter => notes.push(
            "MSCCL refuses this collective; RCCL and msccl-scheduler read the file".to_owned(),
        ),
        _ => {}
    }
    notes.extend(program.undivided());
    if program.has_scratch() {
        notes.push(format!(
            "only calls of up to {} use it, since MSCCL allocates scratch for the largest: --size allows more",
            program.most()
        ));
    }
    Ok(Written { text: Box::new(program), notes })
}

/// MSCCL's name, which RCCL does not read.
///
/// Source: microsoft/msccl, `src/graph/topo.cc`, `mscclGetAlgoFromXMLAndSetAlgo`; ROCm/rccl,
/// `src/misc/msccl/msccl_parser.cc`.
const REDUCE_SCATTER: &str = "reduce_scatter";

/// Chunks of one step that a connection holds before the other end receives any, where each is as large as a step's
/// part of NCCL's buffers or larger: NCCL_STEPS / MSCCL_CHUNKSTEPS.
///
/// Source: microsoft/msccl, `src/include/msccl.h`, `src/collectives/device/msccl_interpreter.h` and
/// `prims_simple.h` (`waitPeer`).
const HELD: u32 = 2;

/// What its readers refuse as they are built, by their names: steps of a block, blocks of a rank, blocks of a channel
/// that send or that receive, and chunks of a step, which have to be fewer.
///
/// Source: microsoft/msccl, `src/include/msccl.h`; ROCm/rccl, `src/include/msccl/msccl_struct.h`.
const RCCL_STEPS: (&str, usize) = ("RCCL's MSCCL_MAX_NUM_STEPS", 64);
const STEPS: (&str, usize) = ("MSCCL's MSCCL_MAX_NUM_STEPS", 256);
const RCCL_BLOCKS: (&str, usize) = ("RCCL's MSCCL_MAX_NUM_THREAD_BLOCKS", 64);
const BLOCKS: (&str, usize) = ("MSCCL_MAX_NUM_THREAD_BLOCKS_PER_CHANNEL", 32);
const COUNT: (&str, usize) = ("MSCCL_MAX_COUNT", 72 - 1);

/// The largest call for which MSCCL keeps scratch where a file names none.
///
/// Source: microsoft/msccl, `src/graph/topo.cc`, `mscclGetAlgoFromXMLAndSetAlgo`; what it allocates: `src/init.cc`.
const SCRATCH_FOR: Bytes = Bytes(128 << 20);

/// Bytes of the elements that calls are counted in.
const FLOAT: u64 = 4;

/// Where a rank keeps a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Slot {
    buffer: char,
    offset: u32,
}

/// The slot of each chunk at each rank.
struct Places<'a> {
    schedule: &'a dyn Schedule,
    /// For each chunk, its position among all, with blocks in rank order.
    position: Vec<u32>,
    /// Chunks that begin or end at each rank.
    block: u32,
    /// For each rank, the chunks that it forwards.
    scratch: Vec<HashMap<u32, u32>>,
}

impl<'a> Places<'a> {
    fn new(schedule: &'a dyn Schedule) -> Result<Self> {
        let frame = schedule.frame();
        let (ranks, collective) = (frame.ranks, frame.collective);
        if matches!(collective, C::SendRecv | C::Barrier) {
            return Err(Error::unsupported(format!("MSCCL knows no {collective}")));
        }
        if frame.layout == Layout::Owned && collective != C::AllToAll {
            return Err(Error::unsupported(
                "MSCCL adds data on arrival; here whole vectors arrive and are added at the end",
            ));
        }
        if frame.own.is_some() {
            return Err(Error::unsupported(
                "MSCCL adds what arrives, and no vector of a rank's own",
            )
            .help("export one-shot or two-shot, which send the same"));
        }
        let blocks = collective.has_blocks();
        if blocks && !frame.parts.is_multiple_of(ranks) {
            return Err(Error::unsupported(format!(
                "MSCCL needs equally many chunks per rank: {} do not divide by {ranks}",
                frame.parts
            )));
        }
        let block = if blocks { frame.parts / ranks } else { frame.parts };
        let mut owned = vec![0; ranks as usize];
        let mut position: Vec<u32> = (0..frame.parts).collect();
        if blocks && frame.layout == Layout::Shared {
            for chunk in 0..frame.parts {
                let owner = schedule.owner(chunk);
                let count = &mut owned[owner as usize];
                position[chunk as usize] = owner * block + *count;
                *count += 1;
            }
            if owned.iter().any(|&count| count != block) {
                return Err(Error::unsupported("MSCCL needs equally many chunks per rank"));
            }
        }
        let scratch = vec![HashMap::new(); ranks as usize];
        Ok(Self { schedule, position, block, scratch })
    }

    fn of(&mut self, rank: u32, chunk: u32) -> Slot {
        let frame = self.schedule.frame();
        let slot = |buffer, offset| Slot { buffer, offset };
        let home = match frame.collective {
            C::Broadcast => Some(slot('o', chunk)),
            C::AllGather => Some(slot('o', self.position[chunk as usize])),
            C::ReduceScatter => Some(slot('i', self.position[chunk as usize])),
            C::AllToAll => {
                let (source, part) = (chunk / frame.parts, chunk % frame.parts);
                if rank == source {
                    Some(slot('i', part))
                } else if rank == part / self.block {
                    Some(slot('o', source * self.block + part % self.block))
                } else {
                    None
                }
            }
            C::Gather | C::Scatter => {
                let position = self.position[chunk as usize];
                let (whole, own) =
                    if frame.collective == C::Gather { ('o', 'i') } else { ('i', 'o') };
                if rank == frame.root {
                    Some(slot(whole, position))
                } else if rank == position / self.block {
                    Some(slot(own, position % self.block))
                } else {
                    None
                }
            }
            _ => Some(slot('i', chunk)),
        };
        home.unwrap_or_else(|| {
            let scratch = &mut self.scratch[rank as usize];
            let next = scratch.len() as u32;
            slot('s', *scratch.entry(chunk).or_insert(next))
        })
    }
}

/// One step of a block.
struct Step {
    kind: Kind,
    awaited: bool,
    from: Slot,
    to: Slot,
    count: u32,
    /// Of a send.
    round: Option<u32>,
    /// The steps of other blocks for which it waits, by block: few.
    waits: Waits,
}

#[derive(Clone, Copy)]
enum Kind {
    Send,
    Receive,
    Add,
    Copy,
}

/// Blocks in order, each with one of its steps.
#[derive(Default)]
struct Waits(Vec<(u32, u32)>);

impl Waits {
    /// Waits for a step of `block` unless it does so for a later one.
    fn add(&mut self, block: u32, step: u32) {
        match self.0.binary_search_by_key(&block, |(of, _)| *of) {
            Ok(at) => self.0[at].1 = self.0[at].1.max(step),
            Err(at) => self.0.insert(at, (block, step)),
        }
    }

    fn of(&self, block: u32) -> Option<u32> {
        self.0.binary_search_by_key(&block, |(of, _)| *of).ok().map(|at| self.0[at].1)
    }
}

/// The steps with one peer in one direction; without a peer, local copies.
struct Block {
    send: Option<u32>,
    receive: Option<u32>,
    steps: Vec<Step>,
    /// For each other block, the latest step that this block has waited for.
    waited: Waits,
}

/// The step that last wrote a slot, and those that have read it since, with their blocks.
#[derive(Default)]
struct Uses {
    written: Option<(u32, u32)>,
    read: Vec<(u32, u32)>,
}

#[derive(Default)]
struct Gpu {
    blocks: Vec<Block>,
    by_peer: HashMap<(Option<u32>, Option<u32>), u32>,
    uses: HashMap<Slot, Uses>,
}

impl Gpu {
    fn block(&mut self, send: Option<u32>, receive: Option<u32>) -> u32 {
        let blocks = &mut self.blocks;
        *self.by_peer.entry((send, receive)).or_insert_with(|| {
            blocks.push(Block { send, receive, steps: Vec::new(), waited: Waits::default() });
            blocks.len() as u32 - 1
        })
    }

    /// Adds a step that reads and writes slots, with the steps that it waits for.
    fn push(&mut self, block: u32, mut step: Step, reads: &[Slot], writes: &[Slot]) {
        let at = (block, self.blocks[block as usize].steps.len() as u32);
        let mut before = Vec::new();
        for slot in reads {
            let uses = self.uses.entry(*slot).or_default();
            before.extend(uses.written);
            uses.read.push(at);
        }
        for slot in writes {
            let uses = self.uses.entry(*slot).or_default();
            before.extend(uses.written.replace(at));
            before.append(&mut uses.read);
        }
        for (other, index) in before.into_iter().filter(|&(other, _)| other != block) {
            step.waits.add(other, index);
        }
        // The block need not wait again for a step that it has waited for already.
        let waited = &mut self.blocks[block as usize].waited;
        step.waits.0.retain(|&(other, index)| waited.of(other).is_none_or(|latest| latest < index));
        step.waits.0.shrink_to_fit();
        step.waits.0.iter().for_each(|&(other, index)| waited.add(other, index));
        for &(other, index) in &step.waits.0 {
            self.blocks[other as usize].steps[index as usize].awaited = true;
        }
        self.blocks[block as usize].steps.push(step);
    }
}

struct Program<'a> {
    job: Job<'a>,
    places: Places<'a>,
    gpus: Vec<Gpu>,
}

impl<'a> Program<'a> {
    fn new(job: Job<'a>, places: Places<'a>) -> Self {
        Self { job, places, gpus: (0..job.schedule.ranks()).map(|_| Gpu::default()).collect() }
    }

    fn fill(&mut self, schedule: &dyn Schedule) {
        let frame = schedule.frame();
        let mut sends = Sends::default();
        for round in 0..frame.rounds {
            let (mut messages, mut received) = (Vec::new(), Vec::new());
            let mut arrives = HashSet::new();
            every_message(schedule, round, &mut sends, |from, message| {
                let (Endpoint::Rank(source), Endpoint::Rank(target)) = (from, message.to) else {
                    return;
                };
                let chunks = message.runs.iter().flat_map(|run| run.chunks());
                let chunks: Vec<u32> = chunks.collect();
                arrives.extend(chunks.iter().map(|&chunk| (target, chunk)));
                messages.push((source, target, chunks, message.op));
            });
            for (source, target, chunks, op) in messages {
                let arrives = |chunk: u32| arrives.contains(&(source, chunk));
                for (from, to, count) in self.pieces(source, target, &chunks, arrives) {
                    let round = u32::try_from(round).ok();
                    let step = Step { round, ..step(Kind::Send, from, to, count) };
                    self.send(source, target, step);
                    received.push((source, target, from, to, count, op));
                }
            }
            // All sends of a round read the state before it.
            for (source, target, from, to, count, op) in received {
                self.receive(source, target, from, to, count, op);
            }
        }
        if frame.collective == C::AllToAll {
            self.keep_own(frame.parts);
        }
        // No step is added from here on.
        self.gpus.iter_mut().for_each(|gpu| gpu.uses = HashMap::new());
    }

    /// The chunks of a message in pieces that are contiguous at both ends, and short where a chunk arrives at
    /// its source in the same round.
    fn pieces(
        &mut self,
        source: u32,
        target: u32,
        chunks: &[u32],
        arrives: impl Fn(u32) -> bool,
    ) -> Vec<(Slot, Slot, u32)> {
        let mut pieces: Vec<(Slot, Slot, u32)> = Vec::new();
        let waits = chunks.iter().any(|&chunk| arrives(chunk));
        let most = if waits { HELD } else { u32::MAX };
        let goes_on = |first: Slot, count: u32, next: Slot| {
            first.buffer == next.buffer && first.offset + count == next.offset
        };
        for &chunk in chunks {
            let (from, to) = (self.places.of(source, chunk), self.places.of(target, chunk));
            match pieces.last_mut() {
                Some((a, b, count))
                    if goes_on(*a, *count, from) && goes_on(*b, *count, to) && *count < most =>
                {
                    *count += 1;
                }
                _ => pieces.push((from, to, 1)),
            }
        }
        pieces
    }

    fn send(&mut self, source: u32, target: u32, step: Step) {
        let gpu = &mut self.gpus[source as usize];
        let block = gpu.block(Some(target), None);
        let reads = slots(step.from, step.count);
        gpu.push(block, step, &reads, &[]);
    }

    fn receive(&mut self, source: u32, target: u32, from: Slot, to: Slot, count: u32, op: Op) {
        let gpu = &mut self.gpus[target as usize];
        let block = gpu.block(None, Some(source));
        let step = match op {
            // The operand of the addition is where the sum is stored.
            Op::Reduce => step(Kind::Add, to, to, count),
            _ => step(Kind::Receive, from, to, count),
        };
        gpu.push(block, step, &[], &slots(to, count));
    }

    /// In an all-to-all, each rank copies its block for itself from its input to its output.
    fn keep_own(&mut self, parts: u32) {
        let block = self.places.block;
        for rank in 0..self.gpus.len() as u32 {
            let from = self.places.of(rank, rank * parts + rank * block);
            let to = Slot { buffer: 'o', offset: rank * block };
            let gpu = &mut self.gpus[rank as usize];
            let own = gpu.block(None, None);
            let copy = step(Kind::Copy, from, to, block);
            gpu.push(own, copy, &slots(from, block), &slots(to, block));
        }
    }

    fn has_scratch(&self) -> bool {
        self.places.scratch.iter().any(|chunks| !chunks.is_empty())
    }

    /// The largest call that the file is for.
    fn most(&self) -> Bytes {
        if self.has_scratch() { self.job.size.max(SCRATCH_FOR) } else { Bytes(i64::MAX as u64) }
    }

    /// Who does not use the file at the job's size, since the elements do not divide by its chunks.
    ///
    /// Source: microsoft/msccl, `src/graph/tuning.cc`, which counts the elements of all ranks; ROCm/rccl,
    /// `src/misc/msccl/msccl_lifecycle.cc`, and Azure/msccl-scheduler, `src/scheduler.cc`, which count those of one.
    fn undivided(&self) -> Option<String> {
        let frame = self.job.schedule.frame();
        let of_all = FLOAT * u64::from(frame.parts);
        let blocks = if frame.collective.has_blocks() { u64::from(frame.ranks) } else { 1 };
        let of_one = of_all * blocks;
        let size = self.job.size;
        let readers = match (size.0 % of_all, size.0 % of_one) {
            (0, 0) => return None,
            (0, _) => "RCCL and msccl-scheduler use",
            _ => "MSCCL, RCCL and msccl-scheduler use",
        };
        // The largest of those that are a power of two times the smallest.
        let times = (size.0 / of_one).max(1);
        let fits = Bytes(of_one << times.ilog2());
        Some(format!(
            "{readers} it only where the {} chunks divide the elements: of floats at {fits}, not at {size}",
            frame.parts
        ))
    }

    /// The limits that the file exceeds.
    fn refused(&self) -> Vec<String> {
        let blocks = || self.gpus.iter().flat_map(|gpu| &gpu.blocks);
        let steps = blocks().filter_map(|b| b.numbers().last().map(|last| last + 1)).max();
        let counts = blocks().flat_map(|b| &b.steps).map(|step| step.count as usize).max();
        let peers = |gpu: &Gpu| {
            let of = |peer: fn(&Block) -> Option<u32>| gpu.blocks.iter().filter_map(peer).count();
            of(|b| b.send).max(of(|b| b.receive))
        };
        let peers = self.gpus.iter().map(peers).max();
        let all = self.gpus.iter().map(|gpu| gpu.blocks.len()).max();
        let found = [
            (all, "thread blocks of a rank", RCCL_BLOCKS),
            (steps, "steps in a thread block", RCCL_STEPS),
            (steps, "steps in a thread block", STEPS),
            (peers, "thread blocks in one direction", BLOCKS),
            (counts, "chunks in a step", COUNT),
        ];
        let line = |(most, what, (name, limit)): (Option<usize>, &str, (&str, usize))| {
            let most = most.filter(|&most| most > limit)?;
            Some(format!("{most} {what} are refused: {name} allows {limit}"))
        };
        found.into_iter().filter_map(line).collect()
    }
}

impl fmt::Display for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.job;
        let frame = job.schedule.frame();
        let (ranks, parts, block) = (frame.ranks, frame.parts, self.places.block);
        let in_place = frame.collective != C::AllToAll;
        writeln!(
            f,
            "<algo name=\"{}\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{parts}\" \
             ngpus=\"{ranks}\" coll=\"{}\" inplace=\"{}\" outofplace=\"{}\" minBytes=\"0\" \
             maxBytes=\"{}\" root=\"{}\">",
            escape(job.name),
            match frame.collective {
                C::ReduceScatter => REDUCE_SCATTER,
                other => other.id(),
            },
            u8::from(in_place),
            u8::from(!in_place),
            // MSCCL uses it below this size, the others also at it.
            self.most().0.saturating_add(1).min(i64::MAX as u64),
            frame.root
        )?;
        let (inputs, outputs) = match frame.collective {
            C::AllGather | C::Gather => (block, parts),
            C::ReduceScatter | C::Scatter => (parts, block),
            _ => (parts, parts),
        };
        for (rank, gpu) in self.gpus.iter().enumerate() {
            let scratch = self.places.scratch[rank].len();
            writeln!(
                f,
                "  <gpu id=\"{rank}\" i_chunks=\"{inputs}\" o_chunks=\"{outputs}\" \
                 s_chunks=\"{scratch}\">"
            )?;
            gpu.fmt(f)?;
            writeln!(f, "  </gpu>")?;
        }
        writeln!(f, "</algo>")
    }
}

fn step(kind: Kind, from: Slot, to: Slot, count: u32) -> Step {
    Step { kind, awaited: false, from, to, count, round: None, waits: Waits::default() }
}

fn slots(first: Slot, count: u32) -> Vec<Slot> {
    (0..count).map(|i| Slot { offset: first.offset + i, ..first }).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "s",
            Self::Receive => "r",
            Self::Add => "rrc",
            Self::Copy => "cpy",
        })
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The nops before a step make its number higher than its position.
        let numbers: Vec<Vec<usize>> = self.blocks.iter().map(Block::numbers).collect();
        for (id, block) in self.blocks.iter().enumerate() {
            let peer = |peer: Option<u32>| peer.map_or(-1, i64::from);
            let (send, receive) = (peer(block.send), peer(block.receive));
            writeln!(f, "    <tb id=\"{id}\" send=\"{send}\" recv=\"{receive}\" chan=\"0\">")?;
            for (step, &number) in block.steps.iter().zip(&numbers[id]) {
                let waits: Vec<(u32, usize)> = step
                    .waits
                    .0
                    .iter()
                    .map(|&(b, i)| (b, numbers[b as usize][i as usize]))
                    .collect();
                let nops = waits.len().saturating_sub(1);
                for (i, (other, index)) in waits.iter().take(nops).enumerate() {
                    writeln!(
                        f,
                        "      <step s=\"{}\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" \
                         dstbuf=\"o\" dstoff=\"-1\" cnt=\"0\" depid=\"{other}\" deps=\"{index}\" \
                         hasdep=\"0\"/>",
                        number - nops + i
                    )?;
                }
                let last = waits.last().map_or((-1, -1), |&(b, i)| (i64::from(b), i as i64));
                let Step { kind, from, to, count, awaited, .. } = step;
                write!(
                    f,
                    "      <step s=\"{number}\" type=\"{kind}\" srcbuf=\"{}\" srcoff=\"{}\" \
                     dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{count}\" depid=\"{}\" deps=\"{}\" \
                     hasdep=\"{}\"",
                    from.buffer,
                    from.offset,
                    to.buffer,
                    to.offset,
                    last.0,
                    last.1,
                    u8::from(*awaited)
                )?;
                if let Some(round) = step.round {
                    write!(f, " round=\"{round}\"")?;
                }
                writeln!(f, "/>")?;
            }
            writeln!(f, "    </tb>")?;
        }
        Ok(())
    }
}

impl Block {
    /// The number of each step, counting the nops before it.
    fn numbers(&self) -> Vec<usize> {
        let mut next = 0;
        let number = |step: &Step| {
            next += step.waits.0.len().max(1);
            next - 1
        };
        self.steps.iter().map(number).collect()
    }
}
