//! Machines whose graphs are known: the graphs that NCCL's own search finds on them, by ranks per
//! node.
//!
//! There are graphs of one node, of two nodes, and of more. From two nodes on, a search sees only its
//! own node and its NICs. Therefore a node count between or beyond the listed ones has the graphs of
//! its neighbors. What depends on the count (channels of NVLS on Blackwell) has its own line. The
//! table has the results of the searches of NVIDIA/nccl 2.18.3 to 2.30.7 for 1 to 128 nodes.
//! Lines of racks of more than two hosts are the search's here, which finds the same as NVIDIA's for one and two.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::comms::{communicator, plain};
use super::described::Machine;
use super::search::{Job, Searched, search};
use super::topology::Knobs;
use super::{Communicator, Version};
use crate::base::error::{Error, Result, advice};

// `COLUMNS`, the first line of machines.csv, and `LINES`, the others.
include!(concat!(env!("OUT_DIR"), "/nccl_machines.rs"));

/// A known machine: how many of its GPUs a job uses on each node, and on how many nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'a> {
    /// The machine, such as `dgx_h100_8x400g`.
    pub machine: &'a str,
    /// Ranks on each node.
    pub per_node: u32,
    /// Nodes.
    pub nodes: u32,
    /// The release that searched and started up; none: the newest, or the one that is asked.
    pub search: Option<Version>,
}

impl<'a> Place<'a> {
    /// Reads `dgx_h100_8x400g.p8.n2`, followed by `.s2.21.5` for the search and start-up of that version.
    ///
    /// # Errors
    /// A different form; a version that is not known in full.
    pub fn named(id: &'a str) -> Result<Self> {
        let refuse = || {
            Error::input(format!("`{id}` is not a communicator"))
                .help("write machine.pRANKS_PER_NODE.nNODES, such as dgx_h100_8x400g.p8.n2")
        };
        let mut parts = id.splitn(4, '.');
        let machine = parts.next().ok_or_else(refuse)?;
        let mut count = |letter: char| {
            let number = parts.next().and_then(|p| p.strip_prefix(letter));
            number.and_then(|n| n.parse().ok()).filter(|&n: &u32| n > 0).ok_or_else(refuse)
        };
        let (per_node, nodes) = (count('p')?, count('n')?);
        let search = match parts.next() {
            None => None,
            Some(text) => {
                let text = text.strip_prefix('s').ok_or_else(refuse)?;
                Some(Version::ALL.into_iter().find(|v| v.id() == text).ok_or_else(refuse)?)
            }
        };
        Ok(Self { machine, per_node, nodes, search })
    }

    /// The same without `.n`, on this many nodes.
    ///
    /// # Errors
    /// A different form.
    pub fn on_nodes(id: &'a str, nodes: u32) -> Result<Self> {
        let (machine, per_node) = id.rsplit_once(".p").unwrap_or((id, ""));
        let per_node = per_node.parse().ok().filter(|&p: &u32| p > 0).ok_or_else(|| {
            Error::input(format!("`{id}` is not a machine with ranks per node"))
                .help("write machine.pRANKS_PER_NODE, such as dgx_h100_8x400g.p8")
        })?;
        Ok(Self { machine, per_node, nodes, search: None })
    }

    /// The same as a release searches and starts up there, unless the place says which one did.
    #[must_use]
    pub fn of_release(self, version: Version) -> Self {
        Self { search: self.search.or(Some(version)), ..self }
    }

    /// The communicator there.
    ///
    /// # Errors
    /// An unknown machine; ranks per node, or a number of nodes, that were never searched; more
    /// ranks than [`Communicator::MOST_RANKS`].
    pub fn communicator(&self) -> Result<Communicator> {
        self.find().map(|found| found.comm)
    }

    /// Whether the table has graphs of the machine with so many ranks and nodes.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.listed(Version::NEWEST).is_ok()
    }

    /// The result of the search on the machine in an environment; in the empty one it is the
    /// content of the table.
    ///
    /// # Errors
    /// An unknown machine; more ranks per node than it has GPUs; the errors of the search.
    pub fn searched(&self, knobs: &Knobs) -> Result<Searched> {
        let machine = Machine::named(self.machine).ok_or_else(|| self.unknown(&[]))?;
        let job = Job { nodes: self.nodes, per_node: Some(self.per_node) };
        let mut knobs = knobs.clone();
        if machine.reduces() {
            knobs.start = knobs.start.or_collnet();
        }
        search(&machine.hosting(self.per_node).description(), self.version(), job, &knobs)
    }

    /// The release that searched and started up.
    fn version(&self) -> Version {
        self.search.unwrap_or(Version::NEWEST)
    }

    /// What the search finds there, or that it finds nothing: once for all that ask.
    fn searched_once(&self) -> Option<Communicator> {
        static FOUND: Mutex<Vec<(String, Option<Communicator>)>> = Mutex::new(Vec::new());
        let name = self.to_string();
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, comm)) = found.iter().find(|(known, _)| *known == name) {
            return *comm;
        }
        let comm = self.searched(&Knobs::default()).ok().map(|found| found.communicator());
        found.push((name, comm));
        comm
    }

    /// A sentence about the graphs' origin and the numbers of nodes for which they are the same.
    ///
    /// # Errors
    /// The errors of [`Self::communicator`].
    pub fn origin(&self) -> Result<String> {
        let Found { by, nodes, .. } = self.find()?;
        Ok(format!(
            "built-in graphs, found by the search of NCCL {by} on {}, {} per node, {nodes}",
            self.machine, self.per_node
        ))
    }

    /// The communicator that a release starts with: of the table, or as its search finds it.
    fn find(&self) -> Result<Found> {
        let version = self.version();
        let newest = self.listed(Version::NEWEST);
        if version >= Version::NEWEST && self.is_in_table() {
            return newest;
        }
        if let Ok(own) = self.listed(version) {
            return Ok(own);
        }
        // Where the newest finds the same graphs on several numbers of nodes, an older one is asked once.
        let nodes =
            newest.as_ref().map_or(Nodes(self.nodes, Some(self.nodes)), |found| found.nodes);
        let Some(found) = (Self { nodes: nodes.0, ..self.clone() }).searched_once() else {
            return newest.map(|found| Found { comm: found.comm.started(version), ..found });
        };
        let comm = match nodes.0 == self.nodes {
            true => found,
            false => {
                let (ranks, nodes) = (self.per_node * self.nodes, self.nodes);
                Communicator { ranks, nodes, ..found }.started(version)
            }
        };
        Ok(Found { comm, by: version, nodes })
    }

    /// What the table has of the search and start-up of a release.
    fn listed(&self, by: Version) -> Result<Found> {
        let ranks = self.per_node.checked_mul(self.nodes);
        let Some(ranks) = ranks.filter(|&ranks| ranks <= Communicator::MOST_RANKS) else {
            return Err(Communicator::too_many(format!("{} x {}", self.nodes, self.per_node)));
        };
        let mut known = Vec::new();
        let own = |line: &&Line| line.machine == self.machine && line.version == by.id();
        for line in LINES.iter().filter(own) {
            if line.per_node == self.per_node && line.nodes.holds(self.nodes) {
                let comm = Communicator { ranks, nodes: self.nodes, ..line.read()? };
                comm.check()?;
                return Ok(Found { comm, by, nodes: line.nodes });
            }
            known.push(line);
        }
        let known: Vec<String> =
            known.iter().map(|line| format!("p{} on {}", line.per_node, line.nodes)).collect();
        Err(self.unknown(&known))
    }

    /// Whether the table has lines of the machine, with as many NICs.
    fn is_in_table(&self) -> bool {
        LINES.iter().any(|line| line.machine == self.machine)
    }

    fn unknown(&self, known: &[String]) -> Error {
        let names = names();
        if !self.is_in_table() {
            return Error::input(format!("`{}` is not a machine with known graphs", self.machine))
                .help(advice(self.machine, names));
        }
        Error::unsupported(format!(
            "no graphs of {} are known for {} ranks per node on {} nodes",
            self.machine, self.per_node, self.nodes
        ))
        .help(format!("known: {}; or give --graph or --log", known.join(", ")))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.p{}.n{}", self.machine, self.per_node, self.nodes)?;
        match self.search {
            None | Some(Version::NEWEST) => Ok(()),
            Some(search) => write!(f, ".s{search}"),
        }
    }
}

/// A communicator, whose search found its graphs, and the numbers of nodes for which they are the same.
struct Found {
    comm: Communicator,
    by: Version,
    nodes: Nodes,
}

/// The first and the last number of nodes of a line.
#[derive(Clone, Copy)]
struct Nodes(u32, Option<u32>);

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(1, Some(1)) => f.write_str("1 node"),
            Self(from, Some(to)) if from == to => write!(f, "{from} nodes"),
            Self(from, Some(to)) => write!(f, "{from} to {to} nodes"),
            Self(from, None) => write!(f, "{from} nodes or more"),
        }
    }
}

impl Nodes {
    fn holds(&self, nodes: u32) -> bool {
        self.0 <= nodes && self.1.is_none_or(|to| nodes <= to)
    }
}

/// A line of the table, and what recognizes it.
struct Line {
    version: &'static str,
    machine: &'static str,
    nodes: Nodes,
    per_node: u32,
    text: &'static str,
    /// The whole line, once it was requested: reading it takes longer than a decision.
    read: OnceLock<Communicator>,
}

impl Line {
    const fn new(
        version: &'static str,
        machine: &'static str,
        nodes: Nodes,
        per_node: u32,
        text: &'static str,
    ) -> Self {
        Self { version, machine, nodes, per_node, text, read: OnceLock::new() }
    }

    /// The communicator on the fewest nodes of the line.
    fn read(&self) -> Result<Communicator> {
        if let Some(&read) = self.read.get() {
            return Ok(read);
        }
        let Nodes(nodes, _) = self.nodes;
        let read = plain(COLUMNS, self.text, |r| communicator(r, nodes * self.per_node, nodes))?;
        Ok(*self.read.get_or_init(|| read))
    }
}

/// The machines whose graphs are known.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for line in LINES.iter() {
        if !names.contains(&line.machine) {
            names.push(line.machine);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_plain_and_every_line_is_read() {
        assert!(COLUMNS.starts_with("version,from,to,machine,localranks,"));
        for line in &LINES {
            let text = line.text;
            assert!(!text.contains(['"', ' ', '\r']));
            let search = Version::ALL.into_iter().find(|v| v.id() == line.version).expect(text);
            let Nodes(nodes, _) = line.nodes;
            let search = Some(search);
            let place = Place { machine: line.machine, per_node: line.per_node, nodes, search };
            assert!(place.communicator().is_ok(), "{text}");
        }
    }

    /// On more nodes an older release finds what it finds on the fewest that have the newest's graphs.
    #[test]
    fn one_search_stands_for_the_nodes_of_a_line() {
        let mut asked = 0;
        for (machine, per_node) in
            [("dgx_h100_8x400g", 8), ("dgx_b200_8x400g", 8), ("l40s_pcie8_2x100g", 8)]
        {
            for version in Version::ALL.into_iter().filter(|&v| v < Version::NEWEST).step_by(4) {
                let place = Place { machine, per_node, nodes: 5, search: Some(version) };
                let searched = place.searched(&Knobs::default()).unwrap().communicator();
                assert_eq!(place.communicator().unwrap(), searched, "{place}");
                asked += 1;
            }
        }
        assert!(asked > 9, "{asked}");
    }

    #[test]
    fn a_place_without_a_search_is_as_the_release_that_is_asked() {
        let of = |id, minor| {
            let version = Version::ALL.into_iter().find(|v| v.id() == minor).expect(minor);
            Place::named(id).unwrap().of_release(version).communicator().unwrap()
        };
        // nvls.cc: at least three GPUs until 2.28.7, and on one node alone in 2.20.
        assert!(!of("dgx_h100_8x400g.p2.n2", "2.27.5").nvls);
        assert!(of("dgx_h100_8x400g.p2.n2", "2.28.7").nvls);
        assert!(!of("dgx_h100_8x400g.p8.n2", "2.20.5").nvls);
        // connect.cc, init.cc: twice the channels of fast rings on Blackwell, raised to those of NVLS.
        assert_eq!(of("dgx_b200_8x400g.p8.n2", "2.27.5").channels, 32);
        assert_eq!(
            of("dgx_h100_8x400g.p8.n2.s2.21.5", "2.27.5"),
            of("dgx_h100_8x400g.p8.n2", "2.21.5")
        );
        assert!(of("dgx_h100_sharp.p8.n2", "2.22.3").collnet);
    }
}
