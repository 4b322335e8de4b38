//! The environment variables that reach the tuner.

use super::topology::Knobs;
use super::{Algo, Function, Proto, Starting, Version, since};
use crate::base::error::{Error, Result, did_you_mean, nearest};

/// The settings of a job's environment for the tuner. The default is an empty environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    algo: Option<String>,
    proto: Option<String>,
    thresholds: [Option<u32>; 6],
    kernels: Option<String>,
    /// Values of the variables that hold one whole number, by their place in [`Settings::KNOWN`].
    numbers: [Option<i64>; Settings::KNOWN.len()],
}

/// Variables without their `NCCL_` that do not affect the tuner: what is logged, written or waited for, addresses, queues
/// and buffers (`NCCL_PARAM` and `ncclGetEnv` in NCCL 2.30.7).
const HARMLESS: &str = "\
    ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CHECK_MODE CHECK_POINTERS COMM_BLOCKING COMM_ID COMM_SHRINK_SHARE_RESOURCES \
    COMM_SPLIT_SHARE_RESOURCES CONNECT_ROUND_MAX_PEERS DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT \
    ENABLE_VERSION_CHECK GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE GDRCOPY_SYNC_ENABLE \
    GDR_FLUSH_DISABLE GRAPH_DUMP_FILE GRAPH_DUMP_FILE_RANK GRAPH_MIXING_SUPPORT GRAPH_STREAM_ORDERING \
    GROUP_CUDA_STREAM IBVERBS_LIB IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_ECE_ENABLE \
    IB_FIFO_TC IB_GID_INDEX IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ \
    IB_PCI_RELAXED_ORDERING IB_PKEY IB_PREPOST_RECEIVE_WORK_REQUESTS IB_QPS_PER_CONNECTION \
    IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS \
    IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT \
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE \
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT \
    IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_RETRY_CNT \
    IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS IB_TC \
    IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_CPU_AFFINITY IPC_USE_ABSTRACT_SOCKET LAUNCH_MODE \
    LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LL128_BUFFSIZE LL_BUFFSIZE NET_FORCE_FLUSH NET_OPTIONAL_RECV_COMPLETION \
    NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NVB_PRECONNECT NVTX_DISABLE OOB_NET_IFNAME P2P_LL_THRESHOLD \
    P2P_MAX_PEERS P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_SCHEDULE_GROUP_SIZE PROFILER_PLUGIN \
    PROGRESS_APPENDOP_FREQ PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL RAS_ADDR RAS_ENABLE \
    RAS_TIMEOUT_FACTOR REPORT_CONNECT_PROGRESS RUNTIME_CONNECT SET_CPU_STACK_SIZE SET_STACK_SIZE \
    SHADOW_MEMPOOL_MAX_SIZE SOCKET_FAMILY SOCKET_IFNAME SOCKET_INLINE SOCKET_MAGIC SOCKET_MIN_TASKSIZE \
    SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF \
    TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK UID_STAGGER_RATE UID_STAGGER_THRESHOLD WORK_ARGS_BYTES WORK_FIFO_BYTES";

/// Files that affect the input of the tuner, beside the variables of [`Knobs`].
const FILES: [&str; 2] = ["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"];

/// Which algorithms and protocols a job may use, by function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Enabled {
    pub algos: [[bool; 7]; 5],
    /// `None`: NCCL's own rules decide.
    pub protos: [[Option<bool>; 3]; 5],
}

fn is_harmless(name: &str) -> bool {
    let own = name.strip_prefix("NCCL_");
    own.is_some_and(|own| HARMLESS.split_ascii_whitespace().any(|known| known == own))
}

impl Settings {
    /// The accepted variables.
    pub const KNOWN: [&'static str; 15] = [
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_NTHREADS",
        "NCCL_LL128_NTHREADS",
        "NCCL_NET_OVERHEAD",
        "NCCL_PAT_ENABLE",
        "NCCL_LL128_C2C",
        "NCCL_THREAD_THRESHOLDS",
        "NCCL_SYM_KERNEL",
        "NCCL_SYM_CTAS",
        "NCCL_SYM_TMA_ENABLE",
        "NCCL_SYM_GIN_KERNELS_ENABLE",
        "NCCL_SYM_RS_GIN_CHUNK_SIZE",
        "NCCL_SYM_CE_THRESHOLD",
        "NCCL_CE_COLL_AG_MULTICAST_THRESHOLD",
    ];

    /// Sets one variable. An empty value leaves NCCL's default, but an empty list of
    /// algorithms or protocols (until 2.23) or of kernels (until 2.30) is a list without names. Variables that only affect what is logged
    /// or written are ignored.
    ///
    /// # Errors
    /// A variable that the tuner does not read, including those that affect the communicator
    /// before; a value that is not a number where a number is needed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let place = || format!("{name}={value}");
        match name {
            "NCCL_ALGO" => self.algo = Some(value.to_owned()),
            "NCCL_PROTO" => self.proto = Some(value.to_owned()),
            "NCCL_SYM_KERNEL" => self.kernels = Some(value.to_owned()),
            "NCCL_THREAD_THRESHOLDS" => {
                self.thresholds = thresholds(value).map_err(|e| e.at(place()))?
            }
            _ if is_harmless(name) => {}
            _ => {
                let index = Self::place(name).ok_or_else(|| Self::unread(name).at(place()))?;
                self.numbers[index] = match value.trim() {
                    "" => None,
                    text => Some(whole(text).ok_or_else(|| {
                        Error::input(format!("`{text}` is not a whole number"))
                            .at(place())
                            .help("write one such as 256")
                    })?),
                };
            }
        }
        Ok(())
    }

    /// The place of a variable among those that are read.
    fn place(name: &str) -> Option<usize> {
        Self::KNOWN.iter().position(|known| *known == name)
    }

    /// Why a variable is refused.
    fn unread(name: &str) -> Error {
        let help = match name {
            _ if Starting::KNOWN.contains(&name) => {
                "leave it out: `collcost nccl choose` reads it with --topo, --graph, or --comm \
                 of a built-in machine; a log has what came of it"
            }
            _ if FILES.contains(&name) || Knobs::known().any(|known| known == name) => {
                "leave it out and give the graphs or the log of a job that had it set"
            }
            _ => {
                return Error::input(format!("NCCL's tuner does not read `{name}`"))
                    .help(Self::near(name));
            }
        };
        Error::input(format!(
            "NCCL reads `{name}` when a communicator starts; its tuner sees the result"
        ))
        .help(help)
    }

    /// What may have been meant by a variable that is not read. Names differ in few words: `NCCL_CUMEM_ENABLE` is no
    /// slip in `NCCL_PAT_ENABLE`.
    fn near(name: &str) -> String {
        fn first(name: &str) -> &str {
            let own = name.strip_prefix("NCCL_").unwrap_or(name);
            own.split('_').next().unwrap_or(own)
        }
        let is_near = |known: &&str| nearest(first(name), [first(known)]).is_some();
        let known = Self::KNOWN.into_iter().filter(is_near);
        did_you_mean(name, known, || {
            format!("beside those of start-up it reads {}", Self::KNOWN.join(", "))
        })
    }

    /// The algorithms that a value of `NCCL_ALGO` allows for a function.
    ///
    /// # Errors
    /// A list that NCCL refuses.
    pub fn algorithms(list: &str, function: Function) -> Result<Vec<Algo>> {
        let settings = Self { algo: Some(list.to_owned()), ..Self::default() };
        let on = settings.enabled(Version::NEWEST)?.algos[function as usize];
        Ok(Algo::ALL.into_iter().zip(on).filter_map(|(algo, on)| on.then_some(algo)).collect())
    }

    /// The protocols that a value of `NCCL_PROTO` allows for a function.
    ///
    /// # Errors
    /// A list that NCCL refuses.
    pub fn protocols(list: &str, function: Function) -> Result<Vec<Proto>> {
        let settings = Self { proto: Some(list.to_owned()), ..Self::default() };
        let on = settings.enabled(Version::NEWEST)?.protos[function as usize];
        // What a list does not name for the function is left to NCCL.
        let on = on.map(|on| on.unwrap_or(true));
        Ok(Proto::ALL.into_iter().zip(on).filter_map(|(proto, on)| on.then_some(proto)).collect())
    }

    /// Reads settings in the form of a shell line: `NCCL_ALGO='Tree,Ring' NCCL_PROTO=LL`.
    ///
    /// # Errors
    /// Text that is not an assignment; an open quote; the errors of [`Settings::set`].
    pub fn read(line: &str) -> Result<Self> {
        let mut settings = Self::default();
        for (name, value) in assignments(line)? {
            settings.set(name, value)?;
        }
        Ok(settings)
    }

    /// Whether algorithms or protocols are named.
    #[must_use]
    pub fn names_any(&self) -> bool {
        self.algo.is_some() || self.proto.is_some()
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The value of a variable that holds one whole number, if set.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        Self::place(name).and_then(|i| self.numbers[i])
    }

    /// Threads of a block: a positive value, rounded as in NCCL; any other value leaves the
    /// default.
    pub(super) fn threads(&self, name: &str, least: i32, most: i32, default: i32) -> i32 {
        match self.number(name) {
            Some(n) if n > 0 => {
                if n % 32 != 0 {
                    return most;
                }
                i32::try_from(n).map_or(most, |n| n.clamp(least, most))
            }
            _ => default,
        }
    }

    /// The overhead of the network in a step between nodes, in nanoseconds; -2 is NCCL's mark for
    /// none.
    pub(super) fn net_overhead(&self) -> Option<i64> {
        self.number("NCCL_NET_OVERHEAD").filter(|&n| n != -2)
    }

    /// Whether PAT is forced on or off.
    pub(super) fn pat(&self) -> Option<bool> {
        self.number("NCCL_PAT_ENABLE").filter(|&n| n != 2).map(|n| n != 0)
    }

    /// Whether LL128 may go through a processor.
    pub(super) fn ll128_over_c2c(&self) -> bool {
        self.number("NCCL_LL128_C2C") != Some(0)
    }

    /// Bytes per thread below which channels and threads are given up, if set: LL, LL128 and Simple
    /// of the tree, then of the ring.
    pub(super) fn thresholds(&self) -> &[Option<u32>; 6] {
        &self.thresholds
    }

    /// The lists of algorithms and protocols, if they name any.
    pub(super) fn lists(&self) -> (Option<&str>, Option<&str>) {
        let algo = self.algo.as_deref().filter(|list| !list.is_empty());
        let proto = self.proto.as_deref().filter(|list| !list.is_empty());
        (algo, proto)
    }

    /// The list of symmetric kernels, if set.
    pub(super) fn kernels(&self) -> Option<&str> {
        self.kernels.as_deref()
    }

    /// The algorithms and protocols that may run.
    ///
    /// # Errors
    /// A list that this version refuses, so that no communicator starts.
    pub(super) fn enabled(&self, version: Version) -> Result<Enabled> {
        let mut enabled =
            Enabled { algos: [[true; 7]; 5], protos: [[Some(true), None, Some(true)]; 5] };
        if let Some(list) = &self.algo {
            let known = if version.has(since::PAT) { 7 } else { 6 };
            let names: Vec<_> = Algo::ALL[..known].iter().map(|a| a.name()).collect();
            for (function, on) in lists(version, "NCCL_ALGO", list, &names)? {
                for (row, on) in enabled.algos[function].iter_mut().zip(on) {
                    *row = on;
                }
            }
        }
        if let Some(list) = &self.proto {
            let names = Proto::ALL.map(Proto::name);
            for (function, on) in lists(version, "NCCL_PROTO", list, &names)? {
                // Enabled means forced: NCCL's checks of LL128 are then skipped.
                enabled.protos[function] = [Some(on[0]), Some(on[1]), Some(on[2])];
            }
        }
        Ok(enabled)
    }
}

/// The names and values of a shell line: `NCCL_ALGO='Tree,Ring' NCCL_PROTO=LL`.
///
/// # Errors
/// Text that is not an assignment; an open quote.
pub fn assignments(line: &str) -> Result<Vec<(&str, &str)>> {
    const HELP: &str = "write settings as NCCL_ALGO='Tree,Ring' NCCL_PROTO=LL";
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (name, value) = rest
            .split_once('=')
            .ok_or_else(|| Error::input(format!("`{rest}` is not an assignment")).help(HELP))?;
        let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let (value, after) = match quote {
            None => value.split_once(char::is_whitespace).unwrap_or((value, "")),
            Some(quote) => value[1..].split_once(quote).ok_or_else(|| {
                Error::input(format!("the quote of `{name}` is not closed")).help(HELP)
            })?,
        };
        found.push((name, value));
        rest = after.trim_start();
    }
    Ok(found)
}

/// The lists of a variable, by function.
///
/// Until 2.23 it is one list, in which unknown names are ignored. Since 2.24 entries for single
/// functions may follow after `;`, and unknown names are errors.
pub(super) fn lists(
    version: Version,
    variable: &str,
    text: &str,
    names: &[&str],
) -> Result<Vec<(usize, Vec<bool>)>> {
    let everywhere = |on: Vec<bool>| (0..5).map(|f| (f, on.clone())).collect();
    if !version.has(since::LISTS_BY_COLLECTIVE) {
        let (on, _) = list(text, names);
        return Ok(everywhere(on));
    }
    let refuse = |what: String| {
        Error::unsupported(format!("NCCL {version} refuses {what} and starts no communicator"))
            .at(format!("{variable}={text}"))
            .help("write [list][;function:list]…, such as ring;allreduce:tree,ring")
    };
    let mut found = Vec::new();
    for (i, entry) in text.split(';').filter(|e| !e.is_empty()).enumerate() {
        let mut parts = entry.split(':').filter(|p| !p.is_empty());
        let (first, second) = (parts.next(), parts.next());
        let (function, elements) = match (first, second) {
            (Some(function), Some(elements)) => {
                let named = Function::named(function);
                (Some(named.map_err(|_| refuse(format!("the function `{function}`")))?), elements)
            }
            (Some(elements), None) if i == 0 && !text.starts_with(';') => (None, elements),
            _ => return Err(refuse(format!("the entry `{entry}` without a function"))),
        };
        let (on, unknown) = list(elements, names);
        if let Some(name) = unknown {
            return Err(refuse(format!("the name `{name}`")));
        }
        match function {
            Some(function) => found.push((function as usize, on)),
            None => found.extend::<Vec<_>>(everywhere(on)),
        }
    }
    Ok(found)
}

/// The names that a list enables, and the first name that it does not know.
fn list<'a>(text: &'a str, names: &[&str]) -> (Vec<bool>, Option<&'a str>) {
    let (excludes, text) = match text.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut on = vec![excludes; names.len()];
    let mut unknown = None;
    for token in text.split(',').filter(|t| !t.is_empty()) {
        match names.iter().position(|n| n.eq_ignore_ascii_case(token)) {
            Some(i) => on[i] = !excludes,
            None => unknown = unknown.or(Some(token)),
        }
    }
    (on, unknown)
}

/// A whole number as C's `strtoll` reads it with base 0: hexadecimal after `0x`, octal after `0`.
pub(super) fn whole(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    // A second sign is not part of a number.
    let number = number.ok().filter(|_| !digits.starts_with(['-', '+']))?;
    Some(if text.starts_with('-') { -number } else { number })
}

/// Six thresholds; a negative one keeps the default.
fn thresholds(text: &str) -> Result<[Option<u32>; 6]> {
    let mut read = [None; 6];
    let refuse = || {
        Error::input("these are not thread thresholds")
            .help("write six whole numbers: LL, LL128, Simple of the tree, then of the ring")
    };
    let words: Vec<_> = text.split_whitespace().collect();
    if words.len() > read.len() {
        return Err(refuse());
    }
    for (threshold, word) in read.iter_mut().zip(words) {
        let number: i64 = word.parse().map_err(|_| refuse())?;
        *threshold =
            if number < 0 { None } else { Some(u32::try_from(number).map_err(|_| refuse())?) };
    }
    Ok(read)
}
