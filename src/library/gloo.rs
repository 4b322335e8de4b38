//! Gloo: one algorithm per collective, for any size.
//!
//! The new interface maps an unspecified all-reduce to the ring and never to bcube. Halving and
//! doubling is in classes that a caller must name (`allreduce_halving_doubling.h`).
//!
//! Source: facebookincubator/gloo at cc44198: `gloo/{allreduce,allgather,allgatherv,broadcast,reduce,
//! alltoall,alltoallv,gather,scatter,barrier}.cc`.

use super::{Call, Choice, Entry, Flavour, Made, Meta, Part, Policy, Runs, Where};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::model::algorithm::Library;

/// Bytes of the largest segment.
const SEGMENT: u64 = 1 << 20;

/// Gloo.
pub(super) const GLOO: Entry = Entry {
    id: "gloo",
    aliases: &[],
    made: Made::Plain {
        library: Some(Library::Gloo),
        title: "Gloo's default algorithms, which do not depend on the size",
        counts: "nothing: no rule depends on the size",
        source: "facebookincubator/gloo at cc44198, gloo/allreduce.cc and its neighbours",
        make: |meta, _| Ok(Box::new(Gloo { meta })),
    },
};

struct Gloo {
    meta: Meta,
}

/// The parts into which the ring cuts the vector: at most 1 MiB each, at least two per rank, and
/// equally many for each rank.
fn segments(size: Bytes, ranks: u32) -> u64 {
    let ranks = u64::from(ranks.max(1));
    let least = size.0.div_ceil(SEGMENT).max(2 * ranks);
    least.div_ceil(ranks) * ranks
}

impl Policy for Gloo {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let n = call.ranks;
        let whole = |ours| Runs::whole(call.collective, n, ours);
        let choice = match call.collective {
            C::AllReduce => {
                let parts = segments(call.size, n);
                let rule = "any size: the ring is the default";
                let note = format!(
                    "the vector is sent in {parts} segments of at most 1 MiB, two or more per rank, \
                     so that sending overlaps reduction; priced as the plain ring"
                );
                Choice { notes: vec![note.into()], ..Choice::new("ring", rule, whole("ring")) }
            }
            C::AllGather if call.flavour == Flavour::Vector => {
                Choice::new("ring", "any size", whole("ring"))
            }
            C::AllGather => {
                let note =
                    "each block is sent in two halves, both in flight; priced as the plain ring";
                let rule = "any size";
                Choice { notes: vec![note.into()], ..Choice::new("ring", rule, whole("ring")) }
            }
            C::Broadcast => {
                Choice::new("binomial tree", "any size, no segments", whole("binomial"))
            }
            C::Reduce => {
                let parts = vec![
                    Part::new(C::ReduceScatter, n, Where::All, "ring"),
                    Part::new(C::Gather, n, Where::All, "flat"),
                ];
                let rule = "any size: a ring reduce-scatter, then a gather to the root";
                Choice::new("ring, then gather", rule, Runs::Parts(parts))
            }
            C::AllToAll => {
                let rule = "any size: all sends are posted at once, in rotated order";
                Choice::new("linear", rule, whole("direct"))
            }
            C::Gather => {
                let rule = "any size: the root posts all receives at once";
                Choice::new("linear", rule, whole("flat"))
            }
            C::Scatter => {
                let rule = "any size: the root posts all sends at once";
                Choice::new("linear", rule, whole("flat"))
            }
            C::Barrier => Choice::new("dissemination", "any ranks", whole("dissemination")),
            _ => {
                return Err(Error::unsupported(format!(
                    "gloo has no rule for {}",
                    call.operation()
                ))
                .help(
                    "ask for allreduce, allgather, broadcast, reduce, alltoall, gather, scatter or barrier",
                ));
            }
        };
        Ok(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_whole_rounds() {
        assert_eq!(segments(Bytes(1), 4), 8);
        assert_eq!(segments(Bytes(8 << 20), 4), 8);
        assert_eq!(segments(Bytes((8 << 20) + 1), 4), 12);
    }
}
