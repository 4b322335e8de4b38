//! Files that jobs write but that contain no rows, each with the reason.

use super::{Head, TraceFormat};

/// A kind of file from which no row can be read.
pub(super) struct Useless {
    pub is: fn(&Head) -> bool,
    pub what: &'static str,
    pub help: &'static str,
}

/// One entry per kind.
pub(super) static USELESS: &[Useless] = &[
    Useless {
        is: |head| head.has("# TYPE nccl_") || head.has("nccl_bus_bandwidth_gbs{"),
        what: "the Inspector's Prometheus gauges name a bucket of sizes (message_size), not a size: a bucket's time belongs to no single call",
        help: "have it write JSON instead: unset NCCL_INSPECTOR_PROM_DUMP, and give the .log files of its folder",
    },
    Useless {
        is: |head| head.has("\"schema\"") && head.has("chakra") && head.has("\"nodes\""),
        what: "a host execution trace has calls and sizes, but no times",
        help: "give the profiler's trace (torch.profiler's export_chrome_trace) of the same steps; to use the calls as a workload, write them as a step: collcost plan --help",
    },
    Useless {
        is: |head| head.bytes.get(1..4) == Some(b"\x0a\x05\x30") || chakra_metadata(head.bytes),
        what: "a Chakra trace in protobuf states neither what its sizes count nor whether its times were measured",
        help: "give the profiler's trace from which it was made (torch.profiler's export_chrome_trace); to simulate it: collcost simulate --schedule NAME.0.et",
    },
    Useless {
        is: |head| head.has("Communicators...") && (head.has("Job summary") || head.has("Ranks")),
        what: "output of RAS: it counts operations and names lagging ranks, but has no times and no sizes",
        help: "check the ranks that it names first; for times record with NCCL's Inspector, or run nccl-tests",
    },
    Useless {
        is: |head| head.has("Total Time (ns)") && (head.has("Time (%)") || head.has("NCCL")),
        what: "the statistics of nsys are sums over calls of all sizes",
        help: "export the calls: nsys export --type sqlite REPORT.nsys-rep, and give the .sqlite file",
    },
    Useless {
        is: |head| {
            head.has("NVIDIA Nsight Systems")
                || head.file.ends_with(".nsys-rep")
                || head.file.ends_with(".qdrep")
        },
        what: "a report in the native format of Nsight Systems",
        help: "export it: nsys export --type sqlite REPORT.nsys-rep, and give the .sqlite file",
    },
];

/// GlobalMetadata, with the version as its only field, after its length.
fn chakra_metadata(bytes: &[u8]) -> bool {
    matches!(bytes, [length, 0x0a, text, rest @ ..]
        if length.checked_sub(2) == Some(*text) && rest.starts_with(b"0.0."))
}

/// Whether any trace format recognises it: the order of [`super::TRACES`] comes first.
pub(super) fn useless(head: &Head, known: &[TraceFormat]) -> Option<&'static Useless> {
    if known.iter().any(|format| (format.is)(head)) {
        return None;
    }
    USELESS.iter().find(|useless| (useless.is)(head))
}

#[cfg(test)]
mod tests {
    use super::chakra_metadata;

    #[test]
    fn metadata_are_as_long_as_they_say() {
        assert!(chakra_metadata(b"\x07\x0a\x050.0.4"));
        assert!(!chakra_metadata(b"\x08\x0a\x050.0.4"));
        // A length that does not fit in a byte with its tag.
        assert!(!chakra_metadata(b"\x01\x0a\xff0.0.4"));
    }
}
