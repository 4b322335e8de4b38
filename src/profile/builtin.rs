//! The built-in machines: names under which each is found, the first its own, and its text.
//!
//! Names stand here beside the text so that one answer parses one profile; a test compares them with
//! those in the files.

/// A built-in machine.
pub(super) struct Builtin {
    /// Its name, then its aliases.
    pub(super) names: &'static [&'static str],
    /// Its file.
    pub(super) text: &'static str,
}

macro_rules! machines {
    ($($file:literal: $($alias:literal)*;)*) => {
        &[$(Builtin {
            names: &[$file, $($alias),*],
            text: include_str!(concat!("../../profiles/", $file, ".toml")),
        }),*]
    };
}

pub(super) static BUILTIN: &[Builtin] = machines! {
    "a100-pcie": "a100_pcie";
    "a2-highgpu-8g": "a2" "a2-highgpu" "a2-ultragpu-8g";
    "a3-highgpu-8g": "a3-high" "a3-highgpu";
    "a3-megagpu-8g": "a3-mega" "a3-megagpu";
    "a3-ultragpu-8g": "a3-ultra" "a3-ultragpu";
    "a30-pcie": "a30";
    "a4-highgpu-8g": "a4" "a4-highgpu";
    "abci-a100": "abci-a";
    "abci-v100": "abci-v" "abci";
    "b60": "arc-pro-b60" "intel-b60";
    "bm.gpu.h100.8": "oci-h100";
    "bm.gpu4.8": "oci-a100" "BM.GPU.B4.8";
    "dgx-1v": "dgx1v" "dgx1-v100" "v100" "v100_sxm";
    "dgx-a100": "a100" "a100_sxm" "hgx-a100" "a100-hdr";
    "dgx-b200": "b200" "b200_sxm" "hgx-b200";
    "dgx-b300": "b300" "b300_sxm" "hgx-b300";
    "dgx-h100": "h100" "h100-ndr" "hgx-h100" "h100_sxm";
    "dgx-h200": "h200" "h200_sxm" "hgx-h200";
    "efa-100g": "efa" "hpc6a" "hpc6a.48xlarge";
    "gb200-nvl72": "gb200" "gb200_nvl72" "nvl72" "a4x-highgpu-4g" "ND128isr_NDR_GB200_v6"
        "nd-gb200-v6";
    "gb300-nvl72": "gb300" "gb300_nvl72";
    "gcp-c2d": "c2d" "c2d-standard-112" "gvnic";
    "h100-pcie": "h100_pcie";
    "ib-edr": "edr" "infiniband-edr";
    "ib-hdr": "hdr" "infiniband-hdr" "hb120rs";
    "ib-ndr": "ndr" "infiniband-ndr";
    "ib-xdr": "xdr" "infiniband-xdr";
    "l4-pcie": "l4";
    "l40s-pcie": "l40s";
    "mi300x": "mi300x_xgmi";
    "mi325x":;
    "mi355x": "mi350x";
    "nd-a100-v4": "ND96asr_v4" "ND96amsr_A100_v4" "ndv4";
    "nd-h100-v5": "ND96isr_H100_v5" "Standard_ND96isr_H100_v5";
    "nd40rs-v2": "ND40rs_v2" "Standard_ND40rs_v2" "ndv2";
    "netns-50m": "veth-50m" "netns";
    "p3dn.24xlarge": "p3dn";
    "p4d.24xlarge": "p4d" "p4de.24xlarge" "p4de";
    "p5.48xlarge": "p5" "p5e.48xlarge" "p5e";
    "p5en.48xlarge": "p5en";
    "p6-b200.48xlarge": "p6-b200";
    "p6-b300.48xlarge": "p6-b300";
    "p6e-gb200": "p6e-gb200.36xlarge";
    "roce-400g": "roce" "roce-400" "roce400g";
    "rtx-pro-6000": "rtx_pro_6000_server" "rtx-pro-6000-server" "rtx_pro_6000";
    "shm-x86": "shm" "shared-memory" "localhost";
    "slingshot-11": "slingshot" "ss11" "slingshot11";
    "tcp-100g": "100g" "100gbe" "eth-100g";
    "tcp-25g": "tcp" "25g" "25gbe" "eth-25g";
    "tpu-v4p": "v4p" "v4" "tpu-v4" "tpu_v4";
    "tpu-v5e": "v5e" "tpu_v5e" "v5litepod";
    "tpu-v5p": "v5p" "tpu_v5p";
    "tpu-v6e": "v6e" "tpu_v6e" "trillium";
    "trn2": "trn2.48xlarge" "trainium2";
};
