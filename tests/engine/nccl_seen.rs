//! Variables that decide what NCCL sees of a machine: each is held to the search on a file in which
//! what it does is written down.

use collcost::library::nccl::described::Machine;
use collcost::library::nccl::search::{Job, Searched, search};
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
    Version::ALL.into_iter().step_by(4).chain([Version::NEWEST])
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
    assert!(refused.contains("1 of the 2 NICs"), "{refused}");
}

/// Functions of one device are ports of one adapter, and are one NIC where nothing is said but a
/// level, or a group of others.
#[test]
fn ports_of_an_adapter_are_near() {
    let ports = |switch: usize| {
        let first = nic(&format!("3{switch}:00.0"), &format!("a{switch}"), 2 * switch, 50_000, 16);
        first + &nic(&format!("3{switch}:00.1"), &format!("b{switch}"), 2 * switch + 1, 50_000, 16)
    };
    let apart = described(&two_switches(ports, ""));
    let version = "2.28.9".parse().unwrap();
    let level = |level| comm(&apart, version, &[("NCCL_NET_MERGE_LEVEL", level)]);
    assert_eq!(level("LOC"), comm(&apart, version, &[]));
    assert_eq!(level("PORT"), level("PIX"));
    assert_ne!(level("PORT"), level("LOC"));
}
