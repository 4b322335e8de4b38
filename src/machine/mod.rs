//! Machines: profiles and the links that they describe, placements, questions, measurements.

pub mod curve;
pub mod fabric;
pub mod graph;
pub mod link;
pub mod nccl;
pub mod parameters;
pub mod placement;
pub mod presets;
pub mod profile;
pub mod query;
pub mod sample;
pub mod what_if;
pub mod wires;
