//! What a collective operation costs, which algorithm to use, and why.

pub mod algorithm;
pub mod batch;
pub mod bound;
pub mod collective;
pub mod crossover;
pub mod error;
pub mod fabric;
pub mod formula;
pub mod host;
pub mod peers;
pub mod presets;
pub mod price;
pub mod profile;
pub mod quantity;
pub mod query;
pub mod rank;
#[cfg(feature = "cli")]
pub mod render;
pub mod report;
pub mod schedule;
pub mod size_is;
pub mod topology;

pub use collective::Collective;
pub use error::{Error, Result};
