//! A fabric drawn: ranks below, switches above them by their distance, each link in the colour of its
//! load.
//!
//! Without switches, the ranks form a circle. The two directions of a cable are two lines side by
//! side. Links within a row, as between the routers of a dragonfly, are arcs above it: as lines they
//! would cover each other.

use super::svg::{WIDTH, head, put, text};
use crate::machine::graph::Graph;

/// The height of a level, and of the head.
const LEVEL: f64 = 130.0;
const TOP: f64 = 90.0;
const MARGIN: f64 = 40.0;
/// How far the control point of an arc over the whole width is above its ends.
const ARC: f64 = 130.0;
/// The loads from which a warmer colour is used.
const STEPS: [f64; 3] = [0.25, 0.5, 0.9];
/// The most nodes on a level whose names are written.
const NAMED: usize = 24;

/// The fabric with the load of each link, as a fraction of its capacity.
#[must_use]
pub fn network(graph: &Graph, (title, about): (&str, &str), loads: &[f64]) -> String {
    let levels = levels(graph);
    let count = levels.iter().max().map_or(0, |level| level + 1);
    let is_round = graph.switches() == 0 && graph.ranks > 2;
    let height = if is_round { TOP + WIDTH * 0.6 } else { TOP + LEVEL * count as f64 };
    let places =
        if is_round { circle(graph.nodes.len(), height) } else { rows(graph, &levels, height) };
    let mut out = String::with_capacity(1 << 14);
    head(&mut out, (title, about), height + 34.0);
    for (link, &load) in graph.links.iter().zip(loads) {
        let ((x1, y1), (x2, y2)) = (places[link.from as usize], places[link.to as usize]);
        // To the right of its direction.
        let length = (x2 - x1).hypot(y2 - y1).max(1.0);
        let (dx, dy) = (2.0 * (y1 - y2) / length, 2.0 * (x2 - x1) / length);
        let hue = STEPS.iter().filter(|&&step| load >= step).count();
        let wide = if load > 0.0 { 1.2 + 2.0 * load.min(1.0) } else { 0.6 };
        let class = if load > 0.0 { format!("sh{hue}") } else { "axis".to_owned() };
        let [x1, y1, x2, y2] = [x1 + dx, y1 + dy, x2 + dx, y2 + dy];
        if !is_round && levels[link.from as usize] == levels[link.to as usize] {
            // The two directions of a cable have arcs of their own.
            let rise = ARC * (x2 - x1).abs() / WIDTH + if x1 < x2 { 16.0 } else { 24.0 };
            let (x, y) = ((x1 + x2) / 2.0, y1 - rise);
            put(
                &mut out,
                format_args!(
                    "<path class=\"{class}\" fill=\"none\" stroke-width=\"{wide:.1}\" \
                     d=\"M{x1:.1} {y1:.1}Q{x:.1} {y:.1} {x2:.1} {y2:.1}\"/>\n"
                ),
            );
            continue;
        }
        put(
            &mut out,
            format_args!(
                "<line class=\"{class}\" stroke-width=\"{wide:.1}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" \
                 x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
            ),
        );
    }
    for (node, &(x, y)) in places.iter().enumerate() {
        let is_rank = graph.is_rank(node as u32);
        let radius = if is_rank { 5.0 } else { 7.0 };
        let class = if is_rank { "ring" } else { "fq" };
        put(
            &mut out,
            format_args!(
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>\n"
            ),
        );
        if levels.iter().filter(|&&level| level == levels[node]).count() <= NAMED {
            let below = if is_rank && !is_round { 20.0 } else { -11.0 };
            text(&mut out, (x, y + below), "middle over", &graph.nodes[node]);
        }
    }
    let legend =
        "thin: no load; then by the share of a link's rate: below 25 %, 50 %, 90 %, and above";
    text(&mut out, (14.0, 66.0), "soft", legend);
    out.push_str("</svg>\n");
    out
}

/// How many links each node is from the nearest rank; ranks are on level 0.
fn levels(graph: &Graph) -> Vec<usize> {
    let mut levels = vec![usize::MAX; graph.nodes.len()];
    levels[..graph.ranks as usize].fill(0);
    for level in 0..graph.nodes.len() {
        let mut is_found = false;
        for link in &graph.links {
            for (a, b) in [(link.from, link.to), (link.to, link.from)] {
                if levels[a as usize] == level && levels[b as usize] == usize::MAX {
                    levels[b as usize] = level + 1;
                    is_found = true;
                }
            }
        }
        if !is_found {
            break;
        }
    }
    // A switch without links is placed with the first ones.
    levels.iter().map(|&level| if level == usize::MAX { 1 } else { level }).collect()
}

fn circle(count: usize, height: f64) -> Vec<(f64, f64)> {
    let (x, y) = (WIDTH / 2.0, (TOP + height) / 2.0);
    let radius = (height - TOP) / 2.0 - 20.0;
    let angle = |i: usize| std::f64::consts::TAU * i as f64 / count as f64;
    (0..count).map(|i| (x + radius * angle(i).sin(), y - radius * angle(i).cos())).collect()
}

/// A row per level; each switch is above the middle of the nodes that it joins below.
fn rows(graph: &Graph, levels: &[usize], height: f64) -> Vec<(f64, f64)> {
    let mut places = vec![(0.0, 0.0); levels.len()];
    for level in 0..=levels.iter().copied().max().unwrap_or(0) {
        let own = |node: &u32| levels[*node as usize] == level;
        let mut nodes: Vec<(f64, u32)> = (0..levels.len() as u32)
            .filter(own)
            .map(|node| {
                let joined = graph.links.iter().filter(|link| link.from == node);
                let below = joined.filter(|link| levels[link.to as usize] < level);
                let xs: Vec<f64> = below.map(|link| places[link.to as usize].0).collect();
                (xs.iter().sum::<f64>() / xs.len().max(1) as f64, node)
            })
            .collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let gap = (WIDTH - 2.0 * MARGIN) / nodes.len() as f64;
        for (i, (_, node)) in nodes.into_iter().enumerate() {
            let y = height - MARGIN - level as f64 * LEVEL;
            places[node as usize] = (MARGIN + gap * (i as f64 + 0.5), y);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_and_link_is_drawn_inside() {
        let dragonfly = "kind = \"dragonfly\"\ngroups = 3\nrouters = 2\nhosts = 1\nglobal = 1\n\
                         local_bw = \"50GB/s\"\nglobal_bw = \"50GB/s\"";
        for (kind, arcs) in [
            ("kind = \"fat-tree\"\nk = 4", 0),
            ("kind = \"ring\"\nranks = 5", 0),
            // All but the twelve between ranks and routers: three cables inside groups, three between.
            (dragonfly, 12),
        ] {
            let text = format!("[generate]\n{kind}\nbw = \"50GB/s\"");
            let graph = Graph::parse(&text, "f.toml").unwrap();
            let loads: Vec<f64> = (0..graph.links.len()).map(|i| i as f64 / 10.0).collect();
            let svg = network(&graph, ("a <title>", "about"), &loads);
            assert_eq!(svg.matches("<circle").count(), graph.nodes.len());
            assert_eq!(svg.matches("<path").count(), arcs);
            assert_eq!(svg.matches("<line").count(), graph.links.len() - arcs);
            assert!(svg.contains("a &lt;title&gt;") && svg.contains("class=\"sh3\""));
            let spots = svg.split("cx=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
            assert!(spots.map(|x| x.parse::<f64>().unwrap()).all(|x| (0.0..WIDTH).contains(&x)));
        }
    }
}
