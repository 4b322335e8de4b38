//! `compare --watch`: judges a log again whenever it has grown.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use collcost::base::error::{Error, Result};
use collcost::base::quantity::Seconds;
use collcost::measure::logs::{Asked, Imported, look};

use crate::cli::Stop;
use crate::cli::input;

/// How often a log is checked.
const EVERY: Duration = Duration::from_millis(200);

/// Calls `judged` with the log whenever whole lines were added, until none were added for `idle`;
/// returns the last result. Waits for a log that has no times yet.
pub(super) fn follow(
    file: &str,
    asked: &Asked,
    idle: Seconds,
    mut judged: impl FnMut(Imported) -> std::result::Result<(), Stop>,
) -> std::result::Result<(), Stop> {
    let idle = Duration::try_from_secs_f64(idle.0).map_err(|_| {
        Error::input("this is not a waiting time")
            .at("--watch")
            .help("write a time such as --watch=60s")
    })?;
    let (mut seen, mut since, mut last) = (0, Instant::now(), None);
    loop {
        let length = fs::metadata(file).map_or(0, |m| m.len());
        if length != seen {
            (seen, since) = (length, Instant::now());
            let log = whole_lines(file).and_then(|lines| look(&lines[..], file, asked));
            // A log that cannot be read yet may become readable with its next lines.
            match log {
                Ok(log) if log.usable().is_ok() => match judged(log) {
                    Err(stop @ (Stop::Io(_) | Stop::Refused(_))) => return Err(stop),
                    done => last = Some(done),
                },
                Ok(log) => last = last.or_else(|| Some(log.usable().map_err(Into::into))),
                Err(error) => last = last.or(Some(Err(error.into()))),
            }
        }
        if since.elapsed() >= idle {
            return last.unwrap_or_else(|| {
                Err(Error::input("nothing was written to the log")
                    .at(file.to_owned())
                    .help("name the file that the benchmark writes; --watch=TIME waits longer")
                    .into())
            });
        }
        thread::sleep(EVERY.min(idle));
    }
}

/// The complete lines.
fn whole_lines(file: &str) -> Result<Vec<u8>> {
    let mut bytes = input::log_bytes(file)?;
    let end = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(end);
    Ok(bytes)
}
