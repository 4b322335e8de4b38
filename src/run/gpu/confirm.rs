//! What NCCL's own log says that NCCL did.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::base::quantity::Bytes;
use crate::library::nccl::log::Log;
use crate::library::nccl::{Algo, Function, Proto};
use crate::machine::sample::Chosen;

/// The log of one process, read as it grows.
pub(super) struct Tail {
    path: PathBuf,
    read: u64,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// The complete lines added since the last call.
    pub(super) fn new_lines(&mut self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_end(&mut text)
        });
        let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        // A log that cannot be read confirms nothing.
        if read.is_err() {
            return String::new();
        }
        self.read += end as u64;
        text.truncate(end);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// How `function` over `size` bytes was executed, if these lines of a log tell, and all of them
/// agree.
pub(super) fn chosen(lines: &str, function: Function, ranks: u32, size: Bytes) -> Option<Chosen> {
    let log = Log::read(lines, "NCCL's log").ok()?;
    let mut all = log.choices.iter().filter(|choice| {
        let blocks = if choice.is_per_rank() { u64::from(ranks) } else { 1 };
        // Older logs count whole elements of a block, and do not name the function.
        choice.function.is_none_or(|named| named == function) && choice.bytes.0 * blocks == size.0
    });
    let first = all.next()?;
    let chosen = Chosen { algo: first.algo, proto: first.proto };
    all.all(|c| (c.algo, c.proto) == (chosen.algo, chosen.proto)).then_some(chosen)
}

/// The algorithms and protocols for which the table in these lines has a bandwidth.
pub(super) fn table(lines: &str) -> Vec<Chosen> {
    let Ok(log) = Log::read(lines, "NCCL's log") else { return Vec::new() };
    let ways = || Algo::ALL.into_iter().flat_map(|a| Proto::ALL.into_iter().map(move |p| (a, p)));
    let has = |(algo, proto): &(Algo, Proto)| {
        log.tables.iter().any(|table| {
            Function::ALL.into_iter().any(|function| {
                table.cell(function, *algo, *proto).is_some_and(|cell| cell.bandwidth.0 > 0)
            })
        })
    };
    ways().filter(has).map(|(algo, proto)| Chosen { algo, proto }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_call_alone_confirm_it() {
        let line = |text: &str| format!("node0:7:7 [0] NCCL INFO {text}\n");
        let of = |text: &str| {
            chosen(&line(text), Function::AllGather, 4, Bytes(4096)).map(|c| c.to_string())
        };
        let per_rank = "AllGather: 1024 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..3}";
        assert_eq!(of(per_rank).as_deref(), Some("ring/ll128"));
        assert_eq!(of(&per_rank.replace("1024", "4096")), None);
        assert_eq!(of(&per_rank.replace("AllGather", "AllReduce")), None);
        let old = "4096 Bytes -> Algo 1 proto 2 time 8.1";
        assert_eq!(of(old).as_deref(), Some("ring/simple"));
        let both = line(old) + &line(&old.replace("proto 2", "proto 0"));
        assert_eq!(chosen(&both, Function::AllGather, 4, Bytes(4096)), None);
        assert_eq!(chosen("", Function::AllGather, 4, Bytes(4096)), None);
    }
}
