//! Graphs of NCCL's search as NCCL prints them, as it dumps them, and as a line of a table.
//!
//! ```text
//! Pattern 4, crossNic 0, nChannels 1, bw 12.000000/12.000000, type SYS/SYS, sameChannels 1
//!  0 : NET/0-0 GPU/0-10000 GPU/0-11000 GPU/0-12000 GPU/0-13000 NET/0-0
//! ```
//!
//! Source: NVIDIA/nccl 2.18.3 to 2.30.7, `src/graph/search.cc` and `src/graph/xml.cc`.

use std::fmt;
use std::io::{self, Write};

use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::library::nccl::search::{Found, Searched};
use crate::library::nccl::{Version, float, since};

/// The graphs as the version's log prints them, with the searches in order if `explain` is set; for
/// programs, one line of a table.
#[must_use]
pub fn page(machine: &str, searched: &Searched, explain: bool) -> Page {
    let mut page = Page::default();
    page.programs(sheet(machine, searched));
    page.drawn(log(searched));
    if explain {
        page.gap();
        page.beside(attempts(searched));
    }
    page
}

fn log(searched: &Searched) -> String {
    let mut out = String::new();
    // A string takes all that is written.
    let _ = write_log(&mut out, searched);
    out
}

fn write_log(out: &mut impl fmt::Write, searched: &Searched) -> fmt::Result {
    let version = searched.version;
    for (id, found) in searched.graphs() {
        if !searched.was_searched(id) {
            continue;
        }
        let graph = &found.graph;
        writeln!(
            out,
            "Pattern {}, crossNic {}, nChannels {}, bw {:.6}/{:.6}, type {}/{}, sameChannels {}",
            graph.pattern,
            graph.cross_nic,
            graph.channels,
            graph.intra.0,
            graph.inter.0,
            graph.type_intra,
            graph.type_inter,
            u8::from(graph.same_channels)
        )?;
        for (index, channel) in found.channels.iter().enumerate() {
            write!(out, "{index:2} :")?;
            if let Some([first, _]) = channel.nets {
                write!(out, " NET/{}", net(version, first))?;
            }
            // Since 2.27.5, NVLS names only the head.
            let all = id != 3 || !version.has(since::BUS_IDS);
            let listed = if all { channel.gpus.len() } else { 1 };
            for &gpu in &channel.gpus[..listed] {
                let gpu = &searched.devices[gpu];
                if version.has(since::BUS_IDS) {
                    write!(out, " GPU/{:x}-{:x}", gpu.host, gpu.bus)?;
                } else {
                    write!(out, " GPU/{}", gpu.rank)?;
                }
            }
            if let Some([_, last]) = channel.nets {
                write!(out, " NET/{}", net(version, last))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// A port as the version's log names it.
fn net(version: Version, id: i64) -> String {
    match version {
        _ if !version.has(since::HEX_IDS) => id.to_string(),
        _ if !version.has(since::NICS_BY_HOST) => format!("{id:x}"),
        _ => format!("{:x}-{:x}", id >> 56, id & ((1 << 56) - 1)),
    }
}

/// Writes all graphs as `NCCL_GRAPH_DUMP_FILE` has them.
///
/// # Errors
/// The writer's.
pub fn xml(out: &mut impl Write, searched: &Searched) -> io::Result<()> {
    writeln!(out, "<graphs version=\"1\">")?;
    let mut graphs = searched.graphs();
    // There, in-network reduction by all GPUs comes before that along chains.
    graphs.sort_by_key(|&(id, _)| [0, 1, 3, 4, 2][id as usize]);
    for (id, found) in graphs {
        graph(out, searched, id, found)?;
    }
    writeln!(out, "</graphs>")
}

fn graph(out: &mut impl Write, searched: &Searched, id: u32, found: &Found) -> io::Result<()> {
    let version = searched.version;
    let graph = &found.graph;
    let dev = |id: i64| match id {
        _ if !version.has(since::HEX_IDS) => id.to_string(),
        0 => "0".to_owned(),
        _ => format!("{id:#x}"),
    };
    write!(
        out,
        "  <graph id=\"{id}\" pattern=\"{}\" crossnic=\"{}\" nchannels=\"{}\" \
         speedintra=\"{}\" speedinter=\"{}\" latencyinter=\"{}\" typeintra=\"{}\" \
         typeinter=\"{}\" samechannels=\"{}\"",
        graph.pattern,
        graph.cross_nic,
        graph.channels,
        graph.intra.0,
        graph.inter.0,
        graph.latency_inter.0,
        graph.type_intra,
        graph.type_inter,
        u8::from(graph.same_channels)
    )?;
    if found.channels.is_empty() {
        return writeln!(out, "/>");
    }
    writeln!(out, ">")?;
    for channel in &found.channels {
        writeln!(out, "    <channel>")?;
        if let Some([first, _]) = channel.nets {
            writeln!(out, "      <net dev=\"{}\"/>", dev(first))?;
        }
        let all = id != 3 || !version.has(since::HEX_IDS);
        let listed = if all { channel.gpus.len() } else { 1 };
        for &gpu in &channel.gpus[..listed] {
            let gpu = &searched.devices[gpu];
            let own = dev((gpu.host << 56) as i64 + i64::from(gpu.device));
            let rank = match version.has(since::DUMPS_RANKS) {
                true => format!(" rank=\"{}\"", gpu.rank),
                false => String::new(),
            };
            writeln!(out, "      <gpu dev=\"{own}\"{rank}/>")?;
        }
        if let Some([_, last]) = channel.nets {
            writeln!(out, "      <net dev=\"{}\"/>", dev(last))?;
        }
        writeln!(out, "    </channel>")?;
    }
    writeln!(out, "  </graph>")
}

/// The graphs as one line of a table: the properties of the machine that the tuner reads, and ten
/// columns per graph, with floats in nine digits.
#[must_use]
pub fn sheet(machine: &str, searched: &Searched) -> Sheet {
    let of = |found: &Found| {
        let graph = &found.graph;
        [
            graph.pattern.to_string(),
            graph.channels.to_string(),
            float(graph.intra.0),
            float(graph.inter.0),
            float(graph.latency_inter.0),
            graph.type_intra.to_string(),
            graph.type_inter.to_string(),
            graph.cross_nic.to_string(),
            u8::from(graph.same_channels).to_string(),
        ]
    };
    let flag = |flag: bool| u8::from(flag).to_string();
    let mut columns: Vec<(String, String)> = [
        ("machine", machine.to_owned()),
        ("search_version", searched.version.to_string()),
        ("ppn", searched.per_node.to_string()),
        ("inter", flag(searched.nodes > 1)),
        ("nvlssupport", flag(searched.nvls)),
        ("collnet", flag(searched.collnet)),
        ("mincc", searched.min_cc.to_string()),
        ("maxcc", searched.max_cc.to_string()),
        ("nvscount", flag(searched.nvswitch)),
        ("cpuarch", searched.processor.arch.name().to_owned()),
        ("cpuvendor", searched.processor.vendor.name().to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let graphs = [
        ("ring", &searched.ring),
        ("tree", &searched.tree),
        ("cnd", &searched.collnet_direct),
        ("cnc", &searched.collnet_chain),
        ("nvls", &searched.nvls_graph),
    ];
    const FIGURES: [&str; 9] = [
        "pattern",
        "nch",
        "bwintra",
        "bwinter",
        "latinter",
        "typeintra",
        "typeinter",
        "crossnic",
        "samech",
    ];
    for (name, found) in graphs {
        let figures = FIGURES.into_iter().zip(of(found));
        columns.extend(figures.map(|(figure, value)| (format!("{name}_{figure}"), value)));
    }
    Sheet::record(columns.iter().map(|(name, value)| (name.as_str(), Cell::same(value))).collect())
}

/// The searches in order: the limits of each, the best result when it ended, and the steps left.
fn attempts(searched: &Searched) -> Sheet {
    Sheet::of(&searched.attempts)
        .words("graph", "graph", |a| NAMES[a.id as usize])
        .numbers("pattern", "", "pattern", |a| a.pattern.to_string())
        .numbers("rates", "GB/s", "rates", |a| format!("{}/{}", a.intra.0, a.inter.0))
        .words("types", "types", |a| format!("{}/{}", a.type_intra, a.type_inter))
        .numbers("crossNic", "", "cross_nic", |a| a.cross_nic.to_string())
        .numbers("same", "", "same_channels", |a| u32::from(a.same_channels))
        .numbers("channels", "", "channels", |a| format!("{}..{}", a.least, a.most))
        .words("best so far", "best", |a| match a.channels {
            0 => "nothing".to_owned(),
            n => format!("{n} x {}/{}", a.best_intra.0, a.best_inter.0),
        })
        .numbers("steps left", "", "left", |a| {
            a.left.map_or("perfect".to_owned(), |left| left.to_string())
        })
        .sheet
}

/// Names of graphs by their numbers.
const NAMES: [&str; 5] = ["ring", "tree", "chain", "nvls", "direct"];
