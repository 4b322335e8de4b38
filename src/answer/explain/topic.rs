//! Topics, including the tables that the engine computes.

use std::num::NonZeroU32;

use serde::Serialize;

use super::collective::{busbw_formula, state};
use super::named::named;
use super::{Explanation, Subject};
use crate::answer::notes::{
    self, CONTRADICTIONS, Contradiction, Figures, Piece, Topic, WORDS, Word,
};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Seconds, Volume};
use crate::cost::price::Prepared;
use crate::machine::fabric::Fabric;
use crate::machine::presets::{PORT_BUDGETS, RATES, SWITCH_HOPS};
use crate::model::algorithm::Registry;
use crate::model::formula::{At, Notation, Shape, ceil_lg};

/// A page.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopicView {
    /// The name on the command line.
    pub id: String,
    /// The question that it answers.
    pub title: String,
    /// The page.
    pub blocks: Vec<Block>,
    /// Follow-up commands.
    pub next: &'static [&'static str],
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table {
        /// The headings.
        header: Vec<String>,
        /// The rows, one cell per column.
        rows: Vec<Vec<String>>,
    },
    /// A formula, as text and in LaTeX.
    Formula {
        /// As text.
        text: String,
        /// As LaTeX.
        latex: String,
    },
    /// Lines that are kept unchanged.
    Lines(Vec<String>),
    /// A command to type.
    Command(String),
}

impl Block {
    /// A table of anything that converts to text.
    pub(crate) fn table<T: ToString>(
        header: &[&str],
        rows: impl IntoIterator<Item = Vec<T>>,
    ) -> Self {
        Self::Table {
            header: header.iter().map(|&h| h.to_owned()).collect(),
            rows: rows.into_iter().map(|r| r.iter().map(ToString::to_string).collect()).collect(),
        }
    }
}

/// The number of ranks in a topic's numbers by default.
const RANKS: u32 = 8;

/// The page called `name`, that of one of K1 to K26, the meaning of that word on a screen, or what is named so, with
/// numbers for `ranks` ranks.
/// The page on busbw may name an all-reduce, whose traffic it then shows.
///
/// # Errors
/// An unknown name, with the nearest known one; an algorithm where none applies.
pub fn topic(
    name: &str,
    ranks: Option<NonZeroU32>,
    algorithm: Option<&str>,
) -> Result<Explanation> {
    let Topic { id, title, pieces, next, .. } = match notes::topic(name) {
        Ok(topic) => topic,
        Err(unknown) => {
            let word = || notes::meaning(name).map(meaning);
            let page = notes::contradiction(name).map(contradiction).or_else(word);
            let page = page.or_else(|| named(name)).ok_or(unknown)?;
            return algorithm.map_or(Ok(page), |algorithm| Err(no_algorithms(name, algorithm)));
        }
    };
    let ranks = ranks.map_or(RANKS, NonZeroU32::get);
    let mut blocks = Vec::new();
    for piece in *pieces {
        blocks.push(match piece {
            Piece::Text(text) => Block::Text((*text).to_owned()),
            Piece::Command(line) => Block::Command((*line).to_owned()),
            Piece::Table(rows) => Block::table(rows[0], rows[1..].iter().map(|row| row.to_vec())),
            Piece::Figures(figures) => known(*figures, ranks),
            Piece::Words => {
                let line = |w: &Word| Block::Text(format!("{}: {}", w.names[0], w.means));
                blocks.extend(WORDS.iter().map(line));
                continue;
            }
        });
    }
    match (algorithm, *id) {
        (None, _) => {}
        (Some(algorithm), "busbw") => blocks.push(traffic(algorithm, ranks)?),
        (Some(algorithm), _) => {
            return Err(no_algorithms(name, algorithm));
        }
    }
    let (id, title) = ((*id).to_owned(), (*title).to_owned());
    Ok(Explanation::of(Subject::Topic(TopicView { id, title, blocks, next })))
}

fn no_algorithms(name: &str, algorithm: &str) -> Error {
    Error::input(format!("`{name}` is a topic, without algorithms"))
        .help(format!("write collcost explain allreduce {algorithm}"))
}

/// A word of a screen as a page.
fn meaning(word: &'static Word) -> Explanation {
    let mut blocks = vec![Block::Text(word.means.to_owned())];
    if word.names.len() > 1 {
        blocks.push(Block::Text(format!("Also printed as: {}.", word.names[1..].join(", "))));
    }
    blocks.push(Block::Command(format!("collcost {}", word.next)));
    let [id, title] = [word.names[0]; 2].map(str::to_owned);
    Explanation::of(Subject::Topic(TopicView { id, title, blocks, next: &[] }))
}

/// One of K1 to K26 as a page.
fn contradiction(c: &'static Contradiction) -> Explanation {
    let texts = c.cited();
    let mut blocks = vec![Block::table(
        &["", ""],
        [vec!["printed in", &texts], vec!["printed", c.printed], vec!["holds", c.holds]],
    )];
    if !c.about.is_empty() {
        let about = c.about.iter().map(|(collective, ids)| {
            let ids = if ids.is_empty() { "all algorithms".to_owned() } else { ids.join(", ") };
            vec![collective.id().to_owned(), ids]
        });
        blocks.push(Block::table(&["collective", "algorithms"], about));
    }
    let id = c.id.to_owned();
    let next = &["collcost explain contradictions"];
    Explanation::of(Subject::Topic(TopicView { id, title: c.title.to_owned(), blocks, next }))
}

fn known(figures: Figures, ranks: u32) -> Block {
    match figures {
        Figures::BusbwFactors => busbw(ranks),
        Figures::States => Block::table(
            &["collective", "before, rank i", "after, rank i"],
            Collective::ALL.iter().map(|&c| {
                let state = state(c);
                vec![c.name(), state.before, state.after]
            }),
        ),
        Figures::PortBudgets => port_budgets(),
        Figures::Rates => Block::table(
            &["name", "rate", "source"],
            RATES.iter().map(|f| vec![f.name.to_owned(), f.low.to_string(), f.source.to_owned()]),
        ),
        Figures::Switches => Block::table(
            &["switch", "α_sw", "source"],
            SWITCH_HOPS.iter().map(|f| {
                let range = if f.low == f.high {
                    f.low.to_string()
                } else {
                    format!("{} to {}", f.low, f.high)
                };
                vec![f.name.to_owned(), range, f.source.to_owned()]
            }),
        ),
        Figures::Pipelines => pipelines(ranks.max(2)),
        Figures::InNetwork => in_network(),
        Figures::Regimes => regimes(ranks.max(2)),
        Figures::Contradictions => Block::table(
            &["", "about", "printed in"],
            CONTRADICTIONS.iter().map(|c| vec![c.id.to_owned(), c.title.to_owned(), c.cited()]),
        ),
    }
}

/// What busbw counts next to what an all-reduce sends.
fn traffic(algorithm: &str, ranks: u32) -> Result<Block> {
    let found = Registry::builtin().find(Collective::AllReduce, algorithm)?.algorithm;
    let shape = Shape::new(Collective::AllReduce, ranks);
    found.applies(&shape).map_err(|why| Error::unsupported(why.to_string()))?;
    let sent = found.sent(&At::numbers(shape));
    let counted = Collective::AllReduce.busbw_factor(ranks).0;
    let header = format!("all-reduce over {ranks} ranks by {}", found.meta().title);
    let row = |what: &str, share: f64| vec![what.to_owned(), format!("{share:.4} M")];
    Ok(Block::table(
        &[&header, "of M"],
        [row("busbw counts", counted), row("the busiest rank sends", sent)],
    ))
}

fn busbw(ranks: u32) -> Block {
    let here = format!("N = {ranks}");
    Block::table(
        &["collective", "busbw / algbw", &here, "N = 2", "N = 1024"],
        Collective::ALL.iter().filter(|c| **c != Collective::Barrier).map(|&c| {
            let factor = |n: u32| format!("{:.4}", c.busbw_factor(n).0);
            vec![
                c.name().to_owned(),
                busbw_formula(c).to_owned(),
                factor(ranks),
                factor(2),
                factor(1024),
            ]
        }),
    )
}

/// The ports of fabrics next to those that the all-reduces of 512 ranks need.
fn port_budgets() -> Block {
    const LARGE: u32 = 512;
    let lg = LARGE.ilog2();
    let asked = [("chain, ring", 1), ("double binary tree", 2), ("⌈lg N⌉ at once", lg)];
    let header: Vec<String> = ["fabric", "ports"]
        .into_iter()
        .map(str::to_owned)
        .chain(asked.iter().map(|(name, k)| format!("{name}: {k}")))
        .chain(["what".to_owned()])
        .collect();
    let rows = PORT_BUDGETS.iter().map(|figure| {
        let (least, most) = (figure.low.sends(u32::MAX), figure.high.sends(u32::MAX));
        let range = if least == most { least.to_string() } else { format!("{least}–{most}") };
        let fits = asked.iter().map(|&(_, k)| match k {
            k if k <= least => "yes".to_owned(),
            k if k > most => "no".to_owned(),
            k => format!("from {k}"),
        });
        let head = [figure.name.to_owned(), range];
        head.into_iter().chain(fits).chain([figure.source.to_owned()]).collect()
    });
    Block::Table { header, rows: rows.collect() }
}

/// The depths that spiceMonkey/collective-comm 01 lists, with P* for 16 MiB over 8 ranks at 1 µs and 100 GB/s.
fn pipelines(n: u32) -> Block {
    let pipe = |depth: u32| crate::cost::crossover::Pipeline {
        depth,
        alpha: Seconds(1e-6),
        transfer: Volume(16_777_216.0) / Bandwidth(1e11),
    };
    let (lg, here) = (ceil_lg(n), format!("N = {n}"));
    let rows: &[(&str, &str, u32)] = &[
        ("ring broadcast (chain)", "N − 1", n - 1),
        ("ring reduce (chain)", "N − 1", n - 1),
        ("binomial broadcast, reduce", "⌈lg N⌉", lg),
        ("ring all-reduce", "2(N − 1)", (n - 1).saturating_mul(2)),
        ("double binary tree", "2⌈lg N⌉", 2 * lg),
    ];
    Block::table(
        &["schedule", "L", &here, "P = 1, µs", "P*", "P* whole", "T(P*), µs"],
        rows.iter().map(|&(name, formula, depth)| {
            let one = pipe(depth);
            vec![
                name.to_owned(),
                formula.to_owned(),
                depth.to_string(),
                format!("{:.1}", one.time(1).0 * 1e6),
                format!("{:.2}", one.best_real().0),
                one.best().to_string(),
                format!("{:.1}", one.time_at_real().0 * 1e6),
            ]
        }),
    )
}

/// The closed forms through a switch, next to the ring's.
fn in_network() -> Block {
    let registry = Registry::builtin();
    let formula = |collective: Collective, name: &str| {
        let named = registry.find(collective, name).ok()?;
        let at = At::symbols(Shape::new(collective, RANKS));
        Some(named.algorithm.print(&at).formula(false).write(Notation::Text))
    };
    let rows = Collective::ALL.iter().filter_map(|&c| {
        let through = formula(c, if c == Collective::AllToAll { "hw-all-to-all" } else { "inc" })?;
        let without = ["ring", "chain", "pairwise"].iter().find_map(|name| formula(c, name));
        Some(vec![c.name().to_owned(), through, without.unwrap_or_default()])
    });
    Block::table(&["collective", "through a switch", "ring, chain or pairwise"], rows)
}

/// The ring over sizes, at 1 µs and 100 GB/s.
fn regimes(ranks: u32) -> Block {
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e11));
    let ring = Registry::builtin().find(Collective::AllReduce, "ring");
    let shape = Shape::new(Collective::AllReduce, ranks);
    let prepared = ring.and_then(|r| Prepared::new(r.algorithm, &shape, &fabric)).ok();
    let half = f64::from(ranks) * 1e-6 * 1e11;
    let sizes = [half / 100.0, half / 10.0, half, half * 10.0, half * 100.0];
    let rows = prepared.iter().flat_map(|p| {
        sizes.iter().map(|&size| {
            let price = p.price(Volume(size));
            let total = price.total().0;
            vec![
                Volume(size).to_string(),
                format!("{:.1}", price.latency.0 * 1e6),
                format!("{:.1}", price.bandwidth.0 * 1e6),
                format!("{:.0} %", 100.0 * price.latency.0 / total),
                format!("{:.1}", price.busbw(Volume(size), Collective::AllReduce, ranks).0 / 1e9),
            ]
        })
    });
    let title = format!("ring, {ranks} ranks");
    Block::table(&[&title, "latency µs", "bandwidth µs", "latency", "busbw GB/s"], rows)
}
