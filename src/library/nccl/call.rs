//! A call as the tuner sees it, and its answer.

use std::str::FromStr;

use super::{Algo, Function, Micros, Proto};
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

/// The data type of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Element {
    /// 32-bit floats.
    #[default]
    Float,
    /// 64-bit floats.
    Double,
    /// Half and bfloat16.
    Half,
    /// 32- and 64-bit integers.
    Integer,
    /// 8-bit floats.
    Fp8,
    /// 8-bit integers.
    Byte,
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

impl FromStr for Element {
    type Err = Error;

    /// Reads a data type's name, such as `float`, `bf16` or `int32`.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "float" | "fp32" | "f32" | "float32" => Self::Float,
            "double" | "fp64" | "f64" | "float64" => Self::Double,
            "half" | "fp16" | "f16" | "float16" | "bf16" | "bfloat16" => Self::Half,
            "int32" | "uint32" | "int64" | "uint64" | "int" => Self::Integer,
            "fp8" | "f8e4m3" | "f8e5m2" => Self::Fp8,
            "int8" | "uint8" | "char" => Self::Byte,
            _ => {
                return Err(Error::input(format!("`{text}` is not a data type of NCCL"))
                    .help("known: float, double, half, bf16, int32, int64, int8, fp8"));
            }
        })
    }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Reduction {
    /// The data type.
    pub element: Element,
    /// The operation.
    pub operation: Operation,
}
