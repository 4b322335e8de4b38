//! What the file of a machine names: a fabric, a topology of NCCL.

use std::sync::Arc;

use super::joined;
use crate::base::error::{Error, Result};
use crate::library::nccl::{self, topology_file};
use crate::machine::graph::Graph;
use crate::machine::profile::Profile;

/// The machine with the files that it names, which lie in the folder of `origin`; `text` reads one.
///
/// # Errors
/// A file that cannot be read, or describes neither.
pub fn with_files(
    mut profile: Profile,
    origin: &str,
    text: &dyn Fn(&str) -> Result<String>,
) -> Result<Profile> {
    let read = |key: &str, file: &str| {
        let path = joined(origin, file);
        let text = text(&path).map_err(|e| {
            Error::profile(e.what().to_owned())
                .at(format!("{origin}: {key} = \"{file}\""))
                .help("name a file in the folder of the profile")
        })?;
        Ok::<_, Error>((text, path))
    };
    if let Some(file) = &profile.fabric_file {
        let (text, path) = read("fabric", file)?;
        profile.graph = Some(Arc::new(fabric(&text, &path)?));
    }
    if let Some(file) = &profile.nccl_topology {
        let (text, path) = read("nccl_topology", file)?;
        profile.topology = Some(Arc::new(topology_file::read(&text, &path)?));
    }
    Ok(profile)
}

const FABRICS: &str = "give a fabric in TOML or JSON, a topology of NCCL or hwloc (XML), an \
                       InfraGraph, or a network of ASTRA-sim or ns-3";

/// The fabric that the text of `file` describes: XML that is not hwloc's is a topology that NCCL
/// dumped.
///
/// # Errors
/// A text that describes no fabric.
pub fn fabric(text: &str, file: &str) -> Result<Graph> {
    match Graph::foreign(text, file) {
        Some(graph) => graph,
        None if text.trim_start().starts_with('<') => {
            let read = topology_file::read(text, file);
            // Any other XML, such as a platform of SimGrid.
            let other = !["<system", "<graphs"].iter().any(|root| text.contains(root));
            nccl::fabric(&read.map_err(|e| if other { e.help(FABRICS) } else { e })?)
        }
        None => match elsewhere(text) {
            Some((what, help)) => Err(Error::input(what).at(file).help(help)),
            None => Graph::parse(text, file),
        },
    }
}

/// Files of other programs that are taken for fabrics: a mark, what they are, and what to give instead.
const ELSEWHERE: [(&str, &str, &str); 2] = [
    ("\tGPU0", "this is the table of `nvidia-smi topo -m`, which has no rates", DUMP),
    (
        "Downlink_speed_Gbps",
        "this is a tree of htsim, which is not read",
        "write it as a [generate] section: kind = \"fat-tree\", k = 4, bw = \"50GB/s\"",
    ),
];
const DUMP: &str = "give the topology that NCCL writes with NCCL_TOPO_DUMP_FILE";

/// What a text is that is neither TOML nor JSON, and what to give instead.
fn elsewhere(text: &str) -> Option<(&'static str, &'static str)> {
    // Its lines read `vendid=0x2c9`, as TOML's may.
    if text.lines().any(|line| line.starts_with("# Topology file: generated")) {
        return Some(("this is a network of ibnetdiscover, which is not read", FABRICS));
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.find(|line| !line.trim_start().starts_with('#'))?;
    if first.contains('=') || first.trim_start().starts_with(['[', '{']) {
        return None;
    }
    let marked = ELSEWHERE.iter().find(|(mark, ..)| text.contains(mark));
    Some(marked.map_or(("the file is no fabric in a known format", FABRICS), |m| (m.1, m.2)))
}
