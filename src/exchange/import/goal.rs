//! GOAL for LogGOPSim's `txt2bin`, with the comments of [`export`](crate::exchange::export).
//!
//! GOAL itself says who sends how many bytes to whom, and what waits for what, which is enough to
//! time it. In any such file, sends and receives are matched, and cyclic waits are found. Only the
//! comments say which data are sent; without them there is no schedule to verify.

use std::collections::HashMap;

use super::ends::Ends;
use super::order::{Carried, Program};
use super::{Bare, Foreign, Refused};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::model::operations::{self, About, Does, Once, Operation, Operations};
use crate::model::schedule::{Frame, Layout, Op};

/// The most chunks that are followed: each takes some bytes at its sender and its receiver.
const MOST_CHUNKS: usize = 1 << 22;

pub(super) fn is(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("num_ranks"))
}

/// The comments at the head of a file.
#[derive(Default)]
struct Header {
    collective: Option<Collective>,
    root: u32,
    parts: u32,
    owned: bool,
    size: Option<u64>,
    owners: Option<Vec<u32>>,
}

#[derive(Default)]
struct Reader {
    header: Header,
    ranks: Option<u32>,
    operations: Operations,
    /// The line of each operation.
    lines: Vec<u32>,
    /// The content of the comment before an operation.
    about: HashMap<u32, About<Vec<u32>>>,
    rank: Option<u32>,
    labels: HashMap<String, u32>,
    comment: Option<About<Vec<u32>>>,
    followed: usize,
}

/// The schedule that the comments describe.
pub(super) fn read(text: &str) -> Result<Foreign, Refused> {
    Reader::of(text)?.schedule()
}

/// The operations of a file; none if it is not GOAL, or is `unsaid` what they move and its comments say it.
pub(super) fn operations(text: &str, unsaid: bool) -> Result<Option<Bare>, Refused> {
    if !is(text) {
        return Ok(None);
    }
    let reader = Reader::of(text)?;
    if unsaid && reader.header.collective.is_some() {
        return Ok(None);
    }
    let any = |operation: &Operation| match operation.does {
        Does::Receive { from, tag, .. } => from.is_none() || tag.is_none(),
        Does::Send { .. } | Does::Compute(_) => false,
    };
    let messages = match reader.operations.list.iter().any(any) {
        true => None,
        false => {
            let (program, messages) = reader.matched()?;
            program.order()?;
            Some(messages)
        }
    };
    Ok(Some(Bare { operations: reader.operations, messages, lines: reader.lines }))
}

fn number<T: std::str::FromStr>(word: Option<&str>, what: &str, line: usize) -> Result<T, Refused> {
    let word = word.unwrap_or("");
    word.parse().map_err(|_| Refused::at(line, format!("`{word}` is not a {what}")))
}

impl Reader {
    fn of(text: &str) -> Result<Self, Refused> {
        let mut reader = Self::default();
        let mut in_comment = false;
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if in_comment || line.starts_with("/*") {
                in_comment = !line.contains("*/");
                continue;
            }
            reader.line(line, number)?;
        }
        if reader.rank.is_some() {
            return Err(Refused::at(text.lines().count(), "the last rank has no closing `}`"));
        }
        reader.operations.ranks = reader.ranks.unwrap_or(0);
        Ok(reader)
    }

    fn line(&mut self, line: &str, at: usize) -> Result<(), Refused> {
        if let Some(comment) = line.strip_prefix("//") {
            return self.comment(comment.trim(), at);
        }
        // `rank 2 { }`: braces need no line and no blanks of their own.
        let spaced = line.replace('{', " { ").replace('}', " } ");
        let line = if line.contains(['{', '}']) { spaced.as_str() } else { line };
        let mut words = [""; 16];
        let mut count = 0;
        for word in line.split_whitespace() {
            *words.get_mut(count).ok_or_else(|| Refused::at(at, "too many words"))? = word;
            count += 1;
        }
        self.words(&words[..count], at)
    }

    fn words(&mut self, words: &[&str], at: usize) -> Result<(), Refused> {
        match *words {
            [] => Ok(()),
            [comment, ..] if comment.starts_with("//") => Ok(()),
            ["num_ranks", count, ref rest @ ..] => {
                self.ranks = Some(number(Some(count), "number of ranks", at)?);
                self.words(rest, at)
            }
            ["rank", rank, "{", ref rest @ ..] if self.rank.is_none() => {
                let rank: u32 = number(Some(rank), "rank", at)?;
                let ranks = self.ranks.unwrap_or(0);
                if rank >= ranks {
                    return Err(Refused::at(
                        at,
                        format!("there is no rank {rank} among {ranks} ranks"),
                    ));
                }
                self.rank = Some(rank);
                self.labels.clear();
                self.words(rest, at)
            }
            ["}", ref rest @ ..] if self.rank.is_some() => {
                self.rank = None;
                self.words(rest, at)
            }
            [label, how @ ("requires" | "irequires"), other] => {
                let (operation, earlier) = (self.label(label, at)?, self.label(other, at)?);
                let once = if how == "requires" { Once::Done } else { Once::Started };
                self.operations.requires.push((operation, earlier, once));
                Ok(())
            }
            _ => self.operation(words, at),
        }
    }

    fn label(&self, label: &str, at: usize) -> Result<u32, Refused> {
        let known = self.labels.get(label).copied();
        known.ok_or_else(|| Refused::at(at, format!("`{label}` is not an operation of this rank")))
    }

    fn operation(&mut self, words: &[&str], at: usize) -> Result<(), Refused> {
        let Some(rank) = self.rank else {
            return Err(Refused::at(at, "an operation outside of a rank"));
        };
        let (label, words) = match words {
            [label, rest @ ..] if label.ends_with(':') => (Some(label.trim_end_matches(':')), rest),
            [label, ":", rest @ ..] => (Some(*label), rest),
            _ => (None, words),
        };
        let node = self.lines.len() as u32;
        if let Some(label) = label
            && self.labels.insert(label.to_owned(), node).is_some()
        {
            return Err(Refused::at(at, format!("the label `{label}` appears twice")));
        }
        let (does, rest) = match *words {
            ["send", bytes, "to", peer, ref rest @ ..] => {
                let tag = value("tag", rest, at)?.unwrap_or(0);
                let to = number(Some(peer), "rank", at)?;
                (Does::Send { to, tag, bytes: volume(bytes, at)? }, rest)
            }
            ["recv", bytes, "from", peer, ref rest @ ..] => {
                let any_tag = rest.windows(2).any(|pair| pair == ["tag", "-1"]);
                let tag = if any_tag { None } else { value("tag", rest, at)?.or(Some(0)) };
                let from = if peer == "-1" { None } else { Some(number(Some(peer), "rank", at)?) };
                (Does::Receive { from, tag, bytes: volume(bytes, at)? }, rest)
            }
            ["calc", time, ref rest @ ..] => {
                let time: u64 = number(Some(time), "number of nanoseconds", at)?;
                (Does::Compute(Seconds(time as f64 * 1e-9)), rest)
            }
            _ => {
                let what = words.first().unwrap_or(&"");
                return Err(Refused::at(at, format!("`{what}` is not send, recv or calc")));
            }
        };
        let cpu = value("cpu", rest, at)?.unwrap_or(0);
        let nic = value("nic", rest, at)?.unwrap_or(0);
        self.operations.list.push(Operation { rank, does, cpu, nic });
        self.lines.push(at as u32);
        if let Some(about) = self.comment.take() {
            self.about.insert(node, about);
        }
        Ok(())
    }

    fn comment(&mut self, comment: &str, at: usize) -> Result<(), Refused> {
        let words: Vec<&str> = comment.split_whitespace().collect();
        match words[..] {
            ["collective", name, ref rest @ ..] => {
                let collective = name
                    .parse()
                    .map_err(|_| Refused::at(at, format!("`{name}` is not a collective")))?;
                self.header.collective = Some(collective);
                for pair in rest.chunks(2) {
                    let value = pair.get(1).copied();
                    match pair[0] {
                        "root" => self.header.root = number(value, "rank", at)?,
                        "parts" => self.header.parts = number(value, "number of chunks", at)?,
                        "layout" => self.header.owned = value == Some("owned"),
                        "size" => self.header.size = Some(number(value, "size", at)?),
                        _ => {}
                    }
                }
            }
            ["owners", ref owners @ ..] => {
                let owner = |word: &&str| number(Some(word), "rank", at);
                self.header.owners = Some(owners.iter().map(owner).collect::<Result<_, _>>()?);
            }
            // Without its round a message goes as early as its data allow.
            ["message", index, op, "chunks", chunks]
            | ["message", index, "round", _, op, "chunks", chunks] => {
                let round = match words[2] {
                    "round" => number(Some(words[3]), "round", at)?,
                    _ => 0,
                };
                let op = match op {
                    "copy" => Op::Copy,
                    "reduce" => Op::Reduce,
                    "or" => Op::Or,
                    _ => return Err(Refused::at(at, format!("`{op}` is not copy, reduce or or"))),
                };
                let chunks = self.chunks(chunks, at)?;
                let number = number(Some(index), "number of a message", at)?;
                self.comment = Some(About::Message { number, round, op, chunks });
            }
            ["stores", index] => {
                let number = number(Some(index), "number of a message", at)?;
                self.comment = Some(About::Stores(number));
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads `0-3,7`.
    fn chunks(&mut self, text: &str, at: usize) -> Result<Vec<u32>, Refused> {
        let mut chunks = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = number(Some(first), "chunk", at)?;
            let last: u32 = number(Some(last), "chunk", at)?;
            if last < first {
                return Err(Refused::at(at, format!("`{part}` is not a range of chunks")));
            }
            self.followed += (last - first) as usize + 1;
            if self.followed > MOST_CHUNKS {
                let [mib, most] = [self.followed, MOST_CHUNKS].map(|n| (n * 64) >> 20);
                return Err(Refused::at(
                    at,
                    format!(
                        "following the chunks up to here takes {mib} MiB of memory, more than {most}"
                    ),
                ));
            }
            chunks.extend(first..=last);
        }
        Ok(chunks)
    }

    /// The operations with their dependencies, including those of matched sends and receives, and
    /// the matches.
    fn matched(&self) -> Result<(Program, Vec<(u32, u32)>), Refused> {
        let mut program = Program::default();
        let line = |operation: u32| self.lines[operation as usize] as usize;
        self.lines.iter().for_each(|&line| {
            program.push(line as usize);
        });
        for &(operation, earlier, _) in &self.operations.requires {
            program.require(operation as usize, earlier as usize);
        }
        let mut ends = Ends::new();
        for (&Operation { rank, does, .. }, operation) in self.operations.list.iter().zip(0..) {
            match does {
                Does::Send { to, tag, bytes } => {
                    ends.send((rank, to, tag.into()), operation, bytes);
                }
                Does::Receive { from: Some(from), tag: Some(tag), bytes } => {
                    ends.receive((from, rank, tag.into()), operation, bytes);
                }
                Does::Receive { .. } => {
                    let what = "any source or any tag does not fix the message";
                    return Err(Refused::at(line(operation), what).unsupported());
                }
                Does::Compute(_) => {}
            }
        }
        let pairs = ends.matched().map_err(|odd| {
            let help = match odd.sent_at {
                None => "compare ranks and tags at both ends: each send has a `recv` of its own".to_owned(),
                Some(sent_at) => format!(
                    "line {} sends it, the same tag in order: write one number of bytes at both ends, or a \
                     tag of its own for each message",
                    line(sent_at)
                ),
            };
            Refused::at(line(odd.at), odd.what).help(help)
        })?;
        for &(send, receive) in &pairs {
            program.require(receive as usize, send as usize);
        }
        Ok((program, pairs))
    }

    /// Whether a message has the bytes of its chunks by the size in the header, if that has one.
    fn check_size(&self, collective: Collective, send: u32, chunks: &[u32]) -> Result<(), Refused> {
        let does = self.operations.list[send as usize].does;
        let (Does::Send { bytes, .. }, Some(size)) = (does, self.header.size) else {
            return Ok(());
        };
        let frame = Frame::new(collective, self.ranks.unwrap_or(0), self.header.parts, 0);
        let carried = operations::bytes(&frame, Bytes(size), chunks.iter().copied());
        if carried == bytes {
            return Ok(());
        }
        let [sent, carried] = [bytes.0, carried.0];
        let what = format!(
            "{sent} bytes are sent, and its chunks have {carried} of the {size} in the header"
        );
        Err(Refused::at(self.lines[send as usize] as usize, what))
    }

    fn schedule(mut self) -> Result<Foreign, Refused> {
        let (program, pairs) = self.matched()?;
        let order = program.order()?;
        let Some(collective) = self.header.collective else { return Err(no_chunks(1)) };
        let rank = |operation: u32| self.operations.list[operation as usize].rank;
        let mut stores = HashMap::new();
        for (&operation, about) in &self.about {
            if let About::Stores(number) = about {
                stores.insert((rank(operation), *number), operation);
            }
        }
        let mut messages = Vec::new();
        let mut seen = HashMap::new();
        for (send, receive) in pairs {
            let line = self.lines[send as usize] as usize;
            let (from, to) = (rank(send), rank(receive));
            let Some(About::Message { number, round, op, chunks }) = self.about.remove(&send)
            else {
                return Err(no_chunks(line));
            };
            if let Some(before) = seen.insert(number, line) {
                return Err(Refused::at(
                    line,
                    format!("message {number} appears twice, first in line {before}"),
                ));
            }
            self.check_size(collective, send, &chunks)?;
            let store = stores.get(&(to, number)).copied().unwrap_or(receive);
            let (send, store) = (send as usize, store as usize);
            messages.push(Carried { from, to, op, chunks, round, send, store, line });
        }
        // In the order of their numbers, which is the order of the schedule.
        let mut numbers: Vec<_> = seen.into_iter().collect();
        numbers.sort_unstable();
        let place: HashMap<usize, usize> =
            numbers.iter().enumerate().map(|(i, &(_, line))| (line, i)).collect();
        messages.sort_by_key(|message| place.get(&message.line).copied());
        let placed = program.placed(&order, messages)?;
        let Header { root, parts, owned, size, owners, .. } = self.header;
        let layout = if owned { Layout::Owned } else { Layout::Shared };
        let ranks = self.ranks.unwrap_or(0);
        let frame = Frame { root, layout, ..Frame::new(collective, ranks, parts, 0) };
        let foreign = Foreign::new(frame, owners.as_deref(), placed);
        Ok(Foreign { size: size.map(Bytes), ..foreign })
    }
}

/// `64b`.
fn volume(text: &str, line: usize) -> Result<Bytes, Refused> {
    Ok(Bytes(number(text.strip_suffix('b'), "number of bytes such as 64b", line)?))
}

/// The number after `key` among the last words of an operation.
fn value<T: std::str::FromStr>(
    key: &str,
    words: &[&str],
    line: usize,
) -> Result<Option<T>, Refused> {
    let at = words.iter().position(|&word| word == key);
    at.map(|at| number(words.get(at + 1).copied(), key, line)).transpose()
}

fn no_chunks(line: usize) -> Refused {
    Refused::at(line, "sends and receives match, but the file does not say which data they carry")
        .help("GOAL does not name data; collcost export goal adds them in comments")
        .unsupported()
}
