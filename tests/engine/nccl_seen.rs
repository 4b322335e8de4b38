//! Variables that decide what NCCL sees of a machine: each is held to the search on a file in which
//! what it does is written down.

use collcost::library::nccl::described::Machine;
use collcost::library::nccl::search::{Job, Searched, picture, search};
use collcost::library::nccl::topology::{Description, Knobs};
use collcost::library::nccl::topology_file::read;
use collcost::library::nccl::{Communicator, Version};

fn knobs(settings: &[(&str, &str)]) -> Knobs {
    let mut knobs = Knobs::default();
    for (name, value) in settings {
        assert!(knobs.set(name, value).expect(name), "{name}");
    }
    knobs
}

fn release(tag: &str) -> Version {
    tag.parse().expect(tag)
}

fn described(xml: &str) -> Description {
    read(xml, "t.xml").unwrap()
}

fn xml(machine: &str) -> String {
    Machine::named(machine).expect(machine).xml()
}

fn found(
    description: &Description,
    version: Version,
    nodes: u32,
    settings: &[(&str, &str)],
) -> Searched {
    let job = Job { nodes, per_node: None };
    search(description, version, job, &knobs(settings)).unwrap()
}

fn comm(description: &Description, version: Version, settings: &[(&str, &str)]) -> Communicator {
    found(description, version, 2, settings).communicator()
}

/// Every fourth release, and the newest.
fn some() -> impl Iterator<Item = Version> {
    Version::ALL.into_iter().step_by(9).chain([Version::NEWEST])
}

/// The file without the lines of some NICs, the others numbered from 0.
fn without(xml: &str, gone: impl Fn(&str) -> bool) -> String {
    let lines: Vec<&str> = xml.lines().collect();
    let mut kept: Vec<String> = Vec::new();
    let mut next = 0;
    for line in lines {
        if line.contains("<net ") {
            let name = line.split("name=\"").nth(1).unwrap().split('"').next().unwrap();
            if gone(name) {
                // The device stands in the line before, and ends in this one.
                kept.pop();
                continue;
            }
            let (before, behind) = line.split_once("dev=\"").unwrap();
            let behind = behind.split_once('"').unwrap().1;
            kept.push(format!("{before}dev=\"{next}\"{behind}"));
            next += 1;
        } else {
            kept.push(line.to_owned());
        }
    }
    kept.join("\n")
}

#[test]
fn nics_are_those_that_are_named() {
    let whole = xml("dgx_h100_8x400g");
    let few = described(&without(&whole, |name| name != "n1" && name != "n6"));
    let most = described(&without(&whole, |name| name == "n1"));
    let whole = described(&whole);
    for version in some() {
        let named = |list| comm(&whole, version, &[("NCCL_IB_HCA", list)]);
        assert_eq!(named("n1,n6"), comm(&few, version, &[]), "{version}");
        assert_eq!(named("=n1,n6:1"), comm(&few, version, &[]), "{version}");
        assert_eq!(named("^n1"), comm(&most, version, &[]), "{version}");
        // A beginning names all that begin so.
        assert_eq!(named("n"), comm(&whole, version, &[]), "{version}");
        assert_ne!(named("n1,n6"), named("^n1"), "{version}");
    }
    let job = Job { nodes: 2, per_node: None };
    let none = search(&whole, Version::NEWEST, job, &knobs(&[("NCCL_IB_HCA", "mlx5")]));
    assert!(none.unwrap_err().to_string().contains("no NIC of the machine is left"));
    let other_port = search(&whole, Version::NEWEST, job, &knobs(&[("NCCL_IB_HCA", "n1:2")]));
    assert!(other_port.is_err());
}

#[test]
fn sockets_stand_in_for_nics() {
    let whole = xml("dgx_h100_8x400g");
    let bare = without(&whole, |_| true);
    let at = bare.find("</cpu>").unwrap();
    let socket = "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\" gdr=\"0\"/></nic>";
    let socket = described(&format!("{}{socket}{}", &bare[..at], &bare[at..]));
    let whole = described(&whole);
    for version in some() {
        let expected = comm(&socket, version, &[]);
        assert_eq!(comm(&whole, version, &[("NCCL_IB_DISABLE", "1")]), expected, "{version}");
        assert_eq!(comm(&whole, version, &[("NCCL_NET", "Socket")]), expected, "{version}");
        assert_eq!(comm(&whole, version, &[("NCCL_NET", "IB")]), comm(&whole, version, &[]));
        assert_eq!(expected.ring.inter.0, 1.2, "{version}");
    }
    assert!(Knobs::default().set("NCCL_NET", "AWS Libfabric").is_err());
}

/// v2.25.1-1 `src/transport/nvls.cc`, v2.27.3-1 `src/init.cc`.
#[test]
fn no_channels_of_nvls_are_a_value_until_2_27() {
    let machine = described(&xml("dgx_h100_8x400g"));
    let channels = |version: &str, number: &str| {
        comm(&machine, release(version), &[("NCCL_NVLS_NCHANNELS", number)]).nvls_channels
    };
    for (version, negative, none) in [
        ("2.24.3", 1, 1),
        ("2.25.1", 16, 1),
        ("2.26.6", 16, 1),
        ("2.27.3", 16, 16),
        ("2.30.7", 16, 16),
    ] {
        assert_eq!(channels(version, "-5"), negative, "{version}");
        assert_eq!(channels(version, "0"), none, "{version}");
        assert_eq!(channels(version, "5"), 5, "{version}");
    }
}

#[test]
fn hosts_of_a_domain_become_nodes() {
    let whole = xml("gb200_nvl8_2host");
    let second = whole.match_indices("<cpu").nth(2).unwrap().0;
    let first = described(&format!("{}</system>\n", &whole[..second]));
    let whole = described(&whole);
    assert_eq!(first.ranks(), 4);
    for version in ["2.26.2", "2.28.3", "2.30.7"].map(|tag| tag.parse::<Version>().unwrap()) {
        let apart = found(&whole, version, 2, &[("NCCL_MNNVL_ENABLE", "0")]);
        assert_eq!((apart.nodes, apart.per_node), (4, 4), "{version}");
        let alone = found(&first, version, 4, &[]);
        assert_eq!(apart.communicator(), alone.communicator(), "{version}");
    }
}

#[test]
fn gpus_without_a_way_of_their_own_become_nodes() {
    let switched = described(&xml("dgx_h100_8x400g"));
    let apart = [("NCCL_SHM_DISABLE", "1")];
    for version in some() {
        // All reach each other over NVLink.
        assert_eq!(comm(&switched, version, &apart), comm(&switched, version, &[]), "{version}");
    }
    // GPUs on AMD's processors, without a switch: since 2.23.4 more than two talk through memory.
    let pci = described(&xml("l40s_pcie8_2x100g"));
    for version in some() {
        let found = found(&pci, version, 2, &apart);
        if version < "2.23.4".parse().unwrap() {
            assert_eq!(found.communicator(), comm(&pci, version, &[]), "{version}");
            continue;
        }
        assert_eq!((found.nodes, found.per_node), (16, 1), "{version}");
        assert_eq!(found.communicator().nodes, 16);
        assert!(found.inter);
    }
    let alone = found(&switched, Version::NEWEST, 1, &[apart[0], ("NCCL_P2P_DISABLE", "1")]);
    assert_eq!((alone.nodes, alone.per_node), (8, 1));
}

/// Two switches with a GPU and two NICs each.
fn two_switches(nics: impl Fn(usize) -> String, behind: &str) -> String {
    let mut text = String::from(
        "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" \
         vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n",
    );
    for switch in 0..2 {
        text += &format!(
            "<pci busid=\"0000:{:02x}:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" \
             link_width=\"16\">\n<pci busid=\"0000:{:02x}:00.0\" class=\"0x030200\" \
             link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{switch}\" sm=\"80\" \
             rank=\"{switch}\" gdr=\"1\"/></pci>\n{}</pci>\n",
            0x10 + switch,
            0x20 + switch,
            nics(switch),
        );
    }
    format!("{text}{behind}</cpu>\n</system>\n")
}

fn nic(bus: &str, name: &str, dev: usize, speed: u32, guid: u32) -> String {
    format!(
        "<pci busid=\"0000:{bus}\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" \
         link_width=\"16\"><nic><net name=\"{name}\" dev=\"{dev}\" speed=\"{speed}\" port=\"1\" \
         guid=\"{guid:#x}\" gdr=\"1\"/></nic></pci>\n"
    )
}

#[test]
fn nics_are_used_as_one() {
    let each = |switch: usize| {
        let first = nic(&format!("3{switch}:00.0"), &format!("a{switch}"), 2 * switch, 50_000, 16);
        first + &nic(&format!("4{switch}:00.0"), &format!("b{switch}"), 2 * switch + 1, 50_000, 32)
    };
    let apart = described(&two_switches(each, ""));
    let both = |switch: usize| {
        let name = format!("a{switch}+b{switch}");
        nic(&format!("3{switch}:00.1"), &name, switch, 100_000, 16)
    };
    let together = described(&two_switches(both, ""));
    let all = "<nic><net name=\"all\" dev=\"0\" speed=\"200000\" port=\"1\" guid=\"0x10\" \
               gdr=\"1\"/></nic>\n";
    let one = described(&two_switches(|_| String::new(), all));
    for version in some() {
        let fuses = version >= "2.24.3".parse().unwrap();
        let level = |level| comm(&apart, version, &[("NCCL_NET_MERGE_LEVEL", level)]);
        let own = comm(&apart, version, &[]);
        assert_eq!(level("PORT"), own, "{version}");
        let pix = if fuses { comm(&together, version, &[]) } else { own };
        assert_eq!(level("PIX"), pix, "{version}");
        assert_eq!(level("PXB"), pix, "{version}");
        let phb = if fuses { comm(&one, version, &[]) } else { own };
        assert_eq!(level("PHB"), phb, "{version}");
        let groups = [("NCCL_NET_FORCE_MERGE", "a0,b0;a1,b1")];
        assert_eq!(comm(&apart, version, &groups), pix, "{version}");
    }
    let missing = knobs(&[("NCCL_NET_FORCE_MERGE", "a0,c0")]);
    let job = Job { nodes: 2, per_node: None };
    let refused = search(&apart, Version::NEWEST, job, &missing).unwrap_err().to_string();
    assert!(refused.contains("1 of the 2 named NICs"), "{refused}");
}

/// The lines of `nccl topo` for nodes and their links up.
fn drawn(description: &Description, version: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let job = Job { nodes: 2, per_node: None };
    let lines = picture(description, release(version), job, &knobs(settings)).unwrap();
    let lines = lines.iter().filter(|line| line.contains("] - "));
    lines.map(|line| line.trim_start_matches([' ', '+']).trim_end().to_owned()).collect()
}

/// What NCCL does where nothing is said; here a file's NICs stay as they are without it.
const MERGES: [(&str, &str); 1] = [("NCCL_IB_MERGE_NICS", "1")];

/// NICs and their ports where they are merged, without what stands in brackets behind.
fn nics_of(description: &Description, version: &str) -> Vec<String> {
    let lines = drawn(description, version, &MERGES).into_iter();
    let nics = lines.filter(|line| line.contains("NIC/") || line.contains("NET/"));
    nics.map(|line| line.split(" (").next().unwrap().to_owned()).collect()
}

/// Two switches with an adapter of two ports each: as functions of their own, or on one device.
fn dual_port(functions: bool) -> Description {
    let adapter = |switch: usize| {
        let function = |n: usize| format!("3{switch}:00.{n}");
        let name = |n: usize| format!("mlx5_{}", 2 * switch + n);
        let guid = 16 + switch as u32;
        let first = nic(&function(0), &name(0), 2 * switch, 50_000, guid);
        let second = nic(&function(1), &name(1), 2 * switch + 1, 50_000, guid);
        if functions {
            return first + &second;
        }
        let net = &second[second.find("<net").unwrap()..second.find("</nic>").unwrap()];
        first.replace("</nic>", &format!("{net}</nic>"))
    };
    described(&two_switches(adapter, ""))
}

/// Ports of one adapter are one NIC since 2.20.3.
#[test]
fn ports_of_an_adapter_are_one_nic() {
    let one = |switch: usize| {
        nic(&format!("3{switch}:00.0"), "both", switch, 100_000, 16 + switch as u32)
    };
    let together = described(&two_switches(one, ""));
    // The releases about which something changes.
    let tags = ["2.19.4", "2.20.3", "2.23.4", "2.24.3", "2.26.6", "2.27.3", "2.28.3", "2.30.7"];
    for machine in [dual_port(false), dual_port(true)] {
        for version in tags.map(release) {
            let apart = comm(&machine, version, &[]);
            let merged = comm(&machine, version, &MERGES);
            let merges = version >= release("2.20.3");
            assert_eq!(merged == comm(&together, version, &[]), merges, "{version}");
            assert_eq!(merged == apart, !merges, "{version}");
            let level = |level| comm(&machine, version, &[("NCCL_NET_MERGE_LEVEL", level)]);
            assert_eq!(level("LOC"), apart, "{version}");
            let fuses = version >= release("2.24.3");
            for near in ["PORT", "PIX"] {
                assert_eq!(&level(near), if fuses { &merged } else { &apart }, "{version}");
            }
            assert_eq!(comm(&machine, version, &[("NCCL_NET_MERGE_LEVEL", "LOC"), MERGES[0]]), {
                if fuses { apart } else { merged }
            });
        }
    }
    let job = Job { nodes: 2, per_node: None };
    let refused = |version: &str, settings: &[(&str, &str)]| {
        let found = search(&dual_port(false), release(version), job, &knobs(settings));
        found.err().map(|refused| refused.to_string())
    };
    let never = ("NCCL_IB_MERGE_NICS", "0");
    assert!(refused("2.26.2", &[never]).unwrap().contains("does not start"));
    assert_eq!(refused("2.27.3", &[never]), None);
    let group = ("NCCL_NET_FORCE_MERGE", "mlx5_0,mlx5_1");
    assert!(refused("2.27.3", &[never, group]).unwrap().contains("does not start"));
}

/// Where the one NIC stands, and its number, as `ncclTopoGetVNicParent` of each release has it.
#[test]
fn the_one_nic_stands_where_the_release_puts_it() {
    let (shared, functions) = (dual_port(false), dual_port(true));
    let expected = |buses: [&str; 2], numbers: [u32; 2]| {
        let lines = |i: usize| {
            let (bus, number) = (buses[i], numbers[i]);
            [format!("PCI[24.0] - NIC/0-{bus}"), format!("NET[12.5] - NET/0-{number}")]
        };
        [lines(0), lines(1)].concat()
    };
    // On a device of its own, behind the ports' functions.
    assert_eq!(nics_of(&shared, "2.26.2"), expected(["30001", "31001"], [4, 5]));
    assert_eq!(nics_of(&functions, "2.26.2"), expected(["30002", "31002"], [4, 5]));
    assert_eq!(nics_of(&shared, "2.27.3"), expected(["30000", "31000"], [4, 5]));
    assert_eq!(nics_of(&functions, "2.30.7"), expected(["30002", "31002"], [4, 5]));
    let old = [
        "PCI[24.0] - NIC/30000",
        "NET[12.5] - NET/0",
        "PCI[24.0] - NIC/31000",
        "NET[12.5] - NET/1",
    ];
    assert_eq!(nics_of(&shared, "2.20.5"), old);
    assert_eq!(nics_of(&functions, "2.20.5"), old);
}

/// Sockets are never used as one, and NICs that stay alone keep their numbers since 2.27.3.
#[test]
fn only_ports_of_adapters_are_used_as_one() {
    let sockets = |switch: usize| {
        nic(&format!("3{switch}:00.0"), "eth", 2 * switch, 10_000, 1)
            .replace("port=\"1\"", "port=\"0\"")
            + &nic(&format!("3{switch}:00.1"), "eth", 2 * switch + 1, 10_000, 2)
                .replace("port=\"1\"", "port=\"0\"")
    };
    let sockets = described(&two_switches(sockets, ""));
    let mixed = |switch: usize| match switch {
        0 => nic("30:00.0", "mlx5_0", 0, 100_000, 16),
        _ => nic("31:00.0", "mlx5_1", 1, 50_000, 17) + &nic("31:00.1", "mlx5_2", 2, 50_000, 17),
    };
    let mixed = described(&two_switches(mixed, ""));
    for version in some() {
        assert_eq!(comm(&sockets, version, &MERGES), comm(&sockets, version, &[]), "{version}");
    }
    let numbers = |version: &str| {
        let lines = nics_of(&mixed, version).into_iter();
        lines.filter_map(|line| Some(line.split_once("NET/")?.1.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(numbers("2.26.2"), ["0-3", "0-4"]);
    assert_eq!(numbers("2.30.7"), ["0-0", "0-3"]);
}

/// Since 2.28.3 what several NICs are used as has the lanes of all, on a processor too; since 2.30.7
/// switches between keep theirs, and two processors are too far apart.
#[test]
fn lanes_are_those_of_all() {
    let each = |switch: usize| {
        let first = nic(&format!("3{switch}:00.0"), &format!("a{switch}"), 2 * switch, 400_000, 16);
        first + &nic(&format!("4{switch}:00.0"), &format!("b{switch}"), 2 * switch + 1, 400_000, 32)
    };
    let apart = described(&two_switches(each, ""));
    let links = |version: &str, level: &str| {
        let lines = drawn(&apart, version, &[("NCCL_NET_MERGE_LEVEL", level)]);
        let of = |what: &str| {
            let rates = lines.iter().filter(|line| line.contains(what));
            let rates = rates.map(|line| line[4..].split(']').next().unwrap().to_owned());
            rates.collect::<Vec<_>>().join(" ")
        };
        format!("switches {}, NICs {}", of("- PCI/"), of("- NIC/"))
    };
    assert_eq!(links("2.27.7", "PIX"), "switches 24.0 24.0, NICs 24.0 24.0");
    assert_eq!(links("2.28.3", "PIX"), "switches 48.0 48.0, NICs 48.0 48.0");
    assert_eq!(links("2.30.7", "PIX"), "switches 48.0 48.0, NICs 48.0 48.0");
    // Each switch lets through what its own 16 lanes do.
    assert_eq!(links("2.28.3", "PHB"), "switches 48.0 48.0, NICs 48.0");
    assert_eq!(links("2.30.7", "PHB"), "switches 24.0 24.0, NICs 48.0");
}
