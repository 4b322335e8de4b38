//! The times of a library's collectives from logs of benchmarks: curves, and a machine of plain α-β
//! if no better one is known.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::About;
use super::profile::Stated;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Seconds;
use crate::base::stats::median;
use crate::machine::curve::{self, Curve, Observation, Placed, contradiction};
use crate::machine::profile::{Call, Hardware, Links, Profile, TierKind};
use crate::machine::sample::{Block, Clock, DataType, Library, Op, Samples};

/// Options of a fit of logs.
#[derive(Debug, Clone, Copy)]
pub struct Logs {
    /// Ranks per node, if a log does not say how many nodes there were.
    pub per_node: Option<NonZeroU32>,
    /// Keep the residual of the components for each size. Without it a profile contains only parameters,
    /// and no measurements that may not be passed on.
    pub residuals: bool,
}

impl Default for Logs {
    fn default() -> Self {
        Self { per_node: None, residuals: true }
    }
}

/// The curves of a library's collectives.
#[derive(Debug, Clone)]
pub struct Curves {
    /// One for each collective and, if it reduces, for each type of elements.
    pub curves: Vec<Curve>,
    /// The same as plain α-β, in the same order.
    pub plain: Vec<Curve>,
    /// The collectives without a curve, and why.
    pub left_out: Vec<(String, String)>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Whether a file contains times of a library's collectives.
#[must_use]
pub fn has_library(samples: &Samples) -> bool {
    samples.blocks.iter().any(|b| matches!(b.op, Op::Library(_)))
}

/// The curve of every collective of a library in `samples`, taken on a machine of this `hardware` if it is known.
///
/// # Errors
/// No collective of a library was timed at two sizes.
pub fn library(samples: &Samples, asked: &Logs, hardware: Option<&Hardware>) -> Result<Curves> {
    let mut cells: BTreeMap<(Collective, Option<DataType>), [Vec<Observation>; 2]> =
        BTreeMap::new();
    let mut unknown = 0;
    // If both clocks were read, the GPU's busy time is what benchmarks of libraries report.
    let by_events = samples.blocks.iter().any(|b| b.clock == Clock::Event);
    for block in &samples.blocks {
        if by_events && block.clock == Clock::Host {
            continue;
        }
        let Op::Library(Library { collective, dtype, in_place }) = block.op else { continue };
        let Some(time) = median(block.spans().iter().map(|s| s.0).collect()) else { continue };
        let nodes = nodes(block, asked, hardware);
        unknown += usize::from(nodes.is_none());
        let placed = Placed { ranks: block.ranks, nodes: nodes.unwrap_or(1) };
        let observation = Observation { placed, size: block.size, time: Seconds(time) };
        let dtype = dtype.filter(|_| collective.reduces());
        cells.entry((collective, dtype)).or_default()[usize::from(in_place)].push(observation);
    }
    let source = source(samples);
    let notes = samples.notes.clone();
    let mut found = Curves { curves: Vec::new(), plain: Vec::new(), left_out: Vec::new(), notes };
    for ((collective, dtype), [out_of_place, in_place]) in cells {
        let name = Library { collective, dtype, in_place: false };
        let name = Op::Library(name).to_string().replace("library/", "").replace("/any", "");
        if collective == Collective::Barrier {
            let why = "a barrier has no bytes, and a curve is over sizes";
            found.left_out.push((name, why.to_owned()));
            continue;
        }
        let rows = if out_of_place.is_empty() {
            in_place
        } else {
            if !in_place.is_empty() {
                let why = format!(
                    "{} in-place times: the curve is of the out-of-place ones",
                    in_place.len()
                );
                found.left_out.push((name.clone(), why));
            }
            out_of_place
        };
        found.notes.extend(contradiction(&rows).map(|note| format!("{name}: {note}")));
        let whole = curve::Asked {
            residuals: asked.residuals,
            source: source.clone(),
            ..curve::Asked::new(collective, dtype)
        };
        let fitted = curve::fit(&rows, &whole);
        let plain = curve::fit(&rows, &whole.alpha_beta());
        match (fitted, plain) {
            (Ok(curve), Ok(plain)) => {
                found.curves.push(curve);
                found.plain.push(plain);
            }
            (Err(why), _) | (_, Err(why)) => found.left_out.push((name, why.what().to_owned())),
        }
    }
    if unknown > 0 {
        found.notes.push(format!(
            "{unknown} times do not say on how many nodes: one is assumed; set --gpus-per-node"
        ));
    }
    if found.curves.is_empty() {
        let why = found.left_out.first().map_or("there is none".to_owned(), |l| l.1.clone());
        return Err(Error::input(format!("no collective of a library can be fitted: {why}"))
            .help("give logs of at least two sizes"));
    }
    Ok(found)
}

/// The nodes of a block's ranks: those that the log states, which counts hosts; otherwise as many as the ranks fill, by
/// what was asked or by the machine's own.
fn nodes(block: &Block, asked: &Logs, hardware: Option<&Hardware>) -> Option<u32> {
    let hosts = block.nodes.filter(|&d| d > 0 && d <= block.ranks);
    let domains = |hosts| hardware?.domains(block.ranks, hosts);
    let said = hosts.map(|hosts| domains(hosts).unwrap_or(hosts));
    let whole = hardware.map(|one| one.span).filter(|span| (1..block.ranks).contains(span));
    let per_node = asked.per_node.map(NonZeroU32::get).or(whole);
    said.or_else(|| per_node.map(|each| block.ranks.div_ceil(each)))
}

fn source(samples: &Samples) -> String {
    let files = samples.origin.files.join(", ");
    match &samples.origin.library {
        Some(library) => format!("{library}: {files}"),
        None => files,
    }
}

impl Curves {
    /// The machine with these curves: `base`, or one of plain α-β by the collective with most times.
    #[must_use]
    pub fn profile(self, base: Option<Profile>, samples: &Samples, about: &About) -> Profile {
        let mut profile = base.unwrap_or_else(|| self.machine(samples, about));
        profile.name.clone_from(&about.name);
        profile.aliases.clear();
        let new = |old: &Curve| {
            self.curves.iter().all(|c| (c.collective, c.dtype) != (old.collective, old.dtype))
        };
        profile.curves.retain(new);
        profile.curves.extend(self.curves);
        profile.curves.sort_by_key(|c| (c.collective.id(), c.dtype));
        profile.notes.extend(samples.notes.iter().cloned());
        profile
    }

    fn machine(&self, samples: &Samples, about: &About) -> Profile {
        let source = format!("{}: {}, plain alpha-beta", about.command, source(samples));
        let stated = Stated { source: &source, date: about.date };
        // All-reduce, if there is one: it is what most people look up.
        let part =
            self.plain.iter().max_by_key(|c| (c.collective == Collective::AllReduce, c.rows));
        let mut tiers = Vec::new();
        let placed = || self.curves.iter().flat_map(|c| &c.placed);
        let per_node = placed().map(|p| p.ranks.div_ceil(p.nodes)).max().unwrap_or(1);
        let between = placed().any(|p| p.between());
        if let Some(c) = part.and_then(|p| p.components.first()) {
            if per_node > 1 {
                tiers.push(Links {
                    span: between.then(|| NonZeroU32::new(per_node)).flatten(),
                    alpha: Some(stated.alone(c.alpha)),
                    bandwidth: c.bandwidth.map(|b| stated.alone(b)),
                    kind: Some(TierKind::Node),
                    ..Links::bare("node")
                });
            }
            if between {
                tiers.push(Links {
                    nics: (per_node > 1).then_some(NonZeroU32::MIN),
                    alpha: c.alpha_between.map(|a| stated.alone(a)),
                    bandwidth: c.bandwidth_between.map(|b| stated.alone(b)),
                    kind: Some(TierKind::Network),
                    ..Links::bare("network")
                });
            }
        }
        let each = self.plain.iter().map(|p| (Call::Of(p.collective), p));
        let launch = part
            .map(|p| (Call::Any, p))
            .into_iter()
            .chain(each)
            .filter_map(|(call, p)| Some((call, stated.alone(p.components.first()?.launch))));
        let library = samples.origin.library.as_deref();
        let title = format!("fitted to logs: {}", samples.origin.files.join(", "));
        Profile {
            library: library.and_then(|l| l.split([' ', ',']).next()).map(str::to_ascii_lowercase),
            tiers,
            launch: launch.collect(),
            ..Profile::bare(about.name.clone(), title)
        }
    }
}
