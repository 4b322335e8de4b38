//! `collcost export`: schedules and tuning files in the formats of other programs.

mod nccl;
mod schedule;
pub(super) mod tuning;

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use super::Stop;
use super::flags::{CallFlags, OnFlags};
use super::output::write_whole;
use super::streams::say;
use collcost::Collective;
use collcost::base::error::{Error, Result, did_you_mean};
use collcost::base::quantity::Bytes;
use collcost::exchange::export::FORMATS;
use collcost::library::xla_sol_options;
use tuning::Tuning;

/// The flag of XLA's own model, which is neither a schedule nor a tuning file.
const XLA: &str = "xla-sol-options";

/// The names of all formats.
pub(super) fn formats() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.id).chain(Tuning::NAMES).chain([XLA])
}

#[derive(clap::Args)]
#[command(
    mut_arg("words", |a| a.value_name("COLLECTIVE|ALGORITHM|SIZE").num_args(0..).help(
        "For a schedule: the collective, such as allreduce, an algorithm and a size. For a tuning file: \
         the collectives; default: all")),
    mut_arg("algorithm", |a| a.help("The schedule's algorithm; default: what the library runs")),
    mut_arg("size", |a| a.help("The schedule's size; default: 16MiB"))
)]
#[command(after_help = "\
Examples:
  collcost export msccl allreduce ring -n 8
  collcost export openmpi-rules -n 2..64 --on gcp-c2d -o rules.conf
  collcost export mpich-json broadcast -n 8 --on tcp-25g
  collcost export nccl-tuner-csv -n 16 --on dgx-h100
  collcost export nccl-tuner-csv -n 16 --on dgx-h100 --log own=plain.log --log Ring/LL128=ring.log
  collcost export xla-sol-options --on dgx-h100")]
pub(super) struct Args {
    /// The format. For a schedule: msccl (XML) or goal (for LogGOPSim). For a library's tuning
    /// file: openmpi-rules, mpich-json or nccl-tuner-csv. For XLA's model of the machine:
    /// xla-sol-options
    #[arg(value_name = "FORMAT")]
    format: String,
    #[command(flatten)]
    call: CallFlags,
    /// The rank that has or gets the data
    #[arg(long, value_name = "RANK", allow_hyphen_values = true, hide_short_help = true)]
    root: Option<String>,
    /// The library and version that a tuning file is for, such as openmpi@4.1 or mpich@4.0
    #[arg(long = "for", value_name = "LIBRARY@VERSION")]
    target: Option<String>,
    /// For NCCL: a communicator whose graphs are known, such as dgx_h100_8x400g.p8.n2
    #[arg(long, value_name = "ID")]
    comm: Option<String>,
    /// For NCCL: a benchmark log from this communicator; repeatable. Lines differ from NCCL's own
    /// choice only where logs show a gain. What ran is read from the log (NCCL_DEBUG) or given
    /// before the file: own=FILE, Tree=FILE, Tree/LL128=FILE
    #[arg(long = "log", value_name = "[CHOICE=]FILE")]
    logs: Vec<String>,
    /// The file to write, atomically, instead of standard output (-)
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<String>,
    #[command(flatten)]
    on: OnFlags,
}

impl Args {
    pub(super) fn run(mut self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let tuning = Tuning::named(&self.format);
        if let Some(log) = self.logs.first().filter(|_| tuning != Some(Tuning::Nccl)) {
            return Err(Error::input("only a tuning file for NCCL uses logs")
                .at(format!("--log {log}"))
                .help("leave out --log")
                .into());
        }
        if let (Some(target), None) = (&self.target, tuning) {
            return Err(Error::input("only a tuning file is for a library's version")
                .at(format!("--for {target}"))
                .help("leave out --for")
                .into());
        }
        let output = self.output.clone();
        let mut put = |text: &dyn Display| -> std::result::Result<(), Stop> {
            match output.as_deref() {
                None | Some("-") => write!(out, "{text}")?,
                Some(file) => write_whole("--output", Path::new(file), text)?,
            }
            Ok(())
        };
        let notes = match tuning {
            Some(tuning) => {
                let (text, notes) = self.tuning(tuning)?;
                put(&text)?;
                notes
            }
            None if FORMATS.iter().any(|format| format.id == self.format) => self.schedule(put)?,
            None if self.format == XLA => {
                put(&self.xla()?)?;
                Vec::new()
            }
            None => return Err(self.unknown().into()),
        };
        for note in notes {
            say(format_args!("note: {note}"));
        }
        Ok(())
    }

    /// The options of XLA's model; without --nodes, two nodes stand for any number.
    fn xla(&self) -> Result<String> {
        let ranks = self.on.ranks.clone();
        let ranks = if ranks.is_silent() { ranks.with_nodes(2) } else { ranks };
        let asked = self.on.of(ranks).query(Collective::AllReduce, Bytes(0));
        let query = asked.map_err(|e| e.at(format!("export {XLA}")))?;
        xla_sol_options(&query.machine.fabric, query.placement.per_node)
    }

    fn unknown(&self) -> Error {
        Error::input(format!("`{}` is not a format", self.format))
            .at(format!("export {}", self.format))
            .help(did_you_mean(&self.format, formats(), || {
                format!("known formats: {}", formats().collect::<Vec<_>>().join(", "))
            }))
    }
}
