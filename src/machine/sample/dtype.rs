//! The type of an element, under the names of NCCL, MPI, Neuron and frameworks.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;

/// The type of the elements that were moved or added.
///
/// It is part of the operation: NCCL 2.27 adds halves in the switch, but not 8-bit integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DataType {
    /// 64-bit floating point.
    F64,
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point, IEEE 754.
    F16,
    /// 16-bit floating point with the exponent of 32 bits.
    Bf16,
    /// 8-bit floating point, four bits of exponent.
    F8e4m3,
    /// 8-bit floating point, five bits of exponent.
    F8e5m2,
    /// 64-bit integer.
    I64,
    /// 64-bit integer without sign.
    U64,
    /// 32-bit integer.
    I32,
    /// 32-bit integer without sign.
    U32,
    /// 16-bit integer.
    I16,
    /// 16-bit integer without sign.
    U16,
    /// 8-bit integer.
    I8,
    /// 8-bit integer without sign.
    U8,
    /// Bytes that are not added: `MPI_CHAR`, `MPI_BYTE`.
    Byte,
}

use DataType as D;

/// Each type with its bytes and its names; the first name is the one written.
const NAMES: &[(DataType, u64, &[&str])] = &[
    (D::F64, 8, &["f64", "double", "fp64", "float64", "mpi_double"]),
    (D::F32, 4, &["f32", "float", "fp32", "float32", "mpi_float"]),
    (D::F16, 2, &["f16", "half", "fp16", "float16"]),
    (D::Bf16, 2, &["bf16", "bfloat16"]),
    (D::F8e4m3, 1, &["f8e4m3", "fp8_e4m3", "fp8e4m3"]),
    (D::F8e5m2, 1, &["f8e5m2", "fp8_e5m2", "fp8e5m2"]),
    (D::I64, 8, &["i64", "int64"]),
    (D::U64, 8, &["u64", "uint64"]),
    (D::I32, 4, &["i32", "int32", "int", "mpi_int"]),
    (D::U32, 4, &["u32", "uint32"]),
    (D::I16, 2, &["i16", "int16"]),
    (D::U16, 2, &["u16", "uint16"]),
    (D::I8, 1, &["i8", "int8"]),
    (D::U8, 1, &["u8", "uint8"]),
    (D::Byte, 1, &["byte", "mpi_char", "mpi_byte", "char"]),
];

impl DataType {
    /// The name in files.
    #[must_use]
    pub fn id(self) -> &'static str {
        NAMES.iter().find(|(d, ..)| *d == self).map_or("", |(_, _, names)| names[0])
    }

    /// Whether it is a floating point number.
    #[must_use]
    pub fn is_float(self) -> bool {
        use DataType as D;
        matches!(self, D::F64 | D::F32 | D::F16 | D::Bf16 | D::F8e4m3 | D::F8e5m2)
    }

    /// Bytes per element.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        Bytes(NAMES.iter().find(|(d, ..)| *d == self).map_or(1, |&(_, bytes, _)| bytes))
    }

    /// The type of that name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        NAMES.iter().find(|(_, _, names)| names.iter().any(&is)).map(|&(d, ..)| d)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl FromStr for DataType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::named(text).ok_or_else(|| {
            Error::input(format!("`{text}` is not a data type"))
                .help("write f32, f16, bf16, f64, i8, u8, byte …")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_type() {
        let all: Vec<&str> = NAMES.iter().flat_map(|(_, _, names)| names.iter().copied()).collect();
        for (i, name) in all.iter().enumerate() {
            assert!(!all[..i].contains(name), "{name}");
        }
        for (dtype, bytes, names) in NAMES {
            assert!(names.iter().all(|n| DataType::named(n) == Some(*dtype)));
            assert_eq!(dtype.bytes(), Bytes(*bytes));
        }
        assert_eq!(DataType::named("MPI_FLOAT"), Some(DataType::F32));
    }
}
