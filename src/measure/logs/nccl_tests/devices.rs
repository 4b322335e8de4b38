//! The list of devices before a table: N, hosts, and GPUs that ranks share.

use std::collections::{BTreeMap, BTreeSet};

use super::rccl;
use crate::measure::logs::draft::Draft;

/// A rank's line, as far as it was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    rank: u32,
    group: u32,
    host: String,
    device: String,
    bus: String,
    /// What the GPU is.
    model: String,
}

/// The list.
#[derive(Debug, Clone, Default)]
pub(in crate::measure::logs) struct Devices {
    listed: Vec<Device>,
    highest: Option<u32>,
}

/// The word after `key`.
pub(in crate::measure::logs) fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    rest.split_ascii_whitespace().next()
}

/// Warns of several communicators that ran at the same time.
pub(in crate::measure::logs) fn at_once(draft: &mut Draft, groups: u32) {
    if groups > 1 {
        draft.warn(format!("{groups} groups of ranks ran at once and share the machine"));
    }
}

/// Adds the ranks of each of the groups that `all` are divided into, and returns how many groups there are:
/// the communicators of a split run at the same time, each with its own ranks.
pub(in crate::measure::logs) fn divided(draft: &mut Draft, groups: BTreeSet<u32>, all: u32) -> u32 {
    let groups = groups.len().max(1) as u32;
    at_once(draft, groups);
    if all.is_multiple_of(groups) {
        draft.ranks.push((all / groups, "list of devices"));
    }
    groups
}

/// How many hosts each group of ranks has, if all are named and it is the same number for all groups.
pub(in crate::measure::logs) fn nodes<'a>(
    ranks: impl IntoIterator<Item = (u32, &'a str)>,
) -> Option<u32> {
    let mut hosts: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for (group, host) in ranks {
        hosts.entry(group).or_default().insert(host);
    }
    let named = hosts.values().all(|hosts| !hosts.contains(""));
    let counts: BTreeSet<usize> = hosts.values().map(BTreeSet::len).collect();
    counts.first().filter(|_| named && counts.len() == 1).map(|&count| count as u32)
}

/// Adds to a table what its GPUs are; on AMD's GPUs the library is RCCL.
pub(in crate::measure::logs) fn gpus<'a>(
    draft: &mut Draft,
    models: impl IntoIterator<Item = &'a str>,
) {
    let models: BTreeSet<&str> = models.into_iter().filter(|m| !m.is_empty()).collect();
    if models.iter().any(|model| model.starts_with("AMD ")) {
        draft.library = Some(rccl(draft.library.take()));
    }
    let models: Vec<&str> = models.into_iter().collect();
    draft.gpus = Some(models.join(", ")).filter(|all| !all.is_empty());
}

impl Devices {
    /// Reads `Rank  0 Group  0 Pid   1000 on node1 device  0 [0000:07:00] NVIDIA …`, which may be
    /// cut off anywhere.
    pub fn take(&mut self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix("Rank ") else { return false };
        let Some(rank) = rest.split_ascii_whitespace().next().and_then(|r| r.parse().ok()) else {
            return false;
        };
        self.highest = self.highest.max(Some(rank));
        let word = |key: &str| after(rest, key).unwrap_or("").to_owned();
        let bus = rest.split_once('[').and_then(|(_, bus)| bus.split_once(']'));
        self.listed.push(Device {
            rank,
            group: word("Group ").parse().unwrap_or(0),
            host: word(" on "),
            device: word(" device "),
            bus: bus.map_or(String::new(), |(bus, _)| bus.to_owned()),
            model: bus.map_or(String::new(), |(_, model)| model.trim().to_owned()),
        });
        true
    }

    /// Adds to a table what the list says about its ranks.
    pub fn tell(&self, draft: &mut Draft) {
        let Some(highest) = self.highest else { return };
        gpus(draft, self.listed.iter().map(|d| d.model.as_str()));
        let first = self.listed.iter().filter(|d| d.rank == 0).count();
        if first > 1 {
            draft.warn(format!(
                "rank 0 is listed {first} times: nccl-tests was built without MPI=1, and every \
                 process ran alone"
            ));
            draft.ranks.push((1, "list of devices"));
            return;
        }
        let Some(all) = highest.checked_add(1) else { return };
        let groups = divided(draft, self.listed.iter().map(|d| d.group).collect(), all);
        if self.listed.len() as u32 == all {
            draft.nodes = nodes(self.listed.iter().map(|d| (d.group, d.host.as_str())));
            draft.full_node = self.full_node().filter(|_| groups == 1 && draft.nodes.is_some());
        } else if groups <= 1 {
            let listed = self.listed.len();
            draft.warn(format!(
                "the list of devices has {listed} of {all} lines: N is its highest rank + 1"
            ));
        }
        self.shared(draft);
    }

    /// The ranks of each host, if one has fewer: what is left of them is on the last.
    fn full_node(&self) -> Option<u32> {
        let mut ranks: BTreeMap<&str, u32> = BTreeMap::new();
        for device in &self.listed {
            *ranks.entry(&device.host).or_default() += 1;
        }
        let most = ranks.values().copied().max()?;
        (ranks.values().filter(|&&ranks| ranks < most).count() == 1).then_some(most)
    }

    /// GPUs that several ranks use.
    fn shared(&self, draft: &mut Draft) {
        for (i, one) in self.listed.iter().enumerate() {
            // The short form, [0x10], is the same for GPUs behind one switch, and for those of other PCI
            // domains; each rank may see its GPU as device 0.
            let same = |o: &&Device| o.host == one.host && o.bus == one.bus;
            let known = one.bus.contains(':') && !one.host.is_empty();
            if let Some(other) = self.listed[i + 1..].iter().find(same).filter(|_| known) {
                draft.shares_gpus = true;
                draft.warn(format!(
                    "ranks {} and {} share the GPU [{}] of {}: the times do not measure the machine",
                    one.rank, other.rank, one.bus, one.host
                ));
                return;
            }
        }
    }
}
