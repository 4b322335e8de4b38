//! The JSON Lines of `collcost trace --events`, or of any program that writes the same format.

use serde::Deserialize;

use super::claims::{self, Claimed, Ports, Rules};
use super::{Foreign, Placed, Refused, runs, within};
use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::model::schedule::{Endpoint, Frame, Layout, Op, Schedule, holds, wants};

/// The first line.
#[derive(Deserialize)]
struct Header {
    collective: String,
    ranks: u32,
    #[serde(default)]
    switches: u32,
    #[serde(default)]
    root: u32,
    chunk_bytes: Vec<f64>,
    own_parts: Option<bool>,
    holds: Option<Vec<Vec<u32>>>,
    wants: Option<Vec<Vec<u32>>>,
    ports: Option<u32>,
    duplex: Option<String>,
    discipline: Option<String>,
    mode: Option<String>,
    #[serde(default)]
    tiers: Vec<Tier>,
}

/// One tier of several.
#[derive(Deserialize)]
struct Tier {
    ports: Option<u32>,
    duplex: Option<String>,
    discipline: Option<String>,
}

/// A line after it.
#[derive(Deserialize)]
struct Event {
    round: u64,
    from: End,
    to: End,
    chunks: Vec<u32>,
    op: String,
    start_s: Option<f64>,
    end_s: Option<f64>,
    added_s: Option<f64>,
    #[serde(default)]
    tier: usize,
}

/// A rank by its number, or a switch as `switch0`.
#[derive(Deserialize)]
#[serde(untagged)]
enum End {
    Rank(u32),
    Switch(String),
}

pub(super) fn is(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"collective\"")
}

pub(super) fn read(text: &str) -> Result<Foreign, Refused> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let (first, at) = lines.next().ok_or_else(|| Refused::at(1, "the file is empty"))?;
    let header: Header = parse(first, at)?;
    let mut frame = frame(&header, at)?;
    let mut messages = Vec::new();
    let mut claimed = Vec::new();
    for (line, at) in lines {
        let event: Event = parse(line, at)?;
        within(event.round, at)?;
        let (round, op, runs) = (event.round, op(&event.op, at)?, runs(&event.chunks));
        let (from, to) = (end(event.from, at)?, end(event.to, at)?);
        match (event.start_s, event.end_s) {
            (Some(start), Some(end)) => claimed.push(Claimed {
                round,
                from,
                to,
                op,
                runs: runs.clone(),
                tier: event.tier,
                start,
                end,
                added: event.added_s.unwrap_or(end),
                line: at,
            }),
            (None, None) => {}
            _ => return Err(Refused::at(at, "a message has only one of start and end")),
        }
        messages.push(Placed { round, from, to, op, runs, line: at });
    }
    if !claimed.is_empty() && claimed.len() < messages.len() {
        return Err(Refused::at(at, "some messages have a start time, others do not"));
    }
    claimed.sort_by_key(|message| message.round);
    let wrong_claim = claims::check(&claimed, &rules(&header));
    frame.last_first = descends(&messages);
    let owners = owners(&frame, &header);
    let foreign = Foreign::new(frame, owners.as_deref(), messages);
    check(&foreign, &header, at)?;
    let size: f64 = match frame.layout {
        Layout::Shared => header.chunk_bytes.iter().sum(),
        Layout::Owned => header.chunk_bytes.iter().take(frame.parts as usize).sum(),
    };
    // The sum of uneven chunks is a whole number except for rounding errors.
    let whole = (0.0..9e15).contains(&size) && (size - size.round()).abs() <= 1e-9 * size;
    let size = whole.then_some(Bytes(size.round() as u64));
    Ok(Foreign { size, wrong_claim, ..foreign })
}

/// The ports and barriers of the first line. Fair ports carry any number of messages.
fn rules(header: &Header) -> Rules {
    let half = |duplex: &Option<String>| duplex.as_deref() == Some("half");
    let of = |(ports, duplex, discipline): (Option<u32>, &Option<String>, &Option<String>)| {
        let fair = discipline.as_deref() == Some("fair");
        Ports { count: if fair { 0 } else { ports.unwrap_or(0) }, half: half(duplex) }
    };
    let ports = match header.tiers.as_slice() {
        [] => vec![of((header.ports, &header.duplex, &header.discipline))],
        tiers => tiers.iter().map(|t| of((t.ports, &t.duplex, &t.discipline))).collect(),
    };
    Rules { ports, barriers: header.mode.as_deref() == Some("sync") }
}

fn parse<'a, T: Deserialize<'a>>(line: &'a str, at: usize) -> Result<T, Refused> {
    serde_json::from_str(line)
        .map_err(|e| Refused::at(at, format!("the line is not an event: {e}")))
}

fn frame(header: &Header, at: usize) -> Result<Frame, Refused> {
    let name = &header.collective;
    let collective: Collective =
        name.parse().map_err(|_| Refused::at(at, format!("`{name}` is not a collective")))?;
    let chunks = u32::try_from(header.chunk_bytes.len())
        .map_err(|_| Refused::at(at, "there are too many chunks"))?;
    let ranks = header.ranks;
    let plain = Frame::new(collective, ranks, chunks, 0);
    let owned = header.own_parts.unwrap_or(plain.layout == Layout::Owned);
    let (layout, parts) = match owned {
        true if ranks == 0 || chunks % ranks != 0 => {
            return Err(Refused::at(
                at,
                format!("{chunks} chunks are not equal parts of {ranks} vectors"),
            ));
        }
        true => (Layout::Owned, chunks / ranks),
        false => (Layout::Shared, chunks),
    };
    Ok(Frame { root: header.root, switches: header.switches, layout, parts, ..plain })
}

/// The rank that begins or ends with each chunk, if that is not the order of the blocks.
fn owners(frame: &Frame, header: &Header) -> Option<Vec<u32>> {
    use Collective as C;
    let table = match frame.collective {
        C::AllGather | C::Gather => header.holds.as_ref()?,
        C::ReduceScatter | C::Scatter => header.wants.as_ref()?,
        _ => return None,
    };
    let mut owners = vec![u32::MAX; frame.parts as usize];
    for (chunks, rank) in table.iter().zip(0..) {
        for &chunk in chunks {
            *owners.get_mut(chunk as usize)? = rank;
        }
    }
    Some(owners)
}

/// Checks that `holds` and `wants` of the first line are those of the collective.
fn check(foreign: &Foreign, header: &Header, at: usize) -> Result<(), Refused> {
    table(foreign, header.holds.as_deref(), holds, "holds", at)?;
    table(foreign, header.wants.as_deref(), wants, "wants", at)
}

fn table(
    foreign: &Foreign,
    table: Option<&[Vec<u32>]>,
    of: fn(&dyn Schedule, u32, u32) -> bool,
    name: &str,
    at: usize,
) -> Result<(), Refused> {
    let (Some(table), list) = (table, &foreign.list) else { return Ok(()) };
    if table.len() != list.ranks() as usize {
        return Err(Refused::at(at, format!("`{name}` does not have {} ranks", list.ranks())));
    }
    for (chunks, rank) in table.iter().zip(0..) {
        let mut said = chunks.clone();
        said.sort_unstable();
        let meant = (0..list.chunks()).filter(|&chunk| of(list, rank, chunk));
        if !said.into_iter().eq(meant) {
            let what = format!("`{name}` of rank {rank} is not that of {}", list.collective());
            return Err(Refused::at(at, what));
        }
    }
    Ok(())
}

/// Whether ranks are in descending order in the first round in which several send.
fn descends(messages: &[Placed]) -> bool {
    let rounds = messages.chunk_by(|a, b| a.round == b.round);
    let turns = rounds.flat_map(|round| round.windows(2)).map(|pair| (pair[0].from, pair[1].from));
    let mut ranks = turns.filter(|(a, b)| a != b && matches!(b, Endpoint::Rank(_)));
    ranks.next().is_some_and(|(a, b)| b < a)
}

fn end(end: End, at: usize) -> Result<Endpoint, Refused> {
    let name = match end {
        End::Rank(rank) => return Ok(Endpoint::Rank(rank)),
        End::Switch(name) => name,
    };
    let number = name.strip_prefix("switch").and_then(|number| number.trim().parse().ok());
    number.map(Endpoint::Switch).ok_or_else(|| {
        Refused::at(at, format!("`{name}` is neither a rank nor a switch such as switch0"))
    })
}

fn op(name: &str, at: usize) -> Result<Op, Refused> {
    match name {
        "copy" => Ok(Op::Copy),
        "reduce" => Ok(Op::Reduce),
        "or" => Ok(Op::Or),
        _ => Err(Refused::at(at, format!("`{name}` is not copy, reduce or or"))),
    }
}
