//! The causes of the gaps between closed form, simulation and bound, in sentences.

use super::{Ask, ModeView, Plan, without_launch};
use crate::answer::cost::Promise;
use crate::answer::without_gamma;
use crate::base::error::Result;
use crate::base::quantity::Seconds;
use crate::cost::bound::Bound;
use crate::cost::simulate::listen::Path;
use crate::cost::simulate::{Mode, Setup, Trouble, simulate as time};
use crate::machine::fabric::{Discipline, Fabric};
use crate::machine::link::Link;
use crate::machine::query::Query;
use crate::model::algorithm::Guarantee;

/// The inputs of the sentences about the gaps.
pub(super) struct Facts<'a> {
    pub query: &'a Query,
    pub plan: &'a Plan,
    pub ask: &'a Ask,
    pub detailed: Mode,
    pub makespans: &'a [(Mode, Seconds)],
    pub bound: &'a Bound,
    pub path: Option<&'a Path>,
}

/// The largest relative difference of two times that count as equal.
const SAME: f64 = 1e-9;

fn is_more(a: Seconds, b: Seconds) -> bool {
    a.0 > b.0 * (1.0 + SAME)
}

/// `12.3 µs (4.5 %)`: the difference, absolute and relative.
fn difference(more: Seconds, less: Seconds) -> String {
    let gap = more - less;
    match less.0 > 0.0 {
        true => format!("{gap} ({:.1} %)", 100.0 * (gap / less).0),
        false => gap.to_string(),
    }
}

impl Facts<'_> {
    pub fn mode(&self, mode: Mode, makespan: Seconds) -> ModeView {
        let over = |time: Seconds| (time.0 > 0.0).then(|| (makespan / time).0);
        ModeView {
            mode,
            makespan_s: makespan.0,
            form_ratio: self.form().and_then(over),
            bound_ratio: over(self.bound.time()),
        }
    }

    fn form(&self) -> Option<Seconds> {
        self.plan.form.as_ref().map(|(price, _)| without_launch(price))
    }

    fn makespan(&self, mode: Mode) -> Option<Seconds> {
        self.makespans.iter().find(|(m, _)| *m == mode).map(|(_, time)| *time)
    }

    /// From the closed form, step by step, to the simulated time, and down to the bound.
    pub fn gaps(&self, setup: &Setup) -> Result<Vec<String>> {
        let mut gaps = Vec::new();
        let schedule = &*self.plan.schedule;
        let fabric = &self.query.machine.fabric;
        // An undisturbed machine whose ports take turns: the case that the closed form describes.
        let sound = Setup { trouble: Trouble::default(), ..setup.clone() };
        let turns = taking_turns(fabric, Link::ideal);
        let measured =
            taking_turns(fabric, |link| Link { knots: link.knots.clone(), ..link.ideal() });
        let bends = measured != turns;
        let shares = measured != *fabric;
        let troubled = !self.ask.trouble.is_none();
        let plain = sound.clone().in_mode(Mode::Flow);
        let base = match (bends || shares || troubled, self.makespan(Mode::Flow)) {
            (false, Some(time)) => Ok(time),
            _ => time(schedule, &turns, &plain).map(|outcome| outcome.makespan),
        };
        if let Ok(base) = base {
            gaps.extend(self.form_gap(base).map(|gap| match shares {
                true => format!("where ports take turns, {gap}"),
                false => gap,
            }));
        }
        gaps.extend(self.mode_gaps());
        let mut now = match (self.detailed == Mode::Flow, &base) {
            (true, _) => base?,
            (false, base) => {
                let serial = time(schedule, &turns, &sound)?.makespan;
                gaps.push(match base {
                    Ok(base) => step("waiting for rounds to end", *base, serial),
                    // Its events may need more memory than rounds do.
                    Err(e) => format!("mode flow is not compared: {}", e.what()),
                });
                serial
            }
        };
        if bends {
            let next = time(schedule, &measured, &sound)?.makespan;
            let much =
                if is_more(next, now) { difference(next, now) } else { difference(now, next) };
            let more = if is_more(next, now) { "more" } else { "less" };
            gaps.push(format!(
                "messages that take the time measured for their size: {much} {more}"
            ));
            now = next;
        }
        if shares {
            let next = time(schedule, fabric, &sound)?.makespan;
            gaps.push(step("ports that share their rate or are not full duplex", now, next));
            now = next;
        }
        if troubled {
            let next = match self.makespan(setup.mode) {
                Some(known) => known,
                None => time(schedule, fabric, setup)?.makespan,
            };
            gaps.push(step("late starts, slow ranks, slow links", now, next));
            now = next;
        }
        gaps.extend(self.bound_gap(now));
        Ok(gaps)
    }

    /// The closed form compared with mode flow on an undisturbed machine.
    fn form_gap(&self, base: Seconds) -> Option<String> {
        let (form, (_, guarantee)) = (self.form()?, self.plan.form.as_ref()?);
        let tiered = self.query.machine.fabric.depth(self.query.shape.ranks).ok()? > 1;
        let (fabric, shape) = (&self.query.machine.fabric, &self.query.shape);
        let is_limit = Promise::on(*guarantee, shape, fabric) == Promise::UpperBound;
        let sync = self.makespan(Mode::Sync).filter(|_| self.ask.trouble.is_none());
        let in_rounds = *guarantee == Guarantee::EqualInRounds
            && sync.is_some_and(|sync| !is_more(sync, form) && !is_more(form, sync));
        Some(if is_more(form, base) {
            let gap = difference(form, base);
            match guarantee {
                Guarantee::UpperBound if is_limit => {
                    format!("the closed form is an upper bound, {gap} above mode flow")
                }
                Guarantee::Asymptotic => {
                    format!(
                        "the closed form is the limit for large vectors in many segments, {gap} above mode flow"
                    )
                }
                Guarantee::EqualInRounds if in_rounds => format!(
                    "the closed form is the time in mode sync, {gap} above mode flow: data that \
                     run ahead of the rounds save that time"
                ),
                Guarantee::Pipelined => format!(
                    "the closed form is {gap} above mode flow: segments run ahead where a port \
                     waits"
                ),
                _ if tiered => format!(
                    "the closed form is {gap} above mode flow: it adds up steps, each on the \
                     outermost tier that it crosses, while here ranks inside a node run ahead of \
                     those that wait for the network"
                ),
                _ => format!(
                    "the closed form is {gap} above mode flow: more messages are under way at \
                     once than its steps have"
                ),
            }
        } else if is_more(base, form) {
            let gap = difference(base, form);
            match guarantee {
                Guarantee::Asymptotic => {
                    format!(
                        "the closed form is the limit for large vectors in many segments; mode flow, of one, takes {gap} \
                         more"
                    )
                }
                Guarantee::EqualInRounds if in_rounds => format!(
                    "the closed form is the time in mode sync; mode flow takes {gap} more, since \
                     what runs ahead holds ports that others need"
                ),
                Guarantee::Pipelined => format!(
                    "mode flow takes {gap} more than the closed form: segments that come back to \
                     a port wait for those under way there, once in the pipeline"
                ),
                _ if tiered => format!(
                    "mode flow takes {gap} more than the closed form: messages of several steps \
                     meet at ports and NICs; the path says where they wait{}",
                    match self.query.machine.fabric.shares_nics(self.query.shape.ranks) {
                        true =>
                            ". A message also holds a NIC that ranks share for its α, which the \
                                 closed form counts once per step",
                        false => "",
                    }
                ),
                _ => format!(
                    "mode flow takes {gap} more than the closed form: where several messages could \
                     start, the first in the schedule goes first, which is not the best order here"
                ),
            }
        } else if self.ask.trouble.is_none() {
            "the closed form is the time in mode flow: data and ports alone decide".to_owned()
        } else {
            "the closed form is the time in mode flow of a machine where nothing is slow or late"
                .to_owned()
        })
    }

    /// The modes compared with each other.
    fn mode_gaps(&self) -> Vec<String> {
        let times = Mode::ALL.map(|mode| self.makespan(mode));
        let [Some(sync), Some(local), Some(flow)] = times else { return Vec::new() };
        let mut gaps = Vec::new();
        if is_more(sync, local) {
            let gap = difference(sync, local);
            gaps.push(format!(
                "sync takes {gap} more than local: all ranks wait for the last of each round"
            ));
        }
        if is_more(local, flow) {
            let gap = difference(local, flow);
            gaps.push(format!(
                "local takes {gap} more than flow: a rank ends a round before it begins the next, \
                 even if the data for the next is there"
            ));
        }
        if is_more(flow, local) {
            let gap = difference(flow, local);
            gaps.push(format!(
                "flow takes {gap} more than local: messages that run ahead take ports, or a share \
                 of them, from others that are more urgent"
            ));
        }
        if gaps.is_empty() {
            gaps.push(
                "all modes agree: waiting for a round's last message costs nothing".to_owned(),
            );
        }
        gaps
    }

    /// The time compared with the lower bound, and the term that makes the difference.
    fn bound_gap(&self, makespan: Seconds) -> Option<String> {
        let least = self.bound.time();
        if least.0 <= 0.0 {
            return None;
        }
        if is_more(least, makespan) {
            return Some(format!(
                "{} is {} below the lower bound, which lets a port start one message at a time: here \
                 messages share it",
                self.detailed,
                difference(least, makespan)
            ));
        }
        if !is_more(makespan, least) {
            return Some("the lower bound is met: nothing is faster on this machine".to_owned());
        }
        let Bound { latency, bandwidth, compute } = *self.bound;
        let (name, _) = [("latency", latency), ("data", bandwidth), ("additions", compute)]
            .into_iter()
            .max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        let mut text = format!(
            "{} is {:.2} times the lower bound, which counts {name} alone",
            self.detailed,
            makespan / least
        );
        if let Some(path) = self.path {
            let terms = [
                ("latency", path.latency, latency),
                ("data", path.data, bandwidth),
                ("additions", path.addition, compute),
            ];
            let over = terms.into_iter().filter(|(_, path, least)| is_more(*path, *least));
            let over: Vec<String> = over
                .map(|(name, path, least)| format!("{path} of {name}, at least {least}"))
                .collect();
            if !over.is_empty() {
                text.push_str("; its path has ");
                text.push_str(&over.join(", "));
            }
        }
        Some(text)
    }

    pub fn notes(&self, too_many: bool) -> Vec<String> {
        let mut notes = Vec::new();
        let (machine, shape) = (&self.query.machine, &self.query.shape);
        if machine.fabric.launch.0 > 0.0 {
            notes.push(format!(
                "none of these times includes the launch, {} per call",
                machine.fabric.launch
            ));
        }
        notes.extend(without_gamma(&machine.fabric, shape.collective));
        notes.extend(self.plan.stands_in.clone());
        if too_many {
            notes.push(format!(
                "more than {} messages: no path, utilisation or traffic is kept{}",
                self.ask.most_messages(),
                if self.ask.details { "" } else { "; --details keeps them" }
            ));
        }
        notes
    }
}

/// One cause, as the time that it adds or saves.
fn step(cause: &str, before: Seconds, after: Seconds) -> String {
    if is_more(after, before) {
        format!("{cause}: {} more", difference(after, before))
    } else if is_more(before, after) {
        format!("{cause}: {} less, since other messages go first", difference(before, after))
    } else {
        format!("{cause}: no difference, since no message waits for those they delay")
    }
}

/// The machine with ports that take turns, and with only those properties of its links that `kept`
/// keeps.
fn taking_turns(fabric: &Fabric, kept: impl Fn(&Link) -> Link) -> Fabric {
    let mut fabric = fabric.clone();
    for tier in &mut fabric.tiers {
        tier.discipline = Discipline::Serial;
        tier.link = kept(&tier.link);
    }
    fabric
}
