//! `collcost nccl diff`: what differs between two releases of NCCL on a machine.

use std::io::Write;

use super::super::Stop;
use super::super::flags;
use super::super::format::{FormatFlag, Report};
use super::on::OnFlags;
use collcost::answer::nccl_diff::{Question, nccl_diff};
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::library::nccl::Version;
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Sizes of all-gather and reduce-scatter are totals over all ranks. Times are NCCL's
own estimates, on which its choice is based.

Examples:
  collcost nccl diff 2.21.5 2.27.5 --on dgx_h100_8x400g.p8.n2
  collcost nccl diff torch-2.8 torch-2.9 --on topo.xml --nodes 4
  collcost nccl diff 2.26.2 2.28.9 --on dgx_b200_8x400g.p8.n2 --size 1MiB --size 1GiB --format csv")]
pub(super) struct Args {
    /// The release before, such as 2.21.5, or the PyTorch that pins it, torch-2.6
    before: String,
    /// The release after
    after: String,
    /// A size to look at; several times. Without it, all from --begin to --end
    #[arg(long = "size", value_name = "SIZE", allow_hyphen_values = true)]
    sizes: Vec<String>,
    /// The least size
    #[arg(short, long, value_name = "SIZE", default_value = "8", allow_hyphen_values = true)]
    begin: String,
    /// The greatest size
    #[arg(short, long, value_name = "SIZE", default_value = "8GiB", allow_hyphen_values = true)]
    end: String,
    #[command(flatten)]
    on: OnFlags,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let release = |text: &str| text.parse::<Version>().map_err(|e: Error| e.at(text));
        let on = self.on.machine()?;
        let (settings, knobs) = self.on.env.split()?;
        let sizes = self.sizes.iter().map(|text| size("--size", text));
        let report = nccl_diff(&Question {
            name: on.name,
            description: &on.description,
            job: on.job,
            versions: [release(&self.before)?, release(&self.after)?],
            settings: &settings,
            knobs: &knobs,
            sizes: sizes.collect::<Result<_>>()?,
            range: (size("--begin", &self.begin)?, size("--end", &self.end)?),
        })?;
        self.format.write(out, &report, |look| view::nccl_diff::page(&report, look))
    }
}

/// A size that a flag names.
pub(super) fn size(flag: &str, text: &String) -> Result<Bytes> {
    let size = flags::size(flag, Some(text))?.unwrap_or_default();
    if size.0 == 0 {
        return Err(Error::input("there is nothing to move")
            .at(format!("{flag} {text}"))
            .help("give a size such as 1MiB"));
    }
    Ok(size)
}
