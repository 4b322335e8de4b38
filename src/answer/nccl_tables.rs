//! The tables that NCCL's tuner computes for communicators.

use serde::Serialize;

use crate::library::nccl::comms::Named;
use crate::library::nccl::{Algo, Function, Proto, Settings, Table, Version};

/// Tables of communicators, versions and environments.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NcclTables {
    /// `collcost/nccl-table/1`.
    pub schema: &'static str,
    /// One per communicator, version and environment; none if NCCL refuses the environment.
    pub tables: Vec<TableView>,
    /// What to know about them.
    pub notes: Vec<String>,
}

/// A table.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TableView {
    /// The communicator.
    pub communicator: String,
    /// The version whose rules are used.
    pub nccl: &'static str,
    /// The environment's name; empty for the one given.
    pub environment: String,
    /// Every function, algorithm and protocol.
    pub cells: Vec<CellView>,
}

/// A cell.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellView {
    /// The function.
    pub function: &'static str,
    /// The algorithm.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// The cost of a call before its first byte, in microseconds.
    pub latency_us: f32,
    /// Bytes of the largest buffer over time, in 10^9 per second; 0 where it is not available.
    pub bandwidth_gb_per_s: f32,
    /// The maximum number of threads per block.
    pub max_threads: u32,
}

/// The tables of all communicators, versions and environments.
#[must_use]
pub fn nccl_tables(
    comms: &[Named],
    versions: &[Version],
    envs: &[(String, Settings)],
    notes: Vec<String>,
) -> NcclTables {
    let mut tables = Vec::new();
    for &version in versions {
        for (environment, settings) in envs {
            for Named { id, comm } in comms {
                let Ok(table) = Table::new(comm, version, settings) else { continue };
                tables.push(TableView {
                    communicator: id.clone(),
                    nccl: version.id(),
                    environment: environment.clone(),
                    cells: cells(&table, version),
                });
            }
        }
    }
    NcclTables { schema: "collcost/nccl-table/1", tables, notes }
}

fn cells(table: &Table, version: Version) -> Vec<CellView> {
    let cell = |(function, algo, proto): (Function, Algo, Proto)| CellView {
        function: function.name(),
        algorithm: algo.name(),
        protocol: proto.name(),
        latency_us: table.latency(function, algo, proto).0,
        bandwidth_gb_per_s: table.bandwidth(function, algo, proto).0,
        max_threads: table.threads(algo, proto),
    };
    Table::cells(version).map(cell).collect()
}
