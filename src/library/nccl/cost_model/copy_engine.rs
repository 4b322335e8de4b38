//! Gathering by copy engines, which leaves the GPUs' SMs free. All of it is float32.

use super::super::{Arch, Communicator, Settings};
use super::{Copies, Reach};

/// The faster of the two copies, for this many bytes per rank, out of place and outside a captured
/// graph. Drivers from 13.4 on, which multicast at full rate from any host, are not considered.
pub(super) fn gather(
    comm: &Communicator,
    settings: &Settings,
    reach: &Reach,
    bytes: u64,
) -> (Copies, f32) {
    let ranks = reach.domain as f32;
    let blackwell = comm.min_cc >= 100;
    let arm = comm.arch == Arch::Arm;
    let rate: f32 = if blackwell { 779.0 } else { 392.0 };
    // The rate that copies reach with a host that is not ARM.
    let host: f32 = 106.0;
    let unicast = {
        let (base, each) = if blackwell { (32.04, 0.13) } else { (17.5, 1.957) };
        let floor: f32 = base + each * ranks;
        let moved = (bytes * u64::from(reach.domain - 1)) as f32;
        let time = floor + moved / (1000.0 * rate);
        if arm { time } else { time.max(floor + bytes as f32 / (1000.0 * host)) }
    };
    if !(comm.nvls && reach.domain > 2) {
        return (Copies::Unicast, unicast);
    }
    let multicast = {
        let (base, each) = if blackwell { (29.14, 0.137) } else { (14.9, 0.726) };
        let floor: f32 = base + each * ranks;
        let rate = if arm { rate } else { host.min(rate / ranks) * ranks };
        let moved = (bytes * u64::from(reach.domain)) as f32;
        floor + moved / (1000.0 * rate)
    };
    let by_switch = match settings.multicast_up_to() {
        Some(limit) => bytes <= limit,
        None => multicast <= unicast,
    };
    if by_switch { (Copies::Multicast, multicast) } else { (Copies::Unicast, unicast) }
}
