//! Recursive multiplying: the all-reduce of recursive doubling with K ranks at a time.
//!
//! ```text
//!   K = 3, N = 9     step 0   {0 1 2} {3 4 5} {6 7 8}    all ranks of a set exchange
//!                    step 1   {0 3 6} {1 4 7} {2 5 8}    whole vectors
//! ```
//!
//! N = K^m, m = log(K, N) steps; in each a rank exchanges its vector with the K − 1 ranks that
//! differ in one digit. On one port it takes m(K − 1)(α + M/BW); on k ports ⌈(K − 1)/k⌉ messages
//! per step; on K − 1 ports m(α + M/BW). `radix` is K, 4 by default; K = 2 is recursive doubling.
//! One half-duplex port takes ×2 for pairs, ×3 at most otherwise. MPICH ships it as `recexch`.

use super::rounds::{digit_guarantee, digit_steps, digit_waves, digits, levels, log};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Share, Step};
use crate::base::collective::Collective::AllReduce;
use crate::model::formula::{At, Cost, Field, Function, Named, Shape};
use crate::model::schedule::Schedule;
use crate::model::schedule::digits::Whole;

/// Recursive multiplying.
pub static FAMILY: &[&dyn Algorithm] = &[&RecursiveMultiplying];

struct RecursiveMultiplying;

impl ClosedForm for RecursiveMultiplying {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "recursive-multiplying",
            title: "recursive multiplying",
            collectives: &[AllReduce],
            aliases: &["recursive_multiplying", "rec_multiplying", "rec_multiplying_ar"],
            known_as: &[(Library::Mpich, &[AllReduce], "recexch")],
            summary: "in each step the K ranks that differ in one digit exchange whole vectors",
            source: "MPICH recexch; generalized collective algorithms, IEEE CLUSTER 2023",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        match digits(shape.ranks.into(), radix(shape).into()) {
            Some(_) => Ok(()),
            None => {
                let (n, k) = (shape.ranks, radix(shape));
                Err(Reason::from(format!("{n} ranks are not a power of the radix {k}")))
            }
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let k = radix(&v.shape);
        let known = levels(&v.shape, k).into();
        let steps = F::call(Function::Named(&LOG), &[&F::int(k.into()), &v.n], known);
        let messages = F::int(digit_waves(&v.shape, k).into()) * steps.clone();
        Cost::new(messages.clone(), messages).reducing((F::int(k.into()) - F::int(1)) * steps)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        digit_guarantee(shape, radix(shape))
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let k = radix(&v.shape);
        F::int((levels(&v.shape, k) * (k - 1)).into())
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let k = radix(shape);
        for s in 0..levels(shape, k) {
            digit_steps(shape, k, k.pow(s), Share::ALL, true, emit);
        }
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        radix(shape) - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Whole::new(shape.ranks, radix(shape))))
    }
}

/// K.
fn radix(shape: &Shape) -> u32 {
    shape.params.radix.unwrap_or(4)
}

static LOG: Named =
    Named { name: "log", means: "log(k, N) = lg N/lg k, a whole number", rule: log };
