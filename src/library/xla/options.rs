//! The options of XLA's speed-of-light model for a machine that it does not know.
//!
//! Its names say Gb/s but mean 10^9 bytes per second. For each step of a ring it adds a round trip and
//! the preparation of chunks; α includes both, so the second is 0.
//!
//! Source: openxla/xla, `xla/service/gpu/model/sol_gpu_cost_model.cc` at 3e1a45f9.

use crate::base::error::{Error, Result};
use crate::machine::fabric::Fabric;

/// `--xla_gpu_analytical_latency_estimator_options=…` for `per_node` ranks per node.
///
/// # Errors
/// A machine without links between nodes, or with unknown parameters.
pub fn xla_sol_options(fabric: &Fabric, per_node: u32) -> Result<String> {
    let unknown = |what: &str| Error::unknown(format!("{what} between nodes is unknown"));
    let [.., _, outer] = fabric.tiers.as_slice() else {
        return Err(Error::input(
            "XLA's model describes links between nodes, and the machine has none",
        )
        .help("name a machine with a network, or give --alpha-inter and --bw-inter"));
    };
    let rate = outer.link.bandwidth.ok_or_else(|| unknown("the rate"))?.0 / 1e9;
    let alpha = outer.link.alpha.ok_or_else(|| unknown("α"))?.0 * 1e6;
    let launch = fabric.launch.0 * 1e6;
    let six = |x: f64| {
        let text = format!("{x:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    Ok(format!(
        "--xla_gpu_analytical_latency_estimator_options=nccl_op_launch_us={},nic_speed_gbps={},\
         chunk_prep_us=0,rtt_us={},gpus_per_node={per_node}\n",
        six(launch),
        six(rate),
        six(alpha)
    ))
}
