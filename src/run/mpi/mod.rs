//! MPI libraries as they are: their own algorithms, forced one after another in one run, and raced.
//!
//! ```text
//!   mpirun ──► World at every rank ── orders of rank 0 ──► a forced algorithm, timed
//!                  └ Heat: contenders in rounds ── ratio to the library's own choice
//! ```
//!
//! No library is linked: it is loaded in the processes that its `mpirun` started. Algorithms are forced
//! by the library's own variables (MPI_T), so that one start serves all of them.

mod api;
mod contents;
mod race;
mod world;

pub use race::{ALIKE, Compared, Heat, OWN, Track, race};
pub use world::{Forced, LARGEST, Timing, World};
