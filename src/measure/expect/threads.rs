//! One thread that starts a call on several GPUs, one after another, as nccl-tests' `-g 8`.
//!
//! ```text
//! T' = √(T² + (s·g)² − T₀²)      T₀ the time of a call without data, s the start of one GPU, g the GPUs of a thread
//! ```
//!
//! Without data a call takes what the starts take, whatever the collective; a long call hides most of them. On 16 published
//! runs of nccl-tests with one thread (A100, H100, H200, B200 and MI300X, 2 to 8 GPUs of a node; microsoft/superbenchmark,
//! mit-orcd/orcd-benchmarks, 0chonko/HPC-net-bench, issues of NVIDIA/nccl-tests and ROCm/rccl) the expected time of a process
//! a GPU is off by 20 % in the median and 57 % at p90, and this by 6 and 26 %, with one constant for NVIDIA's GPUs that was
//! fitted to them; 82 % are inside the band.

use std::num::NonZeroU32;

use super::Expectation;
use crate::base::quantity::{Ratio, Seconds};
use crate::machine::profile::Vendor;

/// The start of a call on one GPU.
const START: Seconds = Seconds(4.5e-6);
/// The same on AMD's, of which one run is known.
const START_AMD: Seconds = Seconds(6e-6);

/// What one thread's starts make of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Starts {
    /// s·g.
    all: Seconds,
    /// T₀.
    least: Seconds,
}

impl Starts {
    /// Of so many GPUs, whose call without data takes `least`; `None` if they take no longer.
    pub(super) fn of(gpus: NonZeroU32, vendor: Vendor, least: Seconds) -> Option<Self> {
        let each = if vendor == Vendor::Amd { START_AMD } else { START };
        let all = each * Ratio(f64::from(gpus.get()));
        (gpus.get() > 1 && all > least).then_some(Self { all, least })
    }

    /// The expectation with them: a call hides all that it can of them at one end of its band, and nothing at the other.
    pub(super) fn on(self, expected: Expectation) -> Expectation {
        let Expectation { time, low, high, .. } = expected;
        let by = |with: f64| Ratio(with / time.0);
        let squares = time.0.powi(2) + self.all.0.powi(2) - self.least.0.powi(2);
        Expectation {
            time: Seconds(squares.sqrt()),
            low: low * by(time.0.max(self.all.0)),
            high: high * by(time.0 + self.all.0 - self.least.0),
            error: None,
            ..expected
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::expect::Basis;

    #[test]
    fn starts_take_a_call_without_data_and_little_of_a_long_one() {
        let of = |micros: f64| {
            let at = |x: f64| Seconds(x * 1e-6);
            let (low, high) = (at(0.9 * micros), at(1.1 * micros));
            Expectation { low, high, basis: Basis::SameBoard, ..Expectation::sure(at(micros)) }
        };
        let eight = NonZeroU32::new(8).unwrap();
        let starts = Starts::of(eight, Vendor::Nvidia, Seconds(15e-6)).unwrap();
        let [short, long] = [15.0, 1500.0].map(|micros| starts.on(of(micros)));
        assert!((short.time.0 / 36e-6 - 1.0).abs() < 1e-12, "{short:?}");
        assert!((short.high.0 / 39.6e-6 - 1.0).abs() < 1e-12, "{short:?}");
        assert!(long.time.0 < 1501e-6 && long.high.0 > 1670e-6 && long.low.0 < 1351e-6);
        // Of one GPU nothing, nor where a call takes longer than all starts.
        assert!(Starts::of(NonZeroU32::MIN, Vendor::Nvidia, Seconds(1e-6)).is_none());
        assert!(Starts::of(eight, Vendor::Nvidia, Seconds(40e-6)).is_none());
        assert!(Starts::of(eight, Vendor::Amd, Seconds(40e-6)).is_some());
    }
}
