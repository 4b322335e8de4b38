//! The rules by which libraries choose, according to texts.
//!
//! `textbook` is spiceMonkey/collective-comm 01. It chooses in-network wherever the switch can do it.
//! Otherwise it chooses by regime: the tree for small vectors and the ring for large ones, with the
//! size between them from the text's own caveat (a tree that reaches half of its bandwidth,
//! c_real = 2). It chooses the ring for all-gather and reduce-scatter, or PAT with one
//! rank per node; pairwise for all-to-all on a non-blocking fabric, otherwise the ring relay; always
//! the tree for a reduce.
//!
//! `textbook@thresholds` is a table that courses quote: the tree below 256 KB, "hybrid" up to 4 MB,
//! the ring above, for any ranks and rates.
//!
//! Source: spiceMonkey/collective-comm 01 §3.3, 4.3, 5.3, 6, 7.3.

use super::{Call, Choice, Entry, Made, Meta, Part, Policy, Runs, Where};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::fabric::{Fabric, Tier};
use crate::model::formula::ceil_lg;

/// Rules by regime and capability.
pub(super) const REGIMES: Entry = Entry {
    id: "textbook",
    aliases: &["textbook@regimes"],
    made: Made::Plain {
        library: None,
        title: "collective-comm's rules: in-network, else tree or ring by regime",
        counts: "M",
        source: "spiceMonkey/collective-comm 01 §3.3, 4.3, 5.3, 6, 7.3",
        make: |meta, site| {
            let fabric = site.fabric.clone().ok_or_else(|| {
                Error::unknown("`textbook` chooses by the capabilities of a machine")
                    .help("name a machine with --on")
            })?;
            Ok(Box::new(Regimes { meta, fabric }))
        },
    },
};

/// The table of sizes.
pub(super) const THRESHOLDS: Entry = Entry {
    id: "textbook@thresholds",
    aliases: &[],
    made: Made::Plain {
        library: None,
        title: "often-quoted thresholds: tree below 256 KB, ring above 4 MB",
        counts: "M, in KB of 1000 bytes",
        source: "a rule of thumb that courses quote without a source",
        make: |meta, _| Ok(Box::new(Thresholds { meta })),
    },
};

struct Regimes {
    meta: Meta,
    fabric: Fabric,
}

/// A tree's bandwidth term in practice, relative to its lower bound (01 §5.3).
const C_REAL: f64 = 2.0;

impl Regimes {
    /// The outermost tier that these ranks span, which decides.
    fn tier(&self, ranks: u32) -> Result<&Tier> {
        Ok(&self.fabric.tiers[self.fabric.depth(ranks)? - 1])
    }

    /// Whether the switch connects all ranks, and multicasts and reduces as requested.
    fn in_network(&self, ranks: u32, multicast: bool, alu: bool) -> bool {
        let inside = self.fabric.depth(ranks).is_ok_and(|depth| depth == 1);
        let switch = self.fabric.tiers.first().and_then(|t| t.switch);
        inside && switch.is_some_and(|s| (s.multicast || !multicast) && (s.alu || !alu))
    }

    /// The M above which the ring overtakes a tree that reaches 1/c of its bandwidth: 01 §5.3 for
    /// the all-reduce, and the same equation for the broadcast, as 01 §3.3 refers to it.
    fn ring_from(&self, call: &Call) -> Result<Option<Bytes>> {
        let tier = self.tier(call.ranks)?;
        let (alpha, inverse) = (tier.alpha()?, tier.inverse()?);
        let n = f64::from(call.ranks);
        let steps = n - 1.0 - f64::from(ceil_lg(call.ranks));
        let (alphas, floor) = match call.collective {
            C::AllReduce => (2.0 * steps, 2.0 * (n - 1.0) / n),
            _ => (steps, 1.0),
        };
        let size = alphas * alpha / inverse / (C_REAL - floor);
        Ok((size.is_finite() && size >= 0.0).then_some(Bytes(size.ceil() as u64)))
    }

    fn tree_or_ring(&self, call: &Call, tree: &'static str, ring: &'static str) -> Result<Choice> {
        Ok(match self.ring_from(call)? {
            Some(from) if call.size >= from && call.ranks > 2 => {
                let rule = format!("large: the ring is faster from {} bytes on", from.0);
                Choice::new("ring", rule, piped(call, ring))
            }
            from => {
                let rule = match from {
                    Some(from) if call.ranks > 2 => format!("small: below {} bytes", from.0),
                    _ => "any size: the ring is never faster".to_owned(),
                };
                let name = if tree == "binomial" { "binomial tree" } else { "double binary tree" };
                Choice::new(name, rule, piped(call, tree))
            }
        })
    }
}

impl Policy for Regimes {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let n = call.ranks;
        let whole = |ours| piped(call, ours);
        let switch = |rule: &str| Choice::new("in-network", rule, whole("inc"));
        Ok(match call.collective {
            C::AllReduce if self.in_network(n, true, true) => {
                switch("the switch connects all ranks, reduces and multicasts: any size")
            }
            C::Broadcast if self.in_network(n, true, false) => {
                switch("the switch connects all ranks and multicasts: any size")
            }
            C::Reduce if self.in_network(n, false, true) => {
                switch("the switch connects all ranks and reduces: any size")
            }
            C::AllReduce => self.tree_or_ring(call, "double-binary-tree", "ring")?,
            C::Broadcast => self.tree_or_ring(call, "binomial", "chain")?,
            C::Reduce => {
                let rule = "any size: the tree has the ring's lower bound and fewer steps";
                Choice::new("binomial tree", rule, whole("binomial"))
            }
            C::AllGather | C::ReduceScatter if call.nodes > 1 && call.per_node() == 1 => {
                Choice::new("PAT", "one rank per node: any size", whole("pat"))
            }
            C::AllGather | C::ReduceScatter => {
                Choice::new("ring", "any size: it pipelines and works for any N", whole("ring"))
            }
            C::AllToAll if self.tier(n)?.oversubscription.0 > 1.0 => {
                Choice::new("ring relay", "blocking fabric: any size", whole("ring-relay"))
            }
            C::AllToAll => {
                Choice::new("pairwise", "non-blocking fabric: any size", whole("pairwise"))
            }
            _ => {
                return Err(no_rule(
                    &self.meta,
                    call,
                    "broadcast, reduce, allreduce, allgather, \
                                                      reducescatter or alltoall",
                ));
            }
        })
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        self.choose(call)?;
        let by_size = matches!(call.collective, C::AllReduce | C::Broadcast);
        if by_size { Ok(self.ring_from(call)?.into_iter().collect()) } else { Ok(Vec::new()) }
    }
}

/// An algorithm over all ranks with the best number of segments.
fn piped(call: &Call, ours: &'static str) -> Runs {
    let part = Part::new(call.collective, call.ranks, Where::All, ours);
    Runs::Parts(vec![Part { best_segments: true, ..part }])
}

fn no_rule(meta: &Meta, call: &Call, known: &str) -> Error {
    Error::unsupported(format!("{} has no rule for {}", meta.id, call.operation()))
        .help(format!("ask for {known}"))
}

struct Thresholds {
    meta: Meta,
}

/// The tree is used below the first size, and the ring above the second; the second itself is not
/// included.
const TREE_BELOW: u64 = 256_000;
const HYBRID_TO: u64 = 4_000_000;

impl Policy for Thresholds {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        if call.collective != C::AllReduce {
            return Err(no_rule(&self.meta, call, "allreduce"));
        }
        let whole = |ours| piped(call, ours);
        Ok(match call.size.0 {
            ..TREE_BELOW => Choice::new("tree", "below 256 KB", whole("double-binary-tree")),
            TREE_BELOW..=HYBRID_TO => Choice::new(
                "hybrid",
                "256 KB to 4 MB",
                Runs::unpriced("the table does not say what a hybrid runs"),
            ),
            _ => Choice::new("ring", "above 4 MB", whole("ring")),
        })
    }

    fn edges(&self, call: &Call) -> Result<Vec<Bytes>> {
        self.choose(call)?;
        Ok(vec![Bytes(TREE_BELOW), Bytes(HYBRID_TO + 1)])
    }
}
