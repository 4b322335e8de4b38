//! Schedules from files.

use std::path::Path;

use super::{chakra, input};
use collcost::base::encoding;
use collcost::base::error::{Error, Result};
use collcost::exchange::import;
use collcost::exchange::import::Foreign;

/// The schedule that `file` holds, in any supported format.
pub(super) fn read(file: &str) -> Result<Foreign> {
    import::read(&text(file)?, file)
}

/// The text of a file with a schedule.
pub(super) fn text(file: &str) -> Result<String> {
    if chakra::is(file) && Path::new(file).exists() {
        let what = "a Chakra trace (.et) says what ranks compute and send, but not which data";
        return Err(Error::input(what).at(format!("--schedule {file}")).help(format!(
            "time it: collcost simulate --schedule {file}, or on a fabric simulate --jobs {file} --fabric FILE"
        )));
    }
    input::text(file).map_err(|e| {
        Error::input(format!("the schedule cannot be read: {e}"))
            .at(format!("--schedule {file}"))
            .help(encoding::mend(
                &e,
                "name a text file; if it is too long, use fewer ranks or segments",
            ))
    })
}
