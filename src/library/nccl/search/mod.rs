//! The graphs that NCCL's search finds on a machine: rings, trees, heads of NVLS and of in-network
//! reduction.
//!
//! ```text
//! Description ──► World: system, paths, limits ──► Searcher, once a graph ──► Found ──► Communicator
//! ```
//!
//! The search is depth-first with a budget of steps. Its first solution is seldom its last, and the
//! order of every step decides which solution it ends with. Therefore it repeats NCCL's search
//! exactly, float32 operation by operation, and skips nothing that NCCL would try.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`]: `src/graph/search.cc`, `src/graph/paths.cc`,
//! `src/init.cc`.

mod channels;
mod found;
mod heads;
mod order;
mod outer;
mod routes;
mod searcher;
mod speeds;
mod starts;
mod trial;
mod world;

use std::thread;

use super::topology::{Description, Kind, Knobs, draw, most_channels};
use super::{Communicator, Gbps, Version, since};
use crate::base::error::{Error, Result};
use outer::{MOST_WAYS, Wanted, compute};
use searcher::Searcher;
use trial::{Pattern, Trial};
use world::World;

pub use found::{Attempt, Channel, Device, Found, Searched};

/// How many GPUs of a machine a job uses, and on how many such machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Nodes; all are alike.
    pub nodes: u32,
    /// Ranks on each node; if absent, as many as the description has.
    pub per_node: Option<u32>,
}

/// The stack size for the deepest search, which is as deep as its budget: 16,384 arrivals.
const STACK: usize = 64 << 20;

/// Up to this product of GPUs and channels any stack is large enough.
const SHALLOW: usize = 1024;

/// Searches for the graphs of a job on machines of one kind.
///
/// # Errors
/// The errors of [`Description::with_gpus`]; more ranks than [`Communicator::MOST_RANKS`]; several
/// nodes and no NIC; links that contradict each other; a machine that is too large for the version,
/// or for a search in reasonable time.
pub fn search(
    description: &Description,
    version: Version,
    job: Job,
    knobs: &Knobs,
) -> Result<Searched> {
    let (world, Job { nodes, .. }) = world(description, version, job, knobs)?;
    if world.gpus() * most_channels(version) <= SHALLOW {
        return graphs(world, nodes);
    }
    let deep = thread::Builder::new().stack_size(STACK);
    let lost = || Error::environment("cannot start a thread for the search");
    thread::scope(|scope| {
        let deep = deep.spawn_scoped(scope, || graphs(world, nodes));
        deep.map_err(|_| lost())?.join().map_err(|_| lost())?
    })
}

/// The machine as NCCL prints it in its log before it searches: nodes, links and paths, one per
/// line.
///
/// # Errors
/// The errors of [`search`].
pub fn picture(
    description: &Description,
    version: Version,
    job: Job,
    knobs: &Knobs,
) -> Result<Vec<String>> {
    let (world, _) = world(description, version, job, knobs)?;
    Ok(draw(&world.system, &world.paths, (world.most, world.total)))
}

/// The job's ranks' view of their node, and the number of such nodes for them.
fn world(
    description: &Description,
    version: Version,
    job: Job,
    knobs: &Knobs,
) -> Result<(World, Job)> {
    let description = description.with_gpus(job.per_node)?;
    let per_node = description.ranks();
    let view = knobs.seen.view(&description, version)?;
    if job.nodes == 0 {
        return Err(Error::input("a job runs on at least one node").help("give --nodes 1 or more"));
    }
    let ranks = per_node as u64 * u64::from(job.nodes);
    if ranks > u64::from(Communicator::MOST_RANKS) {
        return Err(Communicator::too_many(ranks));
    }
    let world = World::new(&view.description, version, ranks, knobs.clone())?;
    // GPUs that reach each other only over the network are separate nodes.
    let seen = world.gpus() as u64;
    let on_a_host = (per_node / view.nodes as usize) as u64;
    if !ranks.is_multiple_of(seen) || !on_a_host.is_multiple_of(seen) {
        let what = format!(
            "{seen} of the {per_node} GPUs of a node reach each other: nodes differ in size"
        );
        return Err(Error::unsupported(what)
            .at(&description.origin)
            .help("remove what separates them, or use fewer GPUs of each node"));
    }
    let nodes = (ranks / seen) as u32;
    Ok((world, Job { nodes, per_node: Some(seen as u32) }))
}

/// The graphs, in NCCL's order: the searches leave traces on links from one graph to the next.
fn graphs(mut world: World, nodes: u32) -> Result<Searched> {
    let version = world.version();
    let (room, gpus) = (most_channels(version), world.gpus());
    let start = world.knobs.start;
    let least = if version.has(since::NVLS_TWO_GPUS) { 2 } else { 3 };
    let home = !world.inter || !version.has(since::NVLS_ONE_NODE);
    let able = world.has_switch() && world.min_cc >= 90 || start.forces_nvls();
    let nvls = start.nvls() && able && gpus >= least && home;
    // On one node NICs remain if the version keeps them.
    let nets = 0..world.nets();
    let collnet =
        start.collnet(version) && nets.into_iter().any(|net| world.system.net(net).collective);
    let slowest_nic = slowest_nic(&mut world);
    let mut searcher = Searcher::new(world)?;
    let wanted = |id, pattern, collnet, channels| Wanted { id, pattern, collnet, channels };
    let ring = compute(&mut searcher, wanted(0, Pattern::Ring, false, (1, room / 2)));
    let both = (ring.channels, ring.channels);
    let tree = compute(&mut searcher, wanted(1, Pattern::BalancedTree, false, both));
    let chain = collnet.then(|| compute(&mut searcher, wanted(2, Pattern::Tree, true, both)));
    let direct = (collnet && version.has(since::DIRECT_GRAPH))
        .then(|| compute(&mut searcher, wanted(4, Pattern::CollnetDirect, true, (1, room))));
    let nvls = nvls.then(|| compute(&mut searcher, wanted(3, Pattern::Nvls, false, (1, room))));
    if searcher.ways > MOST_WAYS {
        let what = "the search takes longer than for any existing machine";
        return Err(Error::unsupported(what)
            .at(&searcher.world.system.origin)
            .help("describe one node, or fewer of its GPUs and NICs"));
    }
    let found = |trial: Option<Trial>, pattern| found::found(&searcher.world, trial, pattern);
    let direct = if version.has(since::DIRECT_GRAPH) { direct } else { chain.clone() };
    Ok(Searched {
        version,
        nodes,
        per_node: gpus as u32,
        inter: searcher.world.inter,
        devices: found::devices(&searcher.world),
        min_cc: searcher.world.min_cc,
        max_cc: searcher.world.max_cc,
        processor: found::processor(&searcher.world),
        nvswitch: searcher.world.system.count(Kind::Nvs) > 0,
        nvls: nvls.is_some(),
        collnet,
        start,
        slowest_nic,
        ring: found(Some(ring), 4),
        tree: found(Some(tree), 1),
        collnet_direct: found(direct, if version.has(since::DIRECT_GRAPH) { 6 } else { 0 }),
        collnet_chain: found(chain, 3),
        nvls_graph: found(nvls, 5),
        steps: searcher.steps,
        attempts: std::mem::take(&mut searcher.attempts),
    })
}

/// The rate of the slowest NIC that GPUs use, on the path from them; `None` on one node.
fn slowest_nic(world: &mut World) -> Option<Gbps> {
    if !world.inter {
        return None;
    }
    let mut slowest = f32::INFINITY;
    for gpu in 0..world.gpus() {
        let node = world.system.of(Kind::Gpu)[gpu];
        for net in order::own_nics(world, gpu) {
            slowest = slowest.min(world.paths.get(node, Kind::Net, net).rate);
        }
    }
    Some(Gbps(if slowest.is_finite() { slowest } else { 0.0 }))
}
