//! A page's tables for programs: its records if it has any, else its main tables, else its labels
//! with their texts.

use std::io::{self, Write};

use super::super::sheet::{Cell, Column, Sheet};
use super::{Block, Prose};

pub(super) fn write(out: &mut impl Write, blocks: &[Block]) -> io::Result<()> {
    let records = blocks.iter().filter_map(|block| match block {
        Block::Record(sheet) => Some(sheet.clone()),
        _ => None,
    });
    let mut sheets: Vec<Sheet> = records.collect();
    if sheets.is_empty() {
        sheets = blocks.iter().filter_map(table).collect();
    }
    if sheets.is_empty() {
        sheets.push(entries(blocks));
    }
    let keys = |sheet: &Sheet| sheet.columns.iter().map(|c| c.key.clone()).collect::<Vec<_>>();
    // Tables with the same columns are merged.
    for (i, alike) in sheets.chunk_by(|a, b| keys(a) == keys(b)).enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let rows = alike.iter().flat_map(|sheet| sheet.rows.iter().cloned()).collect();
        Sheet { columns: alike[0].columns.clone(), rows }.csv(out)?;
    }
    Ok(())
}

fn table(block: &Block) -> Option<Sheet> {
    match block {
        Block::Table { sheet, beside: false } => Some(sheet.clone()),
        Block::Prose(Prose::Table { header, rows }) => Some(Sheet {
            columns: header.iter().enumerate().map(column).collect(),
            rows: rows.iter().map(|row| row.iter().map(Cell::same).collect()).collect(),
        }),
        _ => None,
    }
}

/// A table without headings gets the columns `what` and `text`.
fn column((i, name): (usize, &String)) -> Column {
    let name = match (name.as_str(), i) {
        ("", 0) => "what",
        ("", _) => "text",
        (name, _) => name,
    };
    Column::words(name, name)
}

fn entries(blocks: &[Block]) -> Sheet {
    let rows = blocks.iter().filter_map(|block| match block {
        Block::Entry(label, text) => Some([label, text].map(|t| Cell::same(t.trim())).to_vec()),
        Block::Line(text) => Some(vec![Cell::same(""), Cell::same(text.trim())]),
        _ => None,
    });
    let columns = ["what", "text"].map(|name| Column::words(name, name)).to_vec();
    Sheet { columns, rows: rows.collect() }
}
