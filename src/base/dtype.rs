//! The type of an element, under the names of NCCL, MPI, Neuron and frameworks.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result, did_you_mean};
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

/// What is known of a type.
struct Known {
    dtype: DataType,
    bytes: u64,
    /// What nccl-tests calls it, if NCCL has it.
    nccl: Option<&'static str>,
    /// The first is the one written.
    names: &'static [&'static str],
}

const fn known(
    dtype: DataType,
    bytes: u64,
    nccl: Option<&'static str>,
    names: &'static [&'static str],
) -> Known {
    Known { dtype, bytes, nccl, names }
}

/// In the order of the types: [`DataType::known`] looks there.
const KNOWN: &[Known] = &[
    known(D::F64, 8, Some("double"), &["f64", "double", "fp64", "float64", "mpi_double"]),
    known(D::F32, 4, Some("float"), &["f32", "float", "fp32", "float32", "mpi_float"]),
    known(D::F16, 2, Some("half"), &["f16", "half", "fp16", "float16"]),
    known(D::Bf16, 2, Some("bfloat16"), &["bf16", "bfloat16"]),
    // fp8 alone is one of two types of the same length.
    known(D::F8e4m3, 1, Some("f8e4m3"), &["f8e4m3", "fp8_e4m3", "fp8e4m3", "fp8"]),
    known(D::F8e5m2, 1, Some("f8e5m2"), &["f8e5m2", "fp8_e5m2", "fp8e5m2"]),
    known(D::I64, 8, Some("int64"), &["i64", "int64"]),
    known(D::U64, 8, Some("uint64"), &["u64", "uint64"]),
    known(D::I32, 4, Some("int32"), &["i32", "int32", "int", "mpi_int"]),
    known(D::U32, 4, Some("uint32"), &["u32", "uint32"]),
    known(D::I16, 2, None, &["i16", "int16"]),
    known(D::U16, 2, None, &["u16", "uint16"]),
    known(D::I8, 1, Some("int8"), &["i8", "int8"]),
    known(D::U8, 1, Some("uint8"), &["u8", "uint8"]),
    known(D::Byte, 1, None, &["byte", "mpi_char", "mpi_byte", "char"]),
];

impl DataType {
    fn known(self) -> &'static Known {
        &KNOWN[self as usize]
    }

    /// The name in files.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.known().names[0]
    }

    /// What nccl-tests calls it; `None` if it has no such type.
    #[must_use]
    pub fn nccl_name(self) -> Option<&'static str> {
        self.known().nccl
    }

    /// Whether it is a floating point number.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, D::F64 | D::F32 | D::F16 | D::Bf16) || self.is_fp8()
    }

    /// Whether it is a floating point number of 8 bits.
    #[must_use]
    pub fn is_fp8(self) -> bool {
        matches!(self, D::F8e4m3 | D::F8e5m2)
    }

    /// Bytes per element.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        Bytes(self.known().bytes)
    }

    /// The type of that name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        KNOWN.iter().find(|known| known.names.iter().any(&is)).map(|known| known.dtype)
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
        let text = text.trim();
        Self::named(text).ok_or_else(|| {
            let names = KNOWN.iter().flat_map(|known| known.names.iter().copied());
            Error::input(format!("`{text}` is not a data type")).help(did_you_mean(
                &text.to_ascii_lowercase(),
                names,
                || "write f32, f16, bf16, f64, i8, u8, byte …".to_owned(),
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_type() {
        let all: Vec<&str> = KNOWN.iter().flat_map(|known| known.names.iter().copied()).collect();
        for (i, name) in all.iter().enumerate() {
            assert!(!all[..i].contains(name), "{name}");
        }
        for (place, &Known { dtype, bytes, nccl, names }) in KNOWN.iter().enumerate() {
            assert_eq!((dtype as usize, dtype.bytes()), (place, Bytes(bytes)));
            assert!(names.iter().chain(&nccl).all(|name| DataType::named(name) == Some(dtype)));
        }
        assert_eq!(DataType::named("MPI_FLOAT"), Some(DataType::F32));
        assert!("floaty".parse::<DataType>().unwrap_err().to_string().contains("`float`"));
    }
}
