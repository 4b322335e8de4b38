//! Lists as pages.

use super::page::Page;
use crate::answer::explain::Block;
use crate::answer::list::{List, Named};

/// A list.
#[must_use]
pub fn list(report: &List) -> Page {
    let mut blocks = vec![Block::Heading("What has a name".to_owned())];
    let mut part = |title: &str, block: Option<Block>| {
        if let Some(block) = block {
            blocks.extend([Block::Heading(title.to_owned()), block]);
        }
    };
    part("Machines", named(&report.machines));
    part("Collectives", named(&report.collectives));
    part("Algorithms", algorithms(report));
    part("Libraries", named(&report.libraries));
    part("Policies of choose", named(&report.policies));
    part("Topics of explain", named(&report.topics));
    part("Contradictions between texts and schedules", named(&report.contradictions));
    part("Parameters of a question", parameters(report));
    let kinds = (!report.batch.is_empty()).then(|| Block::Text(report.batch.join(", ")));
    part("Kinds of batch questions", kinds);
    blocks.into()
}

fn named(entries: &[Named]) -> Option<Block> {
    let aliases = entries.iter().any(|e| !e.aliases.is_empty());
    let row = |e: &Named| {
        let mut row = vec![e.id.to_owned(), e.title.clone()];
        if aliases {
            row.push(e.aliases.join(", "));
        }
        row
    };
    let header: &[&str] = if aliases { &["name", "what", "also"] } else { &["name", "what"] };
    (!entries.is_empty()).then(|| Block::table(header, entries.iter().map(row)))
}

fn parameters(report: &List) -> Option<Block> {
    let rows = report.parameters.iter().map(|p| {
        let flag = [std::slice::from_ref(&p.flag), &p.aliases].concat().join(", ");
        let key = format!("[{}] {} = \"{}\"", p.section, p.key, p.example);
        vec![key, flag, p.help.to_owned()]
    });
    let header = &["in collcost.toml, budgets, plans and batch", "flag", "what"];
    (!report.parameters.is_empty()).then(|| Block::table(header, rows))
}

fn algorithms(report: &List) -> Option<Block> {
    let rows = report.algorithms.iter().map(|a| {
        let mut known: Vec<&str> = a.ships.iter().map(String::as_str).collect();
        known.extend(a.aliases);
        known.dedup();
        vec![a.id.to_owned(), a.collectives.join(", "), known.join(", ")]
    });
    let header = &["name", "of", "in libraries, and also"];
    (!report.algorithms.is_empty()).then(|| Block::table(header, rows))
}
