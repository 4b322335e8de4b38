//! The table of NCCL's example tuner plugin: NCCL's default choices, and departures from them that
//! a site's own logs show to be faster.

use super::evidence::Departure;
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::Bytes;
use crate::library::nccl::rules::{COLLECTIVES, Channels, Rule, Rules};
use crate::library::nccl::{
    Algo, Call, Chooser, Communicator, Function, Operation, Place, Proto, Range, Reduction,
    Settings, Table, Version, ranges,
};
use crate::library::tuning_file::Line;

/// An algorithm over a wire protocol.
pub type Cell = (Algo, Proto);

/// `nvls_tree/simple`, as written in the plugin's file.
#[must_use]
pub fn name((algorithm, protocol): Cell) -> String {
    format!("{}/{}", algorithm.lower(), protocol.lower())
}

/// The largest size for which NCCL's choice is computed; it continues beyond.
const LARGEST: Bytes = Bytes(1 << 50);

/// Up to this size, rings of unknown communicators use LL.
const SHORT: Bytes = Bytes(65_536);

/// NCCL's default choices on one communicator.
pub struct Own {
    /// The communicator.
    pub comm: Communicator,
    /// The version whose rules decide.
    pub version: Version,
    /// Decides on sums of floats.
    pub chooser: Chooser,
    /// Decides on averages, which no switch adds: as on products, and integers of 8 bits.
    pub scaled: Chooser,
}

impl Own {
    /// NCCL there with an empty environment.
    ///
    /// # Errors
    /// A communicator whose graphs are not known.
    pub fn new(place: &Place, version: Version) -> Result<Self> {
        let comm = place.communicator()?;
        let table = Table::new(&comm, version, &Settings::default())?;
        let chooser = |operation| {
            let reduction = Reduction { operation, ..Reduction::default() };
            Chooser::new(&comm, version, &table, reduction)
        };
        let (sums, scaled) = (chooser(Operation::Sum), chooser(Operation::Scaled));
        Ok(Self { comm, version, chooser: sums, scaled })
    }

    /// The choice at a size; `None` if NCCL returns an error.
    #[must_use]
    pub fn at(&self, function: Function, size: Bytes) -> Option<Cell> {
        let decided = self.chooser.decide(&Call { function, size, pipelined: 1 });
        decided.map(|d| (d.algo, d.proto))
    }

    /// The sizes for each choice, to the byte.
    #[must_use]
    pub fn ranges(&self, function: Function) -> Vec<Range> {
        ranges_of(&self.chooser, function)
    }

    fn rules(&self, rules: &mut Vec<Rule>) {
        let here = (Some(self.comm.nodes), Some(self.comm.ranks));
        for &collective in COLLECTIVES {
            let Some(function) = Function::of(collective) else { continue };
            let scaled = ranges_of(&self.scaled, function);
            for Range { from, to, first, .. } in self.ranges(function) {
                let Some(cell) = first.map(|d| (d.algo, d.proto)) else { continue };
                rules.push(rule(collective, (from, to), cell, here));
                if self.scaled.considers(function, cell.0, cell.1) {
                    continue;
                }
                // The plugin goes on to the next line for a call that this cell cannot run.
                for other in scaled.iter().filter(|other| other.from <= to && from <= other.to) {
                    let Some(cell) = other.first.map(|d| (d.algo, d.proto)) else { continue };
                    let shared = (from.max(other.from), to.min(other.to));
                    rules.push(rule(collective, shared, cell, here));
                }
            }
        }
    }
}

/// The sizes for each choice of a chooser, to the byte.
fn ranges_of(chooser: &Chooser, function: Function) -> Vec<Range> {
    let mut found = ranges(chooser, function, Bytes(0), LARGEST);
    if let Some(last) = found.last_mut() {
        last.to = Bytes(u64::MAX);
    }
    found
}

/// The table for the communicator of a placement.
///
/// The plugin gives one channel to every call that matches no line, and to every line with `-1`
/// channels. The lines therefore have 0, which leaves the number to NCCL. Since a job creates
/// smaller communicators too, NCCL's own choices for those on the same machine follow, if their
/// graphs are known, and after them rings.
///
/// # Errors
/// The errors of [`Own::new`] for the placement itself.
pub fn table(place: &Place, version: Version, departures: &[Departure]) -> Result<Rules> {
    let own = Own::new(place, version)?;
    let here = (Some(own.comm.nodes), Some(own.comm.ranks));
    let departing = |d: &Departure| rule(d.collective, (d.from, d.to), d.cell, here);
    let mut rules: Vec<Rule> = departures.iter().map(departing).collect();
    own.rules(&mut rules);
    // Communicators whose graphs no search found get rings.
    for smaller in smaller(place).filter(Place::is_listed) {
        if let Ok(own) = Own::new(&smaller, version) {
            own.rules(&mut rules);
        }
    }
    for &collective in COLLECTIVES {
        let long = (Bytes(SHORT.0 + 1), Bytes(u64::MAX));
        let ring = |protocol| (Algo::Ring, protocol);
        rules.push(rule(collective, (Bytes(0), SHORT), ring(Proto::Ll), (None, None)));
        rules.push(rule(collective, long, ring(Proto::Simple), (None, None)));
    }
    Ok(Rules { rules })
}

/// Communicators that a job creates besides its largest: on the same number of nodes or a power of
/// two of them, and with the same number of ranks on each or fewer.
fn smaller<'a>(place: &Place<'a>) -> impl Iterator<Item = Place<'a>> {
    let Place { machine, per_node, nodes, search } = *place;
    let counts = (0..u32::BITS).map(|power| 1 << power).take_while(move |&n| n < nodes);
    let all = counts.chain([nodes]).flat_map(move |nodes| {
        (1..=per_node).map(move |per_node| Place { machine, per_node, nodes, search })
    });
    let itself = (nodes, per_node);
    // A single rank does not communicate.
    all.filter(move |p| p.nodes * p.per_node > 1 && (p.nodes, p.per_node) != itself)
}

fn rule(
    collective: Collective,
    (from, to): (Bytes, Bytes),
    (algorithm, protocol): Cell,
    (nodes, ranks): (Option<u32>, Option<u32>),
) -> Rule {
    Rule {
        collective,
        from,
        to,
        algorithm,
        protocol,
        channels: Channels::Own,
        nodes,
        ranks,
        pipe_ops: None,
        registered: None,
        line: Line::default(),
    }
}

/// The longest name of a file for which a comment of the table has room.
const MOST: usize = 110;

/// How to load the file, and what to know.
#[must_use]
pub fn head(file: Option<&str>) -> Vec<String> {
    // The plugin reads no longer lines.
    let file = match super::loaded(file) {
        long if long.len() >= MOST => super::loaded(None),
        file => file,
    };
    vec![
        "load it into NCCL 2.28.3 or later with NCCL's example tuner plugin of 2.30.3 or later \
         (plugins/tuner/example); those of 2.27.7 to 2.29.7 crash at a line that applies:"
            .to_owned(),
        format!(
            "  NCCL_TUNER_PLUGIN=/path/to/libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={file}"
        ),
        "the plugin gives one channel to calls that match no line, so every call has a line; 0 \
         channels leaves their number to NCCL"
            .to_owned(),
        "an algorithm that adds in the switch cannot run every type and reduction: the lines behind \
         its own are NCCL's choice for an average, a product or 8-bit integers"
            .to_owned(),
        "no column tells types apart: above 8 ranks NCCL keeps fp8 sums off rings, a line does not"
            .to_owned(),
        "after the communicator's lines come NCCL's own choices on smaller ones of the same \
         machine, then rings for all of which nothing is known: those rings are not NCCL's choice"
            .to_owned(),
    ]
}
