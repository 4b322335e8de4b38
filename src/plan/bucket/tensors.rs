//! The gradients of a model: a list of tensors as frameworks print it, or their total bytes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::sample::DataType;

/// One parameter's gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The parameter's name.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
    /// The type of its elements.
    pub dtype: DataType,
    /// Whether its gradient is sparse: a sparse gradient is reduced alone.
    pub sparse: bool,
}

impl Tensor {
    /// A dense tensor of 32-bit floats.
    #[must_use]
    pub fn new(name: &str, bytes: Bytes) -> Self {
        Self { name: name.to_owned(), bytes, dtype: DataType::F32, sparse: false }
    }
}

/// The gradients of a model, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub enum Gradients {
    /// Every tensor, in the order of registration.
    Tensors(Vec<Tensor>),
    /// Only their bytes, which may be divided anywhere.
    Smooth {
        /// Bytes in all.
        bytes: Bytes,
        /// The type of the elements.
        dtype: DataType,
    },
}

impl Gradients {
    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Tensors(tensors) => {
                Bytes(tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes.0)))
            }
            Self::Smooth { bytes, .. } => *bytes,
        }
    }

    /// The type with the most bytes.
    #[must_use]
    pub fn dtype(&self) -> DataType {
        match self {
            Self::Tensors(tensors) => {
                let most = tensors.iter().max_by_key(|t| t.bytes);
                most.map_or(DataType::F32, |t| t.dtype)
            }
            Self::Smooth { dtype, .. } => *dtype,
        }
    }

    /// `count` tensors of `each` bytes.
    #[must_use]
    pub fn alike(count: u32, each: Bytes, dtype: DataType) -> Self {
        let tensor = |i| Tensor { dtype, ..Tensor::new(&format!("tensor {i}"), each) };
        Self::Tensors((0..count).map(tensor).collect())
    }

    /// Reads a list of parameters in JSON: names with shapes, as
    /// `{n: list(p.shape) for n, p in model.named_parameters()}` prints them; names with objects of
    /// `shape` and `dtype`, as in the header of a safetensors file; or a list of such pairs or
    /// objects. `dtype` is the type of entries that do not name one.
    ///
    /// # Errors
    /// Invalid JSON, an entry without shape, an unknown type, no entry at all.
    pub fn parse(text: &str, dtype: DataType) -> Result<Self> {
        let entries: Entries = serde_json::from_str(text).map_err(|e| {
            Error::input(format!("the list of parameters cannot be read: {e}")).help(ACCEPTED)
        })?;
        let tensors: Result<Vec<Tensor>> =
            entries.0.iter().map(|(name, entry)| tensor(name, entry, dtype)).collect();
        let tensors = tensors?;
        if tensors.is_empty() {
            return Err(Error::input("the list has no parameters").help(ACCEPTED));
        }
        // Buckets and gaps between tensors are added to this.
        let all = tensors.iter().try_fold(0_u64, |sum, tensor| sum.checked_add(tensor.bytes.0));
        if all.is_none_or(|all| all > MOST) {
            let what = "the parameters have more bytes together than can be counted";
            return Err(Error::input(what).help(ACCEPTED));
        }
        Ok(Self::Tensors(tensors))
    }
}

/// About an exabyte.
const MOST: u64 = 1 << 60;

const ACCEPTED: &str = "write {\"name\": [shape], …}, or a list of [\"name\", [shape]] or of \
                        {\"name\": …, \"shape\": […], \"dtype\": \"bf16\"}";

fn tensor(name: &str, entry: &Value, dtype: DataType) -> Result<Tensor> {
    let refuse = |what: String| Error::input(what).at(format!("parameter {name}")).help(ACCEPTED);
    let (shape, typed) = match entry {
        Value::Object(fields) => (fields.get("shape"), fields.get("dtype")),
        other => (Some(other), None),
    };
    let shape = shape.and_then(Value::as_array).ok_or_else(|| refuse("it has no shape".into()))?;
    let dtype = match typed {
        None => dtype,
        Some(typed) => {
            let text = typed.as_str().unwrap_or_default();
            let plain = text.trim_start_matches("torch.").to_ascii_lowercase();
            DataType::named(&plain)
                .ok_or_else(|| refuse(format!("`{typed}` is not a data type")))?
        }
    };
    let mut elements = 1_u64;
    for side in shape {
        let side =
            side.as_u64().ok_or_else(|| refuse(format!("`{side}` is not a side of a shape")))?;
        elements = elements
            .checked_mul(side)
            .ok_or_else(|| refuse("these are more elements than can be counted".to_owned()))?;
    }
    let bytes = elements
        .checked_mul(dtype.bytes().0)
        .ok_or_else(|| refuse("these are more bytes than can be counted".to_owned()))?;
    let sparse = entry.get("sparse").and_then(Value::as_bool).unwrap_or(false);
    Ok(Tensor { name: name.to_owned(), bytes: Bytes(bytes), dtype, sparse })
}

/// Names with their values, in order.
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list of parameters")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    // The one entry of safetensors that is not a tensor.
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    entries.push((name, map.next_value()?));
                }
                Ok(Entries(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(value) = list.next_element::<Value>()? {
                    let number = entries.len();
                    entries.push(match value {
                        Value::Array(pair) if pair.len() == 2 && pair[0].is_string() => {
                            (pair[0].as_str().unwrap_or_default().to_owned(), pair[1].clone())
                        }
                        other => {
                            let name = other.get("name").and_then(Value::as_str);
                            (name.map_or(format!("{number}"), str::to_owned), other)
                        }
                    });
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
