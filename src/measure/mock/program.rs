//! The programs of nccl-tests: what each runs, and how it computes its sizes and columns.
//!
//! Source: NVIDIA/nccl-tests 2.19.6 `src/*.cu`, the functions `…GetCollByteCount` and `…RunTest`.

use crate::base::collective::Collective;
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::Bytes;
use crate::machine::sample::DataType;

/// A program of nccl-tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name, such as `all_reduce_perf`.
    pub name: &'static str,
    /// What it runs; in `sendrecv_perf` every rank sends to the next at once.
    pub collective: Collective,
    /// Whether the column `redop` names an operation.
    pub reduces: bool,
    /// Whether in-place results are checked.
    pub checks_in_place: bool,
}

/// All that are known.
pub static PROGRAMS: &[Program] = &[
    program("all_reduce_perf", Collective::AllReduce, true),
    program("all_gather_perf", Collective::AllGather, false),
    program("reduce_scatter_perf", Collective::ReduceScatter, true),
    program("broadcast_perf", Collective::Broadcast, false),
    program("reduce_perf", Collective::Reduce, true),
    Program { checks_in_place: false, ..program("alltoall_perf", Collective::AllToAll, false) },
    program("gather_perf", Collective::Gather, false),
    program("scatter_perf", Collective::Scatter, false),
    Program { checks_in_place: false, ..program("sendrecv_perf", Collective::SendRecv, true) },
];

const fn program(name: &'static str, collective: Collective, reduces: bool) -> Program {
    Program { name, collective, reduces, checks_in_place: true }
}

impl Program {
    /// The program of that name, with or without a path before it or `_mpi` after it; or that of a
    /// collective.
    ///
    /// # Errors
    /// There is no such program; the help names the nearest one.
    pub fn named(name: &str) -> Result<Self> {
        let plain = name.rsplit('/').next().unwrap_or(name);
        let plain = plain.strip_suffix("_mpi").unwrap_or(plain);
        let of = plain.parse::<Collective>();
        let found = PROGRAMS.iter().find(|p| p.name == plain || Ok(p.collective) == of);
        found.copied().ok_or_else(|| {
            // The collective's error says what to ask for instead of `alltoallv_perf`.
            if let Err(error) = of
                && plain.trim_end_matches("_perf").ends_with('v')
            {
                return error;
            }
            Error::input(format!("nccl-tests has no known program `{name}`"))
                .help(advice(plain, PROGRAMS.iter().map(|p| p.name)))
        })
    }

    /// The size and the count that are printed for a test of `asked` bytes: where there are N blocks, they
    /// are of whole 16 bytes, and the count is of one of them.
    #[must_use]
    pub fn sizes(self, asked: Bytes, dtype: DataType, ranks: u32) -> (Bytes, u64) {
        let each = dtype.bytes().0.max(1);
        let count = asked.0 / each;
        if !self.collective.has_blocks() {
            return (Bytes(count * each), count);
        }
        let ranks = u64::from(ranks.max(1));
        let grain = (16 / each).max(1);
        let block = count / ranks / grain * grain;
        (Bytes(block * ranks * each), block)
    }

    /// The column `root`: −1 for none.
    #[must_use]
    pub fn root(self, root: u32) -> i64 {
        match self.collective {
            Collective::SendRecv => -1,
            collective if collective.has_root() => root.into(),
            _ => -1,
        }
    }

    /// The column `redop`.
    #[must_use]
    pub fn redop(self, asked: &'static str) -> &'static str {
        if self.reduces { asked } else { "none" }
    }
}

/// The operations, as the column `redop` names them.
pub const OPERATIONS: &[&str] = &["sum", "prod", "max", "min", "avg", "mulsum"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_16_bytes_of_each_rank() {
        let sizes = |name: &str, asked: u64, ranks: u32| {
            let (size, count) =
                Program::named(name).unwrap().sizes(Bytes(asked), DataType::F32, ranks);
            (size.0, count)
        };
        assert_eq!(sizes("all_reduce_perf", 10, 8), (8, 2));
        // A log of 8 ranks has 0 bytes up to 64, then 128 with a count of 4.
        assert_eq!(sizes("reduce_scatter_perf", 64, 8), (0, 0));
        assert_eq!(sizes("reduce_scatter_perf", 128, 8), (128, 4));
        assert_eq!(sizes("all_gather_perf", 1 << 20, 6), (1_048_512, 43_688));
    }

    #[test]
    fn names_come_with_paths_and_mpi() {
        assert_eq!(Program::named("./build/alltoall_perf_mpi").unwrap().name, "alltoall_perf");
        assert_eq!(Program::named("allreduce").unwrap().name, "all_reduce_perf");
        let wrong = Program::named("alreduce_perf").unwrap_err().to_string();
        assert!(wrong.contains("`all_reduce_perf`"), "{wrong}");
    }
}
