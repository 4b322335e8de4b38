//! Published times, grouped by what was measured together.

use std::collections::BTreeMap;

use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Volume};
use crate::base::words::words;
use crate::machine::curve::{Observation, Placed, observations};
use crate::machine::sample::DataType;
use crate::measure::logs::{Imported, Measured, Table, Tested};
use crate::model::algorithm::{Library, RunBy};

words! {
    /// Machines whose times can be predicted about equally well.
    #[derive(PartialOrd, Ord)]
    pub enum Family {
        /// A GPU library on one node, faster than PCIe: NVLink and similar links.
        Nvlink = "nvlink",
        /// A GPU library on one node, over PCIe.
        Pcie = "pcie",
        /// A GPU library on several nodes.
        NcclMultinode = "nccl-multinode",
        /// MPI on a cluster.
        Mpi = "mpi",
        /// MPI on rented machines, where others share the network.
        Cloud = "cloud",
    }
}

/// One collective of one table.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The file.
    pub file: String,
    /// The machine as the table names it; for a log, its file.
    pub system: String,
    /// The library with its version, if known.
    pub library: String,
    /// The operation.
    pub collective: Collective,
    /// The type of the elements, if the operation reduces.
    pub dtype: Option<DataType>,
    /// The kind of machine.
    pub family: Family,
    /// The medians by ranks and size.
    pub rows: Vec<Observation>,
}

impl Cell {
    /// The ranks that were measured, in order.
    #[must_use]
    pub fn placed(&self) -> Vec<Placed> {
        let mut all: Vec<Placed> = self.rows.iter().map(|o| o.placed).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

type Key = (String, String, Collective, Option<DataType>);

/// The cells of all logs; logs of one machine that measured different ranks are joined.
#[must_use]
pub fn cells(logs: &[Imported]) -> Vec<Cell> {
    let mut all = Vec::new();
    for logs in joined(logs) {
        let mut found: BTreeMap<Key, Vec<Observation>> = BTreeMap::new();
        for (log, table) in logs.iter().flat_map(|log| log.tables.iter().map(move |t| (log, t))) {
            let Tested::Collective(collective) = table.tested else { continue };
            let system = table.system.clone().unwrap_or_else(|| log.file.clone());
            let library = table.library.clone().unwrap_or_default();
            for (dtype, row) in times(table, collective) {
                let key = (system.clone(), library.clone(), collective, dtype);
                found.entry(key).or_default().push(row);
            }
        }
        let peak = peak(&found);
        let files: Vec<&str> = logs.iter().map(|log| log.file.as_str()).collect();
        all.extend(found.into_iter().map(|((system, library, collective, dtype), rows)| {
            let rows = observations(rows);
            let between = rows.iter().any(|o| o.placed.between());
            let family = family(&system, &library, between, peak);
            let file = files.join(" + ");
            Cell { file, system, library, collective, dtype, family, rows }
        }));
    }
    all
}

/// Joins logs whose tables are all of one named machine and library if they measured different ranks: a
/// sweep often has a separate log for each number of ranks. Other versions and further sweeps of the same
/// ranks are kept separate.
fn joined(logs: &[Imported]) -> Vec<Vec<&Imported>> {
    let machine = |log: &Imported| {
        let mut of = log.tables.iter().map(|t| (&t.system, &t.library));
        let first = of.next().filter(|(system, _)| system.is_some())?;
        of.all(|other| other == first).then(|| (first.0.clone(), first.1.clone()))
    };
    let measured = |log: &Imported| -> Vec<_> {
        log.tables.iter().map(|t| (t.tested.clone(), t.ranks, t.nodes)).collect()
    };
    let mut all: Vec<(Option<_>, Vec<_>, Vec<&Imported>)> = Vec::new();
    for log in logs {
        let (own, what) = (machine(log), measured(log));
        let others = all.iter_mut().find(|(of, theirs, _)| {
            own.is_some() && *of == own && !what.iter().any(|w| theirs.contains(w))
        });
        match others {
            Some((_, theirs, together)) => {
                theirs.extend(what);
                together.push(log);
            }
            None => all.push((own, what, vec![log])),
        }
    }
    all.into_iter().map(|(.., together)| together).collect()
}

/// A table's out-of-place times, or in-place if there are no others, with the relevant type.
pub(crate) fn times(
    table: &Table,
    collective: Collective,
) -> impl Iterator<Item = (Option<DataType>, Observation)> + '_ {
    let in_place = table.rows.iter().all(|r| r.in_place);
    let nodes = table.nodes.unwrap_or(1);
    table.rows.iter().filter(move |r| r.in_place == in_place).filter_map(move |row| {
        let (Measured::Time(time), Some(ranks)) = (row.measured, table.ranks) else { return None };
        let placed = Placed { ranks, nodes };
        let dtype = row.dtype.filter(|_| collective.reduces());
        Some((dtype, Observation { placed, size: row.size, time }))
    })
}

/// The highest busbw of a file's times on one node.
fn peak(found: &BTreeMap<Key, Vec<Observation>>) -> Bandwidth {
    let rates = found.iter().flat_map(|((.., collective, _), rows)| {
        rows.iter().filter(|o| !o.placed.between()).map(|o| {
            let factor = collective.busbw_factor(o.placed.ranks);
            Volume::from(o.size).0 * factor.0 / o.time.0
        })
    });
    Bandwidth(rates.fold(0.0, f64::max))
}

/// No PCIe up to 5.0 x16 is faster one way.
const PCIE: Bandwidth = Bandwidth(64e9);

/// How published tables of rented machines begin.
const RENTED: &[&str] = &["aws", "azure", "gce", "gke", "gcp", "oci", "eks", "aks"];

fn family(system: &str, library: &str, between: bool, peak: Bandwidth) -> Family {
    let mpi = Library::is_mpi(library) || RunBy::named(library) == Some(RunBy::GpuMpi);
    let rented = RENTED.iter().any(|r| system.starts_with(r));
    match () {
        () if mpi && rented => Family::Cloud,
        () if mpi => Family::Mpi,
        () if between => Family::NcclMultinode,
        () if peak.0 > PCIE.0 => Family::Nvlink,
        () => Family::Pcie,
    }
}
