//! The kinds of a machine's parts, in words that a program can compare.

use crate::base::words::words;

words! {
    /// The kind of link between the ranks of a node.
    #[derive(Hash, PartialOrd, Ord, serde::Deserialize)]
    #[non_exhaustive]
    pub enum LinkKind {
        /// NVLink, over switches or from GPU to GPU.
        NvLink = "nvlink",
        /// PCIe, over switches or the host.
        Pcie = "pcie",
        /// AMD's Infinity Fabric between GPUs.
        Xgmi = "xgmi",
        /// The torus of a TPU pod.
        Ici = "ici",
        /// The torus of Trainium chips.
        NeuronLink = "neuronlink",
        /// Memory of one host.
        Memory = "memory",
    }
}

words! {
    /// The kind of network between nodes. Floors and shares of the line rate differ more between
    /// these than between two rates of one of them.
    #[derive(Hash, PartialOrd, Ord, serde::Deserialize)]
    #[non_exhaustive]
    pub enum NetworkKind {
        /// InfiniBand.
        Ib = "ib",
        /// RDMA over Ethernet.
        Roce = "roce",
        /// AWS's Elastic Fabric Adapter.
        Efa = "efa",
        /// TCP through the kernel.
        Tcp = "tcp",
        /// Google's GPUDirect-TCPX.
        Tcpx = "tcpx",
        /// Google's GPUDirect-TCPXO, also called FasTrak.
        Tcpxo = "tcpxo",
        /// HPE Slingshot.
        Slingshot = "slingshot",
        /// NVLink between the trays of a rack, in a profile that has a tray as its node.
        NvlinkRack = "nvlink-rack",
        /// Links between TPU chips, in a profile that has a host as its node.
        Ici = "ici",
        /// The data centre's own network, between TPU pods.
        Dcn = "dcn",
        /// A network that never leaves its host.
        Loopback = "loopback",
    }
}

words! {
    /// The generation of chips: measurements on one are informative for others of it.
    #[derive(Hash, PartialOrd, Ord, serde::Deserialize)]
    #[non_exhaustive]
    pub enum Generation {
        /// V100.
        Volta = "volta",
        /// T4.
        Turing = "turing",
        /// A100, A40, A30, A10, RTX 3090.
        Ampere = "ampere",
        /// L40S, L40, L20, L4, RTX 4090.
        Ada = "ada",
        /// H100, H200, H800, H20.
        Hopper = "hopper",
        /// B200, B300, GB200, GB300, GB10, RTX 5090, RTX PRO 6000.
        Blackwell = "blackwell",
        /// Vera Rubin's.
        Rubin = "rubin",
        /// MI300X, MI325X.
        Cdna3 = "cdna3",
        /// MI350X, MI355X.
        Cdna4 = "cdna4",
        /// Arc Pro B60.
        Xe2 = "xe2",
        /// TPU v4.
        TpuV4 = "tpu-v4",
        /// TPU v5e and v5p.
        TpuV5 = "tpu-v5",
        /// TPU v6e, Trillium.
        TpuV6 = "tpu-v6",
        /// TPU7x, Ironwood.
        TpuV7 = "tpu-v7",
        /// Trainium2.
        Trainium2 = "trainium2",
    }
}

words! {
    /// A tuner that NCCL loads on a machine and that decides over several nodes.
    #[derive(Hash, PartialOrd, Ord, serde::Deserialize)]
    #[non_exhaustive]
    pub enum NcclTuner {
        /// That of AWS's EFA plugin, on P5 and P5e.
        AwsP5 = "aws-p5",
        /// The same on P5en.
        AwsP5en = "aws-p5en",
        /// The same on P6-B200.
        AwsP6B200 = "aws-p6-b200",
        /// The same on P6-B300.
        AwsP6B300 = "aws-p6-b300",
    }
}

words! {
    /// Who makes the chips.
    #[derive(Hash, PartialOrd, Ord, serde::Deserialize)]
    #[non_exhaustive]
    pub enum Vendor {
        /// NVIDIA.
        Nvidia = "nvidia",
        /// AMD.
        Amd = "amd",
        /// Intel.
        Intel = "intel",
        /// Google.
        Google = "google",
        /// Amazon Web Services.
        Aws = "aws",
    }
}

impl Generation {
    /// Who makes it.
    #[must_use]
    pub fn vendor(self) -> Vendor {
        match self {
            Self::Volta
            | Self::Turing
            | Self::Ampere
            | Self::Ada
            | Self::Hopper
            | Self::Blackwell
            | Self::Rubin => Vendor::Nvidia,
            Self::Cdna3 | Self::Cdna4 => Vendor::Amd,
            Self::Xe2 => Vendor::Intel,
            Self::TpuV4 | Self::TpuV5 | Self::TpuV6 | Self::TpuV7 => Vendor::Google,
            Self::Trainium2 => Vendor::Aws,
        }
    }
}
