//! An algorithm from outside the crate: how to add one, rank it and print its formula.
//!
//! ```text
//!   1 ─┐     ┌─► 1
//!   2 ─┼─► 0 ┼─► 2      star all-gather: every rank sends its block to rank 0,
//!   3 ─┘     └─► 3      which sends all of them to every rank
//! ```
//!
//! Run it with `cargo run --example custom_algorithm`.

use collcost::Collective::{self, AllGather};
use collcost::base::quantity::{Bandwidth, Bytes, Seconds};
use collcost::cost::rank::{Ranked, candidates, rank};
use collcost::machine::fabric::Fabric;
use collcost::model::algorithm::{
    Algorithm, ClosedForm, Guarantee, Library, Meta, Registry, Route, Share, Step,
};
use collcost::model::formula::{At, Cost, Field, Notation, Shape};

/// A type without fields is enough: what varies from call to call is in the [`Shape`].
struct Star;

/// What the registry holds; `ClosedForm` makes it an `Algorithm`.
static STAR: &dyn Algorithm = &Star;

impl ClosedForm for Star {
    /// No field has a default: an algorithm says who sends what to whom, and who says so.
    fn meta(&self) -> &'static Meta {
        static META: Meta = Meta {
            id: "star",
            title: "star through rank 0",
            collectives: &[AllGather],
            aliases: &[],
            known_as: &[(Library::OpenMpi, &[AllGather], "1 linear")],
            summary: "every rank sends its block to rank 0, which sends them all to every rank",
            source: "Open MPI coll_basic: gather, then broadcast, both linear",
        };
        &META
    }

    /// The closed form, once: over numbers it prices, over fractions it is proven, over letters
    /// it prints. Here N − 1 messages of M/N into rank 0, then N − 1 of M out of it.
    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = F::int(2) * v.others();
        let vectors = v.others_share() + v.others();
        Cost::new(messages, vectors)
    }

    /// It counts one message at a time: more ports would only help.
    fn guarantee(&self, _: &Shape) -> Guarantee {
        Guarantee::UpperBound
    }

    /// Rank 0 sends the most: the whole vector to each of the others.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others()
    }

    /// The same messages one by one. They say which links are crossed, so that the algorithm can
    /// be priced where nodes have faster links inside; they must sum to the closed form.
    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let others = shape.ranks - 1;
        emit(Step::new(others, Share::new(1_u32, shape.ranks), Route::Root));
        emit(Step::new(others, Share::ALL, Route::Root));
    }
}

/// The built-in algorithms and the star, fastest first, on links of 5 µs and 50 GB/s.
fn ranking(ranks: u32, size: Bytes) -> collcost::Result<Vec<Ranked>> {
    let registry = Registry::builtin().with(STAR);
    let fabric = Fabric::flat(Seconds(5e-6), Bandwidth(50e9));
    let (ready, _refused) = candidates(&registry, &Shape::new(AllGather, ranks), &fabric)?;
    Ok(rank(&ready, size.into()))
}

/// The formula, from the same function that prices.
fn formula(algorithm: &dyn Algorithm, collective: Collective) -> String {
    let shape = Shape::new(collective, 8);
    algorithm.print(&At::symbols(shape)).formula(true).write(Notation::Text)
}

pub fn main() -> collcost::Result<()> {
    println!("star: {}", formula(STAR, AllGather));
    for size in ["1KiB", "16MiB"] {
        let size: Bytes = size.parse()?;
        println!("\nall-gather of {size} over 8 ranks");
        for Ranked { algorithm, price, .. } in ranking(8, size)? {
            println!("  {:36}{:>12}", algorithm.meta().title, price.total().to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_star_is_ranked_among_the_others() {
        let ranked = ranking(8, Bytes(16 << 20)).unwrap();
        let ids: Vec<_> = ranked.iter().map(|r| r.algorithm.meta().id).collect();
        assert!(ids.contains(&"ring") && ids.contains(&"star"), "{ids:?}");
        assert_eq!(formula(STAR, AllGather), "2·(N − 1)·α + ((N − 1)/N + N − 1)·M/BW");
    }

    #[test]
    fn its_steps_sum_to_its_closed_form() {
        let shape = Shape::new(AllGather, 8);
        let (mut messages, mut vectors) = (0.0, 0.0);
        Algorithm::steps(&Star, &shape, &mut |step| {
            messages += step.count as f64;
            vectors += step.count as f64 * step.share.value();
        });
        let form = Star.price(&At::numbers(shape)).total();
        assert_eq!((messages, vectors), (form.alpha, form.beta));
    }
}
