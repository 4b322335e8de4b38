//! The communicator of a table: what the log says about it, and what the user adds.

use super::graph::{Search, agreed};
use super::{At, Log, Ranks, Table};
use crate::base::error::{Error, Result};
use crate::library::nccl::graphs_file::Graphs;
use crate::library::nccl::{Behind, Capability, Communicator, Processor, Starting, Told, Version};

/// What is known about a communicator.
#[derive(Debug, Clone, PartialEq)]
pub struct Known<'a> {
    /// Ranks.
    pub ranks: Option<u32>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// Its GPUs; a log does not contain them.
    pub gpu: Option<Capability>,
    /// Its processors.
    pub processor: Option<Processor>,
    /// Channels.
    pub channels: Option<u32>,
    /// Channels of NVLS.
    pub nvls_channels: Option<u32>,
    /// The job's environment, as far as start-up reads it.
    pub start: Starting,
    /// Ranks on a node.
    local: Option<u32>,
    /// Whether the log shows the machine, and an `NVSwitch` in it.
    nvswitch: Option<bool>,
    /// One search per rank; the first is that of the rank that printed the table.
    searches: Vec<&'a Search>,
}

/// The side of its communicator's table that a line is on.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Before,
    After,
}

impl Log {
    /// What is known about the communicator of a table; without a table, about the only
    /// communicator.
    ///
    /// # Errors
    /// A value of the user that contradicts the log.
    pub fn known(&self, table: Option<&Table>, told: &Told) -> Result<Known<'_>> {
        let comm = self.sizes(table);
        let threshold = self.one(&self.ring_thresholds, table, Side::After);
        let overridden = self.environment.iter().any(|e| e.what.0 == "NCCL_THREAD_THRESHOLDS");
        let threshold = threshold.filter(|t| !overridden && t.what % 8 == 0 && t.what > 0);
        let searches = self.searches(table);
        let listed = agreed(&searches, Version::NEWEST).and_then(|agreed| agreed.gpus);

        let ranks = match (comm, threshold) {
            (Some((comm, line)), _) => Some((comm.ranks, line)),
            (None, Some(threshold)) => Some((threshold.what / 8, threshold.line)),
            (None, None) => None,
        };
        let ranks = self.told("--ranks", told.ranks, ranks)?;
        if let Some(ranks) = ranks.filter(|&ranks| ranks > Communicator::MOST_RANKS) {
            let line = comm.map_or(1, |(_, line)| line);
            return Err(Communicator::too_many(ranks).at(format!("{}:{line}", self.file)));
        }
        let local = comm.and_then(|(c, _)| c.local).or(listed.map(|(gpus, _)| gpus));
        let nodes = comm.and_then(|(c, line)| Some((c.nodes?, line)));
        let nodes = nodes.or_else(|| match (listed, ranks) {
            (Some((_, false)), _) => Some((1, searches.first()?.line)),
            (Some((gpus, true)), Some(ranks)) if gpus > 0 && ranks % gpus == 0 => {
                Some((ranks / gpus, searches.first()?.line))
            }
            _ => None,
        });
        let nodes = self.told("--nodes", told.nodes, nodes)?;
        let channels = self.one(&self.channels, table, Side::Before).map(|c| c.what);
        let coll = self.one(&self.coll_channels, table, Side::After).map(|c| c.what);
        let processor = self.one(&self.processors, None, Side::Before).map(|p| p.what);
        let topology = !self.processors.is_empty();
        Ok(Known {
            ranks: ranks.or_else(|| nodes.zip(local).map(|(n, l)| n.saturating_mul(l))),
            nodes,
            gpu: told.gpu,
            processor: told.processor.or(processor),
            channels: coll.map(|(count, _)| count).or(channels),
            nvls_channels: coll.and_then(|(_, nvls)| nvls),
            start: self.starting()?,
            local,
            nvswitch: topology.then_some(!self.switches.is_empty()),
            searches,
        })
    }

    /// The user's value, unless it contradicts the log.
    fn told(
        &self,
        flag: &str,
        told: Option<u32>,
        found: Option<(u32, usize)>,
    ) -> Result<Option<u32>> {
        match (told, found) {
            (Some(told), Some((found, line))) if told != found => {
                let name = flag.trim_start_matches('-');
                Err(Error::input(format!("the log has {found} {name}, not {told}"))
                    .at(format!("{}:{line}", self.file))
                    .help(format!("leave out {flag}")))
            }
            (told, found) => Ok(told.or(found.map(|(value, _)| value))),
        }
    }

    /// The lines between which a table's communicator is: those of its printer's other tables.
    pub(super) fn window(&self, table: &Table) -> (usize, usize) {
        let others = || self.tables.iter().filter(|other| other.printer == table.printer);
        let before = others().map(|t| t.line).filter(|&line| line < table.line).max();
        let behind = others().map(|t| t.line).filter(|&line| line > table.line).min();
        (before.unwrap_or(0), behind.unwrap_or(usize::MAX))
    }

    /// The line about a table's communicator: the nearest one of its printer. Otherwise, if there
    /// is only one communicator, the line on which all agree.
    fn one<'a, T: PartialEq>(
        &self,
        all: &'a [At<T>],
        table: Option<&Table>,
        side: Side,
    ) -> Option<&'a At<T>> {
        let near = table.and_then(|table| self.near(all, table, side, |_| true));
        if near.is_some() || (table.is_some() && self.tables.len() > 1) {
            return near;
        }
        let first = all.first()?;
        all.iter().all(|at| at.what == first.what).then_some(first)
    }

    /// The nearest line of the printer of a table that `holds`.
    fn near<'a, T>(
        &self,
        all: &'a [At<T>],
        table: &Table,
        side: Side,
        holds: impl Fn(&T) -> bool,
    ) -> Option<&'a At<T>> {
        let (from, to) = self.window(table);
        let own = |at: &&At<T>| {
            at.printer == table.printer && (from..to).contains(&at.line) && holds(&at.what)
        };
        let before = || all.iter().rev().filter(own).find(|at| at.line < table.line);
        let after = || all.iter().filter(own).find(|at| at.line > table.line);
        match side {
            Side::Before => before().or_else(after),
            Side::After => after().or_else(before),
        }
    }

    /// Ranks and nodes of a table's communicator, and the line that states them. Several lines are about each
    /// communicator, and only one of them names nodes, so what one line leaves open another one says.
    fn sizes(&self, table: Option<&Table>) -> Option<(Ranks, usize)> {
        let all = &self.communicators;
        let stated = |at: &At<Ranks>| (at.what, at.line);
        let near = table.and_then(|table| self.near(all, table, Side::Before, |_| true));
        if let (Some(table), Some(near)) = (table, near) {
            let fuller = |r: &Ranks| r.ranks == near.what.ranks && r.nodes.is_some();
            let fuller = self.near(all, table, Side::Before, fuller);
            return Some(stated(fuller.unwrap_or(near)));
        }
        if table.is_some() && self.tables.len() > 1 {
            return None;
        }
        let best = all.iter().find(|at| at.what.nodes.is_some()).or(all.first())?;
        let fits = |at: &At<Ranks>| {
            let open = at.what.nodes.is_none() || at.what == best.what;
            open && at.what.ranks == best.what.ranks
        };
        all.iter().all(fits).then(|| stated(best))
    }

    /// Each rank's last search before the table, its printer's first.
    fn searches(&self, table: Option<&Table>) -> Vec<&Search> {
        let (from, to) = table.map_or((0, usize::MAX), |table| {
            let earlier = self.tables.iter().map(|t| t.line).filter(|&line| line < table.line);
            (earlier.max().unwrap_or(0), table.line)
        });
        let mut found: Vec<&Search> = Vec::new();
        for search in self.searches.iter().rev().filter(|s| (from..to).contains(&s.line)) {
            if found.iter().all(|other| other.printer != search.printer) {
                found.push(search);
            }
        }
        found.sort_by_key(|s| (table.is_none_or(|t| t.printer != s.printer), s.line));
        found
    }
}

impl Known<'_> {
    /// Ranks whose graphs the log has.
    #[must_use]
    pub fn searched(&self) -> usize {
        self.searches.len()
    }

    /// What is known about the communicator of a printed table.
    #[must_use]
    pub fn behind(&self) -> Behind {
        Behind {
            ranks: self.ranks,
            nodes: self.nodes,
            min_cc: self.gpu.map(|gpu| gpu.0),
            channels: self.channels,
            nvls_channels: self.nvls_channels,
        }
    }

    /// The whole communicator under a version and with the given GPUs and processors; `None` if the
    /// log has no graphs, or does not name the numbers of ranks and nodes.
    ///
    /// # Errors
    /// Ranks, nodes and graphs that do not fit together.
    pub fn communicator(
        &self,
        version: Version,
        gpu: Capability,
        processor: Processor,
    ) -> Result<Option<Communicator>> {
        let (Some(ranks), Some(nodes)) = (self.ranks, self.nodes) else { return Ok(None) };
        let Some(agreed) = agreed(&self.searches, version) else { return Ok(None) };
        let listed = agreed.gpus.map(|(gpus, _)| gpus);
        let Some(gpus) = self.local.or(listed) else { return Ok(None) };
        let graphs = Graphs {
            ring: agreed.ring,
            tree: agreed.tree,
            collnet_chain: agreed.chain,
            collnet_direct: agreed.direct,
            nvls: agreed.nvls,
            gpus,
            nets: agreed.gpus.map_or(nodes > 1, |(_, nets)| nets),
            heads: agreed.heads,
        };
        let told = Told {
            ranks: Some(ranks),
            nodes: Some(nodes),
            gpu: Some(gpu),
            processor: Some(processor),
            start: self.start,
        };
        let started = graphs.communicator(&told, version)?;
        Ok(Some(Communicator {
            channels: self.channels.unwrap_or(started.channels),
            call_channels: self.channels.unwrap_or(started.call_channels),
            nvls_channels: self.nvls_channels.unwrap_or(started.nvls_channels),
            nvswitch: self.nvswitch.unwrap_or(started.nvswitch),
            ..started
        }))
    }
}
