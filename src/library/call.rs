//! The question to a policy: one call of a collective, and where it is made.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::engines::Conditions;
use crate::library::nccl::topology::Description;
use crate::machine::fabric::Fabric;
use crate::machine::profile::{Hardware, Nccl, NcclTuner};
use crate::machine::query::Query;
use crate::model::formula::Protocol;

/// MPI's variants of a collective; libraries have separate rules for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flavour {
    /// The collective itself; for reduce-scatter, the call with a count per rank.
    #[default]
    Plain,
    /// `MPI_Reduce_scatter_block`: the same count for every rank.
    Block,
    /// `MPI_Alltoallv`, `MPI_Allgatherv`: a separate count for every rank.
    Vector,
}

/// A collective and its variant, as people type it: `allreduce`, `MPI_Alltoallv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The collective.
    pub collective: Collective,
    /// The variant.
    pub flavour: Flavour,
}

/// One call of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub collective: Collective,
    /// Its variant.
    pub flavour: Flavour,
    /// N, the ranks of the communicator.
    pub ranks: u32,
    /// The nodes that the ranks are on, equally many ranks on each.
    pub nodes: u32,
    /// M, as [`Collective`] has it. A rank's block is the whole bytes of M over N.
    pub size: Bytes,
    /// Bytes of an element; counts are whole elements.
    pub element: Bytes,
    /// Whether the operation commutes; all predefined ones do.
    pub commutative: bool,
    /// Whether the operation is predefined, such as `MPI_SUM`.
    pub builtin_op: bool,
    /// Whether the call works in place.
    pub in_place: bool,
}

/// What is known about the machine; policies that choose by hardware need it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Site {
    /// The profile's name, such as `dgx-h100`.
    pub machine: String,
    /// The name for people, such as `DGX H100: 8 x H100 SXM on NVSwitch`.
    pub title: String,
    /// N.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// The name under which NCCL's graphs on it are known, such as `dgx_h100_8x400g`.
    pub nccl_graphs: Option<String>,
    /// What NCCL ran on it when it was measured.
    pub nccl_measured: Option<Arc<Nccl>>,
    /// The tuner that NCCL loads on it.
    pub nccl_tuner: Option<NcclTuner>,
    /// The input of NCCL's own search, if the profile has it.
    pub topology: Option<Arc<Description>>,
    /// The only protocol that NCCL may choose; absent: any.
    pub protocol: Option<Protocol>,
    /// Its links and switches, if known.
    pub fabric: Option<Fabric>,
    /// Its hardware, if known.
    pub hardware: Option<Hardware>,
    /// How a program makes its calls; the rules of engines depend on it.
    pub conditions: Conditions,
}

impl Call {
    /// A call of float32 sums over `ranks` ranks on one node, out of place.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32, size: Bytes) -> Self {
        Self {
            collective,
            flavour: Flavour::Plain,
            ranks,
            nodes: 1,
            size,
            element: Bytes(4),
            commutative: true,
            builtin_op: true,
            in_place: false,
        }
    }

    /// The call of a question: its collective, ranks, nodes, size and element.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        let Query { shape, placement, size, .. } = query;
        let call = Self::new(shape.collective, shape.ranks, *size);
        Self { nodes: placement.nodes(), element: query.element.unwrap_or(call.element), ..call }
    }

    /// The same with another M.
    #[must_use]
    pub fn with_size(self, size: Bytes) -> Self {
        Self { size, ..self }
    }

    /// Whole elements in M; one if M is a part of one, since there are no smaller calls.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.size.0 / self.element.0.max(1)).max(self.size.0.min(1))
    }

    /// Refuses a reduction of parts of elements, which nobody can call.
    ///
    /// # Errors
    /// The size is no multiple of the element's.
    pub fn refuse_parts(&self) -> Result<()> {
        let Self { size, element, .. } = *self;
        if !self.collective.reduces() || size.0.is_multiple_of(element.0.max(1)) {
            return Ok(());
        }
        let (size, element) = (size.0, element.0);
        Err(Error::input(format!("{size} B are no whole number of elements of {element} B"))
            .at(format!("{size}B"))
            .help(format!(
                "give a multiple of {element} B, or the type of the elements: --dtype char"
            )))
    }

    /// The whole bytes of one rank's block: M over N.
    #[must_use]
    pub fn block(&self) -> Bytes {
        Bytes(self.size.0 / u64::from(self.ranks.max(1)))
    }

    /// Ranks on each node.
    #[must_use]
    pub fn per_node(&self) -> u32 {
        self.ranks.div_ceil(self.nodes.max(1))
    }

    /// Whether there are several nodes with several ranks each.
    #[must_use]
    pub fn is_tiered(&self) -> bool {
        self.nodes > 1 && self.per_node() > 1
    }

    /// The operation with its variant.
    #[must_use]
    pub fn operation(&self) -> Operation {
        Operation { collective: self.collective, flavour: self.flavour }
    }
}

impl From<Collective> for Operation {
    fn from(collective: Collective) -> Self {
        Self { collective, flavour: Flavour::Plain }
    }
}

impl FromStr for Operation {
    type Err = Error;

    /// Reads what [`Collective`] reads, and `alltoallv`, `allgatherv`, `reduce_scatter_block`.
    fn from_str(text: &str) -> Result<Self> {
        let plain: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        let plain = plain.to_ascii_lowercase();
        let variant = |end: &str, of: Collective, flavour: Flavour| {
            let stem = plain.strip_suffix(end)?;
            (stem.parse::<Collective>().ok()? == of).then_some(Self { collective: of, flavour })
        };
        let found = variant("v", Collective::AllToAll, Flavour::Vector)
            .or_else(|| variant("v", Collective::AllGather, Flavour::Vector))
            .or_else(|| variant("block", Collective::ReduceScatter, Flavour::Block));
        found.map_or_else(|| text.parse::<Collective>().map(Self::from), Ok)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.collective.id())?;
        f.write_str(match self.flavour {
            Flavour::Plain => "",
            Flavour::Block => "-block",
            Flavour::Vector => "v",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_read_as_people_type_them() {
        let vector = Operation { collective: Collective::AllToAll, flavour: Flavour::Vector };
        for text in ["alltoallv", "MPI_Alltoallv", "a2av"] {
            assert_eq!(text.parse::<Operation>().unwrap(), vector, "{text}");
        }
        let block: Operation = "MPI_Reduce_scatter_block".parse().unwrap();
        assert_eq!(block.flavour, Flavour::Block);
        assert_eq!("ar".parse::<Operation>().unwrap(), Collective::AllReduce.into());
        assert!("allreducev".parse::<Operation>().is_err());
    }

    #[test]
    fn a_reduction_is_of_whole_elements() {
        let call = |collective, size| Call::new(collective, 4, Bytes(size));
        let error = call(Collective::AllReduce, 3).refuse_parts().unwrap_err().to_string();
        assert!(error.contains("3 B") && error.contains("--dtype"), "{error}");
        let chars = Call { element: Bytes(1), ..call(Collective::AllReduce, 3) };
        for call in [chars, call(Collective::AllReduce, 8), call(Collective::Broadcast, 3)] {
            assert!(call.refuse_parts().is_ok(), "{call:?}");
        }
    }

    #[test]
    fn operations_are_read_back() {
        for text in ["allreduce", "alltoallv", "reducescatter-block", "allgatherv"] {
            assert_eq!(text.parse::<Operation>().unwrap().to_string(), text);
        }
    }
}
