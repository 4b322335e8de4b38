//! `collcost mock`: nccl-tests' output without GPUs.

use std::io::Write;
use std::path::Path;

use super::Stop;
use super::flags::{MachineFlags, OnFlags, ParamFlags, RankFlags, count, size, value, whole};
use super::output;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Percent, Ratio};
use collcost::machine::sample::DataType;
use collcost::measure::mock::{Ask, Fault, OPERATIONS, Program, Sizes, Step, mock};
use collcost::model::algorithm::Registry;

#[derive(clap::Args)]
#[command(after_help = "\
Faults, repeatable; --seed draws the rank if none is named:
  slow-link=4, =3:4, =0-1:4   messages over a link (rank 3's, between 0 and 1) take 4 times as long
  slow-rank=2, =3:2           all messages of a rank take 2 times as long
  straggler=50us, =3:50us     a rank comes late to every call
  missing-nic, =2             every node lacks one NIC, or this many
  wrong-tier, =a100-pcie      the links inside a node are those between nodes, or of another machine
  nvls-off                    switches do not reduce
  protocol-off=LL             NCCL may not use a protocol: LL, LL128
  shared-gpu                  two ranks on each device

Examples:
  collcost mock all_reduce_perf -b 8 -e 8G -f 2 --on dgx-h100 -n 16
  collcost mock all_reduce_perf -b 1G -e 1G -n 16 | awk '$1 ~ /^[0-9]+$/ {print $8}'
  collcost mock alltoall_perf -b 1M -e 1G -f 4 -n 32 --noise 3% --seed 7
  collcost mock all_gather_perf -b 1M -e 1G -f 2 -n 16 --fault missing-nic -J run.json

The first lines of every output say that it is predicted. Here -n is the number of ranks; -n of
nccl-tests is --iters.")]
pub(super) struct Args {
    /// A program of nccl-tests, such as all_reduce_perf
    #[arg(value_name = "PROGRAM")]
    program: String,
    /// The smallest size
    #[arg(
        short = 'b',
        long,
        value_name = "SIZE",
        default_value = "32M",
        allow_hyphen_values = true
    )]
    minbytes: String,
    /// The largest size; default: the smallest
    #[arg(short = 'e', long, value_name = "SIZE", allow_hyphen_values = true)]
    maxbytes: Option<String>,
    /// The factor between one size and the next
    #[arg(short = 'f', long, value_name = "X", allow_hyphen_values = true)]
    stepfactor: Option<String>,
    /// The difference between one size and the next, if no -f is given; default: 1M
    #[arg(
        short = 'i',
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    stepbytes: Option<String>,
    /// The type of the elements
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "float")]
    datatype: String,
    /// The reduction: sum, prod, max, min, avg
    #[arg(short = 'o', long, value_name = "OP", default_value = "sum")]
    op: String,
    /// The rank that has or gets the data
    #[arg(
        short = 'r',
        long,
        value_name = "RANK",
        default_value = "0",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    root: String,
    /// Number of timed calls; their mean is printed
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "20",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    iters: String,
    /// Number of warm-up calls
    #[arg(
        short = 'w',
        long,
        alias = "warmup_iters",
        value_name = "COUNT",
        default_value = "1",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    warmup_iters: String,
    /// Whether results are checked: 1, or 0 to print N/A
    #[arg(
        short = 'c',
        long,
        value_name = "COUNT",
        default_value = "1",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    check: String,
    /// Relative deviation of a rank's message times, such as 3%
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    noise: Option<String>,
    /// Add a fault, see below; repeatable
    #[arg(long, value_name = "FAULT", allow_hyphen_values = true)]
    fault: Vec<String>,
    /// Seed of the random draws
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "1",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    seed: String,
    /// Print the JSON document of nccl-tests instead of the text
    #[arg(long, conflicts_with = "output_file")]
    json: bool,
    /// Also write that document to a file
    #[arg(short = 'J', long, alias = "output_file", value_name = "FILE", hide_short_help = true)]
    output_file: Option<String>,
    #[command(flatten)]
    ranks: RankFlags,
    #[command(flatten)]
    machine: MachineFlags,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let ask = self.ask().map_err(|e| e.at("mock"))?;
        let collective = ask.program.collective;
        let (ranks, machine) = (self.ranks.clone(), self.machine.clone());
        let on = OnFlags { ranks, machine, params: ParamFlags::default() };
        let query = on.query(collective, ask.sizes.last)?;
        let place = || format!("mock {}, {} ranks", ask.program.name, query.shape.ranks);
        let mocked = mock(&Registry::builtin(), &query, &ask).map_err(|e| e.at(place()))?;
        if self.json {
            writeln!(out, "{}", mocked.json())?;
            return Ok(());
        }
        let file = self.output_file.as_ref();
        let written = file.map(|file| write_numbered(file, &mocked.json())).transpose()?;
        out.write_all(mocked.text(written.as_deref()).as_bytes())?;
        Ok(())
    }

    fn ask(&self) -> Result<Ask> {
        let number = |flag: &str, what: &str, text: &String| {
            whole(flag, what, Some(text)).map(Option::unwrap_or_default)
        };
        let program = Program::named(&self.program)?;
        let operation = OPERATIONS.iter().find(|known| **known == self.op).ok_or_else(|| {
            Error::input(format!("`{}` is not an operation of nccl-tests that mock knows", self.op))
                .at(format!("--op {}", self.op))
                .help(format!("write one of {}", OPERATIONS.join(", ")))
        })?;
        if let Some(file) = &self.output_file {
            check_name(file)?;
        }
        let iterations = count("--iters", "calls", Some(&self.iters))?;
        let seed = self.seed.trim().parse().map_err(|_| {
            Error::input(format!("`{}` is not a seed", self.seed))
                .at(format!("--seed {}", self.seed))
                .help("write a whole number, 0 or more")
        })?;
        Ok(Ask {
            dtype: value::<DataType>("--datatype", Some(&self.datatype))?.unwrap_or(DataType::F32),
            operation,
            root: number("--root", "rank", &self.root)?,
            iterations: iterations.map_or(20, Into::into),
            warmup: number("--warmup-iters", "number of calls", &self.warmup_iters)?,
            check: number("--check", "number of checks", &self.check)?,
            noise: self.noise.as_deref().map_or(Ok(Ratio(0.0)), noise)?,
            faults: self
                .fault
                .iter()
                .map(|text| text.parse().map_err(|e: Error| e.at(format!("--fault {text}"))))
                .collect::<Result<Vec<Fault>>>()?,
            seed,
            ..Ask::new(program, self.sizes()?)
        })
    }

    fn sizes(&self) -> Result<Sizes> {
        let first = size("--minbytes", Some(&self.minbytes))?.unwrap_or_default();
        let last = size("--maxbytes", self.maxbytes.as_ref())?.unwrap_or(first);
        let factor = count("--stepfactor", "times", self.stepfactor.as_ref())?;
        let step = match (factor.map(std::num::NonZeroU32::get), &self.stepbytes) {
            (Some(factor @ 2..), _) => Step::Factor(factor.into()),
            (_, bytes) => {
                let more = size("--stepbytes", bytes.as_ref())?.unwrap_or(Bytes(1 << 20));
                if more.0 == 0 {
                    return Err(Error::input("sizes that are 0 bytes apart never end")
                        .at("--stepbytes 0")
                        .help("write a size above 0, or a factor with -f"));
                }
                Step::Plus(more)
            }
        };
        Ok(Sizes { first, last, step })
    }
}

/// `3%` or `0.03`.
fn noise(text: &str) -> Result<Ratio> {
    match text.parse() {
        Ok(Percent(part)) if part <= 0.5 => Ok(Ratio(part)),
        _ => Err(Error::input(format!("`{text}` is not a noise from 0 to 50 %"))
            .at(format!("--noise {text}"))
            .help("write it as 3% or 0.03")),
    }
}

/// nccl-tests derives the format from the name, and writes nothing under any other.
fn check_name(file: &str) -> Result<()> {
    let is = |e: &std::ffi::OsStr| e.eq_ignore_ascii_case("json");
    if Path::new(file).extension().is_some_and(is) {
        return Ok(());
    }
    Err(Error::input(format!("`{file}` does not end in .json"))
        .at(format!("--output-file {file}"))
        .help("nccl-tests writes nothing under such a name: write run.json"))
}

/// Writes a new file: `file`, or if it exists `file.0`, `file.1`, …, as nccl-tests does.
fn write_numbered(file: &str, text: &str) -> Result<String> {
    let names = std::iter::once(file.to_owned()).chain((0..1000).map(|i| format!("{file}.{i}")));
    for name in names {
        if output::write_new("--output-file", Path::new(&name), text)? {
            return Ok(name);
        }
    }
    Err(Error::input("a thousand documents of that name exist already")
        .at(format!("--output-file {file}"))
        .help("name another file"))
}
