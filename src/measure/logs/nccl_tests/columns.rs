//! The columns of a row.

use super::{agrees, factor};
use crate::base::quantity::{Bytes, Ratio};
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
    /// How many fields behind a time its algbw is.
    behind: usize,
    pub redop: Option<usize>,
    pub root: Option<usize>,
    /// Whether the table has the size of an error instead of the number of wrong elements.
    pub errors: bool,
    /// Whether the times are CPU times.
    pub cpu: bool,
}

/// The fields of a row that are about one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'f> {
    pub time: &'f str,
    pub algbw: &'f str,
    pub busbw: &'f str,
    pub wrong: &'f str,
    pub in_place: bool,
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
        let behind = 1 + usize::from(named(first + 1, "hipevt"));
        let is_block = |i: usize| named(i + behind, "algbw") && named(i + behind + 1, "busbw");
        if !named(1, "count") || !is_block(first) || second.is_some_and(|i| !is_block(i)) {
            return None;
        }
        // `timestamp` covers a date and a time; a row without them is complete, too.
        let count = count - usize::from(fields.last() == Some(&"timestamp"));
        Some(Self {
            count,
            first: (first, only_in_place && second.is_none()),
            second,
            behind,
            redop: at("redop"),
            root: at("root"),
            errors: at("error").is_some(),
            cpu: fields[first] == "cputime",
        })
    }

    /// The columns of a row without heading, from its number of fields: `size count type`, possibly
    /// `redop`, possibly `root`, and four numbers for each place; five if rccl-tests wrote it.
    pub fn of_row(fields: &[&str]) -> Option<Self> {
        let behind = 1 + usize::from(fields.len() == 15);
        let each = behind + 3;
        let words = fields.len().checked_sub(2 * each).filter(|w| (3..=5).contains(w))?;
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
        let errors =
            [1, 2].iter().any(|&place| fields[words + place * each - 1].contains(['e', '.']));
        let (first, second) = ((words, false), Some(words + each));
        Some(Self { count: fields.len(), first, second, behind, redop, root, errors, cpu: false })
    }

    /// The columns without those of the second place.
    pub fn first_place(&self) -> Option<Self> {
        self.second.map(|at| Self { count: at, second: None, ..*self })
    }

    /// Whether so many fields end where nccl-tests ends a piece of a row.
    pub fn is_end(&self, count: usize) -> bool {
        count == self.first.0 || Some(count) == self.second || count == self.count
    }

    /// Where the places' times are, and whether a place is in-place.
    fn times(&self) -> impl Iterator<Item = (usize, bool)> {
        [Some(self.first), self.second.map(|i| (i, true))].into_iter().flatten()
    }

    /// What a row has for each of its places.
    pub fn places<'f>(&self, fields: &[&'f str]) -> impl Iterator<Item = Place<'f>> {
        let at = |i: usize| fields.get(i).copied().unwrap_or("");
        self.times().map(move |(time, in_place)| {
            let rates = time + self.behind;
            Place {
                time: at(time),
                algbw: at(rates),
                busbw: at(rates + 1),
                wrong: at(rates + 2),
                in_place,
            }
        })
    }

    /// Whether `fields` are a row of these columns: numbers where they should be, and an algbw that is
    /// the size over the time.
    pub fn holds(&self, fields: &[&str], size: u64) -> bool {
        fields.len() >= self.count
            && self.fault(fields).is_none()
            && self.places(fields).all(|place| {
                let time = field::number(place.time).filter(|t| *t > 0.0);
                time.is_none_or(|t| {
                    let time = crate::base::quantity::Seconds(t * 1e-6);
                    agrees(Bytes(size), (time, place.time), place.algbw)
                        || self.part(size, &place).is_some()
                })
            })
    }

    /// busbw over algbw, within the digits of both; `None` if they have too few.
    pub fn factor(&self, size: u64, place: &Place) -> Option<(Ratio, Ratio)> {
        self.part(size, place).or_else(|| factor(place.algbw, place.busbw))
    }

    /// The same where algbw is busbw, as all-gather and reduce-scatter printed it until June 2020
    /// (NVIDIA/nccl-tests#45): both are (N − 1)/N of the size over the time.
    fn part(&self, size: u64, place: &Place) -> Option<(Ratio, Ratio)> {
        if !self.errors || self.root.is_some() || place.algbw != place.busbw {
            return None;
        }
        let (time, rate) = (field::number(place.time)?, field::number(place.busbw)?);
        let (x, y) = (field::half(place.time), field::half(place.busbw));
        // GB/s in µs are thousands of bytes.
        let of = |time: f64, rate: f64| time * rate * 1e3 / size as f64;
        let (low, high) = (of(time - x, rate - y), of(time + x, rate + y));
        let ranks = |part: f64| 1.0 / (1.0 - part);
        let most = ranks(high).floor();
        let fits = high < 1.0 && most >= 2.0 && most >= ranks(low);
        fits.then_some((Ratio(low), Ratio(high)))
    }

    /// A field that should be a number and is not.
    pub fn fault(&self, fields: &[&str]) -> Option<&'static str> {
        let is_figure = |f: &str| field::is_none(f) || field::number(f).is_some_and(|x| x >= 0.0);
        let damaged =
            |place: Place| ![place.time, place.algbw, place.busbw].iter().all(|f| is_figure(f));
        self.places(fields).any(damaged).then_some("a field is not a number: the row is damaged")
    }

    /// Refuses a negative time.
    pub fn negative(&self, fields: &[&str], line: usize) -> Read<()> {
        self.places(fields).try_for_each(|place| field::micros(place.time, line).map(drop))
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
