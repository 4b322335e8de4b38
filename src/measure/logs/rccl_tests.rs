//! The files that rccl-tests writes beside its table: `-x FILE -Z json` and `-Z csv`, since 2026 `-X FILE`.
//!
//! ```text
//! {"#wrong":"0","algBw":0.0533,"busBw":0.0800,"gpus":4,"inPlace":0,"name":"AllReduce","redop":"sum","size":1024,…}
//! {"numCycle":0, "name":"AllReduce", "nodes":1, "ranks":8, "ranksPerNode":8, "gpusPerRank":1, "size":1024, …},
//! numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong
//! 0,"AllReduce",1,8,8,1,1024,"float","sum",0,19.18,0.0533,0.0934,"0"
//! ```
//!
//! The first versions wrote lines of JSON and no `numCycle`, and as the size what a rank receives, M/N of a
//! reduce-scatter; later ones a list with an object in each line. `ranksPerNode` counts the processes of a
//! communicator, `ranks` those of the job, and `nodes`, which the heading of the CSV does not name, the communicators
//! that a split run has at once. Times are µs.
//! Source: ROCm/rccl-tests pull requests 93 and 140; ROCm/rocm-systems `projects/rccl-tests/src/common.cu`.

use serde::Deserialize;

use super::draft::{Draft, Raw, Redop};
use super::nccl_tests::devices::at_once;
use super::{Line, Log, Measured, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::base::quantity::{Ratio, Seconds};
use crate::machine::sample::{DataType, Mode};

/// A result, from either file.
#[derive(Debug, Clone, Default, Deserialize)]
struct Result {
    #[serde(default, rename = "numCycle")]
    cycle: u64,
    name: String,
    /// The processes of the job; absent without MPI.
    ranks: Option<u32>,
    /// Those of a communicator.
    #[serde(rename = "ranksPerNode")]
    per_node: Option<u32>,
    #[serde(rename = "gpusPerRank")]
    each: Option<u32>,
    /// All GPUs, without MPI.
    gpus: Option<u32>,
    size: u64,
    #[serde(rename = "type")]
    dtype: String,
    #[serde(default)]
    redop: String,
    #[serde(rename = "inPlace")]
    in_place: u32,
    time: f64,
    #[serde(rename = "algBw")]
    algbw: f64,
    #[serde(rename = "busBw")]
    busbw: f64,
    #[serde(alias = "#wrong")]
    wrong: String,
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    /// The names of the columns of a CSV.
    columns: Vec<String>,
    /// What the rows of the last table share.
    of: Option<(u64, String, Option<u32>)>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if text.starts_with('{') && text.contains("\"inPlace\"") && text.contains("\"busBw\"") {
            return Ok(match serde_json::from_str(text.trim_end_matches(',')) {
                Ok(result) => self.row(result, line, log),
                Err(_) => cut(line, log),
            });
        }
        if text.starts_with("numCycle")
            || text.starts_with("collective,") && text.ends_with("#wrong")
        {
            self.columns = text.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
            return Ok(Taken::Yes);
        }
        let begins_as_row = line.is_numeric() || text.starts_with('"');
        if self.columns.is_empty() || !begins_as_row || !text.contains(',') {
            return Ok(Taken::No);
        }
        Ok(match self.csv(text) {
            Some(result) => self.row(result, line, log),
            None => cut(line, log),
        })
    }

    fn leave(&mut self) {
        self.columns.clear();
    }
}

/// A result that is cut off.
fn cut(line: &Line, log: &mut Log) -> Taken {
    log.leave_out(line.number, "the row is cut off");
    Taken::Yes
}

impl Table {
    /// The result in a line of the CSV.
    fn csv(&self, text: &str) -> Option<Result> {
        let mut fields: Vec<&str> = text.split(',').map(|f| f.trim().trim_matches('"')).collect();
        if fields.len() == self.columns.len() + 1 {
            fields.remove(1 + self.columns.iter().position(|name| name == "collective")?);
        }
        if fields.len() != self.columns.len() {
            return None;
        }
        let text = |name: &str| Some(fields[self.columns.iter().position(|c| c == name)?]);
        let whole = |name: &str| field::whole(text(name)?);
        let count = |name: &str| u32::try_from(whole(name)?).ok();
        let number = |name: &str| field::number(text(name)?);
        Some(Result {
            cycle: whole("numcycle").unwrap_or_default(),
            name: text("collective")?.to_owned(),
            ranks: count("ranks"),
            per_node: count("rankspernode"),
            each: count("gpusperrank"),
            gpus: count("gpus"),
            size: whole("size")?,
            dtype: text("type")?.to_owned(),
            redop: text("redop")?.to_owned(),
            in_place: count("inplace")?,
            time: number("time")?,
            algbw: number("algbw")?,
            busbw: number("busbw")?,
            wrong: text("#wrong")?.to_owned(),
        })
    }

    fn row(&mut self, result: Result, line: &Line, log: &mut Log) -> Taken {
        let of_processes = || result.per_node.and_then(|n| n.checked_mul(result.each.unwrap_or(1)));
        let ranks = result.gpus.or_else(of_processes);
        let of = Some((result.cycle, result.name.clone(), ranks));
        let began = self.of != of || log.last().is_none_or(|draft| draft.format != ID);
        if began {
            self.of = of;
            let mut draft = begun(&result.name, ranks, line.number);
            if let (Some(all), Some(each)) = (result.ranks, result.per_node.filter(|&n| n > 0)) {
                at_once(&mut draft, all / each);
            }
            log.tables.push(draft);
        }
        if let Some(draft) = log.last() {
            match result.time > 0.0 && result.time.is_finite() {
                true => draft.rows.push(raw(&result, ranks, line.number)),
                false => draft.leave_out(line.number, "a time of 0, or none"),
            }
        }
        if began { Taken::Began } else { Taken::Yes }
    }
}

/// The format's id.
const ID: &str = "rccl-tests";

fn begun(name: &str, ranks: Option<u32>, line: usize) -> Draft {
    let mut draft = Draft::new(ID, line, name);
    draft.tested = Some(match name.parse::<Collective>() {
        Ok(Collective::SendRecv) => Tested::Shift,
        Ok(collective) => Tested::Collective(collective),
        Err(_) => Tested::Other(name.to_owned()),
    });
    if let Some(Tested::Other(name)) = &draft.tested {
        let what = format!("{name} is not a collective with equal blocks");
        draft.refuse(what, "leave it out: only collectives with equal blocks are compared");
    }
    draft.ranks.extend(ranks.map(|n| (n, "column")));
    draft.library = Some("RCCL".to_owned());
    draft.mode = Mode::Stream;
    draft
}

fn raw(result: &Result, ranks: Option<u32>, line: usize) -> Raw {
    let Result { algbw, busbw, time, .. } = *result;
    // Six digits, before or after the point.
    let half = |x: f64| 0.5e-6 + 5e-6 * x;
    let factor = (algbw > 1e-3 && busbw > 0.0).then(|| {
        let (a, b) = (half(algbw), half(busbw));
        (Ratio((busbw - b) / (algbw + a)), Ratio((busbw + b) / (algbw - a)))
    });
    // Of M in all versions, unlike the size.
    let moved = algbw * time * 1e3;
    let parts = ranks.map_or(1, u64::from);
    let total = result.size.saturating_mul(parts);
    let is_part = factor.is_some() && (moved / total as f64 - 1.0).abs() < 0.01;
    Raw {
        line,
        size: if is_part { total } else { result.size },
        count: None,
        dtype: DataType::named(&result.dtype),
        in_place: result.in_place > 0,
        measured: Measured::Time(Seconds(time * 1e-6)),
        wrong: field::whole(&result.wrong),
        factor,
        redop: Redop::named(&result.redop),
        root: None,
        traced: None,
    }
}

#[cfg(test)]
mod tests {
    use crate::base::collective::Collective;
    use crate::base::quantity::Bytes;
    use crate::measure::logs::{Asked, Imported, Tested, look};
    use crate::model::algorithm::RunBy;

    fn log(text: &str) -> Imported {
        look(text.as_bytes(), "x.json", &Asked::default()).unwrap()
    }

    /// N, rows, and rows in place.
    fn told(text: &str) -> (Option<u32>, usize, usize) {
        let log = log(text);
        let [table] = log.tables.as_slice() else { panic!("{log:?}") };
        assert_eq!(table.tested, Tested::Collective(Collective::AllReduce));
        assert_eq!(table.run_by(), Some(RunBy::Other));
        (table.ranks, table.rows.len(), table.rows.iter().filter(|r| r.in_place).count())
    }

    #[test]
    fn lines_and_lists_of_json_are_read() {
        let lines = "{\"#wrong\":\"0\",\"algBw\":0.05337739748698796,\"busBw\":0.08006609623048194,\"gpus\":4,\
                     \"inPlace\":0,\"name\":\"AllReduce\",\"redop\":\"sum\",\"size\":1024,\"time\":19.18,\"type\":\"float\"}\n\
                     {\"#wrong\":\"0\",\"algBw\":0.05146336376406259,\"busBw\":0.07719504564609389,\"gpus\":4,\
                     \"inPlace\":1,\"name\":\"AllReduce\",\"redop\":\"sum\",\"size\":1024,\"time\":19.9,\"type\":\"float\"}\n";
        assert_eq!(told(lines), (Some(4), 2, 1));
        let object = |in_place: u32| {
            format!(
                "{{\"numCycle\":0, \"name\":\"AllReduce\", \"nodes\":1, \"ranks\":8, \"ranksPerNode\":8, \
                 \"gpusPerRank\":1, \"size\":1048576, \"type\":\"float\", \"redop\":\"sum\", \"inPlace\":{in_place}, \
                 \"time\":30.0, \"algBw\":34.952533, \"busBw\":61.166933, \"wrong\":\"N/A\"}}"
            )
        };
        assert_eq!(told(&format!("[\n{},\n{}\n]\n", object(0), object(1))), (Some(8), 2, 1));
    }

    #[test]
    fn csv_is_read_with_and_without_mpi() {
        let mpi = "numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong\n\
                   0,\"AllReduce\",1,8,8,1,1048576,\"float\",\"sum\",0,30.0,34.952533,61.166933,\"0\"\n";
        assert_eq!(told(mpi), (Some(8), 1, 0));
        // Eight communicators of two processes at once.
        let split = mpi.replace("1,8,8,1,", "8,16,2,4,");
        assert_eq!(told(&split).0, Some(8));
        assert!(log(&split).tables[0].warnings[0].starts_with("8 groups of ranks ran at once"));
        let alone = "numCycle, collective, gpus, size, type, redop, inplace, time, algbw, busbw, #wrong\n\
                     0, \"AllReduce\", 8, 1048576, \"float\", \"sum\", 1, 30.0, 34.952533, 61.166933, \"3\"\n\
                     0, \"AllReduce\", 8, 2097\n";
        assert_eq!(told(alone), (Some(8), 1, 1));
        let table = &log(alone).tables[0];
        assert_eq!((table.rows[0].wrong, table.left_out.len()), (Some(3), 1));
    }

    #[test]
    fn the_first_versions_count_what_a_rank_receives() {
        let csv = "collective, ranks, rankspernode, gpusperrank, size, type, redop, inplace, time, algbw, busbw, #wrong\n\
                   \"ReduceScatter\", 1, 8, 8, 1, 131072, \"float\", \"sum\", 0, 30.0, 34.952533, 30.583467, \"0\"\n";
        let json = "{\"name\":\"ReduceScatter\", \"nodes\":1, \"ranks\":8, \"ranksPerNode\":8, \"gpusPerRank\":1, \
                    \"size\":131072, \"type\":\"float\", \"redop\":\"sum\", \"inPlace\":0, \"time\":30.0, \
                    \"algBw\":34.952533, \"busBw\":30.583467, \"wrong\":\"0\"}\n";
        for text in [csv, json] {
            let log = log(text);
            let [table] = log.tables.as_slice() else { panic!("{log:?}") };
            assert_eq!((table.rows[0].size, table.ranks), (Bytes(1 << 20), Some(8)), "{text}");
        }
    }
}
