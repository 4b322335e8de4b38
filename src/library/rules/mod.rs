//! Tuning files of libraries as tables, and which rule of one decides.
//!
//! A table looks its rules up as the library does, traps included, so that what a file makes a
//! library run can be told without running it. Readers are in `collcost::exchange::import`, writers in
//! `collcost::exchange::export`.

pub mod mpich;
pub mod nccl;
pub mod openmpi;

/// The line of a file in which a rule stands, from 1; 0 where it was not read from one.
///
/// Rules that say the same are equal wherever they stand, so any two lines are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Line(pub usize);

impl PartialEq for Line {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Line {}

/// A tuning file of one of the libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TuningFile {
    /// Open MPI's dynamic rules of `coll/tuned`.
    OpenMpi(openmpi::Rules),
    /// MPICH's selection tree.
    Mpich(mpich::Tree),
    /// The table of NCCL's example tuner plugin.
    Nccl(nccl::Rules),
}
