//! The machine: what a calibration must know about it, and what speaks against measuring here and
//! now.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::machine::sample::{VIRTUAL, Wait};
use crate::measure::fit::{Gate, Verdict};

/// A machine as its kernel describes it; what the kernel does not report is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name in the network.
    pub name: String,
    /// The processor.
    pub processor: String,
    /// The kernel's version.
    pub kernel: String,
    /// The boot id.
    pub boot: String,
    /// Equal where `CLOCK_MONOTONIC` is one clock: the boot id and the time namespace.
    pub clock: String,
    /// The CPUs that may be used.
    pub cpus: Vec<usize>,
    /// How many of them may be used at once.
    pub at_once: usize,
    /// Hardware threads of one core.
    pub threads_per_core: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Its total memory.
    #[serde(with = "plain")]
    pub memory: Bytes,
    /// Whether a hypervisor runs it.
    pub is_virtual: bool,
    /// The CPU frequency governor.
    pub governor: Option<String>,
    /// The clock source.
    pub clock_source: Option<String>,
    /// The difference between two successive distinct readings of the clock.
    #[serde(with = "plain")]
    pub clock_step: Seconds,
    /// Processes that wanted a CPU in the last minute, divided by the CPUs that may be used at
    /// once.
    #[serde(with = "plain")]
    pub load: Option<Ratio>,
    /// The part of the last ten seconds in which some process waited for a CPU.
    #[serde(with = "plain")]
    pub pressure: Option<Ratio>,
    /// Whether sessions share CPUs equally, so `nice` has no effect between them.
    pub autogroup: Option<bool>,
    /// The default congestion control of TCP.
    pub congestion: Option<String>,
    /// Whether TCP uses slow start again after a pause.
    pub slow_start_after_idle: Option<bool>,
    /// When memory is allocated in huge pages.
    pub huge_pages: Option<String>,
}

/// The planned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intent {
    /// N.
    pub ranks: u32,
    /// How ranks wait.
    pub wait: Wait,
    /// Whether bytes move through shared memory.
    pub in_memory: bool,
}

impl Host {
    /// Inspects this machine; `cpus` may be used, `at_once` of them at a time.
    #[must_use]
    pub fn look(cpus: Vec<usize>, at_once: usize) -> Self {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let lines = information.lines().filter_map(|line| line.split_once(':'));
            lines.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name)
        };
        let first = cpus.first().copied().unwrap_or(0);
        let of_cpu = |file: &str| said(&format!("/sys/devices/system/cpu/cpu{first}/{file}"));
        Self {
            name: said("/proc/sys/kernel/hostname").unwrap_or_else(|| "unknown".to_owned()),
            processor: field("model name").map_or("unknown processor", |(_, name)| name).to_owned(),
            kernel: said("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            clock: format!(
                "{} {}",
                said("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
                fs::read_link("/proc/self/ns/time").unwrap_or_default().display()
            ),
            boot: said("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            threads_per_core: of_cpu("topology/thread_siblings_list")
                .map_or(1, |list| count(&list)),
            numa_nodes: said("/sys/devices/system/node/online").map_or(1, |list| count(&list)),
            memory: memory(),
            is_virtual: field("flags").is_some_and(|(_, flags)| {
                flags.split_ascii_whitespace().any(|flag| flag == "hypervisor")
            }),
            governor: of_cpu("cpufreq/scaling_governor"),
            clock_source: said("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock_step: clock_step(),
            load: said("/proc/loadavg").and_then(|text| {
                let wanted: f64 = text.split(' ').next()?.parse().ok()?;
                Some(Ratio(wanted / at_once.max(1) as f64))
            }),
            pressure: said("/proc/pressure/cpu").and_then(|text| pressure(&text)),
            autogroup: said("/proc/sys/kernel/sched_autogroup_enabled").map(|text| text == "1"),
            congestion: said("/proc/sys/net/ipv4/tcp_congestion_control"),
            slow_start_after_idle: said("/proc/sys/net/ipv4/tcp_slow_start_after_idle")
                .map(|text| text == "1"),
            huge_pages: said("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
            cpus,
            at_once,
        }
    }

    /// The machine in one line of text.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { name, processor, kernel, .. } = self;
        let cpus = self.cpus.len();
        let kind = if self.is_virtual { VIRTUAL } else { "" };
        format!("{name}, {processor}, {cpus} CPUs, Linux {kernel}{kind}")
    }

    /// Equal for runs on this machine since it booted.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let Self { name, processor, boot, .. } = self;
        format!("{:08x}", crc32fast::hash(format!("{name};{processor};{boot}").as_bytes()))
    }

    /// The gates for and against measuring here now.
    #[must_use]
    pub fn gates(&self, intent: Intent) -> Vec<Gate> {
        vec![
            self.enough_cpus(intent),
            self.quiet(),
            self.clock(intent),
            self.stays(intent),
            self.fair(),
        ]
    }

    fn enough_cpus(&self, Intent { ranks, wait, .. }: Intent) -> Gate {
        let fits = ranks as usize <= self.at_once;
        let verdict = match wait {
            _ if fits => Verdict::Good,
            Wait::Spin => Verdict::Refused,
            Wait::Poll => Verdict::Marked,
        };
        let how = if wait == Wait::Spin { "spin" } else { "poll" };
        Gate {
            name: "cpus",
            verdict,
            said: format!("{ranks} ranks {how} on {} usable CPUs", self.at_once),
            help: "run no more ranks than CPUs; otherwise α is the scheduler's and does not apply \
                   to other numbers of ranks",
        }
    }

    fn quiet(&self) -> Gate {
        const MARK: f64 = 0.05;
        const LOAD: f64 = 0.5;
        let help = "stop other work: the result describes a machine shared with other processes";
        let marked = |busy| if busy { Verdict::Marked } else { Verdict::Good };
        let name = "load";
        match (self.pressure, self.load) {
            (Some(Ratio(part)), _) => Gate {
                name,
                verdict: marked(part > MARK),
                said: format!("processes waited for CPUs {:.0} % of the last 10 s", 100.0 * part),
                help,
            },
            (None, Some(Ratio(load))) => Gate {
                name,
                verdict: marked(load > LOAD),
                said: format!("{load:.2} processes wanted each usable CPU in the last minute"),
                help,
            },
            (None, None) => Gate {
                name,
                verdict: Verdict::Marked,
                said: "the kernel does not report how busy it is".to_owned(),
                help,
            },
        }
    }

    fn clock(&self, Intent { in_memory, .. }: Intent) -> Gate {
        const COARSE: f64 = 1e-6;
        let source = self.clock_source.as_deref().unwrap_or("an unknown source");
        let coarse = self.clock_step.0 > COARSE && in_memory;
        Gate {
            name: "clock",
            verdict: if coarse { Verdict::Refused } else { Verdict::Good },
            said: format!("{source}, steps of {}", self.clock_step),
            help: "choose a finer clock source: messages in memory take less than a step",
        }
    }

    /// A hypervisor may move a CPU to another core, which is farther from memory: two CPUs that
    /// shared a core's caches exchanged 15 GB/s, and a minute later, when they did not, 2 GB/s.
    fn stays(&self, Intent { in_memory, .. }: Intent) -> Gate {
        let moves = self.is_virtual && in_memory;
        Gate {
            name: "virtual",
            verdict: if moves { Verdict::Marked } else { Verdict::Good },
            said: match self.is_virtual {
                true => "a hypervisor may move CPUs to other cores at any time",
                false => "no hypervisor detected",
            }
            .to_owned(),
            help: "measure again at another time and compare with collcost profiles diff",
        }
    }

    fn fair(&self) -> Gate {
        let on = self.autogroup == Some(true);
        Gate {
            name: "autogroup",
            verdict: Verdict::Good,
            said: match on {
                true => "sessions share CPUs equally: nice has no effect on other sessions",
                false => "nice takes effect",
            }
            .to_owned(),
            help: "stop what runs in other sessions",
        }
    }
}

/// The smallest step observed in `CLOCK_MONOTONIC`, including the time to read it.
#[must_use]
pub fn clock_step() -> Seconds {
    const READINGS: usize = 2000;
    let now = || {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    };
    let mut last = now();
    let mut steps: Vec<u64> = Vec::with_capacity(READINGS);
    for _ in 0..READINGS {
        let next = now();
        if next > last {
            steps.push(next - last);
        }
        last = next;
    }
    steps.sort_unstable();
    Seconds(steps.get(steps.len() / 2).map_or(0.0, |&ns| ns as f64 * 1e-9))
}

/// How often the control group's quota has throttled this process's CPUs; 0 without a quota.
///
/// # Errors
/// The kernel's answer is not a number.
pub fn throttled() -> Result<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("");
    let file = format!("/sys/fs/cgroup{}/cpu.stat", group.trim_end_matches('/'));
    let text = fs::read_to_string(file).unwrap_or_default();
    match text.lines().find_map(|line| line.strip_prefix("nr_throttled ")) {
        None => Ok(0),
        Some(number) => number
            .trim()
            .parse()
            .map_err(|_| Error::environment(format!("`nr_throttled {number}` is not a number"))),
    }
}

/// A short file without its line feed.
fn said(file: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// How many numbers `0-3,8` contains.
fn count(list: &str) -> usize {
    let part = |part: &str| match part.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            last.checked_sub(first).map(|more| more + 1)
        }
        None => part.parse::<usize>().ok().map(|_| 1),
    };
    list.split(',').filter_map(|text| part(text.trim())).sum::<usize>().max(1)
}

fn memory() -> Bytes {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Bytes(kib.unwrap_or(0) << 10)
}

/// `some avg10=1.53 …` is 1.53 %.
fn pressure(text: &str) -> Option<Ratio> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let average = some.split(' ').find_map(|field| field.strip_prefix("avg10="))?;
    average.parse::<f64>().ok().map(|percent| Ratio(percent / 100.0))
}

/// Quantities as plain numbers, for exchange between programs of one version.
mod plain {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::base::quantity::{Bytes, Ratio, Seconds};

    pub(super) trait Plain: Copy {
        type Number: Serialize + for<'de> Deserialize<'de>;
        fn number(self) -> Self::Number;
        fn of(number: Self::Number) -> Self;
    }

    impl Plain for Bytes {
        type Number = u64;
        fn number(self) -> u64 {
            self.0
        }
        fn of(number: u64) -> Self {
            Self(number)
        }
    }

    impl Plain for Seconds {
        type Number = f64;
        fn number(self) -> f64 {
            self.0
        }
        fn of(number: f64) -> Self {
            Self(number)
        }
    }

    impl Plain for Option<Ratio> {
        type Number = Option<f64>;
        fn number(self) -> Option<f64> {
            self.map(|ratio| ratio.0)
        }
        fn of(number: Option<f64>) -> Self {
            number.map(Ratio)
        }
    }

    pub(super) fn serialize<T: Plain, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        value.number().serialize(to)
    }

    pub(super) fn deserialize<'de, T: Plain, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        T::Number::deserialize(from).map(T::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(at_once: usize) -> Host {
        let quiet = Host::look((0..at_once).collect(), at_once);
        Host { pressure: Some(Ratio(0.0)), clock_step: Seconds(2e-8), is_virtual: false, ..quiet }
    }

    fn verdict(host: &Host, name: &str, ranks: u32, wait: Wait) -> Verdict {
        let gates = host.gates(Intent { ranks, wait, in_memory: true });
        gates.iter().find(|gate| gate.name == name).unwrap().verdict
    }

    #[test]
    fn ranks_that_spin_need_a_cpu_each() {
        let host = host(2);
        assert_eq!(verdict(&host, "cpus", 2, Wait::Spin), Verdict::Good);
        assert_eq!(verdict(&host, "cpus", 3, Wait::Spin), Verdict::Refused);
        assert_eq!(verdict(&host, "cpus", 3, Wait::Poll), Verdict::Marked);
    }

    #[test]
    fn a_busy_machine_is_marked() {
        for (part, load, expected) in [
            (Some(0.04), None, Verdict::Good),
            (Some(0.06), None, Verdict::Marked),
            (Some(0.26), Some(0.0), Verdict::Marked),
            (None, Some(0.4), Verdict::Good),
            (None, Some(0.6), Verdict::Marked),
            (None, None, Verdict::Marked),
        ] {
            let host = Host { pressure: part.map(Ratio), load: load.map(Ratio), ..host(2) };
            assert_eq!(verdict(&host, "load", 2, Wait::Spin), expected, "{part:?} {load:?}");
        }
    }

    #[test]
    fn a_virtual_machine_is_marked_in_memory() {
        assert_eq!(verdict(&host(2), "virtual", 2, Wait::Spin), Verdict::Good);
        let host = Host { is_virtual: true, ..host(2) };
        assert_eq!(verdict(&host, "virtual", 2, Wait::Spin), Verdict::Marked);
    }

    #[test]
    fn a_coarse_clock_is_refused_in_memory_alone() {
        let host = Host { clock_step: Seconds(4e-3), ..host(2) };
        assert_eq!(verdict(&host, "clock", 2, Wait::Spin), Verdict::Refused);
        let through_network = Intent { ranks: 2, wait: Wait::Spin, in_memory: false };
        assert!(host.gates(through_network).iter().all(|gate| gate.verdict == Verdict::Good));
    }

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert_eq!((count("0"), count("0-3"), count("0-3,8"), count("?")), (1, 4, 5, 1));
        let text = "some avg10=1.50 avg60=0.10 avg300=0.00 total=1\nfull avg10=0.00 total=0";
        assert_eq!(pressure(text), Some(Ratio(0.015)));
        assert_eq!(pressure("full avg10=0.00"), None);
        assert!(clock_step().0 > 0.0 && clock_step().0 < 1e-3);
    }
}
