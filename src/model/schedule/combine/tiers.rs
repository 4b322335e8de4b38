//! Schedules inside domains and between them, combined into one for all ranks.

use crate::base::collective::Collective;
use crate::model::schedule::{Endpoint, Frame, Layout, Run, Schedule, Sends};

/// Phases inside every domain of G ranks and between the domains, one after the other.
///
/// ```text
///   rank = domain·G + local      domain 0      domain 1
///   inside                       0 ◄─► 1       2 ◄─► 3
///   between                      0 ◄─────────► 2     and at the same time 1 ◄─────────► 3
/// ```
///
/// Between the domains equal local ranks run the schedule on the chunks that each then has, or only
/// leaders run it on all chunks. Every chunk c of a phase inside is cut into those of the phases
/// between: its chunk k is chunk c·(chunks between) + k. Each domain has the switches of a phase
/// inside, each local rank those of a phase between.
pub struct Tiers {
    collective: Collective,
    phases: Vec<(Tier, Box<dyn Schedule>)>,
    inside: Measures,
    between: Measures,
    /// By local rank, the inside chunks that it sends across.
    crossing: Vec<Vec<Run>>,
}

/// Where a phase runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Inside every domain.
    Inside,
    /// Between the domains.
    Between,
}

/// The data that cross between domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Crossing {
    /// Every local rank sends the chunks that it owns inside.
    Shards,
    /// Local rank 0 sends all.
    Leaders,
}

/// The common properties of the phases of one tier.
#[derive(Debug, Clone, Copy)]
struct Measures {
    ranks: u32,
    parts: u32,
    switches: u32,
}

impl Measures {
    /// Those of the phases of `tier`; without any phase, those of a single rank.
    fn of(tier: Tier, phases: &[(Tier, Box<dyn Schedule>)]) -> Self {
        let single = Self { ranks: 1, parts: 1, switches: 0 };
        let frames = phases.iter().filter(|phase| phase.0 == tier).map(|phase| phase.1.frame());
        frames.fold(single, |Self { switches, .. }, frame| {
            debug_assert_eq!(frame.layout, Layout::Shared);
            Self { ranks: frame.ranks, parts: frame.parts, switches: switches.max(frame.switches) }
        })
    }
}

impl Tiers {
    /// `collective` as `phases`, one after the other. Those of a tier have the same ranks, chunks
    /// and owners, which [`verify`](crate::model::schedule::verify()) checks.
    #[must_use]
    pub fn new(
        collective: Collective,
        crossing: Crossing,
        phases: Vec<(Tier, Box<dyn Schedule>)>,
    ) -> Self {
        let inside = Measures::of(Tier::Inside, &phases);
        let between = Measures::of(Tier::Between, &phases);
        let mut tiers = Self { collective, phases, inside, between, crossing: Vec::new() };
        tiers.crossing = vec![Vec::new(); inside.ranks as usize];
        for chunk in 0..inside.parts {
            let local = match crossing {
                Crossing::Shards => tiers.owner_in(Tier::Inside, chunk),
                Crossing::Leaders => 0,
            };
            let Some(runs) = tiers.crossing.get_mut(local as usize) else { continue };
            match runs.last_mut() {
                Some(run) if run.start + run.len == chunk => run.len += 1,
                _ => runs.push(Run::one(chunk)),
            }
        }
        tiers
    }

    /// The owner of `chunk` among the ranks of one tier.
    fn owner_in(&self, tier: Tier, chunk: u32) -> u32 {
        let phase = self.phases.iter().find(|phase| phase.0 == tier);
        phase.map_or(0, |(_, schedule)| schedule.owner(chunk))
    }

    /// The domain or the local rank whose schedule includes `endpoint`, and its role there.
    fn part(&self, tier: Tier, endpoint: Endpoint) -> Option<(u32, Endpoint)> {
        let (group, inside, between) = (self.inside.ranks, self.inside.switches, self.between);
        Some(match (tier, endpoint) {
            (Tier::Inside, Endpoint::Rank(rank)) => (rank / group, Endpoint::Rank(rank % group)),
            (Tier::Between, Endpoint::Rank(rank)) => (rank % group, Endpoint::Rank(rank / group)),
            (Tier::Inside, Endpoint::Switch(switch)) => {
                let domain = switch.checked_div(inside).filter(|&d| d < between.ranks)?;
                (domain, Endpoint::Switch(switch % inside))
            }
            (Tier::Between, Endpoint::Switch(switch)) => {
                let switch = switch.checked_sub(inside * between.ranks)?;
                let local = switch.checked_div(between.switches)?;
                (local, Endpoint::Switch(switch % between.switches))
            }
        })
    }

    /// The endpoint with role `part` in the schedule of `place`, a domain or a local rank.
    fn actor(&self, tier: Tier, place: u32, part: Endpoint) -> Endpoint {
        let (group, inside, between) = (self.inside.ranks, self.inside.switches, self.between);
        match (tier, part) {
            (Tier::Inside, Endpoint::Rank(local)) => Endpoint::Rank(place * group + local),
            (Tier::Between, Endpoint::Rank(domain)) => Endpoint::Rank(domain * group + place),
            (Tier::Inside, Endpoint::Switch(switch)) => Endpoint::Switch(place * inside + switch),
            (Tier::Between, Endpoint::Switch(switch)) => {
                Endpoint::Switch(inside * between.ranks + place * between.switches + switch)
            }
        }
    }

    /// The chunks that `run` of a phase represents.
    fn whole(&self, tier: Tier, place: u32, run: Run) -> Vec<Run> {
        let parts = self.between.parts;
        let cut = |run: Run| Run { start: run.start * parts, len: run.len * parts };
        let taken = || self.crossing[place as usize].iter();
        match tier {
            Tier::Inside => vec![cut(run)],
            Tier::Between if run.len == parts => taken().map(|&all| cut(all)).collect(),
            Tier::Between => {
                let each = taken().flat_map(|all| all.chunks());
                each.map(|chunk| Run { start: chunk * parts + run.start, ..run }).collect()
            }
        }
    }
}

impl Schedule for Tiers {
    fn frame(&self) -> Frame {
        let Self { inside, between, .. } = *self;
        let rounds = self.phases.iter().map(|(_, phase)| phase.rounds()).sum();
        let ranks = inside.ranks * between.ranks;
        let parts = inside.parts.saturating_mul(between.parts);
        let mut adding = self.phases.iter().filter(|(_, phase)| phase.collective().reduces());
        Frame {
            switches: inside.switches * between.ranks + between.switches * inside.ranks,
            far_switches: between.switches * inside.ranks,
            // Domains are neighbours, added as wholes.
            keeps_order: adding.all(|(_, phase)| phase.frame().keeps_order),
            ..Frame::new(self.collective, ranks, parts, rounds)
        }
    }

    fn owner(&self, chunk: u32) -> u32 {
        let parts = self.between.parts.max(1);
        let local = self.owner_in(Tier::Inside, chunk / parts);
        self.owner_in(Tier::Between, chunk % parts) * self.inside.ranks + local
    }

    fn sends(&self, mut round: u64, from: Endpoint, out: &mut Sends) {
        for (tier, phase) in &self.phases {
            if round >= phase.rounds() {
                round -= phase.rounds();
                continue;
            }
            let Some((place, part)) = self.part(*tier, from) else { return };
            if *tier == Tier::Between && self.crossing[place as usize].is_empty() {
                return;
            }
            let mut plain = Sends::default();
            phase.sends(round, part, &mut plain);
            for message in plain.iter() {
                let to = self.actor(*tier, place, message.to);
                let runs = message.runs.iter().flat_map(|&run| self.whole(*tier, place, run));
                out.push(to, message.op, runs);
            }
            return;
        }
    }
}
