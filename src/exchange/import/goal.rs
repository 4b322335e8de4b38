//! GOAL, as LogGOPSim's `txt2bin` takes it, with the comments of [`export`](crate::exchange::export).
//!
//! GOAL alone says who sends how many bytes to whom, and what waits for what. Sends and receives
//! are matched, and everything that waits for itself is found, in any such file; which data travel
//! is known only from comments, without which a file is refused after that.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::order::{Carried, Program};
use super::{Foreign, Placed, Refused, runs};
use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::model::schedule::{Endpoint, Frame, Layout, Op};

/// Chunks that are followed at most: each takes some bytes at its sender and its receiver.
const MOST_CHUNKS: usize = 1 << 22;

pub(super) fn is(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("num_ranks"))
}

/// What the comments at the head of a file say.
#[derive(Default)]
struct Header {
    collective: Option<Collective>,
    root: u32,
    parts: u32,
    owned: bool,
    size: Option<u64>,
    owners: Option<Vec<u32>>,
}

/// What a comment says about the operation behind it.
enum Note {
    Message { number: u64, op: Op, chunks: Vec<u32> },
    Stores(u64),
}

/// One end of a message.
struct End {
    node: usize,
    line: usize,
    bytes: u64,
    note: Option<Note>,
}

/// From, to and tag.
type Key = (u32, u32, u64);

#[derive(Default)]
struct Reader {
    header: Header,
    ranks: Option<u32>,
    program: Program,
    sends: BTreeMap<Key, VecDeque<End>>,
    receives: BTreeMap<Key, VecDeque<End>>,
    /// By rank and number of the message: what stores it.
    stores: HashMap<(u32, u64), usize>,
    rank: Option<u32>,
    labels: HashMap<String, usize>,
    note: Option<Note>,
    followed: usize,
}

pub(super) fn read(text: &str) -> Result<Foreign, Refused> {
    let mut reader = Reader::default();
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
    reader.finish()
}

fn number<T: std::str::FromStr>(word: Option<&str>, what: &str, line: usize) -> Result<T, Refused> {
    let word = word.unwrap_or("");
    word.parse().map_err(|_| Refused::at(line, format!("`{word}` is no {what}")))
}

impl Reader {
    fn line(&mut self, line: &str, at: usize) -> Result<(), Refused> {
        if let Some(comment) = line.strip_prefix("//") {
            return self.comment(comment.trim(), at);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => Ok(()),
            ["num_ranks", count] => {
                self.ranks = Some(number(Some(count), "number of ranks", at)?);
                Ok(())
            }
            ["rank", rank, "{"] if self.rank.is_none() => {
                let rank: u32 = number(Some(rank), "rank", at)?;
                let ranks = self.ranks.unwrap_or(0);
                if rank >= ranks {
                    return Err(Refused::at(at, format!("rank {rank} of {ranks} ranks")));
                }
                self.rank = Some(rank);
                self.labels.clear();
                Ok(())
            }
            ["}"] if self.rank.is_some() => {
                self.rank = None;
                Ok(())
            }
            [label, "requires" | "irequires", other] => {
                let (node, earlier) = (self.label(label, at)?, self.label(other, at)?);
                self.program.require(node, earlier);
                Ok(())
            }
            _ => self.operation(&words, at),
        }
    }

    fn label(&self, label: &str, at: usize) -> Result<usize, Refused> {
        let known = self.labels.get(label).copied();
        known.ok_or_else(|| Refused::at(at, format!("`{label}` names no operation of this rank")))
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
        let node = self.program.push(at);
        if let Some(label) = label
            && self.labels.insert(label.to_owned(), node).is_some()
        {
            return Err(Refused::at(at, format!("the label `{label}` stands twice")));
        }
        let note = self.note.take();
        match *words {
            ["send", bytes, "to", peer, ref rest @ ..] => {
                let (key, end) = end(rank, peer, rest, node, bytes, note, at)?;
                self.sends.entry(key).or_default().push_back(end);
            }
            ["recv", bytes, "from", peer, ref rest @ ..] => {
                let ((to, from, tag), end) = end(rank, peer, rest, node, bytes, note, at)?;
                self.receives.entry((from, to, tag)).or_default().push_back(end);
            }
            ["calc", ..] => {
                if let Some(Note::Stores(number)) = note {
                    self.stores.insert((rank, number), node);
                }
            }
            _ => {
                let what = words.first().unwrap_or(&"");
                return Err(Refused::at(at, format!("`{what}` is no send, recv or calc")));
            }
        }
        Ok(())
    }

    fn comment(&mut self, comment: &str, at: usize) -> Result<(), Refused> {
        let words: Vec<&str> = comment.split_whitespace().collect();
        match words[..] {
            ["collective", name, ref rest @ ..] => {
                let collective = name
                    .parse()
                    .map_err(|_| Refused::at(at, format!("`{name}` is no collective")))?;
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
            ["message", index, op, "chunks", chunks] => {
                let op = match op {
                    "copy" => Op::Copy,
                    "reduce" => Op::Reduce,
                    "or" => Op::Or,
                    _ => return Err(Refused::at(at, format!("`{op}` is no copy, reduce or or"))),
                };
                let chunks = self.chunks(chunks, at)?;
                let number = number(Some(index), "number of a message", at)?;
                self.note = Some(Note::Message { number, op, chunks });
            }
            ["stores", index] => {
                self.note = Some(Note::Stores(number(Some(index), "number of a message", at)?));
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
                return Err(Refused::at(at, format!("`{part}` are no chunks")));
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

    fn finish(mut self) -> Result<Foreign, Refused> {
        let mut pairs = Vec::new();
        for (key, sends) in std::mem::take(&mut self.sends) {
            let (from, to, tag) = key;
            for send in sends {
                let receive = self.receives.get_mut(&key).and_then(VecDeque::pop_front);
                let Some(receive) = receive else {
                    return Err(Refused::at(
                        send.line,
                        format!(
                            "rank {from} sends tag {tag} to rank {to}, which does not receive it"
                        ),
                    ));
                };
                if send.bytes != receive.bytes {
                    return Err(Refused::at(
                        receive.line,
                        format!("{} bytes are sent and {} received", send.bytes, receive.bytes),
                    ));
                }
                self.program.require(receive.node, send.node);
                pairs.push((from, to, send, receive));
            }
        }
        let left = self.receives.iter().find_map(|(key, left)| Some((key, left.front()?)));
        if let Some((&(from, to, tag), receive)) = left {
            return Err(Refused::at(
                receive.line,
                format!("rank {to} receives tag {tag} from rank {from}, which does not send it"),
            ));
        }
        let order = self.program.order()?;
        let Some(collective) = self.header.collective else { return Err(no_chunks(1)) };
        let mut messages = Vec::new();
        let mut seen = HashMap::new();
        for (from, to, send, receive) in pairs {
            let Some(Note::Message { number, op, chunks }) = send.note else {
                return Err(no_chunks(send.line));
            };
            if let Some(before) = seen.insert(number, send.line) {
                return Err(Refused::at(
                    send.line,
                    format!("message {number} stands twice, first in line {before}"),
                ));
            }
            let store = self.stores.get(&(to, number)).copied().unwrap_or(receive.node);
            let line = send.line;
            messages.push(Carried { from, to, op, chunks, send: send.node, store, line });
        }
        // In the order of their numbers, which is that of the schedule.
        let mut numbers: Vec<_> = seen.into_iter().collect();
        numbers.sort_unstable();
        let place: HashMap<usize, usize> =
            numbers.iter().enumerate().map(|(i, &(_, line))| (line, i)).collect();
        messages.sort_by_key(|message| place.get(&message.line).copied());
        let rounds = self.program.rounds(&order, &messages)?;
        let Header { root, parts, owned, size, owners, .. } = self.header;
        let layout = if owned { Layout::Owned } else { Layout::Shared };
        let ranks = self.ranks.unwrap_or(0);
        let frame = Frame { root, layout, ..Frame::new(collective, ranks, parts, 0) };
        let placed = messages.into_iter().zip(rounds).map(|(message, round)| Placed {
            round,
            from: Endpoint::Rank(message.from),
            to: Endpoint::Rank(message.to),
            op: message.op,
            runs: runs(&message.chunks),
            line: message.line,
        });
        let foreign = Foreign::new(frame, owners.as_deref(), placed.collect());
        Ok(Foreign { size: size.map(Bytes), ..foreign })
    }
}

/// The end of a message at `rank`: rank, peer and tag; and the rest.
fn end(
    rank: u32,
    peer: &str,
    rest: &[&str],
    node: usize,
    bytes: &str,
    note: Option<Note>,
    line: usize,
) -> Result<(Key, End), Refused> {
    if peer == "-1" || rest == ["tag", "-1"] {
        return Err(Refused::at(line, "any source or any tag leaves open which message it is")
            .unsupported());
    }
    let peer: u32 = number(Some(peer), "rank", line)?;
    let bytes: u64 = number(bytes.strip_suffix('b'), "number of bytes such as 64b", line)?;
    let tag = rest.iter().position(|&word| word == "tag");
    let tag = tag.map_or(Ok(0), |at| number(rest.get(at + 1).copied(), "tag", line))?;
    Ok(((rank, peer, tag), End { node, line, bytes, note }))
}

fn no_chunks(line: usize) -> Refused {
    Refused::at(line, "sends and receives match, but which data they carry is not said")
        .help("GOAL carries no data; collcost export goal says it in comments")
        .unsupported()
}
