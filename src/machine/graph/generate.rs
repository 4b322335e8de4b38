//! Fabrics of well-known kinds: nodes and links from a handful of numbers.
//!
//! Latencies are typical ones: 0.5 µs per link, 0.6 µs in networks of switches and PCIe (0.9 µs between processors),
//! 0.7 µs NVLink, 1.5 µs per NIC and its switch.

use serde::Deserialize;

use super::file::Amount;
use super::{Link, Node};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Rate, Seconds};
use crate::model::formula::Rational;

/// The most ranks that a generator makes.
const RANKS: u64 = 1 << 17;

/// The most links of a generated graph.
const LINKS: u64 = 1 << 20;

/// The contents of `[generate]`.
#[derive(Deserialize, Debug, Clone)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Generate {
    Ring {
        ranks: u32,
        bw: Amount,
        #[serde(default)]
        one_way: bool,
    },
    Torus {
        sides: Vec<u32>,
        bw: Amount,
    },
    Mesh {
        sides: Vec<u32>,
        bw: Amount,
    },
    Hypercube {
        dimension: u32,
        bw: Amount,
    },
    Full {
        ranks: u32,
        bw: Amount,
    },
    Star {
        ranks: u32,
        bw: Amount,
    },
    #[serde(rename = "dgx-1v")]
    Dgx1V {},
    Boxes {
        boxes: u32,
        gpus: u32,
        nvswitch: Option<Amount>,
        mesh: Option<Amount>,
        nic: Option<Amount>,
        fabric: Option<String>,
        spine: Option<Amount>,
    },
    Mi250 {
        boxes: u32,
        gcds: u32,
    },
    Pcie {
        nodes: u32,
        gpus: u32,
        per_switch: u32,
        gpu_bw: Amount,
        up_bw: Amount,
        cross_bw: Amount,
        nic: Option<Amount>,
    },
    LeafSpine {
        leaves: u32,
        hosts: u32,
        spines: u32,
        bw: Amount,
        oversubscription: Option<f64>,
    },
    FatTree {
        k: u32,
        bw: Amount,
    },
    Dragonfly {
        groups: u32,
        routers: u32,
        hosts: u32,
        global: u32,
        bw: Amount,
        local_bw: Amount,
        global_bw: Amount,
    },
}

/// Nodes by name and links by number, before faults.
#[derive(Debug, Clone, Default)]
pub(super) struct Spec {
    pub name: String,
    pub ranks: Vec<String>,
    pub switches: Vec<String>,
    pub links: Vec<Link>,
    /// The sides of a grid, and whether they close.
    pub grid: Option<(Vec<u32>, bool)>,
    /// The switches of each group of a dragonfly.
    pub groups: Vec<Vec<Node>>,
}

const NS: f64 = 1e-9;

impl Spec {
    fn new(name: String, ranks: u64) -> Result<Self> {
        if !(1..=RANKS).contains(&ranks) {
            return Err(Error::input(format!("a fabric of {ranks} ranks"))
                .help(format!("a generator makes 1 to {RANKS}")));
        }
        let ranks = (0..ranks).map(|i| format!("g{i}")).collect();
        Ok(Self { name, ranks, ..Self::default() })
    }

    /// A further switch.
    fn switch(&mut self, name: String) -> Node {
        self.switches.push(name);
        (self.ranks.len() + self.switches.len() - 1) as Node
    }

    fn one_way(&mut self, from: Node, to: Node, rate: Rate, nanoseconds: f64) {
        self.links.push(Link { from, to, rate, latency: Seconds(nanoseconds * NS) });
    }

    fn cable(&mut self, a: Node, b: Node, rate: Rate, nanoseconds: f64) {
        self.one_way(a, b, rate, nanoseconds);
        self.one_way(b, a, rate, nanoseconds);
    }
}

impl Generate {
    /// The approximate number of links, for kinds that have many more links than ranks.
    fn dense(&self) -> u64 {
        let all = |factors: &[u32]| {
            factors.iter().fold(1_u64, |all, &factor| all.saturating_mul(u64::from(factor)))
        };
        match self {
            Self::Full { ranks, .. } => all(&[*ranks, *ranks]),
            Self::Boxes { boxes, gpus, mesh: Some(_), .. } => all(&[*boxes, *gpus, *gpus]),
            Self::LeafSpine { leaves, spines, .. } => all(&[2, (*leaves).max(1), *spines]),
            Self::Dragonfly { groups, routers, .. } => {
                let inside = all(&[*groups, (*routers).max(1), *routers]);
                inside.saturating_add(all(&[*groups, *groups]))
            }
            _ => 0,
        }
    }

    pub(super) fn spec(&self) -> Result<Spec> {
        self.made().map_err(|e| e.within("generate"))
    }

    fn made(&self) -> Result<Spec> {
        let dense = self.dense();
        if dense > LINKS {
            return Err(Error::input(format!("a fabric of about {dense} links"))
                .help(format!("a generator makes at most {LINKS}")));
        }
        match self {
            Self::Ring { ranks, bw, one_way } => ring(*ranks, bw.rate("bw")?, *one_way),
            Self::Torus { sides, bw } => grid(sides, true, bw.rate("bw")?),
            Self::Mesh { sides, bw } => grid(sides, false, bw.rate("bw")?),
            Self::Hypercube { dimension, bw } => hypercube(*dimension, bw.rate("bw")?),
            Self::Full { ranks, bw } => {
                let mut spec = Spec::new(format!("full mesh {ranks}"), u64::from(*ranks))?;
                mesh(&mut spec, 0..*ranks, bw.rate("bw")?, 500.0);
                Ok(spec)
            }
            Self::Star { ranks, bw } => {
                let mut spec = Spec::new(format!("star {ranks}"), u64::from(*ranks))?;
                let (rate, switch) = (bw.rate("bw")?, spec.switch("sw".to_owned()));
                (0..*ranks).for_each(|rank| spec.cable(rank, switch, rate, 500.0));
                Ok(spec)
            }
            Self::Dgx1V {} => dgx_1v(),
            Self::Boxes { .. } => self.boxes(),
            Self::Mi250 { boxes, gcds } => mi250(*boxes, *gcds),
            Self::Pcie { .. } => self.pcie(),
            Self::LeafSpine { leaves, hosts, spines, bw, oversubscription } => leaf_spine(
                [*leaves, *hosts, *spines],
                bw.rate("bw")?,
                oversubscription.unwrap_or(1.0),
            ),
            Self::FatTree { k, bw } => fat_tree(*k, bw.rate("bw")?),
            Self::Dragonfly { .. } => self.dragonfly(),
        }
    }

    /// Boxes of GPUs behind an NVSwitch or fully meshed, joined by their NICs.
    fn boxes(&self) -> Result<Spec> {
        let Self::Boxes { boxes, gpus, nvswitch, mesh: meshed, nic, fabric, spine } = self else {
            return Err(Error::input("no boxes"));
        };
        let (boxes, gpus) = (*boxes, *gpus);
        let kind = fabric.as_deref().unwrap_or("one");
        let name = match boxes {
            1 => format!("a box of {gpus}"),
            _ => format!("{boxes} boxes of {gpus}, {kind}"),
        };
        let mut spec = Spec::new(name, u64::from(boxes) * u64::from(gpus))?;
        match (nvswitch, meshed) {
            (Some(rate), None) => {
                let rate = rate.rate("nvswitch")?;
                let switches: Vec<Node> =
                    (0..boxes).map(|b| spec.switch(format!("nv{b}"))).collect();
                for rank in 0..boxes * gpus {
                    spec.cable(rank, switches[(rank / gpus) as usize], rate, 700.0);
                }
            }
            (None, Some(rate)) => {
                let rate = rate.rate("mesh")?;
                for b in 0..boxes {
                    mesh(&mut spec, b * gpus..(b + 1) * gpus, rate, 700.0);
                }
            }
            _ => {
                return Err(Error::input("boxes need `nvswitch` or `mesh`, and not both")
                    .help("write nvswitch = \"450GB/s\": the rate of a GPU to its switch"));
            }
        }
        if boxes == 1 {
            return Ok(spec);
        }
        let nic = nic.as_ref().ok_or_else(|| {
            Error::input("several boxes without NICs").help("write nic = \"50GB/s\"")
        })?;
        let nic = nic.rate("nic")?;
        let switches: Vec<Node> = match kind {
            "one" => vec![spec.switch("ib".to_owned())],
            "parity" => (0..2).map(|i| spec.switch(format!("ib{i}"))).collect(),
            "rail" => (0..gpus).map(|i| spec.switch(format!("rail{i}"))).collect(),
            other => {
                return Err(Error::input(format!("`{other}` is not a way to join boxes"))
                    .help("write fabric = \"one\", \"parity\" or \"rail\""));
            }
        };
        for rank in 0..boxes * gpus {
            let local = (rank % gpus) as usize;
            spec.cable(rank, switches[local % switches.len()], nic, 1500.0);
        }
        if let Some(rate) = spine {
            if kind != "rail" {
                return Err(Error::input(format!("a spine above fabric {kind}"))
                    .help("a spine joins rails: write fabric = \"rail\""));
            }
            let (rate, spine) = (rate.rate("spine")?, spec.switch("spine".to_owned()));
            switches.into_iter().for_each(|rail| spec.cable(rail, spine, rate, 1500.0));
        }
        Ok(spec)
    }

    /// Nodes of two root complexes with PCIe switches below them.
    fn pcie(&self) -> Result<Spec> {
        let Self::Pcie { nodes, gpus, per_switch, gpu_bw, up_bw, cross_bw, nic } = self else {
            return Err(Error::input("no PCIe nodes"));
        };
        let (nodes, gpus, each) = (*nodes, *gpus, *per_switch);
        if each == 0 || gpus % each != 0 {
            return Err(Error::input(format!("{gpus} GPUs over switches of {each}"))
                .help("per_switch must divide gpus"));
        }
        let (gpu, up, cross) =
            (gpu_bw.rate("gpu_bw")?, up_bw.rate("up_bw")?, cross_bw.rate("cross_bw")?);
        let mut spec =
            Spec::new(format!("PCIe {nodes} x {gpus}"), u64::from(nodes) * u64::from(gpus))?;
        let mut first = Vec::new();
        let switches = gpus / each;
        for node in 0..nodes {
            let cpus = [0, 1].map(|c| spec.switch(format!("cpu{node}.{c}")));
            spec.cable(cpus[0], cpus[1], cross, 900.0);
            for p in 0..switches {
                let plx = spec.switch(format!("plx{node}.{p}"));
                if p == 0 {
                    first.push(plx);
                }
                let half = usize::from(2 * p >= switches);
                spec.cable(plx, cpus[half], up, 600.0);
                for i in 0..each {
                    spec.cable(node * gpus + p * each + i, plx, gpu, 600.0);
                }
            }
        }
        if nodes > 1 {
            let nic = nic.as_ref().ok_or_else(|| {
                Error::input("several nodes without NICs").help("write nic = \"12.5GB/s\"")
            })?;
            let (nic, eth) = (nic.rate("nic")?, spec.switch("eth".to_owned()));
            first.into_iter().for_each(|plx| spec.cable(plx, eth, nic, 2000.0));
        }
        Ok(spec)
    }

    /// Groups of routers, all to all inside; global ports of a group each to another group.
    fn dragonfly(&self) -> Result<Spec> {
        let Self::Dragonfly { groups, routers, hosts, global, bw, local_bw, global_bw } = self
        else {
            return Err(Error::input("no dragonfly"));
        };
        let (g, a, p, h) = (*groups, *routers, *hosts, *global);
        if u64::from(g) > u64::from(a) * u64::from(h) + 1 {
            return Err(Error::input(format!("{g} groups, but {a} routers with {h} global ports"))
                .help("groups are at most routers x global + 1"));
        }
        let (bw, local, far) =
            (bw.rate("bw")?, local_bw.rate("local_bw")?, global_bw.rate("global_bw")?);
        let name = format!("dragonfly a={a} p={p} h={h} groups={g}");
        let mut spec = Spec::new(name, u64::from(g) * u64::from(a) * u64::from(p))?;
        let router: Vec<Node> =
            (0..g * a).map(|r| spec.switch(format!("r{}.{}", r / a, r % a))).collect();
        spec.groups = router.chunks(a as usize).map(<[Node]>::to_vec).collect();
        for rank in 0..g * a * p {
            spec.cable(rank, router[(rank / p) as usize], bw, 600.0);
        }
        for group in 0..g {
            for i in 0..a {
                for j in i + 1..a {
                    let at = |r: u32| router[(group * a + r) as usize];
                    spec.cable(at(i), at(j), local, 600.0);
                }
            }
        }
        for i in 0..g {
            for q in 0..g.saturating_sub(1) {
                let j = (i + q + 1) % g;
                if i < j {
                    let back = g - 2 - q;
                    let (from, to) = (i * a + q / h, j * a + back / h);
                    spec.cable(router[from as usize], router[to as usize], far, 1000.0);
                }
            }
        }
        Ok(spec)
    }
}

fn ring(ranks: u32, rate: Rate, one_way: bool) -> Result<Spec> {
    let way = if one_way { " one way" } else { "" };
    let mut spec = Spec::new(format!("ring {ranks}{way}"), u64::from(ranks))?;
    for rank in 0..ranks {
        let next = (rank + 1) % ranks;
        match (one_way, ranks) {
            (_, 1) => {}
            (true, _) => spec.one_way(rank, next, rate, 500.0),
            (false, 2) if rank == 1 => {}
            (false, _) => spec.cable(rank, next, rate, 500.0),
        }
    }
    Ok(spec)
}

/// A torus or a mesh, ranks in row-major order.
fn grid(sides: &[u32], wraps: bool, rate: Rate) -> Result<Spec> {
    let shape: Vec<String> = sides.iter().map(u32::to_string).collect();
    let kind = if wraps { "torus" } else { "mesh" };
    let ranks = sides.iter().try_fold(1_u64, |all, &side| all.checked_mul(u64::from(side)));
    let mut spec = Spec::new(format!("{kind} {}", shape.join("x")), ranks.unwrap_or(u64::MAX))?;
    for rank in 0..spec.ranks.len() as u32 {
        let mut stride = spec.ranks.len() as u32;
        for &side in sides {
            stride /= side;
            let place = rank / stride % side;
            if place + 1 < side {
                spec.cable(rank, rank + stride, rate, 500.0);
            } else if wraps && side > 2 {
                spec.cable(rank, rank - place * stride, rate, 500.0);
            }
        }
    }
    spec.grid = Some((sides.to_vec(), wraps));
    Ok(spec)
}

fn hypercube(dimension: u32, rate: Rate) -> Result<Spec> {
    let ranks = 1_u64.checked_shl(dimension).unwrap_or(u64::MAX);
    let mut spec = Spec::new(format!("hypercube {dimension}"), ranks)?;
    for rank in 0..spec.ranks.len() as u32 {
        for bit in 0..dimension {
            let other = rank ^ (1 << bit);
            if rank < other {
                spec.cable(rank, other, rate, 500.0);
            }
        }
    }
    Ok(spec)
}

fn mesh(spec: &mut Spec, ranks: std::ops::Range<u32>, rate: Rate, nanoseconds: f64) {
    for a in ranks.clone() {
        for b in a + 1..ranks.end {
            spec.cable(a, b, rate, nanoseconds);
        }
    }
}

/// The given numbers of links of `each` bytes per second between pairs of nodes.
fn pairs(spec: &mut Spec, first: Node, list: &[(u32, [u32; 2])], each: i128, nanoseconds: f64) {
    for &(links, [a, b]) in list {
        let rate = Rate(Rational::from_integer(each * i128::from(links)));
        spec.cable(first + a, first + b, rate, nanoseconds);
    }
}

/// V100s in a hybrid cube mesh, six NVLinks each (NVIDIA, DGX-1 With Tesla V100 System
/// Architecture, WP-08437-002).
fn dgx_1v() -> Result<Spec> {
    const LINKS: &[(u32, [u32; 2])] = &[
        (1, [0, 1]),
        (1, [0, 2]),
        (2, [0, 3]),
        (2, [0, 4]),
        (2, [1, 2]),
        (1, [1, 3]),
        (2, [1, 5]),
        (2, [2, 3]),
        (1, [2, 6]),
        (1, [3, 7]),
        (1, [4, 5]),
        (1, [4, 6]),
        (2, [4, 7]),
        (2, [5, 6]),
        (1, [5, 7]),
        (2, [6, 7]),
    ];
    let mut spec = Spec::new("DGX-1V".to_owned(), 8)?;
    pairs(&mut spec, 0, LINKS, 25_000_000_000, 700.0);
    Ok(spec)
}

/// Boxes of 16 or 8 GCDs of MI250 (github.com/liangyuRain/ForestColl, topologies.py).
fn mi250(boxes: u32, gcds: u32) -> Result<Spec> {
    const LINKS: &[(u32, [u32; 2])] = &[
        (4, [0, 1]),
        (4, [2, 3]),
        (4, [4, 5]),
        (4, [6, 7]),
        (4, [8, 9]),
        (4, [10, 11]),
        (4, [12, 13]),
        (4, [14, 15]),
        (2, [0, 4]),
        (2, [3, 7]),
        (2, [8, 12]),
        (2, [11, 15]),
        (1, [0, 8]),
        (1, [1, 5]),
        (1, [1, 9]),
        (1, [1, 10]),
        (1, [2, 6]),
        (1, [2, 9]),
        (1, [2, 10]),
        (1, [3, 11]),
        (1, [4, 6]),
        (1, [5, 6]),
        (1, [5, 7]),
        (1, [9, 13]),
        (1, [10, 14]),
        (1, [12, 14]),
        (1, [13, 14]),
        (1, [13, 15]),
    ];
    if gcds != 8 && gcds != 16 {
        return Err(Error::input(format!("a box of {gcds} GCDs")).help("write gcds = 16 or 8"));
    }
    let name = format!("MI250 {boxes} x {gcds} GCDs");
    let mut spec = Spec::new(name, u64::from(boxes) * u64::from(gcds))?;
    let inside: Vec<_> = LINKS.iter().copied().filter(|(_, [a, b])| a.max(b) < &gcds).collect();
    for b in 0..boxes {
        pairs(&mut spec, b * gcds, &inside, 50_000_000_000, 800.0);
    }
    if boxes > 1 {
        let ib = spec.switch("ib".to_owned());
        let rate = Rate(Rational::from_integer(16_000_000_000));
        (0..boxes * gcds).for_each(|gcd| spec.cable(gcd, ib, rate, 1500.0));
    }
    Ok(spec)
}

fn leaf_spine([leaves, hosts, spines]: [u32; 3], rate: Rate, over: f64) -> Result<Spec> {
    let times = crate::base::quantity::decimal(&over.to_string());
    let times = times.filter(|t| *t > Rational::from_integer(0)).ok_or_else(|| {
        Error::input(format!("oversubscription {over}")).help("write 2 for two to one")
    })?;
    if spines == 0 {
        return Err(Error::input("a leaf-spine fabric without spines"));
    }
    let up = Rate(rate.0 * i128::from(hosts) / (times * i128::from(spines)));
    let name = format!(
        "leaf-spine {leaves}x{hosts}, {spines} spines, {over}:1, uplinks of {}",
        up.bandwidth()
    );
    let mut spec = Spec::new(name, u64::from(leaves) * u64::from(hosts))?;
    let leaf: Vec<Node> = (0..leaves).map(|i| spec.switch(format!("leaf{i}"))).collect();
    let spine: Vec<Node> = (0..spines).map(|i| spec.switch(format!("spine{i}"))).collect();
    for rank in 0..leaves * hosts {
        spec.cable(rank, leaf[(rank / hosts) as usize], rate, 600.0);
    }
    for &leaf in &leaf {
        for &spine in &spine {
            spec.cable(leaf, spine, up, 600.0);
        }
    }
    Ok(spec)
}

/// Three levels of k-port switches (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008).
fn fat_tree(k: u32, rate: Rate) -> Result<Spec> {
    if k < 2 || k % 2 == 1 || k > 64 {
        return Err(Error::input(format!("a fat tree of {k}-port switches"))
            .help("k is even, from 2 to 64"));
    }
    let half = k / 2;
    let mut spec = Spec::new(format!("fat tree k={k}"), u64::from(k) * u64::from(half * half))?;
    let level = |spec: &mut Spec, name: &str| -> Vec<Node> {
        (0..k * half).map(|i| spec.switch(format!("{name}{}.{}", i / half, i % half))).collect()
    };
    let edge = level(&mut spec, "edge");
    let agg = level(&mut spec, "agg");
    let core: Vec<Node> = (0..half * half).map(|i| spec.switch(format!("core{i}"))).collect();
    for rank in 0..spec.ranks.len() as u32 {
        spec.cable(rank, edge[(rank / half) as usize], rate, 600.0);
    }
    for pod in 0..k {
        for e in 0..half {
            for a in 0..half {
                let at = |i: u32| (pod * half + i) as usize;
                spec.cable(edge[at(e)], agg[at(a)], rate, 600.0);
            }
        }
    }
    for pod in 0..k {
        for a in 0..half {
            for c in 0..half {
                let from = agg[(pod * half + a) as usize];
                spec.cable(from, core[(a * half + c) as usize], rate, 600.0);
            }
        }
    }
    Ok(spec)
}
