//! `docs/reference/formulas.md` is written from the registry.
//!
//! `TRYCMD=overwrite cargo test --test engine formulas_page` writes the present page.

use std::fmt::Write as _;

use collcost::Collective;
use collcost::model::algorithm::{Algorithm, Guarantee, Registry};
use collcost::model::formula::{At, Dims, Notation, Params, Shape};
use collcost::model::schedule::{Endpoint, Op, Sends, senders};

const HEAD: &str = "\
# Every algorithm: formula and drawing

Written from the registry by `TRYCMD=overwrite cargo test --test engine formulas_page`, and checked fresh by
`cargo test`. Formulas are for one send and one receive at a time; α is the time of an empty message,
BW the rate of a port, M the size (`collcost explain` says what it counts), N the ranks, P the
segments, G the ranks of a node; ₁ is inside a node, ₂ between nodes. What depends on N beyond the
formula stands as a second line; `T ≤` is an upper bound. `collcost explain` derives each with numbers
put in, and says what texts print instead; γ, the time to add, is left out here.

A drawing has a line for each step of few ranks: who sends to whom, `+` where the receiver adds;
`sN` is a switch. `collcost trace` shows what ranks hold, `collcost explore` plays it.
";

/// Ranks of the drawings.
const DRAWN: u32 = 4;

/// Steps of a drawing.
const STEPS: usize = 12;

/// The shape of `ranks` ranks; where the algorithm needs it over two nodes or two slices of a torus, in groups of
/// two, or on a torus.
fn shape(algorithm: &dyn Algorithm, collective: Collective, ranks: u32) -> Option<Shape> {
    let mut shape = Shape::new(collective, ranks);
    if algorithm.is_pipelined() {
        shape = shape.with_segments(2);
    }
    let applies = |shape: &Shape| algorithm.applies(shape).is_ok();
    let nodes = Shape { group: (ranks / 2).try_into().ok(), ..shape };
    let with = |params| Shape { params, ..shape };
    let sides = [[2, ranks / 2], [4, ranks / 4]].into_iter().filter(|[a, b]| a * b == ranks);
    let tori = sides.map(|sides| with(Params { dims: Dims::new(&sides), ..shape.params }));
    let slice = Params { dims: Dims::new(&[2, (ranks / 4).max(1)]), ..shape.params };
    let slices = Shape { params: slice, ..nodes };
    let groups = with(Params { radix: Some(2), ..shape.params });
    [shape, nodes, slices, groups].into_iter().chain(tori).find(applies)
}

/// The formula for a power of two, and beside it those for other ranks or sides where they differ, and for few
/// ranks where trees are shorter; then the functions that they name.
fn formulas(algorithm: &dyn Algorithm, collective: Collective) -> Vec<String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut functions: Vec<&str> = Vec::new();
    for (ranks, name) in [(16, "a power of two"), (12, "another even N"), (7, "an odd N")] {
        let Some(shape) = shape(algorithm, collective, ranks) else { continue };
        let formula = algorithm.print(&At::symbols(shape)).formula(false);
        let sign = if algorithm.guarantee(&shape) == Guarantee::UpperBound { '≤' } else { '=' };
        let text = format!("{sign} {}", formula.write(Notation::Text));
        let name = shape.params.dims.map_or(name.to_owned(), |dims| sides(&dims));
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, of)) => of.push(name),
            None => found.push((text, vec![name])),
        }
        functions.extend(formula.named_functions().iter().map(|named| named.means));
    }
    for ranks in [4, 3, 2] {
        let shape = Shape { params: Params::default(), ..Shape::new(collective, ranks) };
        let shape = if algorithm.is_pipelined() { shape.with_segments(2) } else { shape };
        if algorithm.applies(&shape).is_err() {
            continue;
        }
        let sign = if algorithm.guarantee(&shape) == Guarantee::UpperBound { '≤' } else { '=' };
        let text = algorithm.print(&At::symbols(shape)).formula(false).write(Notation::Text);
        let (text, name) = (format!("{sign} {text}"), format!("N = {ranks}"));
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, of)) if of[0].starts_with("N = ") => of.push(name),
            Some(_) => {}
            None => found.push((text, vec![name])),
        }
    }
    let on_sides = |(_, of): &(String, Vec<String>)| of[0].starts_with("sides");
    let several = found.len() > 1 || found.iter().any(on_sides);
    let line = |(text, of): &(String, Vec<String>)| match several {
        true => format!("T {text}   ({})", of.join(", ")),
        false => format!("T {text}"),
    };
    let mut lines: Vec<String> = found.iter().map(line).collect();
    for means in functions {
        if lines.iter().all(|line| line != means) {
            lines.push(means.to_owned());
        }
    }
    lines
}

/// `sides 2 × 8`.
fn sides(dims: &Dims) -> String {
    let lengths: Vec<String> = dims.lengths().iter().map(u32::to_string).collect();
    format!("sides {}", lengths.join(" × "))
}

/// A line for each step.
fn drawing(algorithm: &dyn Algorithm, collective: Collective) -> Option<String> {
    let shape = shape(algorithm, collective, DRAWN)?;
    let schedule = algorithm.schedule(&shape)?;
    let end = |e: Endpoint| match e {
        Endpoint::Rank(rank) => rank.to_string(),
        Endpoint::Switch(switch) => format!("s{switch}"),
    };
    let mut sends = Sends::default();
    let mut lines: Vec<String> = Vec::new();
    for round in 0..schedule.rounds() {
        let mut messages = Vec::new();
        for from in senders(&*schedule) {
            sends.clear();
            schedule.sends(round, from, &mut sends);
            for t in sends.iter() {
                let sign = if t.op == Op::Reduce { "+" } else { "" };
                messages.push(format!("{}→{}{sign}", end(from), end(t.to)));
            }
        }
        if !messages.is_empty() {
            lines.push(format!("{:>3}  {}", lines.len() + 1, messages.join("  ")));
        }
    }
    if lines.len() > STEPS {
        let more = lines.len() - STEPS;
        lines.truncate(STEPS);
        lines.push(format!("     … {more} more steps"));
    }
    Some(lines.join("\n"))
}

fn page() -> String {
    let registry = Registry::builtin();
    let mut out = HEAD.to_owned();
    for algorithm in registry.iter() {
        let meta = algorithm.meta();
        let names = meta.collectives.iter().map(|c| c.name()).collect::<Vec<_>>().join(", ");
        write!(
            out,
            "\n## {}\n\n`{}`, for {names}. {}.",
            meta.title,
            meta.id,
            capital(meta.summary)
        )
        .unwrap();
        writeln!(out, " {}.\n", meta.source.trim_end_matches('.')).unwrap();
        let mut shown: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
        for &collective in meta.collectives {
            let lines = formulas(algorithm, collective);
            match shown.iter_mut().find(|(known, _)| *known == lines) {
                Some((_, of)) => of.push(collective.name()),
                None => shown.push((lines, vec![collective.name()])),
            }
        }
        out.push_str("```text\n");
        let several = shown.len() > 1;
        for (lines, of) in shown.iter().filter(|(lines, _)| !lines.is_empty()) {
            if several {
                writeln!(out, "{}:", of.join(", ")).unwrap();
            }
            lines.iter().for_each(|line| writeln!(out, "{line}").unwrap());
        }
        if let Some((collective, drawn)) =
            meta.collectives.iter().find_map(|&c| Some((c, drawing(algorithm, c)?)))
        {
            writeln!(out, "\n{} over {DRAWN} ranks\n{drawn}", collective.name()).unwrap();
        }
        out.push_str("```\n");
    }
    out
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map_or(String::new(), |c| c.to_uppercase().to_string());
    first + letters.as_str().trim_end_matches('.')
}

#[test]
fn the_page_of_formulas_is_fresh() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/formulas.md");
    let page = page();
    // What leads to the neighbours stands behind a line: `tests/command/pages.rs`.
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    let (kept, neighbours) = kept.split_once("\n---\n").unwrap_or((&kept, "\n"));
    if std::env::var_os("TRYCMD").is_some_and(|value| value == "overwrite") {
        std::fs::write(file, format!("{page}\n---\n{neighbours}")).unwrap();
    } else {
        assert!(page == kept, "docs/reference/formulas.md is not what the registry says");
    }
    // Every algorithm has a formula, and all but those that no schedule has a drawing.
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert_eq!(sections.len(), Registry::builtin().iter().count());
    for section in sections {
        assert!(section.contains("T = ") || section.contains("T ≤ "), "{section}");
    }
}
