//! What launchers print besides the tables: how many ranks of which program they started.
//!
//! ```text
//! $ mpirun -np 8 … ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1
//! $ mpirun -np 64 --map-by ppr:8:node … osu_allreduce                             on 8 nodes
//! $ mpirun -np 8 --map-by node -H a:8,b:8 … osu_allreduce                         on 2 nodes, not on 1
//! $ mpirun -n 2 … osu_allreduce : -n 6 … osu_allreduce                            8 ranks
//! $ srun -N2 --ntasks-per-node=4 … osu_alltoall
//! {"resources": [{"type": "node", "count": 128, "with": […]}], "tasks": […]}      Flux, at the end
//! ```
//!
//! Source: `orte/mca/rmaps/round_robin/rmaps_rr_mappers.c` of open-mpi/ompi v4.1.x, and its successor in openpmix/prrte.

use std::collections::BTreeMap;

use super::draft::Draft;
use crate::base::collective::Collective;

/// A longer text is not a command.
const LONGEST: usize = 1 << 15;

/// What the last command said.
#[derive(Debug, Clone, Default)]
pub(super) struct Command {
    /// The benchmark's file without its folder.
    pub program: String,
    /// Processes that were started.
    pub processes: Option<u32>,
    /// The nodes that they were started on.
    pub nodes: Option<u32>,
    /// Numbers of processes on each node, if options contradict each other: the nodes are not known then.
    contrary: Option<(u32, u32)>,
    /// Whether an option places ranks otherwise than one full node after another.
    scattered: bool,
    /// Whether its output was read to the end.
    pub has_ended: bool,
    /// The arguments after the program.
    pub arguments: Vec<String>,
}

impl Command {
    /// The nodes of the first `ranks` processes: launchers fill one node after another unless an option
    /// says otherwise.
    pub fn nodes_of(&self, ranks: u32) -> Option<u32> {
        let (all, nodes) = (self.processes?, self.nodes?);
        if ranks == all {
            return Some(nodes);
        }
        let known = ranks < all && all.is_multiple_of(nodes) && !self.scattered;
        let some = known.then(|| ranks.div_ceil(all / nodes))?;
        // Nodes with unequal numbers of ranks are no layout.
        ranks.is_multiple_of(some).then_some(some)
    }

    /// That options contradict each other, in words.
    pub fn unclear(&self) -> Option<String> {
        let (one, other) = self.contrary?;
        Some(format!(
            "the command puts {one} processes on each node by one option and {other} by another: --nodes says on how many \
             they ran"
        ))
    }

    /// The number after an argument such as `-g`.
    pub fn argument(&self, names: &[&str]) -> Option<u32> {
        let at = self.arguments.iter().position(|a| names.contains(&a.as_str()))?;
        self.arguments.get(at + 1)?.parse().ok()
    }
}

/// Whether a line says that a benchmark ended with an error: nccl-tests' own (`NCCLCHECK`, `CUDACHECK` and `TESTCHECK` in
/// src/common.h of NVIDIA/nccl-tests), Slurm's, Open MPI's and MPICH's.
fn is_failure(text: &str) -> bool {
    let of_test = text
        .split_once("Test ")
        .and_then(|(_, behind)| behind.split_once("failure "))
        .is_some_and(|(kind, place)| {
            matches!(kind, "" | "NCCL " | "CUDA " | "MPI ") && place.contains(".cu:")
        });
    of_test
        || text.contains("srun: error: ")
            && [": task ", ": tasks "].iter().any(|of| text.contains(of))
        || text.contains(" noticed that process rank ")
        || text.contains("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES")
}

/// Reads launchers' lines.
#[derive(Debug, Default)]
pub(super) struct Launcher {
    /// The command whose output follows.
    pub command: Option<Command>,
    /// Lines of a command that continues.
    open: String,
    /// Tables that an earlier job description covered.
    described: usize,
}

impl Launcher {
    /// Reads a line outside tables, and returns the whole command that it ends, if it starts a benchmark.
    pub fn take(&mut self, text: &str, tables: &mut [Draft]) -> Option<String> {
        if is_failure(text) {
            // A table of nccl-tests that has ended is of a run before.
            let open = |draft: &&mut Draft| draft.format != "nccl-tests" || draft.unended;
            tables.last_mut().into_iter().filter(open).for_each(|draft| draft.broke(text));
            return None;
        }
        if text.starts_with('{') {
            if text.contains("\"resources\"") && text.contains("\"tasks\"") {
                self.job(text, tables);
            }
            return None;
        }
        if !self.open.is_empty() && self.open.len() < LONGEST {
            self.open.push(' ');
            self.open.push_str(text);
            if self.open.ends_with('\\') {
                return None;
            }
            let whole = std::mem::take(&mut self.open).replace('\\', " ");
            return self.command(&whole).then_some(whole);
        }
        self.open.clear();
        if text.ends_with('\\') {
            if STARTERS.iter().any(|s| text.contains(s)) {
                text.clone_into(&mut self.open);
            }
        } else if may_name_program(text) && self.command(text) {
            return Some(text.to_owned());
        }
        None
    }

    /// Reads a command; whether it starts a benchmark, and does not repeat the last one.
    fn command(&mut self, text: &str) -> bool {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
        let is_program = |word: &&str| {
            let name = name(word);
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
            let known = name.starts_with("osu_")
                || name.starts_with("IMB-")
                || matches!(name.as_str(), "nccom-test" | "ucc_perftest")
                || is_hccl_test(&name)
                || is_nvshmem_test(&name)
                || name.trim_end_matches("_mpi").ends_with("_perf");
            plain && known
        };
        let Some(at) = words.iter().position(is_program) else { return false };
        let before = &words[..at];
        let starter = before.iter().rposition(|word| {
            let name = name(word);
            STARTERS.iter().any(|s| name == s.trim_end())
        });
        let options = starter.map_or(&[][..], |s| &before[s + 1..]);
        let (program, after) = (name(words[at]), &words[at + 1..]);
        let end = starter.and_then(|_| after.iter().position(|word| *word == ":"));
        let (processes, nodes, contrary) = match (starter, end) {
            (None, _) => Started::default(),
            (Some(s), None) => started(&name(before[s]), options),
            // Parts of one program run together; each has a number of processes.
            (Some(s), Some(end)) => {
                let others = after[end + 1..].split(|word| *word == ":").map(|part| {
                    let at = part.iter().position(is_program)?;
                    let same = name(part[at]) == program;
                    started(&name(before[s]), &part[..at]).0.filter(|_| same)
                });
                let first = started(&name(before[s]), options).0;
                (others.fold(first, |all, part| all?.checked_add(part?)), None, None)
            }
        };
        let command = Command {
            program,
            processes,
            nodes,
            contrary,
            scattered: placing(options) != Placing::Filling
                || options.iter().any(|option| reorders(option)),
            has_ended: false,
            arguments: after[..end.unwrap_or(after.len())].iter().map(|&w| w.to_owned()).collect(),
        };
        // IMB prints its own command again, without the launcher.
        let is_again = |known: &Command| {
            starter.is_none()
                && known.program == command.program
                && known.arguments.starts_with(&command.arguments)
        };
        if self.command.as_ref().is_some_and(is_again) {
            return false;
        }
        self.command = Some(command);
        true
    }

    /// A job as Flux describes it after its output.
    fn job(&mut self, text: &str, tables: &mut [Draft]) {
        let Some((ranks, nodes)) = flux(text) else { return };
        for table in tables.iter_mut().skip(self.described) {
            table.nodes = table.nodes.or(Some(nodes));
            table.ranks.push((ranks, "job description"));
        }
        self.described = tables.len();
    }
}

const STARTERS: &[&str] = &[
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun_rsh",
    "srun",
    "orterun",
    "prterun",
    "prun",
    "flux",
    "ibrun",
    "aprun",
    "jsrun",
];

/// Whether a program is one of HCCL's tests: `all_reduce_test`.
pub(super) fn is_hccl_test(name: &str) -> bool {
    let of = name.strip_suffix("_test").map(str::parse::<Collective>);
    matches!(of, Some(Ok(_)))
}

/// Whether a program is one of NVSHMEM's tests of collectives: `fcollect_latency`, `reduction_on_stream`.
pub(super) fn is_nvshmem_test(name: &str) -> bool {
    const TESTS: [&str; 6] =
        ["alltoall", "bcast", "broadcast", "fcollect", "reduction", "reducescatter"];
    TESTS.iter().any(|test| {
        let end = name.strip_prefix(test);
        end.is_some_and(|end| end.starts_with("_latency") || end.starts_with("_on_stream"))
    })
}

/// Whether a line may contain a benchmark's name: one pass over its bytes, as most lines have none.
fn may_name_program(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(i, b)| match b {
        b'_' => {
            let behind = &bytes[i + 1..];
            [&b"perf"[..], b"test", b"latency", b"on_stream"]
                .iter()
                .any(|end| behind.starts_with(end))
                || bytes[..i].ends_with(b"osu")
        }
        b'-' => bytes[..i].ends_with(b"IMB") || bytes[..i].ends_with(b"nccom"),
        _ => false,
    })
}

/// What a launcher's options say: the numbers of processes and of nodes, and two numbers of processes on each node that
/// contradict each other.
type Started = (Option<u32>, Option<u32>, Option<(u32, u32)>);

fn started(starter: &str, options: &[&str]) -> Started {
    // Several programs started together have one number each.
    if options.contains(&":") {
        return (None, None, None);
    }
    let value =
        |names: &[&str]| read(options, names, |text| text.parse().ok().filter(|&n: &u32| n > 0));
    if matches!(starter, "srun" | "flux") {
        let nodes = value(&["-N", "--nodes"]);
        let each = value(&["--ntasks-per-node", "--tasks-per-node"]);
        let all = value(&["-n", "--ntasks"]).or_else(|| nodes?.checked_mul(each?));
        return (all, nodes.or_else(|| full_nodes(all?, each?)), None);
    }
    if starter == "jsrun" {
        // Resource sets, each with so many tasks, and so many of them on a host.
        let (sets, tasks) = (value(&["-n", "--nrs"]), value(&["-a", "--tasks_per_rs"]));
        let all = value(&["-p", "--np"]).or_else(|| sets?.checked_mul(tasks?));
        let each = value(&["-r", "--rs_per_host"]);
        return (all, sets.zip(each).and_then(|(sets, each)| full_nodes(sets, each)), None);
    }
    // `-N` of Open MPI and aprun is a number of processes, not of nodes.
    let each = value(&["-npernode", "--npernode", "-N", "-ppn", "--ppn", "-perhost"]);
    let mapped = read(options, MAPPING, ranks_per_node);
    let contrary = each.zip(mapped).filter(|(each, mapped)| each != mapped);
    let each = each.or(mapped);
    let hosts = || read(options, &["-H", "-host", "--host", "-hosts"], Hosts::named);
    let all = value(&["-np", "--np", "-n", "--n"]);
    let nodes = all.filter(|_| contrary.is_none()).and_then(|all| match each {
        Some(each) => full_nodes(all, each),
        None => hosts()?.taken(all, placing(options)),
    });
    (all, nodes, contrary)
}

/// What follows one of the options `names`, if `of` can read it.
fn read<T>(options: &[&str], names: &[&str], of: impl Fn(&str) -> Option<T>) -> Option<T> {
    options.iter().enumerate().find_map(|(i, option)| {
        names.iter().find_map(|name| {
            if option == name {
                return of(options.get(i + 1)?);
            }
            let rest = option.strip_prefix(name)?;
            // `-N2` is srun's; `-npernode` is not `-np`.
            let rest = if name.starts_with("--") { rest.strip_prefix('=')? } else { rest };
            of(rest)
        })
    })
}

/// Hosts with the same number of slots, as `-H a:36,b:36` of Open MPI and Hydra names them.
#[derive(Debug, Clone, Copy)]
struct Hosts {
    count: u32,
    slots: u32,
}

impl Hosts {
    fn named(list: &str) -> Option<Self> {
        let mut slots: BTreeMap<&str, u32> = BTreeMap::new();
        for host in list.split(',') {
            let (name, own) = host.split_once(':')?;
            let all = slots.entry(name).or_default();
            *all = all.checked_add(own.parse().ok()?)?;
        }
        let first = *slots.values().next().filter(|&&n| n > 0)?;
        let alike = slots.values().all(|&other| other == first);
        alike.then_some(Self { count: slots.len() as u32, slots: first })
    }

    /// How many of them `all` processes are started on; none if some would have fewer.
    fn taken(self, all: u32, placing: Placing) -> Option<u32> {
        let Self { count, slots } = self;
        let nodes = match placing {
            // More than there are slots for are divided evenly.
            _ if u64::from(all) >= u64::from(count) * u64::from(slots) => count,
            Placing::Filling => return full_nodes(all, slots),
            Placing::InTurn => count.min(all),
            Placing::Spanning => return None,
        };
        all.is_multiple_of(nodes).then_some(nodes)
    }
}

/// How a launcher places ranks on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placing {
    /// One full node after another.
    Filling,
    /// One on each node in turn.
    InTurn,
    /// One on each core or cache of all nodes in turn: only the machine knows how many a node has.
    Spanning,
}

/// Where Open MPI takes its way of mapping from.
const MAPPING: &[&str] = &["--map-by", "-map-by", "rmaps_base_mapping_policy"];

/// `node` and `:span` of `--map-by`, `--bynode`, Hydra's `-rr`.
fn placing(options: &[&str]) -> Placing {
    let mapping =
        read(options, MAPPING, |text| Some(text.to_ascii_lowercase())).unwrap_or_default();
    let mut words = mapping.split([':', ',']);
    let by_node = words.next() == Some("node")
        || options.iter().any(|option| matches!(*option, "-bynode" | "--bynode" | "-rr"));
    match by_node {
        true => Placing::InTurn,
        // Mapping by slot does not look at it.
        false if !mapping.starts_with("slot") && words.any(|word| word == "span") => {
            Placing::Spanning
        }
        false => Placing::Filling,
    }
}

/// Options that number ranks otherwise than node after node: `cyclic` and `plane=` of srun's `-m`, `--rank-by`.
fn reorders(option: &str) -> bool {
    ["cyclic", "plane", "rank-by"].iter().any(|word| option.contains(word))
}

/// `8` in Open MPI's `ppr:8:node` and `ppr:8:node:PE=2`.
fn ranks_per_node(mapped: &str) -> Option<u32> {
    let (each, object) = mapped.strip_prefix("ppr:")?.split_once(':')?;
    let object = object.split([':', ',']).next();
    each.parse().ok().filter(|&n| n > 0 && object == Some("node"))
}

/// The nodes of that many processes, `each` on one; none if the last node would have fewer.
fn full_nodes(all: u32, each: u32) -> Option<u32> {
    (all <= each || all.is_multiple_of(each)).then(|| all.div_ceil(each))
}

/// Ranks and nodes of a Flux jobspec of version 1.
fn flux(text: &str) -> Option<(u32, u32)> {
    let job: serde_json::Value = serde_json::from_str(text).ok()?;
    let (mut slots, mut nodes) = (1_u64, 1_u64);
    let mut level = job["resources"].get(0)?;
    loop {
        let count = level["count"].as_u64()?;
        let kind = level["type"].as_str()?;
        if kind == "node" {
            nodes = count;
        }
        slots = slots.checked_mul(count)?;
        if kind == "slot" {
            break;
        }
        level = level["with"].get(0)?;
    }
    let task = &job["tasks"].get(0)?["count"];
    let ranks = match (task["per_slot"].as_u64(), task["total"].as_u64()) {
        (Some(each), _) => slots.checked_mul(each)?,
        (None, total) => total?,
    };
    Some((u32::try_from(ranks).ok().filter(|&n| n > 0)?, u32::try_from(nodes).ok()?))
}

/// The collective that a program of nccl-tests runs: `all_reduce_perf`, `alltoall_perf_mpi`.
pub(super) fn perf(program: &str) -> Option<Collective> {
    let name = program.strip_suffix("_mpi").unwrap_or(program).strip_suffix("_perf")?;
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<(String, Option<u32>)> {
        let mut launcher = Launcher::default();
        text.lines().for_each(|line| drop(launcher.take(line, &mut [])));
        launcher.command.map(|c| (c.program, c.processes))
    }

    #[test]
    fn commands_tell_processes_and_program() {
        for (text, program, processes) in [
            ("$ mpirun -np 8 --mca pml ob1 ./build/all_reduce_perf -n 20", "all_reduce_perf", 8),
            (
                "> mpirun -v \\\n>   -np 16 \\\n>  -npernode 8 \\\n> /opt/broadcast_perf_mpi",
                "broadcast_perf_mpi",
                16,
            ),
            ("~> mpiexec -n 6 -ppn 6 /x/osu_allreduce -m 2048:2048 -i 10000", "osu_allreduce", 6),
            ("srun -N2 --ntasks-per-node=4 --mpi=pmi2 ./osu_alltoall", "osu_alltoall", 8),
            ("srun --ntasks=32 IMB-MPI1 Allreduce", "IMB-MPI1", 32),
            ("mpirun_rsh --export-all -np 144 -hostfile h ./osu_allreduce", "osu_allreduce", 144),
            ("ibrun -n 144 ./osu_allreduce", "osu_allreduce", 144),
            ("flux run -N4 -n144 ./osu_allreduce", "osu_allreduce", 144),
            ("jsrun -n 24 -a 6 -c 6 ./osu_allreduce", "osu_allreduce", 144),
        ] {
            assert_eq!(told(text), Some((program.to_owned(), Some(processes))), "{text}");
        }
        assert_eq!(told("nccom-test -r 2 allr"), Some(("nccom-test".into(), None)));
        assert_eq!(told("mpirun -np 4 python run.py"), None);
        let two = told("mpirun -np 2 a : -np 4 ./all_reduce_perf").unwrap();
        assert_eq!(two.1, None);
    }

    #[test]
    fn parts_of_one_program_add_up() {
        for (text, expected) in [
            ("mpirun -n 2 ./osu_allreduce : -n 6 ./osu_allreduce", Some(8)),
            (
                "mpirun -n 2 ./osu_allreduce -i 9 : -n 2 x/osu_allreduce : -n 1 osu_allreduce",
                Some(5),
            ),
            ("mpiexec -host a -n 4 ./osu_allreduce : -host b -n 4 ./osu_allreduce", Some(8)),
            ("aprun -n 64 -N 32 ./osu_allreduce : -n 8 ./x", None),
            ("mpirun -n 2 ./osu_allreduce : ./osu_allreduce", None),
            ("mpirun --n 8 ./osu_allreduce", Some(8)),
            ("mpirun --n=8 ./osu_allreduce", Some(8)),
            ("mpirun -H a,b,c,d ./osu_allreduce", None),
        ] {
            assert_eq!(told(text).unwrap().1, expected, "{text}");
        }
        let mut launcher = Launcher::default();
        launcher.take("mpirun -n 4 -N 2 ./osu_latency -i 9 : -n 4 -N 2 ./osu_latency", &mut []);
        let command = launcher.command.unwrap();
        assert_eq!((command.nodes, command.argument(&["-i"])), (None, Some(9)));
        assert_eq!(command.arguments, ["-i", "9"]);
    }

    #[test]
    fn commands_tell_nodes() {
        let nodes = |text: &str| {
            let mut launcher = Launcher::default();
            launcher.take(text, &mut []);
            launcher.command.unwrap().nodes
        };
        for (options, expected) in [
            ("mpirun -np 64 --map-by ppr:8:node", Some(8)),
            ("mpirun --map-by=ppr:4:node:PE=2 -n 8", Some(2)),
            ("mpirun -np 2 -map-by ppr:8:node", Some(1)),
            ("mpirun -np 64 --map-by ppr:4:socket", None),
            ("mpirun -np 64 --map-by node", None),
            ("mpirun -np 9 --map-by ppr:8:node", None),
            ("mpirun -np 8 --map-by ppr:0:node", None),
            ("mpirun -np 16 -npernode 8", Some(2)),
            ("mpiexec -n 6 -ppn 3", Some(2)),
            ("mpirun -np 64", None),
            ("srun -N2 --ntasks-per-node=4", Some(2)),
            ("srun -N 2 -n 8", Some(2)),
            ("srun -n 8 --ntasks-per-node=4", Some(2)),
            ("srun -n 8", None),
            ("flux run -N 4 -n 144", Some(4)),
            ("flux run -n 144 --tasks-per-node=36", Some(4)),
            ("aprun -n 144 -N 36", Some(4)),
            ("jsrun --nrs 24 --tasks_per_rs 6 --rs_per_host 6", Some(4)),
            ("prun -n 144 --map-by ppr:36:node", Some(4)),
            ("mpirun -np 144 -H a:36,b:36,c:36,d:36", Some(4)),
            ("mpirun -np 64 --host a:36,b:28", None),
            ("mpirun -np 8 -H a:8,b:8", Some(1)),
            ("mpirun -np 8 --map-by slot:PE=2 -H a:8,b:8", Some(1)),
            ("mpirun -np 8 --map-by node -H a:8,b:8", Some(2)),
            ("mpirun -np 8 -bynode -host a:8,b:8", Some(2)),
            ("mpirun -np 8 --mca rmaps_base_mapping_policy node -H a:8,b:8", Some(2)),
            ("mpirun -np 4 --map-by=node:PE=4 -H a:4,b:4,c:4,d:4", Some(4)),
            ("mpiexec -n 8 -rr -hosts a:8,b:8", Some(2)),
            ("mpirun -np 9 --map-by node -H a:8,b:8", None),
            ("mpirun -np 2 --map-by node -H a:8,b:8,c:8", Some(2)),
            ("mpirun -np 8 --map-by core:SPAN -H a:8,b:8", None),
            ("mpirun -np 16 --map-by core:SPAN -H a:8,b:8", Some(2)),
            ("mpirun -np 8 --map-by slot:span -H a:8,b:8", Some(1)),
            ("mpirun -np 16 --oversubscribe -H a:4,b:4", Some(2)),
            ("mpirun -np 64 --map-by node -npernode 8 -H a:64,b:64", Some(8)),
            ("mpirun -np 8 --map-by ppr:4:node -H a:8,b:8", Some(2)),
            ("mpirun -np 16 -H a:4,a:4,b:8", Some(2)),
            ("mpirun -np 2 -H a,b", None),
            // They contradict each other.
            ("mpirun -np 2 -N 2 -map-by ppr:1:node", None),
            ("mpirun -np 16 -npernode 8 --map-by ppr:8:node", Some(2)),
        ] {
            assert_eq!(nodes(&format!("$ {options} ./osu_allreduce")), expected, "{options}");
        }
        // IMB prints its own command; another program or other arguments are another run.
        let again = |text: &str| {
            let mut launcher = Launcher::default();
            launcher.take("$ mpirun -n 144 -N 36 /x/IMB-MPI1 -npmin 144 allreduce > log", &mut []);
            launcher.take(text, &mut []);
            launcher.command.unwrap().nodes
        };
        assert_eq!(again("# /x/IMB-MPI1 -npmin 144 allreduce"), Some(4));
        assert_eq!(again("# /x/IMB-MPI1 -npmin 2 allreduce"), None);
        assert_eq!(again("./osu_allreduce"), None);
        let first = |options: &str, ranks| {
            let mut launcher = Launcher::default();
            launcher.take(&format!("$ {options} ./IMB-MPI1"), &mut []);
            launcher.command.unwrap().nodes_of(ranks)
        };
        for (options, ranks, expected) in [
            ("mpirun -np 128 -ppn 32", 128, Some(4)),
            ("mpirun -np 128 -ppn 32", 64, Some(2)),
            ("mpirun -np 128 -ppn 32", 2, Some(1)),
            ("mpirun -np 96 -ppn 24", 32, Some(2)),
            // 24, 24 and 16.
            ("mpirun -np 96 -ppn 24", 64, None),
            ("srun -N 4 -n 128 -m cyclic", 64, None),
            ("mpirun -np 128 -npernode 32 --map-by node", 64, None),
            ("mpirun -np 128 -npernode 32 --rank-by node", 64, None),
            ("mpirun -np 128 --map-by node:PE=2 -H a:32,b:32,c:32,d:32", 64, None),
            ("mpirun -np 128", 64, None),
        ] {
            assert_eq!(first(options, ranks), expected, "{options}: {ranks}");
        }
    }

    #[test]
    fn a_jobspec_counts_tasks() {
        let text = r#"{"resources": [{"type": "node", "count": 3, "with": [{"type": "slot",
            "count": 4, "with": [{"type": "core", "count": 1}], "label": "task"}]}],
            "tasks": [{"command": ["x"], "slot": "task", "count": {"per_slot": 2}}]}"#;
        assert_eq!(flux(text), Some((24, 3)));
        assert_eq!(flux("{\"resources\": 1}"), None);
    }

    #[test]
    fn programs_name_their_collective() {
        assert_eq!(perf("all_reduce_perf_mpi"), Some(Collective::AllReduce));
        assert_eq!(perf("alltoall_perf"), Some(Collective::AllToAll));
        assert_eq!((perf("hypercube_perf"), perf("alltoallv_perf")), (None, None));
    }
}
