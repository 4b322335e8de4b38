//! Converts imported rows to samples.

use std::collections::{BTreeMap, BTreeSet};

use super::{Imported, Measured, Row, Table, Tested};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::sample::{Block, Clock, Library, Op, Origin, Sample, Samples};

impl Table {
    /// The operation that a row timed; `None` for a rate and for operations that this crate does not have.
    #[must_use]
    pub fn op(&self, row: &Row) -> Option<Op> {
        match &self.tested {
            Tested::Collective(collective) => Some(Op::Library(Library {
                collective: *collective,
                dtype: row.dtype,
                in_place: row.in_place,
            })),
            Tested::OneWay => Some(Op::OneWay),
            Tested::Shift => Some(Op::Shift),
            Tested::Rate { .. } | Tested::Other(_) => None,
        }
    }

    /// The smallest and the largest M; `None` without rows.
    #[must_use]
    pub fn sizes(&self) -> Option<(Bytes, Bytes)> {
        let sizes = || self.rows.iter().map(|r| r.size);
        sizes().min().zip(sizes().max())
    }
}

/// The libraries of all tables of `logs`, each once; `None` if no table states its library.
#[must_use]
pub fn libraries<'l>(logs: impl IntoIterator<Item = &'l Imported>) -> Option<String> {
    let tables = logs.into_iter().flat_map(|log| &log.tables);
    let mut all: Vec<&str> = tables.filter_map(|t| t.library.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A library without its version: `NCCL 2.27.3` and `NCCL 2.29.7` are releases of one.
#[must_use]
pub fn unversioned(library: &str) -> String {
    let is_version = |word: &&str| {
        let digits = word.trim_start_matches('v');
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.contains('.')
    };
    library.split(' ').filter(|word| !is_version(word)).collect::<Vec<_>>().join(" ")
}

/// Refuses times of one collective by several libraries, or by several kernels of one: samples do not tell them
/// apart, and the median over them is the time of none.
///
/// # Errors
/// `logs` have such times.
pub fn of_one_library<'l>(logs: impl IntoIterator<Item = &'l Imported>) -> Result<()> {
    let mut by: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for table in logs.into_iter().flat_map(|log| &log.tables) {
        let (Tested::Collective(collective), Some(library)) = (&table.tested, &table.library)
        else {
            continue;
        };
        let dtypes: BTreeSet<_> = table.rows.iter().map(|row| row.dtype).collect();
        for dtype in dtypes {
            let which = (*collective, dtype.filter(|_| collective.reduces()));
            by.entry(which).or_default().insert(library);
        }
    }
    by.into_iter().try_for_each(|((collective, _), names)| one_library(collective, names))
}

/// Refuses `names` if they are not all releases of one library: their times are not those of one curve.
///
/// # Errors
/// There are several.
pub fn one_library<'l>(
    collective: Collective,
    names: impl IntoIterator<Item = &'l str>,
) -> Result<()> {
    let each = names.into_iter().map(unversioned).map(|name| (name.to_lowercase(), name));
    let names: Vec<String> = each.collect::<BTreeMap<_, _>>().into_values().collect();
    if names.len() < 2 {
        return Ok(());
    }
    let what = format!("{} is timed by {}: a curve is of one", collective.id(), names.join(", "));
    Err(Error::input(what).help(
        "give the rows of one: collcost import LOG --to csv writes a column `library` to choose them by",
    ))
}

/// What tests of bandwidth print.
const RATES: &str = "rates of many messages in flight";

impl Row {
    /// Why its time is not that of the collective: it is none, the results were wrong, or it is an upper bound.
    fn unfit(&self) -> Option<&'static str> {
        if let Measured::Rate(_) = self.measured {
            return Some(RATES);
        }
        if self.wrong.is_some_and(|wrong| wrong > 0) {
            return Some("times of wrong results");
        }
        self.traced.is_some_and(|t| t.at_most).then_some("upper bounds")
    }
}

impl Imported {
    /// Whether a fit has anything to begin with.
    ///
    /// # Errors
    /// Every time is an upper bound or one of wrong results, or there are only rates.
    pub fn fittable(&self) -> Result<()> {
        let why: BTreeSet<Option<&str>> =
            self.tables.iter().flat_map(|table| &table.rows).map(Row::unfit).collect();
        let Some(why) = why.into_iter().collect::<Option<Vec<_>>>().filter(|w| !w.is_empty())
        else {
            return Ok(());
        };
        let what = format!("the log has only {}: none is the time of a call", why.join(" and "));
        let help = match why[..] {
            [RATES] => {
                "give times, from which α and β follow: osu_latency, ib_write_lat, IMB-MPI1 PingPong"
            }
            _ => "give a log of timed calls as well",
        };
        Err(Error::scarce(what).at(self.file.clone()).help(help))
    }

    /// The rows as samples: a table is a launch, and each row is a block of one sample.
    ///
    /// Rates and rows with missing information are counted in [`left_out`](Samples::left_out). Rows of wrong
    /// results are left out with a note: what took that time was not the collective.
    #[must_use]
    pub fn samples(&self) -> Samples {
        let mut samples = Samples {
            origin: Origin {
                files: vec![self.file.clone()],
                library: libraries([self]),
                ..Origin::default()
            },
            ..Samples::default()
        };
        let mut unfit: BTreeMap<&str, usize> = BTreeMap::new();
        for (launch, table) in (0..).zip(&self.tables) {
            for note in table.notes().cloned().chain(table.damage()) {
                if !samples.notes.contains(&note) {
                    samples.notes.push(note);
                }
            }
            let mut left_out = 0;
            for (block, row) in (0..).zip(&table.rows) {
                let (Some(op), Some(ranks), Measured::Time(span)) =
                    (table.op(row), table.ranks, row.measured)
                else {
                    left_out += 1;
                    continue;
                };
                if let Some(why) = row.unfit() {
                    *unfit.entry(why).or_default() += 1;
                    continue;
                }
                samples.blocks.push(Block {
                    op,
                    ranks,
                    size: row.size,
                    launch,
                    block,
                    mode: table.mode,
                    inner: table.iterations,
                    nodes: table.nodes,
                    preempted: None,
                    clock: Clock::default(),
                    chose: None,
                    samples: vec![Sample::of(span)],
                });
            }
            if left_out > 0 {
                samples.left_out.push((table.tested.id().to_owned(), left_out));
            }
        }
        for (why, times) in unfit {
            samples.notes.push(format!("{times} {why} are left out"));
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::logs::{Asked, read};

    fn log(libraries: [&str; 2], wrong: u64) -> Imported {
        let row =
            |library: &str, bytes: u64| format!("allreduce,8,{bytes},20.5,f32,{library},{wrong}\n");
        let rows = libraries.map(|library| row(library, 1024) + &row(library, 2048)).concat();
        let text = format!("collective,ranks,bytes,time_us,dtype,library,wrong\n{rows}");
        read(text.as_bytes(), "x.csv", &Asked::default()).unwrap()
    }

    #[test]
    fn kernels_and_libraries_are_not_one_curve_and_releases_are() {
        for (libraries, refused) in [
            (["NCCL 2.27.3", "NCCL 2.29.7"], false),
            (["NCCL 2.27.3", "nccl 2.30.7"], false),
            (["NCCL 2.27.3", "Open MPI 5.0"], true),
            (["vLLM pynccl", "vLLM ca_1stage"], true),
            (["MSCCL++ kernel 2", "MSCCL++ kernel 6"], true),
            (["NCCL 2.27.3", ""], false),
        ] {
            let error = of_one_library([&log(libraries, 0)]).err().map(|e| e.to_string());
            assert_eq!(error.is_some(), refused, "{libraries:?} {error:?}");
            assert!(error.is_none_or(|e| e.contains(&unversioned(libraries[1]))));
        }
    }

    #[test]
    fn rates_alone_give_no_parameters() {
        let rates =
            "# OSU MPI Bandwidth Test v7.1\n# Size      Bandwidth (MB/s)\n1     1.00\n2     2.00\n";
        let times =
            "# OSU MPI Latency Test v7.1\n# Size          Latency (us)\n1     1.00\n2     1.10\n";
        let fittable =
            |text: &str| read(text.as_bytes(), "x", &Asked::default()).unwrap().fittable();
        let error = fittable(rates).unwrap_err().to_string();
        assert!(
            error.contains("many messages in flight") && error.contains("osu_latency"),
            "{error}"
        );
        assert!(fittable(&format!("{rates}{times}")).is_ok());
    }

    #[test]
    fn times_of_wrong_results_are_left_out() {
        let samples = log(["NCCL 2.27.3", "NCCL 2.27.3"], 7).samples();
        assert!(samples.blocks.is_empty() && samples.notes[0].starts_with("4 times of wrong"));
    }
}
