//! A schedule in the format of another program.

use std::fmt::Display;

use super::Args;
use crate::cli::Stop;
use crate::cli::flags::whole;
use collcost::base::collective::Collective;
use collcost::base::error::Error;
use collcost::base::quantity::Bytes;
use collcost::exchange::export::{Format, Job};
use collcost::measure::schedule_of::schedule_of;
use collcost::model::algorithm::Registry;

/// The default size.
const SIZE: Bytes = Bytes(16 << 20);

impl Args {
    /// Hands the text of the file to `put`, and returns notes on what its reader refuses.
    pub(super) fn schedule(
        &mut self,
        put: impl FnOnce(&dyn Display) -> std::result::Result<(), Stop>,
    ) -> std::result::Result<Vec<String>, Stop> {
        let format =
            Format::named(&self.format).map_err(|e| e.at(format!("export {}", self.format)))?;
        let mut words = std::mem::take(&mut self.call.words);
        if words.is_empty() {
            return Err(Error::input("which collective?")
                .at(format!("export {}", self.format))
                .help("name one, such as allreduce")
                .into());
        }
        let first = words.remove(0);
        let place = format!("export {} {first}", self.format);
        let collective: Collective = first.parse().map_err(|e: Error| e.at(place.clone()))?;
        let registry = Registry::builtin();
        self.call.words = words;
        self.call.sort(&registry, collective).map_err(|e| e.at(place.clone()))?;
        let query = self.call.query(&self.on, collective, Some(SIZE))?;
        let root = whole("--root", "rank", self.root.as_ref())?;
        let name = self.call.algorithm.as_deref();
        let place = |e: Error| e.at(format!("{place}, {} ranks", query.shape.ranks));
        let spelled = schedule_of(&registry, &query, name, root).map_err(place)?;
        let job = Job {
            schedule: &*spelled.schedule,
            name: spelled.algorithm.meta().id,
            size: query.size,
            gamma: query.machine.fabric.gamma,
        };
        let written = format.write(&job);
        let mut written =
            written.map_err(|e| place(e).or_help("name another --algorithm or format"))?;
        put(&written)?;
        let mut notes = std::mem::take(&mut written.notes);
        notes.extend(spelled.stands_in());
        Ok(notes)
    }
}
