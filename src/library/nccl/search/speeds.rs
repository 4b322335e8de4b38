//! The rates that a search tries, fastest first, in GB/s per channel.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc`; since 2.31.2 the arrays in
//! the library.

use crate::library::nccl::Version;
use crate::library::nccl::since::{self, Rule};
use crate::library::nccl::topology::is_rubin_or_later;

const VOLTA_INTRA: &[f32] =
    &[40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0];
const VOLTA_INTER: &[f32] = &[
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2,
    0.24, 0.12,
];
const HOPPER_INTRA: &[f32] = &[60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0];
const HOPPER_INTER: &[f32] = &[
    48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24,
    0.12,
];
const BLACKWELL_INTRA: &[f32] =
    &[90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0];
const BLACKWELL_INTER: &[f32] = &[
    96.0, 90.2, 86.0, 80.0, 48.0, 47.9, 45.1, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0,
    12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12,
];
const RUBIN_INTRA: &[f32] = &[280.8, 187.2, 140.4, 93.6, 70.2, 46.8, 35.1, 23.4, 17.55];
const RUBIN_INTER: &[f32] = &[
    280.8, 187.2, 140.4, 96.0, 93.6, 74.6, 70.2, 48.0, 46.8, 37.4, 36.1, 35.1, 32.8, 24.6, 23.4,
    19.7, 18.1, 17.55, 16.4, 14.4, 12.3, 9.9, 4.9, 2.5, 2.0, 1.0, 0.2, 0.1,
];

/// Whether a release tries a rate of these lists.
fn tries(version: Version, blackwell: bool, inter: bool, rate: f32) -> bool {
    let rules: &[(f32, Rule)] = match (blackwell, inter) {
        (false, false) => &[(50.0, since::SPEED_50), (11.0, since::SPEED_11)],
        (false, true) => {
            &[(22.0, since::SPEED_22), (20.0, since::SPEED_20), (17.5, since::SPEED_20)]
        }
        (true, false) => &[(45.0, since::SPEED_45), (18.0, since::SPEED_18)],
        (true, true) => &[
            (96.0, since::SPEED_96),
            (90.2, since::SPEED_90_2),
            (86.0, since::SPEED_86),
            (80.0, since::SPEED_80),
            (47.9, since::SPEED_47_9),
            (45.1, since::SPEED_45_1),
            (45.0, since::SPEED_45_0),
        ],
    };
    if blackwell && inter && rate == 48.0 {
        return !version.has(since::SPEED_47_9);
    }
    rules.iter().find(|(of, _)| *of == rate).is_none_or(|(_, rule)| version.has(*rule))
}

/// The rates for the least compute capability of a machine.
pub(super) fn speeds(version: Version, cc: u32, inter: bool) -> Vec<f32> {
    let blackwell = cc >= 100 && version.has(since::BLACKWELL);
    if is_rubin_or_later(cc) && version.has(since::RUBIN_RATES) {
        return if inter { RUBIN_INTER } else { RUBIN_INTRA }.to_vec();
    }
    let (intra, between) = match cc {
        ..90 => return if inter { VOLTA_INTER } else { VOLTA_INTRA }.to_vec(),
        _ if blackwell => (BLACKWELL_INTRA, BLACKWELL_INTER),
        _ => (HOPPER_INTRA, HOPPER_INTER),
    };
    let all = if inter { between } else { intra };
    all.iter().copied().filter(|&rate| tries(version, blackwell, inter, rate)).collect()
}
