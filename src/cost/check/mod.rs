//! Tests an algorithm: its schedules are verified over ranks and parameters, and its closed form is
//! compared with the simulated time.

mod shapes;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Seconds, Volume};
use crate::cost::price::Prepared;
use crate::cost::simulate::{Mode, Setup, Simulator};
use crate::machine::fabric::{Fabric, Switch, Tier};
use crate::model::algorithm::{Algorithm, Guarantee};
use crate::model::formula::{Ports, Shape, Trees};
use crate::model::schedule::combine::Relabel;
use crate::model::schedule::{Fault, Layout, Schedule, messages, verify};
use shapes::Settings;

/// The result of testing one algorithm for one collective.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// Schedules verified: one per number of ranks, setting of the parameters, and root.
    pub schedules: u64,
    /// Messages in them.
    pub transfers: u64,
    /// The first schedule that does not implement its collective; without one, the first too large to verify.
    pub fault: Option<(Case, Fault)>,
    /// Comparisons of the closed form, by its guarantee.
    pub compared: Compared,
    /// The first closed form that violates its guarantee.
    pub broken: Option<Broken>,
}

/// Identifies a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// Ranks, ports and parameters.
    pub shape: Shape,
    /// The root.
    pub root: u32,
}

/// How many closed forms were compared with simulations, by their guarantee.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// Equal to the time of the schedule.
    pub equal: u64,
    /// Equal to the time with a barrier after every round.
    pub equal_in_rounds: u64,
    /// An upper bound of one of these times.
    pub upper_bound: u64,
    /// Equal in the limit, which is not checked.
    pub asymptotic: u64,
}

/// A closed form that violates its guarantee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Broken {
    /// Ranks, ports and parameters.
    pub shape: Shape,
    /// M/BW over α.
    pub size_over_alpha: f64,
    /// Its guarantee.
    pub guarantee: Guarantee,
    /// The value of the form, in α.
    pub form: Seconds,
    /// The simulated time.
    pub makespan: Seconds,
}

impl Trial {
    /// Whether no fault was found.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.fault.is_none() && self.broken.is_none()
    }
}

/// Tests `algorithm` over `ranks` and, if it is pipelined, `segments`, and all other parameters
/// that change its schedule, with rank 0 and the last rank as roots. Up to [`COMPARED`] ranks its
/// closed form is compared with the simulated time.
///
/// # Errors
/// A closed form that cannot be priced although it applies.
pub fn try_out(
    algorithm: &'static dyn Algorithm,
    collective: Collective,
    ranks: &[u32],
    segments: &[u32],
) -> Result<Trial> {
    let settings = Settings::new(algorithm, collective);
    let segments = if algorithm.is_pipelined() { segments } else { &[0] };
    let mut trial = Trial::default();
    let mut simulator = Simulator::default();
    for &n in ranks {
        for shape in settings.of(n) {
            for &p in segments {
                trial.one(&mut simulator, algorithm, shape.with_segments(p))?;
            }
        }
    }
    Ok(trial)
}

/// Closed forms are compared up to this many ranks: beyond, that takes longer than verifying.
pub const COMPARED: u32 = 17;

/// M/BW over α, for a message of a ring of eight: latency-bound and bandwidth-bound.
const SIZES: [f64; 2] = [0.5, 64.0];

impl Trial {
    fn one(
        &mut self,
        simulator: &mut Simulator,
        algorithm: &dyn Algorithm,
        shape: Shape,
    ) -> Result<()> {
        let Some(schedule) = algorithm.schedule(&shape) else { return Ok(()) };
        let transfers = messages(&*schedule, u64::MAX).unwrap_or(u64::MAX);
        let last = shape.ranks.saturating_sub(1);
        let moves = shape.collective.has_root() && schedule.frame().layout == Layout::Shared;
        self.check(&*schedule, shape, 0, transfers);
        if moves && last > 0 {
            self.check(&Relabel::new(&*schedule, last), shape, last, transfers);
        }
        // Closed forms cover only the coloured layout of trees.
        if shape.ranks <= COMPARED && shape.params.trees == Trees::default() {
            self.compare(simulator, algorithm, shape)?;
        }
        Ok(())
    }

    fn check(&mut self, schedule: &dyn Schedule, shape: Shape, root: u32, transfers: u64) {
        self.schedules += 1;
        self.transfers += transfers;
        let Err(fault) = verify(schedule) else { return };
        let known = self.fault.as_ref().map(|(_, known)| known.is_too_large());
        if known.is_none_or(|too_large| too_large && !fault.is_too_large()) {
            self.fault = Some((Case { shape, root }, fault));
        }
    }

    /// Compares the closed form with the simulated time under several kinds of ports.
    fn compare(
        &mut self,
        simulator: &mut Simulator,
        algorithm: &dyn Algorithm,
        shape: Shape,
    ) -> Result<()> {
        let [full, half] = [Ports::full(2), Ports::Half(std::num::NonZeroU32::MIN)];
        for ports in [shape.ports, full, half, Ports::Unbounded] {
            let shape = shape.with_ports(ports);
            if algorithm.applies(&shape).is_err() {
                continue;
            }
            let Some(schedule) = algorithm.schedule(&shape) else { continue };
            let guarantee = algorithm.guarantee(&shape);
            match guarantee {
                Guarantee::Equal => self.compared.equal += 1,
                Guarantee::EqualInRounds => self.compared.equal_in_rounds += 1,
                Guarantee::UpperBound | Guarantee::Pipelined => self.compared.upper_bound += 1,
                Guarantee::Asymptotic => {
                    self.compared.asymptotic += 1;
                    continue;
                }
            }
            let fabric = alike(ports);
            // A pipeline is compared with the bound that it states: some more segments of the same
            // size.
            let segments = shape.segments();
            let priced = match guarantee {
                Guarantee::Pipelined => segments + Guarantee::WAITS,
                _ => segments,
            };
            let asked = if priced == segments { shape } else { shape.with_segments(priced) };
            let prepared = Prepared::new(algorithm, &asked, &fabric)?;
            let longer = f64::from(priced) / f64::from(segments);
            for size in SIZES {
                let form = prepared.time(Volume(size * longer));
                let setup = Setup::new(Volume(size));
                let mut in_mode = |mode| -> Result<Seconds> {
                    let setup = setup.clone().in_mode(mode);
                    Ok(simulator.run(&*schedule, &fabric, &setup, None)?.makespan)
                };
                let makespan = match guarantee {
                    Guarantee::EqualInRounds => in_mode(Mode::Sync)?,
                    Guarantee::UpperBound => {
                        let [flow, sync] = [in_mode(Mode::Flow)?, in_mode(Mode::Sync)?];
                        Seconds(flow.0.min(sync.0))
                    }
                    _ => in_mode(Mode::Flow)?,
                };
                if !holds(guarantee, form, makespan) {
                    let size_over_alpha = size;
                    let broken = Broken { shape, size_over_alpha, guarantee, form, makespan };
                    self.broken.get_or_insert(broken);
                }
            }
        }
        Ok(())
    }
}

/// Equal links, with parameters of which no sum equals another by chance. Without γ, since a rank
/// adds while its ports receive more, which closed forms leave out.
fn alike(ports: Ports) -> Fabric {
    let switch =
        Switch { alpha: Some(Seconds(0.310_7)), bandwidth: None, multicast: true, alu: true };
    let link = Tier::new("link", Seconds(1.0), Bandwidth(1.0));
    Fabric::new(vec![Tier { ports, switch: Some(switch), ..link }])
}

/// The relative difference allowed between sums in different order.
const SAME: f64 = 1e-9;

fn holds(guarantee: Guarantee, Seconds(form): Seconds, Seconds(makespan): Seconds) -> bool {
    match guarantee {
        Guarantee::Equal | Guarantee::EqualInRounds => (form - makespan).abs() <= SAME * form,
        Guarantee::UpperBound | Guarantee::Pipelined => makespan <= form * (1.0 + SAME),
        Guarantee::Asymptotic => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::algorithm::Registry;
    use crate::model::schedule::List;

    #[test]
    fn a_fault_is_told_before_what_is_too_large() {
        let registry = Registry::builtin();
        let exchange = registry.find(Collective::AllToAll, "pairwise").unwrap().algorithm;
        let shape = |ranks| Shape::new(Collective::AllToAll, ranks);
        let large = exchange.schedule(&shape(512)).unwrap();
        let small = exchange.schedule(&shape(4)).unwrap();
        // Nobody sends anything.
        let silent = List::new(small.frame()).owned_as(&*small);
        let mut trial = Trial::default();
        trial.check(&*large, shape(512), 0, 0);
        assert!(trial.fault.as_ref().unwrap().1.is_too_large());
        trial.check(&silent, shape(4), 0, 0);
        trial.check(&*large, shape(512), 0, 0);
        let (case, fault) = trial.fault.unwrap();
        assert!(case.shape.ranks == 4 && !fault.is_too_large(), "{fault}");
    }
}
