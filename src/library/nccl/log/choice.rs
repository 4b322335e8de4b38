//! Lines that report the choice for a call.
//!
//! ```text
//! 1048576 Bytes -> Algo 1 proto 2 time 76.686562                              2.20 to 2.22
//! AllReduce: 1048576 Bytes -> Algo 1 proto 2 time 76.686562                   2.23
//! AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..23}      2.24 and later
//! Input: { … .func = AllReduce, … .nBytes = 1048576, .numPipesOps = 1, … }    2.31 and later:
//! Best tuning { … timeUs = 76.686562,  .algo = RING, .proto = LL, … }         the two together
//! ```
//!
//! All but the third count the largest buffer; the third counts count · element size, which for
//! all-gather and reduce-scatter is one rank's block. `Best tuning` can also name a symmetric kernel
//! or a copy engine; these are not algorithms and are ignored.
//!
//! Source: NVIDIA/nccl at those tags, `src/enqueue.cc`.

use crate::base::quantity::Bytes;
use crate::base::refused::Refused;
use crate::library::nccl::{Algo, Function, Micros, Proto};

/// A line that reports a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Its line, from 1.
    pub line: usize,
    /// The function; 2.22 and older do not print it.
    pub function: Option<Function>,
    /// The size in the line.
    pub bytes: Bytes,
    /// The algorithm.
    pub algo: Algo,
    /// The protocol.
    pub proto: Proto,
    /// The rest of the line.
    pub detail: Detail,
    pub(super) printer: String,
}

/// The part of a choice line besides algorithm and protocol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail {
    /// The tuner's estimate; 2.23 and older.
    Time(Micros),
    /// The first and the last channel; 2.24 and later.
    Channels(u32, u32),
}

impl Choice {
    /// Whether the size is that of one rank's buffer.
    #[must_use]
    pub fn is_per_rank(&self) -> bool {
        let gathers = self.function.is_some_and(Function::gathers);
        gathers && matches!(self.detail, Detail::Channels(..))
    }

    /// The part that lines of the same choice have in common.
    #[must_use]
    pub fn key(&self) -> (Option<Function>, Bytes, Algo, Proto, (u32, u32)) {
        let detail = match self.detail {
            Detail::Time(Micros(time)) => (time.to_bits(), u32::MAX),
            Detail::Channels(first, last) => (first, last),
        };
        (self.function, self.bytes, self.algo, self.proto, detail)
    }
}

/// A request to the tuner, kept until the tuner reports the best candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Input {
    function: Function,
    bytes: Bytes,
    pipelined: u32,
}

/// The beginnings of a request and of its answer.
pub(super) const INPUT: &str = "Input: {";
pub(super) const BEST: &str = "Best tuning {";

/// The field after its name, up to the comma.
fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = message.split_once(name)?;
    let value = after.trim_start().strip_prefix('=')?;
    Some(value.split([',', '}']).next().unwrap_or(value).trim())
}

/// Reads a request to the tuner; `None` for a function that it does not tune.
pub(super) fn input(message: &str, line: usize) -> Result<Option<Input>, Refused> {
    let cut = || Refused::at(line, "the line of a request is cut off").help("copy the whole line");
    let number = |name| field(message, name).and_then(|text| text.parse::<u64>().ok());
    let Ok(function) = Function::named(field(message, ".func").ok_or_else(cut)?) else {
        return Ok(None);
    };
    let bytes = Bytes(number(".nBytes").ok_or_else(cut)?);
    let pipelined = number(".numPipesOps").and_then(|n| u32::try_from(n).ok()).ok_or_else(cut)?;
    Ok(Some(Input { function, bytes, pipelined }))
}

/// Reads the answer to a request; `None` if no algorithm was chosen, or for several operations at
/// once.
pub(super) fn best(
    message: &str,
    asked: Input,
    printer: &str,
    line: usize,
) -> Result<Option<Choice>, Refused> {
    let cut = || Refused::at(line, "the line of a choice is cut off").help("copy the whole line");
    let named = |name| field(message, name).ok_or_else(cut);
    let (algo, proto) = (named(".algo")?, named(".proto")?);
    if algo == "Unknown" || asked.pipelined != 1 {
        return Ok(None);
    }
    let (algo, proto) = (algorithm(algo, line)?, protocol(proto, line)?);
    let time = named("timeUs")?.parse::<f32>().ok().filter(|t| t.is_finite() && *t >= 0.0);
    let detail = Detail::Time(Micros(time.ok_or_else(cut)?));
    let Input { function, bytes, .. } = asked;
    let printer = printer.to_owned();
    Ok(Some(Choice { line, function: Some(function), bytes, algo, proto, detail, printer }))
}

pub(super) const MARK: &str = " Bytes -> Algo ";

/// Reads a message that has the mark.
pub(super) fn read(message: &str, printer: &str, line: usize) -> Result<Choice, Refused> {
    let cut = || {
        Refused::at(line, "the line of a choice is cut off or damaged").help(
            "such lines end with `time 76.686562`, or with `channel{Lo..Hi}={0..23}`; copy the \
             whole line",
        )
    };
    let (before, after) = message.split_once(MARK).ok_or_else(cut)?;
    let (function, size) = match before.rsplit_once(':') {
        Some((name, size)) => {
            let name = name.trim();
            let named = Function::named(name).map_err(|_| {
                Refused::at(line, format!("`{name}` is not a collective of NCCL's tuner"))
            })?;
            (Some(named), size)
        }
        None => (None, before),
    };
    let size = size.trim();
    let bytes = size
        .parse::<u64>()
        .ok()
        .or_else(|| whole(size))
        .ok_or_else(|| Refused::at(line, format!("`{size}` is not a number of bytes")))?;
    let words: Vec<&str> = after.split_whitespace().collect();
    let [algo, "proto", proto, rest @ ..] = words.as_slice() else { return Err(cut()) };
    let (algo, proto) = (algorithm(algo, line)?, protocol(proto, line)?);
    let detail = match rest {
        ["time", time] => {
            let time: f32 = time.parse().map_err(|_| cut())?;
            if !time.is_finite() || time < 0.0 {
                return Err(Refused::at(line, format!("`time {time}` is not a time")));
            }
            Detail::Time(Micros(time))
        }
        // 2.32 adds `cgaClusterSize 4`.
        [range, ..] => {
            let range = range.strip_prefix("channel{Lo..Hi}={").and_then(|r| r.strip_suffix('}'));
            let (low, high) = range.and_then(|r| r.split_once("..")).ok_or_else(cut)?;
            let low: u32 = low.parse().map_err(|_| cut())?;
            let high: u32 = high.parse().map_err(|_| cut())?;
            if low > high {
                return Err(Refused::at(line, format!("channels {low} to {high} are not a range")));
            }
            Detail::Channels(low, high)
        }
        _ => return Err(cut()),
    };
    let printer = printer.to_owned();
    Ok(Choice { line, function, bytes: Bytes(bytes), algo, proto, detail, printer })
}

/// A number such as `4e9`, a short form that people write.
fn whole(text: &str) -> Option<u64> {
    let value: f64 = text.parse().ok()?;
    (value >= 0.0 && value.fract() == 0.0 && value < 9e15).then_some(value as u64)
}

/// A number or a name.
fn algorithm(word: &str, line: usize) -> Result<Algo, Refused> {
    let numbered = word.parse::<usize>().ok().and_then(|i| Algo::ALL.get(i).copied());
    numbered.or_else(|| Algo::named(word).ok()).ok_or_else(|| {
        Refused::at(line, format!("`{word}` is not an algorithm of NCCL")).help(
            "0 is Tree, 1 Ring, 2 CollNetDirect, 3 CollNetChain, 4 NVLS, 5 NVLSTree, 6 PAT; -1 \
             means that NCCL found none",
        )
    })
}

fn protocol(word: &str, line: usize) -> Result<Proto, Refused> {
    let numbered = word.parse::<usize>().ok().and_then(|i| Proto::ALL.get(i).copied());
    numbered.or_else(|| Proto::named(word).ok()).ok_or_else(|| {
        Refused::at(line, format!("`{word}` is not a protocol of NCCL"))
            .help("0 is LL, 1 LL128, 2 Simple; -1 means that NCCL found none")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms() {
        let old = read("4000000000 Bytes -> Algo 1 proto 2 time 375213.125", "", 7).unwrap();
        assert_eq!((old.algo, old.proto, old.function), (Algo::Ring, Proto::Simple, None));
        assert_eq!(old.detail, Detail::Time(Micros(375_213.13)));
        let short = read("4e9 Bytes -> Algo 1 proto 2 time 375213", "", 7).unwrap();
        assert_eq!(short.bytes, old.bytes);
        let named = read("AllGather: 8 Bytes -> Algo 6 proto 2 time 17.6", "", 1).unwrap();
        assert_eq!((named.algo, named.is_per_rank()), (Algo::Pat, false));
        let new = "AllGather: 8 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}";
        let new = read(new, "", 1).unwrap();
        assert_eq!((new.algo, new.proto, new.is_per_rank()), (Algo::NvlsTree, Proto::Simple, true));
        assert_eq!(new.detail, Detail::Channels(0, 15));
        let newest =
            "Reduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0} cgaClusterSize 4";
        assert_eq!(read(newest, "", 1).unwrap().detail, Detail::Channels(0, 0));
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for text in [
            "8 Bytes -> Algo ",
            "8 Bytes -> Algo 1 pro",
            "8 Bytes -> Algo 9 proto 2 time 1.0",
            "8 Bytes -> Algo -1 proto -1 time 3600000000.000000",
            "8 Bytes -> Algo 1 proto 2 time",
            "x Bytes -> Algo 1 proto 2 time 1.0",
            "AllToAll: 8 Bytes -> Algo 1 proto 2 time 1.0",
            "AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..",
            "AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={3..0}",
        ] {
            assert_eq!(read(text, "", 3).unwrap_err().line, Some(3), "{text}");
        }
    }
}
