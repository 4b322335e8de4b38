//! What every rank holds, as a table.
//!
//! Sums are written out while the tables fit: first up to three terms, then only the ranks, then
//! only their number.

use super::runs;
use crate::answer::trace::{Cell, Sum, Trace};
use crate::view::Look;
use crate::view::page::Page;
use crate::view::sheet::{self, Column, Sheet};

/// The most ranks and columns of a table.
const MOST: usize = 16;

type State = [Vec<Option<Cell>>];

/// How states are written.
pub(super) struct Shown<'a> {
    trace: &'a Trace,
    detail: Detail,
}

/// How sums are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Up to this many terms, then only the ranks.
    Terms(usize),
    /// Only the number of terms.
    Number,
}

/// All of them, the longest first.
const DETAILS: [Detail; 4] = [Detail::Terms(3), Detail::Terms(2), Detail::Terms(1), Detail::Number];

impl<'a> Shown<'a> {
    /// With as much detail as fits in the terminal; none if the tables do not fit at all.
    pub fn new(trace: &'a Trace, look: Look) -> Option<Self> {
        let mut states =
            trace.start.iter().chain(trace.steps.iter().filter_map(|s| s.state.as_ref()));
        let columns = if trace.own_parts { trace.question.ranks } else { trace.parts };
        states.next()?;
        if trace.question.ranks as usize > MOST || columns as usize > MOST {
            return None;
        }
        DETAILS.into_iter().map(|detail| Self { trace, detail }).find(|shown| {
            look.width.is_none_or(|width| shown.all().all(|sheet| sheet.width() <= width))
        })
    }

    fn all(&self) -> impl Iterator<Item = Sheet> {
        let start = self.trace.start.iter().map(|start| self.sheet(start, &[]));
        let state = |step: &'a crate::answer::trace::Step| {
            step.state.as_ref().map(|state| self.sheet(state, &step.written))
        };
        start.chain(self.trace.steps.iter().filter_map(state))
    }

    /// The meaning of the names.
    pub fn legend(&self, page: &mut Page) {
        let mut lines: Vec<(String, &str)> = Vec::new();
        let sums = || self.sums();
        let single = || sums().filter(|sum| sum.ranks.len() == 1 && !sum.joined);
        // Different numbers for rank and chunk show which is which.
        let telling = |sum: &&Sum| sum.part.is_some_and(|part| sum.ranks[0] != part);
        if let Some(sum) = single().find(telling).or_else(|| single().next()) {
            lines.push((self.name(sum), self.meaning(sum)));
        }
        if sums().any(|sum| sum.joined) {
            lines.push(("{0,2}".to_owned(), "the ranks heard from so far"));
        } else if let Some(sum) = sums().find(|sum| self.is_whole(sum)) {
            let parts = sum.part.is_some();
            let what = if parts {
                "that chunk of the sum of all vectors"
            } else {
                "the sum of all vectors"
            };
            lines.push((self.name(sum), what));
        }
        if let Some(sum) = sums().find(|sum| self.name(sum).starts_with("Σ[")) {
            lines.push((
                self.name(sum),
                "that chunk, or vector, of these ranks, added in this order",
            ));
        }
        if let Some(sum) =
            sums().find(|sum| self.name(sum).starts_with('Σ') && self.detail == Detail::Number)
        {
            lines.push((
                self.name(sum),
                "a sum of this many ranks' chunks; a wider terminal names them",
            ));
        }
        if self.trace.own_parts {
            lines.push(("of 1".to_owned(), "what is held of rank 1's vector"));
        } else if self.trace.parts > 1 {
            lines.push(("c1".to_owned(), "chunk 1 of M, counted from 0"));
        }
        lines.push(("*".to_owned(), "written in this step"));
        let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(8);
        for (name, what) in lines {
            page.line(format!("{name:<width$}  {what}"));
        }
    }

    fn meaning(&self, sum: &Sum) -> &'static str {
        match (self.trace.own_parts, sum.part.is_some()) {
            (_, false) => "the vector of the rank with that number",
            (true, true) => "first the rank, then the part of its vector",
            (false, true) => "first the rank that brings it, then the chunk",
        }
    }

    fn sums(&self) -> impl Iterator<Item = &'a Sum> {
        let steps = self.trace.steps.iter().filter_map(|step| step.state.as_ref());
        let cells = self.trace.start.iter().chain(steps).flatten().flatten().flatten();
        cells.filter_map(|cell| match cell {
            Cell::Sum(sum) => Some(sum),
            _ => None,
        })
    }

    fn is_whole(&self, sum: &Sum) -> bool {
        let n = self.trace.question.ranks as usize;
        n > 1 && sum.ranks.len() == n
    }

    /// One state; rows without anything are switches that hold nothing.
    pub fn sheet(&self, state: &State, written: &[(u32, u32)]) -> Sheet {
        let (n, parts) = (self.trace.question.ranks, self.trace.parts as usize);
        let own = self.trace.own_parts;
        let mut columns = vec![Column::words("rank", "rank")];
        let headings = if own { 0..n } else { 0..self.trace.parts };
        columns.extend(headings.map(|i| match (own, parts) {
            (true, _) => Column::words(&format!("of {i}"), "chunk"),
            (false, 1) => Column::words("holds", "chunk"),
            (false, _) => Column::words(&format!("c{i}"), "chunk"),
        }));
        let of_column = if own { parts } else { 1 };
        let mut rows = Vec::new();
        for (row, cells) in (0..).zip(state) {
            if row >= n && cells.iter().all(Option::is_none) {
                continue;
            }
            let name = if row < n { row.to_string() } else { format!("switch{}", row - n) };
            let mut shown = vec![sheet::Cell::same(name)];
            let marked = |(chunk, cell): (u32, &Option<Cell>)| {
                let cell = cell.as_ref()?;
                let mark = if written.binary_search(&(row, chunk)).is_ok() { "*" } else { "" };
                Some(self.cell(cell) + mark)
            };
            let texts: Vec<Option<String>> = (0..).zip(cells).map(marked).collect();
            shown.extend(texts.chunks(of_column).map(|texts| {
                let held: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
                sheet::Cell::same(if held.is_empty() { "–".to_owned() } else { held.join(" ") })
            }));
            rows.push(shown);
        }
        Sheet { columns, rows }
    }

    fn cell(&self, cell: &Cell) -> String {
        match cell {
            Cell::Number(number) => number.to_string(),
            Cell::Numbers(numbers) => {
                let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
                format!("[{}]", texts.join(" "))
            }
            Cell::Sum(sum) => self.name(sum),
        }
    }

    fn name(&self, sum: &Sum) -> String {
        let part = sum.part.map_or_else(String::new, |part| part.to_string());
        if sum.joined {
            let mut ranks = sum.ranks.clone();
            ranks.sort_unstable();
            return format!("{{{}}}", runs(&ranks, 3));
        }
        match (sum.ranks.len(), self.detail) {
            (1, _) => sum.to_string(),
            _ if self.is_whole(sum) => format!("V{part}"),
            (terms, Detail::Terms(most)) if terms <= most => sum.to_string(),
            (_, Detail::Terms(_)) => format!("Σ[{}]{part}", runs(&sum.ranks, 3)),
            (terms, Detail::Number) => format!("Σ{terms}"),
        }
    }
}
