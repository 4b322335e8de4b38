//! `collcost export`: a schedule in the format of another program.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::Stop;
use super::flags::{MachineFlags, ParamFlags, RankFlags, sized_query, sort_words, whole};
use collcost::algorithm::Registry;
use collcost::collective::Collective;
use collcost::error::{Error, Result};
use collcost::export::{Format, Job};
use collcost::quantity::Bytes;
use collcost::query::Query;
use collcost::spell_out::spell_out;

#[derive(clap::Args)]
pub(super) struct Args {
    /// msccl (XML) or goal (for LogGOPSim)
    #[arg(value_name = "FORMAT")]
    format: String,
    /// The collective, such as allreduce
    collective: String,
    /// An algorithm of the collective, and a size
    #[arg(value_name = "ALGORITHM|SIZE", num_args = 0..=2)]
    words: Vec<String>,
    /// The algorithm as an option; without any the take, the fastest that is shipped
    #[arg(long, visible_alias = "algo", value_name = "NAME")]
    algorithm: Option<String>,
    /// The size as an option; 16MiB stands for it where none is given
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<String>,
    /// What the size counts: total, per-rank or per-peer
    #[arg(long, value_name = "WHAT")]
    size_is: Option<String>,
    /// The rank that has or gets the data
    #[arg(long, value_name = "RANK", allow_hyphen_values = true)]
    root: Option<String>,
    /// Write to this file instead of standard output; it is there whole or not at all
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    #[command(flatten)]
    ranks: RankFlags,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    params: ParamFlags,
}

/// The size where none is given.
const SIZE: Bytes = Bytes(16 << 20);

impl Args {
    pub(super) fn run(mut self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let text = self.text()?;
        match &self.output {
            None => out.write_all(text.as_bytes())?,
            Some(file) => write_whole(Path::new(file), &text)?,
        }
        Ok(())
    }

    fn text(&mut self) -> Result<String> {
        let format =
            Format::named(&self.format).map_err(|e| e.at(format!("export {}", self.format)))?;
        let place = format!("export {} {}", self.format, self.collective);
        let collective: Collective =
            self.collective.parse().map_err(|e: Error| e.at(place.clone()))?;
        let registry = Registry::builtin();
        let words = std::mem::take(&mut self.words);
        let slots = (&mut self.algorithm, &mut self.size);
        sort_words(&registry, collective, words, slots).map_err(|e| e.at(place.clone()))?;
        let query = self.query(collective)?;
        let root = whole("--root", "rank", self.root.as_ref())?;
        let name = self.algorithm.as_deref();
        let place = |e: Error| e.at(format!("{place}, {} ranks", query.shape.ranks));
        let spelled = spell_out(&registry, &query, name, root).map_err(place)?;
        let job = Job {
            schedule: &*spelled.schedule,
            name: spelled.algorithm.meta().id,
            size: query.size,
            gamma: query.machine.fabric.gamma,
        };
        format.write(&job).map_err(|e| place(e).or_mend("name another --algorithm or format"))
    }

    fn query(&self, collective: Collective) -> Result<Query> {
        let flags = (&self.ranks, &self.machine, &self.params);
        sized_query(collective, (self.size.as_ref(), SIZE), self.size_is.as_ref(), flags)
    }
}

/// Writes beside the file and renames: a run that is stopped leaves no half file.
fn write_whole(file: &Path, text: &str) -> Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    let part = Path::new(&name);
    let written = fs::write(part, text).and_then(|()| fs::rename(part, file));
    written.map_err(|e| {
        // What cannot be removed was not there.
        let _ = fs::remove_file(part);
        Error::input(format!("the file cannot be written: {e}"))
            .at(format!("--output {}", file.display()))
            .mend("name a file in a folder that is there and can be written to")
    })
}
