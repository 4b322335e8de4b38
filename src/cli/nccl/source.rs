//! The source of a communicator: its name, a table, graphs that NCCL dumped, a log or a topology.

use std::collections::HashMap;
use std::path::Path;

use super::super::flags::{count, value};
use super::super::input;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::library::nccl::graphs_file::Graphs;
use collcost::library::nccl::log::Log;
use collcost::library::nccl::search::{Job, Searched, search};
use collcost::library::nccl::topology::{Description, Knobs};
use collcost::library::nccl::topology_file;
use collcost::library::nccl::{
    Capability, Communicator, Function, Place, Processor, Settings, Starting, Told, Version,
};
use collcost::library::nccl::{comms, envs};
use collcost::measure::logs::plain_lines;

/// The flags that name a communicator and its job's environment.
#[derive(clap::Args)]
pub(super) struct SourceFlags {
    /// A known communicator such as dgx_h100_8x400g.p8.n2, or one of --comms
    #[arg(long, value_name = "ID", conflicts_with_all = ["gpu", "cpu"])]
    comm: Option<String>,
    /// File of communicators, one per line
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    comms: Option<String>,
    /// File of graphs from NCCL_GRAPH_DUMP_FILE
    #[arg(long, value_name = "FILE", conflicts_with = "comm", hide_short_help = true)]
    graph: Option<String>,
    /// A debug log that has the graphs (NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["comm", "graph"], hide_short_help = true)]
    log: Option<String>,
    /// Topology from NCCL_TOPO_DUMP_FILE; its graphs are computed by NCCL's search
    #[arg(long, value_name = "FILE", conflicts_with_all = ["comm", "graph", "log", "gpu", "cpu"])]
    topo: Option<String>,
    /// Ranks per node, if --topo has more GPUs
    #[arg(long, value_name = "RANKS", allow_hyphen_values = true, hide_short_help = true)]
    ppn: Option<String>,
    /// Number of nodes, if neither the name nor the file says it
    #[arg(long, value_name = "NODES", allow_hyphen_values = true)]
    nodes: Option<String>,
    /// Number of ranks, if the file does not say it
    #[arg(short = 'n', long, visible_alias = "np", value_name = "N", allow_hyphen_values = true)]
    ranks: Option<String>,
    /// The GPUs of a file: h100, b200, a100, or a compute capability such as cc90
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// The processors of a file: intel, amd, arm, power, zhaoxin, mixed; default: intel
    #[arg(long, value_name = "CPU", hide_short_help = true)]
    cpu: Option<String>,
    /// NCCL's version, such as 2.27.3; default: the newest that PyTorch pins
    #[arg(long, value_name = "VERSION")]
    pub(super) nccl: Option<String>,
    #[command(flatten)]
    pub(super) env: EnvFlags,
}

/// The flags that name a described machine and a job on it.
#[derive(clap::Args)]
pub(super) struct MachineFlags {
    /// Topology file of the machine, from NCCL_TOPO_DUMP_FILE or for NCCL_TOPO_FILE
    #[arg(long, value_name = "FILE")]
    topo: Option<String>,
    /// Ranks per node; default: all GPUs to which the file gives a rank
    #[arg(long, value_name = "RANKS", allow_hyphen_values = true)]
    ppn: Option<String>,
    /// Number of nodes; default: 1
    #[arg(long, value_name = "NODES", allow_hyphen_values = true)]
    nodes: Option<String>,
    /// NCCL's version, such as 2.27.3; default: the newest that PyTorch pins
    #[arg(long, value_name = "VERSION")]
    nccl: Option<String>,
    #[command(flatten)]
    env: EnvFlags,
}

impl MachineFlags {
    /// The file of the machine.
    pub(super) fn file(&self) -> Result<&str> {
        self.topo.as_deref().ok_or_else(|| {
            Error::input("which machine?")
                .at("collcost nccl")
                .help("give --topo FILE, as NCCL_TOPO_DUMP_FILE writes it")
        })
    }

    /// The version, the job, and the settings for the search from its environment.
    pub(super) fn asked(&self) -> Result<(Version, Job, Knobs)> {
        let asked = value::<Version>("--nccl", self.nccl.as_ref())?;
        let nodes = count("--nodes", "nodes", self.nodes.as_ref())?.map_or(1, Into::into);
        let per_node = count("--ppn", "ranks", self.ppn.as_ref())?.map(Into::into);
        let (_, knobs) = self.env.split()?;
        Ok((asked.unwrap_or(Version::NEWEST), Job { nodes, per_node }, knobs))
    }
}

/// The flags for the environment of a job, as the tuner reads it.
#[derive(clap::Args)]
pub(super) struct EnvFlags {
    /// Set a variable of the job, such as NCCL_ALGO=Tree; repeatable
    #[arg(long = "env", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Use the variables of this process that NCCL's tuner reads
    #[arg(long, hide_short_help = true)]
    env_from_process: bool,
}

/// A communicator with its name, version and environment.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) comm: Communicator,
    pub(super) nccl: Version,
    pub(super) settings: Settings,
    pub(super) notes: Vec<String>,
}

impl SourceFlags {
    /// The version of the flag, or else of the log.
    fn version(&self, logged: Option<String>) -> Result<Version> {
        let asked = value::<Version>("--nccl", self.nccl.as_ref())?;
        match (asked, logged) {
            (Some(asked), _) => Ok(asked),
            (None, Some(logged)) => logged.parse(),
            (None, None) => Ok(Version::NEWEST),
        }
    }

    fn told(&self) -> Result<Told> {
        told([&self.ranks, &self.nodes, &self.gpu, &self.cpu])
    }

    /// The file of which all communicators are meant, none being named.
    pub(super) fn table(&self) -> Result<Option<&str>> {
        let one = [&self.comm, &self.graph, &self.log, &self.topo];
        let names_one = one.into_iter().any(Option::is_some);
        let Some(file) = self.comms.as_deref().filter(|_| !names_one) else { return Ok(None) };
        let of_one = [
            ("--ranks", &self.ranks),
            ("--nodes", &self.nodes),
            ("--ppn", &self.ppn),
            ("--gpu", &self.gpu),
            ("--cpu", &self.cpu),
        ];
        let idle = of_one.into_iter().find_map(|(flag, said)| Some((flag, said.as_ref()?)));
        idle.map_or(Ok(Some(file)), |(flag, said)| {
            Err(Error::input(format!("{file} says this of each of its communicators"))
                .at(format!("{flag} {said}"))
                .help("leave it out, or name one of them with --comm"))
        })
    }

    /// The communicator that the flags name.
    pub(super) fn source(&self) -> Result<Source> {
        if let Some(file) = &self.topo {
            return self.topology(file);
        }
        if let Some(ppn) = &self.ppn {
            return Err(Error::input("only a topology can be reduced to fewer ranks per node")
                .at(format!("--ppn {ppn}"))
                .help(
                    "give --topo FILE too; the name of a known communicator contains it, as .p4",
                ));
        }
        if let Some(file) = &self.graph {
            return self.graphs(file);
        }
        if let Some(file) = &self.log {
            return self.log(file);
        }
        let id = self.comm.as_deref().ok_or_else(|| {
            Error::input("which communicator?").at("collcost nccl").help(
                "give --comm, such as --comm dgx_h100_8x400g.p8.n2, or --topo, --graph or --log \
                 FILE",
            )
        })?;
        let nccl = self.version(None)?;
        let mut notes = Vec::new();
        let mut settings = None;
        let (name, comm) = match &self.comms {
            Some(file) => {
                let named = one_of(file, id)?;
                (named.id, named.comm)
            }
            None => {
                let (own, knobs) = self.env.split()?;
                settings = Some(own);
                let known = self.known(id, (nccl, &knobs), &mut notes);
                known.map_err(|e| e.at(format!("--comm {id}")))?
            }
        };
        let settings = match settings {
            Some(settings) => settings,
            None => self.env.settings(Settings::default())?,
        };
        let told = self.told()?;
        unless_named("--ranks", told.ranks, Some(comm.ranks))?;
        unless_named("--nodes", told.nodes, Some(comm.nodes))?;
        Ok(Source { name, comm, nccl, settings, notes })
    }

    /// A machine with built-in graphs; if the environment changes them, they are computed anew.
    fn known(
        &self,
        id: &str,
        (nccl, knobs): (Version, &Knobs),
        notes: &mut Vec<String>,
    ) -> Result<(String, Communicator)> {
        let nodes = self.told()?.nodes;
        let place = match nodes {
            Some(nodes) if !id.contains(".n") => Place::on_nodes(id, nodes)?,
            _ => Place::named(id)?,
        };
        let name = place.to_string();
        let place = place.of_release(nccl);
        if *knobs != Knobs::default() {
            let searched = place.searched(knobs)?;
            notes.push(format!(
                "graphs are the result of NCCL {}'s search in this environment, in {} steps",
                searched.version, searched.steps
            ));
            return Ok((name, searched.communicator()));
        }
        notes.push(place.origin()?);
        Ok((name, place.communicator()?))
    }

    fn graphs(&self, file: &str) -> Result<Source> {
        let nccl = self.version(None)?;
        let graphs = Graphs::read(&text("--graph", file)?, file)?;
        let (settings, start) = self.env.started()?;
        let told = Told { start, ..self.told()? };
        let comm = graphs.communicator(&told, nccl).map_err(|e| e.at(file))?;
        let mut notes =
            vec!["channels are those that NCCL derives from the graphs at start-up".to_owned()];
        if told.processor.is_none() {
            notes.push("the processors are assumed to be Intel's; --cpu sets them".to_owned());
        }
        Ok(Source { name: file.to_owned(), comm, nccl, settings, notes })
    }

    fn topology(&self, file: &str) -> Result<Source> {
        let nccl = self.version(None)?;
        let description = topology("--topo", file)?;
        let job = self.job(&description)?;
        let (settings, knobs) = self.env.split()?;
        let searched = searched(file, &description, nccl, job, &knobs)?;
        let nodes = match job.nodes {
            1 => "on one node",
            _ => "on each of several nodes",
        };
        let notes = vec![format!(
            "graphs are the result of NCCL {}'s search {nodes}, in {} steps",
            nccl, searched.steps
        )];
        let name = machine(file, searched.per_node);
        Ok(Source { name, comm: searched.communicator(), nccl, settings, notes })
    }

    /// The ranks per node and the number of nodes on a described machine.
    fn job(&self, description: &Description) -> Result<Job> {
        let per_node = count("--ppn", "ranks", self.ppn.as_ref())?.map(Into::into);
        let told = self.told()?;
        let nodes = match (told.nodes, told.ranks) {
            (Some(nodes), None) => nodes,
            (None, None) => 1,
            (nodes, Some(ranks)) => {
                let each = match per_node {
                    Some(each) => each,
                    None => description.with_gpus(None)?.ranks() as u32,
                };
                if ranks % each != 0 || nodes.is_some_and(|nodes| nodes != ranks / each) {
                    return Err(Error::input(format!(
                        "{ranks} ranks do not make full nodes of {each}"
                    ))
                    .at(format!("--ranks {ranks}"))
                    .help("give only --nodes, and --ppn if a node has fewer ranks"));
                }
                ranks / each
            }
        };
        Ok(Job { nodes, per_node })
    }

    fn log(&self, file: &str) -> Result<Source> {
        let log = log(file)?;
        let nccl = self.version(log.version()?.map(|at| at.what.clone()))?;
        let told = self.told()?;
        let table = log.table(None)?;
        let known = log.known(table, &told)?;
        let missing = |what: &str, flag: &str| {
            Error::input(format!("the log does not contain {what}")).at(file).help(flag)
        };
        let gpu =
            known.gpu.ok_or_else(|| missing("the GPUs", "give --gpu, such as h100 or cc90"))?;
        let processor = known.processor.or(told.processor);
        let processor =
            processor.ok_or_else(|| missing("the processors", "give --cpu, such as intel"))?;
        let comm = known.communicator(nccl, gpu, processor)?;
        let comm = comm.ok_or_else(|| {
            missing(
                "ranks, nodes and graphs",
                "log with NCCL_DEBUG_SUBSYS=INIT,GRAPH, or give --comm",
            )
        })?;
        let settings = self.env.settings(log.settings()?)?;
        Ok(Source { name: file.to_owned(), comm, nccl, settings, notes: Vec::new() })
    }
}

impl EnvFlags {
    /// The settings from the environment: those for the tuner, and those for the search.
    pub(super) fn split(&self) -> Result<(Settings, Knobs)> {
        let (mut settings, mut knobs) = (Settings::default(), Knobs::default());
        if self.env_from_process {
            for name in Knobs::known() {
                if let Ok(value) = std::env::var(name) {
                    knobs.set(name, &value)?;
                }
            }
            settings = Self { set: Vec::new(), env_from_process: true }.settings(settings)?;
        }
        for assignment in &self.set {
            let (name, value) = split(assignment)?;
            if !knobs.set(name, value)? {
                settings.set(name, value)?;
            }
        }
        Ok((settings, knobs))
    }

    /// The settings beside graphs that were found already: those for the tuner, and those for
    /// start-up.
    fn started(&self) -> Result<(Settings, Starting)> {
        let mut knobs = Knobs::default();
        if self.env_from_process {
            for name in Starting::KNOWN {
                if let Ok(value) = std::env::var(name) {
                    knobs.set(name, &value)?;
                }
            }
        }
        let mut others = Self { set: Vec::new(), ..*self };
        for assignment in &self.set {
            let (name, value) = split(assignment)?;
            match Starting::KNOWN.contains(&name) {
                true => drop(knobs.set(name, value)?),
                false => others.set.push(assignment.clone()),
            }
        }
        Ok((others.settings(Settings::default())?, knobs.start))
    }

    /// What is set already, then this process's variables, then those on the command line.
    pub(super) fn settings(&self, mut settings: Settings) -> Result<Settings> {
        if self.env_from_process {
            for name in Settings::KNOWN {
                if let Ok(value) = std::env::var(name) {
                    settings.set(name, &value)?;
                }
            }
        }
        for assignment in &self.set {
            let (name, value) = split(assignment)?;
            settings.set(name, value)?;
        }
        Ok(settings)
    }
}

fn split(assignment: &str) -> Result<(&str, &str)> {
    assignment.split_once('=').ok_or_else(|| {
        Error::input(format!("`{assignment}` is not an assignment"))
            .at(format!("--env {assignment}"))
            .help("write --env NCCL_ALGO=Tree")
    })
}

/// The number of a flag, or else that of a name, which it may not contradict.
pub(super) fn unless_named(
    flag: &str,
    typed: Option<u32>,
    named: Option<u32>,
) -> Result<Option<u32>> {
    match (typed, named) {
        (Some(typed), Some(named)) if typed != named => {
            let what = match flag {
                "--ppn" => "ranks per node",
                _ => flag.trim_start_matches('-'),
            };
            Err(Error::input(format!("the communicator has {named} {what}, not {typed}"))
                .at(format!("{flag} {typed}"))
                .help(format!("leave out {flag}, or name another communicator")))
        }
        _ => Ok(typed.or(named)),
    }
}

/// The machine of a topology file that `flag` names.
pub(super) fn topology(flag: &str, file: &str) -> Result<Description> {
    topology_file::read(&text(flag, file)?, file)
}

/// What the search finds there.
pub(super) fn searched(
    file: &str,
    description: &Description,
    version: Version,
    job: Job,
    knobs: &Knobs,
) -> Result<Searched> {
    search(description, version, job, knobs).map_err(|e| e.at(file))
}

/// The collective that was typed after `verb`, as NCCL's tuner knows it.
pub(super) fn function(verb: &str, typed: &str) -> Result<Function> {
    let place = format!("{verb} {typed}");
    let collective: Collective = typed.parse().map_err(|e: Error| e.at(place.clone()))?;
    Function::of(collective).ok_or_else(|| {
        let help = match collective {
            Collective::Barrier => {
                "NCCL has none: programs call an all-reduce of one element".to_owned()
            }
            _ => format!(
                "NCCL sends and receives for it, without a choice: collcost {} says what that takes",
                collective.id()
            ),
        };
        Error::unsupported(format!("NCCL's tuner does not tune {}", collective.name()))
            .at(place)
            .help(help)
    })
}

/// A machine's name: that of its file, without folder, extension and ranks per node.
pub(super) fn machine(file: &str, per_node: u32) -> String {
    let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
    let name = name.strip_suffix(".xml").unwrap_or(&name);
    name.strip_suffix(&format!(".ppn{per_node}")).unwrap_or(name).to_owned()
}

/// A whole file as text.
pub(super) fn text(flag: &str, file: &str) -> Result<String> {
    input::text_at(format!("{flag} {file}"), file)
}

/// A log of NCCL, which may be packed, as all logs are read; `-` is standard input.
pub(super) fn log(file: &str) -> Result<Log> {
    Log::read_each(file, |take| plain_lines(input::log(file)?, file, take))
}

/// The communicators of `--comms`.
pub(super) fn comms(file: &str) -> Result<Vec<comms::Named>> {
    comms::read(&text("--comms", file)?).map_err(|e| e.within(file))
}

/// The communicator of `--comms` that `--comm` names.
pub(super) fn one_of(file: &str, id: &str) -> Result<comms::Named> {
    comms(file)?.into_iter().find(|named| named.id == id).ok_or_else(|| {
        Error::input(format!("{file} has no communicator `{id}`"))
            .at(format!("--comm {id}"))
            .help("name one of its column `id`")
    })
}

/// What flags say of a communicator: `--ranks`, `--nodes`, `--gpu` and `--cpu`.
pub(super) fn told([ranks, nodes, gpu, processor]: [&Option<String>; 4]) -> Result<Told> {
    Ok(Told {
        ranks: count("--ranks", "ranks", ranks.as_ref())?.map(Into::into),
        nodes: count("--nodes", "nodes", nodes.as_ref())?.map(Into::into),
        gpu: value::<Capability>("--gpu", gpu.as_ref())?,
        processor: value::<Processor>("--cpu", processor.as_ref())?,
        ..Told::default()
    })
}

/// The environments of `--envs`.
pub(super) fn envs(file: &str) -> Result<Vec<(String, Settings)>> {
    envs::read(&text("--envs", file)?).map_err(|e| e.within(file))
}

/// The environments by name.
pub(super) fn by_name(envs: Vec<(String, Settings)>) -> HashMap<String, Settings> {
    envs.into_iter().collect()
}
