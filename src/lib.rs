//! Predicts the cost of a collective operation, the algorithm to use, and the reason.
//!
//! ```
//! use collcost::{Bytes, Collective, Question};
//!
//! let question = Question::new(Collective::AllReduce, Bytes(16 << 20)).on("dgx-h100")?.ranks(64);
//!
//! // What the call will take, with its band, what NCCL runs, and the basis of the prediction.
//! let expect = collcost::expect(&question)?;
//! assert_eq!(expect.runs.name(), "NVLSTree/Simple");
//! assert!(expect.low_s < expect.time_s && expect.time_s < expect.high_s);
//!
//! // For comparison, the ideal cost of every algorithm in the α-β model, with its formula.
//! for row in collcost::ideal(&question)? {
//!     assert!(row.time_s > Some(0.0) && row.formula.is_some());
//! }
//! # Ok::<(), collcost::Error>(())
//! ```
//!
//! The stable interface is a [`Question`] and fourteen functions: [`machine()`], [`expect`], [`times`],
//! [`ideal`], [`price`], [`choose`], [`explain`], [`compare`], [`crossover`], [`plan()`], [`jobs`],
//! [`server`], [`bucket`], [`simulate`]. The modules behind them are open to programs that bring their own
//! algorithm or profile (`examples`), change between releases, and are not on these pages.
//!
//! The engine takes values and returns values: it does not print or read the environment.
//! `docs/background/design.md` in the repository explains why it is built this way.

#![deny(missing_docs)]
// Shared memory and libraries that are loaded need a little unsafe code: SECURITY.md lists the files.
#![deny(unsafe_code)]
#![cfg_attr(not(feature = "exec"), forbid(unsafe_code))]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Tests may print and read freely.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

// Published pages leave them out: the stable interface is below, and docs/API.txt lists it.
#[cfg_attr(docsrs, doc(hidden))]
pub mod answer;
#[cfg_attr(docsrs, doc(hidden))]
pub mod base;
#[cfg_attr(docsrs, doc(hidden))]
pub mod cost;
#[cfg_attr(docsrs, doc(hidden))]
pub mod exchange;
#[cfg_attr(docsrs, doc(hidden))]
pub mod library;
#[cfg_attr(docsrs, doc(hidden))]
pub mod machine;
#[cfg_attr(docsrs, doc(hidden))]
pub mod measure;
#[cfg_attr(docsrs, doc(hidden))]
pub mod model;
#[cfg_attr(docsrs, doc(hidden))]
pub mod plan;
#[cfg_attr(docsrs, doc(hidden))]
pub mod run;
#[cfg_attr(docsrs, doc(hidden))]
#[cfg(feature = "cli")]
pub mod view;

mod facade;

pub use answer::bucket::Buckets;
pub use answer::explain::Explanation;
pub use answer::job::Jobs;
pub use answer::plan::Plan;
pub use answer::serve::ServeView;
pub use answer::{Intervals, Row};
pub use base::collective::Collective;
pub use base::error::{Error, Result};
pub use base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
pub use cost::simulate::Outcome;
pub use facade::{
    Question, bucket, choose, compare, crossover, expect, explain, ideal, jobs, machine, plan,
    price, server, simulate, times,
};
pub use library::Choice;
pub use machine::profile::Profile;
pub use measure::expect::{Basis, Expect, Rules, Runs};
pub use measure::verdict::Verdict;

/// The page's examples are tests too.
#[cfg(doctest)]
#[doc = include_str!("../docs/how-to/call-from-a-program.md")]
struct FromAProgram;
