//! What a collective operation costs, which algorithm to use, and why.
//!
//! ```
//! use collcost::model::algorithm::Registry;
//! use collcost::machine::fabric::Fabric;
//! use collcost::model::formula::{At, Notation, Shape};
//! use collcost::cost::price::Prepared;
//! use collcost::base::quantity::{Bandwidth, Seconds, Volume};
//! use collcost::cost::rank::{candidates, rank};
//! use collcost::Collective;
//!
//! // A machine of two figures, and a question.
//! let fabric = Fabric::flat(Seconds(5e-6), Bandwidth(1e11));
//! let shape = Shape::new(Collective::AllReduce, 64);
//! let registry = Registry::builtin();
//!
//! // One algorithm, with everything but the size put in.
//! let ring = registry.find(Collective::AllReduce, "ring")?.algorithm;
//! let prepared = Prepared::new(ring, &shape, &fabric)?;
//! assert_eq!(prepared.time(Volume(1e9)), Seconds(20.3175e-3));
//!
//! // Its formula.
//! let formula = ring.print(&At::symbols(shape)).formula(false);
//! assert_eq!(formula.write(Notation::Text), "2·(N − 1)·α + 2·(N − 1)/N·M/BW");
//!
//! // All of them, the fastest first.
//! let (ready, _) = candidates(&registry, &shape, &fabric)?;
//! assert_eq!(rank(&ready, Volume(1e3))[0].algorithm.meta().id, "recursive-doubling");
//! # Ok::<(), collcost::Error>(())
//! ```
//!
//! The engine takes values and returns values: it does not print, read files or look at the
//! environment. `docs/DESIGN.md` in the repository says why it is built as it is.

#![deny(missing_docs)]
// Shared memory needs a little of it, `transport/raw.rs`, and so do the libraries of GPUs,
// `gpu/driver.rs` and `gpu/nccl.rs`.
#![deny(unsafe_code)]
#![cfg_attr(not(feature = "exec"), forbid(unsafe_code))]

pub mod answer;
pub mod base;
pub mod cost;
pub mod exchange;
pub mod library;
pub mod machine;
pub mod measure;
pub mod model;
pub mod plan;
pub mod run;
#[cfg(feature = "cli")]
pub mod view;

pub use base::collective::Collective;
pub use base::error::{Error, Result};

/// The README's examples are tests too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
