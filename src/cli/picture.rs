//! `--plot` and `--svg`, shared by the verbs that can draw their answer.

use std::io::Write;
use std::path::Path;

use super::Stop;
use super::output::write_whole;
use super::terminal::look;
use collcost::base::error::Error;
use collcost::view::plot::{self, Picture};

#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Pictures")]
pub(super) struct PictureFlags {
    /// Draw the answer in the terminal instead of a table
    #[arg(long, conflicts_with = "format")]
    plot: bool,
    /// Also draw the answer into this SVG file, written atomically
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    svg: Option<String>,
}

impl PictureFlags {
    /// Whether a drawing was requested.
    pub(super) fn asked(&self) -> bool {
        self.plot || self.svg.is_some()
    }

    /// The file of `--svg`.
    pub(super) fn file(&self) -> Option<&str> {
        self.svg.as_deref()
    }

    /// Draws what the flags ask for, if anything. True if it is in the terminal, so that no table is
    /// needed.
    pub(super) fn draw(
        &self,
        out: &mut impl Write,
        picture: impl FnOnce() -> Result<Picture, Error>,
    ) -> Result<bool, Stop> {
        if !self.asked() {
            return Ok(false);
        }
        let picture = picture()?;
        if let Some(file) = &self.svg {
            write_whole("--svg", Path::new(file), plot::svg(&picture))?;
        }
        if self.plot {
            plot::terminal(out, &picture, look())?;
        }
        Ok(self.plot)
    }
}
