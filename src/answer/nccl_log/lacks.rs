//! Logs with little in them: what was found, and what a comparison needs.

use super::{Asked, Given};
use crate::library::nccl::Settings;
use crate::library::nccl::log::{Known, Log};

/// Variables that one note names.
const NAMED: usize = 8;

/// What a log has that nothing is compared with.
pub(super) fn found(log: &Log) -> Vec<String> {
    let mut notes = Vec::new();
    let mut set: Vec<String> = Vec::new();
    for variable in &log.environment {
        let (name, value) = &variable.what;
        let text = format!("{name}={value}");
        if !Settings::KNOWN.contains(&name.as_str()) && !set.contains(&text) {
            set.push(text);
        }
    }
    if !set.is_empty() {
        let more = match set.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        set.truncate(NAMED);
        let set = set.join(" ");
        notes.push(format!("the environment sets {set}{more}, which the tuner does not read"));
    }
    if let Some(all) = log.connections {
        let channels = all.channel.map(|highest| format!("channels up to {highest:02} and "));
        let channels = channels.unwrap_or_default();
        notes.push(format!("lines of connections name {channels}ranks up to {}", all.rank));
    }
    notes
}

/// What such a log lacks, and which lines have it.
pub(super) fn missing(known: &Known<'_>, is_dated: bool) -> String {
    let parts = [
        (known.searched() > 0, "graphs (GRAPH)"),
        (known.ranks.is_some(), "ranks (INIT)"),
        (known.nodes.is_some(), "nodes (INIT)"),
        (known.gpu.is_some(), "--gpu"),
        (is_dated, "--nccl"),
    ];
    let parts = parts.into_iter().filter(|(has, _)| !has).map(|(_, part)| part);
    let parts = parts.collect::<Vec<_>>().join(", ");
    format!(
        "the log has neither the tuner's table nor its choices, which NCCL_DEBUG=INFO \
         NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING,ENV prints; to compute what the tuner chooses it lacks {parts}; --comm \
         compares its channels with those of a known machine"
    )
}

/// The channels of a log beside those of the machine that `--comm` names.
pub(super) fn channels(log: &Log, known: &Known<'_>, asked: &Asked) -> Option<String> {
    let Some(Given::Whole(name, comm)) = &asked.given else { return None };
    let own = comm.channels;
    match (known.channels, log.connections.and_then(|all| all.channel)) {
        (Some(count), _) if count == own => None,
        (Some(count), _) => Some(format!("the log has {count} channels, {name} has {own}")),
        (None, highest) => {
            Some(format!("the log has at least {} channels, {name} has {own}", highest? + 1))
        }
    }
}
