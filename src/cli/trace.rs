//! `collcost trace`: a schedule step by step, for people, programs and other tools.

use std::io::{self, Read, Write};

use super::Stop;
use super::flags::{CallFlags, OnFlags, value, whole};
use super::format::{FormatFlag, OfTrace};
use super::input;
use super::picture::PictureFlags;
use collcost::answer::trace::Run;
use collcost::base::collective::Collective;
use collcost::base::dtype::DataType;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::base::quantity::Bytes;
use collcost::cost::simulate::Mode;
use collcost::machine::query::Query;
use collcost::model::algorithm::Registry;
use collcost::view::plot::space_time;
use collcost::view::trace as write;

#[derive(clap::Args)]
#[command(mut_arg("size", |a| a.help("The size as an option; default: 1MiB")))]
pub(super) struct Args {
    /// The collective, such as allreduce
    collective: String,
    #[command(flatten)]
    call: CallFlags,
    /// Split chunks into whole elements of this data type where they do not divide evenly
    #[arg(long, value_name = "DTYPE", hide_short_help = true)]
    elements: Option<String>,
    /// The rank that has or gets the data
    #[arg(long, value_name = "RANK", allow_hyphen_values = true)]
    root: Option<String>,
    /// When messages start: sync (a barrier per round), local (a rank's own rounds) or flow (data)
    #[arg(long, value_name = "MODE", hide_short_help = true)]
    mode: Option<String>,
    /// Show only what ranks hold after this step; 0 is the start
    #[arg(long, value_name = "K", allow_hyphen_values = true, conflicts_with = "events")]
    step: Option<String>,
    /// Numbers to follow, a row per rank: 1,2;3,4, a file of CSV rows, or - for standard input
    #[arg(long, value_name = "ROWS|FILE", allow_hyphen_values = true, conflicts_with = "events")]
    data: Option<String>,
    #[command(flatten)]
    format: FormatFlag<OfTrace>,
    /// Print every message as a line of JSON, after a line with all that is needed to check them
    #[arg(long, conflicts_with_all = ["format", "plot", "svg"])]
    events: bool,
    #[command(flatten)]
    picture: PictureFlags,
    #[command(flatten)]
    on: OnFlags,
}

/// The default size.
const SIZE: Bytes = Bytes(1 << 20);

impl Args {
    pub(super) fn run(mut self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let place = format!("trace {}", self.collective);
        let collective: Collective = self.collective.parse().map_err(|e: Error| e.at(&place))?;
        let registry = Registry::builtin();
        self.call.sort(&registry, collective).map_err(|e| e.at(&place))?;
        self.on.take_protocol(&mut self.call.algorithm);
        let mode: Mode = value("--mode", self.mode.as_ref())?.unwrap_or_default();
        let root = whole("--root", "rank", self.root.as_ref())?;
        let step = whole("--step", "step", self.step.as_ref())?;
        let query = self.query(collective)?;
        let name = self.call.algorithm.as_deref();
        let place = |e: Error| match name {
            Some(name) => {
                e.at(format!("trace {} {name}, {} ranks", self.collective, query.shape.ranks))
            }
            None => e.at(format!("trace {}, {} ranks", self.collective, query.shape.ranks)),
        };
        let run = Run::new(&registry, &query, name, root, mode).map_err(place)?;
        if self.events {
            return write::events(out, &run).map_err(|lost| match lost {
                write::Lost::Refused(error) => place(error).into(),
                write::Lost::Io(error) => error.into(),
            });
        }
        let data = self.data.as_deref().map(rows).transpose()?;
        let trace =
            run.trace(step.map(u64::from), data.as_deref()).map_err(|e| match &self.data {
                Some(_) => e.at("--data"),
                None => place(e),
            })?;
        if self.picture.draw(out, || space_time(&trace).map_err(place))? {
            return Ok(());
        }
        match self.format.get()? {
            Format::Mermaid => write::mermaid(out, &trace)?,
            Format::Dot => write::dot(out, &trace)?,
            Format::Chrome => write::chrome(out, &trace)?,
            _ => return self.format.write(out, &trace, |look| write::page(&trace, look)),
        }
        Ok(())
    }

    fn query(&self, collective: Collective) -> Result<Query> {
        let mut query = self.call.query(&self.on, collective, Some(SIZE))?;
        query.element =
            value::<DataType>("--elements", self.elements.as_ref())?.map(DataType::bytes);
        Ok(query)
    }
}

/// The most bytes of data that are read.
const LONGEST: Bytes = Bytes(64 << 20);

/// Rows of numbers: typed, or in a file.
fn rows(text: &str) -> Result<Vec<Vec<f64>>> {
    let typed = text.contains([',', ';']) || text.trim().parse::<f64>().is_ok();
    let (csv, place) = match (text, typed) {
        ("-", _) => (read(io::stdin(), "standard input")?, "--data -".to_owned()),
        (_, true) => (text.replace(';', "\n"), format!("--data {text}")),
        (path, false) => {
            let file = std::fs::File::open(path).map_err(|e| {
                Error::input(format!("the data cannot be read: {e}"))
                    .at(format!("--data {path}"))
                    .help("write rows as 1,2;3,4, name a file of CSV rows, or - for standard input")
            })?;
            (read(file, path)?, path.to_owned())
        }
    };
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).flexible(true).trim(csv::Trim::All);
    let mut rows = Vec::new();
    for (line, record) in (1..).zip(reader.from_reader(csv.as_bytes()).into_records()) {
        let refuse = |what: String| {
            Error::input(what)
                .at(format!("{place}, row {line}"))
                .help("write one row of numbers per rank, separated by commas")
        };
        let record = record.map_err(|e| refuse(format!("the data are not CSV: {e}")))?;
        let number = |field: &str| {
            let parsed = field.parse().ok().filter(|n: &f64| n.is_finite());
            parsed.ok_or_else(|| refuse(format!("`{field}` is not a number")))
        };
        rows.push(record.iter().map(number).collect::<Result<Vec<f64>>>()?);
    }
    Ok(rows)
}

fn read(from: impl Read, name: &str) -> Result<String> {
    input::whole(from, LONGEST).map_err(|e| {
        Error::input(format!("the data cannot be read: {e}")).at(format!("--data {name}"))
    })
}
