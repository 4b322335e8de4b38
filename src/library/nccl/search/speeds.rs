//! The rates that a search tries, fastest first, in GB/s a channel.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc`.

use crate::library::nccl::Version;

const VOLTA_INTRA: &[f32] =
    &[40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0];
const VOLTA_INTER: &[f32] = &[
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2,
    0.24, 0.12,
];
const HOPPER_INTRA_2_18: &[f32] = &[60.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0];
const HOPPER_INTER_2_18: &[f32] =
    &[48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12];
const HOPPER_INTRA: &[f32] = &[60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0];
const HOPPER_INTER: &[f32] = &[
    48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24,
    0.12,
];
const BLACKWELL_INTRA_2_27: &[f32] =
    &[90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0];
const BLACKWELL_INTER_2_27: &[f32] = &[
    47.9, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24,
    0.12,
];
const BLACKWELL_INTRA: &[f32] =
    &[90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0];
const BLACKWELL_INTER: &[f32] = &[
    96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0,
    2.4, 1.2, 0.24, 0.12,
];

/// The rates for the least compute capability of a machine.
pub(super) fn speeds(version: Version, cc: u32, inter: bool) -> &'static [f32] {
    let (intra, between) = match (version, cc) {
        (_, ..90) => (VOLTA_INTRA, VOLTA_INTER),
        (Version::V2_18, _) => (HOPPER_INTRA_2_18, HOPPER_INTER_2_18),
        (Version::V2_27, 100..) => (BLACKWELL_INTRA_2_27, BLACKWELL_INTER_2_27),
        (Version::V2_30, 100..) => (BLACKWELL_INTRA, BLACKWELL_INTER),
        _ => (HOPPER_INTRA, HOPPER_INTER),
    };
    if inter { between } else { intra }
}
