//! Measurements as CSV with named columns, as `collcost import --to csv` writes them.
//!
//! ```text
//! collective,n_ranks,nodes,bytes,dtype,time_us,algbw_GBps,busbw_GBps
//! all_reduce,8,1,1048576,float,27.76,37.78,66.11
//! ```
//!
//! `collective`, `n_ranks` (or `ranks`), `bytes` as nccl-tests counts them, and `time_us` are required, in any
//! case; `dtype`, `nodes`, `in_place`, `wrong`, `library`, `version`, `system`, `shares_gpus`, `caveats` and what
//! `import` writes of a job's calls are read if present. Commas, semicolons or tabs separate the fields. Numbers
//! may be grouped in quotes (`"1,024"`), and sizes have a unit (`2K`, `2KiB`); truth values are those of this
//! program, of Python and of spreadsheets.
//! Rows with the same collective, N and library form a table. A table of rates without times is refused:
//! its sizes are mostly in `MB` of one kind or the other, which differ by 4.9 %.

use std::borrow::Cow;

use super::draft::{Draft, Raw};
use super::{Line, Log, Measured, Read, Reader, Taken, Tested, Traced, field};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::base::refused::Refused;
use crate::machine::sample::{DataType, Mode};

/// What may separate fields.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// The columns that a table must have, for a message.
const NEEDED: &str = "collective, ranks, bytes and time_us";

/// Columns of which a second one would contradict the first.
const READ: &[&str] = &[
    "collective",
    "n_ranks",
    "ranks",
    "bytes",
    "time_us",
    "nodes",
    "dtype",
    "in_place",
    "wrong",
    "library",
    "caveats",
];

/// The positions of the columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    separator: char,
    count: usize,
    collective: usize,
    ranks: usize,
    bytes: usize,
    time: usize,
    nodes: Option<usize>,
    dtype: Option<usize>,
    in_place: Option<usize>,
    wrong: Option<usize>,
    library: Option<usize>,
    version: Option<usize>,
    system: Option<usize>,
    shares_gpus: Option<usize>,
    caveats: Option<usize>,
    rate: Option<usize>,
    calls: OfCalls,
}

/// The positions of what is known of a job's calls.
#[derive(Debug, Clone, Copy)]
struct OfCalls {
    count: Option<usize>,
    skew: Option<usize>,
    waited: Option<usize>,
    late_rank: Option<usize>,
    late_share: Option<usize>,
    exposed: Option<usize>,
    upper_bound: Option<usize>,
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    columns: Option<Columns>,
    /// What the rows of the last table share.
    of: Vec<String>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        match self.columns {
            Some(columns) if line.text.contains(columns.separator) => self.row(line, log, columns),
            Some(_) => Ok(Taken::No),
            None => {
                self.columns = heading(line)?;
                Ok(if self.columns.is_some() { Taken::Yes } else { Taken::No })
            }
        }
    }

    fn leave(&mut self) {
        self.columns = None;
    }
}

/// What the column of ranks may be called.
const RANKS: [&str; 2] = ["n_ranks", "ranks"];

/// The columns of a heading, if the line is one.
///
/// # Errors
/// It names some of the columns that a table must have, but not all.
fn heading(line: &Line) -> Read<Option<Columns>> {
    let text = line.text;
    // Most lines of logs are none, and are recognised as such without being split.
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '"') || text.len() > LONGEST {
        return Ok(None);
    }
    // Splitting quoted text is slow, and each heading that is read or refused has one of these names.
    let has = |name: &str| {
        text.as_bytes().windows(name.len()).any(|w| w.eq_ignore_ascii_case(name.as_bytes()))
    };
    if text.contains('"') && !["bytes", "collective", "time_us", "algbw"].into_iter().any(has) {
        return Ok(None);
    }
    let separator = SEPARATORS.into_iter().max_by_key(|&by| text.matches(by).count());
    let Some(separator) = separator.filter(|&by| text.contains(by)) else { return Ok(None) };
    let names: Vec<String> =
        fields(text, separator).iter().map(|name| name.to_ascii_lowercase()).collect();
    let column = |all: &[&str]| names.iter().position(|n| all.contains(&n.as_str()));
    let needed = [
        ("collective", column(&["collective"])),
        ("ranks", column(&RANKS)),
        ("bytes", column(&["bytes"])),
        ("time_us", column(&["time_us"])),
    ];
    let [(_, Some(collective)), (_, Some(ranks)), (_, Some(bytes)), (_, Some(time))] = needed
    else {
        let has = |part: &str| names.iter().any(|n| n.contains(part));
        let untimed = has("algbw") && !names.iter().any(|n| n == "time");
        if untimed && names.len() > 3 && names.iter().any(|n| n.starts_with("size")) {
            let what = "the table has rates without times, for sizes in an unknown kind of MB \
                        (10^6 or 2^20 bytes)";
            return Err(Refused::at(line.number, what).help(format!("write the columns {NEEDED}")));
        }
        let missing = needed.iter().filter(|(_, at)| at.is_none()).map(|(name, _)| *name);
        let missing: Vec<&str> = missing.collect();
        if missing.len() > 2 {
            return Ok(None);
        }
        let what = format!("the table has no column {}", missing.join(" and no "));
        return Err(Refused::at(line.number, what)
            .help(format!("a table of measured times needs the columns {NEEDED}")));
    };
    let twice = |name: &&&str| names.iter().filter(|known| known == *name).count() > 1;
    if let Some(name) = READ.iter().find(twice) {
        return Err(Refused::at(line.number, format!("the table has two columns `{name}`"))
            .help("remove one of them"));
    }
    if RANKS.iter().all(|name| names.iter().any(|n| n == name)) {
        let what = format!("the table has two columns of ranks, {}", RANKS.join(" and "));
        return Err(Refused::at(line.number, what).help("remove one of them"));
    }
    Ok(Some(Columns {
        separator,
        count: names.len(),
        collective,
        ranks,
        bytes,
        time,
        nodes: column(&["nodes"]),
        dtype: column(&["dtype"]),
        in_place: column(&["in_place"]),
        wrong: column(&["wrong"]),
        library: column(&["library"]),
        version: column(&["version"]),
        system: column(&["system"]),
        shares_gpus: column(&["shares_gpus"]),
        caveats: column(&["caveats"]),
        rate: column(&["algbw_gbps"]),
        calls: OfCalls {
            count: column(&["calls"]),
            skew: column(&["skew_us"]),
            waited: column(&["waited_us"]),
            late_rank: column(&["late_rank"]),
            late_share: column(&["late_share"]),
            exposed: column(&["exposed"]),
            upper_bound: column(&["upper_bound"]),
        },
    }))
}

/// A heading is shorter.
const LONGEST: usize = 4096;

impl Table {
    fn row(&mut self, line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
        let at = |what: String| {
            Refused::at(line.number, what)
                .help("write numbers: whole ranks and bytes, time_us above 0")
        };
        let mut fields = fields(line.text, columns.separator);
        // Blanks at the end of a line are not seen, and tabs are blanks.
        if columns.separator == '\t' && fields.len() < columns.count {
            fields.resize(columns.count, Cow::Borrowed(""));
        }
        let fields: Vec<&str> = fields.iter().map(AsRef::as_ref).collect();
        if fields.len() != columns.count {
            return Err(at(format!("{} fields, not {}", fields.len(), columns.count)));
        }
        let text = |c: Option<usize>| c.map_or("", |c| fields[c]);
        let key = [columns.collective, columns.ranks].into_iter().map(|c| fields[c]).chain([
            text(columns.nodes),
            text(columns.library),
            text(columns.version),
            text(columns.system),
            text(columns.shares_gpus),
            text(columns.caveats),
        ]);
        let given = Given { fields: &fields, line: line.number };
        let mut taken = Taken::Yes;
        if !key.clone().eq(self.of.iter().map(String::as_str)) {
            self.of = key.map(str::to_owned).collect();
            let name = fields[columns.collective];
            let mut draft = Draft::new("csv", line.number, name);
            draft.tested = Some(match name {
                "one-way" => Tested::OneWay,
                "shift" => Tested::Shift,
                "rate" => Tested::Rate { both_ways: false },
                "rate-both-ways" => Tested::Rate { both_ways: true },
                name => match name.parse() {
                    Ok(collective) => Tested::Collective(collective),
                    Err(error) => return Err(at(error.what().to_owned())),
                },
            });
            let ranks = field::whole(fields[columns.ranks]).and_then(|n| u32::try_from(n).ok());
            let ranks = ranks.filter(|&n| n > 0);
            let what = || at(format!("`{}` is not a number of ranks", fields[columns.ranks]));
            let ranks = ranks.ok_or_else(what)?;
            draft.ranks.push((ranks, "column"));
            draft.nodes = given.whole("nodes", columns.nodes)?.filter(|&nodes| nodes > 0);
            if let Some(nodes) = draft.nodes.filter(|&nodes| nodes > ranks) {
                return Err(Refused::at(line.number, format!("{ranks} ranks on {nodes} nodes"))
                    .help("write no more nodes than ranks"));
            }
            let library = [text(columns.library), text(columns.version)].join(" ");
            draft.library = Some(library.trim().to_owned()).filter(|l| !l.is_empty());
            draft.system = Some(text(columns.system).to_owned()).filter(|s| !s.is_empty());
            draft.shares_gpus = given.truth("shares_gpus", columns.shares_gpus)?.unwrap_or(false);
            let caveats = text(columns.caveats).split(CAVEATS).map(str::trim);
            draft.caveats = caveats.filter(|c| !c.is_empty()).map(str::to_owned).collect();
            draft.mode = Mode::Isolated;
            log.tables.push(draft);
            taken = Taken::Began;
        }
        let (bytes, time) = (fields[columns.bytes], fields[columns.time]);
        let plain = ungrouped(bytes);
        let size = field::whole(&plain).or_else(|| Some(plain.parse::<Bytes>().ok()?.0));
        let size = size.ok_or_else(|| at(format!("`{bytes}` is not a number of bytes")))?;
        // Where semicolons separate fields, a comma may be the decimal one.
        let grouped = columns.separator != ';';
        let time = if grouped { ungrouped(time) } else { Cow::Borrowed(time) };
        let Some(draft) = log.last() else { return Ok(taken) };
        let measured = match draft.tested {
            Some(Tested::Rate { .. }) => {
                let rate = text(columns.rate);
                let read = field::rate(rate, Bandwidth(1e9), line.number)?;
                Measured::Rate(read.ok_or_else(|| at(format!("`{rate}` is not a rate in GB/s")))?)
            }
            _ => {
                let span = field::micros(&time, line.number)?;
                if span.is_none() && field::number(&time) == Some(0.0) {
                    draft.leave_out(line.number, "a time of 0");
                    return Ok(taken);
                }
                let what = || at(format!("`{time}` is not a time in microseconds"));
                Measured::Time(span.ok_or_else(what)?)
            }
        };
        draft.rows.push(Raw {
            dtype: given.read("dtype", columns.dtype, "a type of elements", dtype)?,
            in_place: given.truth("in_place", columns.in_place)?.unwrap_or(false),
            wrong: given.whole("wrong", columns.wrong)?,
            traced: given.traced(columns.calls, measured, draft.ranks.first().map(|r| r.0))?,
            ..Raw::of(line.number, size, measured)
        });
        Ok(taken)
    }
}

/// What separates caveats in their column.
pub const CAVEATS: &str = "; ";

/// The fields of a row, for columns that may be missing or empty.
#[derive(Clone, Copy)]
struct Given<'a> {
    fields: &'a [&'a str],
    line: usize,
}

impl Given<'_> {
    /// What a column has; `None` if there is none, or nothing in it.
    ///
    /// # Errors
    /// It has something else: a word that is not known must not count as false, or as nothing.
    fn read<T>(
        self,
        name: &str,
        at: Option<usize>,
        what: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Read<Option<T>> {
        let Some(field) = at.map(|at| self.fields[at]) else { return Ok(None) };
        if field.is_empty() || field::is_none(field) {
            return Ok(None);
        }
        parse(field).map(Some).ok_or_else(|| {
            Refused::at(self.line, format!("`{field}` in column {name} is not {what}"))
                .help("leave the field empty if it is not known")
        })
    }

    fn truth(self, name: &str, at: Option<usize>) -> Read<Option<bool>> {
        self.read(name, at, "true or false", truth)
    }

    fn whole<T: TryFrom<u64>>(self, name: &str, at: Option<usize>) -> Read<Option<T>> {
        self.read(name, at, "a whole number", |field| T::try_from(whole(field)?).ok())
    }

    fn number(self, name: &str, at: Option<usize>) -> Read<Option<f64>> {
        self.read(name, at, "a number from 0 on", |field| {
            field::number(field).filter(|x| *x >= 0.0)
        })
    }

    /// What is known of a job's calls.
    fn traced(self, of: OfCalls, measured: Measured, ranks: Option<u32>) -> Read<Option<Traced>> {
        let calls = self.whole("calls", of.count)?;
        let at_most = self.truth("upper_bound", of.upper_bound)?.unwrap_or(false);
        let micros = |name, at| Ok(self.number(name, at)?.map(|us| Seconds(us * 1e-6)));
        let (skew, waited) = (micros("skew_us", of.skew)?, micros("waited_us", of.waited)?);
        let late = self.whole("late_rank", of.late_rank)?;
        let share = self.number("late_share", of.late_share)?.map(Ratio);
        let exposed = self.number("exposed", of.exposed)?.map(Ratio);
        let Measured::Time(time) = measured else { return Ok(None) };
        Ok((calls.is_some() || at_most).then(|| Traced {
            calls: calls.unwrap_or(1),
            present: ranks.filter(|_| !at_most).unwrap_or(1),
            fast: time,
            skew,
            waited,
            latest: late.zip(share),
            exposed,
            at_most,
        }))
    }
}

/// A truth value as this program, Python, R and spreadsheets write it.
fn truth(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

/// A whole number; where some are missing, other programs write 512 as 512.0.
fn whole(field: &str) -> Option<u64> {
    let plain = ungrouped(field);
    let real = || field::number(&plain).filter(|x| x.fract() == 0.0 && (0.0..1e15).contains(x));
    field::whole(&plain).or_else(|| real().map(|x| x as u64))
}

/// A type of elements, also as PyTorch writes it.
fn dtype(name: &str) -> Option<DataType> {
    DataType::named(name.strip_prefix("torch.").unwrap_or(name))
}

/// The fields of a line, without quotes and the blanks around them; none if the line is not valid CSV.
fn fields(text: &str, separator: char) -> Vec<Cow<'_, str>> {
    if !text.contains('"') {
        return text.split(separator).map(|field| Cow::Borrowed(field.trim())).collect();
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(separator as u8)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let record = reader.records().next().and_then(std::result::Result::ok).unwrap_or_default();
    record.iter().map(|field| Cow::Owned(field.to_owned())).collect()
}

/// A number without the commas between groups of three digits: 1,024 is 1024.
fn ungrouped(field: &str) -> Cow<'_, str> {
    let whole = field.split('.').next().unwrap_or(field);
    let mut groups = whole.split(',');
    let digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
    let first = groups.next().is_some_and(|g| (1..=3).contains(&g.len()) && digits(g));
    match whole.contains(',') && first && groups.all(|g| g.len() == 3 && digits(g)) {
        true => Cow::Owned(field.replace(',', "")),
        false => Cow::Borrowed(field),
    }
}

#[cfg(test)]
mod tests {
    use crate::base::error::Result;
    use crate::machine::sample::DataType;
    use crate::measure::logs::{Asked, Measured, read};

    /// Sizes and times of a table.
    fn rows(text: &str) -> Result<Vec<(u64, f64)>> {
        let log = read(text.as_bytes(), "x.csv", &Asked::default())?;
        let rows = log.tables.iter().flat_map(|t| &t.rows).map(|row| match row.measured {
            Measured::Time(time) => (row.size.0, (time.0 * 1e9).round() / 1e3),
            Measured::Rate(_) => panic!("{row:?}"),
        });
        Ok(rows.collect())
    }

    #[test]
    fn spreadsheets_write_the_same_table_in_many_ways() {
        let expected = [(2048, 10.5), (1_048_576, 1024.5)];
        for text in [
            "collective,ranks,bytes,time_us\nallreduce,8,2048,10.5\nallreduce,8,1048576,1024.5\n",
            "Collective;N_Ranks;Bytes;Time_us\nallreduce;8;2048;10.5\nallreduce;8;1048576;1024.5\n",
            "collective\tranks\tbytes\ttime_us\tdtype\nallreduce\t8\t2K\t10.5\t\n\
             allreduce\t8\t1MiB\t1024.5\tfloat\n",
            "\"collective\",\"ranks\",\"bytes\",\"time_us\"\nallreduce,8,\"2,048\",10.5\n\
             \"allreduce\",8,\"1,048,576\",\"1,024.5\"\n",
        ] {
            assert_eq!(rows(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_or_unclear_is_named() {
        for (text, said) in [
            ("collective,ranks,size,time_us\nallreduce,8,1,1\n", "no column bytes"),
            ("Collective,Ranks,Size,Time\nallreduce,8,1,1\n", "no column bytes and no time_us"),
            ("collective;ranks;bytes;time_us\nallreduce;8;1024;27,76\n", "`27,76` is not a time"),
            ("collective,ranks,bytes,time_us\nallreduce,8,2x,1\n", "`2x` is not a number of bytes"),
        ] {
            let error = rows(text).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("time_us"), "{error}");
        }
    }

    #[test]
    fn two_columns_of_ranks_and_times_of_nothing_are_refused() {
        let error = |text: &str| rows(text).unwrap_err().to_string();
        let two = error("collective,ranks,n_ranks,bytes,time_us\nallreduce,8,16,1,1\n");
        assert!(two.contains("two columns of ranks, n_ranks and ranks"), "{two}");
        let short = error("collective,ranks,bytes,time_us\nallreduce,8,1,1e-300\n");
        assert!(short.contains("shorter than a picosecond"), "{short}");
    }

    #[test]
    fn a_time_of_0_costs_its_row() {
        let text = "collective,ranks,bytes,time_us\nallreduce,8,1024,9.5\nallreduce,8,2048,0\n";
        let log = read(text.as_bytes(), "x.csv", &Asked::default()).unwrap();
        let table = &log.tables[0];
        assert_eq!((table.rows.len(), table.left_out[0].lines.as_slice()), (1, &[3][..]));
        assert_eq!(table.left_out[0].why, "a time of 0");
    }

    #[test]
    fn a_word_that_is_not_known_is_refused_with_its_column() {
        let row = |column: &str, word: &str| {
            let head = format!("collective,ranks,bytes,time_us,{column}");
            read(
                format!("{head}\nallreduce,8,1024,9.5,{word}\n").as_bytes(),
                "x.csv",
                &Asked::default(),
            )
        };
        for (column, word) in [
            ("in_place", "maybe"),
            ("upper_bound", "2"),
            ("dtype", "floaty"),
            ("wrong", "-1"),
            ("wrong", "some"),
            ("nodes", "two"),
            ("calls", "1.5"),
            ("skew_us", "-3"),
        ] {
            let error = row(column, word).unwrap_err().to_string();
            let said = format!("`{word}` in column {column} is not");
            assert!(error.contains(&said) && error.contains("x.csv:2"), "{error}");
        }
        // Python's and spreadsheets' words, and whole numbers beside missing ones.
        let of = |column: &str, word: &str| row(column, word).unwrap().tables[0].clone();
        for (word, is) in
            [("True", true), ("TRUE", true), ("1", true), ("False", false), ("", false)]
        {
            assert_eq!(of("in_place", word).rows[0].in_place, is, "{word}");
        }
        assert_eq!(of("dtype", "torch.bfloat16").rows[0].dtype, Some(DataType::Bf16));
        assert_eq!(
            (of("wrong", "512.0").rows[0].wrong, of("nodes", "2.0").nodes),
            (Some(512), Some(2))
        );
        assert!(of("upper_bound", "True").rows[0].traced.unwrap().at_most);
    }
}
