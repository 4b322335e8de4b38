//! Every closed form is what it declares, measured by playing its schedule event by event.
//!
//! α, the time of a chunk and γ are whole numbers here, so that every instant is one too: what is
//! compared is exact, not near.

use collcost::Collective;
use collcost::algorithm::{Algorithm, Guarantee, Registry};
use collcost::fabric::{Fabric, Switch, Tier};
use collcost::formula::{At, Cost, Dims, Form, Params, Ports, Rational, Relay, Shape, Tie};
use collcost::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte, Volume};
use collcost::schedule::{Schedule, count};
use collcost::simulate::{Setup, Simulator};

#[path = "support/shapes.rs"]
mod shapes;

/// Seconds of an empty message, of one hop through a switch, of a chunk, and to add a chunk.
struct Rates {
    alpha: i64,
    switch: i64,
    chunk: i64,
    gamma: i64,
}

const RATES: [Rates; 5] = [
    Rates { alpha: 1, switch: 1, chunk: 0, gamma: 0 },
    Rates { alpha: 0, switch: 0, chunk: 1, gamma: 0 },
    Rates { alpha: 3, switch: 2, chunk: 5, gamma: 0 },
    Rates { alpha: 1000, switch: 700, chunk: 1, gamma: 0 },
    Rates { alpha: 3, switch: 1, chunk: 5, gamma: 2 },
];

fn ranks() -> impl Iterator<Item = u32> {
    (1..=33).chain([48, 61, 64, 72, 100, 128])
}

fn whole(n: i64) -> Rational {
    Rational::from_integer(n.into())
}

/// The makespan of `schedule` in seconds, of which every message takes whole ones.
fn played(simulator: &mut Simulator, schedule: &dyn Schedule, ports: Ports, rates: &Rates) -> i128 {
    let &Rates { alpha, switch, chunk, gamma } = rates;
    let alpha = Seconds(alpha as f64);
    let switch = Some(Seconds(switch as f64));
    let switch = Switch { alpha: switch, bandwidth: None, multicast: true, alu: true };
    let link = Tier::new("link", alpha, Bandwidth(1.0));
    let mut fabric = Fabric::new(vec![Tier { ports, switch: Some(switch), ..link }]);
    if gamma > 0 {
        fabric.gamma = Some(SecondsPerByte(gamma as f64 / chunk as f64));
    }
    let size = f64::from(schedule.parts()) * chunk as f64;
    let outcome = simulator.run(schedule, &fabric, &Setup::new(Volume(size)), None).unwrap();
    // γ a byte need not be whole; what it makes of a chunk is, up to rounding.
    let makespan = outcome.makespan.0;
    assert!((makespan - makespan.round()).abs() < 1e-6, "{makespan}");
    makespan.round() as i128
}

/// What is wrong with the closed form of `algorithm` for `shape`.
fn fault(
    simulator: &mut Simulator,
    algorithm: &dyn Algorithm,
    shape: &Shape,
    schedule: &dyn Schedule,
) -> Option<String> {
    let at = At::numbers(*shape);
    let form = algorithm.prove(&at).total();
    let sent = count(schedule, 1).max_sent;
    if algorithm.sent_exactly(&at) != sent {
        return Some(format!("sends {sent}, not {}", algorithm.sent_exactly(&at)));
    }
    let guarantee = algorithm.guarantee(shape);
    for rates in &RATES {
        let parts = whole(schedule.parts().into());
        let stated = form.alpha * whole(rates.alpha)
            + form.switch * whole(rates.switch)
            + (form.beta * whole(rates.chunk) + form.gamma * whole(rates.gamma)) * parts;
        let played = Rational::from_integer(played(simulator, schedule, shape.ports, rates));
        let holds = match guarantee {
            // On several ports the additions overlap with what other ports bring.
            Guarantee::Equal if rates.gamma > 0 && shape.ports != Ports::ONE => played <= stated,
            Guarantee::Equal => played == stated,
            Guarantee::UpperBound => played <= stated,
            // Looked at by itself below.
            Guarantee::Asymptotic => true,
        };
        if !holds {
            let Rates { alpha, switch, chunk, gamma } = rates;
            return Some(format!(
                "{guarantee:?} {stated}, takes {played} at α {alpha}, α_sw {switch}, chunk {chunk}, γ {gamma}"
            ));
        }
    }
    None
}

#[test]
fn closed_forms_are_what_they_declare() {
    let mut simulator = Simulator::default();
    let (mut compared, mut faults) = (0, std::collections::BTreeMap::<String, Vec<String>>::new());
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for n in ranks() {
                for shape in shapes::shapes(algorithm, collective, n) {
                    let Some(schedule) = algorithm.schedule(&shape) else { continue };
                    compared += 1;
                    if let Some(fault) = fault(&mut simulator, algorithm, &shape, &*schedule) {
                        let name = format!("{} {collective} {}", algorithm.meta().id, shape.ports);
                        faults.entry(name).or_default().push(format!("{shape:?}: {fault}"));
                    }
                }
            }
        }
    }
    let report: Vec<String> = faults
        .iter()
        .map(|(name, faults)| format!("{name}: {}, such as {}", faults.len(), faults[0]))
        .collect();
    assert!(faults.is_empty(), "of {compared}:\n{}", report.join("\n"));
}
