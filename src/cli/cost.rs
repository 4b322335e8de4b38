//! `collcost <collective>`: every algorithm priced, over one size, all sizes or a range.

use std::io::Write;

use clap::Args as _;

use super::Stop;
use super::flags::{OnFlags, counted, ends, size, value};
use super::format::{FormatFlag, OfSweep};
use super::optimum::read_fabric;
use super::picture::PictureFlags;
use collcost::answer::optimum::best;
use collcost::answer::what_if::what_if;
use collcost::answer::{self, Map, Sweep};
use collcost::base::collective::Collective;
use collcost::base::dtype::DataType;
use collcost::base::encoding;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::graph::Graph;
use collcost::machine::query::Query;
use collcost::machine::what_if::{Figure, Value};
use collcost::measure::logs;
use collcost::measure::verdict::{Run, runs};
use collcost::model::algorithm::Registry;
use collcost::plan::config::is_file;
use collcost::view::{self, columns, plot, table::View};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Size in bytes as nccl-tests counts it: 16MiB, 16MB, 4096, 7B@bf16; or a range: 1K..1G
    #[arg(value_name = "SIZE", conflicts_with = "size", allow_negative_numbers = true)]
    at: Option<String>,
    /// The size as an option; without a size, show which algorithm wins at which size
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, hide_short_help = true)]
    size: Option<String>,
    /// What the size counts: total, per-rank or per-peer
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    size_is: Option<String>,
    /// Show only this algorithm
    #[arg(long, visible_alias = "algo", value_name = "NAME")]
    algorithm: Option<String>,
    /// A measured time of this call on the machine, or a log of it: 1MiB=88us, run.log
    #[arg(long, value_name = "SIZE=TIME|FILE")]
    seen: Vec<String>,
    /// Split messages into whole elements of this data type where they do not divide evenly
    #[arg(long, value_name = "DTYPE", hide_short_help = true)]
    elements: Option<String>,
    /// The best rate on a fabric instead, as --on with its file: ranks, switches and links
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    fabric: Option<String>,
    #[command(flatten)]
    range: RangeFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    picture: PictureFlags,
    #[command(flatten)]
    on: OnFlags,
}

// A range of sizes or of one figure; --n takes a range of ranks.
#[derive(clap::Args)]
#[command(next_help_heading = "Ranges")]
struct RangeFlags {
    /// The smallest size of a sweep
    #[arg(short = 'b', long, value_name = "SIZE", conflicts_with_all = ["size", "at"])]
    minbytes: Option<String>,
    /// The largest size of a sweep
    #[arg(short = 'e', long, value_name = "SIZE", conflicts_with_all = ["size", "at"])]
    maxbytes: Option<String>,
    /// The factor between the sizes of a sweep; default: 2
    #[arg(short = 'f', long, value_name = "K", hide_short_help = true)]
    stepfactor: Option<String>,
    /// Set a parameter of the machine to another value, such as inter.bw=800Gb/s
    #[arg(long, value_name = "PARAMETER=VALUE", conflicts_with_all = ["eta_alpha", "eta_beta", "contention", "protocol"])]
    set: Vec<String>,
    /// Vary one parameter, such as inter.alpha=1us..20us, and show the weight of every parameter
    #[arg(long, value_name = "FIGURE=FROM..TO", conflicts_with_all = ["eta_alpha", "eta_beta", "contention", "protocol"], hide_short_help = true)]
    vary: Option<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct OutputFlags {
    /// Show all algorithms, and why the others do not apply
    #[arg(long)]
    all: bool,
    /// Also simulate the schedule of every algorithm
    #[arg(long, hide_short_help = true)]
    simulate: bool,
    /// Columns to show, separated by commas, such as steps,ideal,busbw,ships
    #[arg(long, value_name = "NAMES", hide_short_help = true)]
    columns: Option<String>,
    /// Sort by this column instead of by time
    #[arg(long, value_name = "COLUMN", hide_short_help = true)]
    sort: Option<String>,
    #[command(flatten)]
    format: FormatFlag<OfSweep>,
}

/// The flags of a barrier, which moves no data: sizes are not in its help.
pub(super) fn without_sizes(verb: clap::Command) -> clap::Command {
    const SIZES: [&str; 6] = ["at", "size", "size_is", "minbytes", "maxbytes", "stepfactor"];
    Args::augment_args(verb).mut_args(|flag| {
        let is_size = SIZES.contains(&flag.get_id().as_str());
        flag.hide(is_size)
    })
}

impl Args {
    pub(super) fn run(
        mut self,
        collective: Collective,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        self.range.take(&mut self.at);
        self.range.take(&mut self.size);
        let typed = [&self.at, &self.size, &self.range.minbytes, &self.range.maxbytes];
        if let Some(text) = typed.into_iter().flatten().next() {
            collective.refuse_size().map_err(|e| e.at(format!("{} {text}", collective.id())))?;
        }
        if self.range.set.is_empty() && self.range.vary.is_none() {
            self.on.take_protocol(&mut self.algorithm);
        }
        if let Some(file) = &self.fabric {
            let typed = format!("--fabric {file}{}", self.on.typed());
            let same = self.on.machine.get("profile").is_none_or(|on| on == file);
            let alone = same && self.on.typed_but("profile").is_none();
            return self.on_fabric(&read_fabric(file)?, collective, (&typed, alone), out);
        }
        let mut queries = match self.on.queries(collective, Bytes(0)) {
            Ok(queries) => queries,
            Err(refused) => {
                let named = self.on.machine.get("profile").filter(|name| is_file(name));
                let Some(graph) = named.and_then(|file| read_fabric(file).ok()) else {
                    return Err(refused.into());
                };
                let typed = self.on.typed();
                let alone = typed.split_whitespace().count() <= 2;
                return self.on_fabric(&graph, collective, (typed.trim(), alone), out);
            }
        };
        let alone = queries.len() == 1;
        if let [query] = &queries[..] {
            self.on.refuse_idle(query)?;
        }
        for query in &mut queries {
            self.fill(query, alone)?;
        }
        let registry = Registry::builtin();
        let only = self.algorithm.as_deref();
        let first =
            queries.first().cloned().ok_or_else(|| Error::input("no number of ranks is given"))?;
        let place = |e: Error| match only {
            Some(name) => e.at(format!("--algorithm {name}, {} ranks", first.shape.ranks)),
            None => e,
        };
        self.one_range(queries.len())?;
        let sized = self.size.is_some() || self.at.is_some() || collective == Collective::Barrier;
        if queries.len() > 1 && !sized && self.range.vary.is_none() {
            let ends = self.range.ends()?;
            let map = answer::map(&registry, &queries, ends, only).map_err(place)?;
            return self.map(out, &map);
        }
        if let Some(sizes) = self.range.sizes()? {
            let sweep = answer::sizes(&registry, &first, &sizes, only).map_err(place)?;
            return self.sweep(out, &sweep);
        }
        if let Some((figure, values)) = self.range.varied(&first)? {
            self.need_size(sized, collective)?;
            let sweep = answer::vary(&registry, &first, figure, &values, only).map_err(place)?;
            return self.sweep(out, &sweep);
        }
        if queries.len() > 1 {
            let sweep = answer::ranks(&registry, &queries, only).map_err(place)?;
            return self.sweep(out, &sweep);
        }
        if !sized {
            let of_one_size =
                [&self.output.columns, &self.output.sort].into_iter().any(Option::is_some);
            if only.is_some() || self.simulates() || of_one_size || !self.seen.is_empty() {
                self.need_size(sized, collective)?;
            }
            let curves = || answer::curves_over_sizes(&registry, &first, &[]);
            if self.picture.draw(out, || Ok(plot::algorithms(&curves()?)))? {
                return Ok(());
            }
            let bands = answer::bands(&registry, &first)?;
            self.no_sweep("the winners over all sizes are")?;
            let page = |look| view::sweep::bands(&bands, look);
            return self.output.format.write(out, &bands, page);
        }
        let detail = self.output.format.get()? != Format::Text
            || self.output.columns.is_some()
            || self.output.sort.is_some()
            || self.output.all;
        let mut report = answer::cost(&registry, &first, only, detail).map_err(place)?;
        if self.on.machine.get("library").is_some() {
            report.keep_shipped();
        }
        if self.simulates() {
            report.add_simulated(&registry, &first)?;
        }
        if self.on.ranks.is_silent() {
            let n = first.shape.ranks;
            report.notes.insert(0, format!("--n is not given: one node of {n} ranks"));
        }
        // An explanation is for the links as named, not with one of their parameters changed.
        report.on = self.range.set.is_empty().then(|| self.on.typed());
        self.one(out, &report)
    }

    /// The optimum on a fabric that was given as the machine; with a size, also what libraries run.
    /// `alone` if `typed`, the flags about machine and ranks, only name it.
    fn on_fabric(
        &self,
        graph: &Graph,
        collective: Collective,
        (typed, alone): (&str, bool),
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        let range = &self.range;
        let others = [&self.algorithm, &self.size_is, &self.elements, &range.vary];
        let asks_more = others.into_iter().any(Option::is_some)
            || !(self.seen.is_empty() && range.set.is_empty())
            || !alone
            || range.sizes()?.is_some()
            || self.picture.asked();
        if asks_more {
            return Err(Error::input(
                "a fabric defines its own ranks and links, and prices no algorithm",
            )
            .at(typed)
            .help("beside the fabric give only a size and --format; see collcost optimum --help")
            .into());
        }
        self.no_sweep("the best on a fabric is")?;
        let place = |e: Error| e.at(collective.to_string());
        let mut report = best(graph, collective, 0, false).map_err(place)?;
        if let Some(size) = self.typed_size()? {
            let runs = what_if(graph, &[], (collective, 0), size, Some(report.exact));
            report.what_if = Some(runs.map_err(place)?);
        }
        self.output.format.write(out, &report, |_| view::optimum::optimum(&report))
    }

    fn typed_size(&self) -> Result<Option<Bytes>> {
        let (flag, typed) = match &self.size {
            Some(_) => ("--size", &self.size),
            None => ("", &self.at),
        };
        if let Some(list) = typed.as_ref().filter(|typed| typed.contains(',')) {
            return Err(Error::input(format!("`{list}` is several sizes, and one is asked for"))
                .at(format!("{flag} {list}").trim_start().to_owned())
                .help(
                    "give one, or a range: -b 1M -e 1G -f 2 (--format csv for a table of numbers)",
                ));
        }
        size(flag, typed.as_ref())
    }

    /// The size and the flags about it; `alone` if it is the only question.
    fn fill(&self, query: &mut Query, alone: bool) -> Result<()> {
        let size = self.typed_size()?;
        query.size = counted(query, size.unwrap_or_default(), self.size_is.as_ref())?;
        for seen in &self.seen {
            let times = self::seen(seen, query);
            let told = times.and_then(|times| query.see(times));
            told.map_err(|e| e.at(format!("--seen {seen}")))?;
        }
        query.element =
            value::<DataType>("--elements", self.elements.as_ref())?.map(DataType::bytes);
        for change in &self.range.set {
            let place = |e: Error| e.at(format!("--set {change}"));
            let (figure, text) = figure(change, query).map_err(place)?;
            if alone {
                refuse_idle(figure, query).map_err(place)?;
            }
            let value = figure.parse(text).map_err(place)?;
            figure.set(&mut query.machine.fabric, value);
            query.machine.forget(figure);
        }
        Ok(())
    }

    /// Ranks and sizes at once make a map; other ranges are one at a time.
    fn one_range(&self, ranks: usize) -> Result<()> {
        let sizes = self.range.minbytes.is_some() || self.range.maxbytes.is_some();
        let asked = [(sizes, "-b -e"), (ranks > 1, "--n"), (self.range.vary.is_some(), "--vary")];
        let asked: Vec<&str> = asked.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
        if asked.len() > 1 && self.range.vary.is_some() {
            return Err(Error::input("only one range at a time: a parameter, or sizes and ranks")
                .at(asked.join(" and "))
                .help("give a single value for the others"));
        }
        if !asked.is_empty() && self.output.simulate {
            return Err(Error::input("a sweep cannot be simulated")
                .at(format!("--simulate with {}", asked.join(" and ")))
                .help("ask for one size, one number of ranks and one machine"));
        }
        if asked.is_empty() || self.output.columns.is_none() && self.output.sort.is_none() {
            return Ok(());
        }
        Err(Error::input("a sweep has its own columns and order")
            .at("--columns, --sort")
            .help("ask for one size, or write --format csv"))
    }

    /// Whether schedules are simulated: by the flag, or because a column needs it.
    fn simulates(&self) -> bool {
        let column = |name: &str| matches!(name.trim(), "simulated" | "difference");
        let columns = self.output.columns.as_deref().unwrap_or_default();
        self.output.simulate || columns.split(',').any(column)
    }

    fn need_size(&self, sized: bool, collective: Collective) -> Result<()> {
        if sized {
            return Ok(());
        }
        Err(Error::input("how many bytes?")
            .at(format!("collcost {}", collective.id()))
            .help("give --size, such as 16MiB"))
    }

    /// Refuses the layout of nccl-tests for anything but a sweep over sizes.
    fn no_sweep(&self, what: &str) -> Result<()> {
        if self.output.format.get()? != Format::NcclTests {
            return Ok(());
        }
        Err(Error::input(format!("{what} not a sweep over sizes, which this format needs"))
            .at("--format nccl-tests")
            .help("add -b and -e for a sweep, or write --format csv"))
    }

    fn map(&self, out: &mut impl Write, map: &Map) -> std::result::Result<(), Stop> {
        let of_all = self.output.all || self.algorithm.is_some();
        if self.picture.draw(out, || Ok(plot::winners(map, of_all)))? {
            return Ok(());
        }
        self.no_sweep("sizes and ranks at once are")?;
        self.output.format.write(out, map, |look| view::map::map(map, look))
    }

    fn sweep(&self, out: &mut impl Write, sweep: &Sweep) -> std::result::Result<(), Stop> {
        if self.picture.draw(out, || Ok(plot::sweep(sweep)))? {
            return Ok(());
        }
        if sweep.over == "size" && self.output.format.get()? == Format::NcclTests {
            return Ok(view::sweep::nccl_tests(out, sweep)?);
        }
        self.no_sweep("ranks, or a parameter's values, are")?;
        self.output.format.write(out, sweep, |look| view::sweep::sweep(sweep, look))
    }

    fn one(&self, out: &mut impl Write, report: &answer::Cost) -> std::result::Result<(), Stop> {
        if self.picture.draw(out, || Ok(plot::bars(report, self.output.all)))? {
            return Ok(());
        }
        let asked = self.output.columns.as_deref().map(columns::parse).transpose();
        let asked = asked.map_err(|e| e.at("--columns"))?;
        if let Some(by) = &self.output.sort {
            columns::parse(by).map_err(|e| e.at(format!("--sort {by}")))?;
        }
        self.no_sweep("one size is")?;
        self.output.format.write(out, report, |look| {
            let (all, sort) = (self.output.all, self.output.sort.as_deref());
            view::table::cost(report, &View { all, columns: asked.as_deref(), sort, look })
        })
    }
}

/// Splits `inter.bw=800Gb/s` into the figure and the text of its value.
fn figure<'a>(change: &'a str, query: &Query) -> Result<(Figure, &'a str)> {
    let (name, value) = change.split_once('=').ok_or_else(|| {
        Error::input(format!("`{change}` sets nothing")).help("write inter.bw=800Gb/s")
    })?;
    Ok((Figure::named(name.trim(), &query.machine.fabric)?, value.trim()))
}

/// How often a range of a figure is halved: nine values.
const HALVINGS: u32 = 3;

/// The most points of a sweep, since a factor close to 1 would need very many.
const MOST_POINTS: usize = 10_000;

impl RangeFlags {
    /// A size such as `1K..1G` means `-b 1K -e 1G`.
    fn take(&mut self, size: &mut Option<String>) {
        if let Some((first, last)) = size.as_deref().and_then(ends) {
            (self.minbytes, self.maxbytes) = (Some(first.to_owned()), Some(last.to_owned()));
            *size = None;
        }
    }

    /// The first and the last size of a sweep, if there is one.
    fn ends(&self) -> Result<Option<(Bytes, Bytes)>> {
        Ok(self.sizes()?.and_then(|sizes| Some((*sizes.first()?, *sizes.last()?))))
    }

    /// The sizes of a sweep, if there is one.
    fn sizes(&self) -> Result<Option<Vec<Bytes>>> {
        let least = size("-b", self.minbytes.as_ref())?;
        let most = size("-e", self.maxbytes.as_ref())?;
        let (Some(Bytes(least)), Some(Bytes(most))) = (least, most) else {
            return match (least, most) {
                (None, None) => self.stepfactor.as_ref().map_or(Ok(None), |factor| {
                    Err(Error::input("only a sweep over sizes has a factor")
                        .at(format!("-f {factor}"))
                        .help("add -b and -e, or leave out -f"))
                }),
                _ => Err(Error::input("a sweep needs both ends")
                    .at("-b, -e")
                    .help("write -b 8 -e 8G -f 2")),
            };
        };
        let step = self.stepfactor.as_deref().unwrap_or("2");
        let typed = |flag: &Option<String>| flag.clone().unwrap_or_default();
        let refuse = |what: String| {
            let (b, e) = (typed(&self.minbytes), typed(&self.maxbytes));
            Err(Error::input(what)
                .at(format!("-b {b} -e {e} -f {step}"))
                .help("write -b 8 -e 8G -f 2"))
        };
        let factor: f64 = step.parse().unwrap_or(f64::NAN);
        if !(factor > 1.0 && factor.is_finite()) {
            return refuse(format!("`{step}` is not a factor above 1"));
        }
        if least == 0 || least > most {
            let end = if least == 0 { "0 times a factor stays 0" } else { "-e is below -b" };
            return refuse(format!("the sweep has no sizes: {end}"));
        }
        let mut sizes = vec![Bytes(least)];
        let mut next = least as f64 * factor;
        while next <= most as f64 * (1.0 + 1e-12) {
            if sizes.len() == MOST_POINTS {
                return refuse(format!("the sweep has more than {MOST_POINTS} sizes"));
            }
            let whole = Bytes(next.round() as u64);
            if sizes.last() != Some(&whole) {
                sizes.push(whole);
            }
            next *= factor;
        }
        Ok(Some(sizes))
    }

    /// The figure that is varied and its values, if one is.
    fn varied(&self, query: &Query) -> Result<Option<(Figure, Vec<Value>)>> {
        let Some(text) = &self.vary else { return Ok(None) };
        let place = |e: Error| e.at(format!("--vary {text}"));
        let (figure, range) = figure(text, query).map_err(place)?;
        refuse_idle(figure, query).map_err(place)?;
        let (first, last) = ends(range).ok_or_else(|| {
            place(
                Error::input(format!("`{range}` is not a range"))
                    .help("write inter.alpha=1us..20us"),
            )
        })?;
        let (first, last) =
            (figure.parse(first).map_err(place)?, figure.parse(last).map_err(place)?);
        Ok(Some((figure, first.up_to(last, HALVINGS))))
    }
}

/// Refuses a figure of links over which no message goes.
fn refuse_idle(figure: Figure, query: &Query) -> Result<()> {
    let fabric = &query.machine.fabric;
    let Some(links) = figure.links(fabric) else { return Ok(()) };
    query.refuse_idle(links, &figure.name(fabric))
}

/// `1MiB=88us`, or the times of the query's collective, ranks and nodes in a log.
fn seen(text: &str, query: &Query) -> Result<Vec<(Bytes, Seconds)>> {
    if let Some((size, time)) = text.split_once('=') {
        return Ok(vec![(size.trim().parse()?, time.trim().parse()?)]);
    }
    let seen = super::input::lossy(text).map_err(|e| {
        Error::input(format!("the log cannot be read: {e}")).help(encoding::mend(
            &e,
            "write a size and its time as 1MiB=88us, or name a log of nccl-tests",
        ))
    })?;
    let asked = logs::Asked {
        ranks: Some(query.shape.ranks),
        collective: Some(query.shape.collective),
        ..logs::Asked::default()
    };
    let log = logs::look(seen.as_bytes(), text, &asked)?;
    let same = |collective: Option<Collective>, ranks: Option<u32>| {
        collective == Some(query.shape.collective) && ranks.is_none_or(|n| n == query.shape.ranks)
    };
    let mut runs = runs(text, &log, &mut Vec::new());
    runs.retain(|run| same(Some(run.collective), run.ranks));
    let (runs, elsewhere): (Vec<Run>, Vec<Run>) =
        runs.into_iter().partition(|run| run.nodes.is_none_or(|nodes| query.is_on(nodes)));
    logs::one_library(query.shape.collective, runs.iter().filter_map(|r| r.library.as_deref()))?;
    // A log may hold a size several times, and the first counts; calls of 0 bytes say nothing.
    let mut times: Vec<(Bytes, Seconds)> = Vec::new();
    for (size, time) in runs.into_iter().flat_map(|r| r.times) {
        if size.0 > 0 && time.0 > 0.0 && times.iter().all(|(known, _)| *known != size) {
            times.push((size, time));
        }
    }
    if !times.is_empty() {
        return Ok(times);
    }
    let (name, n, nodes) =
        (query.shape.collective.name(), query.shape.ranks, query.placement.nodes());
    if let Some(others) = elsewhere.iter().find_map(|run| run.nodes) {
        let what = format!("the log's {n} ranks were on other nodes: {others}, not {nodes}");
        return Err(Error::input(what)
            .help(format!("ask about its nodes with --nodes {others}, or name another log")));
    }
    // What is wrong with rows of this call says more than that there are none.
    let mut tables = log.tables.iter().filter(|t| same(t.tested.collective(), t.ranks));
    Err(tables.find_map(|table| table.refusal(text)).unwrap_or_else(|| {
        Error::input(format!("the log has no times of {name} on {n} ranks"))
            .help("name a log of the same collective and ranks")
    }))
}
