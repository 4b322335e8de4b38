//! `collcost accuracy`: the error of every model, or of the default answer, on measurements that it
//! did not see.

use std::io::Write;
use std::path::Path;
use std::{fs, io};

use super::Stop;
use super::format::{FormatFlag, Report};
use super::import::log;
use super::input;
use super::named::short;
use collcost::answer;
use collcost::base::encoding;
use collcost::base::error::{Error, Result};
use collcost::measure::accuracy;
use collcost::measure::accuracy::answer::{
    Published, answers, is_published, map, of_logs, published,
};
use collcost::measure::logs::{Asked, Imported};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost accuracy measured/
  collcost accuracy mine.csv theirs.log --format json
  collcost accuracy points.csv
  collcost accuracy points.csv measured/ --map machines.csv

Reads the formats that import reads. For each collective of each table, these are held out in turn:
every second size; the largest, middle and smallest number of ranks; ranks times 2, 4 and 8; all but
three sizes; and the whole table, predicted by the fit of a related machine or version. A folder
stands for the files in it; its name is the machine of logs that do not name one.

A table with the columns cluster, profile, collective, n, nodes, bytes and time_us tests the default
answer on its points instead, each cluster left out of what was learned. --map names the machines of
other tables.")]
pub(super) struct Args {
    /// Measurements: CSV or logs, as import reads them, or folders of them
    #[arg(value_name = "DATA", required = true)]
    files: Vec<String>,
    /// CSV with columns file,profile: test the default answer on these tables
    #[arg(long, value_name = "FILE")]
    map: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

/// What all files hold.
#[derive(Default)]
struct Data {
    points: Vec<Published>,
    logs: Vec<Imported>,
    /// The names of files that were read, without their folders.
    files: Vec<String>,
    refused: Vec<(String, Error)>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let mut data = Data::default();
        for file in &self.files {
            data.take(file)?;
        }
        if let (true, true, [(_, why), ..]) =
            (data.logs.is_empty(), data.points.is_empty(), data.refused.as_slice())
        {
            return Err(why.clone().into());
        }
        match (&self.map, data.points.is_empty()) {
            (None, true) => self.models(data, out),
            _ => self.default_answer(data, out),
        }
    }

    /// The table of fits and other models.
    fn models(&self, data: Data, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let scored = accuracy::accuracy(&data.logs);
        if scored.scores.is_empty() {
            return Err(Error::input("nothing can be held out: too few sizes and ranks")
                .at(self.files.join(", "))
                .help("give times of a collective at four sizes, or on three numbers of ranks")
                .into());
        }
        let left_out = data.left_out();
        let report = answer::accuracy::accuracy(&scored, data.files, left_out);
        self.format.write(out, &report, |_| view::accuracy::accuracy(&report))
    }

    /// The table of the default answer.
    fn default_answer(
        &self,
        mut data: Data,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        let mut left_out = data.left_out();
        match &self.map {
            Some(file) => {
                let map = map(&text(file)?, file)?;
                let logs: Vec<(String, Imported)> =
                    data.logs.drain(..).map(|log| (short(&log.file), log)).collect();
                let unmapped = logs.iter().filter(|(name, _)| !map.contains_key(name));
                left_out
                    .extend(unmapped.map(|(name, _)| format!("{name}: the map does not name it")));
                data.points.extend(of_logs(&logs, &map));
            }
            None if !data.logs.is_empty() => {
                return Err(Error::input("points of clusters and other measurements are mixed")
                    .at(short(&data.logs[0].file))
                    .help("name their machines with --map FILE (file,profile), or run accuracy on each kind")
                    .into());
            }
            None => {}
        }
        if data.points.is_empty() {
            return Err(Error::input("no time is of a known machine")
                .at(self.files.join(", "))
                .help("give tables that --map names, or a table of published points")
                .into());
        }
        let (all, refused) = answers(&data.points)?;
        left_out.extend(refused);
        if all.is_empty() {
            return Err(Error::input("no point has an answer")
                .at(left_out.join("; "))
                .help("name built-in machines; collcost profiles lists them")
                .into());
        }
        let report = answer::accuracy_answer::answers(&all, data.files, left_out);
        self.format.write(out, &report, |_| view::accuracy_answer::answers(&report))
    }
}

impl Data {
    /// A file, or all files of a folder in the order of their names.
    fn take(&mut self, name: &str) -> Result<()> {
        if name == "-" || !Path::new(name).is_dir() {
            self.read(name, None);
            return Ok(());
        }
        let fault = |e: io::Error| {
            Error::input(format!("the folder cannot be read: {e}"))
                .at(name)
                .help("name a folder that may be read, or its files")
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(name).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            if path.is_file() {
                files.push(path.to_string_lossy().into_owned());
            }
        }
        if files.is_empty() {
            return Err(Error::input("the folder has no files").at(name).help(
                "give measurements, or a folder of them: CSV or logs, as import reads them",
            ));
        }
        files.sort();
        let folder = Path::new(name).canonicalize().map_err(fault)?;
        let machine = folder.file_name().map(|n| n.to_string_lossy().into_owned());
        for file in files {
            self.read(&file, machine.as_deref());
        }
        Ok(())
    }

    /// A file; `machine` is the machine of logs that do not name one.
    fn read(&mut self, file: &str, machine: Option<&str>) {
        let points = points_of(file);
        let read = match points {
            Some(points) => points.map(|points| self.points.extend(points)),
            None => log(file, &Asked::default()).and_then(|mut log| {
                log.usable()?;
                for table in &mut log.tables {
                    if table.system.is_none() {
                        table.system = machine.map(str::to_owned);
                    }
                }
                self.logs.push(log);
                Ok(())
            }),
        };
        match read {
            Ok(()) => self.files.push(short(file)),
            Err(why) => self.refused.push((short(file), why)),
        }
    }

    fn left_out(&self) -> Vec<String> {
        self.refused.iter().map(|(file, why)| format!("{file}: {}", why.what())).collect()
    }
}

/// The points of a file, where it is a table of published points.
fn points_of(file: &str) -> Option<Result<Vec<Published>>> {
    // A file that is not text, or can be read only once, is not such a table.
    let text = input::text(file).ok().filter(|_| file != "-")?;
    is_published(&text).then(|| published(&text, file))
}

fn text(file: &str) -> Result<String> {
    input::text(file).map_err(|e| {
        Error::input(format!("the map of tables to machines cannot be read: {e}"))
            .at(file)
            .help(encoding::mend(&e, "name a file of file,profile"))
    })
}
