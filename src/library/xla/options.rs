//! The options of XLA's speed-of-light model for a machine that it does not know.
//!
//! Its names say Gb/s but mean 10^9 bytes per second of a GPU, to which it adds 2.5 % for headers; the machine's rate
//! is that of the data. Times are whole microseconds above 0: another value is passed over, and the one for an H100
//! stays. For each step of a ring it adds a round trip and the preparation of each chunk; α includes both, so a chunk is
//! larger than any message, and what it takes is part of α.
//!
//! Source: openxla/xla, `xla/service/gpu/model/sol_gpu_cost_model.cc` at 3e1a45f9.

use std::num::NonZeroU32;

use crate::base::error::{Error, Result};
use crate::base::quantity::{Seconds, without_zeros};
use crate::machine::fabric::Fabric;

/// What XLA adds to the bytes of a message.
const HEADERS: f64 = 0.025;
/// A chunk that holds any message.
const CHUNK: u64 = 1 << 40;

/// `--xla_gpu_analytical_latency_estimator_options=…` for `per_node` ranks per node.
///
/// # Errors
/// A machine without links between nodes, or with unknown parameters.
pub fn xla_sol_options(fabric: &Fabric, per_node: u32) -> Result<String> {
    let unknown = |what: &str| Error::unknown(format!("{what} between nodes is unknown"));
    let [.., inner, outer] = fabric.tiers.as_slice() else {
        return Err(Error::input(
            "XLA's model describes links between nodes, and the machine has none",
        )
        .help("name a machine with a network, or give --alpha-inter and --bw-inter"));
    };
    let rate = outer.link.bandwidth.ok_or_else(|| unknown("the rate"))?.0 / 1e9;
    let alpha = outer.link.alpha.ok_or_else(|| unknown("α"))?;
    let span = inner.span.map_or(per_node, NonZeroU32::get);
    let nics = f64::from(outer.ports_of(per_node, span)) / f64::from(per_node);
    let micros = |time: Seconds| (time.0 * 1e6).round().max(1.0);
    let step = micros(alpha).max(2.0);
    Ok(format!(
        "--xla_gpu_analytical_latency_estimator_options=nccl_op_launch_us={},nic_speed_gbps={},\
         chunk_prep_us=1,chunk_size_bytes={CHUNK},rtt_us={},gpus_per_node={per_node}\n",
        micros(fabric.launch),
        without_zeros(&format!("{:.4}", rate * nics * (1.0 + HEADERS))),
        step - 1.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::profile::Profile;

    /// XLA reads the rate as a number and all others as whole ones, and passes over what is not above 0.
    #[test]
    fn every_option_is_read() {
        let mut written = 0;
        for name in Profile::names() {
            let profile = Profile::builtin(name).unwrap();
            let fabric = profile.fabric(crate::Collective::AllReduce);
            let Ok(flag) = xla_sol_options(&fabric, 8) else { continue };
            let (_, options) = flag.trim().split_once('=').unwrap();
            let read = |(key, value): (&str, &str)| match key {
                "nic_speed_gbps" => value.parse::<f64>().is_ok_and(|rate| rate > 0.0),
                _ => value.parse::<i64>().is_ok_and(|whole| whole > 0),
            };
            let mut each = options.split(',').map(|option| option.split_once('=').unwrap());
            assert!(each.all(read), "{name}: {flag}");
            written += 1;
        }
        assert!(written > 30, "{written}");
    }
}
