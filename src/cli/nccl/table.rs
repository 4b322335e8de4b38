//! `collcost nccl table`: the tuner's table of a communicator, or of many as CSV.

use std::io::Write;

use super::super::Stop;
use super::source;
use collcost::batch::nccl::write_tables;
use collcost::nccl::{Asked, Settings, Version};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Communicators, a line each
    #[arg(long, value_name = "FILE")]
    comms: String,
    /// NCCL's version; all known ones without it
    #[arg(long, value_name = "VERSION")]
    nccl: Option<Asked>,
    /// Environments with the columns env and settings; the empty one without it
    #[arg(long, value_name = "FILE")]
    envs: Option<String>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let comms = source::comms(&self.comms)?;
        let envs = self.envs.as_deref().map(source::envs).transpose()?;
        let envs = envs.unwrap_or_else(|| vec![(String::new(), Settings::default())]);
        let one = self.nccl.map(|asked| vec![asked.rules]);
        let versions = one.unwrap_or_else(|| Version::ALL.to_vec());
        write_tables(out, &comms, &versions, &envs)?;
        Ok(())
    }
}
