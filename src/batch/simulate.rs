//! Kind `simulate`: the inputs of a table of simulated schedules, answered by its outputs.

use super::Batch;
use super::question::{self, Question, needed};
use crate::collective::Collective;
use crate::error::{Error, Result};
use crate::schedule::Schedule;

/// The endings by which such tables say what an algorithm is for.
const ENDINGS: &[(&str, Collective)] = &[
    ("_ar", Collective::AllReduce),
    ("_rs", Collective::ReduceScatter),
    ("_ag", Collective::AllGather),
    ("_bcast", Collective::Broadcast),
    ("_reduce", Collective::Reduce),
    ("_a2a", Collective::AllToAll),
    ("_gather", Collective::Gather),
    ("_scatter", Collective::Scatter),
];

impl Batch {
    /// The schedule that a question of kind `simulate` is about.
    ///
    /// # Errors
    /// What is wrong with the question, or why there is no such schedule.
    pub fn schedule(&mut self, line: &str) -> Result<Box<dyn Schedule>> {
        let question = question::parse(line)?.unfolded()?;
        self.spelled_out(&question)
    }

    fn spelled_out(&mut self, q: &Question<'_>) -> Result<Box<dyn Schedule>> {
        let name = q.algorithm()?;
        let collective = match q.collective()? {
            Some(collective) => collective,
            None => collective_of(needed(q.algorithm.as_ref(), "algorithm")?)?,
        };
        let named = self.find(collective, &name)?;
        let shape = q.shape(collective)?;
        super::answer::applies(named, &shape)?;
        named.algorithm.schedule(&shape).ok_or_else(|| {
            let id = named.algorithm.meta().id;
            Error::unsupported(format!("`{id}` is not spelled out as a schedule for this shape"))
        })
    }
}

/// What an algorithm's name says that it is for.
fn collective_of(name: &str) -> Result<Collective> {
    if name.starts_with("barrier_") {
        return Ok(Collective::Barrier);
    }
    if name == "p2p" {
        return Ok(Collective::SendRecv);
    }
    let found = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
    found.map(|&(_, collective)| collective).ok_or_else(|| {
        Error::input(format!("`{name}` does not say what it is for"))
            .mend("give a `primitive`, such as allreduce")
    })
}
