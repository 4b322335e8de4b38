//! Basic types that all modules use: quantities, collectives, errors.

pub mod collective;
pub mod dtype;
pub mod encoding;
pub mod error;
pub mod format;
pub(crate) mod order;
pub(crate) mod protobuf;
pub mod quantity;
pub(crate) mod random;
pub(crate) mod refused;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod secret;
pub mod size_is;
pub(crate) mod stats;
pub mod text_pos;
pub mod words;
pub(crate) mod xml;
pub(crate) mod yaml;
