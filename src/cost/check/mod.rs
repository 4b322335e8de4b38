//! An algorithm tried: its schedules verified over ranks and parameters, and its closed form held
//! against what the messages take.

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
use crate::model::schedule::{Fault, Layout, Schedule, Sends, senders, verify};
use shapes::Settings;

/// What came of trying one algorithm for one collective.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// Schedules verified: a number of ranks, a setting of the parameters, a root.
    pub schedules: u64,
    /// Messages in them.
    pub transfers: u64,
    /// The first that does not do what its collective promises.
    pub fault: Option<(Case, Fault)>,
    /// Comparisons of the closed form, by what it promises.
    pub compared: Compared,
    /// The first where the closed form breaks its promise.
    pub broken: Option<Broken>,
}

/// Which schedule it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// Ranks, ports and parameters.
    pub shape: Shape,
    /// The root.
    pub root: u32,
}

/// How many closed forms were compared with simulations, by what they promise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// The time of the schedule.
    pub equal: u64,
    /// That with a barrier after every round.
    pub equal_in_rounds: u64,
    /// At least one of them.
    pub upper_bound: u64,
    /// That in the limit, which is not checked.
    pub asymptotic: u64,
}

/// A closed form that is not what it promises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Broken {
    /// For which ranks, ports and parameters.
    pub shape: Shape,
    /// M/BW over α.
    pub size_over_alpha: f64,
    /// What it promises.
    pub guarantee: Guarantee,
    /// What it says, in α.
    pub form: Seconds,
    /// What the messages take.
    pub makespan: Seconds,
}

impl Trial {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.fault.is_none() && self.broken.is_none()
    }
}

/// Tries `algorithm` over `ranks` and, where it is pipelined, `segments`, and everything else that
/// changes its schedule; with rank 0 and the last one as roots. Up to [`COMPARED`] ranks its
/// closed form is held against what the messages take.
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

/// Up to so many ranks closed forms are compared: beyond, that takes longer than verifying.
pub const COMPARED: u32 = 17;

/// M/BW over α, a message of a ring of eight: where latency decides, and where data do.
const SIZES: [f64; 2] = [0.5, 64.0];

impl Trial {
    fn one(
        &mut self,
        simulator: &mut Simulator,
        algorithm: &dyn Algorithm,
        shape: Shape,
    ) -> Result<()> {
        let Some(schedule) = algorithm.schedule(&shape) else { return Ok(()) };
        let transfers = messages(&*schedule);
        let last = shape.ranks.saturating_sub(1);
        let moves = shape.collective.has_root() && schedule.frame().layout == Layout::Shared;
        self.check(&*schedule, shape, 0, transfers);
        if moves && last > 0 {
            self.check(&Relabel::new(&*schedule, last), shape, last, transfers);
        }
        // Closed forms know the coloured layout of trees alone.
        if shape.ranks <= COMPARED && shape.params.trees == Trees::default() {
            self.compare(simulator, algorithm, shape)?;
        }
        Ok(())
    }

    fn check(&mut self, schedule: &dyn Schedule, shape: Shape, root: u32, transfers: u64) {
        self.schedules += 1;
        self.transfers += transfers;
        if let Err(fault) = verify(schedule) {
            self.fault.get_or_insert((Case { shape, root }, fault));
        }
    }

    /// The closed form under several ports against what the messages take under them.
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
            // A pipeline is held to the bound that it states: some segments more, of the same size.
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

/// Links that are all alike, with figures of which no sum is another by chance; without γ, since a
/// rank adds while its ports bring more, which closed forms leave out.
fn alike(ports: Ports) -> Fabric {
    let switch =
        Switch { alpha: Some(Seconds(0.310_7)), bandwidth: None, multicast: true, alu: true };
    let link = Tier::new("link", Seconds(1.0), Bandwidth(1.0));
    Fabric::new(vec![Tier { ports, switch: Some(switch), ..link }])
}

/// By how much, relative, sums in another order may differ.
const SAME: f64 = 1e-9;

fn holds(guarantee: Guarantee, Seconds(form): Seconds, Seconds(makespan): Seconds) -> bool {
    match guarantee {
        Guarantee::Equal | Guarantee::EqualInRounds => (form - makespan).abs() <= SAME * form,
        Guarantee::UpperBound | Guarantee::Pipelined => makespan <= form * (1.0 + SAME),
        Guarantee::Asymptotic => true,
    }
}

/// Messages of all senders in all rounds.
pub(crate) fn messages(schedule: &dyn Schedule) -> u64 {
    let mut sends = Sends::default();
    let mut messages = 0;
    for round in 0..schedule.rounds() {
        for from in senders(schedule) {
            sends.clear();
            schedule.sends(round, from, &mut sends);
            messages += sends.len() as u64;
        }
    }
    messages
}
