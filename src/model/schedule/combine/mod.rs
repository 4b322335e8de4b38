//! Schedules made of schedules.

mod beside;
mod fold;
mod relabel;
mod reverse;
mod segment;
mod then;
mod tiers;

pub use beside::Beside;
pub use fold::{Fold, folded, surplus};
pub use relabel::Relabel;
pub use reverse::reverse;
pub use segment::Segment;
pub use then::Then;
pub use tiers::{Crossing, Tier, Tiers};
