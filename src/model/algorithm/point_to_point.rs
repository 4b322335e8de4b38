//! One rank sends a vector to another.
//!
//! ```text
//!   0 ──► N − 1
//! ```
//!
//! Between the first and the last rank, which are the farthest apart. α + M/BW on any ports: one
//! message, one direction of one link. All other costs are counted in this unit (Hockney, Parallel
//! Computing 20(3) 1994).

use super::{Algorithm, ClosedForm, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::SendRecv;
use crate::model::formula::{At, Cost, Field, Shape};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The single message.
pub static FAMILY: &[&dyn Algorithm] = &[&Message];

struct Message;

impl ClosedForm for Message {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "p2p",
            title: "one message",
            collectives: &[SendRecv],
            aliases: &["point-to-point", "send", "message"],
            known_as: &[
                (Library::Nccl, &[SendRecv], "SendRecv"),
                (Library::Rccl, &[SendRecv], "SendRecv"),
            ],
            summary: "the sender's vector goes to the receiver in one message",
            source: "Hockney, Parallel Computing 20(3) 1994",
        }
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

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Sent { ranks: shape.ranks }))
    }
}

/// The message from the first rank to the last.
#[derive(Debug, Clone, Copy)]
struct Sent {
    ranks: u32,
}

impl Schedule for Sent {
    fn frame(&self) -> Frame {
        Frame::new(SendRecv, self.ranks, 1, u64::from(self.ranks > 1))
    }

    fn sends(&self, _: u64, from: Endpoint, out: &mut Sends) {
        if from == Endpoint::Rank(0) {
            out.push(Endpoint::Rank(self.ranks - 1), Op::Copy, [Run::one(0)]);
        }
    }
}
