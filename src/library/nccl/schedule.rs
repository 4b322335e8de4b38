//! How many channels a call really gets: the scheduler after the tuner may change its answer.

use super::{Call, Communicator, Decision, Function, Proto, Version, since};

/// Traffic below which a channel is not worth it, in bytes.
fn least_traffic(version: Version) -> u64 {
    match version {
        _ if version.has(since::CHANNEL_32_KIB) => 32 << 10,
        _ if version.has(since::CHANNEL_16_KIB) => 16 << 10,
        _ => 512,
    }
}

/// The channels that a call uses if it is alone in its group, as its log line prints them:
/// `{0..n−1}`.
///
/// Since 2.22 the tuner's channels are a maximum, and the scheduler fills them one after another.
/// Before, all of them are used.
///
/// Source: NVIDIA/nccl `src/enqueue.cc`, `scheduleCollTasksToPlan`.
#[must_use]
pub fn logged_channels(
    comm: &Communicator,
    version: Version,
    call: &Call,
    decision: &Decision,
) -> u32 {
    if !version.has(since::FILLS_CHANNELS) || comm.ranks == 1 {
        return decision.channels;
    }
    let bytes = match call.function.gathers() {
        true => call.size.0 / u64::from(comm.ranks),
        false => call.size.0,
    };
    let limits = (decision.channels, least_traffic(version));
    used_channels(call.function, comm.ranks, decision.proto, bytes, limits)
}

/// The channels that a call of this many bytes uses, up to a maximum, with a minimum traffic for
/// each. The bytes are a rank's part if the call gathers.
pub(super) fn used_channels(
    function: Function,
    ranks: u32,
    proto: Proto,
    bytes: u64,
    (channels, least): (u32, u64),
) -> u32 {
    let mut per_byte = match function {
        Function::AllReduce => 2,
        Function::AllGather | Function::ReduceScatter => u64::from(ranks),
        Function::Broadcast | Function::Reduce => 1,
    };
    if proto == Proto::Ll {
        per_byte *= 4;
    }
    let traffic = bytes.saturating_mul(per_byte);
    let cell = least.div_ceil(per_byte).next_multiple_of(16);
    let cells = bytes.div_ceil(cell).max(1);
    let channel = (traffic.max(least) / u64::from(channels.max(1))).next_multiple_of(16);
    let per_channel = cells.min(channel.div_ceil(cell * per_byte)).max(1);
    u32::try_from(cells.div_ceil(per_channel)).unwrap_or(channels)
}
