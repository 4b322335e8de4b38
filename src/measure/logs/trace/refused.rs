//! What jobs leave behind that holds no row, each with its reason.

use super::{Head, TraceFormat};

/// A kind of file of which no row can be made.
pub(super) struct Useless {
    pub is: fn(&Head) -> bool,
    pub what: &'static str,
    pub help: &'static str,
}

/// One entry per kind.
pub(super) static USELESS: &[Useless] = &[
    Useless {
        is: |head| head.has("# TYPE nccl_") || head.has("nccl_bus_bandwidth_gbs{"),
        what: "the Inspector's Prometheus gauges name a bucket of sizes (message_size), no size: a time of a bucket is of no call",
        help: "let it write JSON instead: unset NCCL_INSPECTOR_PROM_DUMP, and give the .log files of its folder",
    },
    Useless {
        is: |head| head.has("\"schema\"") && head.has("chakra") && head.has("\"nodes\""),
        what: "a host execution trace has calls and sizes, but no times",
        help: "give the profiler's trace (torch.profiler's export_chrome_trace) of the same steps; as a workload the calls belong in a step: collcost plan --help",
    },
    Useless {
        is: |head| head.bytes.get(1..4) == Some(b"\x0a\x05\x30") || chakra_metadata(head.bytes),
        what: "a Chakra trace in protobuf says neither what its sizes count nor whether its times were measured",
        help: "give the profiler's trace that it was made from (torch.profiler's export_chrome_trace)",
    },
    Useless {
        is: |head| head.has("Communicators...") && (head.has("Job summary") || head.has("Ranks")),
        what: "RAS: it counts operations and says which ranks lag; it has no times and no sizes",
        help: "the ranks that it names are where to look first; for times record with NCCL's Inspector, or run nccl-tests",
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
        what: "a report of Nsight Systems in its own format",
        help: "export it: nsys export --type sqlite REPORT.nsys-rep, and give the .sqlite file",
    },
];

/// GlobalMetadata, with the version as its only field, behind its length.
fn chakra_metadata(bytes: &[u8]) -> bool {
    matches!(bytes, [length, 0x0a, text, rest @ ..]
        if length.checked_sub(2) == Some(*text) && rest.starts_with(b"0.0."))
}

/// Whether any trace's format takes it: the order of [`super::TRACES`] comes first.
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
        // A length that with its tag is more than a byte holds.
        assert!(!chakra_metadata(b"\x01\x0a\xff0.0.4"));
    }
}
