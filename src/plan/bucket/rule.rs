//! How frameworks fill their buckets, with their defaults, by name.

use std::borrow::Cow;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::Bytes;
use crate::machine::sample::DataType;

/// When a bucket is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// At this many bytes.
    Bytes(Bytes),
    /// At this many elements of any type.
    Elements(u64),
}

impl Limit {
    /// The limit in bytes for elements of `dtype`.
    #[must_use]
    pub fn bytes(self, dtype: DataType) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Elements(count) => Bytes(count.saturating_mul(dtype.bytes().0)),
        }
    }
}

/// What happens to the tensor that would exceed the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// It is added, then the bucket is closed: buckets may be larger than the limit.
    After,
    /// The bucket is closed without it: only a bucket with a single larger tensor exceeds the
    /// limit.
    Before,
    /// The same, but a tensor that is larger than the limit is sent alone and the bucket stays open.
    Apart,
}

/// The order of the tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As listed.
    Given,
    /// Backwards from the last: about the order in which a backward pass produces gradients.
    Backward,
}

/// The rule of one framework.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The name on the command line.
    pub id: &'static str,
    /// The framework.
    pub title: &'static str,
    /// The limit of the first bucket, if it is different.
    pub first: Option<Limit>,
    /// The limit of the others.
    pub cap: Limit,
    /// What happens at the limit.
    pub close: Close,
    /// The most tensors of a bucket, if their number is limited.
    pub most: Option<usize>,
    /// The order of the tensors.
    pub order: Order,
    /// The setting to paste, with `{}` for its value in units of `unit`.
    pub setting: &'static str,
    /// How many bytes or elements a value of 1 means.
    pub unit: Limit,
    /// What sums the gradients of a bucket.
    pub collective: Collective,
    /// The source.
    pub source: Cow<'static, str>,
}

const MIB: u64 = 1 << 20;
const ONE_MIB: Limit = Limit::Bytes(Bytes(MIB));

/// Every rule with a name.
pub static RULES: &[Rule] = &[
    Rule {
        id: "ddp",
        title: "PyTorch DistributedDataParallel",
        first: Some(ONE_MIB),
        cap: Limit::Bytes(Bytes(25 * MIB)),
        close: Close::After,
        most: None,
        order: Order::Backward,
        setting: "DistributedDataParallel(model, bucket_cap_mb={})",
        unit: ONE_MIB,
        collective: Collective::AllReduce,
        source: Cow::Borrowed(
            "pytorch/pytorch, torch/csrc/distributed/c10d/reducer.cpp and reducer.hpp at 00463a45",
        ),
    },
    Rule {
        id: "megatron",
        title: "Megatron-LM's distributed optimizer",
        first: None,
        cap: Limit::Elements(40_000_000),
        close: Close::After,
        most: None,
        order: Order::Backward,
        setting: "--ddp-bucket-size {}",
        unit: Limit::Elements(1),
        collective: Collective::ReduceScatter,
        source: Cow::Borrowed(
            "NVIDIA/Megatron-LM, distributed_data_parallel.py: max(40,000,000, 1,000,000·DP) elements; \
             param_and_grad_buffer.py: a reduce-scatter",
        ),
    },
    Rule {
        id: "deepspeed",
        title: "DeepSpeed ZeRO stages 1 and 2",
        first: None,
        cap: Limit::Elements(500_000_000),
        close: Close::Before,
        most: None,
        order: Order::Backward,
        setting: "\"zero_optimization\": {\"reduce_bucket_size\": {}}",
        unit: Limit::Elements(1),
        collective: Collective::AllReduce,
        source: Cow::Borrowed(
            "DeepSpeed's configuration reference: reduce_bucket_size 5e8 elements; \
             runtime/zero/stage_1_and_2.py reduces before it would be passed, by an all-reduce \
             (use_multi_rank_bucket_allreduce, on by default)",
        ),
    },
    Rule {
        id: "xla",
        title: "XLA's all-reduce combiner",
        first: None,
        cap: Limit::Bytes(Bytes(30 * MIB + 7)),
        close: Close::Apart,
        most: Some(256),
        order: Order::Backward,
        setting: "XLA_FLAGS=--xla_gpu_all_reduce_combine_threshold_bytes={}",
        unit: Limit::Bytes(Bytes(1)),
        collective: Collective::AllReduce,
        source: Cow::Borrowed(
            "openxla/xla, collective_utils.h at 9b2cf8eb: up to 30 MiB + 7 bytes; \
             collective_combiner_utils.h: a larger tensor is passed over; gpu_compiler.cc: at most \
             256 operands",
        ),
    },
    Rule {
        id: "greedy",
        title: "as many whole tensors as stay within the cap",
        first: None,
        cap: Limit::Bytes(Bytes(25 * MIB)),
        close: Close::Before,
        most: None,
        order: Order::Given,
        setting: "buckets of at most {} bytes",
        unit: Limit::Bytes(Bytes(1)),
        collective: Collective::AllReduce,
        source: Cow::Borrowed("the usual textbook listing, with its last bucket flushed"),
    },
];

impl Rule {
    /// The rule called `name`, with the framework's defaults.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn named(name: &str) -> Result<Self> {
        RULES.iter().find(|rule| rule.id == name).cloned().ok_or_else(|| {
            let known = RULES.iter().map(|rule| rule.id);
            Error::input(format!("`{name}` is not a bucket rule")).help(advice(name, known))
        })
    }

    /// The same for `ranks` replicas, if the default depends on them.
    #[must_use]
    pub fn over(mut self, ranks: u32) -> Self {
        if self.id == "megatron" {
            self.cap = Limit::Elements(40_000_000.max(1_000_000 * u64::from(ranks)));
        }
        self
    }

    /// The same with another cap. A user's cap is also DDP's first limit (pytorch pull request
    /// 121640); before that, and if `first` is given, the first bucket has its own limit.
    #[must_use]
    pub fn with_cap(mut self, cap: Limit, first: Option<Limit>) -> Self {
        (self.cap, self.first) = (cap, first);
        self
    }

    /// The limit of a bucket of `dtype` after `closed` others of that type.
    #[must_use]
    pub fn limit(&self, closed: usize, dtype: DataType) -> Bytes {
        let limit = if closed == 0 { self.first.unwrap_or(self.cap) } else { self.cap };
        limit.bytes(dtype)
    }

    /// The line to paste for a cap; a setting in MiB may have to round up.
    #[must_use]
    pub fn line(&self, cap: Bytes, dtype: DataType) -> String {
        let each = self.unit.bytes(dtype).0.max(1);
        self.setting.replacen("{}", &cap.0.div_ceil(each).to_string(), 1)
    }
}
