//! `collcost crossover`: where the best algorithm changes.

use std::io::Write;

use super::Stop;
use super::flags::{OnFlags, size};
use super::format::{FormatFlag, Report};
use super::picture::PictureFlags;
use collcost::answer;
use collcost::base::collective::Collective;
use collcost::base::error::Error;
use collcost::machine::query::Query;
use collcost::model::algorithm::Registry;
use collcost::view::{self, plot};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective, such as allreduce
    #[arg(default_value = "allreduce")]
    collective: String,
    /// Two or more algorithms; default: all of them
    algorithms: Vec<String>,
    /// The size, if the ranks vary: --n 2..1024
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
    #[command(flatten)]
    picture: PictureFlags,
    #[command(flatten)]
    on: OnFlags,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let place = |e: Error| {
            e.at(format!("crossover {} {}", self.collective, self.algorithms.join(" ")).trim_end())
        };
        let collective: Collective = self.collective.parse().map_err(place)?;
        let size = size("--size", self.size.as_ref())?;
        let mut queries = self.on.queries(collective, size.unwrap_or_default())?;
        self.refuse_size(collective, queries.len() > 1)?;
        let registry = Registry::builtin();
        let names: Vec<&str> = self.algorithms.iter().map(String::as_str).collect();
        if queries.len() > 1 {
            let curves = || answer::curves_over_ranks(&registry, &queries, &names).map_err(place);
            if self.picture.draw(out, || Ok(plot::algorithms(&curves()?)))? {
                return Ok(());
            }
            let report = answer::over_ranks(&registry, &queries, &names).map_err(place)?;
            return self.intervals(out, &report);
        }
        let query: Query =
            queries.pop().ok_or_else(|| Error::input("no number of ranks is given"))?;
        self.on.refuse_idle(&query)?;
        let curves = || answer::curves_over_sizes(&registry, &query, &names).map_err(place);
        if self.picture.draw(out, || Ok(plot::algorithms(&curves()?)))? {
            return Ok(());
        }
        if let [a, b] = names[..] {
            let report = answer::crossover(&registry, &query, a, b).map_err(place)?;
            return self.format.write(out, &report, |_| view::crossover::pair(&report));
        }
        let report = answer::over_sizes(&registry, &query, &names).map_err(place)?;
        self.intervals(out, &report)
    }

    /// Either the size varies or the ranks do, and a barrier has no size.
    fn refuse_size(&self, collective: Collective, ranks_vary: bool) -> Result<(), Error> {
        let barrier = collective == Collective::Barrier;
        let (what, help) = match (&self.size, ranks_vary) {
            (Some(size), _) if barrier => {
                return collective
                    .refuse_size()
                    .map_err(|e| e.at(format!("crossover {} --size {size}", self.collective)));
            }
            (None, false) if barrier => (
                "a barrier moves no data: nothing changes with its size",
                "give a range of ranks, such as -n 2..1024",
            ),
            (Some(_), false) => (
                "for one number of ranks the size varies",
                "leave out --size, or give a range of ranks, such as -n 2..1024",
            ),
            (None, true) if !barrier => {
                ("how many bytes, while the ranks vary?", "give --size, such as 16MiB")
            }
            _ => return Ok(()),
        };
        let place = match &self.size {
            Some(size) => format!("crossover {} --size {size}", self.collective),
            None if ranks_vary => "crossover over ranks".to_owned(),
            None => format!("crossover {}", self.collective),
        };
        Err(Error::input(what).at(place).help(help))
    }

    fn intervals(&self, out: &mut impl Write, report: &answer::Intervals) -> Result<(), Stop> {
        self.format.write(out, report, |look| view::crossover::intervals(report, look))
    }
}
