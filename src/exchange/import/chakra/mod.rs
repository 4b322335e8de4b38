//! Chakra's execution traces as timing: who computes how long and sends how much to whom (Sridharan
//! et al., arXiv 2305.14516; github.com/mlcommons/chakra).
//!
//! A trace is one file a rank, `NAME.0.et` and so on. A node begins when all nodes that it names
//! under `ctrl_deps` and `data_deps` have ended. The times at which nodes were recorded are not
//! used. What the format leaves open is decided here:
//!
//! - Sends are eager, as in GOAL. Sends and receives of one pair and one tag match in order of the
//!   files.
//! - A communicator is what `pg_name` says; its ranks are those whose files name it. Its calls match
//!   in order of the files.
//! - `comm_size` counts what a rank puts in, as ASTRA-sim counts it: of an all-gather, one rank's
//!   part; of a scatter, what the root has.
//! - A collective is a schedule of the registry. A rank sends nothing before it has begun its node,
//!   and the node ends when the rank has all that is for it and has handed over all that it sends.
//!   Additions take no time.

mod node;

use std::collections::{BTreeMap, HashMap};

use super::Bare;
use super::ends::Ends;
use super::order::Program;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::Shape;
use crate::model::operations::{Does, Once, Operation, Operations};
use node::{Call, Node};

/// The most operations of all ranks.
const MOST: usize = 1 << 23;

/// The processors of a rank: its GPU, its host, what sends and receives, and one for steps without
/// time, which no message delays.
const GPU: u8 = 0;
const HOST: u8 = 1;
const MOVES: u8 = 2;
const STEPS: u8 = 3;

fn processor(does: Does) -> u8 {
    match does {
        Does::Send { .. } | Does::Receive { .. } => MOVES,
        Does::Compute(_) => STEPS,
    }
}

/// The nodes of every rank, with the file that they come from.
type Files = Vec<(String, Vec<Node>)>;

/// Reads a trace: for each rank the name of its file and its bytes. `algorithm` runs the
/// collectives that have one of this name; the others run what [`usual`] says.
///
/// # Errors
/// A file that is no trace; a message or a call that is missing at one end; nodes that wait for each
/// other; a name that none of the collectives has.
pub(super) fn read(
    files: impl IntoIterator<Item = Result<(String, Vec<u8>)>>,
    algorithm: Option<&str>,
) -> Result<Bare> {
    let mut all: Files = Vec::new();
    for file in files {
        let (name, bytes) = file?;
        let nodes = node::nodes(&bytes, &name)?;
        all.push((name, nodes));
    }
    let mut player = Player { files: &all, ..Player::default() };
    player.operations.ranks = all.len() as u32;
    player.nodes()?;
    player.messages()?;
    player.collectives(&Registry::builtin(), algorithm)?;
    player.dependencies()?;
    player.refuse_cycles()?;
    let Player { operations, pairs, .. } = player;
    Ok(Bare { operations, messages: Some(pairs), lines: Vec::new() })
}

/// The algorithm of a collective where none was named.
fn usual(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter => "ring",
        Collective::AllToAll => "pairwise",
        Collective::Barrier => "dissemination",
        _ => "binomial",
    }
}

/// M of a collective whose ranks put in `bytes` each.
fn size(call: &Call, ranks: u32) -> Bytes {
    match call.collective {
        Collective::AllGather | Collective::Gather => {
            Bytes(call.bytes.0.saturating_mul(ranks.into()))
        }
        _ => call.bytes,
    }
}

/// Operations as they are made of nodes.
#[derive(Default)]
struct Player<'a> {
    files: &'a [(String, Vec<Node>)],
    operations: Operations,
    /// For each operation the rank and the position of its node.
    of: Vec<(u32, u32)>,
    /// For each rank and node the operation that begins it, and the one that ends it.
    ends: Vec<Vec<(u32, u32)>>,
    pairs: Vec<(u32, u32)>,
    tags: u32,
}

impl<'a> Player<'a> {
    /// All nodes with their ranks and positions.
    fn all(&self) -> impl Iterator<Item = ((u32, u32), &'a Node)> + use<'a> {
        let files = (0..).zip(self.files);
        files.flat_map(|(rank, (_, nodes))| (0..).zip(nodes).map(move |(i, n)| ((rank, i), n)))
    }

    fn push(&mut self, of: (u32, u32), does: Does, cpu: u8) -> Result<u32> {
        let number = self.operations.list.len();
        if number >= MOST {
            return Err(Error::unsupported(format!("the trace has more than {MOST} operations"))
                .help("give fewer ranks or a shorter part, or another --algorithm"));
        }
        self.operations.list.push(Operation { rank: of.0, does, cpu, nic: 0 });
        self.of.push(of);
        Ok(number as u32)
    }

    /// A message's name among all of the trace.
    fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    fn place(&self, (rank, node): (u32, u32)) -> String {
        let (file, nodes) = &self.files[rank as usize];
        format!("{file}, node {}", nodes[node as usize].id)
    }

    /// One operation for each node; a collective gets a beginning and an end without time.
    fn nodes(&mut self) -> Result<()> {
        for (of, node) in self.all() {
            let pair = match node.does {
                node::Does::Computes { time, on_host } => {
                    let cpu = if on_host { HOST } else { GPU };
                    let one = self.push(of, Does::Compute(time), cpu)?;
                    (one, one)
                }
                node::Does::Sends { to, bytes, .. } => {
                    let one = self.push(of, Does::Send { to, tag: 0, bytes }, MOVES)?;
                    (one, one)
                }
                node::Does::Receives { from, bytes, .. } => {
                    let does = Does::Receive { from: Some(from), tag: Some(0), bytes };
                    let one = self.push(of, does, MOVES)?;
                    (one, one)
                }
                node::Does::Calls(_) => {
                    let gate = Does::Compute(Seconds(0.0));
                    (self.push(of, gate, STEPS)?, self.push(of, gate, STEPS)?)
                }
            };
            match self.ends.get_mut(of.0 as usize) {
                Some(ends) => ends.push(pair),
                None => self.ends.push(vec![pair]),
            }
        }
        Ok(())
    }

    /// Matches sends with receives.
    fn messages(&mut self) -> Result<()> {
        let mut ends = Ends::new();
        let ranks = self.operations.ranks;
        for (of, node) in self.all() {
            let other = match node.does {
                node::Does::Sends { to, tag, bytes } => {
                    ends.send((of.0, to, tag), of, bytes);
                    to
                }
                node::Does::Receives { from, tag, bytes } => {
                    ends.receive((from, of.0, tag), of, bytes);
                    from
                }
                _ => continue,
            };
            if other >= ranks || other == of.0 {
                let what = if other == of.0 { "itself".into() } else { format!("rank {other}") };
                return Err(Error::input(format!(
                    "rank {} sends to or receives from {what}",
                    of.0
                ))
                .at(self.place(of))
                .help(format!("the trace has ranks 0 to {}, a file each", ranks - 1)));
            }
        }
        let pairs = ends.matched().map_err(|odd| match odd.sent_at {
            None => Error::input(odd.what)
                .at(self.place(odd.at))
                .help("give the files of all ranks from one run"),
            Some(sent_at) => Error::input(odd.what)
                .at(format!("{}; {}", self.place(sent_at), self.place(odd.at)))
                .help("write the same comm_size and comm_tag at both ends"),
        })?;
        for (send, receive) in pairs {
            self.pair(self.begin(send), self.begin(receive));
        }
        Ok(())
    }

    fn begin(&self, (rank, node): (u32, u32)) -> u32 {
        self.ends[rank as usize][node as usize].0
    }

    fn end(&self, (rank, node): (u32, u32)) -> u32 {
        self.ends[rank as usize][node as usize].1
    }

    /// Gives a send and its receive a tag of their own.
    fn pair(&mut self, send: u32, receive: u32) {
        let own = self.tag();
        if let Does::Send { tag, .. } = &mut self.operations.list[send as usize].does {
            *tag = own;
        }
        if let Does::Receive { tag, .. } = &mut self.operations.list[receive as usize].does {
            *tag = Some(own);
        }
        self.pairs.push((send, receive));
    }

    /// Matches the calls of each communicator, and lets a schedule run them.
    fn collectives(&mut self, registry: &Registry, algorithm: Option<&str>) -> Result<()> {
        // By communicator and rank, the calls.
        type Calls<'c> = BTreeMap<u32, Vec<(u32, &'c Call)>>;
        let mut groups: BTreeMap<Option<&str>, Calls<'_>> = BTreeMap::new();
        for ((rank, node), what) in self.all() {
            if let node::Does::Calls(call) = &what.does {
                let group = groups.entry(call.group.as_deref()).or_default();
                group.entry(rank).or_default().push((node, call));
            }
        }
        if let Some(everyone) = groups.get_mut(&None) {
            (0..self.operations.ranks).for_each(|rank| {
                everyone.entry(rank).or_default();
            });
        }
        let mut runs = Runs { registry, asked: algorithm, known: HashMap::new(), used: false };
        for (name, calls) in groups {
            let ranks: Vec<u32> = calls.keys().copied().collect();
            let calls: Vec<Vec<(u32, &Call)>> = calls.into_values().collect();
            let name = name.map_or("all ranks".into(), |name| format!("the group `{name}`"));
            let uneven = calls.iter().zip(&ranks).find(|(of, _)| of.len() != calls[0].len());
            if let Some((other, rank)) = uneven {
                let (a, b) = (calls[0].len(), other.len());
                let first = ranks[0];
                return Err(Error::input(format!(
                    "of {name}, rank {first} calls {a} collectives and rank {rank} {b}"
                ))
                .at(self.files[*rank as usize].0.clone())
                .help("give the files of all ranks from one run"));
            }
            for call in 0..calls[0].len() {
                let those: Vec<(u32, &Call)> = calls.iter().map(|of| of[call]).collect();
                self.collective(&mut runs, &ranks, &those)
                    .map_err(|e| e.at(self.place((ranks[0], those[0].0))))?;
            }
        }
        match algorithm {
            Some(name) if !runs.used => {
                Err(Error::input(format!("no collective of the trace has an algorithm `{name}`"))
                    .at(format!("--algorithm {name}"))
                    .help("leave it out; collcost list algorithms prints the names"))
            }
            _ => Ok(()),
        }
    }

    /// One collective: the node and the call of each of the ranks.
    fn collective(
        &mut self,
        runs: &mut Runs<'_>,
        ranks: &[u32],
        calls: &[(u32, &Call)],
    ) -> Result<()> {
        let (_, call) = calls[0];
        if let Some(i) = calls.iter().position(|(_, other)| *other != call) {
            let (node, other) = calls[i];
            return Err(Error::input(format!(
                "here an {} of {} B, and {} B of {} at {}",
                call.collective,
                call.bytes.0,
                other.bytes.0,
                other.collective,
                self.place((ranks[i], node)),
            ))
            .help("the ranks of a group must call the same collectives in the same order"));
        }
        let root = call.root.unwrap_or(ranks[0]);
        let first = ranks.iter().position(|&rank| rank == root).ok_or_else(|| {
            Error::input(format!("the root, rank {root}, is not in the group"))
                .help("root_rank counts the ranks of the trace, as its files do")
        })?;
        // Rank 0 of a schedule is the root.
        let at = |rank: u32| (first + rank as usize) % ranks.len();
        for (&rank, &(node, _)) in ranks.iter().zip(calls) {
            let (begin, end) = (self.begin((rank, node)), self.end((rank, node)));
            self.operations.requires.push((end, begin, Once::Done));
        }
        let Some(parts) = runs.of(call, ranks.len() as u32)? else { return Ok(()) };
        // The send and the receive of each message, by its tag.
        let base = self.operations.list.len() as u32;
        let mut sends: HashMap<u32, u32> = HashMap::new();
        // The last send of each pair: the messages of one pair take turns, as those of a job do.
        let mut last: HashMap<(u32, u32), u32> = HashMap::new();
        for operation in &parts.list {
            let i = at(operation.rank);
            let (rank, node) = (ranks[i], calls[i].0);
            let does = match operation.does {
                Does::Send { to, tag, bytes } => Does::Send { to: ranks[at(to)], tag, bytes },
                Does::Receive { from, tag, bytes } => {
                    Does::Receive { from: from.map(|from| ranks[at(from)]), tag, bytes }
                }
                compute @ Does::Compute(_) => compute,
            };
            let one = self.push((rank, node), does, processor(does))?;
            match operation.does {
                Does::Send { to, tag, .. } => {
                    sends.insert(tag, one);
                    if let Some(before) = last.insert((operation.rank, to), one) {
                        self.operations.requires.push((one, before, Once::Arrived));
                    }
                }
                Does::Receive { tag: Some(tag), .. } => {
                    if let Some(&send) = sends.get(&tag) {
                        self.pair(send, one);
                    }
                }
                Does::Receive { .. } | Does::Compute(_) => {}
            }
            let (begin, end) = (self.begin((rank, node)), self.end((rank, node)));
            self.operations.requires.push((one, begin, Once::Done));
            self.operations.requires.push((end, one, Once::Done));
        }
        let inner =
            parts.requires.iter().map(|&(then, before, once)| (base + then, base + before, once));
        self.operations.requires.extend(inner);
        Ok(())
    }

    /// What each node waits for.
    fn dependencies(&mut self) -> Result<()> {
        for (rank, (file, nodes)) in self.files.iter().enumerate() {
            let mut known: HashMap<u64, u32> = HashMap::with_capacity(nodes.len());
            for (node, i) in nodes.iter().zip(0..) {
                if known.insert(node.id, i).is_some() {
                    return Err(Error::input(format!("two nodes have the number {}", node.id))
                        .at(file.clone())
                        .help("give each node of a file a number of its own"));
                }
            }
            for (node, i) in nodes.iter().zip(0..) {
                for before in &node.after {
                    let Some(&other) = known.get(before) else {
                        return Err(Error::input(format!(
                            "the node waits for node {before}, which the file does not have"
                        ))
                        .at(self.place((rank as u32, i)))
                        .help("give the whole trace, or leave the dependency out"));
                    };
                    let pair = (self.begin((rank as u32, i)), self.end((rank as u32, other)));
                    self.operations.requires.push((pair.0, pair.1, Once::Done));
                }
            }
        }
        Ok(())
    }

    fn refuse_cycles(&self) -> Result<()> {
        let mut program = Program::default();
        self.of.iter().for_each(|_| {
            program.push(0);
        });
        let waits = self.operations.requires.iter().map(|&(then, before, _)| (then, before));
        let arrives = self.pairs.iter().map(|&(send, receive)| (receive, send));
        for (then, before) in waits.chain(arrives) {
            program.require(then as usize, before as usize);
        }
        let Some(cycle) = program.cycle() else { return Ok(()) };
        let mut nodes: Vec<(u32, u32)> = cycle.iter().map(|&i| self.of[i]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let named: Vec<String> = nodes.iter().take(4).map(|&node| self.place(node)).collect();
        Err(Error::input(match nodes.len() {
            1 => "the node waits for itself".to_owned(),
            count => format!("{count} nodes wait for each other"),
        })
        .at(named.join("; "))
        .help("correct the dependencies"))
    }
}

/// What runs collectives: operations by collective, ranks and size.
struct Runs<'a> {
    registry: &'a Registry,
    asked: Option<&'a str>,
    known: HashMap<(Collective, u32, Bytes), std::rc::Rc<Operations>>,
    /// Whether the algorithm that was asked for runs any of them.
    used: bool,
}

impl Runs<'_> {
    /// The operations of a call; none of a group of one rank.
    fn of(&mut self, call: &Call, ranks: u32) -> Result<Option<std::rc::Rc<Operations>>> {
        let algorithm = self.algorithm(call.collective)?;
        if ranks < 2 {
            return Ok(None);
        }
        let key = (call.collective, ranks, call.bytes);
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known.clone()));
        }
        let shape = Shape::new(call.collective, ranks);
        let id = algorithm.meta().id;
        algorithm.applies(&shape).map_err(|why| {
            Error::unsupported(format!("`{id}` does not apply to {ranks} ranks: {why}"))
                .help("choose another --algorithm, or leave it out")
        })?;
        let schedule = algorithm.schedule(&shape).ok_or_else(|| {
            Error::unsupported(format!("`{id}` has no schedule for {ranks} ranks"))
                .help("choose another --algorithm, or leave it out")
        })?;
        // No part has less than a byte.
        let least = Bytes(schedule.parts().into());
        let made = Operations::of(&*schedule, size(call, ranks).max(least), None)?;
        let made = std::rc::Rc::new(made);
        self.known.insert(key, made.clone());
        Ok(Some(made))
    }

    fn algorithm(&mut self, collective: Collective) -> Result<&'static dyn Algorithm> {
        if let Some(found) = self.asked.and_then(|name| self.registry.find(collective, name).ok()) {
            self.used = true;
            return Ok(found.algorithm);
        }
        Ok(self.registry.find(collective, usual(collective))?.algorithm)
    }
}
