//! Numbers from Python and back, a block at a time: lists, and whatever shows its memory, such as numpy's arrays.
//!
//! A block stays in the processor's cache while it is read, priced and written. numpy is no dependency: its arrays
//! are read through `memoryview`, and made by their own module only where one was given.

use std::ops::Range;

use collcost_core::base::error::Error as Fault;
use collcost_core::base::quantity::{Bytes, Seconds};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyModule, PySlice, PyString};

use crate::{Error, refused};

/// How many numbers are read at once.
const BLOCK: usize = 1 << 13;

/// What numbers came in, and so what goes back.
#[derive(Clone, Copy)]
enum Came {
    List,
    /// `array.array`, `memoryview`.
    Buffer,
    Numpy,
}

enum Held<'py> {
    List(Bound<'py, PyList>),
    View { view: Bound<'py, PyAny>, format: String },
}

/// Numbers as they came.
pub struct Numbers<'py> {
    held: Held<'py>,
    came: Came,
    len: usize,
}

impl<'py> Numbers<'py> {
    pub fn read(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = given.py();
        let of = |list: Bound<'py, PyList>| Self {
            len: list.len(),
            held: Held::List(list),
            came: Came::List,
        };
        if let Ok(list) = given.cast::<PyList>() {
            return Ok(of(list.clone()));
        }
        let builtins = PyModule::import(py, "builtins")?;
        let Ok(view) = builtins.getattr("memoryview")?.call1((given,)) else {
            // A tuple, a range, an iterator.
            return Ok(of(py.get_type::<PyList>().call1((given,))?.cast_into()?));
        };
        if view.getattr("ndim")?.extract::<usize>()? != 1 {
            return Err(Error::new_err("an array of one dimension is needed"));
        }
        let numpy = given.get_type().module().is_ok_and(|m| m.to_string() == "numpy");
        let came = if numpy { Came::Numpy } else { Came::Buffer };
        let format = view.getattr("format")?.extract()?;
        Ok(Self { len: view.len()?, held: Held::View { view, format }, came })
    }

    /// A part of the numbers; `read` reads one that is a text.
    fn part(&self, of: Range<usize>, read: Reads) -> PyResult<Vec<f64>> {
        let (view, format) = match &self.held {
            Held::List(list) => {
                let one = |x: Bound<'_, PyAny>| match x.cast::<PyString>() {
                    Ok(text) => read(&text.to_string()).map_err(|e| refused(&e)),
                    Err(_) => x.extract::<f64>().map_err(|e| {
                        match e.is_instance_of::<PyOverflowError>(x.py()) {
                            true => Error::new_err(format!("{x} is too large")),
                            false => e,
                        }
                    }),
                };
                return list.get_slice(of.start, of.end).iter().map(one).collect();
            }
            Held::View { view, format } => (view, format),
        };
        let slice = PySlice::new(view.py(), of.start as isize, of.end as isize, 1);
        let bytes = view.get_item(slice)?.call_method0("tobytes")?;
        plain(format, bytes.cast::<PyBytes>()?.as_bytes()).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "an array of `{format}` is not understood: use int64 or float64"
            ))
        })
    }

    /// All of them as times: seconds, or texts such as `5.2ms`.
    pub fn times(&self) -> PyResult<Vec<Seconds>> {
        let times = self.part(0..self.len, |text| Ok(text.parse::<Seconds>()?.0))?;
        Ok(times.into_iter().map(Seconds).collect())
    }

    /// All of them as sizes: whole bytes, or texts such as `16MiB`.
    pub fn sizes(&self) -> PyResult<Vec<Bytes>> {
        whole(&self.part(0..self.len, bytes)?)
    }

    /// The same, block after block.
    pub fn blocks(&self) -> impl Iterator<Item = PyResult<Vec<Bytes>>> + '_ {
        let starts = (0..self.len).step_by(BLOCK);
        starts.map(|from| whole(&self.part(from..self.len.min(from + BLOCK), bytes)?))
    }

    /// A row of as many numbers, to go back in what these came in.
    pub fn row(&self, py: Python<'py>) -> PyResult<Row<'py>> {
        // As long as it will be: one that grows is copied again and again.
        let one = PyModule::import(py, "array")?.call_method1("array", ("d", [0.0]))?;
        let numbers = one.mul(self.len)?;
        let view = PyModule::import(py, "builtins")?.getattr("memoryview")?.call1((&numbers,))?;
        let memory = view.call_method1("cast", ("B",))?;
        let block = Vec::with_capacity(BLOCK * size_of::<f64>());
        Ok(Row { numbers, memory, at: 0, block, came: self.came })
    }
}

/// Numbers on their way back: an `array.array` that is filled block after block.
pub struct Row<'py> {
    numbers: Bound<'py, PyAny>,
    memory: Bound<'py, PyAny>,
    at: usize,
    block: Vec<u8>,
    came: Came,
}

impl<'py> Row<'py> {
    pub fn push(&mut self, value: f64) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }

    /// Hands over what was pushed since the last time.
    pub fn flush(&mut self) -> PyResult<()> {
        let (py, end) = (self.memory.py(), self.at + self.block.len());
        let slice = PySlice::new(py, self.at as isize, end as isize, 1);
        self.memory.set_item(slice, PyBytes::new(py, &self.block))?;
        self.at = end;
        self.block.clear();
        Ok(())
    }

    pub fn back(self) -> PyResult<Bound<'py, PyAny>> {
        match self.came {
            Came::List => self.numbers.call_method0("tolist"),
            Came::Buffer => Ok(self.numbers),
            // numpy's array then lies in the memory of this one.
            Came::Numpy => {
                let numpy = PyModule::import(self.numbers.py(), "numpy")?;
                numpy.call_method1("frombuffer", (self.numbers, "f8"))
            }
        }
    }
}

/// Reads a number that is a text.
type Reads = fn(&str) -> Result<f64, Fault>;

fn bytes(text: &str) -> Result<f64, Fault> {
    Ok(text.parse::<Bytes>()?.0 as f64)
}

fn whole(values: &[f64]) -> PyResult<Vec<Bytes>> {
    // Every whole number up to here is one of f64 too; a conversion saturates.
    const MOST: f64 = 9_007_199_254_740_992.0;
    let one = |&x: &f64| match x as u64 {
        size if size as f64 == x && x <= MOST => Ok(Bytes(size)),
        _ => Err(Error::new_err(format!("{x} is not a size in bytes"))),
    };
    values.iter().map(one).collect()
}

/// Numbers of a native format of Python's `struct`.
fn plain(format: &str, bytes: &[u8]) -> Option<Vec<f64>> {
    macro_rules! read {
        ($number:ty) => {{
            let (each, _) = bytes.as_chunks::<{ size_of::<$number>() }>();
            Some(each.iter().map(|b| <$number>::from_ne_bytes(*b) as f64).collect())
        }};
    }
    match format.trim_start_matches(['@', '=']) {
        "l" if size_of::<std::ffi::c_long>() == 4 => read!(i32),
        "L" if size_of::<std::ffi::c_long>() == 4 => read!(u32),
        "l" | "q" => read!(i64),
        "L" | "Q" => read!(u64),
        "i" => read!(i32),
        "I" => read!(u32),
        "h" => read!(i16),
        "H" => read!(u16),
        "d" => read!(f64),
        "f" => read!(f32),
        _ => None,
    }
}
