//! Files of other programs.

pub mod export;
pub mod import;
