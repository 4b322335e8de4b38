//! The graphs that NCCL writes to `NCCL_GRAPH_DUMP_FILE`.
//!
//! ```text
//! <graphs version="1">
//!   <graph id="0" pattern="4" nchannels="1" speedintra="20" … typeintra="NVL" samechannels="1">
//!     <channel><net dev="0"/><gpu dev="0" rank="0"/> … <net dev="0"/></channel>
//!   </graph>
//! </graphs>
//! ```
//!
//! Graph 0 is the ring, 1 the tree, 2 the chain of in-network reduction (until 2.21 all of it),
//! 3 NVLS, 4 in-network reduction by all GPUs at once. The channels are those of the search:
//! start-up doubles them.
//!
//! Source: NVIDIA/nccl, `src/graph/search.cc` and `src/graph/xml.cc`.

use quick_xml::events::{BytesStart, Event};

use super::topology_file::Read;
use crate::base::error::{Error, Result};
use crate::base::refused::Refused;
use crate::base::xml::{Attributes, Events};
use crate::library::nccl::{
    Arch, Communicator, Ctas, Gbps, Graph, Micros, PathType, Processor, Startup, Told, Vendor,
    Version, since,
};

/// The most channels that any version has.
const MOST_CHANNELS: usize = 64;

/// The contents of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Graphs {
    /// Rings.
    pub ring: Graph,
    /// Trees.
    pub tree: Graph,
    /// In-network reduction along chains; until 2.21 all of it. Absent if it was not searched for.
    pub collnet_chain: Option<Graph>,
    /// In-network reduction, all GPUs at once; since 2.22.
    pub collnet_direct: Option<Graph>,
    /// NVLS.
    pub nvls: Option<Graph>,
    /// GPUs of the communicator on the node that wrote the file.
    pub gpus: u32,
    /// Whether channels begin at a NIC, as they do with several nodes.
    pub nets: bool,
    /// GPUs through which in-network reduction enters the network.
    pub heads: u32,
}

impl Graphs {
    /// Reads the text of `file`.
    ///
    /// # Errors
    /// Text that is not XML or is cut off; another file of NCCL's; a missing ring or tree; graphs
    /// that contradict themselves or each other. Each names the line.
    pub fn read(text: &str, file: &str) -> Result<Self> {
        let graphs = Parsed::read(text).and_then(|parsed| parsed.graphs());
        graphs.map_err(|refused| {
            refused.error(file).or_help("write the file again with NCCL_GRAPH_DUMP_FILE")
        })
    }

    /// The communicator that starts with these graphs; `told` adds what the file does not have.
    ///
    /// Ranks are spread evenly. A single node is assumed if nothing says otherwise and the graphs
    /// use no NIC.
    ///
    /// # Errors
    /// No number of nodes, or no GPU; nodes that contradict the file.
    pub fn communicator(&self, told: &Told, version: Version) -> Result<Communicator> {
        let nodes = match (told.nodes, told.ranks) {
            (Some(nodes), _) => nodes,
            (None, Some(ranks)) if ranks % self.gpus == 0 => ranks / self.gpus,
            (None, None) if !self.nets => 1,
            (None, _) => {
                return Err(Error::input(
                    "the graphs use the network, but the number of nodes is missing",
                )
                .help("give --nodes, such as --nodes 4"));
            }
        };
        if self.nets != (nodes > 1) {
            let (found, needs) = match self.nets {
                true => ("begin and end at NICs", "several nodes"),
                false => ("touch no NIC", "one node"),
            };
            return Err(Error::input(format!("the graphs {found}, so they belong to {needs}"))
                .at(format!("--nodes {nodes}"))
                .help("give the number of nodes that the job ran on"));
        }
        let ranks = told.ranks.unwrap_or(nodes.saturating_mul(self.gpus));
        let cc = told.gpu.ok_or_else(|| {
            Error::input("the graphs do not name their GPUs")
                .help("give --gpu, such as --gpu h100 or --gpu cc90")
        })?;
        let intel = Processor { arch: Arch::X86, vendor: Vendor::Intel };
        let Processor { arch, vendor } = told.processor.unwrap_or(intel);
        let empty = |pattern| Graph { pattern, ..Graph::default() };
        let chain = self.collnet_chain.unwrap_or(empty(3));
        let direct = self.collnet_direct.unwrap_or(match version.has(since::DIRECT_GRAPH) {
            true => empty(6),
            false => chain,
        });
        let nvls = self.nvls.unwrap_or(empty(5));
        let channels = self.ring.channels.min(self.tree.channels);
        let collnet = nodes > 1 && chain.channels > 0;
        let comm = Communicator {
            ranks,
            nodes,
            local_ranks: self.gpus,
            min_cc: cc.0,
            max_cc: cc.0,
            arch,
            vendor,
            channels: 0,
            call_channels: 0,
            nvls_channels: 0,
            nvls: false,
            collnet,
            collnet_heads: if collnet { self.heads } else { 0 },
            collnet_chain: collnet,
            // Only in-network reduction depends on the switch, and only it finds graphs without
            // one.
            nvswitch: nvls.channels > 0 || direct.channels > 0,
            ring: Graph { channels, ..self.ring },
            tree: Graph { channels, ..self.tree },
            collnet_direct_graph: direct,
            collnet_chain_graph: chain,
            nvls_graph: nvls,
            reach: None,
            ctas: Ctas::default(),
        };
        comm.check()?;
        Ok(Startup::under(version, &comm, &told.start, None).on(comm))
    }
}

/// A graph with the data that must match it.
struct Found {
    line: usize,
    id: u32,
    graph: Graph,
    channels: Vec<Channel>,
}

/// One channel: its GPUs in order, and the numbers of NICs before and after them.
struct Channel {
    line: usize,
    gpus: Vec<String>,
    before: usize,
    behind: usize,
}

/// The file's elements.
#[derive(Default)]
struct Parsed {
    graphs: Vec<Found>,
    last: usize,
}

impl Parsed {
    fn read(text: &str) -> Read<Self> {
        let mut parsed = Self::default();
        let mut events = Events::new(text);
        let mut open: Vec<String> = Vec::new();
        loop {
            let (here, event) = events.next()?;
            match &event {
                Event::Start(start) => {
                    parsed.element(&open, start, here)?;
                    open.push(start.name().as_ref().to_owned());
                }
                Event::Empty(start) => parsed.element(&open, start, here)?,
                Event::End(_) => {
                    open.pop();
                }
                Event::Eof => {
                    parsed.last = text.lines().count().max(1);
                    return match open.last() {
                        Some(inside) => {
                            let what = format!("the file ends inside <{inside}>");
                            Err(Refused::at(parsed.last, what).help(
                                "copy the whole file; NCCL itself stops writing at a path of a \
                                 type that it cannot write",
                            ))
                        }
                        None => Ok(parsed),
                    };
                }
                _ => {}
            }
        }
    }

    fn element(&mut self, open: &[String], start: &BytesStart<'_>, line: usize) -> Read<()> {
        let at = &Attributes::of(start, line)?;
        let name = start.name().into_inner();
        let inside: Vec<&str> = open.iter().map(String::as_str).collect();
        match (inside.as_slice(), name) {
            ([], "graphs") => match at.text("version")? {
                "1" => Ok(()),
                other => {
                    let what = format!("version=\"{other}\" of graphs is not known; known: 1");
                    Err(Refused::at(at.line, what))
                }
            },
            ([], "system") => Err(Refused::at(at.line, "this is a topology, not graphs")
                .help("give the file of NCCL_GRAPH_DUMP_FILE, not that of NCCL_TOPO_DUMP_FILE")),
            ([], other) => {
                Err(Refused::at(at.line, format!("the file begins with <{other}>, not <graphs>")))
            }
            (["graphs"], "graph") => self.graph(at),
            (["graphs", "graph"], "channel") => {
                if let Some(graph) = self.graphs.last_mut() {
                    let (gpus, before, behind) = (Vec::new(), 0, 0);
                    graph.channels.push(Channel { line: at.line, gpus, before, behind });
                }
                Ok(())
            }
            (["graphs", "graph", "channel"], "net" | "gpu") => {
                let device = at.text("dev")?;
                let channels = self.graphs.last_mut().map(|graph| &mut graph.channels);
                let Some(channel) = channels.and_then(|c| c.last_mut()) else { return Ok(()) };
                match (name, channel.gpus.is_empty()) {
                    ("gpu", _) => channel.gpus.push(device.to_owned()),
                    (_, true) => channel.before += 1,
                    (_, false) => channel.behind += 1,
                }
                Ok(())
            }
            _ => Err(Refused::at(at.line, format!("<{name}> is not expected here"))),
        }
    }

    fn graph(&mut self, at: &Attributes<'_>) -> Read<()> {
        let id: u32 = number(at, "id")?;
        if let Some(other) = self.graphs.iter().find(|other| other.id == id) {
            let what = format!("graph {id} appears twice: in line {} too", other.line);
            return Err(Refused::at(at.line, what));
        }
        // With one GPU per node everything but the ring becomes a tree, pattern 3. Until 2.21
        // in-network reduction had one graph, a tree; now graph 2 is its chain.
        let patterns: &[u32] = match id {
            0 => &[4],
            1 => &[1, 2, 3],
            2 => &[1, 2, 3, 6],
            3 => &[3, 5],
            4 => &[3, 6],
            _ => return Err(Refused::at(at.line, format!("graph {id}: known graphs: 0 to 4"))),
        };
        let pattern = number(at, "pattern")?;
        if !patterns.contains(&pattern) {
            let what = format!("graph {id} cannot have pattern {pattern}");
            return Err(Refused::at(at.line, what).help(
                "graph 0 is the ring (pattern 4), 1 the tree (1, 2 or 3), 2 the chain, 3 NVLS \
                 (5), 4 collnet direct (6)",
            ));
        }
        let graph = Graph {
            pattern,
            channels: number(at, "nchannels")?,
            intra: Gbps(rate(at, "speedintra")?),
            inter: Gbps(rate(at, "speedinter")?),
            latency_inter: Micros(if at.get("latencyinter").is_some() {
                rate(at, "latencyinter")?
            } else {
                0.0
            }),
            type_intra: path(at, "typeintra")?,
            type_inter: path(at, "typeinter")?,
            cross_nic: number(at, "crossnic")?,
            same_channels: number::<u32>(at, "samechannels")? > 0,
        };
        self.graphs.push(Found { line: at.line, id, graph, channels: Vec::new() });
        Ok(())
    }

    /// The graphs, if nothing contradicts itself.
    fn graphs(&self) -> Read<Graphs> {
        for graph in &self.graphs {
            graph.check()?;
        }
        let of = |id| self.graphs.iter().find(|graph| graph.id == id);
        let needed = |id, name: &str| {
            let missing = format!("the {name}, <graph id=\"{id}\">, is missing");
            let found = of(id).ok_or_else(|| Refused::at(self.last, missing))?;
            let first = found.channels.first().ok_or_else(|| {
                Refused::at(found.line, format!("the {name} has no channel"))
                    .help("NCCL writes none for a communicator of one rank; give another file")
            })?;
            Ok((found, first))
        };
        let (ring, around) = needed(0, "ring")?;
        let (tree, down) = needed(1, "tree")?;
        let (gpus, nets) = (around.sorted(), around.before > 0);
        for graph in self.graphs.iter().filter(|graph| graph.lists_all()) {
            for channel in &graph.channels {
                if channel.sorted() != gpus {
                    let what = format!(
                        "this channel has {} GPUs, but those of the ring's first channel are {}",
                        channel.gpus.len(),
                        gpus.join(", ")
                    );
                    return Err(Refused::at(channel.line, what));
                }
            }
        }
        if nets != (down.before > 0) {
            let what = "the ring and the tree do not both use NICs";
            return Err(Refused::at(down.line, what));
        }
        let collnet = of(4).filter(|graph| !graph.channels.is_empty()).or_else(|| of(2));
        let mut heads: Vec<_> = collnet.map_or(&[][..], |graph| &graph.channels).iter().collect();
        heads.sort_by_key(|channel| channel.gpus.first());
        heads.dedup_by_key(|channel| channel.gpus.first());
        Ok(Graphs {
            ring: ring.graph,
            tree: tree.graph,
            collnet_chain: of(2).map(|found| found.graph),
            collnet_direct: of(4).map(|found| found.graph),
            nvls: of(3).map(|found| found.graph),
            gpus: gpus.len() as u32,
            nets,
            heads: heads.len() as u32,
        })
    }
}

impl Found {
    /// NVLS names only the head, or fills up with zeroes.
    fn lists_all(&self) -> bool {
        self.id != 3
    }

    fn check(&self) -> Read<()> {
        let Self { line, id, graph, channels } = self;
        let (said, found) = (graph.channels, channels.len());
        if said as usize != found {
            let what = format!("nchannels=\"{said}\", but {found} channels follow");
            return Err(Refused::at(*line, what));
        }
        if found > MOST_CHANNELS {
            let what = format!("{found} channels are more than NCCL's maximum of {MOST_CHANNELS}");
            return Err(Refused::at(*line, what));
        }
        if graph.channels > 0 && graph.intra.0 <= 0.0 {
            return Err(Refused::at(*line, "speedintra is 0 though there are channels"));
        }
        for channel in channels {
            if channel.gpus.is_empty() {
                return Err(Refused::at(channel.line, "a channel without GPUs"));
            }
            let mut sorted = channel.sorted();
            sorted.dedup();
            if self.lists_all() && sorted.len() != channel.gpus.len() {
                return Err(Refused::at(channel.line, "a GPU appears twice in one channel"));
            }
            let ends = (channel.before, channel.behind);
            if *id <= 1 && !matches!(ends, (0, 0) | (1, 1)) {
                let what = match ends {
                    (1, 0) => "the channel begins at a NIC but does not end at one".to_owned(),
                    (0, 1) => "the channel ends at a NIC but does not begin at one".to_owned(),
                    (a, b) => format!("{a} NICs before the GPUs and {b} after them, not one each"),
                };
                return Err(Refused::at(channel.line, what));
            }
            if (channel.before > 0) != (channels[0].before > 0) {
                return Err(Refused::at(channel.line, "only some of the channels use NICs"));
            }
        }
        Ok(())
    }
}

impl Channel {
    fn sorted(&self) -> Vec<&str> {
        let mut gpus: Vec<_> = self.gpus.iter().map(String::as_str).collect();
        gpus.sort_unstable();
        gpus
    }
}

fn number<T: std::str::FromStr>(at: &Attributes<'_>, name: &str) -> Read<T> {
    let text = at.text(name)?;
    text.trim().parse().map_err(|_| {
        Refused::at(at.line, format!("{name}=\"{text}\" is not a whole number from 0"))
    })
}

fn rate(at: &Attributes<'_>, name: &str) -> Read<f32> {
    let text = at.text(name)?;
    match text.trim().parse::<f32>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err(Refused::at(at.line, format!("{name}=\"{text}\" is not a number from 0"))),
    }
}

fn path(at: &Attributes<'_>, name: &str) -> Read<PathType> {
    let text = at.text(name)?;
    PathType::named(text).map_err(|_| {
        Refused::at(at.line, format!("{name}=\"{text}\" is not a path type of NCCL"))
            .help("known: LOC, NVL, NVB, C2C, PIX, PXB, PXN, P2C, PHB, SYS, NET, DIS")
    })
}
