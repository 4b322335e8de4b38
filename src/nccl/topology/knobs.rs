//! The variables of a job's environment that paths and searches ask for.

use crate::nccl::PathType;

/// What a job's environment says of paths and graphs; the default is an empty environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knobs {
    /// `NCCL_CROSS_NIC`: 0 never, 1 always, 2 where it helps.
    pub cross_nic: u8,
    /// `NCCL_P2P_LEVEL`: how far apart GPUs may be that reach each other's memory. `LOC` stands for
    /// `NCCL_P2P_DISABLE=1`.
    pub p2p: Option<PathType>,
    /// `NCCL_NET_GDR_LEVEL`: how far apart a GPU and a NIC may be that reaches its memory.
    pub gdr: Option<PathType>,
    /// `NCCL_NET_GDR_READ`: whether a NIC may read a GPU's memory.
    pub gdr_read: Option<bool>,
    /// `NCCL_NET_GDR_C2C`: whether it may through the processor, where that is linked chip to chip.
    pub gdr_c2c: bool,
    /// Not `NCCL_PXN_DISABLE`: whether a GPU sends through another's NIC.
    pub pxn: bool,
    /// `NCCL_PXN_C2C`: whether it does where that NIC hangs on the processor; the version decides
    /// without it.
    pub pxn_c2c: Option<bool>,
    /// Not `NCCL_NVB_DISABLE`: whether paths lead through another GPU.
    pub nvb: bool,
    /// `NCCL_NETDEVS_POLICY`: how many NICs a GPU uses; asked since 2.30.
    pub nics: Nics,
}

/// How many NICs a GPU uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nics {
    /// Those that are nearest, shared with the GPUs that they are nearest to.
    Auto,
    /// All that are nearest.
    All,
    /// So many of these.
    Max(u32),
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            cross_nic: 2,
            p2p: None,
            gdr: None,
            gdr_read: None,
            gdr_c2c: true,
            pxn: true,
            pxn_c2c: None,
            nvb: true,
            nics: Nics::Auto,
        }
    }
}
