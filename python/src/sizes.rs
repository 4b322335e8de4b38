//! Numbers from Python and back, many at once: lists, and whatever shows its memory, such as numpy's arrays.
//!
//! numpy is no dependency: its arrays are read through `memoryview`, and made by their own module only where
//! one was given.

use collcost_core::base::quantity::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyModule};

/// What numbers came in, and so what goes back.
pub enum Came {
    List,
    /// `array.array`, `memoryview`.
    Buffer,
    Numpy,
}

/// Numbers with what they came in.
pub struct Numbers {
    pub values: Vec<f64>,
    pub came: Came,
}

impl Numbers {
    pub fn read(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = given.py();
        if let Ok(list) = given.cast::<PyList>() {
            let values = list.iter().map(|one| one.extract::<f64>()).collect::<PyResult<_>>()?;
            return Ok(Self { values, came: Came::List });
        }
        let builtins = PyModule::import(py, "builtins")?;
        let Ok(view) = builtins.getattr("memoryview")?.call1((given,)) else {
            // A tuple, a range, an iterator.
            let values =
                given.try_iter()?.map(|one| one?.extract::<f64>()).collect::<PyResult<_>>()?;
            return Ok(Self { values, came: Came::List });
        };
        let numpy = given.get_type().module().is_ok_and(|m| m.to_string() == "numpy");
        let format: String = view.getattr("format")?.extract()?;
        if view.getattr("ndim")?.extract::<usize>()? != 1 {
            return Err(PyValueError::new_err("an array of one dimension is needed"));
        }
        let bytes = view.call_method0("tobytes")?;
        let bytes = bytes.cast::<PyBytes>()?.as_bytes();
        let values = plain(&format, bytes).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "an array of `{format}` is not understood: use int64 or float64"
            ))
        })?;
        Ok(Self { values, came: if numpy { Came::Numpy } else { Came::Buffer } })
    }

    /// As sizes, in whole bytes.
    pub fn sizes(&self) -> PyResult<Vec<Bytes>> {
        let one = |x: &f64| match *x {
            // Every whole number up to here is one of f64 too.
            x if x >= 0.0 && x.fract() == 0.0 && x <= 9_007_199_254_740_992.0 => {
                Ok(Bytes(x as u64))
            }
            x => Err(PyValueError::new_err(format!("{x} is not a size in bytes"))),
        };
        self.values.iter().map(one).collect()
    }
}

impl Came {
    /// Numbers in what others came in.
    pub fn back<'py>(&self, py: Python<'py>, values: Vec<f64>) -> PyResult<Bound<'py, PyAny>> {
        if matches!(self, Self::List) {
            return Ok(PyList::new(py, values)?.into_any());
        }
        const EACH: usize = size_of::<f64>();
        let bytes = PyByteArray::new_with(py, EACH * values.len(), |bytes| {
            for (into, value) in bytes.chunks_exact_mut(EACH).zip(&values) {
                into.copy_from_slice(&value.to_ne_bytes());
            }
            Ok(())
        })?;
        match self {
            Self::Numpy => PyModule::import(py, "numpy")?.call_method1("frombuffer", (bytes, "f8")),
            _ => PyModule::import(py, "array")?.call_method1("array", ("d", bytes)),
        }
    }
}

/// Numbers of a native format of Python's `struct`.
fn plain(format: &str, bytes: &[u8]) -> Option<Vec<f64>> {
    macro_rules! read {
        ($number:ty) => {{
            let each = bytes.chunks_exact(size_of::<$number>());
            Some(
                each.filter_map(|b| Some(<$number>::from_ne_bytes(b.try_into().ok()?) as f64))
                    .collect(),
            )
        }};
    }
    match format.trim_start_matches(['@', '=']) {
        "l" if size_of::<std::ffi::c_long>() == 4 => read!(i32),
        "L" if size_of::<std::ffi::c_long>() == 4 => read!(u32),
        "l" | "q" => read!(i64),
        "L" | "Q" => read!(u64),
        "i" => read!(i32),
        "I" => read!(u32),
        "d" => read!(f64),
        "f" => read!(f32),
        _ => None,
    }
}
