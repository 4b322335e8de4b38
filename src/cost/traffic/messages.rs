//! The messages of jobs, and the dependencies of each message.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::file::{Job, Jobs, Played, bytes};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::cost::price::{Prepared, refuse};
use crate::cost::simulate::Mode;
use crate::machine::fabric::{Fabric, Tier};
use crate::machine::graph::routes::Routes;
use crate::machine::graph::{Graph, Node};
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::Shape;
use crate::model::operations::{Does, Once};
use crate::model::schedule::direct::Direct;
use crate::model::schedule::{Endpoint, Schedule, Sends, each_message};

/// The most messages of all jobs together.
const MESSAGES: usize = 1 << 20;

/// The most links on all ways together, where packets take several: some hundred bytes each.
const SPRAYED: usize = 1 << 24;

/// A message, or a gate: a task without bytes or path that others wait for.
#[derive(Debug, Clone, Default)]
pub(super) struct Task {
    pub job: u32,
    pub from: Node,
    pub to: Node,
    pub bytes: f64,
    /// The earliest start.
    pub at: f64,
    pub is_gate: bool,
    /// The time that it waits before it moves, or that a gate takes; and the position of its path
    /// among all links.
    pub wait: f64,
    path: (u32, u32),
    /// The number of tasks that it still waits for.
    pub open: u32,
}

impl Task {
    /// The position of its path: the same for all messages on one path.
    pub fn way(&self) -> u32 {
        self.path.0
    }
}

#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub tasks: Vec<Task>,
    /// The predecessor of each task, and the task that waits for it.
    before: Vec<(u32, u32)>,
    /// By task, the position in `waiting` of the tasks that wait for it.
    starts: Vec<u32>,
    waiting: Vec<u32>,
    links: Vec<u32>,
    /// The share of a message that each of these links carries; empty if each carries all of it.
    shares: Vec<f64>,
    /// For each job the gates of its start and of its end.
    pub gates: Vec<(u32, u32)>,
}

impl Tasks {
    /// The messages of all jobs.
    pub fn of(graph: &Graph, jobs: &Jobs) -> Result<Self> {
        let mut tasks = Self::default();
        let registry = Registry::builtin();
        let nodes: HashMap<&str, Node> = graph.nodes.iter().map(String::as_str).zip(0..).collect();
        let numbers: HashMap<&str, usize> = jobs.names().zip(0..).collect();
        for (number, job) in (0..).zip(&jobs.0) {
            let place = |e: Error| e.within(&format!("job {}", job.name));
            let gate = tasks.gate(number, job.start().map_err(place)?);
            for name in &job.after {
                let other = numbers.get(name.as_str()).copied().unwrap_or(0);
                tasks.after(tasks.gates[other].1, gate);
            }
            match (&job.messages, &job.played) {
                (Some(messages), _) => tasks.messages(number, messages, &nodes),
                (None, Some(played)) => tasks.operations(number, played, graph),
                (None, None) => tasks.collective(number, job, graph, &registry),
            }
            .map_err(place)?;
            tasks.close(number, gate);
        }
        tasks.settle();
        Ok(tasks)
    }

    /// The messages of one schedule over all ranks, as the only job.
    pub fn of_one(graph: &Graph, schedule: &dyn Schedule, size: Bytes) -> Result<Self> {
        if schedule.ranks() != graph.ranks {
            let (a, b) = (schedule.ranks(), graph.ranks);
            return Err(Error::input(format!("a schedule of {a} ranks on a fabric of {b}")));
        }
        let mut tasks = Self::default();
        let gate = tasks.gate(0, 0.0);
        let ranks: Vec<u32> = (0..graph.ranks).collect();
        let each = size.0 as f64 / f64::from(schedule.parts().max(1));
        Rounds { tasks: &mut tasks, job: 0, ranks: &ranks, each, mode: Mode::Flow }
            .write(schedule)?;
        tasks.close(0, gate);
        tasks.settle();
        Ok(tasks)
    }

    /// All tasks since the gate of a job come after the gate and before the job's end.
    fn close(&mut self, job: u32, gate: u32) {
        let last = self.tasks.len() as u32;
        let end = self.gate(job, 0.0);
        self.after(gate, end);
        for task in gate + 1..last {
            self.after(gate, task);
            self.after(task, end);
        }
        self.gates.push((gate, end));
    }

    fn gate(&mut self, job: u32, at: f64) -> u32 {
        self.push(Task { job, at, is_gate: true, ..Task::default() })
    }

    fn push(&mut self, task: Task) -> u32 {
        self.tasks.push(task);
        (self.tasks.len() - 1) as u32
    }

    fn after(&mut self, first: u32, then: u32) {
        self.before.push((first, then));
    }

    /// Sorts the dependencies by predecessor.
    fn settle(&mut self) {
        self.before.sort_unstable();
        self.before.dedup();
        self.starts = vec![0; self.tasks.len() + 1];
        for &(first, then) in &self.before {
            self.starts[first as usize + 1] += 1;
            self.tasks[then as usize].open += 1;
        }
        for i in 1..self.starts.len() {
            self.starts[i] += self.starts[i - 1];
        }
        self.waiting = self.before.drain(..).map(|(_, then)| then).collect();
    }

    /// The positions of the tasks that wait for a task.
    pub fn waiting(&self, task: u32) -> Range<usize> {
        self.starts[task as usize] as usize..self.starts[task as usize + 1] as usize
    }

    /// The task at that position.
    pub fn waits(&self, place: usize) -> u32 {
        self.waiting[place]
    }

    /// The links of a message.
    pub fn path(&self, task: &Task) -> &[u32] {
        &self.links[task.path.0 as usize..task.path.1 as usize]
    }

    /// The share of a message that each of its links carries; empty if each carries all of it.
    pub fn shares(&self, task: &Task) -> &[f64] {
        self.shares.get(task.path.0 as usize..task.path.1 as usize).unwrap_or_default()
    }

    /// Finds each message's path.
    pub fn route(&mut self, graph: &Graph, routes: &mut Routes<'_>) -> Result<()> {
        let mut known: HashMap<(Node, Node), ((u32, u32), f64)> = HashMap::new();
        for task in self.tasks.iter_mut().filter(|task| !task.is_gate) {
            let (path, wait) = match known.get(&(task.from, task.to)) {
                Some(&found) => found,
                None => {
                    let route = routes.route(task.from, task.to)?;
                    let wait = graph.alpha.0 + route.latency.0;
                    let start = self.links.len() as u32;
                    self.links.extend(route.links);
                    self.shares.extend(route.shares.iter().map(|share| share.0));
                    if self.shares.len() > SPRAYED {
                        return Err(Error::unsupported(format!(
                            "the packets of all messages take more than {SPRAYED} links"
                        ))
                        .help("simulate fewer pairs of ranks, or with routing = \"spread\""));
                    }
                    let found = ((start, self.links.len() as u32), wait);
                    known.insert((task.from, task.to), found);
                    found
                }
            };
            (task.path, task.wait) = (path, wait);
        }
        Ok(())
    }

    fn messages(
        &mut self,
        job: u32,
        messages: &[super::file::Message],
        nodes: &HashMap<&str, Node>,
    ) -> Result<()> {
        let mut ids: HashMap<&str, u32> = HashMap::new();
        let first = self.tasks.len() as u32;
        let node = |name: &String| {
            nodes
                .get(name.as_str())
                .copied()
                .ok_or_else(|| Error::input(format!("there is no node `{name}`")))
        };
        for message in messages {
            let task = Task {
                job,
                from: node(&message.from)?,
                to: node(&message.to)?,
                bytes: bytes(&message.bytes)?,
                at: message.at.as_ref().map_or(Ok(0.0), |at| at.seconds("at").map(|s| s.0))?,
                ..Task::default()
            };
            let task = self.push(task);
            if let Some(id) = &message.id
                && ids.insert(id, task).is_some()
            {
                return Err(Error::input(format!("two messages are named `{id}`")));
            }
        }
        for (task, message) in (first..).zip(messages) {
            for id in &message.after {
                let before = ids
                    .get(id.as_str())
                    .ok_or_else(|| Error::input(format!("`{id}` is not a message of this job")))?;
                if *before >= task {
                    return Err(Error::input(format!("a message waits for `{id}`"))
                        .help("a message can only wait for messages before it in the file"));
                }
                self.after(*before, task);
            }
        }
        Ok(())
    }

    /// The operations of ranks. A send is done when it has begun, as eager sends are; a computation
    /// takes its time, and delays only the operations that require it.
    fn operations(&mut self, job: u32, played: &Played, graph: &Graph) -> Result<()> {
        let Played { operations, messages } = played;
        if operations.ranks > graph.ranks {
            let (here, there) = (operations.ranks, graph.ranks);
            return Err(Error::input(format!("{here} ranks on a fabric of {there}"))
                .help("use a fabric with as many ranks"));
        }
        if operations.list.len() > MESSAGES {
            return Err(Error::unsupported(format!("more than {MESSAGES} operations"))
                .help("simulate fewer ranks, or a shorter part"));
        }
        // By operation: when it begins, when it is done, and the message that it sends.
        let mut gates = Vec::with_capacity(operations.list.len());
        for operation in &operations.list {
            let begins = self.gate(job, 0.0);
            let (done, message) = match operation.does {
                Does::Send { to, bytes, .. } => {
                    let (from, bytes) = (operation.rank, bytes.0 as f64);
                    let message = self.push(Task { job, from, to, bytes, ..Task::default() });
                    self.after(begins, message);
                    (begins, message)
                }
                Does::Receive { .. } | Does::Compute(_) => {
                    let done = self.gate(job, 0.0);
                    if let Does::Compute(Seconds(time)) = operation.does {
                        self.tasks[done as usize].wait = time;
                    }
                    self.after(begins, done);
                    (done, done)
                }
            };
            gates.push((begins, done, message));
        }
        for &(then, first, once) in &operations.requires {
            let (begins, done, arrived) = gates[first as usize];
            let before = match once {
                Once::Started => begins,
                Once::Done => done,
                Once::Arrived => arrived,
            };
            self.after(before, gates[then as usize].0);
        }
        for &(send, receive) in messages {
            self.after(gates[send as usize].2, gates[receive as usize].1);
        }
        Ok(())
    }

    fn collective(
        &mut self,
        number: u32,
        job: &Job,
        graph: &Graph,
        registry: &Registry,
    ) -> Result<()> {
        let ranks = job.ranks.clone().unwrap_or_else(|| (0..graph.ranks).collect());
        if let Some(rank) = ranks.iter().find(|rank| **rank >= graph.ranks) {
            return Err(Error::input(format!("there is no rank {rank}"))
                .help(format!("ranks are 0 to {}", graph.ranks - 1)));
        }
        let mut seen = HashSet::new();
        if let Some(rank) = ranks.iter().find(|rank| !seen.insert(**rank)) {
            return Err(Error::input(format!("rank {rank} is listed twice in `ranks`"))
                .help("list each rank of the job once"));
        }
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        if count < 2 {
            return Err(Error::input("a collective needs at least two ranks"));
        }
        let size = job.size.as_ref().ok_or_else(|| {
            Error::input("the job has no size").help("add a size, such as \"16MiB\"")
        })?;
        let mut write = |schedule: &dyn Schedule| {
            let each = bytes(size)? / f64::from(schedule.parts().max(1));
            Rounds { tasks: self, job: number, ranks: &ranks, each, mode: job.mode()? }
                .write(schedule)
        };
        if let Some(list) = &job.list {
            return write(list);
        }
        let name = job.algorithm.as_deref().ok_or_else(|| {
            Error::input("the job has no algorithm").help("add an algorithm, such as \"ring\"")
        })?;
        let collective: Collective = job.collective.as_deref().unwrap_or_default().parse()?;
        if let Some(direct) = (name == "direct").then(|| Direct::new(collective, count)).flatten() {
            return write(&direct);
        }
        let algorithm = registry.find(collective, name)?.algorithm;
        let shape = Shape::new(collective, count);
        let help = "name another algorithm, or other ranks";
        algorithm.applies(&shape).map_err(|why| refuse(algorithm, &why).help(help))?;
        let shape = match algorithm.is_pipelined() {
            true => shape.with_segments(segments(algorithm, &shape, graph, bytes(size)?)?),
            false => shape,
        };
        let schedule = algorithm.schedule(&shape).ok_or_else(|| {
            let id = algorithm.meta().id;
            Error::unsupported(format!("`{id}` has no schedule for {count} ranks"))
        })?;
        write(&*schedule)
    }
}

/// The best number of segments over equal links: as fast as the slowest rank's together, and with the latency of two.
fn segments(algorithm: &dyn Algorithm, shape: &Shape, graph: &Graph, size: f64) -> Result<u32> {
    let latency = graph.links.iter().map(|link| link.latency.0).fold(0.0, f64::max);
    let mut rates = vec![0.0; graph.ranks as usize];
    for link in &graph.links {
        if let Some(rate) = rates.get_mut(link.from as usize) {
            *rate += link.rate.bandwidth().0;
        }
    }
    let rate = rates.into_iter().fold(f64::INFINITY, f64::min);
    let alpha = Seconds(graph.alpha.0 + 2.0 * latency);
    let links = Fabric::new(vec![Tier::new("links", alpha, Bandwidth(rate))]);
    let price = Prepared::new(algorithm, shape, &links)?.price(Volume(size));
    // A rank passes every segment on.
    let most = (MESSAGES / 2 / shape.ranks as usize).max(1);
    Ok(price.segments.min(MOST_SEGMENTS).min(u32::try_from(most).unwrap_or(u32::MAX)))
}

/// The most segments of a pipeline: those in which NCCL's rings send a large call.
const MOST_SEGMENTS: u32 = 64;

/// A schedule as messages.
struct Rounds<'a> {
    tasks: &'a mut Tasks,
    job: u32,
    ranks: &'a [u32],
    /// The bytes of a chunk.
    each: f64,
    mode: Mode,
}

impl Rounds<'_> {
    fn write(self, schedule: &dyn Schedule) -> Result<()> {
        let n = self.ranks.len();
        let mut sends = Sends::default();
        // The writers of a chunk at a rank, the last message of a pair, and a rank's last round.
        let mut writers: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        let mut written: Vec<((u32, u32), u32)> = Vec::new();
        let mut pairs: HashMap<(u32, u32), u32> = HashMap::new();
        let mut did: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut doing: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut barrier: Option<u32> = None;
        for round in 0..schedule.rounds() {
            let first = self.tasks.tasks.len() as u32;
            each_message(schedule, round, &mut sends, |from, message| {
                let (Endpoint::Rank(s), Endpoint::Rank(t)) = (from, message.to) else {
                    return Err(Error::unsupported("the schedule has its own switches")
                        .help("use an algorithm in which ranks send to ranks"));
                };
                let chunks: u32 = message.runs.iter().map(|run| run.len).sum();
                let task = self.tasks.push(Task {
                    job: self.job,
                    from: self.ranks[s as usize],
                    to: self.ranks[t as usize],
                    bytes: self.each * f64::from(chunks),
                    ..Task::default()
                });
                if task as usize > MESSAGES {
                    return Err(Error::unsupported(format!("more than {MESSAGES} messages"))
                        .help("simulate fewer ranks, or a size with fewer segments"));
                }
                match self.mode {
                    Mode::Flow => {
                        for chunk in message.runs.iter().flat_map(|run| run.chunks()) {
                            for &before in writers.get(&(s, chunk)).into_iter().flatten() {
                                self.tasks.after(before, task);
                            }
                            written.push(((t, chunk), task));
                        }
                        if let Some(before) = pairs.insert((s, t), task) {
                            self.tasks.after(before, task);
                        }
                    }
                    Mode::Local => {
                        for end in [s, t] {
                            for &before in &did[end as usize] {
                                self.tasks.after(before, task);
                            }
                            doing[end as usize].push(task);
                        }
                    }
                    Mode::Sync => {
                        if let Some(barrier) = barrier {
                            self.tasks.after(barrier, task);
                        }
                    }
                }
                Ok(())
            })?;
            for (place, task) in written.drain(..) {
                writers.entry(place).or_default().push(task);
            }
            for (did, doing) in did.iter_mut().zip(&mut doing).filter(|(_, d)| !d.is_empty()) {
                std::mem::swap(did, doing);
                doing.clear();
            }
            let last = self.tasks.tasks.len() as u32;
            if self.mode == Mode::Sync && last > first {
                let gate = self.tasks.gate(self.job, 0.0);
                (first..last).for_each(|task| self.tasks.after(task, gate));
                barrier = Some(gate);
            }
        }
        Ok(())
    }
}
