//! `collcost verify`: whether schedules do what their collectives promise.

use std::io::Write;

use super::Stop;
use super::flags::{count, ends};
use super::format::{FormatFlag, Report};
use super::progress::Steps;
use super::schedule::read;
use collcost::answer::verify::{Next, Verification, verify_file, verify_telling};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::model::algorithm::Registry;
use collcost::view;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective; default: all of them
    collective: Option<String>,
    /// Check only this algorithm
    #[arg(long, visible_alias = "algo", value_name = "NAME", requires = "collective")]
    algorithm: Option<String>,
    /// Print a line for every algorithm, and list those without an explicit schedule
    #[arg(long)]
    all: bool,
    /// Numbers of ranks to check: a range such as 1..64, or a list such as 2,4,8
    #[arg(short, long, visible_aliases = ["np", "ranks"], value_name = "N", default_value = "1..16", allow_hyphen_values = true)]
    n: String,
    /// Numbers of segments to check for pipelined algorithms
    #[arg(long, value_name = "P", default_value = "1,2,3,7", allow_hyphen_values = true)]
    segments: String,
    /// Check a schedule from a file instead: MSCCL XML, GOAL, or lines of trace --events
    #[arg(long, value_name = "FILE", conflicts_with_all = ["collective", "all", "n", "segments"])]
    schedule: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let report = self.report()?;
        let all = self.all || self.collective.is_some() || self.schedule.is_some();
        self.format.write(out, &report, |_| view::verify::verification(&report, all))?;
        match (report.failed, report.unverified) {
            (0, 0) => Ok(()),
            (0, _) => Err(Stop::Unclear),
            _ => Err(Stop::Failed),
        }
    }

    fn report(&self) -> Result<Verification> {
        if let Some(file) = &self.schedule {
            let foreign = read(file)?;
            return Ok(verify_file(&foreign, file));
        }
        let registry = Registry::builtin();
        let name = self.algorithm.as_deref();
        let words = [Some("verify"), self.collective.as_deref(), name];
        let place = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let place = |e: Error| e.at(place.clone());
        let collectives = match &self.collective {
            Some(one) => vec![one.parse::<Collective>().map_err(place)?],
            None => Collective::ALL.to_vec(),
        };
        let (ranks, segments) =
            (numbers("--n", "ranks", &self.n)?, numbers("--segments", "segments", &self.segments)?);
        let steps = Steps::new("verify");
        let tell = |next: Next| {
            steps.show(next.done, next.of, format!("{}/{}", next.collective, next.algorithm));
        };
        let report = verify_telling(&registry, &collectives, name, (&ranks, &segments), tell);
        steps.end();
        report.map_err(place)
    }
}

/// The most ranks and segments: beyond it, schedules need more memory than there is.
const MOST: u32 = 4096;

/// Every number of `1..64`, or those of `2,4,8`.
fn numbers(flag: &str, what: &str, text: &str) -> Result<Vec<u32>> {
    let one = |part: &str| {
        let number = count(flag, what, Some(&part.trim().to_owned()))?.map_or(0, |n| n.get());
        if number <= MOST {
            return Ok(number);
        }
        Err(Error::input(format!("{number} {what} are more than {MOST}"))
            .at(format!("{flag} {text}"))
            .help("verify fewer: what holds for small numbers holds for large ones"))
    };
    let Some((first, last)) = ends(text) else {
        return text.split(',').map(one).collect();
    };
    let (first, last) = (one(first)?, one(last)?);
    if first > last {
        return Err(Error::input(format!("`{text}` has no {what}"))
            .at(format!("{flag} {text}"))
            .help("write the smaller number first, as 1..64"));
    }
    Ok((first..=last).collect())
}
