//! The table for NCCL's example tuner plugin, with the gains that a site's logs show.

use std::path::Path;

use super::Args;
use super::tuning::Tuning;
use crate::cli::flags::value;
use crate::cli::input;
use collcost::answer::tune::nccl::{Own, head, table};
use collcost::answer::tune::{Departure, Evidence, LEAST_LESS, ran};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::library::Operation;
use collcost::library::nccl::{Function, Place, Settings, Version};
use collcost::library::tuning_file::nccl_tuner_csv;

impl Args {
    /// The text of the file for one communicator whose graphs are known, and notes.
    pub(super) fn nccl(&self) -> Result<(String, Vec<String>)> {
        let (id, flag) = match &self.comm {
            Some(id) => (id.clone(), "--comm "),
            None => (self.known_graphs()?, ""),
        };
        let at = |e: Error| e.at(format!("{flag}{id}"));
        let place = Place::named(&id).map_err(at)?;
        if self.comm.is_some() {
            // The machine's parameters do not matter here, but wrong values are refused.
            let ranks = self.on.ranks.placed(place.nodes, place.per_node)?;
            self.on.of(ranks).query(Collective::AllReduce, Bytes(0))?;
        }
        let target = self.target.as_ref().map(|target| {
            target.trim_start_matches("nccl").trim_start_matches(['@', '-']).to_owned()
        });
        let asked = value::<Version>("--for", target.as_ref())?;
        let version = asked.unwrap_or(Version::NEWEST);
        let place = place.of_release(version);
        let own = Own::new(&place, version).map_err(at)?;
        let evidence = self.evidence(&own)?;
        let departures = evidence.departures();
        let mut lines = vec![
            format!("written by collcost {} for nccl {version}", env!("CARGO_PKG_VERSION")),
            format!("communicator {place}, ranks: {}, nodes: {}", own.comm.ranks, own.comm.nodes),
        ];
        lines.extend(self.rests_on(&evidence, &departures));
        lines.extend(head(self.output.as_deref()));
        if let Some(plugins) = version.plugins() {
            lines.push(plugins.to_owned());
            lines.push(
                "symmetric kernels and copy engines bypass plugins: lines apply to plain buffers"
                    .to_owned(),
            );
        }
        let (_, silent) = evidence.counts();
        let note = format!(
            "{silent} measured sizes are not used: there are no logs of both NCCL's own choice and \
             another there. Give logs of both at the same sizes and type"
        );
        let notes = if silent > 0 { vec![note] } else { Vec::new() };
        Ok((nccl_tuner_csv(&table(&place, version, &departures)?, &lines), notes))
    }

    /// The evidence for the lines.
    fn rests_on(&self, evidence: &Evidence, departures: &[Departure]) -> Vec<String> {
        if self.logs.is_empty() {
            return vec![
                "every line repeats NCCL's own choice for sums of floats, exact to the byte: nothing \
                 gets faster. The file keeps these choices under other versions of NCCL; add your own to it"
                    .to_owned(),
                "lines differ where logs of this machine show a gain: --log own=FILE --log \
                 Tree/LL128=FILE"
                    .to_owned(),
            ];
        }
        let (compared, _) = evidence.counts();
        let shown = |d: &Departure| d.rests_on.len();
        let departing: usize = departures.iter().map(shown).sum();
        let mut lines = vec![format!(
            "lines differ from NCCL's own choice at {departing} of {compared} compared sizes, \
             where another took at least {} % less time in the logs, outside the bands of both",
            LEAST_LESS.0 * 100.0
        )];
        for departure in departures {
            let Departure { collective, .. } = departure;
            lines.extend(departure.rests_on.iter().map(|s| format!("  {collective} {}", s.says())));
        }
        lines.push("all other lines repeat NCCL's own choice, exact to the byte".to_owned());
        lines
    }

    fn evidence<'o>(&self, own: &'o Own) -> Result<Evidence<'o>> {
        let wanted = self.asked(Tuning::Nccl)?;
        let is_wanted = |f: Function| wanted.contains(&Operation::from(f.collective()));
        let mut evidence = Evidence::new(own);
        for word in &self.logs {
            let place = |e: Error| e.at(format!("--log {word}"));
            let (said, file) = said(word).map_err(place)?;
            let bytes = input::log_bytes(file)?;
            let text = String::from_utf8_lossy(&bytes);
            ran::take(&mut evidence, own, (&text, file), said.as_ref(), &is_wanted)
                .map_err(place)?;
        }
        Ok(evidence)
    }

    /// The communicator of the requested ranks on a machine whose graphs are known.
    fn known_graphs(&self) -> Result<String> {
        let which = |what: &str| {
            Error::input(format!("which communicator? {what}"))
                .at("export nccl-tuner-csv")
                .help("give --comm, such as dgx_h100_8x400g.p8.n2, and its machine with --on")
        };
        let asked = self.on.queries(Collective::AllReduce, Bytes(0))?;
        let [query] = &asked[..] else {
            return Err(which("a file is for one number of ranks"));
        };
        match &query.machine.nccl_graphs {
            Some(graphs) => {
                Ok(format!("{graphs}.p{}.n{}", query.placement.per_node, query.placement.nodes()))
            }
            None => Err(which("no graphs of this machine are known")),
        }
    }
}

/// What ran, if given, and the file: `own=FILE`, `Tree/LL128=FILE` or `FILE`.
fn said(word: &str) -> Result<(Option<Settings>, &str)> {
    let Some((choice, file)) = word.split_once('=') else { return Ok((None, word)) };
    match ran::said(choice) {
        Ok(settings) => Ok((Some(settings), file)),
        // A file's name may have a `=` too.
        Err(_) if Path::new(word).exists() => Ok((None, word)),
        Err(error) => Err(error),
    }
}
