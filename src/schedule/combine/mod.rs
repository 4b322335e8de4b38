//! Schedules made of schedules.

mod beside;
mod relabel;
mod reverse;
mod segment;
mod then;

pub use beside::Beside;
pub use relabel::Relabel;
pub use reverse::reverse;
pub use segment::Segment;
pub use then::Then;
