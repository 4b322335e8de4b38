//! Every closed form is what it declares, measured by playing its schedule event by event.
//!
//! α, the time of a chunk and γ are whole numbers here, so that every instant is one too: what is
//! compared is exact, not near.

use crate::full::one_in;
use collcost::Collective;
use collcost::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte, Volume};
use collcost::cost::simulate::{Mode, Setup, Simulator};
use collcost::machine::fabric::{Fabric, Switch, Tier};
use collcost::model::algorithm::{Algorithm, Guarantee, Registry};
use collcost::model::formula::{At, Cost, Dims, Form, Params, Ports, Rational, Relay, Shape, Tie};
use collcost::model::schedule::combine::Segment;
use collcost::model::schedule::{Schedule, count};

use crate::cores;
#[path = "../support/shapes.rs"]
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
    // Large ones are most of the work.
    let large = [48, 61, 64, 72, 100].into_iter().step_by(one_in(5));
    (1..=33).step_by(one_in(11)).chain(large)
}

fn whole(n: i64) -> Rational {
    Rational::from_integer(n.into())
}

/// Plays `schedule` where every message takes whole seconds.
fn played(
    simulator: &mut Simulator,
    schedule: &dyn Schedule,
    (ports, mode): (Ports, Mode),
    rates: &Rates,
) -> Rational {
    let &Rates { alpha, switch, chunk, gamma } = rates;
    let alpha = Seconds(alpha as f64);
    let switch = Some(Seconds(switch as f64));
    let switch = Switch { alpha: switch, bandwidth: None, multicast: true, alu: true };
    let link = Tier::new("link", alpha, Bandwidth(1.0));
    let mut fabric = Fabric::new(vec![Tier { ports, switch: Some(switch), ..link }]);
    if gamma > 0 {
        fabric.gamma = Some(SecondsPerByte(gamma as f64 / chunk as f64));
    }
    let size = Volume(f64::from(schedule.parts()) * chunk as f64);
    let setup = Setup::new(size).in_mode(mode);
    let makespan = simulator.run(schedule, &fabric, &setup, None).unwrap().makespan.0;
    // γ a byte need not be whole; what it makes of a chunk is, up to rounding.
    assert!((makespan - makespan.round()).abs() < 1e-6, "{makespan}");
    Rational::from_integer(makespan.round() as i128)
}

/// Bounds that do not hold, each with its reason: a difference that is known, and stays visible.
fn is_known(id: &str, shape: &Shape, rates: &Rates) -> bool {
    match id {
        // Ranks that did not fold run ahead and hold ports that others need; a barrier, which would
        // stop them, keeps a rank with many ports from feeding its children at once.
        "nvls-rabenseifner" => shape.ports != Ports::ONE,
        "leader-rabenseifner" => shape.ranks == 27 && shape.ports != Ports::ONE,
        // An addition delays a message beyond its slot, and that one the next: up to 1.1 times with
        // γ at two fifths of the time of the data.
        "binary-tree-colored" => rates.gamma > 0 && shape.ranks == 9,
        "single-binary-tree" => rates.gamma > 0 && shape.ranks == 4,
        "ring-dbt" => rates.gamma > 0 && shape.ranks == 100,
        // The same without γ: the switches let ranks go one after another, out of the colours' step.
        "nvlstree" | "nvls-sharp" | "tree-rails" => rates.gamma > 0,
        "nvls-dbt" => rates.gamma > 0 || shape.segments() > 1 && shape.ports == Ports::ONE,
        _ => false,
    }
}

/// What a further segment of the same size adds.
fn behind(algorithm: &dyn Algorithm, shape: &Shape, rates: &Rates) -> Rational {
    let [one, two] = [0, 1].map(|more| {
        let shape = shape.with_segments(shape.segments() + more);
        let form = algorithm.prove(&At::numbers(shape)).total();
        let Some(schedule) = algorithm.schedule(&shape) else { return whole(0) };
        let parts = whole(schedule.parts().into());
        form.alpha * whole(rates.alpha)
            + form.switch * whole(rates.switch)
            + form.beta * whole(rates.chunk) * parts
    });
    two - one
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
    // Among many ranks the rates that mix all terms do.
    let rates = if shape.ranks > 33 { &RATES[2..] } else { &RATES };
    for rates in rates {
        let parts = whole(schedule.parts().into());
        let stated = form.alpha * whole(rates.alpha)
            + form.switch * whole(rates.switch)
            + (form.beta * whole(rates.chunk) + form.gamma * whole(rates.gamma)) * parts;
        let mut at = |mode, rates| played(simulator, schedule, (shape.ports, mode), rates);
        let holds = match guarantee {
            // In its limit, below.
            Guarantee::Asymptotic => true,
            _ if is_known(algorithm.meta().id, shape, rates) => true,
            // Of additions nothing is said where ports are half duplex.
            _ if rates.gamma > 0 && shape.ports.is_half() => true,
            // Additions may overlap with other messages: the form is then a bound.
            Guarantee::Equal if rates.gamma == 0 => at(Mode::Flow, rates) == stated,
            Guarantee::EqualInRounds if rates.gamma == 0 => at(Mode::Sync, rates) == stated,
            // Additions may make segments that are under way meet anew.
            Guarantee::Pipelined if rates.gamma > 0 => true,
            Guarantee::Pipelined => {
                let load = behind(algorithm, shape, rates);
                let played = at(Mode::Flow, rates);
                let waits = whole(Guarantee::WAITS.into());
                whole(shape.segments().into()) * load <= played && played <= stated + waits * load
            }
            _ => at(Mode::Flow, rates) <= stated || at(Mode::Sync, rates) <= stated,
        };
        if !holds {
            let Rates { alpha, switch, chunk, gamma } = rates;
            let [flow, sync] = [Mode::Flow, Mode::Sync].map(|mode| at(mode, rates));
            return Some(format!(
                "{guarantee:?} {stated}, takes {flow}, in rounds {sync}, at α {alpha}, \
                 α_sw {switch}, chunk {chunk}, γ {gamma}"
            ));
        }
    }
    // Many segments of many ranks' blocks take much memory; small tori show the same.
    let is_limit = guarantee == Guarantee::Asymptotic && (2..=16).contains(&shape.ranks);
    let is_faster = is_faster(algorithm.meta().id, shape);
    (is_limit && tends_to(simulator, shape, schedule, form.beta) == is_faster)
        .then(|| "is not what ever more segments tend to".to_owned())
}

/// Meshes of unequal sides on ports without limit: there ever more segments of an all-reduce overtake each other on
/// the links, and take three quarters of the form, which is that of a port for each link.
fn is_faster(id: &str, shape: &Shape) -> bool {
    let is_uneven = |dims: &Dims| matches!(*dims.lengths(), [a, b] if a != b && a.min(b) > 2);
    let is_uneven = shape.params.dims.as_ref().is_some_and(is_uneven);
    id == "mesh"
        && shape.collective == Collective::AllReduce
        && shape.ports == Ports::Unbounded
        && is_uneven
}

/// Whether the time of a large vector in ever more segments, one behind the other, tends to
/// `beta` times that of sending it: with four times as many a third of the excess is left at most.
fn tends_to(
    simulator: &mut Simulator,
    shape: &Shape,
    schedule: &dyn Schedule,
    beta: Rational,
) -> bool {
    let mut excess = |segments: u32| {
        let cut = Segment::new(schedule, segments, 1);
        let rates = Rates { alpha: 0, switch: 0, chunk: 1, gamma: 0 };
        let played = played(simulator, &cut, (shape.ports, Mode::Flow), &rates);
        played / (beta * whole(cut.parts().into())) - whole(1)
    };
    let [few, many] = [8, 32].map(&mut excess);
    many >= whole(0) && many * whole(3) <= few
}

/// How many shapes of `n` ranks were compared, and the faults.
fn compared(algorithm: &dyn Algorithm, collective: Collective, n: u32) -> (usize, Vec<String>) {
    let mut simulator = Simulator::default();
    let (mut compared, mut faults) = (0, Vec::new());
    for shape in shapes::shapes(algorithm, collective, n) {
        // A root with a faster link is no property of the schedule.
        if shape.params.root_speedup.is_some() {
            continue;
        }
        let Some(schedule) = algorithm.schedule(&shape) else { continue };
        compared += 1;
        if let Some(fault) = fault(&mut simulator, algorithm, &shape, &*schedule) {
            let id = algorithm.meta().id;
            faults.push(format!("{id} {collective} {}: {shape:?}: {fault}", shape.ports));
        }
    }
    (compared, faults)
}

#[test]
fn closed_forms_are_what_they_declare() {
    let registry = Registry::builtin();
    let mut all = Vec::new();
    // The largest first: no core is left with them at the end.
    for n in ranks().collect::<Vec<_>>().into_iter().rev() {
        for algorithm in registry.iter() {
            all.extend(algorithm.meta().collectives.iter().map(|&of| (algorithm, of, n)));
        }
    }
    let results = cores::spread(&all, |&(algorithm, of, n)| compared(algorithm, of, n));
    let count: usize = results.iter().map(|(count, _)| count).sum();
    let faults: Vec<String> = results.into_iter().flat_map(|(_, faults)| faults).collect();
    assert!(count > 10_000 / one_in(9), "{count} shapes are too few");
    let shown = &faults[..faults.len().min(20)];
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), shown.join("\n"));
}
