//! The columns of a row.

use super::agrees;
use crate::base::quantity::Bytes;
use crate::base::refused::Refused;
use crate::measure::logs::draft::Redop;
use crate::measure::logs::{Read, field};

/// The columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    /// The number of fields in a complete row.
    pub count: usize,
    /// The time of the first place, and whether that is in-place.
    first: (usize, bool),
    /// The time of the second place.
    second: Option<usize>,
    pub redop: Option<usize>,
    pub root: Option<usize>,
    /// Whether the table has the size of an error instead of the number of wrong elements.
    pub errors: bool,
    /// Whether the times are CPU times.
    pub cpu: bool,
}

impl Columns {
    /// The columns of a heading; `None` if it is cut off before the columns of its first place.
    pub fn read(text: &str, only_in_place: bool) -> Option<Self> {
        let (fields, count) = field::split(text);
        let fields = &fields[..count];
        let at = |name: &str| fields.iter().position(|f| *f == name);
        let is_time = |f: &str| matches!(f, "time" | "cputime");
        let mut times = fields.iter().enumerate().filter(|(_, f)| is_time(f)).map(|(i, _)| i);
        let (first, second) = (times.next()?, times.next());
        let named = |i: usize, name: &str| fields.get(i).is_some_and(|f| *f == name);
        let is_block = |i: usize| named(i + 1, "algbw") && named(i + 2, "busbw");
        if !named(1, "count") || !is_block(first) || second.is_some_and(|i| !is_block(i)) {
            return None;
        }
        // `timestamp` covers a date and a time; a row without them is complete, too.
        let count = count - usize::from(fields.last() == Some(&"timestamp"));
        Some(Self {
            count,
            first: (first, only_in_place && second.is_none()),
            second,
            redop: at("redop"),
            root: at("root"),
            errors: at("error").is_some(),
            cpu: fields[first] == "cputime",
        })
    }

    /// The columns of a row without heading, from its number of fields: `size count type`, possibly
    /// `redop`, possibly `root`, and four numbers for each place.
    pub fn of_row(fields: &[&str]) -> Option<Self> {
        let words = fields.len().checked_sub(8).filter(|w| (3..=5).contains(w))?;
        let redop = (words >= 4 && Redop::named(fields[3]).is_some()).then_some(3);
        let root = match (words, redop) {
            (4, None) => Some(3),
            (5, Some(_)) => Some(4),
            (3, _) | (4, Some(_)) => None,
            _ => return None,
        };
        if root.is_some_and(|c| fields[c].parse::<i64>().is_err()) {
            return None;
        }
        let errors = [words + 3, words + 7].iter().any(|&c| fields[c].contains(['e', '.']));
        let (first, second) = ((words, false), Some(words + 4));
        Some(Self { count: fields.len(), first, second, redop, root, errors, cpu: false })
    }

    /// The times, each with whether its place is in-place.
    pub fn places(&self) -> impl Iterator<Item = (usize, bool)> {
        [Some(self.first), self.second.map(|i| (i, true))].into_iter().flatten()
    }

    /// Whether `fields` are a row of these columns: numbers where they should be, and an algbw that is
    /// the size over the time.
    pub fn holds(&self, fields: &[&str], size: u64) -> bool {
        fields.len() >= self.count
            && self.fault(fields).is_none()
            && self.places().all(|(i, _)| {
                let time = field::number(fields[i]).filter(|t| *t > 0.0);
                time.is_none_or(|t| {
                    let time = crate::base::quantity::Seconds(t * 1e-6);
                    agrees(Bytes(size), (time, fields[i]), fields[i + 1])
                })
            })
    }

    /// A field that should be a number and is not.
    pub fn fault(&self, fields: &[&str]) -> Option<&'static str> {
        let is_figure = |f: &str| field::is_none(f) || field::number(f).is_some_and(|x| x >= 0.0);
        for (i, _) in self.places() {
            let figures = fields.get(i..i + 3)?;
            if !figures.iter().all(|f| is_figure(f)) {
                return Some("a field is not a number: the row is damaged");
            }
        }
        None
    }

    /// Refuses a negative time.
    pub fn negative(&self, fields: &[&str], line: usize) -> Read<()> {
        for (i, _) in self.places() {
            field::micros(fields[i], line)?;
        }
        Ok(())
    }
}

/// Refuses other units than microseconds and 10^9 bytes per second.
pub(super) fn units(text: &str, line: usize) -> Read<()> {
    let foreign = text.split_ascii_whitespace().find(|unit| {
        unit.starts_with('(') && !matches!(*unit, "(B)" | "(elements)" | "(us)" | "(GB/s)" | "(%)")
    });
    match foreign {
        None => Ok(()),
        Some(unit) => {
            let what = format!("nccl-tests does not use the table's unit {unit}");
            Err(Refused::at(line, what).help("give the unchanged output of nccl-tests"))
        }
    }
}
