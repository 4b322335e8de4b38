//! The progress of what may take long, on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::streams::say;
use collcost::run::calibrate::Progress;

/// How progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Show {
    /// One line that changes, only on a terminal.
    Auto,
    /// A line for every tenth of the points.
    Plain,
    /// Nothing.
    None,
}

/// A line of that form, drawn on a terminal only.
fn line(show: Show, form: &str, head: &str) -> ProgressBar {
    let bar = match show {
        Show::Auto => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5)),
        _ => ProgressBar::hidden(),
    };
    // An invalid form would be a mistake in this code; the bar's default is good enough then.
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style.progress_chars("#."));
    }
    bar.set_prefix(head.to_owned());
    bar
}

/// The progress of a number of steps, on a terminal only.
pub(super) struct Steps(ProgressBar);

impl Steps {
    /// None done yet, of the verb `head`.
    pub(super) fn new(head: &str) -> Self {
        // A target that is no terminal is never drawn on.
        Self(line(Show::Auto, "{prefix}  [{bar:10}] {pos}/{len}  {elapsed}  {msg}", head))
    }

    /// Shows what is done, and what is next.
    pub(super) fn show(&self, done: usize, of: usize, next: String) {
        self.0.set_length(of as u64);
        self.0.set_position(done as u64);
        self.0.set_message(next);
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Shows the progress of a calibration.
pub(super) struct Bar {
    show: Show,
    head: String,
    bar: ProgressBar,
    /// Tenths that have been shown.
    tenths: usize,
    began: Instant,
}

impl Bar {
    /// A bar with the label `head`.
    pub(super) fn new(show: Show, head: &str) -> Self {
        let show = match show {
            Show::Auto if !std::io::stderr().is_terminal() => Show::None,
            other => other,
        };
        let bar = line(show, "calibrate {prefix}  [{bar:10}] {msg}", head);
        Self { show, head: head.to_owned(), bar, tenths: 0, began: Instant::now() }
    }

    /// Shows the progress.
    pub(super) fn show(&mut self, progress: &Progress) {
        match self.show {
            Show::None => {}
            Show::Auto => {
                self.bar.set_length(progress.points as u64);
                self.bar.set_position(progress.finished as u64);
                self.bar.set_message(self.text(progress));
            }
            Show::Plain => {
                let tenths = 10 * progress.finished / progress.points.max(1);
                if tenths > self.tenths {
                    self.tenths = tenths;
                    say(format_args!("calibrate {}  {}", self.head, self.text(progress)));
                }
            }
        }
    }

    /// `132/252 points  38 s / ~71 s  worst CI 6.1 % (allgather/bruck 2 KiB)  disturbed 3 %`.
    fn text(&self, progress: &Progress) -> String {
        let elapsed = self.began.elapsed();
        let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
        let all = progress.left.map(|left| format!(" / ~{}", seconds(elapsed + left)));
        let worst = progress.worst.as_ref().map(|worst| {
            let (part, size) = (100.0 * worst.precision.0, worst.size);
            format!("  worst CI {part:.1} % ({} {size})", worst.op)
        });
        format!(
            "{}/{} points  {}{}{}  disturbed {:.0} %",
            progress.finished,
            progress.points,
            seconds(elapsed),
            all.unwrap_or_default(),
            worst.unwrap_or_default(),
            100.0 * progress.disturbed.0
        )
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
