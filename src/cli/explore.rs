//! `collcost explore`: one page that shows costs and plays schedules, without a server.

use std::io::Write;
use std::path::Path;

use super::Stop;
use super::output::write_whole;
use collcost::answer::explorer::explorer;
use collcost::base::error::Error;
use collcost::model::algorithm::Registry;
use collcost::view::explorer::page;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost explore
  collcost explore --out lesson.html
  collcost explore --out - > lesson.html")]
pub(super) struct Args {
    /// The file to write the page to; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "explore.html")]
    out: String,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let report = explorer(&Registry::builtin())?;
        let page =
            page(&report).map_err(|e| Error::input(format!("the page cannot be written: {e}")))?;
        if self.out == "-" {
            out.write_all(page.as_bytes())?;
            return Ok(());
        }
        write_whole("--out", Path::new(&self.out), &page)?;
        writeln!(out, "{}: open it in a browser; it needs no network", self.out)?;
        Ok(())
    }
}
