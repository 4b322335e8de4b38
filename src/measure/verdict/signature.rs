//! Causes that no simulation knows, by how much longer calls took where they were true.
//!
//! Factors on the healthy time of the same machine for small (to 64 KiB), middle and large (above
//! 16 MiB) sizes, from the threads of [`super::prior`] and from published tables of both states. A
//! range is no prediction: a cause pays for the width of its range.

use crate::base::quantity::Bytes;

/// A cause with the factors it was seen to have.
pub(super) struct Signature {
    pub id: &'static str,
    pub what: &'static str,
    /// The least and the most, of small, middle and large sizes.
    pub factors: [(f64, f64); 3],
    pub place: Place,
    /// What else would show it, and the command that confirms it.
    pub next: &'static str,
}

/// Where a cause is possible.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    /// Data go over NICs.
    SeveralNodes,
    /// GPUs reach each other over PCIe alone.
    OneNodePcie,
    /// Either of the two: no links of their own carry all.
    NotSwitched,
    /// Only a machine's own healthy runs are as exact.
    OwnRuns,
}

pub(super) static SIGNATURES: &[Signature] = &[
    Signature {
        id: "gdr-off",
        what: "NICs do not reach the GPUs' memory: GPUDirect RDMA is off, and data go through the host's",
        factors: [(1.0, 1.5), (1.2, 2.0), (1.8, 2.2)],
        place: Place::SeveralNodes,
        next: "NCCL_DEBUG=INFO shows `GDRDMA` on every channel, or its lack; lsmod | grep -e nvidia_peermem -e \
               gdrdrv; a run of sendrecv on one rail from host buffers is as fast then",
    },
    Signature {
        id: "acs",
        what: "PCIe sends NICs' reads through the root complex: ACS or the IOMMU is on",
        factors: [(1.0, 1.06), (1.1, 1.5), (1.8, 2.4)],
        place: Place::SeveralNodes,
        next: "lspci -vvv | grep ACSCtl shows `SrcValid+`; dmesg | grep -i iommu; ib_write_bw --use_cuda=0 is as \
               slow then",
    },
    Signature {
        id: "acs",
        what: "PCIe sends what GPUs send each other through the root complex: ACS or the IOMMU is on",
        factors: [(1.0, 1.1), (1.5, 2.5), (2.5, 4.0)],
        place: Place::OneNodePcie,
        next: "lspci -vvv | grep ACSCtl shows `SrcValid+`; the run on two GPUs of one switch is as slow then \
               (p2pBandwidthLatencyTest)",
    },
    Signature {
        id: "tcp",
        what: "sockets carry what RDMA should: a plugin, a device or a container's rights are missing",
        factors: [(2.0, 8.0), (3.0, 10.0), (3.0, 30.0)],
        place: Place::SeveralNodes,
        next: "NCCL_DEBUG=INFO shows `NET/Socket` where `NET/IB` or `NET/OFI` is meant; ibv_devinfo inside the \
               container",
    },
    Signature {
        id: "topology",
        what: "the library misread the machine, or was given a file of another one: fewer channels, or paths \
               that are too slow",
        factors: [(1.0, 1.3), (2.0, 5.0), (5.0, 8.0)],
        place: Place::Anywhere,
        next: "NCCL_DEBUG=INFO, then collcost nccl log; NCCL_TOPO_DUMP_FILE shows what it saw (PCIe speeds of a \
               virtual machine); NCCL_TOPO_FILE",
    },
    Signature {
        id: "version",
        what: "a release of the library that is slower than others: at small sizes by some microseconds, at \
               others from one size on",
        factors: [(1.0, 2.0), (1.0, 2.0), (1.0, 2.0)],
        place: Place::Anywhere,
        next: "the same run with the release that was good, then collcost compare BEFORE AFTER --two",
    },
    Signature {
        id: "nic-setting",
        what: "NICs are set badly: MTU, outstanding reads, relaxed ordering",
        factors: [(1.0, 1.05), (1.0, 1.3), (1.1, 1.4)],
        place: Place::SeveralNodes,
        next: "ip link show and ibv_devinfo for the MTU (9000 or 4096); lspci -vv for MaxReadReq and RlxdOrd; \
               ib_write_bw between two nodes falls short by as much then",
    },
    Signature {
        id: "cpu",
        what: "data take a way through the CPUs that is slow: other sockets, NUMA settings, a weak root complex",
        factors: [(1.0, 1.2), (1.2, 3.0), (1.5, 5.0)],
        place: Place::NotSwitched,
        next: "nvidia-smi topo -m shows SYS between partners; numactl -H; NUMA nodes a socket in the BIOS; the run \
               on the GPUs of one socket is faster then",
    },
    Signature {
        id: "pcie-degraded",
        what: "PCIe runs at part of its width or generation",
        factors: [(1.0, 1.05), (1.3, 1.8), (1.9, 2.1)],
        place: Place::OneNodePcie,
        next: "lspci -vv | grep LnkSta shows `downgraded`; nvidia-smi -q -d PCIE",
    },
    Signature {
        id: "clock",
        what: "clocks are throttled",
        factors: [(1.03, 1.15), (1.03, 1.15), (1.03, 1.15)],
        place: Place::OwnRuns,
        next: "nvidia-smi -q -d CLOCK,PERFORMANCE on every node: power, heat",
    },
];

/// The region of a size: small, middle, large.
pub(super) fn region(size: Bytes) -> usize {
    match size.0 {
        0..=0x1_0000 => 0,
        0x1_0001..=0x100_0000 => 1,
        _ => 2,
    }
}
