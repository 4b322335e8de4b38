//! `collcost nccl replay`: reads a table of questions and writes NCCL's decisions in order.

use std::io::{self, Write};

use super::super::Stop;
use super::source;
use collcost::answer::batch::nccl::{Failed, Replay};

#[derive(clap::Args)]
#[command(after_help = "\
The input has the columns id, version, env, pipeops, collective and nbytes (the
largest buffer); others are ignored. The output repeats them and adds algo,
proto, nchannels, nthreads, time_us. NONE means that NCCL returns an error,
TUNE_RC5 that it does not start a communicator.

Examples:
  collcost nccl replay --comms graphs.csv < questions.csv
  collcost nccl replay --comms graphs.csv --envs envs.csv < questions.csv")]
pub(super) struct Args {
    /// File of communicators, one per line
    #[arg(long, value_name = "FILE")]
    comms: String,
    /// File of environments with columns env,settings, such as E01,NCCL_ALGO='Tree'
    #[arg(long, value_name = "FILE")]
    envs: Option<String>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let comms = source::comms(&self.comms)?;
        let envs = self.envs.as_deref().map(source::envs).transpose()?;
        let envs = source::by_name(envs.unwrap_or_default());
        let questions = io::stdin().lock();
        Replay::new(&comms, &envs).answer(questions, out).map_err(|failed| match failed {
            Failed::Question(error) => Stop::Refused(error.within("standard input")),
            Failed::Io(error) => Stop::Io(error),
        })
    }
}
