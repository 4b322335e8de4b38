//! What can be asked of a simulation beside its end; each listener answers one question.
//!
//! Messages come in schedule order, not in the order of time. Several listeners hear one
//! simulation through a closure that tells each of them.

mod critical;
mod trace;
mod traffic;
mod utilisation;

pub use critical::{CriticalPath, Hop, Path, Wait};
pub use trace::{MESSAGE, Trace};
pub use traffic::{Amount, Link, Traffic};
pub use utilisation::{Share, Shares, Utilisation};
