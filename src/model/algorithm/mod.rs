//! The algorithms: one file per family, each with its closed form, its steps and its schedule.
//!
//! To add one, write a file next to `ring.rs`, its `mod` line and one line in [`FAMILIES`]. The
//! tests walk the registry: the build fails for an algorithm that lacks documentation, a price or a
//! source, or whose steps do not sum to its closed form.

mod all_to_all;
mod barrier;
mod bidirectional_ring;
mod binary_tree;
mod bine;
mod binomial;
mod bruck;
mod butterfly;
mod chain;
mod circulant;
pub mod double_binary_tree;
mod edges;
mod flat;
mod folded_halving;
mod gloo;
mod halved_tree;
mod halving_gather;
mod hierarchical;
mod in_network;
mod k_ring;
mod knomial;
mod library;
mod log_ring;
mod meta;
mod neighbor_exchange;
mod norm;
mod pat;
mod pipelined;
mod point_to_point;
mod rabenseifner;
mod recursive_doubling;
mod recursive_multiplying;
mod registry;
mod ring;
mod rounds;
mod scatter_doubling;
mod shots;
mod sparbit;
mod stage;
mod step;
mod swing;
mod torus;
mod van_de_geijn;

pub(crate) use circulant::skips;
pub use edges::Edges;
pub(crate) use folded_halving::halves;
pub use library::{GPU_MPI, Library, MPI, RunBy};
pub use meta::{Meta, Reason};
pub use registry::{Named, Registry};
pub use stage::Stages;
pub use step::{Route, Share, Step};

use crate::base::words::words;
#[cfg(any(test, feature = "proof"))]
use crate::model::formula::Rational;
use crate::model::formula::{At, Cost, Expr, Field, Form, Number, Phase, Ports, Shape};
use crate::model::schedule::Schedule;

/// Every built-in family; all lists shown to users follow this order.
pub static FAMILIES: &[&[&dyn Algorithm]] = &[
    point_to_point::FAMILY,
    flat::FAMILY,
    ring::FAMILY,
    bidirectional_ring::FAMILY,
    chain::FAMILY,
    binomial::FAMILY,
    knomial::FAMILY,
    binary_tree::FAMILY,
    halved_tree::FAMILY,
    double_binary_tree::FAMILY,
    recursive_doubling::FAMILY,
    folded_halving::FAMILY,
    butterfly::FAMILY,
    recursive_multiplying::FAMILY,
    rabenseifner::FAMILY,
    bruck::FAMILY,
    pat::FAMILY,
    all_to_all::FAMILY,
    circulant::FAMILY,
    van_de_geijn::FAMILY,
    scatter_doubling::FAMILY,
    halving_gather::FAMILY,
    neighbor_exchange::FAMILY,
    sparbit::FAMILY,
    k_ring::FAMILY,
    swing::FAMILY,
    bine::FAMILY,
    log_ring::FAMILY,
    gloo::FAMILY,
    in_network::FAMILY,
    hierarchical::FAMILY,
    pipelined::FAMILY,
    torus::FAMILY,
    shots::FAMILY,
    norm::FAMILY,
    barrier::FAMILY,
];

words! {
    /// How a closed form relates to the cost of its schedule on the given ports.
    ///
    /// Additions (γ) take time while the receiver's ports keep working: with γ, an equal form is an
    /// upper bound on full-duplex ports, and nothing is guaranteed about half-duplex ones.
    #[derive(Hash)]
    pub enum Guarantee {
        /// It is the makespan, event by event: messages wait only for data and ports.
        Equal = "equal",
        /// It is the makespan with a barrier after every round. Data that run ahead of the rounds may
        /// make it shorter, or longer where they hold a port that another message needs.
        EqualInRounds = "equal-in-rounds",
        /// The makespan is at most this: event by event, or with a barrier after every round where
        /// running ahead makes it longer.
        UpperBound = "upper-bound",
        /// The ratio to the makespan tends to 1 as the vector grows and is cut into more segments.
        Asymptotic = "asymptotic",
        /// Segments flow through several stages. The makespan, event by event, is at least the time of
        /// the busiest port for all segments, and at most what this form gives for [`Guarantee::WAITS`]
        /// more segments. A message that comes back to a port waits there for those under way, once per
        /// pipeline, not once per segment.
        Pipelined = "pipelined",
    }
}

impl Guarantee {
    /// Segments by which a pipeline may be late: see [`Self::Pipelined`].
    pub const WAITS: u32 = 5;

    /// Of a form whose steps overlap only on ports that send and receive in turns: an upper bound there,
    /// else equal.
    fn on_ports(shape: &Shape) -> Self {
        if shape.ports.is_half() { Self::UpperBound } else { Self::Equal }
    }

    /// The same of a form whose rounds are exchanges in pairs: two ranks take turns on one port.
    fn in_pairs(shape: &Shape) -> Self {
        if rounds::is_one_half(shape.ports) { Self::Equal } else { Self::on_ports(shape) }
    }

    /// Of a form that is worked out for one port: equal there, else an upper bound.
    fn on_one_port(shape: &Shape) -> Self {
        if shape.ports == Ports::ONE { Self::Equal } else { Self::UpperBound }
    }

    /// The same of a form whose rounds are exchanges in pairs.
    fn in_pairs_on_one_port(shape: &Shape) -> Self {
        if rounds::is_one_half(shape.ports) { Self::Equal } else { Self::on_one_port(shape) }
    }
}

/// The part of an algorithm that its author writes.
///
/// The generic methods make this trait unusable as `dyn`; every `ClosedForm` is an [`Algorithm`].
pub trait ClosedForm: Sync {
    /// Names, summary and source.
    fn meta(&self) -> &Meta;

    /// Why it cannot run for this shape; N ≥ 2 and the collective are checked before.
    ///
    /// # Errors
    /// The reason, in words that end the sentence "does not apply: …".
    fn applies(&self, _shape: &Shape) -> Result<(), Reason> {
        Ok(())
    }

    /// Its cost under `v.shape.ports`, for N ≥ 2.
    ///
    /// From P = 2 on n_α must have the form a + b·P, and n_β and n_γ the form c + d/P: the best P
    /// is derived from two evaluations. P = 1 may be cheaper than that line.
    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F>;

    /// How [`Self::cost`] relates to the schedule.
    fn guarantee(&self, _shape: &Shape) -> Guarantee {
        Guarantee::Equal
    }

    /// The share of M that the busiest rank sends.
    fn sent<F: Field>(&self, v: &At<F>) -> F;

    /// The sequential messages that make up [`Self::cost`]: Σ count·(α + share·M/BW).
    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step));

    /// Its stages, if they use different ports at once: [`Self::cost`] and [`Self::steps`] are then
    /// those of one port per rank, shared by all stages.
    fn stages(&self, _shape: &Shape) -> Option<Stages> {
        None
    }

    /// The cost as its source prints it, where that differs from [`Self::cost`].
    fn paper<F: Field>(&self, _v: &At<F>) -> Option<Cost<F>> {
        None
    }

    /// The limit for large vectors as its source prints it, for pipelines.
    fn asymptotic<F: Field>(&self, _v: &At<F>) -> Option<Cost<F>> {
        None
    }

    /// Whether P is a parameter of it.
    fn is_pipelined(&self) -> bool {
        false
    }

    /// Whether a library that ships it never runs it for such a shape.
    fn is_withheld(&self, _library: Library, _shape: &Shape) -> bool {
        false
    }

    /// The number of partners of a rank at once if no step is to wait for a port.
    fn ports_needed(&self, _shape: &Shape) -> u32 {
        1
    }

    /// The schedule that the closed form prices.
    fn schedule(&self, _shape: &Shape) -> Option<Box<dyn Schedule>> {
        None
    }
}

/// An algorithm as a trait object: what registries hold.
///
/// Implemented by every [`ClosedForm`]; do not implement it by hand.
pub trait Algorithm: Sync {
    /// Names, summary and source.
    fn meta(&self) -> &Meta;
    /// Why it cannot run for this shape.
    ///
    /// # Errors
    /// The reason in words.
    fn applies(&self, shape: &Shape) -> Result<(), Reason>;
    /// The cost over `f64`.
    fn price(&self, v: &At<f64>) -> Cost<f64>;
    /// The cost over exact fractions.
    #[cfg(any(test, feature = "proof"))]
    fn prove(&self, v: &At<Rational>) -> Cost<Rational>;
    /// The cost over symbols.
    fn print(&self, v: &At<Expr>) -> Cost<Expr>;
    /// Another stated cost over `f64`; [`Form::Paper`] falls back to the exact one.
    fn price_form(&self, v: &At<f64>, form: Form) -> Option<Cost<f64>>;
    /// Another stated cost over symbols.
    fn print_form(&self, v: &At<Expr>, form: Form) -> Option<Cost<Expr>>;
    /// How the exact cost relates to the schedule.
    fn guarantee(&self, shape: &Shape) -> Guarantee;
    /// The share of M that the busiest rank sends, over `f64`.
    fn sent(&self, v: &At<f64>) -> f64;
    /// The same over exact fractions.
    #[cfg(any(test, feature = "proof"))]
    fn sent_exactly(&self, v: &At<Rational>) -> Rational;
    /// The same over symbols.
    fn sent_printed(&self, v: &At<Expr>) -> Expr;
    /// The messages, one after another.
    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step));
    /// Its stages, if they use different ports at once.
    fn stages(&self, shape: &Shape) -> Option<Stages>;
    /// Whether P is a parameter of it.
    fn is_pipelined(&self) -> bool;
    /// Libraries that run it for such a shape, each with its name for it.
    fn shipped(&self, shape: &Shape) -> Vec<(Library, &'static str)>;
    /// Whether `library`, or any library if none is given, runs it for such a shape.
    fn is_shipped(&self, library: Option<Library>, shape: &Shape) -> bool;
    /// Partners at once.
    fn ports_needed(&self, shape: &Shape) -> u32;
    /// The schedule that the closed form prices.
    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>>;
}

/// The libraries that run `form` for such a shape, with their names for it.
fn shipped(form: &impl ClosedForm, shape: &Shape) -> impl Iterator<Item = (Library, &'static str)> {
    let known = form.meta().known_as.iter();
    let here =
        known.filter(|(l, c, _)| c.contains(&shape.collective) && !form.is_withheld(*l, shape));
    here.map(|&(library, _, name)| (library, name))
}

impl<T: ClosedForm> Algorithm for T {
    fn meta(&self) -> &Meta {
        ClosedForm::meta(self)
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        let meta = ClosedForm::meta(self);
        if !meta.collectives.contains(&shape.collective) {
            return Err(Reason::from(format!("it does not implement {}", shape.collective)));
        }
        // One rank has nothing to send in any algorithm.
        if shape.ranks <= 1 { Ok(()) } else { ClosedForm::applies(self, shape) }
    }

    fn price(&self, v: &At<f64>) -> Cost<f64> {
        if v.shape.ranks <= 1 { Cost::zero() } else { self.cost(v) }
    }

    #[cfg(any(test, feature = "proof"))]
    fn prove(&self, v: &At<Rational>) -> Cost<Rational> {
        if v.shape.ranks <= 1 { Cost::zero() } else { self.cost(v) }
    }

    fn print(&self, v: &At<Expr>) -> Cost<Expr> {
        if v.shape.ranks <= 1 { Cost::zero() } else { self.cost(v) }
    }

    fn price_form(&self, v: &At<f64>, form: Form) -> Option<Cost<f64>> {
        stated(self, v, form)
    }

    fn print_form(&self, v: &At<Expr>, form: Form) -> Option<Cost<Expr>> {
        stated(self, v, form)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        ClosedForm::guarantee(self, shape)
    }

    fn sent(&self, v: &At<f64>) -> f64 {
        if v.shape.ranks <= 1 { 0.0 } else { ClosedForm::sent(self, v) }
    }

    #[cfg(any(test, feature = "proof"))]
    fn sent_exactly(&self, v: &At<Rational>) -> Rational {
        if v.shape.ranks <= 1 { Number::int(0) } else { ClosedForm::sent(self, v) }
    }

    fn sent_printed(&self, v: &At<Expr>) -> Expr {
        if v.shape.ranks <= 1 { Number::int(0) } else { ClosedForm::sent(self, v) }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        if shape.ranks > 1 {
            ClosedForm::steps(self, shape, emit);
        }
    }

    fn stages(&self, shape: &Shape) -> Option<Stages> {
        if shape.ranks > 1 { ClosedForm::stages(self, shape) } else { None }
    }

    fn is_pipelined(&self) -> bool {
        ClosedForm::is_pipelined(self)
    }

    fn shipped(&self, shape: &Shape) -> Vec<(Library, &'static str)> {
        shipped(self, shape).collect()
    }

    fn is_shipped(&self, library: Option<Library>, shape: &Shape) -> bool {
        shipped(self, shape).any(|(l, _)| library.is_none_or(|asked| asked == l))
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        ClosedForm::ports_needed(self, shape)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        ClosedForm::schedule(self, shape)
    }
}

fn stated<A: ClosedForm, F: Field>(algorithm: &A, v: &At<F>, form: Form) -> Option<Cost<F>> {
    if v.shape.ranks <= 1 {
        return Some(Cost::zero());
    }
    match form {
        Form::Exact => Some(algorithm.cost(v)),
        Form::Paper => algorithm.paper(v).or_else(|| Some(algorithm.cost(v))),
        Form::Asymptotic => algorithm.asymptotic(v),
    }
}

/// The coefficients of `algorithm` for a concrete shape, all phases together.
#[must_use]
pub fn coefficients(algorithm: &dyn Algorithm, shape: Shape) -> Phase<f64> {
    algorithm.price(&At::numbers(shape)).total()
}

#[cfg(test)]
mod tests;
