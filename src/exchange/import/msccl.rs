//! MSCCL's XML.
//!
//! Steps are matched to messages and executed in an order that their dependencies allow, tracking
//! the chunk in each slot. Data that are received next to an existing chunk and added to it later
//! (`re`) are one message, whose data are added there. The root is 0 if the file does not give it, and
//! messages go as early as their data allow if it does not give their rounds; MSCCL's own files do neither.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr;

use quick_xml::events::Event;

use super::order::{Carried, Order, Program};
use super::{Foreign, Refused};
use crate::base::collective::Collective as C;
use crate::base::xml::{Attributes, Events};
use crate::model::schedule::{Frame, MOST_FOLLOWED, Op};

/// The least bytes that a followed chunk takes.
const BYTES: u64 = 128;

pub(super) fn is(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Buffer {
    Input,
    Output,
    Scratch,
}

/// A buffer of a GPU and a place in it.
type Slot = (u32, Buffer, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Send,
    Receive,
    ReceiveSend,
    ReceiveReduce,
    ReduceSend,
    ReduceCopySend,
    Copy,
    Reduce,
    Nothing,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "s" => Self::Send,
            "r" => Self::Receive,
            "rcs" => Self::ReceiveSend,
            "rrc" => Self::ReceiveReduce,
            "rrs" => Self::ReduceSend,
            "rrcs" => Self::ReduceCopySend,
            "cpy" => Self::Copy,
            "re" => Self::Reduce,
            "nop" => Self::Nothing,
            _ => return None,
        })
    }

    fn sends(self) -> bool {
        use Kind::{ReceiveSend, ReduceCopySend, ReduceSend, Send};
        matches!(self, Send | ReceiveSend | ReduceSend | ReduceCopySend)
    }

    fn receives(self) -> bool {
        use Kind::{Receive, ReceiveReduce, ReceiveSend, ReduceCopySend, ReduceSend};
        matches!(self, Receive | ReceiveSend | ReceiveReduce | ReduceSend | ReduceCopySend)
    }
}

/// One step, and its block.
#[derive(Debug, Clone, Copy)]
struct Step {
    line: usize,
    gpu: u32,
    kind: Kind,
    from: (Buffer, i64),
    to: (Buffer, i64),
    count: u32,
    send: i64,
    receive: i64,
    channel: i64,
    waits: Option<(i64, i64)>,
    /// The round in which it sends; 0 if the file, as MSCCL's own, does not say it.
    round: u64,
    /// Whether it tells others that it is done; who waits for one that does not waits for ever.
    tells: bool,
}

/// The content of the first element.
struct Head {
    collective: C,
    ranks: u32,
    parts: u32,
    root: u32,
    in_place: bool,
}

#[derive(Default)]
struct File {
    head: Option<Head>,
    gpus: HashSet<u32>,
    steps: Vec<Step>,
    /// The step that a GPU, a block and a number name.
    places: BTreeMap<(u32, i64, i64), usize>,
}

pub(super) fn read(text: &str) -> Result<Foreign, Refused> {
    let file = File::parse(text)?;
    let Some(head) = &file.head else { return Err(Refused::at(1, "there is no <algo>")) };
    if let Some(missing) = (0..head.ranks).find(|gpu| !file.gpus.contains(gpu)) {
        return Err(Refused::at(1, format!("<gpu id=\"{missing}\"> is missing")));
    }
    let (program, matching) = file.program()?;
    let order = program.order()?;
    let mut played = Played::new(head, &file, &matching, &order);
    played.run()?;
    played.check_outputs()?;
    played.check_slots(&program)?;
    // Of what may go at once, a GPU sends first what its first block does.
    played.messages.sort_by_key(|message| message.line);
    let placed = program.placed(&order, played.messages)?;
    let frame = Frame { root: head.root, ..Frame::new(head.collective, head.ranks, head.parts, 0) };
    Ok(Foreign::new(frame, None, placed))
}

fn number<T: FromStr>(element: &Attributes<'_>, name: &str) -> Result<T, Refused> {
    let text = element.text(name)?;
    text.parse()
        .map_err(|_| Refused::at(element.line, format!("{name}=\"{text}\" is not a valid number")))
}

fn number_or<T: FromStr>(element: &Attributes<'_>, name: &str, other: T) -> Result<T, Refused> {
    if element.get(name).is_some() { number(element, name) } else { Ok(other) }
}

fn slot(element: &Attributes<'_>, buffer: &str, offset: &str) -> Result<(Buffer, i64), Refused> {
    let buffer = match element.text(buffer)? {
        "i" => Buffer::Input,
        "o" => Buffer::Output,
        "s" => Buffer::Scratch,
        name => {
            return Err(Refused::at(element.line, format!("`{name}` is not a buffer: i, o or s")));
        }
    };
    Ok((buffer, number(element, offset)?))
}

impl File {
    fn parse(text: &str) -> Result<Self, Refused> {
        let mut file = Self::default();
        let mut events = Events::new(text);
        let mut gpu = None;
        let mut block = None;
        loop {
            let (line, event) = events.next()?;
            let start = match &event {
                Event::Start(start) | Event::Empty(start) => start,
                Event::Eof => return Ok(file),
                _ => continue,
            };
            let element = &Attributes::of(start, line)?;
            match start.name().as_ref() {
                "algo" if file.head.is_none() => file.head = Some(head(element)?),
                "gpu" => {
                    let id = number(element, "id")?;
                    let ranks = file.head.as_ref().map_or(0, |head| head.ranks);
                    if id >= ranks {
                        let what = format!("gpu {id}, but ngpus is {ranks}");
                        return Err(Refused::at(line, what));
                    }
                    if !file.gpus.insert(id) {
                        return Err(Refused::at(line, format!("gpu {id} appears twice")));
                    }
                    (gpu, block) = (Some(id), None);
                }
                "tb" => {
                    let peers = (number(element, "send")?, number(element, "recv")?);
                    let id: i64 = number(element, "id")?;
                    block = Some((id, peers, number(element, "chan")?, 0));
                }
                "step" => {
                    let (Some(gpu), Some((id, peers, channel, next))) = (gpu, block.as_mut())
                    else {
                        return Err(Refused::at(line, "a step outside of a thread block"));
                    };
                    let number: i64 = number(element, "s")?;
                    if number != *next {
                        let what = format!("step {number} is where step {next} should be");
                        return Err(Refused::at(line, what));
                    }
                    *next += 1;
                    let step = step(element, gpu, *peers, *channel)?;
                    if file.places.insert((gpu, *id, number), file.steps.len()).is_some() {
                        let what = format!("thread block {id} of gpu {gpu} appears twice");
                        return Err(Refused::at(line, what));
                    }
                    file.steps.push(step);
                }
                _ => {}
            }
        }
    }

    /// All steps with their dependencies, and the send of each step that receives.
    fn program(&self) -> Result<(Program, BTreeMap<usize, usize>), Refused> {
        let mut program = Program::default();
        for step in &self.steps {
            program.push(step.line);
        }
        for (&(gpu, block, number), &node) in &self.places {
            if let Some(&before) = self.places.get(&(gpu, block, number - 1)) {
                program.require(node, before);
            }
            if let Some((block, number)) = self.steps[node].waits {
                let Some(&other) = self.places.get(&(gpu, block, number)) else {
                    let what = format!("step {number} of thread block {block} does not exist");
                    return Err(Refused::at(self.steps[node].line, what));
                };
                if !self.steps[other].tells {
                    let what = format!(
                        "it waits for step {number} of thread block {block}, which has hasdep=\"0\" and tells nobody"
                    );
                    return Err(Refused::at(self.steps[node].line, what));
                }
                program.require(node, other);
            }
        }
        let matching = self.matching()?;
        for (&receive, &send) in &matching {
            program.require(receive, send);
        }
        Ok((program, matching))
    }

    /// The k-th receive from a GPU over a channel matches its k-th send.
    fn matching(&self) -> Result<BTreeMap<usize, usize>, Refused> {
        let mut sends: HashMap<(i64, i64, i64), Vec<usize>> = HashMap::new();
        let mut receives = sends.clone();
        for (node, step) in self.steps.iter().enumerate() {
            let gpu = i64::from(step.gpu);
            if step.kind.sends() {
                sends.entry((gpu, step.send, step.channel)).or_default().push(node);
            }
            if step.kind.receives() {
                receives.entry((step.receive, gpu, step.channel)).or_default().push(node);
            }
        }
        let mut matching = BTreeMap::new();
        let mut keys: Vec<_> = sends.keys().chain(receives.keys()).copied().collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (from, to, channel) = key;
            let none = Vec::new();
            let (sent, received) =
                (sends.get(&key).unwrap_or(&none), receives.get(&key).unwrap_or(&none));
            for (&send, &receive) in sent.iter().zip(received) {
                let (a, b) = (&self.steps[send], &self.steps[receive]);
                if a.count != b.count {
                    let what = format!("{} chunks are sent and {} received", a.count, b.count);
                    return Err(Refused::at(b.line, what));
                }
                matching.insert(receive, send);
            }
            if let Some(&send) = sent.get(received.len()) {
                let what = format!(
                    "gpu {from} sends to gpu {to} on channel {channel}, which does not receive it"
                );
                return Err(Refused::at(self.steps[send].line, what));
            }
            if let Some(&receive) = received.get(sent.len()) {
                let what = format!(
                    "gpu {to} receives from gpu {from} on channel {channel}, which does not send it"
                );
                return Err(Refused::at(self.steps[receive].line, what));
            }
        }
        Ok(matching)
    }
}

fn head(element: &Attributes<'_>) -> Result<Head, Refused> {
    let name = element.text("coll")?;
    let collective: C = name.parse().map_err(|_| {
        Refused::at(element.line, format!("`{name}` is not a known collective")).unsupported()
    })?;
    let (ranks, parts): (u32, u32) =
        (number(element, "ngpus")?, number(element, "nchunksperloop")?);
    let chunks = u64::from(ranks) * u64::from(parts);
    if chunks > MOST_FOLLOWED {
        let what = format!(
            "following {chunks} chunks takes {} MiB of memory, more than {}",
            (chunks * BYTES) >> 20,
            (MOST_FOLLOWED * BYTES) >> 20
        );
        return Err(Refused::at(element.line, what));
    }
    let blocks = collective.has_blocks();
    if ranks == 0 || parts == 0 || blocks && parts % ranks != 0 {
        let what = format!("{parts} chunks per loop do not divide over {ranks} GPUs");
        return Err(Refused::at(element.line, what));
    }
    let root = number_or(element, "root", 0)?;
    if root >= ranks {
        return Err(Refused::at(element.line, format!("root {root}, but there are {ranks} GPUs")));
    }
    let in_place = number_or::<u8>(element, "inplace", 0)? == 1;
    Ok(Head { collective, ranks, parts, root, in_place })
}

fn step(
    element: &Attributes<'_>,
    gpu: u32,
    (send, receive): (i64, i64),
    channel: i64,
) -> Result<Step, Refused> {
    let line = element.line;
    let name = element.text("type")?;
    let kind = Kind::named(name)
        .ok_or_else(|| Refused::at(line, format!("`{name}` is not a known type of step")))?;
    let block: i64 = number_or(element, "depid", -1)?;
    let deps = number_or(element, "deps", -1)?;
    for (does, peer, what) in [(kind.sends(), send, "send"), (kind.receives(), receive, "recv")] {
        if does && (peer < 0 || peer == i64::from(gpu)) {
            let what = format!("the thread block's {what}=\"{peer}\" is not another GPU");
            return Err(Refused::at(line, what));
        }
    }
    Ok(Step {
        line,
        gpu,
        kind,
        from: slot(element, "srcbuf", "srcoff")?,
        to: slot(element, "dstbuf", "dstoff")?,
        count: number(element, "cnt")?,
        send,
        receive,
        channel,
        waits: (block >= 0).then_some((block, deps)),
        round: number_or(element, "round", 0)?,
        tells: number_or::<i64>(element, "hasdep", 1)? != 0,
    })
}

/// The content of a slot: a chunk, and which state of it.
#[derive(Debug, Clone, Copy)]
struct Content {
    chunk: u32,
    state: usize,
}

/// Operations that are looked at to find steps without an order: a second.
const MOST_LOOKED: usize = 1 << 22;

/// The execution of the steps.
struct Played<'a> {
    head: &'a Head,
    file: &'a File,
    matching: &'a BTreeMap<usize, usize>,
    order: &'a Order,
    contents: HashMap<Slot, Content>,
    /// For each GPU and chunk, its present state there.
    present: HashMap<(u32, u32), usize>,
    /// States that wait to be added, with the steps that received their data.
    waiting: HashMap<usize, Vec<usize>>,
    /// For each step that sends, its chunks.
    sent: HashMap<usize, Vec<u32>>,
    /// Steps whose data a later `re` adds.
    added_later: HashSet<usize>,
    states: usize,
    messages: Vec<Carried>,
}

impl<'a> Played<'a> {
    fn new(
        head: &'a Head,
        file: &'a File,
        matching: &'a BTreeMap<usize, usize>,
        order: &'a Order,
    ) -> Self {
        let mut played = Self {
            head,
            file,
            matching,
            order,
            contents: HashMap::new(),
            present: HashMap::new(),
            waiting: HashMap::new(),
            sent: HashMap::new(),
            added_later: HashSet::new(),
            states: 0,
            messages: Vec::new(),
        };
        played.find_added_later();
        played.fill_inputs();
        played
    }

    /// Chunks that begin or end at one GPU.
    fn block(&self) -> u32 {
        self.head.parts / self.head.ranks
    }

    /// A slot under one name: in place, input and output are one buffer, or one contains the other.
    fn slot(&self, gpu: u32, (buffer, offset): (Buffer, i64), i: u32) -> Option<Slot> {
        let offset = u32::try_from(offset).ok()?.checked_add(i)?;
        let own = || gpu.checked_mul(self.block())?.checked_add(offset);
        let rooted = self.head.root == gpu;
        let one = match (self.head.collective, buffer) {
            _ if !self.head.in_place => None,
            (C::AllReduce | C::Reduce | C::Broadcast, Buffer::Output) => {
                Some((Buffer::Input, offset))
            }
            (C::AllGather, Buffer::Input) => own().map(|offset| (Buffer::Output, offset)),
            (C::ReduceScatter, Buffer::Output) => own().map(|offset| (Buffer::Input, offset)),
            (C::Gather, Buffer::Input) if rooted => own().map(|offset| (Buffer::Output, offset)),
            (C::Scatter, Buffer::Output) if rooted => own().map(|offset| (Buffer::Input, offset)),
            _ => None,
        };
        let (buffer, offset) = one.unwrap_or((buffer, offset));
        Some((gpu, buffer, offset))
    }

    /// The slots of a step, or what is wrong with them.
    fn slots(&self, step: &Step, first: (Buffer, i64)) -> Result<Vec<Slot>, Refused> {
        // A node may forward the chunks of all of its ranks.
        let most = self.head.parts.saturating_mul(self.head.ranks);
        if step.count > most {
            return Err(Refused::at(
                step.line,
                format!("{} chunks, more than the {most} that there are", step.count),
            ));
        }
        let slots = (0..step.count).map(|i| self.slot(step.gpu, first, i));
        let slots: Option<Vec<Slot>> = slots.collect();
        slots.ok_or_else(|| {
            Refused::at(step.line, format!("offset {} is outside of the buffer", first.1))
        })
    }

    /// Finds data that are received, put aside, and added by a later step.
    fn find_added_later(&mut self) {
        let mut last: HashMap<Slot, Vec<usize>> = HashMap::new();
        for &node in &self.order.nodes {
            let step = &self.file.steps[node];
            let (Ok(from), Ok(to)) = (self.slots(step, step.from), self.slots(step, step.to))
            else {
                continue;
            };
            for (from, to) in from.into_iter().zip(to) {
                let of = |slot: &Slot| last.get(slot).cloned().unwrap_or_default();
                let writers = match step.kind {
                    Kind::Receive => vec![node],
                    Kind::Copy => of(&from),
                    Kind::Reduce => {
                        let added = of(&from);
                        self.added_later.extend(&added);
                        // Parts may be added to each other before they are added to own data.
                        [of(&to), added].concat()
                    }
                    Kind::Send | Kind::Nothing => continue,
                    _ => Vec::new(),
                };
                last.insert(to, writers);
            }
        }
    }

    fn fill_inputs(&mut self) {
        let Head { collective, ranks, parts, root, .. } = *self.head;
        let block = self.block();
        for gpu in 0..ranks {
            let inputs: Vec<(u32, u32)> = match collective {
                C::Broadcast | C::Scatter if gpu != root => Vec::new(),
                C::AllGather | C::Gather => (0..block).map(|i| (i, gpu * block + i)).collect(),
                C::AllToAll => (0..parts).map(|i| (i, gpu * parts + i)).collect(),
                _ => (0..parts).map(|i| (i, i)).collect(),
            };
            for (offset, chunk) in inputs {
                if let Some(slot) = self.slot(gpu, (Buffer::Input, offset.into()), 0) {
                    self.write(slot, chunk);
                }
            }
        }
    }

    /// A new state of a chunk, which becomes the present one.
    fn write(&mut self, slot: Slot, chunk: u32) {
        let state = self.put_aside(slot, chunk);
        self.present.insert((slot.0, chunk), state);
    }

    /// A new state of a chunk that does not become the present one.
    fn put_aside(&mut self, slot: Slot, chunk: u32) -> usize {
        self.states += 1;
        self.contents.insert(slot, Content { chunk, state: self.states });
        self.states
    }

    /// What is in a slot.
    fn content(&self, slot: Slot, line: usize) -> Result<Content, Refused> {
        self.contents.get(&slot).copied().ok_or_else(|| {
            Refused::at(line, format!("gpu {} has nothing at {}", slot.0, shown(slot)))
        })
    }

    /// The chunk in a slot, in its present state.
    fn current(&self, slot: Slot, line: usize) -> Result<u32, Refused> {
        let Content { chunk, state } = self.content(slot, line)?;
        if self.present.get(&(slot.0, chunk)) == Some(&state) {
            return Ok(chunk);
        }
        let what = match self.waiting.contains_key(&state) {
            true => {
                format!("gpu {} forwards data that it still has to add, at {}", slot.0, shown(slot))
            }
            false => format!("gpu {} has an old state of chunk {chunk} at {}", slot.0, shown(slot)),
        };
        Err(Refused::at(line, what).unsupported())
    }

    fn run(&mut self) -> Result<(), Refused> {
        for &node in &self.order.nodes {
            let step = &self.file.steps[node];
            match step.kind {
                Kind::Nothing => {}
                Kind::Send => {
                    let slots = self.slots(step, step.from)?;
                    let chunks = slots.into_iter().map(|slot| self.current(slot, step.line));
                    let chunks = chunks.collect::<Result<_, _>>()?;
                    self.sent.insert(node, chunks);
                }
                Kind::Copy => self.copy(step)?,
                Kind::Reduce => self.reduce(node, step)?,
                _ => self.receive(node, step)?,
            }
        }
        Ok(())
    }

    fn copy(&mut self, step: &Step) -> Result<(), Refused> {
        for (from, to) in self.slots(step, step.from)?.into_iter().zip(self.slots(step, step.to)?) {
            let content = self.content(from, step.line)?;
            self.contents.insert(to, content);
        }
        Ok(())
    }

    /// Adds data that were received and put aside.
    fn reduce(&mut self, node: usize, step: &Step) -> Result<(), Refused> {
        let mut added: Vec<(usize, u32)> = Vec::new();
        for (from, to) in self.slots(step, step.from)?.into_iter().zip(self.slots(step, step.to)?) {
            let aside = self.contents.get(&to).filter(|c| self.waiting.contains_key(&c.state));
            let aside = aside.copied();
            let chunk = match aside {
                Some(content) => content.chunk,
                None => self.current(to, step.line)?,
            };
            let content = self.content(from, step.line)?;
            if content.chunk != chunk {
                let what = format!("chunk {} is added to chunk {chunk}", content.chunk);
                return Err(Refused::at(step.line, what));
            }
            let is_itself = aside.is_some_and(|aside| aside.state == content.state);
            let Some(parts) = self.waiting.remove(&content.state).filter(|_| !is_itself) else {
                let what = "the added data did not come from another GPU, or were added before";
                return Err(Refused::at(step.line, what));
            };
            match aside {
                Some(aside) => {
                    let others = self.waiting.remove(&aside.state).unwrap_or_default();
                    let state = self.put_aside(to, chunk);
                    self.waiting.insert(state, [others, parts].concat());
                }
                None => {
                    self.write(to, chunk);
                    added.extend(parts.into_iter().map(|receive| (receive, chunk)));
                }
            }
        }
        added.sort_by_key(|&(receive, _)| receive);
        for part in added.chunk_by(|a, b| a.0 == b.0) {
            let chunks = part.iter().map(|(_, chunk)| *chunk).collect();
            self.carry(part[0].0, node, Op::Reduce, chunks);
        }
        Ok(())
    }

    fn receive(&mut self, node: usize, step: &Step) -> Result<(), Refused> {
        let send = self.matching.get(&node).copied();
        let chunks = send.and_then(|send| self.sent.get(&send)).cloned().unwrap_or_default();
        let adds =
            matches!(step.kind, Kind::ReceiveReduce | Kind::ReduceSend | Kind::ReduceCopySend);
        if adds {
            for (slot, &chunk) in self.slots(step, step.from)?.into_iter().zip(&chunks) {
                let present = self.current(slot, step.line)?;
                if present != chunk {
                    let what = format!("chunk {chunk} is added to chunk {present}");
                    return Err(Refused::at(step.line, what));
                }
            }
        }
        // Data that are only forwarded are stored where they were added.
        let target = if step.kind == Kind::ReduceSend { step.from } else { step.to };
        let later = self.added_later.contains(&node);
        for (slot, &chunk) in self.slots(step, target)?.into_iter().zip(&chunks) {
            if later {
                let state = self.put_aside(slot, chunk);
                self.waiting.insert(state, vec![node]);
            } else {
                self.write(slot, chunk);
            }
        }
        if !later {
            let op = if adds { Op::Reduce } else { Op::Copy };
            self.carry(node, node, op, chunks.clone());
        }
        if step.kind.sends() {
            self.sent.insert(node, chunks);
        }
        Ok(())
    }

    /// One message: received by a step, stored by that step or a later one.
    fn carry(&mut self, receive: usize, store: usize, op: Op, chunks: Vec<u32>) {
        let Some(&send) = self.matching.get(&receive) else { return };
        let (from, to) = (self.file.steps[send].gpu, self.file.steps[receive].gpu);
        let Step { line, round, .. } = self.file.steps[send];
        self.messages.push(Carried { from, to, op, chunks, round, send, store, line });
    }

    /// Checks that steps which use one place, and of which one writes it and one is a copy or a sum of the GPU's own,
    /// are in an order: thread blocks run at once. The order of messages is that of their chunks.
    fn check_slots(&self, program: &Program) -> Result<(), Refused> {
        let mut used: HashMap<Slot, (Option<usize>, Vec<usize>)> = HashMap::new();
        let is_local =
            |node: usize| matches!(self.file.steps[node].kind, Kind::Copy | Kind::Reduce);
        let mut work = 0;
        for &node in &self.order.nodes {
            let step = &self.file.steps[node];
            let from = || self.slots(step, step.from);
            let to = || self.slots(step, step.to);
            let (reads, writes) = match step.kind {
                Kind::Nothing => continue,
                Kind::Send | Kind::ReduceSend => (from()?, Vec::new()),
                Kind::Receive | Kind::ReceiveSend => (Vec::new(), to()?),
                // In place it may be a copy onto itself.
                Kind::Copy => {
                    from()?.into_iter().zip(to()?).filter(|(from, to)| from != to).unzip()
                }
                Kind::ReceiveReduce | Kind::ReduceCopySend => (from()?, to()?),
                Kind::Reduce => ([from()?, to()?].concat(), to()?),
            };
            let mut before: Vec<(usize, Slot)> = Vec::new();
            for slot in reads {
                let (writer, readers) = used.entry(slot).or_default();
                before.extend(writer.map(|writer| (writer, slot)));
                readers.push(node);
            }
            for slot in writes {
                let (writer, readers) = used.entry(slot).or_default();
                let others = readers.drain(..).chain(writer.replace(node));
                before.extend(others.map(|other| (other, slot)));
            }
            before.retain(|(other, _)| *other != node && (is_local(*other) || is_local(node)));
            let others: Vec<usize> = before.iter().map(|(other, _)| *other).collect();
            let (first, looked) = program.unordered(&others, node, self.order);
            if let Some((other, slot)) = before.iter().find(|(other, _)| Some(*other) == first) {
                let what = format!("{} of gpu {}", shown(*slot), slot.0);
                return Err(program.without_order(&what, *other, node));
            }
            work += looked;
            // What takes longer is not looked for.
            if work > MOST_LOOKED {
                break;
            }
        }
        Ok(())
    }

    /// Checks that every GPU has all required data at their places in the output.
    fn check_outputs(&self) -> Result<(), Refused> {
        let Head { collective, ranks, parts, root, in_place } = *self.head;
        let block = self.block();
        for gpu in 0..ranks {
            let outputs: Vec<(u32, u32)> = match collective {
                C::Reduce | C::Gather if gpu != root => Vec::new(),
                // The root's own data need not be copied.
                C::Broadcast if gpu == root && !in_place => Vec::new(),
                C::ReduceScatter | C::Scatter => (0..block).map(|i| (i, gpu * block + i)).collect(),
                C::AllToAll => {
                    let from = |i: u32| (i / block) * parts + gpu * block + i % block;
                    (0..parts).map(|i| (i, from(i))).collect()
                }
                _ => (0..parts).map(|i| (i, i)).collect(),
            };
            for (offset, chunk) in outputs {
                let slot = self.slot(gpu, (Buffer::Output, offset.into()), 0);
                let found = slot.and_then(|slot| self.contents.get(&slot));
                let present = self.present.get(&(gpu, chunk)).copied();
                if found.is_none_or(|c| c.chunk != chunk || Some(c.state) != present) {
                    return Err(Refused {
                        line: None,
                        ..Refused::at(
                            0,
                            format!("at the end output {offset} of gpu {gpu} is not chunk {chunk}"),
                        )
                    });
                }
            }
        }
        Ok(())
    }
}

fn shown((_, buffer, offset): Slot) -> String {
    let name = match buffer {
        Buffer::Input => "i",
        Buffer::Output => "o",
        Buffer::Scratch => "s",
    };
    format!("{name}[{offset}]")
}
