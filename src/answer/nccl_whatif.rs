//! What each of NCCL's variables would change on a machine, by NCCL's own estimate.

use serde::Serialize;

use super::nccl_diff::Taken;
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::order::rising;
use crate::base::quantity::Bytes;
use crate::library::nccl::search::{Job, search};
use crate::library::nccl::topology::{Description, Knobs};
use crate::library::nccl::{
    Algo, Call, Chooser, Communicator, Decision, Function, Out, PathType, Reduction, Settings,
    Table, Version, assignments, why_not,
};

/// The settings tried by default: each variable alone.
pub const CANDIDATES: &[&str] = &[
    "NCCL_ALGO=Ring",
    "NCCL_ALGO=Tree",
    "NCCL_ALGO=NVLS",
    "NCCL_ALGO=NVLSTree",
    "NCCL_ALGO=PAT",
    "NCCL_PROTO=LL",
    "NCCL_PROTO=LL128",
    "NCCL_PROTO=Simple",
    "NCCL_PROTO=^LL128",
    "NCCL_NTHREADS=256",
    "NCCL_PAT_ENABLE=0",
    "NCCL_PAT_ENABLE=1",
    "NCCL_MAX_NCHANNELS=4",
    "NCCL_MAX_NCHANNELS=8",
    "NCCL_MAX_NCHANNELS=16",
    "NCCL_MIN_NCHANNELS=16",
    "NCCL_MIN_NCHANNELS=32",
    "NCCL_MAX_CTAS=8",
    "NCCL_MIN_CTAS=24",
    "NCCL_NVLS_ENABLE=0",
    "NCCL_NVLS_NCHANNELS=8",
    "NCCL_NVLS_NCHANNELS=24",
    "NCCL_COLLNET_ENABLE=1",
    "NCCL_CROSS_NIC=0",
    "NCCL_CROSS_NIC=1",
    "NCCL_P2P_DISABLE=1",
    "NCCL_P2P_LEVEL=PXB",
    "NCCL_P2P_LEVEL=SYS",
    "NCCL_SHM_DISABLE=1",
    "NCCL_MNNVL_ENABLE=0",
    "NCCL_IB_DISABLE=1",
    "NCCL_NET_MERGE_LEVEL=PIX",
    "NCCL_NET_MERGE_LEVEL=PHB",
    "NCCL_NVB_DISABLE=1",
    "NCCL_NET_GDR_LEVEL=LOC",
    "NCCL_NET_GDR_LEVEL=PHB",
    "NCCL_NET_GDR_LEVEL=SYS",
    "NCCL_NET_GDR_READ=0",
    "NCCL_NET_GDR_READ=1",
    "NCCL_NET_GDR_C2C=0",
    "NCCL_NET_GDR_C2C=1",
    "NCCL_PXN_DISABLE=1",
    "NCCL_PXN_C2C=0",
    "NCCL_PXN_C2C=1",
    "NCCL_NETDEVS_POLICY=ALL",
    "NCCL_NETDEVS_POLICY=MAX:1",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE=0",
    "NCCL_MNNVL_RAIL_PER_HOST=1",
];

/// Settings that replace NICs by sockets.
const SOCKETS: [&str; 2] = ["NCCL_IB_DISABLE=1", "NCCL_NET=Socket"];

/// The question.
pub struct Question<'a> {
    /// The machine's name.
    pub name: String,
    /// The machine.
    pub description: &'a Description,
    /// How much of it is used, and how many copies of it there are.
    pub job: Job,
    /// The release.
    pub version: Version,
    /// The settings that already apply, for the tuner.
    pub settings: &'a Settings,
    /// The same for searches and start-up.
    pub knobs: &'a Knobs,
    /// The function.
    pub function: Function,
    /// The size.
    pub size: Bytes,
    /// Settings to try, each as written on a shell line.
    pub tries: &'a [&'a str],
}

/// What settings would change, the fastest by NCCL's own estimate first; those that are none to rely on behind.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NcclWhatif {
    /// `collcost/nccl-whatif/1`.
    pub schema: &'static str,
    /// The machine.
    pub machine: String,
    /// N.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// The release.
    pub nccl: &'static str,
    /// The collective's id.
    pub collective: Collective,
    /// The size; for all-gather and reduce-scatter the total over ranks.
    pub size_bytes: u64,
    /// The call without further settings.
    pub now: Tried,
    /// The settings that change something, the fastest first; those that NCCL refuses or fails
    /// with, last.
    pub settings: Vec<Tried>,
    /// The settings that do not change this call.
    pub without_effect: Vec<String>,
    /// What to know about them.
    pub notes: Vec<String>,
}

/// What a call would run under some settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// The settings; empty for none.
    pub settings: String,
    /// The number of channels of the communicator.
    pub channels: Option<u32>,
    /// The number of channels of NVLS; 0 if it is not used.
    pub nvls_channels: Option<u32>,
    /// The choice; absent if NCCL returns an error.
    pub taken: Option<Taken>,
    /// NCCL's own estimate divided by that without the settings.
    pub ratio: Option<f64>,
    /// Why NCCL does not start, or the call fails.
    pub refused: Option<String>,
    /// Why a gain is none to rely on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caution: Option<&'static str>,
}

/// The effect of settings.
///
/// # Errors
/// Text that is not a setting; what the search refuses even without settings.
pub fn nccl_whatif(question: &Question<'_>) -> Result<NcclWhatif> {
    let comm = found(question, question.knobs)?;
    let now = tried(question, "", Ok(comm), question.settings);
    let mut settings: Vec<Tried> = Vec::new();
    let mut without_effect = Vec::new();
    for &line in question.tries {
        let (mut knobs, mut own) = (question.knobs.clone(), question.settings.clone());
        for (name, value) in assignments(line)? {
            if !knobs.set(name, value)? {
                own.set(name, value)?;
            }
        }
        // Searches are the expensive part, and most tuner settings do not affect them.
        let comm = if knobs == *question.knobs { Ok(comm) } else { found(question, &knobs) };
        let mut tried = tried(question, line, comm, &own);
        let time = |tried: &Tried| tried.taken.as_ref().and_then(|taken| taken.time_to_s);
        tried.ratio = time(&tried).zip(time(&now)).map(|(then, now)| then / now);
        if tried.taken == now.taken && tried.refused == now.refused {
            without_effect.push(line.to_owned());
        } else {
            settings.push(tried);
        }
    }
    let mut notes = vec![
        "times are NCCL's own estimates: they ignore congestion, and what fewer channels leave to \
         the kernels beside them"
            .to_owned(),
    ];
    if question.tries.iter().any(|line| SOCKETS.iter().any(|name| line.contains(name))) {
        notes.push(
            "sockets are assumed to be one interface of 10 Gbit/s on the first processor, as NCCL \
             assumes for one that reports neither its speed nor its place"
                .to_owned(),
        );
    }
    let table = Table::new(&comm, question.version, question.settings);
    let caveat = table.ok().and_then(|table| table.models()?.caveat());
    notes.extend(question.version.caveat().into_iter().chain(caveat).map(str::to_owned));
    rising(&mut settings, |tried| tried.ratio.unwrap_or(f64::INFINITY));
    settings.sort_by_key(|tried| (tried.refused.is_some(), tried.caution.is_some()));
    let careful = |tried: &Tried| Some(format!("{}: {}", tried.settings, tried.caution?));
    notes.extend(settings.iter().filter_map(careful));
    Ok(NcclWhatif {
        schema: "collcost/nccl-whatif/1",
        machine: question.name.clone(),
        ranks: comm.ranks,
        nodes: comm.nodes,
        nccl: question.version.id(),
        collective: question.function.collective(),
        size_bytes: question.size.0,
        now,
        settings,
        without_effect,
        notes,
    })
}

fn found(question: &Question<'_>, knobs: &Knobs) -> Result<Communicator> {
    let found = search(question.description, question.version, question.job, knobs)?;
    Ok(found.communicator())
}

/// What a call runs; a release that refuses the settings is a valid answer too.
fn tried(
    question: &Question<'_>,
    line: &str,
    comm: Result<Communicator>,
    settings: &Settings,
) -> Tried {
    let Question { version, function, size, .. } = *question;
    let refused = |comm: Option<Communicator>, why: String| Tried {
        settings: line.to_owned(),
        channels: comm.map(|comm| comm.channels),
        nvls_channels: comm.map(|comm| comm.nvls_channels),
        taken: None,
        ratio: None,
        refused: Some(why),
        caution: None,
    };
    let comm = match comm {
        Ok(comm) => comm,
        Err(error) => return refused(None, error.what().to_owned()),
    };
    let table = match Table::new(&comm, version, settings) {
        Ok(table) => table,
        Err(error) => return refused(Some(comm), error.what().to_owned()),
    };
    let chooser = Chooser::new(&comm, version, &table, Reduction::default());
    let decision = chooser.decide(&Call { function, size, pipelined: 1 });
    let Some(taken) = Taken::of(decision, decision) else {
        return refused(Some(comm), format!("no algorithm is left for {function}: the call fails"));
    };
    let caution = decision.and_then(|decision| caution(question, &comm, decision));
    Tried { taken: Some(taken), refused: None, caution, ..refused(Some(comm), String::new()) }
}

/// Why NCCL would not take a choice unless it were forced to, or its estimate is none.
fn caution(
    question: &Question<'_>,
    comm: &Communicator,
    Decision { algo, proto, .. }: Decision,
) -> Option<&'static str> {
    let Question { version, function, settings, .. } = *question;
    let table = Table::new(comm, version, settings).ok()?;
    let chooser = Chooser::new(comm, version, &table, Reduction::default());
    match why_not(comm, version, settings, &chooser, (function, algo, proto)) {
        // tuning.cc of 2.21: "may cause silent data corruption" where it is not enabled.
        Some(Out::Ll128Path(..) | Out::Ll128Gpus(..)) => Some(
            "NCCL trusts LL128 on no such path or GPU: forced there, it may corrupt data silently",
        ),
        Some(Out::Pat) if comm.ranks > comm.nodes => {
            Some("NCCL supports PAT with one rank per node alone")
        }
        // hwLatencies of tuning.cc has 0 for NVLS in all rows but NVLINK's.
        _ if matches!(algo, Algo::Nvls | Algo::NvlsTree)
            && comm.graph(algo).type_intra.rank(version) > PathType::Nvb.rank(version) =>
        {
            Some("NCCL's table has no latency of NVLS over PCI, so its estimate lacks 25 µs")
        }
        _ => None,
    }
}
