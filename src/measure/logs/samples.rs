//! Converts imported rows to samples.

use super::{Imported, Measured, Row, Table, Tested};
use crate::base::quantity::Bytes;
use crate::machine::sample::{Block, Clock, Library, Op, Origin, Sample, Samples};

impl Table {
    /// The operation that a row timed; `None` for a rate and for operations that this crate does not have.
    #[must_use]
    pub fn op(&self, row: &Row) -> Option<Op> {
        match &self.tested {
            Tested::Collective(collective) => Some(Op::Library(Library {
                collective: *collective,
                dtype: row.dtype,
                in_place: row.in_place,
            })),
            Tested::OneWay => Some(Op::OneWay),
            Tested::Shift => Some(Op::Shift),
            Tested::Rate { .. } | Tested::Other(_) => None,
        }
    }

    /// The smallest and the largest M; `None` without rows.
    #[must_use]
    pub fn sizes(&self) -> Option<(Bytes, Bytes)> {
        let sizes = || self.rows.iter().map(|r| r.size);
        sizes().min().zip(sizes().max())
    }
}

/// The libraries of all tables of `logs`, each once; `None` if no table states its library.
#[must_use]
pub fn libraries<'l>(logs: impl IntoIterator<Item = &'l Imported>) -> Option<String> {
    let tables = logs.into_iter().flat_map(|log| &log.tables);
    let mut all: Vec<&str> = tables.filter_map(|t| t.library.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    (!all.is_empty()).then(|| all.join(", "))
}

impl Imported {
    /// The rows as samples: a table is a launch, and each row is a block of one sample.
    ///
    /// Rates and rows with missing information are counted in [`left_out`](Samples::left_out).
    #[must_use]
    pub fn samples(&self) -> Samples {
        let mut samples = Samples {
            origin: Origin {
                files: vec![self.file.clone()],
                library: libraries([self]),
                ..Origin::default()
            },
            ..Samples::default()
        };
        for (launch, table) in (0..).zip(&self.tables) {
            for caveat in &table.caveats {
                if !samples.notes.contains(caveat) {
                    samples.notes.push(caveat.clone());
                }
            }
            let mut left_out = 0;
            for (block, row) in (0..).zip(&table.rows) {
                let (Some(op), Some(ranks), Measured::Time(span)) =
                    (table.op(row), table.ranks, row.measured)
                else {
                    left_out += 1;
                    continue;
                };
                // An upper bound is not a measurement.
                if row.traced.is_some_and(|t| t.at_most) {
                    left_out += 1;
                    continue;
                }
                samples.blocks.push(Block {
                    op,
                    ranks,
                    size: row.size,
                    launch,
                    block,
                    mode: table.mode,
                    inner: table.iterations,
                    nodes: table.nodes,
                    preempted: None,
                    clock: Clock::default(),
                    chose: None,
                    samples: vec![Sample::of(span)],
                });
            }
            if left_out > 0 {
                samples.left_out.push((table.tested.id().to_owned(), left_out));
            }
        }
        samples
    }
}
