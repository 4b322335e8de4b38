//! Prices where ranks share NICs, and over three tiers, held to times worked out by hand and to
//! simulations in mode sync.

use std::num::NonZeroU32;

use collcost::Collective::{
    self, AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce, Scatter,
};
use collcost::answer::Promise;
use collcost::base::quantity::{Bandwidth, Seconds, SecondsPerByte, Volume};
use collcost::cost::bound::bound;
use collcost::cost::crossover::{changes, crossover, is_cheaper};
use collcost::cost::price::{Prepared, uses};
use collcost::cost::simulate::{Mode, Setup, simulate};
use collcost::machine::fabric::{Fabric, Order, Tier};
use collcost::model::algorithm::{Algorithm, Guarantee, Registry};
use collcost::model::formula::{Ports, Shape};

const SIZE: Volume = Volume(1_200_000.0);

/// Links on which only data take time.
fn tier(span: u32, nics: u32, rate: f64) -> Tier {
    Tier {
        span: NonZeroU32::new(span),
        nics: NonZeroU32::new(nics),
        ..Tier::new("link", Seconds(0.0), Bandwidth(rate))
    }
}

/// Nodes of `group` ranks that share `nics` NICs of 1 GB/s, and 8 GB/s inside.
fn nodes(group: u32, nics: u32) -> Fabric {
    Fabric::new(vec![tier(group, 0, 8e9), tier(0, nics, 1e9)])
}

/// Four nodes of four ranks to a leaf switch, and leaf switches under a spine.
fn racks(nics: u32) -> Fabric {
    Fabric::new(vec![tier(4, 0, 16e9), tier(16, nics, 4e9), tier(0, nics, 4e9)])
}

fn find(collective: Collective, id: &str) -> &'static dyn Algorithm {
    Registry::builtin().find(collective, id).unwrap().algorithm
}

fn shape(fabric: &Fabric, collective: Collective, ranks: u32, segments: u32) -> Shape {
    fabric.shape(collective, ranks).unwrap().with_segments(segments)
}

fn price(fabric: &Fabric, id: &str, asked: &Shape, size: Volume) -> f64 {
    Prepared::new(find(asked.collective, id), asked, fabric).unwrap().time(size).0
}

fn played(fabric: &Fabric, id: &str, asked: &Shape, size: Volume, mode: Mode) -> f64 {
    let schedule = fabric.schedule(find(asked.collective, id), asked).unwrap();
    simulate(&*schedule, fabric, &Setup::new(size).in_mode(mode)).unwrap().makespan.0
}

fn least(fabric: &Fabric, asked: &Shape, size: Volume) -> f64 {
    bound(asked, size, fabric).unwrap().time().0
}

#[track_caller]
fn same(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs(), "{got:e} is not {want:e}");
}

#[test]
fn a_neighbour_exchange_crosses_nodes_in_every_other_round() {
    let fabric = nodes(2, 1);
    let four = shape(&fabric, AllGather, 4, 0);
    // M/4 inside, then both ranks of a node send M/2 over its NIC.
    same(price(&fabric, "neighbor-exchange", &four, SIZE), 37.5e-6 + 1200e-6);
    for (group, nics, domains) in
        [(2, 1, 4), (4, 1, 2), (4, 2, 3), (4, 4, 2), (3, 1, 4), (3, 2, 2), (6, 1, 3)]
    {
        let fabric = nodes(group, nics);
        let all = shape(&fabric, AllGather, group * domains, 0);
        let price = price(&fabric, "neighbor-exchange", &all, SIZE);
        same(price, played(&fabric, "neighbor-exchange", &all, SIZE, Mode::Sync));
    }
}

#[test]
fn the_root_has_the_ranks_of_its_own_node_beside_it() {
    let fabric = Fabric { order: Order::Cyclic, ..nodes(8, 0) };
    // Node 0 has ranks 0, 2, 4, 6 and 8; node 1 has the other four.
    for (collective, id, share, passes) in [
        (Broadcast, "flat", 1.0, 1.0),
        (Reduce, "flat", 1.0, 1.0),
        (Scatter, "flat", 1.0 / 9.0, 1.0),
        (Gather, "flat", 1.0 / 9.0, 1.0),
        (AllReduce, "naive", 1.0, 2.0),
    ] {
        let nine = shape(&fabric, collective, 9, 0);
        let time = passes * share * (4.0 * 1200e-6 + 4.0 * 150e-6);
        same(price(&fabric, id, &nine, SIZE), time);
        let far = uses(find(collective, id), &nine, &fabric).unwrap()[1].messages.0;
        same(far, passes * 4.0);
        assert!(time >= played(&fabric, id, &nine, SIZE, Mode::Sync), "{collective} {id}");
    }
    // In blocks the first node is full.
    let block = nodes(8, 0);
    same(price(&block, "flat", &shape(&block, Broadcast, 9, 0), SIZE), 1200e-6 + 7.0 * 150e-6);
}

#[test]
fn every_change_of_the_cheaper_is_found() {
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e9));
    let five = Shape::new(Reduce, 5);
    let ready = |id| Prepared::new(find(Reduce, id), &five, &fabric).unwrap();
    let (chain, halves) = (ready("chain"), ready("reduce-scatter-gather"));
    // Two segments, 5(α + M/2/BW), against 6α + 1.6·M/BW: at 1/0.9 kB. Above, the chain has more.
    let found = changes(&chain, &halves);
    assert_eq!(found.iter().map(|c| c.to_first).collect::<Vec<_>>(), [false, true], "{found:?}");
    assert!((found[0].size.0 - 1000.0 / 0.9).abs() < 1e-6, "{found:?}");
    for change in &found {
        let [a, b] = [&chain, &halves].map(|one| one.time(change.size).0);
        assert!((a / b - 1.0).abs() < 1e-9, "{change:?}");
    }
    let sizes = [100.0, 3e3, 1e4, 1e6].map(Volume);
    let first = sizes.map(|size| chain.time(size).0 < halves.time(size).0);
    assert_eq!(first, [true, false, false, true]);
    assert_eq!([crossover(&chain, &halves), crossover(&halves, &chain)], [None, None]);
    // Where nothing changes, one is never slower.
    let binomial = ready("flat");
    assert!(changes(&chain, &binomial).is_empty() && is_cheaper(&chain, &binomial));
    assert!(!is_cheaper(&binomial, &chain));
}

#[test]
fn what_leaves_a_rack_passes_its_ports() {
    // Of 3.2 MB on each of 16 ranks half is for the other rack: 25.6 MB over four ports of 4 GB/s.
    let (fabric, size) = (racks(4), Volume(3_200_000.0));
    let all = shape(&fabric, AllToAll, 32, 0);
    same(least(&fabric, &all, size), 1600e-6);
    same(price(&fabric, "pairwise-by-tier", &all, size), 1600e-6 + 18.75e-6);
    // Four leaders of a rack share a port of 9.6 MB in 2400 µs; at distances 8 and 4 all leave it.
    let (fabric, size) = (racks(1), Volume(9_600_000.0));
    let leaders = shape(&fabric, Reduce, 64, 0);
    let time = (4.0 + 4.0 + 1.0 + 1.0) * 2400e-6 + 2.0 * 600e-6;
    same(price(&fabric, "leader-tree", &leaders, size), time);
    same(played(&fabric, "leader-tree", &leaders, size, Mode::Sync), time);
}

/// Every step takes what its busiest NIC takes: no composition over three tiers is cheaper than its
/// schedule, round by round.
#[test]
fn compositions_over_three_tiers_take_what_their_rounds_take() {
    let ids = [
        (AllReduce, "2d-ring"),
        (AllReduce, "ring-rabenseifner"),
        (AllReduce, "rabenseifner-ring"),
        (AllReduce, "rabenseifner-rabenseifner"),
        (AllReduce, "leader"),
        (AllReduce, "leader-tree"),
        (AllReduce, "leader-doubling"),
        (AllReduce, "leader-rabenseifner"),
        (AllGather, "2d-ring"),
        (AllToAll, "pairwise-by-tier"),
    ];
    for (nics, order) in
        [(1, Order::Block), (2, Order::Block), (1, Order::Cyclic), (2, Order::Cyclic)]
    {
        let fabric = Fabric { order, ..racks(nics) };
        for (collective, id) in ids {
            for ranks in [32, 64] {
                let all = shape(&fabric, collective, ranks, 0);
                let price = price(&fabric, id, &all, SIZE);
                let name = format!("{collective} {id} of {ranks}, {nics} NICs, {order}");
                assert!(price >= least(&fabric, &all, SIZE) * (1.0 - 1e-9), "{name}");
                if fabric.schedule(find(collective, id), &all).is_none() {
                    continue;
                }
                let sync = played(&fabric, id, &all, SIZE, Mode::Sync);
                assert!((price / sync - 1.0).abs() < 1e-9, "{name}: {price:e}, played {sync:e}");
            }
        }
    }
}

#[test]
fn ports_of_a_rank_do_not_speed_up_a_nic() {
    let ports = [1, 2, 4, 8].map(Ports::full).into_iter().chain([Ports::Unbounded]);
    for ports in ports {
        let mut fabric = nodes(4, 2);
        fabric.tiers.iter_mut().for_each(|tier| tier.ports = ports);
        // Of 1.2 MB on each of four ranks 12/16 leave the node, over two NICs of 1 GB/s.
        let all = shape(&fabric, AllToAll, 16, 0);
        same(least(&fabric, &all, SIZE), 1800e-6);
        let price = price(&fabric, "direct", &all, SIZE);
        let flow = played(&fabric, "direct", &all, SIZE, Mode::Flow);
        assert!(price >= 1800e-6 * (1.0 - 1e-9), "{ports}: {price:e}");
        assert!((0.9..1.15).contains(&(flow / price)), "{ports}: {price:e}, played {flow:e}");
    }
    for (id, ports) in [("bidirectional-ring-arc", 2), ("double-binary-tree", 2)] {
        let mut fabric = nodes(2, 1);
        fabric.tiers.iter_mut().for_each(|tier| tier.ports = Ports::full(ports));
        // One NIC sends 2·3/4·M.
        let all = shape(&fabric, AllReduce, 8, 16);
        same(least(&fabric, &all, SIZE), 1800e-6);
        let price = price(&fabric, id, &all, SIZE);
        assert!(price >= 1800e-6 * (1.0 - 1e-9), "{id}: {price:e}");
    }
    // A NIC for each rank leaves each message of a rank with two ports half of it.
    let mut fabric = nodes(4, 4);
    fabric.tiers.iter_mut().for_each(|tier| tier.ports = Ports::full(2));
    same(least(&fabric, &shape(&fabric, AllToAll, 16, 0), SIZE), 900e-6);
}

/// The bound has all NICs that a rank drives, as a ring over rails does.
#[test]
fn a_rank_alone_on_its_node_drives_all_its_nics() {
    let fabric = Fabric { node: Some(0), ..nodes(1, 8) };
    let all = shape(&fabric, AllGather, 6, 0);
    same(least(&fabric, &all, SIZE), 125e-6);
    same(price(&fabric, "ring-rails", &all, SIZE), 125e-6);
}

#[test]
fn trees_over_shared_nics_take_what_crosses_at_once() {
    // Skips 1 and 2 of four ranks in turn: one message of a node, then two over its NIC.
    let fabric = nodes(2, 1);
    let many = shape(&fabric, Broadcast, 4, 1000);
    let circulant = price(&fabric, "circulant", &many, SIZE);
    assert!((circulant / 1800e-6 - 1.0).abs() < 3e-3, "{circulant:e}");
    let cases = [
        (Broadcast, "two-tree", 4, 1, 4),
        (Broadcast, "two-tree", 2, 1, 4),
        (Broadcast, "in-order-binary-tree", 4, 1, 4),
        (Reduce, "in-order-binary-tree", 3, 1, 3),
        (AllReduce, "double-binary-tree", 3, 1, 4),
        (AllReduce, "double-binary-tree", 4, 2, 4),
        (Broadcast, "circulant", 4, 1, 4),
        (Reduce, "circulant", 4, 2, 3),
    ];
    for (collective, id, group, nics, domains) in cases {
        let fabric = nodes(group, nics);
        let all = shape(&fabric, collective, group * domains, 64);
        let (price, flow) =
            (price(&fabric, id, &all, SIZE), played(&fabric, id, &all, SIZE, Mode::Flow));
        let ratio = flow / price;
        assert!((0.8..1.2).contains(&ratio), "{collective} {id} {group} {nics} {domains}: {ratio}");
    }
    // With a NIC for each rank nothing waits.
    let own = nodes(4, 4);
    let all = shape(&own, Broadcast, 16, 64);
    same(price(&own, "two-tree", &all, SIZE), (2.0 * (4.0 + 64.0) - 1.0) / 128.0 * 1200e-6);
}

#[test]
fn a_limit_is_called_one_only_where_it_is() {
    let on = |fabric: &Fabric, guarantee| {
        Promise::on(guarantee, &Shape::new(AllReduce, 8), fabric).name()
    };
    let limit = Guarantee::UpperBound;
    assert_eq!(on(&nodes(4, 1), limit), "sum-of-steps");
    // With a NIC for each rank, too, a level of a tree that crosses nodes may take longer than its slots.
    assert_eq!([on(&nodes(4, 4), limit), on(&nodes(4, 0), limit)], ["sum-of-steps"; 2]);
    let flat = Fabric::flat(Seconds(1e-6), Bandwidth(1e9));
    assert_eq!(on(&flat, limit), "upper-bound");
    // Additions delay what waits for their sums: its bound was proven without them.
    let adds = Fabric { gamma: Some(SecondsPerByte(0.3e-9)), ..flat.clone() };
    assert_eq!(on(&adds, limit), "sum-of-steps");
    let (id, eight) = ("double-binary-tree", Shape::new(AllReduce, 8));
    let price = Prepared::new(find(AllReduce, id), &eight, &adds).unwrap().price(SIZE);
    let eight = eight.with_segments(price.segments);
    assert!(played(&adds, id, &eight, SIZE, Mode::Flow) > price.total().0 * 1.02);
}

#[test]
fn messages_to_the_spine_pass_the_nics_of_their_nodes() {
    // The root's node sends 28 of 32 blocks of 9.6 MB over its one NIC of 4 GB/s.
    let (fabric, size) = (racks(1), Volume(9_600_000.0));
    for (collective, id) in
        [(Scatter, "flat"), (Gather, "flat"), (Scatter, "binomial"), (Gather, "binomial")]
    {
        for order in [Order::Block, Order::Cyclic] {
            let fabric = Fabric { order, ..fabric.clone() };
            for ranks in [32, 48, 64] {
                let all = shape(&fabric, collective, ranks, 0);
                for mode in Mode::ALL {
                    let time = played(&fabric, id, &all, size, mode);
                    let bound = least(&fabric, &all, size);
                    assert!(
                        time >= bound * (1.0 - 1e-9),
                        "{collective} {id} {ranks} {mode}: {time:e} {bound:e}"
                    );
                }
            }
        }
    }
    let all = shape(&fabric, Scatter, 32, 0);
    same(played(&fabric, "flat", &all, size, Mode::Flow), 28.0 / 32.0 * 2400e-6);
    // A NIC that is slower than the spine's holds back what goes there.
    let mut slow = fabric;
    slow.tiers[2].link.bandwidth = Some(Bandwidth(16e9));
    same(played(&slow, "flat", &all, size, Mode::Flow), 28.0 / 32.0 * 2400e-6);
}

/// A parent whose children are both in another node sends to them in turn.
#[test]
fn a_heap_serves_two_children_elsewhere_in_turn() {
    let (size, inside, between) = (Volume(12e6), 1e-6 + 12e6 / 1e11, 3e-6 + 12e6 / 25e9);
    // Nodes of so many, in all, messages inside and between on the way to the latest rank.
    for (group, ranks, near, far) in [(3, 6, 1, 2), (7, 14, 3, 2), (4, 8, 2, 2), (4, 16, 2, 4)] {
        let link = |span, alpha, rate| Tier {
            span: NonZeroU32::new(span),
            ..Tier::new("link", Seconds(alpha), Bandwidth(rate))
        };
        let fabric = Fabric::new(vec![link(group, 1e-6, 1e11), link(0, 3e-6, 25e9)]);
        let time = f64::from(near) * inside + f64::from(far) * between;
        for collective in [Broadcast, Reduce] {
            let asked = shape(&fabric, collective, ranks, 1);
            same(price(&fabric, "binary-tree", &asked, size), time);
            let played = played(&fabric, "binary-tree", &asked, size, Mode::Local);
            assert!(played <= time * (1.0 + 1e-9), "{collective} {ranks}: {played:e} {time:e}");
            assert!(played >= 0.85 * time, "{collective} {ranks}: {played:e} {time:e}");
        }
    }
}

/// The first segment of a chain passes each link once; further ones follow it over the slowest.
#[test]
fn a_chain_passes_the_links_inside_nodes_at_their_own_latency() {
    let link = |span, alpha| Tier {
        span: NonZeroU32::new(span),
        ..Tier::new("link", Seconds(alpha), Bandwidth(1e10))
    };
    let fabric = Fabric::new(vec![link(16, 0.3e-6), link(0, 20e-6)]);
    let (size, segments) = (Volume(4.0 * 1_048_576.0), 36_u32);
    let each = size.0 / 1e10 / f64::from(segments);
    let time = 60.0 * (0.3e-6 + each) + 38.0 * (20e-6 + each);
    for collective in [Broadcast, Reduce] {
        let asked = shape(&fabric, collective, 64, segments);
        same(price(&fabric, "chain", &asked, size), time);
        same(played(&fabric, "chain", &asked, size, Mode::Flow), time);
    }
    // Dealt to nodes in turn each message leaves one.
    let cyclic = Fabric { order: Order::Cyclic, ..fabric };
    let asked = shape(&cyclic, Broadcast, 64, segments);
    same(price(&cyclic, "chain", &asked, size), 98.0 * (20e-6 + each));
}

/// Where links inside nodes are slower than NICs, they pace what stays inside: the edge of a tree in the first node,
/// and the short skips of a circulant graph. A message between nodes alone does not use them.
#[test]
fn slow_links_inside_pace_what_stays_there() {
    let fabric = Fabric::new(vec![tier(8, 0, 1e9), tier(0, 8, 10e9)]);
    let alone = shape(&fabric, Collective::SendRecv, 32, 1);
    assert!((price(&fabric, "p2p", &alone, SIZE) - 0.12e-3).abs() < 1e-12);
    for (id, collective, segments) in [
        ("binary-tree", Broadcast, 500),
        ("binary-tree", Reduce, 500),
        ("circulant-pipelined", AllReduce, 500),
    ] {
        let asked = shape(&fabric, collective, 32, segments);
        let priced = price(&fabric, id, &asked, SIZE);
        let played = played(&fabric, id, &asked, SIZE, Mode::Sync);
        let what = format!("{id} {collective}: {priced}, {played} played");
        assert!(priced > played * 0.9 && priced < played * 1.05, "{what}");
    }
}
