//! Where the tokens of a layer of experts go, and the bytes on each kind of link.
//!
//! A plain all-to-all sends a token once for each of its k experts. A dispatch that knows nodes
//! sends it once to each node that it needs, and the node forwards it: then a token crosses the
//! network once per node that it hits, not once per expert. With routing limited to L of D nodes
//! and k of E experts, uniformly,
//!
//! ```text
//! nodes hit = L·(1 − C(E_L − E/D, k)/C(E_L, k))      E_L = L·E/D
//! ```
//!
//! and likewise ranks hit. (D − 1)/D of the nodes hit are others. DeepEP's tables count all nodes
//! hit, its own among them: a logical rate, above the wire's (deepseek-ai/DeepEP issue 285).

use crate::base::quantity::{Bytes, Ratio, Volume};
use crate::machine::sample::DataType;
use crate::measure::expect::hit;

/// How tokens are routed to experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// Routed experts.
    pub experts: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Nodes that a token may go to; absent: it goes once to every expert, a plain all-to-all.
    pub node_limit: Option<u32>,
    /// The busiest rank's tokens over the mean.
    pub skew: Ratio,
    /// The type in which tokens are dispatched, and their gradients.
    pub dispatch: DataType,
    /// Kernels that carry them: `deepep-normal`, `deepep-ll`; absent: priced from the bytes on each
    /// link.
    pub kernels: Option<&'static str>,
}

/// Measured kernels for traffic between experts.
pub(super) const KERNELS: [&str; 2] = [NORMAL, LOW_LATENCY];
/// DeepEP's, which forward tokens inside nodes …
pub(super) const NORMAL: &str = "deepep-normal";
/// … and which send every copy.
pub(super) const LOW_LATENCY: &str = "deepep-ll";

/// Bytes that a rank sends, for one dispatch or combine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// To other nodes.
    pub between: Volume,
    /// Inside nodes.
    pub inside: Volume,
    /// To all nodes including its own, as DeepEP's rates count.
    pub logical: Volume,
    /// Once to every expert, as without knowledge of nodes: k times the tokens.
    pub plain: Volume,
    /// Nodes that a token hits, on average.
    pub nodes_hit: Ratio,
    /// Ranks that it hits.
    pub ranks_hit: Ratio,
}

impl Routing {
    /// Whether a token goes once to each of its experts, and not once to each node.
    pub(crate) fn sends_every_copy(&self) -> bool {
        match self.kernels {
            Some(kernels) => kernels == LOW_LATENCY,
            None => self.node_limit.is_none(),
        }
    }

    /// The traffic of `tokens` tokens of `width` bytes, over `ranks` ranks on `nodes` nodes.
    #[must_use]
    pub fn traffic(&self, tokens: f64, width: Bytes, ranks: u32, nodes: u32) -> Traffic {
        let (ranks, nodes) = (f64::from(ranks.max(1)), f64::from(nodes.max(1)));
        let experts = f64::from(self.experts);
        let limit = self.node_limit.map_or(nodes, |l| f64::from(l).min(nodes));
        let open = experts * limit / nodes;
        let each = ranks / nodes;
        let nodes_hit = limit * hit(open, experts / nodes, self.top_k);
        let ranks_hit = limit * each * hit(open, experts / ranks, self.top_k);
        let bytes = tokens * width.0 as f64;
        let others = (nodes - 1.0) / nodes;
        Traffic {
            between: Volume(bytes * nodes_hit * others),
            inside: Volume(bytes * ranks_hit * (each - 1.0) / each),
            logical: Volume(bytes * nodes_hit),
            plain: Volume(bytes * f64::from(self.top_k)),
            nodes_hit: Ratio(nodes_hit),
            ranks_hit: Ratio(ranks_hit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DeepSeek-V3's layer on 64 ranks: each token reaches 3.9 of its 4 nodes with 8 experts.
    #[test]
    fn a_token_crosses_once_a_node() {
        let routing = Routing {
            experts: 256,
            top_k: 8,
            node_limit: Some(4),
            skew: Ratio(1.0),
            dispatch: DataType::F8e4m3,
            kernels: None,
        };
        let traffic = routing.traffic(4096.0, Bytes(7168), 64, 8);
        // 8 of 128 experts are drawn; all 32 of a node are missed once in 10.6 times.
        let missed: f64 = (0..8).map(|i| (96.0 - f64::from(i)) / (128.0 - f64::from(i))).product();
        assert!((traffic.nodes_hit.0 - 4.0 * (1.0 - missed)).abs() < 1e-12);
        let tokens = 4096.0 * 7168.0;
        assert!((traffic.between.0 - tokens * traffic.nodes_hit.0 * 7.0 / 8.0).abs() < 1.0);
        assert!(traffic.between.0 < traffic.logical.0 && traffic.logical.0 < traffic.plain.0 / 2.0);
        // One node sends nothing out; one expert hits one rank.
        let alone = Routing { node_limit: None, top_k: 1, ..routing }.traffic(1.0, Bytes(1), 8, 1);
        assert_eq!((alone.between.0, alone.ranks_hit.0), (0.0, 1.0));
    }
}
