//! `collcost nccl whatif`: what each of NCCL's variables would change on a machine.

use std::io::Write;

use super::super::Stop;
use super::super::flags::value;
use super::super::format::{FormatFlag, Report};
use super::diff::size;
use super::on::OnFlags;
use super::source;
use collcost::answer::nccl_whatif::{CANDIDATES, Question, nccl_whatif};
use collcost::library::nccl::Version;
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Graphs, channels and choice are computed anew for every setting, as NCCL would at
start-up. Times are NCCL's own estimates, on which its choice is based: if they show
a gain, it still has to be measured.

Examples:
  collcost nccl whatif allreduce 64MiB --on dgx_h100_8x400g.p8.n2
  collcost nccl whatif allgather 1MiB --on topo.xml --nodes 4 --nccl torch-2.7
  collcost nccl whatif allreduce 1GiB --on dgx_h100_8x400g.p8.n4 --try NCCL_MAX_NCHANNELS=8 \\
    --try 'NCCL_ALGO=Ring NCCL_PROTO=Simple'")]
pub(super) struct Args {
    /// The collective: allreduce, allgather, reducescatter, broadcast or reduce
    collective: String,
    /// The size of the vector; for all-gather and reduce-scatter the total over ranks
    #[arg(allow_negative_numbers = true)]
    size: String,
    /// Settings to try, such as NCCL_MAX_NCHANNELS=8; repeatable; default: each variable alone
    #[arg(long = "try", value_name = "NAME=VALUE...")]
    tries: Vec<String>,
    /// NCCL's version, such as 2.27.3 or torch-2.8; default: the newest that PyTorch pins
    #[arg(long, value_name = "VERSION")]
    nccl: Option<String>,
    #[command(flatten)]
    on: OnFlags,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let on = self.on.machine()?;
        let (settings, knobs) = self.on.env.split()?;
        let tries: Vec<&str> = match &self.tries[..] {
            [] => CANDIDATES.to_vec(),
            tries => tries.iter().map(String::as_str).collect(),
        };
        let report = nccl_whatif(&Question {
            name: on.name,
            description: &on.description,
            job: on.job,
            version: value::<Version>("--nccl", self.nccl.as_ref())?.unwrap_or(Version::NEWEST),
            settings: &settings,
            knobs: &knobs,
            function: source::function("nccl whatif", &self.collective)?,
            size: size("", &self.size)?,
            tries: &tries,
        })?;
        self.format.write(out, &report, |_| view::nccl_whatif::page(&report))
    }
}
