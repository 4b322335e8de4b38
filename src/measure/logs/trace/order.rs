//! In which order ranks made their calls: what a recorder without durations still tells.
//!
//! A ring buffer forgets its oldest calls, and dumps are made at different moments. Ranks are therefore
//! compared from the first call that all of them still have. The first place at which they differ is where
//! a job lost step, or where it hangs.

use std::collections::BTreeMap;

/// More calls than this are not kept.
const CALLS: usize = 1 << 20;
/// This many kinds of calls are listed.
const LISTED: usize = 4;
/// This many members tell a group from others.
const NAMED: usize = 4;

/// The calls of one rank: what each was, by its number in the group's sequence.
type Sequence = BTreeMap<u32, String>;

/// A group of ranks. A job has many of one description, such as that of each stage's tensor parallelism; their
/// own names and their members tell them apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    /// The description, or the name if it has none.
    pub described: String,
    pub name: String,
    pub members: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Order {
    groups: BTreeMap<Group, BTreeMap<u32, Sequence>>,
    calls: usize,
    /// Whether some of the calls have no times.
    pub untimed: bool,
}

impl Order {
    /// A rank made a call: the first entry of a number counts, since one launch may have several.
    pub fn see(&mut self, group: Group, rank: u32, sequence: u32, what: String) {
        if self.calls < CALLS {
            self.calls += 1;
            let ranks = self.groups.entry(group).or_default();
            ranks.entry(rank).or_default().entry(sequence).or_insert(what);
        }
    }

    /// A sentence for each group, if times are missing.
    pub fn notes(&self) -> Vec<String> {
        if !self.untimed {
            return Vec::new();
        }
        let of = |(group, ranks): (&Group, _)| {
            let alike = |other: &Group| other.described == group.described && other != group;
            let which = if self.groups.keys().any(alike) { group.which() } else { String::new() };
            let note = note(group.members.len() as u32, ranks);
            format!("group {}{which}, {note}", group.described)
        };
        self.groups.iter().map(of).collect()
    }
}

impl Group {
    /// Which of several groups of one description: its first members.
    fn which(&self) -> String {
        let first: Vec<String> = self.members.iter().take(NAMED).map(u32::to_string).collect();
        let more = if self.members.len() > NAMED { " …" } else { "" };
        format!(" of ranks {}{more}", first.join(", "))
    }
}

fn note(of: u32, ranks: &BTreeMap<u32, Sequence>) -> String {
    let present = match ranks.len() as u32 {
        all if all >= of => format!("{of} ranks"),
        part => format!("{part} of {of} ranks"),
    };
    // What every rank still remembers.
    let first = ranks.values().filter_map(|s| s.keys().next()).max().copied().unwrap_or(0);
    let mut numbers: Vec<u32> =
        ranks.values().flat_map(|s| s.range(first..).map(|(&number, _)| number)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for (done, &number) in numbers.iter().enumerate() {
        if let Some(apart) = apart(ranks, number) {
            return format!("{present}: the same {done} calls in one order, then {apart}");
        }
        let what = ranks.values().find_map(|s| s.get(&number));
        *counts.entry(what.map_or("", String::as_str)).or_default() += 1;
    }
    let mut kinds: Vec<(&str, u32)> = counts.into_iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let listed: Vec<String> =
        kinds.iter().take(LISTED).map(|(what, n)| format!("{n} × {what}")).collect();
    let more = match kinds.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(", and {more} other kinds"),
    };
    let same = if ranks.len() > 1 { "the same calls in one order" } else { "its calls in order" };
    format!("{present}: {same}, {} in all: {}{more}", numbers.len(), listed.join(", "))
}

/// How ranks differ at a call, if they do.
fn apart(ranks: &BTreeMap<u32, Sequence>, number: u32) -> Option<String> {
    let mut all = ranks.iter().map(|(rank, s)| (rank, s.get(&number)));
    let (one, what) = all.next()?;
    let (other, its) = all.find(|(_, its)| *its != what)?;
    Some(match (what, its) {
        (Some(what), Some(its)) => {
            format!("call {number} is {what} on rank {one} and {its} on rank {other}")
        }
        (Some(what), None) | (None, Some(what)) => {
            let (has, lacks) = if its.is_none() { (one, other) } else { (other, one) };
            format!(
                "call {number}, {what}, is on rank {has} and not on rank {lacks}, which is late, or whose \
                 dump is of an earlier moment"
            )
        }
        (None, None) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(described: &str, members: &[u32]) -> Group {
        let name = format!("{}", members[0]);
        Group { described: described.to_owned(), name, members: members.to_vec() }
    }

    /// Ranks of two stages share a description and no group.
    #[test]
    fn groups_of_one_description_are_not_compared() {
        let mut order = Order { untimed: true, ..Order::default() };
        for (rank, members, calls) in
            [(0, [0, 1], 2), (1, [0, 1], 2), (2, [2, 3], 1), (3, [2, 3], 1)]
        {
            for call in 1..=calls {
                order.see(group("tp", &members), rank, call, "x".to_owned());
            }
        }
        assert_eq!(
            order.notes(),
            [
                "group tp of ranks 0, 1, 2 ranks: the same calls in one order, 2 in all: 2 × x",
                "group tp of ranks 2, 3, 2 ranks: the same calls in one order, 1 in all: 1 × x"
            ]
        );
    }

    fn order(ranks: &[&[(u32, &str)]]) -> Vec<String> {
        let mut order = Order { untimed: true, ..Order::default() };
        for (rank, calls) in (0..).zip(ranks) {
            for (number, what) in *calls {
                order.see(group("dp", &[0, 1]), rank, *number, (*what).to_owned());
            }
        }
        order.notes()
    }

    #[test]
    fn ranks_are_compared_from_what_all_remember() {
        let (a, b) = ([(1, "x"), (2, "y"), (3, "y")], [(2, "y"), (3, "y")]);
        assert_eq!(
            order(&[&a, &b]),
            ["group dp, 2 ranks: the same calls in one order, 2 in all: 2 × y"]
        );
        assert_eq!(order(&[&b]), ["group dp, 1 of 2 ranks: its calls in order, 2 in all: 2 × y"]);
    }

    #[test]
    fn the_first_difference_is_named() {
        let a = [(2, "y"), (3, "y"), (4, "z")];
        assert_eq!(
            order(&[&a, &a[..2]]),
            [
                "group dp, 2 ranks: the same 2 calls in one order, then call 4, z, is on rank 0 and not on \
             rank 1, which is late, or whose dump is of an earlier moment"
            ]
        );
        assert_eq!(
            order(&[&a, &[(2, "y"), (3, "x")]]),
            [
                "group dp, 2 ranks: the same 1 calls in one order, then call 3 is y on rank 0 and x on rank 1"
            ]
        );
    }
}
