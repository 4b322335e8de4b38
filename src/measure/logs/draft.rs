//! A table while it is read, and its final evaluation.

use super::launcher::Command;
use super::nccl_tests::pieces;
use super::{
    Asked, BLOCKING, BROKE, FAILED, LeftOut, Measured, NO_SUM, Refusal, Row, Table, Tested, Traced,
    infer,
};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::base::size_is::SizeIs;
use crate::machine::sample::{DataType, Mode};

/// A row as in the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Raw {
    pub line: usize,
    /// The size as the format counts it.
    pub size: u64,
    /// The number of elements, if a column states it.
    pub count: Option<u64>,
    pub dtype: Option<DataType>,
    pub in_place: bool,
    pub measured: Measured,
    pub wrong: Option<u64>,
    /// busbw over algbw: the smallest and the largest value that their digits allow.
    pub factor: Option<(Ratio, Ratio)>,
    /// Whether and how ranks' data are reduced, if the log has a column for it.
    pub redop: Option<Redop>,
    /// The root; −1 means none.
    pub root: Option<i64>,
    /// What is known of a job's calls, where the log is itself made of traces.
    pub traced: Option<Traced>,
}

impl Raw {
    /// A row of which the log states only the time.
    pub fn timed(line: usize, size: u64, time: Seconds) -> Self {
        Self::of(line, size, Measured::Time(time))
    }

    /// A row of which the log states only what was measured.
    pub fn of(line: usize, size: u64, measured: Measured) -> Self {
        Self {
            line,
            size,
            count: None,
            dtype: None,
            in_place: false,
            measured,
            wrong: None,
            factor: None,
            redop: None,
            root: None,
            traced: None,
        }
    }
}

/// The operation of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redop {
    /// Nothing is reduced.
    None,
    Sum,
    /// A product, minimum, maximum, average …: libraries implement these differently.
    Other,
}

impl Redop {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "sum" => Self::Sum,
            "prod" | "max" | "min" | "avg" | "mulsum" => Self::Other,
            _ => return None,
        })
    }
}

/// A table while it is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub format: &'static str,
    pub line: usize,
    pub title: String,
    /// `None` if the log does not state it.
    pub tested: Option<Tested>,
    /// What sizes count.
    pub size_is: SizeIs,
    /// The bytes of an element where each rank has a whole number of them and the rest of a size is not sent.
    pub element: Option<Bytes>,
    /// N and its source, the most certain first.
    pub ranks: Vec<(u32, &'static str)>,
    /// Whether point-to-point messages were between any number of pairs.
    pub any_ranks: bool,
    pub nodes: Option<u32>,
    /// The ranks of each host, if one has fewer than all others.
    pub full_node: Option<u32>,
    pub library: Option<String>,
    pub system: Option<String>,
    pub gpus: Option<String>,
    pub iterations: u32,
    pub mode: Mode,
    pub rows: Vec<Raw>,
    pub left_out: Vec<LeftOut>,
    pub refused: Option<Refusal>,
    pub warnings: Vec<String>,
    /// As [`Table::caveats`].
    pub caveats: Vec<String>,
    /// Whether the table should end with a closing line that is missing.
    pub unended: bool,
    pub shares_gpus: bool,
}

/// N from busbw over algbw, or from the size over a rank's block.
const BY_COLUMNS: &str = "columns";

/// The help if the parts of a log contradict each other.
const ONE_RUN: &str = "give the whole log of one run";

/// Characters of an error's line that are shown.
const LONGEST_ERROR: usize = 120;

/// The help if nothing else determines N.
const SAY_RANKS: &str = "set it: --n N";

impl Draft {
    pub fn new(format: &'static str, line: usize, title: impl Into<String>) -> Self {
        Self { format, line, title: title.into(), iterations: 1, ..Self::default() }
    }

    /// The table of an all-reduce by a kernel of an inference engine, whose calls follow each other.
    pub fn all_reduce(format: &'static str, line: usize, kernel: &str, library: String) -> Self {
        Self {
            tested: Some(Tested::Collective(Collective::AllReduce)),
            library: Some(library),
            mode: Mode::Stream,
            ..Self::new(format, line, format!("all_reduce {kernel}"))
        }
    }

    /// A row of elements of a type. Without a time it is left out for the reason `why`.
    pub fn add(
        &mut self,
        line: usize,
        (size, dtype): (u64, DataType),
        time: Option<Seconds>,
        why: &str,
    ) {
        match time {
            Some(time) => {
                self.rows.push(Raw { dtype: Some(dtype), ..Raw::timed(line, size, time) })
            }
            None => self.leave_out(line, why),
        }
    }

    /// Takes the ranks and nodes of the command above a table, if it started one of these programs.
    pub fn start_by(&mut self, command: Option<&Command>, is_own: impl Fn(&str) -> bool) {
        let Some(command) = command.filter(|command| is_own(&command.program)) else { return };
        let Some(processes) = command.processes else { return };
        self.ranks.push((processes, "command"));
        self.nodes = command.nodes;
        self.warnings.extend(command.unclear());
    }

    /// A row that is not used.
    pub fn leave_out(&mut self, line: usize, why: impl Into<String>) {
        self.pass(line, why.into(), false);
    }

    /// The same of a row with which nothing is wrong.
    pub fn pass_over(&mut self, line: usize, why: impl Into<String>) {
        self.pass(line, why.into(), true);
    }

    fn pass(&mut self, line: usize, why: String, is_usual: bool) {
        match self.left_out.iter_mut().find(|left| left.why == why) {
            Some(left) => {
                left.lines.push(line);
                left.count += 1;
            }
            None => self.left_out.push(LeftOut { why, lines: vec![line], count: 1, is_usual }),
        }
    }

    /// The last row that was left out for this reason is used after all.
    pub fn restore(&mut self, line: usize, why: &str) {
        let left = self.left_out.iter_mut().find(|left| left.why == why);
        if let Some(left) = left.filter(|left| left.lines.last() == Some(&line)) {
            left.lines.pop();
            left.count -= 1;
        }
        self.left_out.retain(|left| left.count > 0);
    }

    /// Refuses the whole table; the first reason is kept.
    pub fn refuse(&mut self, what: impl Into<String>, help: impl Into<String>) {
        let (what, help) = (what.into(), help.into());
        self.refused.get_or_insert(Refusal { what, help });
    }

    /// Adds a warning once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The times are those of calls that a CUDA graph launched together.
    pub fn launched_by_graph(&mut self) {
        self.caveats.push("run from a CUDA graph: times do not include the launch".to_owned());
    }

    /// Each time is the part of one call in the time of several, which were merged.
    pub fn merged(&mut self, calls: u32) {
        self.caveats.push(format!(
            "{calls} calls were merged into one launch (agg iters): a time is the part of one of them"
        ));
    }

    /// The host waited for each call before it started the next.
    pub fn blocking(&mut self) {
        self.mode = Mode::Isolated;
        self.caveats.push(BLOCKING.to_owned());
    }

    /// Its program calls `count` results wrong. Where no row says which, none of them counts.
    pub fn failed(tables: &mut [Self], count: &str) {
        let is_wrong = |raw: &Raw| raw.wrong.is_some_and(|wrong| wrong > 0);
        let is_known = tables.iter().flat_map(|table| &table.rows).any(is_wrong);
        for table in tables {
            if is_known {
                table.warn(format!("{count} results were out of bounds: fix that first"));
                continue;
            }
            table.rows.iter_mut().for_each(|raw| raw.wrong = Some(1));
            table.caveats.push(format!("out of bounds values: {count} {FAILED}"));
        }
    }

    /// Its program ended with an error; the first line that says so counts.
    pub fn broke(&mut self, line: &str) {
        if !self.caveats.iter().any(|caveat| caveat.starts_with(BROKE)) {
            let shown: String = line.chars().take(LONGEST_ERROR).collect();
            self.caveats.push(format!("{BROKE}{shown}"));
            self.unended = false;
        }
    }

    /// The times are those of `collcost mock`.
    pub fn predicted(&mut self) {
        self.caveats.push("the times were predicted by collcost mock, not measured".to_owned());
    }

    /// The finished table, with everything determined that can be.
    pub fn finish(mut self, asked: &Asked, file: &str) -> Table {
        let tested = self.tested(asked, file);
        let ranks = self.settle_ranks(&tested, asked);
        if let Some(Refusal { what, help }) = asked.refuses(ranks.map(|(n, _)| n), self.nodes) {
            self.refuse(what, help);
        }
        let (mut rows, mut wrong_left_out) = (Vec::new(), Vec::new());
        if self.rows.is_empty() && self.refused.is_none() {
            self.nothing();
        }
        if self.refused.is_none() {
            let wrong = self.other_reductions();
            for raw in std::mem::take(&mut self.rows) {
                let known = ranks.map(|(n, _)| n).unwrap_or(2);
                rows.extend(self.row(&raw, &tested, known));
            }
            for raw in wrong {
                let known = ranks.map(|(n, _)| n).unwrap_or(2);
                wrong_left_out.extend(self.row(&raw, &tested, known));
            }
            if rows.is_empty() {
                self.nothing();
            }
            self.look_at(&rows);
        }
        Table {
            format: self.format,
            line: self.line,
            title: self.title,
            tested,
            ranks: ranks.map(|(n, _)| n),
            ranks_by: ranks.map(|(_, by)| by),
            nodes: self.nodes,
            full_node: self.full_node,
            library: self.library,
            system: self.system,
            gpus: self.gpus,
            shares_gpus: self.shares_gpus,
            iterations: self.iterations,
            mode: self.mode,
            rows,
            left_out: self.left_out,
            wrong_left_out,
            refused: self.refused,
            warnings: self.warnings,
            caveats: self.caveats,
        }
    }

    fn tested(&mut self, asked: &Asked, file: &str) -> Tested {
        if let Some(tested) = self.tested.take() {
            if let (Some(asked), Tested::Collective(own)) = (asked.collective, &tested)
                && asked != *own
            {
                self.refuse(
                    format!("the log says {own}, not {asked}"),
                    "omit --collective, or give the log of the run that you mean",
                );
            }
            // `sendrecv_perf` calls its operation a sum.
            if let Tested::Collective(own) = tested
                && !own.reduces()
                && self.rows.iter().any(|r| matches!(r.redop, Some(Redop::Sum | Redop::Other)))
            {
                let what =
                    format!("the log says {own}, which reduces nothing, and its rows reduce");
                self.refuse(what, ONE_RUN);
            }
            return tested;
        }
        let ranks = self.ranks.first().map(|&(n, _)| n).or(asked.ranks);
        if let Some(collective) = infer::collective(&self.rows, ranks) {
            if let Some(asked) = asked.collective.filter(|&asked| asked != collective) {
                self.refuse(
                    format!("the columns are those of {collective}, not of {asked}"),
                    "omit --collective, or give the log of the run that you mean",
                );
            }
            self.warn(format!("the collective, {collective}, is inferred from the columns"));
            return tested(collective);
        }
        if let Some(collective) = asked.collective {
            return tested(collective);
        }
        let fitting = || infer::fitting(&self.rows, ranks).map_or_else(Vec::new, |(_, left)| left);
        if let Some(collective) = infer::named(file).filter(|c| fitting().contains(c)) {
            self.warn(format!("the collective, {collective}, is that of the file's name"));
            return tested(collective);
        }
        if ranks != Some(1) && !self.rows.is_empty() {
            let names: Vec<&str> = fitting().iter().map(|c| c.id()).collect();
            let help = match names.as_slice() {
                [] => "set it: --collective allreduce".to_owned(),
                names => format!("set it: --collective {}", names.join(" or ")),
            };
            self.refuse(
                "the log does not say which collective ran, and its columns fit several",
                help,
            );
        }
        Tested::Other(self.title.clone())
    }

    /// Leaves out rows whose busbw over algbw is of no number of ranks that nearly all others have.
    fn drop_odd(&mut self, collective: Collective) {
        if infer::ranks(&self.rows, collective) != infer::Ranks::None {
            return;
        }
        let Some(odd) = infer::odd(&self.rows, collective) else { return };
        let mut odd = odd.into_iter().peekable();
        let mut kept = Vec::with_capacity(self.rows.len());
        for (i, row) in std::mem::take(&mut self.rows).into_iter().enumerate() {
            if odd.next_if_eq(&i).is_none() {
                kept.push(row);
                continue;
            }
            let place = if row.in_place { "in place" } else { "out of place" };
            let why =
                "busbw over algbw is of other ranks than in the other rows: the row is damaged";
            self.leave_out(row.line, format!("{place}, {why}"));
        }
        self.rows = kept;
    }

    fn settle_ranks(&mut self, tested: &Tested, asked: &Asked) -> Option<(u32, &'static str)> {
        let listed = self.ranks.first().copied();
        if let Tested::Collective(collective) = tested {
            self.drop_odd(*collective);
        }
        let listed = match tested {
            Tested::Collective(collective) => {
                let (rows, which) = (&self.rows, *collective);
                match infer::ranks(rows, which) {
                    infer::Ranks::Unknown => listed,
                    infer::Ranks::Between(low, high) => match listed {
                        Some((n, by)) if (low..=high).contains(&n) => Some((n, by)),
                        Some((n, by)) if low == high => {
                            self.warn(format!(
                                "the {by} has {n} ranks, but the columns are those of {low}: \
                                 {low} it is"
                            ));
                            // Nor are the hosts of that list all.
                            (self.nodes, self.full_node) = (None, None);
                            Some((low, BY_COLUMNS))
                        }
                        None if low == high => Some((low, BY_COLUMNS)),
                        None => {
                            let what = format!(
                                "the log does not say how many ranks ran: by busbw over algbw \
                                 between {low} and {high}"
                            );
                            if asked.ranks.is_none_or(|n| !(low..=high).contains(&n)) {
                                self.refuse(what, SAY_RANKS);
                            }
                            None
                        }
                        Some((n, by)) => {
                            self.refuse(
                                format!(
                                    "the {by} has {n} ranks, but the columns are those of {low} \
                                     to {high}"
                                ),
                                ONE_RUN,
                            );
                            Some((n, by))
                        }
                    },
                    infer::Ranks::None => {
                        // What the log itself names cannot be set.
                        let fitting = infer::fitting(rows, listed.map(|(n, _)| n));
                        let fitting = fitting.and_then(|(_, left)| left.first().copied());
                        let help = match fitting.filter(|_| asked.collective.is_some()) {
                            Some(other) => format!("set the collective: --collective {other}"),
                            None => ONE_RUN.to_owned(),
                        };
                        self.refuse(
                            format!("busbw over algbw fits no number of ranks of {collective}"),
                            help,
                        );
                        listed
                    }
                }
            }
            Tested::OneWay | Tested::Rate { .. } if !self.any_ranks => {
                listed.or(Some((2, "kind of test")))
            }
            Tested::OneWay | Tested::Rate { .. } => listed,
            Tested::Shift | Tested::Other(_) => listed,
        };
        let settled = match (listed, asked.ranks) {
            (Some((n, by)), Some(asked)) if n != asked => {
                if by != "kind of test" {
                    self.refuse(
                        format!("the log has {n} ranks by its {by}, not {asked}"),
                        "omit --n, or give the log of the run that you mean",
                    );
                }
                Some((n, by))
            }
            (Some(known), _) => Some(known),
            (None, asked) => asked.map(|n| (n, "--n")),
        };
        match (settled, tested) {
            (None, Tested::Other(_)) => {}
            (None, _) => self.refuse("the log does not say how many ranks ran", SAY_RANKS),
            (Some((0 | 1, _)), _) => self.refuse(
                "the run was of one rank, which communicates nothing",
                "start more ranks; nccl-tests over several processes must be built with MPI=1",
            ),
            (Some((n, _)), Tested::OneWay | Tested::Rate { .. }) if n > 2 => self.refuse(
                format!("{n} ranks form pairs that share links: the time of one pair is unknown"),
                "run it with two ranks",
            ),
            _ => {}
        }
        settled
    }

    /// Refuses a table without rows, with the reason.
    fn nothing(&mut self) {
        match self.left_out.first() {
            None => self.refuse(
                "the log ends before the table's first row",
                "give the log of a run that finished",
            ),
            Some(LeftOut { why, lines, .. }) => {
                let line = lines.first().copied().unwrap_or(self.line);
                let what = format!("no row is usable; line {line}: {why}");
                let help = match why == pieces::APART {
                    true => pieces::KEEP,
                    false => "give the log of a run that finished",
                };
                self.refuse(what, help);
            }
        }
    }

    /// For a table of several operations: those that libraries implement like sums count as one. Of the others those
    /// are returned whose results were wrong: that says something of the machine, whatever their times do.
    fn other_reductions(&mut self) -> Vec<Raw> {
        let has = |redop| self.rows.iter().any(|r| r.redop == Some(redop));
        if !has(Redop::Other) {
            return Vec::new();
        }
        if !has(Redop::Sum) {
            self.caveats.push(NO_SUM.to_owned());
            return Vec::new();
        }
        let (keep, other): (Vec<Raw>, Vec<Raw>) =
            self.rows.drain(..).partition(|r| r.redop != Some(Redop::Other));
        self.rows = keep;
        for raw in &other {
            self.pass_over(raw.line, "the reduction is not a sum, and the table also has sums");
        }
        other.into_iter().filter(|raw| raw.wrong.is_some_and(|wrong| wrong > 0)).collect()
    }

    fn row(&mut self, raw: &Raw, tested: &Tested, ranks: u32) -> Option<Row> {
        let size = match tested {
            Tested::Collective(Collective::Barrier) => Bytes(0),
            Tested::Collective(_) if raw.size == 0 => {
                self.pass_over(raw.line, "0 bytes: nothing is communicated");
                return None;
            }
            Tested::Collective(collective) => {
                let total = match self.size_is.total(*collective, ranks, Bytes(raw.size)) {
                    Ok(size) => size,
                    Err(error) => {
                        self.leave_out(raw.line, error.what());
                        return None;
                    }
                };
                let each = self.element.map_or(1, |element| element.0 * u64::from(ranks));
                let size = Bytes(total.0 / each.max(1) * each);
                if size.0 == 0 {
                    self.pass_over(raw.line, "fewer elements than ranks: nothing is communicated");
                    return None;
                }
                size
            }
            _ => Bytes(raw.size),
        };
        let Raw { line, dtype, in_place, measured, wrong, traced, .. } = *raw;
        Some(Row { line, size, dtype, in_place, measured, wrong, traced })
    }

    /// Warnings for a reader of the rows.
    fn look_at(&mut self, rows: &[Row]) {
        if self.unended && !rows.is_empty() {
            self.warn("the table does not end with a line of averages: the log may be cut off");
        }
        let mut left: Vec<_> = self.left_out.drain(..).collect();
        for each in &mut left {
            let all = each.lines.len();
            each.lines.dedup();
            each.count -= all - each.lines.len();
        }
        self.left_out = left;
    }
}

/// What nccl-tests measures by the name of a collective.
fn tested(collective: Collective) -> Tested {
    match collective {
        Collective::SendRecv => Tested::Shift,
        _ => Tested::Collective(collective),
    }
}
