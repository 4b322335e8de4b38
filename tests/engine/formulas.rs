//! The printed formulas, read back by a reader that knows only the notation, give the price.

use std::collections::BTreeMap;

use collcost::Collective;
use collcost::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte, Volume};
use collcost::model::algorithm::{Algorithm, Registry};
use collcost::model::formula::{
    At, Cost, Dims, Expr, Form, Level, Notation, Params, Ports, Relay, Shape, Symbol, Tie, Values,
};

#[path = "../support/evaluate.rs"]
mod evaluate;
#[path = "../support/shapes.rs"]
mod shapes;

use evaluate::Meaning;

/// Rates that look like nothing else, so that a letter mistaken for another shows.
fn values(shape: &Shape, size: f64) -> Values {
    Values {
        ranks: shape.ranks,
        segments: shape.segments(),
        group: shape.group(),
        size: Volume(size),
        alpha: Seconds(3.7e-6),
        bandwidth: Bandwidth(46.3e9),
        alpha_inner: Seconds(1.3e-6),
        bandwidth_inner: Bandwidth(312.7e9),
        alpha_outer: Seconds(11.9e-6),
        bandwidth_outer: Bandwidth(24_123_456_789.0),
        gamma: SecondsPerByte(23.125e-12),
        alpha_switch: Seconds(431.7e-9),
        alpha_switch_outer: Seconds(700e-9),
    }
}

/// Σ n_α·α + n_β·M/BW + n_γ·M·γ + n_sw·α_sw over the phases, from the numbers; of those beside each
/// other the one that takes longest, or what is added meanwhile.
fn price(cost: &Cost<f64>, values: &Values, gamma: bool) -> f64 {
    let links = |phase: &collcost::model::formula::Phase<f64>| {
        let (alpha, rate, hop) = match phase.level {
            Level::Outer => (values.alpha_outer, values.bandwidth_outer, values.alpha_switch_outer),
            Level::Inner => (values.alpha_inner, values.bandwidth_inner, values.alpha_switch),
            Level::Flat => (values.alpha, values.bandwidth, values.alpha_switch),
        };
        phase.alpha * alpha.0 + phase.beta * values.size.0 / rate.0 + phase.switch * hop.0
    };
    let adds = |phase: &collcost::model::formula::Phase<f64>| match gamma {
        true => phase.gamma * values.size.0 * values.gamma.0,
        false => 0.0,
    };
    let in_turn: f64 = cost.in_turn().map(|phase| links(phase) + adds(phase)).sum();
    let added: f64 = cost.beside().map(adds).sum();
    in_turn + cost.beside().map(links).fold(added, f64::max)
}

fn meaning(formula: &Expr, values: &Values) -> Meaning {
    let mut letters = BTreeMap::from([
        ("N", f64::from(values.ranks)),
        ("P", f64::from(values.segments)),
        ("G", f64::from(values.group)),
        ("M", values.size.0),
        ("α", values.alpha.0),
        ("α₁", values.alpha_inner.0),
        ("α₂", values.alpha_outer.0),
        ("BW", values.bandwidth.0),
        ("BW₁", values.bandwidth_inner.0),
        ("BW₂", values.bandwidth_outer.0),
        ("γ", values.gamma.0),
        ("α_sw", values.alpha_switch.0),
        ("α_sw₂", values.alpha_switch_outer.0),
    ]);
    letters.extend(formula.parameters().into_iter().map(|(symbol, value)| match symbol {
        Symbol::CReal => ("c", value.0),
        Symbol::RootSpeedup => ("r", value.0),
        other => panic!("{other:?} is no parameter"),
    }));
    Meaning {
        letters,
        functions: formula.named_functions().into_iter().map(|f| (f.name, f.rule)).collect(),
    }
}

/// Compares one formula in all notations with the numbers.
fn fault(cost: &Cost<f64>, symbols: &Cost<Expr>, values: &Values, gamma: bool) -> Option<String> {
    let expected = price(cost, values, gamma);
    let formula = symbols.formula(gamma);
    let meaning = meaning(&formula, values);
    let text = formula.write(Notation::Text);
    let latex = formula.write(Notation::Latex);
    let numbers = formula.write(Notation::Numbers(values));
    for (written, value, tolerance) in [
        (&text, evaluate::text(&text, &meaning), 1e-9),
        (&latex, evaluate::latex(&latex, &meaning), 1e-9),
        // The numbers say everything themselves.
        (&numbers, evaluate::text(&numbers, &Meaning::default()), 1e-5),
    ] {
        match value {
            Err(why) => return Some(why),
            Ok(value) if (value - expected).abs() > tolerance * expected.abs() => {
                return Some(format!("`{written}` is {value:e}, the price {expected:e}"));
            }
            Ok(_) => {}
        }
    }
    None
}

/// Every algorithm with each of its collectives.
fn each() -> Vec<(&'static dyn Algorithm, Collective)> {
    let all = Registry::builtin();
    all.iter().flat_map(|a| a.meta().collectives.iter().map(move |&c| (a, c))).collect()
}

#[test]
fn every_formula_gives_the_price() {
    let mut faults = BTreeMap::new();
    for (algorithm, collective) in each() {
        let ranks = (2..=9).chain([12, 15, 64, 72]);
        let shapes = ranks.flat_map(|n| shapes::shapes(algorithm, collective, n));
        // Sizes go round with the shapes, as does γ: all of them on each would say nothing more.
        let sizes = [1.0, 4097.0, 16_777_216.0, 1e9 + 7.0, 123.0, 65_536.0, 5e6];
        let asked = sizes.into_iter().cycle().zip([true, false, true].into_iter().cycle());
        for (shape, (size, gamma)) in shapes.zip(asked) {
            let values = values(&shape, size);
            for form in [Form::Exact, Form::Paper, Form::Asymptotic] {
                let Some(cost) = algorithm.price_form(&At::numbers(shape), form) else { continue };
                let symbols = algorithm.print_form(&At::symbols(shape), form).unwrap();
                if let Some(fault) = fault(&cost, &symbols, &values, gamma) {
                    let name = format!("{} {collective}", algorithm.meta().id);
                    faults.entry(name).or_insert(format!("{form:?} {shape:?}: {fault}"));
                }
            }
        }
    }
    let faults: Vec<_> = faults.into_iter().map(|(name, why)| format!("{name}: {why}")).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The formula of `name` as text, and with numbers put in.
fn written(name: &str, collective: Collective, ranks: u32, gamma: bool) -> [String; 3] {
    let shape = Shape::new(collective, ranks).with_segments(1);
    let named = Registry::builtin().find(collective, name).unwrap();
    let formula = named.algorithm.print(&At::symbols(shape)).formula(gamma);
    let values = Values {
        size: Volume(16_777_216.0),
        alpha: Seconds(5e-6),
        bandwidth: Bandwidth(450e9),
        gamma: SecondsPerByte(20e-12),
        ..values(&shape, 0.0)
    };
    [Notation::Text, Notation::Latex, Notation::Numbers(&values)].map(|n| formula.write(n))
}

#[test]
fn the_ring_reads_as_in_a_textbook() {
    let [text, latex, numbers] = written("ring", Collective::AllReduce, 64, false);
    assert_eq!(text, "2·(N − 1)·α + 2·(N − 1)/N·M/BW");
    assert_eq!(
        latex,
        r"2 \cdot (N - 1) \cdot \alpha + \frac{2 \cdot (N - 1)}{N} \cdot \frac{M}{\mathrm{BW}}"
    );
    assert_eq!(numbers, "2·(64 − 1)·5 µs + 2·(64 − 1)/64·16 MiB/(450 GB/s)");
    let [text, _, numbers] = written("ring", Collective::ReduceScatter, 64, true);
    assert_eq!(text, "(N − 1)·α + (N − 1)/N·M/BW + (N − 1)/N·M·γ");
    assert!(numbers.ends_with(" + (64 − 1)/64·16 MiB·20 ps/B"), "{numbers}");
}

#[test]
fn pipelines_and_logarithms_read_as_in_a_textbook() {
    let text = |name, collective| written(name, collective, 12, false)[0].clone();
    assert_eq!(text("chain", Collective::Broadcast), "(N + P − 2)·α + (N + P − 2)/P·M/BW");
    assert_eq!(text("binomial", Collective::Broadcast), "P·⌈lg N⌉·α + ⌈lg N⌉·M/BW");
    assert_eq!(text("tree", Collective::AllReduce), "2·⌈lg N⌉·α + 2·⌈lg N⌉·M/BW");
}

#[test]
fn one_rank_costs_nothing() {
    let [text, latex, numbers] = written("ring", Collective::AllReduce, 1, true);
    assert_eq!([text, latex, numbers], ["0", "0", "0"]);
}
