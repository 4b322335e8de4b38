//! Network namespaces with capped links between them, made with `ip` and `tc`.
//!
//! ```text
//!   rank 1: e0 ═ tbf ═► p1 ┐
//!   rank 2: e0 ═ tbf ═► p2 ┼ bridge, in a namespace of its own
//!   rank 3: e0 ═ tbf ═► p3 ┘
//! ```
//!
//! What leaves a rank is held to the cap by a token bucket (tbf), whose own counter says how many
//! bytes the wire had: frames with all headers, acknowledgements and retransmissions too. Time
//! follows from that count and the cap without any assumption.
//!
//! Packets are of at most 16 KiB (`gso_max_size`), and the bucket holds two of them or more: a
//! bucket that is smaller than a packet makes the kernel cut packets up, and misses its rate.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use collcost::run::launch::Place;

/// Names begin so, then comes the process that made them.
const PREFIX: &str = "collcost-cap-";
/// Where `ip netns` keeps names.
const FOLDER: &str = "/run/netns";
/// The largest packet that a rank hands to its bucket.
const PACKET: u32 = 16 << 10;
/// Bytes that may wait in a bucket's queue: never so few that any are dropped.
const QUEUE: u32 = 4_000_000;
/// The same where other hosts' packets wait: a queue of tenths of a second delays the acknowledgements of the
/// other way, and both ways together reach two thirds of the rate.
const TRUNK_QUEUE: u32 = 400_000;

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// So many bits a second.
    Mbit(u32),
    /// What the processors can.
    None,
}

impl Cap {
    /// Bytes a second; none without a cap.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Mbit(m) => Some(f64::from(m) * 1e6 / 8.0),
            Self::None => None,
        }
    }

    /// How much the bucket holds, in bytes: two packets, and from 1 Gbit/s on what passes between
    /// two looks at the clock.
    fn burst(m: u32) -> u32 {
        if m <= 500 { 2 * PACKET } else { 4 * PACKET }
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mbit(m) if m % 1000 == 0 => write!(f, "{} Gbit/s", m / 1000),
            Self::Mbit(m) => write!(f, "{m} Mbit/s"),
            Self::None => f.write_str("no cap"),
        }
    }
}

/// What is slower than the rest; ranks from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slow {
    Sends(u8),
    Receives(u8),
    Link(u8, u8),
}

/// One namespace a rank, gone with the value.
pub struct Network {
    /// Of the ranks, then of the bridge.
    names: Vec<String>,
    cap: Cap,
}

impl Network {
    /// Makes it. An error says why this machine, or this user, may not.
    pub fn new(ranks: u8, cap: Cap) -> Result<Self, String> {
        Self::with(ranks, cap, None)
    }

    /// The same with buckets that hold so many bytes.
    pub fn with(ranks: u8, cap: Cap, burst: Option<u32>) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_stale();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name =
            |end: &dyn fmt::Display| format!("{PREFIX}{}-{number}-{end}", std::process::id());
        let mut network = Self { names: Vec::new(), cap };
        // What is made is noted first, so that half a network is removed too.
        let bridge = name(&"bridge");
        let mut add = |name: String| {
            network.names.push(name.clone());
            ip(&["netns", "add", &name]).map_err(|e| format!("no network namespace: {e}"))
        };
        for rank in 1..=ranks {
            add(name(&rank))?;
        }
        add(bridge.clone())?;
        ip(&["-n", &bridge, "link", "add", "br0", "type", "bridge"])
            .map_err(|e| format!("no bridge: {e}"))?;
        ip(&["-n", &bridge, "link", "set", "br0", "up"])?;
        for (rank, name) in (1..=ranks).zip(&network.names) {
            let (port, address) = (format!("p{rank}"), format!("{}/24", address(rank)));
            let link = ["link", "add", "e0", "type", "veth", "peer", "name"];
            ip(&[&["-n", name][..], &link, &[&port, "netns", &bridge]].concat())
                .map_err(|e| format!("no veth pair: {e}"))?;
            ip(&["-n", &bridge, "link", "set", &port, "master", "br0", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "addr", "add", &address, "dev", "e0"])?;
            // Apart, since one word that an old `ip` does not know spoils the whole line.
            ip(&["-n", name, "link", "set", "e0", "up"])?;
            if let Cap::Mbit(rate) = cap {
                let burst = burst.unwrap_or(Cap::burst(rate));
                let packet = PACKET.min(burst / 2).to_string();
                ip(&["-n", name, "link", "set", "e0", "gso_max_size", &packet])?;
                shape(name, "e0", rate, burst, QUEUE)?;
            }
        }
        Ok(network)
    }

    /// Where each rank runs.
    pub fn places(&self) -> Vec<Place> {
        let place = |(rank, name): (u8, &String)| Place {
            namespace: Some(Path::new(FOLDER).join(name)),
            address: IpAddr::V4(address(rank)),
        };
        (1..).zip(self.ranks()).map(place).collect()
    }

    /// The same as the value of `--netns`.
    pub fn flag(&self) -> String {
        let place = |(rank, name): (u8, &String)| format!("{name}={}", address(rank));
        (1..).zip(self.ranks()).map(place).collect::<Vec<_>>().join(",")
    }

    /// What each link carries.
    pub fn cap(&self) -> Cap {
        self.cap
    }

    /// Moves the upper half of the ranks to a second bridge, behind a trunk of so many Mbit/s each way.
    pub fn split(&self, rate: u32) {
        let bridge = self.names.last().map_or("", String::as_str);
        let half = self.ranks().len() / 2;
        let inside = |words: &[&str]| ip(&[&["-n", bridge], words].concat());
        let made = inside(&["link", "add", "br1", "type", "bridge"])
            .and_then(|_| inside(&["link", "set", "br1", "up"]))
            .and_then(|_| inside(&["link", "add", "t0", "type", "veth", "peer", "name", "t1"]))
            .and_then(|_| inside(&["link", "set", "t0", "master", "br0", "up"]))
            .and_then(|_| inside(&["link", "set", "t1", "master", "br1", "up"]))
            .and_then(|_| shape(bridge, "t0", rate, Cap::burst(rate), TRUNK_QUEUE))
            .and_then(|()| shape(bridge, "t1", rate, Cap::burst(rate), TRUNK_QUEUE));
        let moved = (half..self.ranks().len()).try_for_each(|rank| {
            inside(&["link", "set", &format!("p{}", rank + 1), "master", "br1"]).map(drop)
        });
        made.and(moved).unwrap_or_else(|e| panic!("no trunk: {e}"));
    }

    /// Bytes that each rank's bucket has sent so far, with all headers.
    pub fn sent(&self) -> Vec<u64> {
        let read = |name: &String| {
            let text = tc(&["-n", name, "-s", "qdisc", "show", "dev", "e0"]);
            let text = text.unwrap_or_else(|e| panic!("the counter of {name}: {e}"));
            let bytes = sent(&text);
            let (bytes, dropped) = bytes.unwrap_or_else(|| panic!("the counter of {name}: {text}"));
            assert_eq!(dropped, 0, "{name} dropped packets: its queue is too short: {text}");
            bytes
        };
        self.ranks().iter().map(read).collect()
    }

    /// Takes the link of a rank down, from 0.
    pub fn cut(&self, rank: usize) {
        let down = ip(&["-n", &self.ranks()[rank], "link", "set", "e0", "down"]);
        down.unwrap_or_else(|e| panic!("the link of rank {rank}: {e}"));
    }

    /// Makes one rank or link slow, to `rate` Mbit/s.
    pub fn slow(&self, what: Slow, rate: u32) {
        let burst = Cap::burst(rate);
        let bridge = self.names.last().map_or("", String::as_str);
        let name = |rank: u8| self.ranks()[usize::from(rank)].as_str();
        let made = match what {
            Slow::Sends(rank) => {
                let root = ["-n", name(rank), "qdisc", "del", "dev", "e0", "root"];
                tc(&root).and_then(|_| shape(name(rank), "e0", rate, burst, QUEUE))
            }
            // What the bridge hands to the rank's port.
            Slow::Receives(rank) => shape(bridge, &format!("p{}", rank + 1), rate, burst, QUEUE),
            Slow::Link(from, to) => self.slow_link(name(from), address(to + 1), rate),
        };
        made.unwrap_or_else(|e| panic!("{what:?}: {e}"));
    }

    /// One address behind a class of its own.
    fn slow_link(&self, name: &str, to: Ipv4Addr, rate: u32) -> Result<(), String> {
        let Cap::Mbit(usual) = self.cap else { return Err("no cap".to_owned()) };
        tc(&["-n", name, "qdisc", "del", "dev", "e0", "root"])?;
        let root = ["-n", name, "qdisc", "add", "dev", "e0", "root", "handle", "1:"];
        tc(&[&root[..], &["htb", "default", "1"]].concat())?;
        for (class, rate) in [("1:1", usual), ("1:2", rate)] {
            let (burst, rate) = (Cap::burst(rate).to_string(), format!("{rate}mbit"));
            let class = ["-n", name, "class", "add", "dev", "e0", "parent", "1:", "classid", class];
            let limit = ["htb", "rate", &rate, "burst", &burst, "cburst", &burst];
            tc(&[&class[..], &limit].concat())?;
        }
        let filter = ["-n", name, "filter", "add", "dev", "e0", "parent", "1:", "protocol", "ip"];
        let to = format!("{to}/32");
        let address = ["prio", "1", "u32", "match", "ip", "dst", &to, "flowid", "1:2"];
        tc(&[&filter[..], &address].concat()).map(drop)
    }

    /// Where ranks meet: at an address of the first one.
    pub fn meeting(&self) -> String {
        format!("{}:29533", address(1))
    }

    /// The name of each rank's namespace.
    pub fn ranks(&self) -> &[String] {
        &self.names[..self.names.len() - 1]
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove(&self.names);
    }
}

fn address(rank: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, rank)
}

/// Holds what leaves `name` by `port` to `rate` Mbit/s, but for `burst` bytes at once.
fn shape(name: &str, port: &str, rate: u32, burst: u32, queue: u32) -> Result<(), String> {
    let (rate, burst) = (format!("{rate}mbit"), burst.to_string());
    let limit = queue.to_string();
    let made = tc(&[
        "-n", name, "qdisc", "add", "dev", port, "root", "tbf", "rate", &rate, "burst", &burst,
        "limit", &limit,
    ]);
    made.map(drop).map_err(|e| format!("no token bucket (tbf): {e}"))
}

/// Bytes and drops, as `tc -s` writes them: `Sent 90 bytes 1 pkt (dropped 0, overlimits 0 …)`.
fn sent(text: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.split_once("Sent ")?;
    let (bytes, rest) = rest.split_once(" bytes")?;
    let (_, rest) = rest.split_once("(dropped ")?;
    let (dropped, _) = rest.split_once(',')?;
    Some((bytes.parse().ok()?, dropped.parse().ok()?))
}

/// Removes what tests left that were killed.
fn remove_stale() {
    let is_stale = |name: &String| maker(name).is_some_and(|id| !is_alive(id));
    let stale: Vec<String> = names().into_iter().filter(is_stale).collect();
    remove(&stale);
}

/// All namespaces that have a name.
pub fn names() -> Vec<String> {
    let files = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    files.filter_map(|file| file.file_name().into_string().ok()).collect()
}

/// Whether the process of this number made it.
pub fn is_of(name: &str, process: u32) -> bool {
    maker(name) == Some(process)
}

fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

fn remove(names: &[String]) {
    for name in names {
        // A name that was noted before it was made need not be there.
        let _ = ip(&["netns", "del", name]);
    }
}

fn ip(words: &[&str]) -> Result<String, String> {
    run("ip", words)
}

fn tc(words: &[&str]) -> Result<String, String> {
    run("tc", words)
}

fn run(program: &str, words: &[&str]) -> Result<String, String> {
    // Both often lie where only root looks.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new(program)
        .args(words)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("`{program}` of iproute2 does not start: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("`{program} {}`: {said}", words.join(" ")))
}

/// The variable that says that namespaces must be possible here.
pub const VARIABLE: &str = "COLLCOST_NETNS";

/// Whether tests may use namespaces on this machine; says so where they may not, and fails where
/// `COLLCOST_NETNS=required` says that they must. `later` leaves them to a run of their own.
pub fn is_possible() -> bool {
    let told = std::env::var_os(VARIABLE);
    if told.as_ref().is_some_and(|value| value == "later") {
        eprintln!("not tested now: {VARIABLE}=later");
        return false;
    }
    let Err(why) = Network::new(1, Cap::Mbit(100)) else { return true };
    let is_required = told.is_some_and(|value| value == "required");
    assert!(!is_required, "{VARIABLE}=required, and namespaces are not possible here: {why}");
    eprintln!("not tested: capped links are not possible here: {why}");
    false
}
