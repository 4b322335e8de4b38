//! Gradient fusion: which tensors share a call, and how much of the calls a backward pass hides.
//!
//! Frameworks do not all-reduce one gradient at a time: they fill buckets. [`Rule`] is the rule of
//! a framework, [`pack`] applies it tensor by tensor, [`timeline`] simulates the calls during the
//! backward pass, and [`caps`] searches for the best size.
//!
//! ```
//! use collcost::plan::bucket::{Gradients, Limit, Rule, Tensor, pack};
//! use collcost::base::quantity::Bytes;
//!
//! // DDP walks backwards, adds a tensor, and closes a bucket that has reached its limit.
//! let tensors = [3 << 20, 40 << 20, 600 << 10].map(|bytes| Tensor::new("w", Bytes(bytes)));
//! let packed = pack(&Gradients::Tensors(tensors.to_vec()), &Rule::named("ddp").unwrap());
//! let sizes: Vec<u64> = packed.iter().map(|bucket| bucket.bytes.0).collect();
//! assert_eq!(sizes, [(600 << 10) + (40 << 20), 3 << 20]);
//! # assert_eq!(Rule::named("ddp").unwrap().cap, Limit::Bytes(Bytes(25 << 20)));
//! ```

mod rule;
mod search;
mod tensors;
mod timeline;

pub use rule::{Close, Limit, Order, RULES, Rule};
pub use search::{Cap, Caps, caps};
pub use tensors::{Gradients, Tensor};
pub use timeline::{Event, Timeline, timeline};

use crate::base::quantity::{Bytes, Ratio};
use crate::machine::sample::DataType;

/// Gradients that are sent in one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Indices of its tensors in the given order; empty if there are no tensors.
    pub tensors: Vec<usize>,
    /// Bytes.
    pub bytes: Bytes,
    /// The type of its elements.
    pub dtype: Option<DataType>,
    /// The limit in bytes at which it was closed; absent if the tensors ended or their number was
    /// reached, and for sparse gradients.
    pub limit: Option<Bytes>,
    /// The part of all gradients that is ready once the last of its tensors is.
    pub ready: Ratio,
}

/// Fills buckets, in the order in which they are sent.
#[must_use]
pub fn pack(gradients: &Gradients, rule: &Rule) -> Vec<Bucket> {
    match gradients {
        Gradients::Tensors(tensors) => pack_tensors(tensors, rule),
        Gradients::Smooth { bytes, dtype } => pack_smooth(*bytes, *dtype, rule),
    }
}

/// The bucket of one type that is being filled.
struct Filling {
    dtype: DataType,
    bucket: Bucket,
    /// Buckets of this type that are closed.
    closed: usize,
}

impl Filling {
    fn new(dtype: DataType) -> Self {
        Self { dtype, bucket: empty(dtype), closed: 0 }
    }

    fn add(&mut self, index: usize, bytes: Bytes, ready: Ratio) {
        self.bucket.tensors.push(index);
        self.bucket.bytes.0 = self.bucket.bytes.0.saturating_add(bytes.0);
        self.bucket.ready = ready;
    }

    /// The full bucket; the next one is begun.
    fn close(&mut self, limit: Option<Bytes>) -> Bucket {
        self.closed += 1;
        Bucket { limit, ..std::mem::replace(&mut self.bucket, empty(self.dtype)) }
    }
}

fn empty(dtype: DataType) -> Bucket {
    Bucket {
        tensors: Vec::new(),
        bytes: Bytes(0),
        dtype: Some(dtype),
        limit: None,
        ready: Ratio(0.0),
    }
}

fn pack_tensors(tensors: &[Tensor], rule: &Rule) -> Vec<Bucket> {
    let total: f64 = tensors.iter().map(|t| t.bytes.0 as f64).sum();
    let mut done = 0.0;
    let mut packed: Vec<Bucket> = Vec::new();
    let mut open: Vec<Filling> = Vec::new();
    let order: Vec<usize> = match rule.order {
        Order::Given => (0..tensors.len()).collect(),
        Order::Backward => (0..tensors.len()).rev().collect(),
    };
    for index in order {
        let Tensor { bytes, dtype, sparse, .. } = tensors[index];
        done += bytes.0 as f64;
        let ready = Ratio(if total > 0.0 { done / total } else { 1.0 });
        let slot = open.iter().position(|f| f.dtype == dtype).unwrap_or_else(|| {
            open.push(Filling::new(dtype));
            open.len() - 1
        });
        let filling = &mut open[slot];
        let limit = rule.limit(filling.closed, dtype);
        if sparse || (rule.close == Close::Apart && bytes > limit) {
            let limit = (!sparse).then_some(limit);
            packed.push(Bucket { tensors: vec![index], bytes, limit, ready, ..empty(dtype) });
            continue;
        }
        let over = filling.bucket.bytes.0.saturating_add(bytes.0) > limit.0;
        if rule.close != Close::After && over && !filling.bucket.tensors.is_empty() {
            packed.push(filling.close(Some(limit)));
        }
        filling.add(index, bytes, ready);
        let limit = rule.limit(filling.closed, dtype);
        if rule.close == Close::After && filling.bucket.bytes >= limit {
            packed.push(filling.close(Some(limit)));
        } else if rule.most.is_some_and(|most| filling.bucket.tensors.len() >= most) {
            packed.push(filling.close(None));
        }
    }
    packed.extend(open.into_iter().map(|f| f.bucket).filter(|b| !b.tensors.is_empty()));
    // Buckets of several types fill concurrently: a bucket's position is that of its first tensor
    // in backward order.
    let place = |bucket: &Bucket| {
        let first = bucket.tensors.iter().copied();
        match rule.order {
            Order::Given => first.min().unwrap_or(0),
            Order::Backward => tensors.len() - first.max().unwrap_or(0),
        }
    };
    packed.sort_by_key(place);
    packed
}

/// The same if the tensors are unknown: every bucket is cut at its limit.
fn pack_smooth(bytes: Bytes, dtype: DataType, rule: &Rule) -> Vec<Bucket> {
    let mut packed = Vec::new();
    let mut done = 0_u64;
    while done < bytes.0 {
        let limit = rule.limit(packed.len(), dtype);
        let left = bytes.0 - done;
        let size = limit.0.clamp(1, left);
        done += size;
        packed.push(Bucket {
            tensors: Vec::new(),
            bytes: Bytes(size),
            dtype: Some(dtype),
            limit: (size == limit.0).then_some(limit),
            ready: Ratio(done as f64 / bytes.0 as f64),
        });
    }
    packed
}

#[cfg(test)]
mod tests;
