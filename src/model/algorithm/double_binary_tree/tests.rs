use super::colouring::{Colouring, Forest, Phase, Transfer};
use super::flow::{flow, unsegmented_flow};
use super::known::best_known;
use super::lengths::{Slots, effort, longest, one_port_slots, unsegmented_steps};
use super::search::search;
use crate::model::formula::ceil_lg;

/// Rounds that one tree alone takes: a rank receives its children one by one, and sends to
/// them one by one; the broadcast is the reduce backwards.
fn lower_bound(ranks: u32) -> u32 {
    let forest = Forest::new(ranks);
    let mut done = vec![0; 2 * forest.ranks];
    for node in forest.leaves_first.iter().copied().chain([0]) {
        let mut ready: Vec<u32> = forest.kids(node).map(|kid| done[kid]).collect();
        ready.sort_unstable();
        done[node] = ready.iter().fold(0, |t: u32, &r| t.max(r) + 1);
    }
    2 * done[0]
}

/// Runs the slots on sets of contributors; knows nothing of trees.
fn assert_complete(schedule: &Colouring, ranks: u32) {
    for tree in 0..2 {
        let mut held: Vec<u128> = (0..ranks).map(|rank| 1 << rank).collect();
        let mut moves: Vec<Transfer> = (schedule.transfers()).filter(|t| t.tree == tree).collect();
        moves.sort_by_key(|t| t.slot);
        for slot in moves.chunk_by(|a, b| a.slot == b.slot) {
            let before = held.clone();
            for t in slot {
                let sent = before[t.from as usize];
                let to = &mut held[t.to as usize];
                assert!(t.phase == Phase::Down || *to & sent == 0, "added twice: {t:?}");
                *to |= sent;
            }
        }
        let all = u128::MAX >> (128 - ranks);
        assert!(held.iter().all(|&set| set == all), "N = {ranks}, tree {tree}");
    }
}

#[test]
fn colourings_are_valid_and_no_shorter_than_one_tree() {
    for ranks in 2..=130 {
        let schedule = search(ranks, 7, 30);
        assert_eq!(schedule.verify(), Ok(()), "N = {ranks}");
        assert_eq!(schedule.transfers().count(), 4 * (ranks as usize - 1));
        assert_eq!(schedule.period(), one_port_slots(ranks).period);
        assert!(schedule.length() >= lower_bound(ranks));
        if ranks <= 128 {
            assert_complete(&schedule, ranks);
        }
    }
}

#[test]
fn price_counts_the_rounds_in_which_something_moves() {
    for ranks in [2, 3, 4, 6, 13, 24, 41, 64] {
        let schedule = search(ranks, 1, 500);
        let price = |pairs| schedule.period() * (pairs - 1) + schedule.length();
        for pairs in [1, 2, 3, 6] {
            assert!(schedule.rounds(pairs) <= price(pairs) as usize, "N = {ranks}");
        }
        // With as many pairs as the widest gap has periods, no gap is left.
        assert_eq!(schedule.rounds(40), price(40) as usize, "N = {ranks}");
    }
}

#[test]
fn verify_finds_a_shared_port_and_early_data() {
    let schedule = search(8, 0, 100);
    let edges: Vec<usize> = schedule.forest.edges().collect();
    let mut early = schedule.clone();
    early.slot[edges[edges.len() - 1]] %= 4;
    assert!(early.verify().unwrap_err().contains("is not after"));
    let mut shared = schedule;
    shared.slot[edges[edges.len() - 1]] += 1;
    assert!(shared.verify().unwrap_err().contains("twice"));
}

#[test]
fn table_reaches_the_lengths_known_before() {
    let known = [
        (2, 2),
        (3, 8),
        (4, 8),
        (5, 9),
        (6, 11),
        (7, 10),
        (8, 10),
        (9, 14),
        (12, 14),
        (13, 16),
        (16, 17),
        (24, 19),
        (32, 20),
        (48, 24),
        (64, 26),
        (72, 28),
        (96, 30),
        (128, 32),
        (256, 38),
        (512, 43),
    ];
    for (ranks, length) in known {
        assert!(one_port_slots(ranks).length <= length, "N = {ranks}");
    }
}

#[test]
fn table_lies_between_one_tree_and_any_colouring() {
    for ranks in 2..=1024 {
        let length = one_port_slots(ranks).length;
        assert!(length >= lower_bound(ranks), "N = {ranks}");
        assert!(length <= 8 * ceil_lg(ranks), "N = {ranks}");
    }
    let none = Slots { length: 0, period: 0 };
    assert_eq!((one_port_slots(0), one_port_slots(1)), (none, none));
}

#[test]
fn known_colourings_have_the_tabulated_lengths() {
    for ranks in (0..=257).chain([1030]) {
        let colouring = best_known(ranks);
        assert_eq!(colouring.verify(), Ok(()), "N = {ranks}");
        assert!(colouring.length() <= one_port_slots(ranks).length, "N = {ranks}");
        assert_eq!(colouring.transfers().count(), 4 * (ranks as usize).saturating_sub(1));
    }
}

#[test]
fn bound_above_the_table_is_monotone_and_above_it() {
    let mut last = longest();
    for ranks in [1025, 2048, 2049, 1 << 20, u32::MAX] {
        let length = one_port_slots(ranks).length;
        assert!(length >= last, "N = {ranks}");
        last = length;
    }
}

#[test]
fn quick_searches_agree_with_the_table() {
    for ranks in 2..=8 {
        let found = (0..2).map(|seed| search(ranks, seed, 2000).length()).min();
        assert_eq!(found, Some(one_port_slots(ranks).length), "N = {ranks}");
    }
    for ranks in [33, 100, 256, 777, 1024] {
        let found = search(ranks, 0, 300).length();
        assert!(found >= one_port_slots(ranks).length, "N = {ranks}");
    }
}

#[test]
#[ignore = "eight minutes in release: every entry by its own rule"]
fn table_is_what_the_search_finds() {
    for ranks in 2..=1024 {
        let (seeds, flips) = effort(ranks);
        let found = (0..seeds).map(|seed| search(ranks, seed, flips).length()).min();
        assert_eq!(found, Some(one_port_slots(ranks).length), "N = {ranks}");
    }
}

#[test]
fn steps_are_the_flow_simulation() {
    for ranks in (0..=160).chain((192..=1024).step_by(104)) {
        assert_eq!(unsegmented_steps(ranks), unsegmented_flow(ranks), "N = {ranks}");
    }
    for (ranks, steps) in [(2, 2), (3, 4), (6, 9), (12, 13), (24, 17), (48, 21), (72, 25)] {
        assert_eq!(unsegmented_steps(ranks), steps, "N = {ranks}");
    }
    for m in 2..32 {
        assert_eq!(unsegmented_steps(1 << m), 4 * m - 2);
    }
    assert_eq!(unsegmented_steps(1025), 88);
}

/// A number that stands for who sends what when.
fn print(transfers: impl Iterator<Item = Transfer>) -> u64 {
    let parts =
        |t: Transfer| [t.tree.into(), (t.phase == Phase::Down).into(), t.from, t.to, t.slot];
    transfers.flat_map(parts).fold(0, |sum, part| (sum * 1_000_003 + u64::from(part)) % 0x7fff_ffff)
}

#[test]
fn searches_come_out_the_same_everywhere() {
    // Judged by the spans up to 40 ranks, by the last slot above.
    let table = [
        (2, 0, 50, 625_812_695),
        (5, 1, 500, 883_710_068),
        (12, 2, 3000, 1_736_624_041),
        (24, 0, 2000, 288_668_029),
        (40, 3, 1000, 1_684_332_575),
        (41, 3, 1000, 208_713_942),
        (96, 1, 1500, 691_080_296),
    ];
    for (ranks, seed, flips, expected) in table {
        assert_eq!(print(search(ranks, seed, flips).transfers()), expected, "N = {ranks}");
    }
}

#[test]
fn pairs_flow_in_the_order_that_is_documented() {
    let table = [
        (2, 2_117_942_978),
        (3, 945_901_280),
        (7, 28_770_392),
        (8, 1_543_759_171),
        (24, 773_777_774),
        (33, 799_004_905),
        (100, 1_419_938_048),
    ];
    for (ranks, expected) in table {
        assert_eq!(print(flow(ranks).into_iter()), expected, "N = {ranks}");
    }
}

#[test]
fn sizes_that_jobs_have_are_searched_for_longer() {
    let table = [
        (8, (20, 20_000)),
        (16, (20, 20_000)),
        (18, (12, 200_000)),
        (19, (20, 20_000)),
        (32, (12, 200_000)),
        (33, (3, 40_000)),
        (96, (12, 200_000)),
        (256, (12, 200_000)),
        (257, (1, 60_000)),
        (288, (12, 200_000)),
        (1000, (1, 60_000)),
    ];
    for (ranks, asked) in table {
        assert_eq!(effort(ranks), asked, "N = {ranks}");
    }
}
