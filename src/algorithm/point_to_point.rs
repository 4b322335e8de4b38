//! One rank sends a vector to another.
//!
//! ```text
//!   0 ──► 1
//! ```
//!
//! α + M/BW under any ports: one message, one direction of one link. It is the unit in which all
//! other costs are counted (Hockney, Parallel Computing 20(3) 1994).

use super::{Algorithm, ClosedForm, Meta, Route, Share, Step};
use crate::collective::Collective::SendRecv;
use crate::formula::{At, Cost, Field, Shape};

/// The single message.
pub static FAMILY: &[&dyn Algorithm] = &[&Message];

struct Message;

impl ClosedForm for Message {
    fn meta(&self) -> &'static Meta {
        static META: Meta = Meta {
            id: "p2p",
            title: "one message",
            collectives: &[SendRecv],
            aliases: &["point-to-point", "send", "message"],
            known_as: &[],
            summary: "the sender's vector goes to the receiver in one message",
            source: "Hockney, Parallel Computing 20(3) 1994",
        };
        &META
    }

    fn cost<F: Field>(&self, _: &At<F>) -> Cost<F> {
        Cost::new(F::int(1), F::int(1))
    }

    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(1)
    }

    fn steps(&self, _: &Shape, emit: &mut dyn FnMut(Step)) {
        emit(Step::new(1_u32, Share::ALL, Route::Root));
    }
}
