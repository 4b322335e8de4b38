//! Fabrics of other programs: hosts that hwloc describes, infrastructures of InfraGraph.

use collcost::Collective;
use collcost::answer::optimum::best;
use collcost::machine::graph::Graph;

use crate::command::{collcost, text};

const HOST: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fabrics/hwloc.xml"));

const SERVERS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fabrics/infragraph.yaml"));

/// The links of a fabric, each as `from>to GB/s`.
fn links(text: &str) -> Vec<String> {
    let graph = Graph::parse(text, "file").unwrap_or_else(|e| panic!("{e}"));
    let name = |node| graph.name_of(node);
    let one = |link: &collcost::machine::graph::Link| {
        format!("{}>{} {}", name(link.from), name(link.to), link.rate.bandwidth().0 / 1e9)
    };
    let mut all: Vec<String> = graph.links.iter().map(one).collect();
    all.sort();
    all
}

/// Both directions of each cable.
fn cables(cables: &[(&str, &str, &str)]) -> Vec<String> {
    let both =
        |(a, b, rate): &(&str, &str, &str)| [format!("{a}>{b} {rate}"), format!("{b}>{a} {rate}")];
    let mut all: Vec<String> = cables.iter().flat_map(both).collect();
    all.sort();
    all
}

fn refused(text: &str) -> String {
    Graph::parse(text, "file").unwrap_err().to_string()
}

/// The ports of a switch are no switches; a rate that the GPU does not say is its port's; ranks are in
/// the order of bus addresses, not of the file; a console's display is none.
#[test]
fn a_host_of_hwloc_is_a_fabric() {
    let pci = [
        ("g0", "pci0", "31.507692"),
        ("g1", "pci0", "31.507692"),
        ("pci0", "cpu0", "31.507692"),
        ("g2", "cpu1", "63.015385"),
        // What NCCL counts between two Sapphire Rapids.
        ("cpu0", "cpu1", "22"),
    ];
    let nvlinks = [("g0", "nvs0", "300"), ("g1", "nvs0", "300"), ("g2", "nvs0", "300")];
    assert_eq!(links(HOST), cables(&[&pci[..], &nvlinks].concat()));
    let without = HOST.replace("name=\"NVLinkBandwidth\"", "name=\"Other\"");
    assert_eq!(links(&without), cables(&pci));
    let graph = Graph::parse(&without, "host.xml").unwrap();
    assert_eq!(graph.name, "3 GPUs of host.xml, 1 NICs left out");
    // CUDA sees a GPU, whatever its class and maker.
    let odd = HOST.replace("0302 [10de:2330]", "0300 [1a03:2330]");
    assert_eq!(links(&odd), links(HOST));
    assert!(refused(&odd.replace("cuda", "card").replace("nvml", "x")).contains("no GPU"));
    // What all others own enters g2 over the link between the processors: two parts of three.
    let found = best(&graph, Collective::AllGather, 0, false).unwrap();
    assert!((found.rate_per_second - 33e9).abs() < 1.0, "{found:?}");
}

#[test]
fn what_joins_packages_is_known_by_maker_or_said() {
    let between = |old: &str, new: &str| {
        let text = HOST.replace(old, new);
        let all = links(&text);
        all.iter().find_map(|link| link.strip_prefix("cpu0>cpu1 ").map(str::to_owned)).unwrap()
    };
    assert_eq!(between("value=\"143\"", "value=\"85\""), "10");
    assert_eq!(between("value=\"143\"", "value=\"207\""), "40");
    let amd = HOST.replace("GenuineIntel", "AuthenticAMD");
    let amd = amd.replace("CPUFamilyNumber\" value=\"6\"", "CPUFamilyNumber\" value=\"25\"");
    assert!(links(&amd).contains(&"cpu0>cpu1 24".to_owned()));
    let other = HOST.replace("GenuineIntel", "Nobody");
    let error = refused(&other);
    assert!(
        error.contains("the rate between its packages")
            && error.contains("CollcostBetweenPackages")
    );
    let said =
        "<info name=\"CollcostBetweenPackages\" value=\"35GB/s\"/><info name=\"hwlocVersion\"";
    let said = other.replace("<info name=\"hwlocVersion\"", said);
    assert!(links(&said).contains(&"cpu1>cpu0 35".to_owned()));
}

/// A file of another program is named, with what to give instead.
#[test]
fn files_that_are_no_fabric_are_named() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let of_cpu = |inside: &str| {
        format!(
            "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" \
             modelid=\"143\">{inside}</cpu></system>"
        )
    };
    for (content, what, help) in [
        ("\tGPU0\tGPU1\nGPU0\t X \tNV12\n".to_owned(), "nvidia-smi topo -m", "NCCL_TOPO_DUMP_FILE"),
        (
            "#\n# Topology file: generated on Fri\nvendid=0x2\nCa\t1\n".to_owned(),
            "ibnetdiscover",
            "TOML or JSON",
        ),
        ("Nodes 8\nTiers 2\nDownlink_speed_Gbps 200\n".to_owned(), "a tree of htsim", "fat-tree"),
        ("device:\n  - name: x\n".to_owned(), "no fabric in a known format", "InfraGraph"),
        (of_cpu(""), "no GPU", "--merge FILE --gpus"),
    ] {
        let path = folder.join("no-fabric");
        std::fs::write(&path, &content).unwrap();
        let output = collcost(&["optimum", "allreduce", "--fabric", path.to_str().unwrap()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(what) && said.contains(help), "{said}");
    }
    let old = SERVERS.replace("choice: xpu", "type: xpu");
    assert!(refused(&old).contains("an older InfraGraph"), "{}", refused(&old));
}

/// Where I/O stands outside packages it hangs on the only one, or on a switch of its own.
#[test]
fn pci_trees_outside_packages_find_their_place() {
    let tree = |bus: &str| {
        format!(
            "<object type=\"Bridge\" bridge_type=\"0-1\"><object type=\"PCIDev\" pci_busid=\"{bus}\" \
             pci_type=\"0302 [1002:740c]\" pci_link_speed=\"16\"/></object>"
        )
    };
    let host = |inside: &str| {
        format!(
            "<topology><object type=\"Machine\"><info name=\"CPUVendor\" value=\"AuthenticAMD\"/>\
             <info name=\"CPUFamilyNumber\" value=\"23\"/>{inside}</object></topology>"
        )
    };
    let package = "<object type=\"Package\"/>";
    let one = host(&format!("{package}{}{}", tree("0000:02:00.0"), tree("0001:01:00.0")));
    assert_eq!(links(&one), cables(&[("g0", "cpu0", "16"), ("g1", "cpu0", "16")]));
    // hwloc 1 has NUMA nodes around packages.
    let numa = |bus: &str| format!("<object type=\"NUMANode\">{package}{}</object>", tree(bus));
    let two = host(&(numa("0000:02:00.0") + &numa("0000:01:00.0")));
    assert_eq!(
        links(&two),
        cables(&[("g0", "cpu1", "16"), ("g1", "cpu0", "16"), ("cpu0", "cpu1", "16")])
    );
    let unknown = host(&format!(
        "<object type=\"Package\">{}</object>{package}{}",
        tree("0000:01:00.0"),
        tree("0000:02:00.0")
    ));
    assert_eq!(
        links(&unknown),
        cables(&[("g0", "cpu0", "16"), ("g1", "machine", "16"), ("cpu0", "machine", "16")])
    );
}

/// hwloc writes the same for all pairs that xGMI joins; what somebody wrote instead counts.
#[test]
fn xgmi_is_read_where_it_says_something() {
    let xgmi = HOST.replace("name=\"NVLinkBandwidth\"", "name=\"XGMIBandwidth\"");
    let written = xgmi.replace(" 300000", " 100000").replace(">300000", ">100000");
    assert!(refused(&written).contains("100000 MB/s for any two GPUs"), "{}", refused(&written));
    assert_eq!(links(&xgmi), links(HOST));
    let none = xgmi.replace("300000", "0");
    assert!(!links(&none).iter().any(|link| link.contains("nvs0")));
    let xe = HOST.replace("name=\"NVLinkBandwidth\"", "name=\"XeLinkBandwidth\"");
    assert!(refused(&xe).contains("Xe links are not supported"));
}

#[test]
fn what_is_wrong_in_hwlocs_file_is_said() {
    for (old, new, says) in [
        ("pci_link_speed=\"63.015385\"", "pci_link_speed=\"0.000000\"", "link of 0000:81:00.0"),
        ("pci_link_speed=\"63.015385\"", "", "link of 0000:81:00.0"),
        ("pci_link_speed=\"63.015385\"", "pci_link_speed=\"fast\"", "\"fast\" is not a number"),
        ("pci_link_speed=\"63.015385\"", "pci_link_speed=\"1e18\"", "not a number of GB/s"),
        ("300000 300000 300000 0 ", "300000 300000", "4 objects and 14 values"),
        ("OSDev:302", "OSDev:999", "gp_index 999"),
        ("1000000 0 0", "1000000 x 0", "`x` is not a number"),
        ("</topology>", "", "ends before its last element"),
    ] {
        let text = HOST.replace(old, new);
        assert_ne!(text, HOST, "{old}");
        let error = refused(&text);
        assert!(error.contains(says), "{new}: {error}");
    }
    let none = "<topology><object type=\"Machine\"/></topology>";
    assert!(refused(none).contains("no GPU") && refused(none).contains("lstopo"));
    let many = "<object type=\"Package\"><object type=\"PCIDev\" pci_type=\"0302\" pci_link_speed=\"1\"/></object>";
    let many =
        format!("<topology><object type=\"Machine\">{}</object></topology>", many.repeat(300));
    assert!(refused(&many).contains("300 packages"));
    let gpus = "<object type=\"PCIDev\" pci_type=\"0302\" pci_link_speed=\"1\"/>".repeat(1025);
    let gpus = format!("<topology><object type=\"Machine\">{gpus}</object></topology>");
    assert!(refused(&gpus).contains("a host of 1025 GPUs"));
}

#[test]
fn an_infragraph_is_a_fabric() {
    let graph = Graph::parse(SERVERS, "infragraph.yaml").unwrap();
    assert_eq!((graph.name.as_str(), graph.ranks, graph.switches()), ("two servers", 8, 16));
    // Seven parts of eight enter an accelerator over its link of 31.5 GB/s.
    let found = best(&graph, Collective::AllGather, 0, false).unwrap();
    assert!((found.rate_per_second - 36e9).abs() < 1.0, "{found:?}");
}
