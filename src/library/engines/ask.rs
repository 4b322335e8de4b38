//! One call as an engine sees it, and the sizes with which the engine's rules compare it.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use super::{Board, Conditions, Variables};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bandwidth;
use crate::library::Call;
use crate::machine::sample::DataType;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

/// A release as its first three numbers: `0.5.10.post1` is 0.5.10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32, pub u32);

impl FromStr for Release {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits =
            |part: &str| -> String { part.chars().take_while(char::is_ascii_digit).collect() };
        let mut parts = text.trim_start_matches('v').split('.').map(|p| digits(p).parse::<u32>());
        let Some(Ok(first)) = parts.next() else {
            return Err(Error::input(format!("`{text}` is not a release")).help("write 0.33.0"));
        };
        let mut next = || parts.next().and_then(std::result::Result::ok).unwrap_or(0);
        Ok(Self(first, next(), next()))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// One call. Only the methods here compare its size, and they record the sizes that they compare
/// with.
pub(super) struct Ask<'a> {
    pub release: Release,
    pub board: &'a Board,
    pub collective: Collective,
    pub ranks: u32,
    pub nodes: u32,
    pub dtype: DataType,
    pub graph: bool,
    pub followed: bool,
    pub env: &'a Variables,
    /// The rate of a NIC on which GPUs start transfers themselves, if the machine has such NICs.
    pub nic: Option<Bandwidth>,
    hidden: Option<u64>,
    size: u64,
    borders: RefCell<Vec<u64>>,
}

impl<'a> Ask<'a> {
    pub(super) fn new(
        release: Release,
        board: &'a Board,
        conditions: &'a Conditions,
        call: &Call,
        nodes: u32,
        size: u64,
    ) -> Self {
        Self {
            release,
            board,
            collective: call.collective,
            ranks: call.ranks,
            nodes,
            dtype: conditions.dtype(),
            graph: conditions.graph,
            followed: conditions.followed,
            env: &conditions.variables,
            nic: None,
            hidden: conditions.hidden,
            size,
            borders: RefCell::default(),
        }
    }

    pub(super) fn with_nic(self, nic: Option<Bandwidth>) -> Self {
        Self { nic, ..self }
    }

    pub(super) fn since(&self, major: u32, minor: u32, patch: u32) -> bool {
        self.release >= Release(major, minor, patch)
    }

    pub(super) fn at_most(&self, limit: u64) -> bool {
        self.border(limit.saturating_add(1));
        self.size <= limit
    }

    pub(super) fn below(&self, limit: u64) -> bool {
        self.border(limit);
        self.size < limit
    }

    pub(super) fn at_least(&self, limit: u64) -> bool {
        !self.below(limit)
    }

    /// Whether S is a multiple of this block size.
    pub(super) fn whole(&self, block: u64) -> bool {
        self.size.is_multiple_of(block)
    }

    /// Columns of the tensor.
    pub(super) fn columns(&self) -> u64 {
        self.hidden.unwrap_or_else(|| (self.size / self.element()).clamp(1, 4096))
    }

    pub(super) fn element(&self) -> u64 {
        self.dtype.bytes().0.max(1)
    }

    /// Rows of the tensor, at least one.
    pub(super) fn rows(&self) -> u64 {
        (self.size / (self.columns() * self.element())).max(1)
    }

    pub(super) fn rows_at_most(&self, rows: u64) -> bool {
        self.border(self.row_bytes().saturating_mul(rows.saturating_add(1)));
        self.rows() <= rows
    }

    pub(super) fn rows_at_least(&self, rows: u64) -> bool {
        self.border(self.row_bytes().saturating_mul(rows));
        self.rows() >= rows
    }

    /// Notes the sizes at which the columns pass a power of two, if their number is not given.
    pub(super) fn columns_double(&self) {
        if self.hidden.is_none() {
            (0..12).for_each(|k| self.border(self.element() << k));
        }
    }

    /// Bytes of a row; if the number of columns is not given, that of a large tensor is assumed.
    fn row_bytes(&self) -> u64 {
        self.hidden.unwrap_or(4096) * self.element()
    }

    /// S itself, for a rule that computes with it; such a rule notes the sizes where it changes
    /// itself.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Notes a size from which on the choice may be different.
    pub(super) fn border(&self, from: u64) {
        self.borders.borrow_mut().push(from);
    }

    pub(super) fn borders(&self) -> Vec<u64> {
        self.borders.borrow().clone()
    }

    /// Whether all ranks are on one node.
    pub(super) fn one_node(&self) -> std::result::Result<(), String> {
        match self.nodes {
            1 => Ok(()),
            nodes => Err(format!("the ranks are on {nodes} nodes")),
        }
    }

    pub(super) fn blocks_of(&self, block: u64) -> std::result::Result<(), String> {
        match self.whole(block) {
            true => Ok(()),
            false => Err(format!("the size is not a multiple of {block} B")),
        }
    }

    pub(super) fn ranks_of(&self, allowed: &[u32]) -> std::result::Result<(), String> {
        match allowed.contains(&self.ranks) {
            true => Ok(()),
            false => Err(format!("{} ranks; it supports {}", self.ranks, list(allowed))),
        }
    }

    pub(super) fn dtype_of(&self, allowed: &[DataType]) -> std::result::Result<(), String> {
        let ids: Vec<&str> = allowed.iter().map(|d| d.id()).collect();
        match allowed.contains(&self.dtype) {
            true => Ok(()),
            false => Err(format!("{} elements; it supports {}", self.dtype, ids.join(", "))),
        }
    }
}

fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    words.join(", ")
}

/// 32-, 16-bit floats and bfloat16.
pub(super) const FLOATS: &[DataType] = &[DataType::F32, DataType::F16, DataType::Bf16];
