//! A simulated schedule: its time in each mode, next to its closed form and the lower bound, why it
//! takes that time, and what causes the gaps.
//!
//! ```text
//!                        time  x form  x bound
//!                          µs
//! sync                  415.8     1.0      2.3
//! flow                  415.8     1.0      2.3
//! closed form, equal    415.8
//! lower bound           180.4
//!
//! path   126 messages, 100 % latency; waited for data 125 times
//! ```
//!
//! No time here includes the launch of the call, which comes before the first message.

mod gaps;

use serde::Serialize;

use super::End;
use super::cost::{MachineView, Promise, QuestionView, machine, question};
use crate::base::error::{Error, Result};
use crate::base::order::falling;
use crate::base::quantity::{Seconds, Volume};
use crate::cost::bound::bound;
use crate::cost::price::Price;
use crate::cost::simulate::listen::{
    Amount, CriticalPath, Hop, Link, MESSAGE, Path, Share, Traffic, Utilisation, Wait,
};
use crate::cost::simulate::{
    Listener, MEMORY, Mode, Outcome, Setup, Timed, Trouble, simulate as time, simulate_with,
};
use crate::exchange::import::Foreign;
use crate::machine::fabric::{Fabric, Tier};
use crate::machine::query::Query;
use crate::measure::schedule_of::ScheduleOf;
use crate::model::algorithm::Guarantee;
use crate::model::schedule::{Endpoint, Op, Schedule, Sends, verify};
use gaps::Facts;

/// A schedule with the times of its messages.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Simulation {
    /// `collcost/simulate/1`.
    pub schema: &'static str,
    /// The question.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// The schedule.
    pub schedule: ScheduleView,
    /// Its time in each mode, without the launch.
    pub modes: Vec<ModeView>,
    /// The time by its closed form; absent for a schedule from a file.
    pub closed_form: Option<FormView>,
    /// The lower bound for any algorithm, without the launch.
    pub bound: BoundView,
    /// The mode to which the path, the utilisation and the traffic belong.
    pub detailed_mode: Mode,
    /// What each message waited for, from the last one back; absent if there are too many.
    pub critical_path: Option<PathView>,
    /// The share of the time in which ports are busy, tier by tier.
    pub utilisation: Vec<UtilisationView>,
    /// Data and messages, tier by tier; those through switches last.
    pub traffic: Vec<TrafficView>,
    /// Directed links in use.
    pub links: Option<u64>,
    /// The ten links with the most traffic.
    pub busiest_links: Vec<LinkView>,
    /// The causes of the differences between these times.
    pub gaps: Vec<String>,
    /// What to know before trusting a number.
    pub notes: Vec<String>,
}

/// The schedule.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleView {
    /// The algorithm's id; absent for a schedule from a file.
    pub algorithm: Option<&'static str>,
    /// The algorithm's name in a table, or the file.
    pub title: String,
    /// P, if it is pipelined.
    pub segments: Option<u32>,
    /// The rank that has or gets the data.
    pub root: u32,
    /// The number of rounds with messages.
    pub rounds: u64,
    /// The total number of messages.
    pub messages: u64,
    /// The data that all ranks and switches send together.
    pub total_bytes: f64,
    /// The data that the busiest rank sends.
    pub max_sent_bytes: f64,
    /// The data that the busiest rank receives.
    pub max_received_bytes: f64,
    /// The number of messages that the busiest rank sends.
    pub max_messages: u64,
}

/// The time of a schedule in one mode.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModeView {
    /// `sync`, `local` or `flow`.
    pub mode: Mode,
    /// When the last message ended.
    pub makespan_s: f64,
    /// That divided by the closed form's time.
    pub form_ratio: Option<f64>,
    /// That divided by the lower bound.
    pub bound_ratio: Option<f64>,
}

/// The time by a closed form, term by term.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormView {
    /// All terms except the launch.
    pub time_s: f64,
    /// `equal`: it is the time in mode flow; `equal-in-rounds`: that in mode sync; `upper-bound`: it
    /// is at least one of them; `asymptotic`: the ratio of both tends to 1 for large vectors;
    /// `sum-of-steps`: neither is proven on these links.
    pub guarantee: Promise,
    /// n_α·α.
    pub latency_s: f64,
    /// n_β·M/BW.
    pub bandwidth_s: f64,
    /// n_γ·M·γ; absent if γ is unknown.
    pub compute_s: Option<f64>,
}

/// Three bounds, each valid on its own.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundView {
    /// The largest of them.
    pub time_s: f64,
    /// Messages one after another.
    pub latency_s: f64,
    /// Data through the narrowest cut.
    pub bandwidth_s: f64,
    /// Additions at the busiest rank.
    pub compute_s: f64,
}

/// The critical path.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathView {
    /// The time before its first message, because a rank started late.
    pub idle_s: f64,
    /// The latencies along it.
    pub latency_s: f64,
    /// The data along it, including the delay from sharing a port.
    pub bandwidth_s: f64,
    /// The additions along it.
    pub compute_s: f64,
    /// How often its messages waited for each cause, the most frequent first.
    pub waits: Vec<WaitView>,
    /// Its messages, in order.
    pub hops: Vec<HopView>,
}

/// How often messages waited for something.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitView {
    /// `data`, `send-port`, `receive-port`, `link`, `nic`, `rounds` (of its own ranks), `barrier`
    /// or `start` (of a rank).
    pub waited_for: Wait,
    /// The number of messages.
    pub messages: u64,
}

/// One message of the critical path.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopView {
    /// The round.
    pub round: u64,
    /// The sender.
    pub from: End,
    /// The receiver.
    pub to: End,
    /// `copy`, `reduce` or `or`.
    pub op: Op,
    /// The amount of data.
    pub bytes: f64,
    /// The tier that it crosses; absent through a switch.
    pub tier: Option<String>,
    /// When it started.
    pub start_s: f64,
    /// When it ended, or, through a switch, was forwarded.
    pub end_s: f64,
    /// What it waited for; `nothing` at the start of the whole.
    pub waited_for: Wait,
}

/// The share of the time in which the ports of one tier are busy, over all ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UtilisationView {
    /// The tier's name.
    pub tier: String,
    /// The sending ports.
    pub send: ShareView,
    /// The receiving ports.
    pub receive: ShareView,
}

/// A share of the time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareView {
    /// On average over the ranks.
    pub mean: f64,
    /// At the least busy rank.
    pub least: f64,
    /// At the busiest rank.
    pub most: f64,
    /// The first of the busiest ranks.
    pub busiest_rank: u32,
}

/// The traffic on one tier.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficView {
    /// The tier's name, or `switches`.
    pub tier: String,
    /// Data.
    pub bytes: f64,
    /// Messages.
    pub messages: u64,
}

/// The traffic from one endpoint to another.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkView {
    /// The sender.
    pub from: End,
    /// The receiver.
    pub to: End,
    /// Data.
    pub bytes: f64,
    /// Messages.
    pub messages: u64,
}

/// The schedule to simulate: an algorithm as an explicit schedule, or the contents of a file.
pub struct Plan {
    schedule: Box<dyn Schedule>,
    title: String,
    algorithm: Option<&'static str>,
    segments: Option<u32>,
    form: Option<(Price, Guarantee)>,
    stands_in: Option<String>,
}

/// How it is simulated.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// The mode; absent: all of them, and the details of mode flow.
    pub mode: Option<Mode>,
    /// The disturbances.
    pub trouble: Trouble,
    /// Whether path, utilisation and traffic are kept regardless of the number of messages, as far
    /// as memory allows.
    pub details: bool,
}

impl Ask {
    /// The maximum number of messages whose details are kept.
    fn most_messages(&self) -> u64 {
        // A larger number takes more memory than a simulation may use.
        if self.details { MEMORY / (MESSAGE + 64) } else { MOST_MESSAGES }
    }
}

impl From<ScheduleOf> for Plan {
    fn from(spelled: ScheduleOf) -> Self {
        let stands_in = spelled.stands_in();
        let ScheduleOf { algorithm, shape, price, schedule, .. } = spelled;
        let meta = algorithm.meta();
        Self {
            schedule,
            title: meta.title.to_owned(),
            algorithm: Some(meta.id),
            segments: algorithm.is_pipelined().then_some(price.segments),
            form: Some((price, algorithm.guarantee(&shape))),
            stands_in,
        }
    }
}

impl Plan {
    /// The schedule in `file`.
    ///
    /// # Errors
    /// It does not do what its collective promises.
    pub fn foreign(foreign: Foreign, file: &str) -> Result<Self> {
        verify(&foreign.list).map_err(|fault| {
            let line = foreign.line_of(&fault).map_or(String::new(), |line| format!(":{line}"));
            Error::input(format!("the schedule is wrong: {fault}"))
                .at(format!("{file}{line}"))
                .help(format!("collcost verify --schedule {file} checks only the schedule"))
        })?;
        Ok(Self {
            schedule: Box::new(foreign.list),
            title: file.to_owned(),
            algorithm: None,
            segments: None,
            form: None,
            stands_in: None,
        })
    }
}

/// The maximum number of receivers that an error names.
const RECEIVERS: usize = 8;

/// Refuses a link that carries no messages: slowing it changes no time, which would look like good
/// news.
fn refuse_unused(schedule: &dyn Schedule, from: u32, to: u32) -> Result<()> {
    let mut sends = Sends::default();
    let mut receivers: Vec<u32> = Vec::new();
    for round in 0..schedule.rounds() {
        sends.clear();
        schedule.sends(round, Endpoint::Rank(from), &mut sends);
        let ranks = sends.iter().filter_map(|transfer| match transfer.to {
            Endpoint::Rank(rank) => Some(rank),
            Endpoint::Switch(_) => None,
        });
        for rank in ranks {
            if rank == to {
                return Ok(());
            }
            if receivers.len() < RECEIVERS && !receivers.contains(&rank) {
                receivers.push(rank);
            }
        }
    }
    let named: Vec<String> = receivers.iter().map(u32::to_string).collect();
    let help = match named.is_empty() {
        true => format!("{from} sends to no rank: name a link that is used"),
        false => format!("{from} sends to {}", named.join(", ")),
    };
    Err(Error::input(format!("no message goes from rank {from} to rank {to}"))
        .at(format!("slow link {from}-{to}"))
        .help(help))
}

/// Simulates `plan` for the question.
///
/// # Errors
/// As [`simulate`](crate::cost::simulate::simulate).
pub fn simulate(query: &Query, plan: &Plan, ask: &Ask) -> Result<Simulation> {
    let fabric = &query.machine.fabric;
    let size = Volume::from(query.size);
    let setup = |mode| Setup { trouble: ask.trouble.clone(), ..Setup::of(query).in_mode(mode) };
    let (shape, schedule) = (query.shape, &*plan.schedule);
    let detailed = ask.mode.unwrap_or(Mode::Flow);
    // All modes send the same messages.
    let outcome = time(schedule, fabric, &setup(detailed))?;
    // Not before: a schedule too large to simulate is too large to search.
    for &(from, to, _) in &ask.trouble.slow_links {
        refuse_unused(schedule, from, to)?;
    }
    let mut makespans = Vec::new();
    for mode in Mode::ALL.into_iter().filter(|&mode| ask.mode.is_none_or(|asked| asked == mode)) {
        let makespan = match mode == detailed {
            true => outcome.makespan,
            false => time(schedule, fabric, &setup(mode))?.makespan,
        };
        makespans.push((mode, makespan));
    }
    let least = bound(&shape, size, fabric)?;
    let form =
        plan.form.as_ref().map(|(price, proven)| form(price, Promise::on(*proven, &shape, fabric)));
    let details = match outcome.messages <= ask.most_messages() {
        true => Some(Details::new(schedule, fabric, &setup(detailed))?),
        false => None,
    };
    let facts = Facts {
        query,
        plan,
        ask,
        detailed,
        makespans: &makespans,
        bound: &least,
        path: details.as_ref().map(|d| &d.path),
    };
    Ok(Simulation {
        schema: "collcost/simulate/1",
        question: question(query),
        machine: machine(&query.machine),
        schedule: plan.view(&outcome),
        modes: makespans.iter().map(|&(mode, t)| facts.mode(mode, t)).collect(),
        gaps: facts.gaps(&setup(detailed))?,
        notes: facts.notes(details.is_none()),
        closed_form: form,
        bound: BoundView {
            time_s: least.time().0,
            latency_s: least.latency.0,
            bandwidth_s: least.bandwidth.0,
            compute_s: least.compute.0,
        },
        detailed_mode: detailed,
        critical_path: details.as_ref().map(|d| path(&d.path, fabric)),
        utilisation: details.as_ref().map_or_else(Vec::new, |d| d.shares(fabric)),
        traffic: details.as_ref().map_or_else(Vec::new, |d| d.traffic(fabric)),
        links: details.as_ref().map(|d| d.traffic.links().len() as u64),
        busiest_links: details.as_ref().map_or_else(Vec::new, |d| d.busiest()),
    })
}

/// The maximum number of messages whose details are kept by default: recording more would take
/// longer than simulating them.
const MOST_MESSAGES: u64 = 1 << 18;

/// The number of links that a report names.
const BUSIEST: usize = 10;

impl Plan {
    /// The simulated schedule, in a few words.
    #[must_use]
    pub fn asked(&self) -> String {
        format!("{}, {} ranks", self.name(), self.schedule.ranks())
    }

    /// The collective, and the algorithm or the file.
    pub(super) fn name(&self) -> String {
        let collective = self.schedule.collective().id();
        format!("{collective} {}", self.algorithm.unwrap_or(&self.title))
    }

    pub(super) fn schedule(&self) -> &dyn Schedule {
        &*self.schedule
    }

    pub(super) fn title(&self) -> &str {
        &self.title
    }

    fn view(&self, outcome: &Outcome) -> ScheduleView {
        ScheduleView {
            algorithm: self.algorithm,
            title: self.title.clone(),
            segments: self.segments,
            root: self.schedule.root(),
            rounds: outcome.rounds,
            messages: outcome.messages,
            total_bytes: outcome.total.0,
            max_sent_bytes: outcome.max_sent.0,
            max_received_bytes: outcome.max_received.0,
            max_messages: outcome.max_messages,
        }
    }
}

fn form(price: &Price, guarantee: Promise) -> FormView {
    FormView {
        time_s: without_launch(price).0,
        guarantee,
        latency_s: price.latency.0,
        bandwidth_s: price.bandwidth.0,
        compute_s: price.compute.map(|c| c.0),
    }
}

fn without_launch(price: &Price) -> Seconds {
    price.latency + price.bandwidth + price.compute.unwrap_or_default()
}

/// What listeners recorded in one mode.
struct Details {
    makespan: Seconds,
    path: Path,
    utilisation: Utilisation,
    traffic: Traffic,
}

impl Details {
    fn new(schedule: &dyn Schedule, fabric: &Fabric, setup: &Setup) -> Result<Self> {
        let mut critical = CriticalPath::new(schedule, fabric, setup)?;
        let mut utilisation = Utilisation::new(schedule, fabric)?;
        let mut traffic = Traffic::default();
        let mut all = |message: &Timed<'_>| {
            critical.message(message);
            utilisation.message(message);
            traffic.message(message);
        };
        let makespan = simulate_with(schedule, fabric, setup, &mut all)?.makespan;
        Ok(Self { makespan, path: critical.path(), utilisation, traffic })
    }

    fn shares(&self, fabric: &Fabric) -> Vec<UtilisationView> {
        let one = |(index, tier): (usize, &Tier)| {
            let shares = self.utilisation.shares(index, self.makespan)?;
            let (send, receive) = (share(shares.send), share(shares.receive));
            Some(UtilisationView { tier: tier.name.clone(), send, receive })
        };
        fabric.tiers.iter().enumerate().filter_map(one).collect()
    }

    fn traffic(&self, fabric: &Fabric) -> Vec<TrafficView> {
        let tiers = fabric.tiers.iter().enumerate();
        let tiers = tiers.map(|(i, tier)| (tier.name.as_str(), self.traffic.tier(i)));
        tiers
            .chain([("switches", self.traffic.switched())])
            .filter(|(_, Amount { messages, .. })| *messages > 0)
            .map(|(tier, Amount { bytes, messages })| TrafficView {
                tier: tier.to_owned(),
                bytes: bytes.0,
                messages,
            })
            .collect()
    }

    fn busiest(&self) -> Vec<LinkView> {
        let mut links = self.traffic.links();
        falling(&mut links, |a| a.amount.bytes.0);
        let view = |link: &Link| LinkView {
            from: link.from.into(),
            to: link.to.into(),
            bytes: link.amount.bytes.0,
            messages: link.amount.messages,
        };
        links.iter().take(BUSIEST).map(view).collect()
    }
}

fn share(share: Share) -> ShareView {
    let Share { mean, least, most, busiest } = share;
    ShareView { mean: mean.0, least: least.0, most: most.0, busiest_rank: busiest }
}

fn path(path: &Path, fabric: &Fabric) -> PathView {
    let hop = |hop: &Hop| HopView {
        round: hop.round,
        from: hop.from.into(),
        to: hop.to.into(),
        op: hop.op,
        bytes: hop.bytes.0,
        tier: hop.tier.map(|tier| fabric.tiers[tier].name.clone()),
        start_s: hop.start.0,
        end_s: hop.end.0,
        waited_for: hop.waited,
    };
    let mut waits: Vec<WaitView> = Vec::new();
    for hop in path.hops.iter().filter(|hop| hop.waited != Wait::Nothing) {
        match waits.iter_mut().find(|wait| wait.waited_for == hop.waited) {
            Some(wait) => wait.messages += 1,
            None => waits.push(WaitView { waited_for: hop.waited, messages: 1 }),
        }
    }
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.messages));
    PathView {
        idle_s: path.idle.0,
        latency_s: path.latency.0,
        bandwidth_s: path.data.0,
        compute_s: path.addition.0,
        waits,
        hops: path.hops.iter().map(hop).collect(),
    }
}
