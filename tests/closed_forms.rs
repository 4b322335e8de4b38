//! Every closed form is what it declares, measured by playing its schedule event by event.
//!
//! α, the time of a chunk and γ are whole numbers here, so that every instant is one too: what is
//! compared is exact, not near.

use collcost::Collective;
use collcost::algorithm::{Algorithm, Guarantee, Registry};
use collcost::fabric::{Fabric, Tier};
use collcost::formula::{At, Cost, Dims, Form, Params, Ports, Rational, Relay, Shape, Tie};
use collcost::quantity::{Bandwidth, Ratio, Seconds, Volume};
use collcost::schedule::{Schedule, count};
use collcost::simulate::{Setup, simulate};

#[path = "support/shapes.rs"]
mod shapes;

/// α, and seconds a chunk.
const RATES: [(i64, i64); 4] = [(1, 0), (0, 1), (3, 5), (1000, 1)];

fn ranks() -> impl Iterator<Item = u32> {
    (1..=33).chain([48, 61, 64, 72, 100, 128])
}

fn whole(n: i64) -> Rational {
    Rational::from_integer(n.into())
}

/// The makespan of `schedule`, with a chunk of whole seconds.
fn played(schedule: &dyn Schedule, ports: Ports, alpha: i64, chunk: i64) -> i128 {
    let link = Tier { ports, ..Tier::new("link", Seconds(alpha as f64), Bandwidth(1.0)) };
    let fabric = Fabric::new(vec![link]);
    let size = f64::from(schedule.parts()) * chunk as f64;
    let outcome = simulate(schedule, &fabric, &Setup::new(Volume(size))).unwrap();
    let makespan = outcome.makespan.0;
    assert_eq!(makespan.fract(), 0.0);
    makespan as i128
}

/// What is wrong with the closed form of `algorithm` for `shape`.
fn fault(algorithm: &dyn Algorithm, shape: &Shape, schedule: &dyn Schedule) -> Option<String> {
    let at = At::numbers(*shape);
    let form = algorithm.prove(&at).total();
    if form.switch != whole(0) {
        return None;
    }
    let sent = count(schedule, 1).max_sent;
    if algorithm.sent_exactly(&at) != sent {
        return Some(format!("sends {sent}, not {}", algorithm.sent_exactly(&at)));
    }
    for (alpha, chunk) in RATES {
        let size = whole(chunk) * whole(schedule.parts().into());
        let stated = form.alpha * whole(alpha) + form.beta * size;
        let played = Rational::from_integer(played(schedule, shape.ports, alpha, chunk));
        let holds = match algorithm.guarantee(shape) {
            Guarantee::Equal => played == stated,
            Guarantee::UpperBound => played <= stated,
            // Looked at by itself below.
            Guarantee::Asymptotic => true,
        };
        if !holds {
            let guarantee = algorithm.guarantee(shape);
            return Some(format!(
                "{guarantee:?} {stated} but takes {played} at α {alpha}, chunk {chunk}"
            ));
        }
    }
    None
}

#[test]
fn closed_forms_are_what_they_declare() {
    let (mut compared, mut faults) = (0, std::collections::BTreeMap::<String, Vec<String>>::new());
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for n in ranks() {
                for shape in shapes::shapes(algorithm, collective, n) {
                    let Some(schedule) = algorithm.schedule(&shape) else { continue };
                    compared += 1;
                    if let Some(fault) = fault(algorithm, &shape, &*schedule) {
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
