//! The CPUs that this process may use.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::base::error::{Error, Result};

/// CPUs that may be used, and how many of them at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usable {
    /// Their numbers (`sched_getaffinity`).
    pub cpus: Vec<usize>,
    /// How many whole CPUs the control group's quota allows; at most as many as there are.
    pub at_once: usize,
}

impl Usable {
    /// The CPU of the `index`-th pinned process; assignment starts over after the last CPU.
    #[must_use]
    pub fn slot(&self, index: usize) -> Option<usize> {
        let many = self.cpus.len();
        (many > 0).then(|| self.cpus[index % many])
    }
}

/// The CPU on which each rank stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// Ranks move between CPUs.
    Free,
    /// Rank r stays on the r-th usable CPU.
    InOrder,
    /// Rank r stays on the r-th of these.
    To(Vec<usize>),
}

impl Pin {
    /// How many ranks have a CPU of their own.
    pub(super) fn at_once(&self, usable: &Usable) -> usize {
        match self {
            Self::Free | Self::InOrder => usable.at_once,
            Self::To(cpus) => usable.at_once.min(cpus.iter().collect::<BTreeSet<_>>().len()),
        }
    }

    /// Where these ranks stay, as ranks 0, 1, … of a group of their own.
    ///
    /// # Errors
    /// A CPU that may not be used.
    pub fn among(&self, ranks: &[u32], usable: &Usable) -> Result<Self> {
        let cpus = ranks.iter().map(|&rank| self.cpu(rank, usable));
        let cpus: Option<Vec<usize>> = cpus.collect::<Result<_>>()?;
        Ok(cpus.map_or(Self::Free, Self::To))
    }

    /// The CPU of a rank; after the last one it starts over.
    ///
    /// # Errors
    /// A CPU that may not be used.
    pub(super) fn cpu(&self, rank: u32, usable: &Usable) -> Result<Option<usize>> {
        let cpus = match self {
            Self::Free => return Ok(None),
            Self::InOrder => return Ok(usable.slot(rank as usize)),
            Self::To(cpus) => cpus,
        };
        let cpu = (!cpus.is_empty()).then(|| cpus[rank as usize % cpus.len()]);
        match cpu.filter(|cpu| !usable.cpus.contains(cpu)) {
            None => Ok(cpu),
            Some(cpu) => {
                let known: Vec<String> = usable.cpus.iter().map(ToString::to_string).collect();
                Err(Error::input(format!("CPU {cpu} cannot be used here"))
                    .help(format!("usable: {}", known.join(","))))
            }
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("false"),
            Self::InOrder => f.write_str("true"),
            Self::To(cpus) => {
                let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
                f.write_str(&cpus.join(","))
            }
        }
    }
}

/// The CPUs of the process's affinity, and the quota of its control group (version 2).
///
/// # Errors
/// The kernel does not report them.
pub fn usable() -> Result<Usable> {
    let set = sched_getaffinity(None)
        .map_err(|e| Error::environment(format!("the usable CPUs are unknown: {e}")))?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    let at_once = quota().map_or(cpus.len(), |whole| whole.clamp(1, cpus.len().max(1)));
    Ok(Usable { cpus, at_once })
}

/// Pins this thread to one CPU.
pub(super) fn pin(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Whole CPUs in the smallest `cpu.max` from the process's control group upwards; `None` without
/// one.
fn quota() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut least: Option<usize> = None;
    loop {
        let file = format!("/sys/fs/cgroup{}/cpu.max", group.trim_end_matches('/'));
        let here = fs::read_to_string(file).ok().and_then(|text| whole_cpus(&text));
        least = [least, here].into_iter().flatten().min();
        match group.rsplit_once('/') {
            Some((above, last)) if !last.is_empty() => group = above,
            _ => return least,
        }
    }
}

/// `200000 100000` are two CPUs; `max 100000` is no limit.
fn whole_cpus(text: &str) -> Option<usize> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (usize, usize) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_div(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_whole_cpus() {
        assert_eq!(whole_cpus("250000 100000\n"), Some(2));
        assert_eq!(whole_cpus("max 100000\n"), None);
        assert_eq!(whole_cpus(""), None);
    }
}
