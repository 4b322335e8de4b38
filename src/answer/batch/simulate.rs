//! Kind `simulate`: the inputs of a table of simulated schedules, answered by its outputs.

use std::borrow::Cow;
use std::num::NonZeroU32;

use super::Batch;
use super::answer::number;
use super::question::{self, Question, Value, needed, rate, time};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Seconds};
use crate::cost::simulate::{Setup, simulate};
use crate::machine::fabric::{Fabric, Tier};
use crate::model::schedule::{Schedule, turns};

/// The endings with which such tables name the collective of an algorithm.
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

/// The maximum number of ranks of a schedule: some take long to build.
const MOST_RANKS: u32 = 1 << 20;

/// The maximum number of turns per answer; in a turn one endpoint is asked what it sends in a
/// round.
const MOST_TURNS: u64 = 1 << 27;

impl Batch {
    /// The schedule that a question of kind `simulate` is about.
    ///
    /// # Errors
    /// The fault in the question, or the reason why there is no such schedule.
    pub fn schedule(&mut self, line: &str) -> Result<Box<dyn Schedule>> {
        let question = question::parse(line)?.unfolded()?;
        self.spelled_out(&question)
    }

    /// Kind `simulate`: the time of the messages, and their bytes.
    pub(super) fn simulate(&mut self, q: Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let q = q.unfolded()?;
        let schedule = self.spelled_out(&q)?;
        let fabric = q.fabric()?;
        let mode = q.mode.as_deref().unwrap_or("flow").parse()?;
        let outcome = simulate(&*schedule, &fabric, &Setup::new(q.size()?).in_mode(mode))?;
        number(out, "makespan_s", outcome.makespan.0)?;
        number(out, "max_sent_bytes", outcome.max_sent.0)?;
        number(out, "max_recv_bytes", outcome.max_received.0)?;
        number(out, "total_bytes", outcome.total.0)?;
        number(out, "messages", outcome.messages as f64)?;
        number(out, "max_messages_per_rank", outcome.max_messages as f64)?;
        number(out, "rounds", outcome.rounds as f64)?;
        Ok(())
    }

    pub(super) fn spelled_out(&mut self, q: &Question<'_>) -> Result<Box<dyn Schedule>> {
        let name = q.algorithm()?;
        let collective = match q.collective()? {
            Some(collective) => collective,
            None => collective_of(needed(&q.algorithm, "algorithm")?)?,
        };
        let named = self.find(collective, &name)?;
        let shape = q.shape(collective)?;
        if shape.ranks > MOST_RANKS {
            return Err(Error::input(format!("a schedule of {} ranks is too large", shape.ranks))
                .help(format!("ask for at most {MOST_RANKS}")));
        }
        super::answer::applies(named, &shape)?;
        let schedule = named.algorithm.schedule(&shape).ok_or_else(|| {
            let id = named.algorithm.meta().id;
            Error::unsupported(format!("`{id}` has no explicit schedule for these ranks"))
        })?;
        // If every rank does the same, one represents all.
        let frame = schedule.frame();
        let asked = if frame.turns { frame.rounds } else { turns(&*schedule) };
        if asked > MOST_TURNS {
            return Err(Error::input(format!(
                "{} ranks through {} rounds are too many for a question of a batch",
                frame.ranks, frame.rounds
            ))
            .help("ask for fewer ranks or segments, or run collcost simulate"));
        }
        Ok(schedule)
    }
}

impl Question<'_> {
    /// The links of a table of simulations: the same everywhere, or different inside nodes of G
    /// ranks, with one NIC per rank.
    fn fabric(&self) -> Result<Fabric> {
        let ports = self.ports()?;
        let tier =
            |name, alpha: Seconds, rate: Bandwidth| Tier { ports, ..Tier::new(name, alpha, rate) };
        let outer = tier("link", self.alpha()?, self.bandwidth()?);
        let given = |value: &Option<Value<'_>>| {
            !matches!(value, None | Some(Value::Text(Cow::Borrowed(""))))
        };
        if !given(&self.alpha_intra_s) {
            return Ok(Fabric::new(vec![outer]));
        }
        let alpha = time(&self.alpha_intra_s, "intra_alpha_s")?;
        let inner = tier("inside", alpha, rate(&self.bw_intra, "intra_bw_Bps")?);
        let span = self.gpus_per_node.as_ref().map(|g| g.whole("G", 1)).transpose()?;
        let inner = Tier { span: span.and_then(NonZeroU32::new), ..inner };
        Ok(Fabric::new(vec![inner, outer]))
    }
}

/// The collective that an algorithm's name ends with.
fn collective_of(name: &str) -> Result<Collective> {
    if name.starts_with("barrier_") {
        return Ok(Collective::Barrier);
    }
    if name == "p2p" {
        return Ok(Collective::SendRecv);
    }
    let found = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
    found.map(|&(_, collective)| collective).ok_or_else(|| {
        Error::input(format!("`{name}` does not name its collective"))
            .help("give a `primitive`, such as allreduce")
    })
}
