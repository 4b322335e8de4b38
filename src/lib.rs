//! What a collective operation costs, which algorithm to use, and why.
//!
//! ```
//! use collcost::algorithm::Registry;
//! use collcost::fabric::Fabric;
//! use collcost::formula::{At, Notation, Shape};
//! use collcost::price::Prepared;
//! use collcost::quantity::{Bandwidth, Seconds, Volume};
//! use collcost::rank::{candidates, rank};
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

pub mod accuracy;
pub mod algorithm;
pub mod batch;
pub mod bound;
pub mod bucket;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod calibrate;
pub mod check;
pub mod collective;
pub mod config;
pub mod crossover;
pub mod curve;
pub mod entry;
pub mod error;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod execute;
pub mod expect;
pub mod export;
pub mod fabric;
pub mod fit;
pub mod formula;
#[cfg(all(feature = "cuda", target_os = "linux"))]
pub mod gpu;
pub mod host;
pub mod import;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod launch;
pub mod link;
pub mod mock;
pub mod nccl;
pub mod notes;
pub mod peers;
pub mod place;
pub mod placement;
pub mod plan;
pub mod presets;
pub mod price;
pub mod profile;
pub mod quantity;
pub mod query;
mod random;
pub mod rank;
#[cfg(feature = "cli")]
pub mod render;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod rendezvous;
pub mod replay;
pub mod report;
pub mod rules;
pub mod sample;
pub mod schedule;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod secret;
pub mod select;
pub mod simulate;
pub mod size_is;
pub mod spell_out;
pub mod topology;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod transport;
pub mod trial;
pub mod tune;
pub mod verdict;
pub mod what_if;

pub use collective::Collective;
pub use error::{Error, Result};

/// The README's examples are tests too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
