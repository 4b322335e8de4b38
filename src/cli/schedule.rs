//! Schedules from files.

use std::fs;
use std::path::Path;

use collcost::base::error::{Error, Result};
use collcost::exchange::import;
use collcost::exchange::import::Foreign;

/// The longest file that is read.
const LONGEST: u64 = 1 << 30;

/// The schedule that `file` holds, in whichever format.
pub(super) fn read(file: &str) -> Result<Foreign> {
    let refuse = |what: String| Error::input(what).at(format!("--schedule {file}"));
    let length = fs::metadata(Path::new(file)).map_or(0, |about| about.len());
    if length > LONGEST {
        let (mib, most) = (length >> 20, LONGEST >> 20);
        let what = format!("the file has {mib} MiB, more than the {most} MiB that are read");
        return Err(refuse(what).help("export a schedule of fewer ranks or segments"));
    }
    let text = fs::read_to_string(file).map_err(|e| {
        refuse(format!("the schedule cannot be read: {e}")).help("name a file of text")
    })?;
    import::read(&text, file)
}
