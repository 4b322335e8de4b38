//! An infrastructure as InfraGraph 2.4 describes it, in YAML or JSON.
//!
//! ```text
//! devices:                                   the kinds of devices, and what is inside them
//! - name: server
//!   components:
//!   - {name: xpu, count: 4, choice: xpu}     ranks
//!   - {name: nic, count: 4, choice: nic}     all others forward
//!   links:
//!   - {name: pcie, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 64}}}
//!   edges:
//!   - {ep1: {component: xpu}, ep2: {component: nic}, scheme: one2one, link: pcie}
//! instances:
//! - {name: host, device: server, count: 2}
//! edges:                                     between instances, over `links` of the infrastructure
//! - {ep1: {instance: "host[0:2]", component: "nic[0]"}, ep2: {…}, scheme: one2one, link: eth}
//! ```
//!
//! Nodes have InfraGraph's names, `host.0.xpu.3`, and ranks come in that order. As in InfraGraph's
//! own expansion, there is one edge between two nodes, the last one in the file, and `one2one`
//! stops at the shorter of its ends. That expansion does not know `ring`; here each component of
//! `ep1` is joined to the next one of `ep2`, and the last one to the first. Nodes that are on no
//! path between accelerators are left out: processors, memory, free ports. Every remaining link
//! must give its bandwidth, in bits or bytes: transfers are not supported, since neither lanes nor
//! encoding are in the file. Keys that a fabric does not need are ignored.
//!
//! Source: github.com/Keysight/infragraph 2.4.0, `artifacts/infragraph.proto`, `docs/src`, and
//! `src/infragraph/infragraph_service.py` for how slices and schemes expand.

mod expand;
mod file;

use std::collections::BTreeSet;

use file::{Bandwidth, Infra};

use super::giga;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds};
use crate::base::refused::Refused;
use crate::base::yaml;
use crate::machine::graph::{Graph, Link, Node};

type Read<T> = std::result::Result<T, Refused>;

/// Whether a text has one of the lists of an infrastructure, as a line of YAML or a key of JSON.
pub(super) fn is_it(text: &str) -> bool {
    let is_json = text.trim_start().starts_with('{');
    ["devices", "instances"].into_iter().any(|list| {
        let is_key = |rest: &str| rest.trim_start().starts_with(':');
        if is_json {
            let quoted = format!("\"{list}\"");
            return text.match_indices(&quoted).any(|(at, _)| is_key(&text[at + quoted.len()..]));
        }
        text.lines().any(|line| line.trim_start().strip_prefix(list).is_some_and(is_key))
    })
}

/// The fabric of a file.
pub(super) fn read(text: &str, origin: &str) -> Result<Graph> {
    let top = yaml::parse(text).map_err(|e| e.error(origin))?;
    let infra = file::read(&top).map_err(|e| e.error(origin))?;
    let expanded = expand::expand(&infra).map_err(|e| e.error(origin))?;
    fabric(&infra, expanded, origin).map_err(|e| e.at(origin))
}

fn fabric(infra: &Infra<'_>, expanded: expand::Expanded, origin: &str) -> Result<Graph> {
    if !expanded.is_rank.contains(&true) {
        return Err(Error::input("no component of choice xpu in an instance")
            .help("xpus are the ranks: add a device that has some, and an instance of it"));
    }
    let kept = expanded.on_a_way();
    let edges = expanded.edges.iter().filter(|(a, b, _)| kept[*a as usize] && kept[*b as usize]);
    check_rates(infra, edges.clone().map(|(_, _, link)| *link as usize))?;
    // Ranks first, then the others, both in the order of the file.
    let mut names = (Vec::new(), Vec::new());
    for name in expand::names(infra, &expanded.is_rank, &kept).map_err(|e| e.error(origin))? {
        match name {
            (true, name) => names.0.push(name),
            (false, name) => names.1.push(name),
        }
    }
    let mut numbers: Vec<Node> = vec![0; kept.len()];
    let (mut rank, mut other) = (0, names.0.len() as Node);
    for (number, (&is_kept, &is_rank)) in numbers.iter_mut().zip(kept.iter().zip(&expanded.is_rank))
    {
        let next = if is_rank { &mut rank } else { &mut other };
        if is_kept {
            *number = *next;
            *next += 1;
        }
    }
    let mut links = Vec::with_capacity(2 * expanded.edges.len());
    for &(a, b, link) in edges {
        let kind = &infra.links[link as usize];
        let Bandwidth::Rate(rate) = kind.bandwidth else { continue };
        let (from, to) = (numbers[a as usize], numbers[b as usize]);
        let link = Link { from, to, rate: Rate(rate), latency: Seconds(kind.latency) };
        links.extend([link, Link { from: to, to: from, ..link }]);
    }
    let name = match infra.name {
        Some(name) => name.to_owned(),
        None => format!("{} xpus of {origin}", names.0.len()),
    };
    drop(expanded);
    Graph::joined(name, names, links)
}

/// Refuses links without a bandwidth, all of them at once.
fn check_rates(infra: &Infra<'_>, used: impl Iterator<Item = usize>) -> Result<()> {
    let is_rate = |link: &usize| matches!(infra.links[*link].bandwidth, Bandwidth::Rate(_));
    let unknown: BTreeSet<usize> = used.filter(|link| !is_rate(link)).collect();
    let Some(&first) = unknown.first() else { return Ok(()) };
    let called = |&link: &usize| {
        let kind = &infra.links[link];
        let owner = kind.owner.map_or("the infrastructure".to_owned(), |name| format!("`{name}`"));
        format!("`{}` of {owner} (line {})", kind.name, kind.line)
    };
    let shown: Vec<String> = unknown.iter().take(8).map(called).collect();
    let more = match unknown.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let help = "write physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 64}} \
                at each";
    let (what, help) = match infra.links[first].bandwidth {
        Bandwidth::Transfers => (
            "a link counts transfers, and its lanes and encoding are not in the file",
            "write gigabytes_per_second instead: 31.5 for PCIe 4.0 of 16 lanes, 63 for 5.0",
        ),
        _ => ("a link between xpus has no bandwidth", help),
    };
    Err(Error::unknown(format!("{what}: {}{more}", shown.join(", "))).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes and edges before anything is left out.
    fn counts(text: &str) -> (usize, usize) {
        let top = yaml::parse(text).unwrap();
        let infra = file::read(&top).unwrap();
        let expanded = expand::expand(&infra).unwrap();
        (expanded.is_rank.len(), expanded.edges.len())
    }

    fn refused(text: &str) -> String {
        read(text, "i.yaml").unwrap_err().to_string()
    }

    const SERVERS: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fabrics/infragraph.yaml"));

    #[test]
    fn slices_and_devices_inside_devices_expand() {
        // A server: 2 + 4 + 2 · 3 + 8 nodes; 1 + 2 + 2 + 2 + 4 edges, and 2 in each of two cards.
        // InfraGraph's own expansion has the same numbers (set_graph of its package 2.4.0).
        assert_eq!(counts(SERVERS), (2 * 20, 2 * (11 + 2 * 2) + 4));
        let graph = Graph::parse(SERVERS, "i.yaml").unwrap();
        // Without memory.
        assert_eq!((graph.ranks, graph.switches()), (8, 2 * 8));
        assert_eq!(graph.links.len(), 2 * (2 * (11 - 4 + 4) + 4));
        let names: Vec<&str> = graph.nodes.iter().map(String::as_str).collect();
        assert_eq!(names[..2], ["host.0.xpu.0", "host.0.xpu.1"]);
        assert_eq!(names[4], "host.1.xpu.0");
        assert!(names.contains(&"host.1.card.1.port.0") && !names.contains(&"host.0.dimm.0"));
        let at = |name: &str| names.iter().position(|n| *n == name).unwrap() as Node;
        let rate = |a: &str, b: &str| {
            let ends = (at(a), at(b));
            let link = graph.links.iter().find(|link| (link.from, link.to) == ends);
            link.map(|link| (link.rate.bandwidth().0, link.latency.0))
        };
        assert_eq!(rate("host.0.xpu.3", "host.0.cpu.1"), Some((31.5e9, 0.5e-6)));
        assert_eq!(rate("host.0.xpu.3", "host.0.cpu.0"), None);
        assert_eq!(rate("host.1.cpu.1", "host.1.card.1.chip.0"), Some((31.5e9, 0.5e-6)));
        assert_eq!(rate("host.1.card.1.port.1", "host.0.card.1.port.1"), Some((12.5e9, 0.0)));
        assert_eq!(rate("host.1.card.1.port.1", "host.0.card.1.port.0"), None);
    }

    /// The last of several edges is used, and a ring has one edge per component.
    #[test]
    fn edges_between_the_same_two_are_one() {
        let rings = |edges: &str| {
            format!(
                "devices:\n- name: d\n  components: [{{name: x, count: 4, choice: xpu}}]\n  links:\n  \
                 - {{name: a, physical: {{bandwidth: {{gigabytes_per_second: 1}}}}}}\n  \
                 - {{name: b, physical: {{bandwidth: {{gigabytes_per_second: 2}}}}}}\n  edges:\n{edges}\
                 instances: [{{name: i, device: d, count: 1}}]\n"
            )
        };
        let edge = |scheme: &str, link: &str| {
            format!(
                "  - {{ep1: {{component: x}}, ep2: {{component: x}}, scheme: {scheme}, link: {link}}}\n"
            )
        };
        let rates = |text: &str| {
            let graph = Graph::parse(text, "i").unwrap();
            let mut rates: Vec<f64> =
                graph.links.iter().map(|link| link.rate.bandwidth().0 / 1e9).collect();
            rates.sort_by(f64::total_cmp);
            rates
        };
        assert_eq!(rates(&rings(&edge("ring", "a"))), [1.0; 8]);
        assert_eq!(rates(&rings(&edge("many2many", "a"))), [1.0; 12]);
        // One to one stops at the shorter end, so this is 0-2 and 1-3.
        let pairs =
            rings(&edge("one2one", "a").replacen("component: x}", "component: 'x[0:3]'}", 1));
        let pairs = pairs.replacen("component: x}", "component: 'x[2:]'}", 1);
        assert_eq!(counts(&pairs), (4, 2));
        let both = rings(&(edge("many2many", "a") + &edge("ring", "b")));
        assert_eq!(rates(&both), [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn what_is_wrong_in_an_infrastructure_is_said() {
        for (old, new, says) in [
            ("count: 4, choice: xpu", "count: 1000000000, choice: xpu", "nodes"),
            ("count: 4, choice: xpu", "count: 4, choice: nic", "no component of choice xpu"),
            ("count: 4, choice: xpu", "count: -4, choice: xpu", "`-4` is not a count"),
            ("count: 4, choice: xpu", "count: 4, choice: gpu", "`gpu` is not a choice"),
            ("xpu[0:2]", "xpu[0:200000000000]", "there are 4 of `xpu`"),
            ("xpu[0:2]", "xpu[2:2]", "there are 4 of `xpu`"),
            ("xpu[0:2]", "xpu[0:2", "names no components"),
            ("xpu[0:2]", "xpux[0:2]", "no component `xpux`"),
            ("xpu[0:2]", "card[0]", "`card` is a device"),
            ("xpu[0:2]", "xpu.port", "nothing inside `xpu`"),
            ("device: server, count: 2", "device: servers, count: 2", "no device `servers`"),
            ("instance: 'host[0]'", "instance: 'hosts[0]'", "no instance `hosts`"),
            ("instance: 'host[0]'", "instances: 'host[0]'", "`instance` is missing"),
            ("'xpu[0:2]'}, scheme: many2many", "'xpu[0:2]'}, scheme: ring", "1 and 2 components"),
            ("link: eth", "link: et", "no link `et`"),
            ("scheme: one2one\n  link: eth", "scheme: star\n  link: eth", "`star` is not a scheme"),
            ("gigabits_per_second: 100}", "gigabits_per_second: 0}", "not a bandwidth above 0"),
            (
                "choice: gigabytes_per_second, gigabytes_per_second: 31.5",
                "choice: gigatransfers_per_second, gigatransfers_per_second: 16",
                "transfers",
            ),
            (
                "name: chip, count: 1, choice: custom",
                "name: server, count: 1, choice: device",
                "inside",
            ),
            (", physical: {bandwidth: {gigabits_per_second: 800}}", "", "`trace` of `card`"),
        ] {
            let text = SERVERS.replacen(old, new, 1);
            assert_ne!(text, SERVERS, "{old}");
            let error = refused(&text);
            assert!(error.contains(says), "{new}: {error}");
        }
        assert!(refused("{\"devices\": [").contains("this is not YAML"));
        assert!(refused("instances:\n").contains("no component of choice xpu"));
    }

    #[test]
    fn very_much_is_refused_before_it_is_made() {
        let text = |edge: &str| {
            format!(
                "{{\"devices\": [{{\"name\": \"d\", \"components\": [{{\"name\": \"x\", \"count\": 60000, \
                 \"choice\": \"xpu\"}}], \"links\": [{{\"name\": \"l\"}}], \"edges\": [{edge}]}}], \
                 \"instances\": [{{\"name\": \"i\", \"device\": \"d\", \"count\": 2}}]}}"
            )
        };
        let edge = "{\"ep1\": {\"component\": \"x\"}, \"ep2\": {\"component\": \"x\"}, \
                    \"scheme\": \"many2many\", \"link\": \"l\"}";
        assert!(refused(&text(edge)).contains("3600000000 edges"), "{}", refused(&text(edge)));
        let more = text("").replace("\"count\": 2", "\"count\": 18446744073709551615");
        assert!(refused(&more).contains("nodes"), "{}", refused(&more));
    }
}
