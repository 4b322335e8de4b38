//! `collcost nccl choose`: what NCCL chooses over a range of sizes, and why.

use std::io::Write;

use super::super::Stop;
use super::super::flags;
use super::super::format::{FormatFlag, Report};
use super::source::{self, SourceFlags};
use collcost::answer::nccl::{Question, choose, emit_env};
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::base::quantity::Bytes;
use collcost::library::nccl::cost_model::Windows;
use collcost::library::nccl::{Reduction, element};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost nccl choose allreduce --comm dgx_h100_8x400g.p8.n2
  collcost nccl choose allreduce 16MiB --comm dgx_h100_8x400g.p8 --nodes 8 --explain
  collcost nccl choose broadcast 1MiB --comm dgx_a100_8x200g.p8.n4 --env NCCL_ALGO=Tree
  collcost nccl choose allreduce 16MiB --comm dgx_h100_8x400g.p8.n2 --emit env
  collcost nccl choose allgather --graph graphs.xml --nodes 4 --gpu h100 --nccl 2.27.3
  collcost nccl choose allreduce --topo topo.xml --nodes 4 --ppn 4
  collcost nccl choose allgather --comm dgx_h100_8x400g.p8.n1 --nccl 2.31.2 --registered")]
pub(super) struct Args {
    /// The collective: allreduce, allgather, reducescatter, broadcast or reduce
    collective: String,
    /// One size; default: the sizes from --begin to --end
    #[arg(allow_negative_numbers = true)]
    size: Option<String>,
    /// The smallest size
    #[arg(short, long, value_name = "SIZE", default_value = "8", allow_hyphen_values = true)]
    begin: String,
    /// The largest size
    #[arg(short, long, value_name = "SIZE", default_value = "8GiB", allow_hyphen_values = true)]
    end: String,
    /// The data type, where the choice depends on it: float, half, bf16, int32, fp8, int8
    #[arg(long, value_name = "TYPE", default_value = "float")]
    dtype: String,
    /// The reduction: sum, min, max, prod, avg
    #[arg(long, value_name = "OP", default_value = "sum", hide_short_help = true)]
    op: String,
    /// Show the rule that decided, with every cell of the table; needs a size
    #[arg(long, requires = "size")]
    explain: bool,
    /// Both buffers are in symmetric windows (ncclCommWindowRegister), out of place
    #[arg(long, conflicts_with = "emit")]
    registered: bool,
    /// Print the settings that force this choice, and their pitfalls; WHAT is env
    #[arg(long, value_name = "WHAT", requires = "size", conflicts_with = "format")]
    emit: Option<Emit>,
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Emit {
    Env,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let source = self.source.source()?;
        let question = Question {
            name: source.name,
            comm: &source.comm,
            nccl: source.nccl,
            settings: &source.settings,
            function: source::function("nccl choose", &self.collective)?,
            reduction: self.reduction()?,
            sizes: self.sizes()?,
            windows: if self.registered { Windows::Both } else { Windows::None },
            notes: source.notes,
        };
        if self.emit.is_some() {
            let lines = emit_env(&question).map_err(|e| e.at(self.asked_sizes()))?;
            out.write_all(lines.as_bytes())?;
            return Ok(());
        }
        let mut report = choose(&question).map_err(|e| e.at(self.asked_sizes()))?;
        if self.format.get()? != Format::Json && !self.explain {
            report.cells.clear();
            report.rule = None;
        }
        self.format.write(out, &report, |look| view::nccl::choose(&report, look))
    }

    /// The sizes as they were typed: the place of errors that have no place of their own.
    fn asked_sizes(&self) -> String {
        match &self.size {
            Some(size) => format!("nccl choose {} {size}", self.collective),
            None => format!("--begin {} --end {}", self.begin, self.end),
        }
    }

    fn reduction(&self) -> Result<Reduction> {
        Ok(Reduction {
            element: element(&self.dtype).map_err(|e| e.at(format!("--dtype {}", self.dtype)))?,
            operation: self.op.parse().map_err(|e: Error| e.at(format!("--op {}", self.op)))?,
        })
    }

    fn sizes(&self) -> Result<(Bytes, Bytes)> {
        let size = |flag: &str, text: &String| {
            flags::size(flag, Some(text)).map(Option::unwrap_or_default)
        };
        if let Some(text) = &self.size {
            let one = size("", text)?;
            return Ok((one, one));
        }
        Ok((size("--begin", &self.begin)?, size("--end", &self.end)?))
    }
}
