//! A call as the tuner sees it, and its answer.

use std::str::FromStr;

use super::{Algo, Function, Micros, Proto, Version, since};
use crate::base::dtype::DataType;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;

/// The input of the tuner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: Function,
    /// The largest buffer: the vector, or for all-gather and reduce-scatter all ranks' blocks.
    pub size: Bytes,
    /// How many steps' worth of operations a group holds; 1 for a single call.
    pub pipelined: u32,
}

/// The answer of the tuner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// The algorithm.
    pub algo: Algo,
    /// The protocol.
    pub proto: Proto,
    /// The most channels.
    pub channels: u32,
    /// Threads of a block.
    pub threads: u32,
    /// The tuner's own estimate; old versions have none for a single rank.
    pub time: Option<Micros>,
}

/// The reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Operation {
    /// Sum.
    #[default]
    Sum,
    /// Least or greatest.
    MinMax,
    /// Product.
    Product,
    /// Average, and sums that are scaled first.
    Scaled,
}

impl FromStr for Operation {
    type Err = Error;

    /// Reads `sum`, `min`, `max`, `prod`, `avg`.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "sum" => Self::Sum,
            "min" | "max" => Self::MinMax,
            "prod" => Self::Product,
            "avg" | "mulsum" => Self::Scaled,
            _ => {
                return Err(Error::input(format!("`{text}` is not an operation of NCCL"))
                    .help("known: sum, min, max, prod, avg"));
            }
        })
    }
}

/// The data type and the operation of a reduction. The default is a sum of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reduction {
    /// The data type.
    pub element: DataType,
    /// The operation.
    pub operation: Operation,
}

impl Default for Reduction {
    fn default() -> Self {
        Self { element: DataType::F32, operation: Operation::Sum }
    }
}

impl Reduction {
    /// Whether elements are 16-bit floats.
    pub(super) fn is_half(self) -> bool {
        matches!(self.element, DataType::F16 | DataType::Bf16)
    }

    /// Whether a switch has units for it.
    pub(crate) fn is_added_in_switch(self) -> bool {
        let is_large = matches!(self.element, DataType::F32 | DataType::F64);
        match self.operation {
            Operation::Sum => self.is_addable(),
            Operation::MinMax => self.is_addable() && !is_large,
            Operation::Product | Operation::Scaled => false,
        }
    }

    /// Whether NCCL takes a ring of so many ranks only if nothing else can run. It gathers and
    /// broadcasts bytes, whatever the data type.
    pub(crate) fn shuns_rings(self, function: Function, ranks: u32) -> bool {
        self.element.is_fp8() && function.collective().reduces() && ranks > 8
    }

    /// Whether a release takes such calls on GPUs whose lowest compute capability is `min_cc`; if
    /// not, they return `ncclInvalidArgument` (`taskAppend`, `src/enqueue.cc`).
    pub(super) fn is_taken(self, version: Version, function: Function, min_cc: u32) -> bool {
        let moves = !function.collective().reduces() && version.has(since::FP8_MOVES_ANYWHERE);
        !self.element.is_fp8() || version.has(since::FP8) && (min_cc >= FP8_GPU || moves)
    }

    /// Refuses calls that a release refuses.
    ///
    /// # Errors
    /// 8-bit floats in releases without them, and on GPUs that do not add them.
    pub fn check(self, version: Version, function: Function, min_cc: u32) -> Result<()> {
        if self.is_taken(version, function, min_cc) {
            return Ok(());
        }
        Err(match version.has(since::FP8) {
            false => Error::unsupported(format!("NCCL {version} has no 8-bit floats"))
                .help("name 2.24.3 or a later release, or another type"),
            true => Error::unsupported(format!(
                "NCCL {version} returns an error for {function} of 8-bit floats on GPUs of compute \
                 capability {min_cc}"
            ))
            .help(format!("it takes them from {FP8_GPU} on (H100): name another type")),
        })
    }

    /// Whether elements are of a type that switches add.
    pub(super) fn is_addable(self) -> bool {
        use DataType as D;
        matches!(self.element, D::F64 | D::F32 | D::I64 | D::U64 | D::I32 | D::U32)
            || self.is_half()
    }
}

/// The compute capability from which on GPUs add 8-bit floats.
const FP8_GPU: u32 = 90;

/// Reads a data type of NCCL's, such as `float`, `bf16` or `int32`.
///
/// # Errors
/// Another name, also of a type that NCCL does not have.
pub fn element(text: &str) -> Result<DataType> {
    DataType::named(text.trim()).and_then(known).ok_or_else(|| no_type(text))
}

/// A data type if NCCL has it.
pub(super) fn known(element: DataType) -> Option<DataType> {
    (!matches!(element, DataType::I16 | DataType::U16)).then_some(element)
}

/// The error about another data type.
pub(super) fn no_type(text: &str) -> Error {
    Error::input(format!("`{text}` is not a data type of NCCL"))
        .help("known: float, double, half, bf16, int32, int64, int8, fp8")
}
