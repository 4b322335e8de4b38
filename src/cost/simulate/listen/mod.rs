//! Questions about a simulation beyond its end time; each listener answers one question.
//!
//! Messages come in schedule order, not in time order. Several listeners can follow one simulation
//! through a closure that calls each of them.

mod critical;
mod trace;
mod traffic;
mod utilisation;

pub use critical::{CriticalPath, Hop, Path, Wait};
pub use trace::{MESSAGE, Trace};
pub use traffic::{Amount, Link, Traffic};
pub use utilisation::{Share, Shares, Utilisation};
