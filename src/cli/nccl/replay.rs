//! `collcost nccl replay`: questions as a table in, NCCL's decisions out, in order.

use std::io::{self, Write};

use super::super::Stop;
use super::source;
use collcost::answer::batch::nccl::{Failed, Replay};

#[derive(clap::Args)]
#[command(after_help = "\
Read are the columns id, version, env, pipeops, collective and nbytes (the
largest buffer); others are passed over. Answers repeat them and add algo,
proto, nchannels, nthreads, time_us. NONE stands where NCCL returns an error,
TUNE_RC5 where it starts no communicator.

Examples:
  collcost nccl replay --comms graphs.csv < questions.csv
  collcost nccl replay --comms graphs.csv --envs envs.csv < questions.csv")]
pub(super) struct Args {
    /// Communicators, a line each
    #[arg(long, value_name = "FILE")]
    comms: String,
    /// Environments with the columns env and settings, such as E01,NCCL_ALGO='Tree'
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
