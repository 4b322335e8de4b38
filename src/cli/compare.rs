//! `collcost compare`: is my run healthy, and if not, why.

mod fleet;
mod watch;

use std::io::Write;

use super::Stop;
use super::flags::{MachineFlags, OnFlags, ParamFlags, RankFlags, size, value};
use super::format::{FormatFlag, OfRuns, write};
use super::import::{Sorted, besides, left_out as refused_logs};
use super::input;
use super::named::{apart, short};
use super::picture::PictureFlags;
use collcost::Collective;
use collcost::answer;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::base::quantity::{Bandwidth, Bytes, Seconds};
use collcost::machine::query::{DEFAULT_CHOSEN, Machine, Query};
use collcost::machine::sample::DataType;
use collcost::measure::logs::{Asked, Evidence};
use collcost::measure::verdict::{Facts, Ruling, Run, Typed, Verdict, judge, shown_of_nics, two};
use collcost::model::algorithm::Registry;
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost compare all_reduce.log --on dgx-a100
  collcost compare allreduce --n 8 --size 1GiB --busbw 200GB/s --on dgx-a100
  collcost compare before.log after.log --two
  collcost compare trace_rank*.json --on dgx-h100
  collcost compare run.log --on dgx-h100 --evidence env.txt
  collcost compare host-*.log --fleet
  collcost compare growing.log --on site.toml --watch=60s
  mpirun -np 16 all_reduce_perf -b 8 -e 8G -f 2 | collcost compare - --on site.toml

Reads the formats that import reads, including traces of all ranks at once. Exit code 0: every run
is healthy. 1: a run is ill, two runs differ, or results are wrong. 2: a log cannot be used; the
others are judged. 3: the data do not suffice for a verdict, or a host ran nothing that others ran.
A narrow band needs a profile that was fitted to healthy logs: collcost fit LOG --out site.toml")]
pub(super) struct Args {
    /// Logs, or a collective for one measured number
    #[arg(value_name = "LOG|COLLECTIVE", required = true)]
    what: Vec<String>,
    /// Compare two logs with each other, without a machine
    #[arg(long, conflicts_with_all = ["plot", "svg"])]
    two: bool,
    /// Compare many hosts with each other, one log per host, without a machine
    #[arg(long, conflicts_with_all = ["two", "plot", "svg", "number", "watch"])]
    fleet: bool,
    /// Judge a log again whenever it grows, until it has not grown for this time
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "60s",
          conflicts_with_all = ["two", "number"], hide_short_help = true)]
    watch: Option<String>,
    /// The size at which the number was measured
    #[arg(short, long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<String>,
    /// The measured busbw, such as 200GB/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, group = "number")]
    busbw: Option<String>,
    /// The measured algbw
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, group = "number")]
    algbw: Option<String>,
    /// The measured time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, group = "number")]
    time: Option<String>,
    /// The element type of the measured call, such as bf16
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    dtype: Option<String>,
    /// The collective of nccl-tests' rows, where neither a heading nor a command names it
    #[arg(long, value_name = "COLLECTIVE", hide_short_help = true)]
    collective: Option<String>,
    /// Evidence from the run: NCCL's log, env, lspci -vvv, nvidia-smi -q or a topology
    #[arg(long, value_name = "FILE", conflicts_with_all = ["two", "fleet"], hide_short_help = true)]
    evidence: Vec<String>,
    /// Assume that a tier without measurements behaves like the other tier
    #[arg(long, hide_short_help = true)]
    unseen_tier: bool,
    #[command(flatten)]
    picture: PictureFlags,
    #[command(flatten)]
    ranks: RankFlags,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    format: FormatFlag<OfRuns>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        if self.two {
            return self.two(out);
        }
        if self.fleet {
            return fleet::hosts(self.read()?, self.format.get()?, out);
        }
        if let Some(idle) = &self.watch {
            return self.watched(idle, out);
        }
        let number = [&self.busbw, &self.algbw, &self.time].into_iter().any(Option::is_some);
        match (number, self.what.as_slice()) {
            (true, [word]) => self.judged(vec![self.number(word)?], Vec::new(), out),
            (true, _) => Err(Error::input("a measured number belongs to exactly one collective")
                .at(self.what.join(" "))
                .help("write compare allreduce --n 8 --size 1GiB --busbw 200GB/s")
                .into()),
            (false, _) => {
                let mut read = self.read()?;
                let mut left_out = Vec::new();
                let runs = runs_of(&mut read, &mut left_out)?;
                left_out.extend(refused_logs(&read.refused));
                besides(self.judged(runs, left_out, out), read.refusal())
            }
        }
    }

    /// Follows one log that grows.
    fn watched(&self, idle: &str, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let idle = idle.parse::<Seconds>().map_err(|e| e.at(format!("--watch={idle}")))?;
        let [file] = self.what.as_slice() else {
            return Err(Error::input(format!("--watch follows one log, not {}", self.what.len()))
                .at(self.what.join(" "))
                .help("start one for each log")
                .into());
        };
        watch::follow(file, &self.asked()?, idle, |log| {
            let mut left_out = Vec::new();
            let mut read = Sorted { logs: vec![(short(file), log)], refused: Vec::new() };
            let runs = runs_of(&mut read, &mut left_out)?;
            self.judged(runs, left_out, out)
        })
    }

    /// Judges runs and writes the verdicts.
    fn judged(
        &self,
        mut runs: Vec<Run>,
        mut left_out: Vec<String>,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        for (file, name) in self.evidence.iter().zip(apart(&self.evidence)) {
            let said = Evidence::read(input::log(file)?, file)?;
            if !said.is_known() {
                return Err(Error::input("no line of it is known evidence of a run")
                    .at(file.clone())
                    .help("give NCCL's log (NCCL_DEBUG=INFO), env, lspci -vvv, nvidia-smi -q or a topology of NCCL")
                    .into());
            }
            if said.is_empty() {
                left_out.push(format!("{name}: nothing in it speaks for a cause"));
            }
            runs.iter_mut().for_each(|run| run.facts.evidence.add(&said));
        }
        let registry = Registry::builtin();
        let place =
            |run: &Run| run.file.clone().unwrap_or_else(|| format!("compare {}", run.collective));
        let mut machine = (String::new(), DEFAULT_CHOSEN, Vec::new());
        let mut judged = Vec::with_capacity(runs.len());
        for run in runs {
            let query = self.query(&run)?;
            let Machine { name, chosen, .. } = &query.machine;
            machine = (name.clone(), *chosen, query.machine.given_in_words());
            run.facts.refuse_default(&query).map_err(|e| {
                e.at(place(&run)).or_help(
                    "name the machine that ran it: --on mi300x, --on ib-hdr, or its profile; collcost \
                     profiles lists them",
                )
            })?;
            let verdict = self.verdict(&registry, &query, &run).map_err(|e| e.at(place(&run)))?;
            judged.push((run, query, verdict));
        }
        let mut shown = Vec::with_capacity(judged.len());
        for (run, query, verdict) in &judged {
            let (mut run, mut verdict) = (run.clone(), verdict.clone());
            let others = judged.iter().map(|(other, _, its)| (other, its));
            if let Some(carried) = shown_of_nics(&run, &verdict, others) {
                run.facts.carried = Some(carried);
                verdict = self.verdict(&registry, query, &run).map_err(|e| e.at(place(&run)))?;
            }
            if self.nodes_are_open(&run)? && query.machine.network.is_some() {
                let on =
                    |nodes| self.verdict(&registry, &self.on_nodes(&run, nodes).ok()?, &run).ok();
                verdict.doubt_nodes(query.shape.ranks, on);
            }
            let Run { dtype, library, file, traced, .. } = run;
            let mut view = answer::compare::run(verdict, query, dtype, file, &traced);
            view.library = library;
            shown.push(view);
        }
        let report = answer::compare::compare(machine, shown, left_out);
        let drawn = self.picture.draw(out, || Ok(view::plot::measured(&report)))?;
        match self.format.get()? {
            _ if drawn => {}
            Format::Prometheus => view::compare::prometheus(out, &report)?,
            format => write(format, out, &report, |_| view::compare::compare(&report))?,
        }
        match report.verdict {
            Ruling::Healthy => Ok(()),
            Ruling::Ill => Err(Stop::Failed),
            Ruling::CannotTell => Err(Stop::Unclear),
        }
    }

    /// The verdict on a run.
    fn verdict(&self, registry: &Registry, query: &Query, run: &Run) -> Result<Verdict> {
        judge(registry, query, run.dtype, self.unseen_tier, &run.times, &run.facts)
    }

    /// Whether neither the flags nor the log say on how many nodes it ran.
    fn nodes_are_open(&self, run: &Run) -> Result<bool> {
        let typed = self.ranks.names_nodes() || self.ranks.count()?.is_some();
        Ok(run.facts.nodes_open && !typed)
    }

    /// The question of a run, on so many nodes.
    fn on_nodes(&self, run: &Run, nodes: u32) -> Result<Query> {
        let facts = Facts { full_node: None, ..run.facts.clone() };
        self.query(&Run { nodes: Some(nodes), facts, ..run.clone() })
    }

    /// The question of a run, on the machine that the flags name.
    fn query(&self, run: &Run) -> Result<Query> {
        let mut ranks = self.ranks.clone();
        if let Some(n) = run.ranks {
            ranks = ranks.with_ranks(n);
        }
        if let Some(nodes) = run.nodes.filter(|_| !ranks.names_nodes()) {
            ranks = match run.facts.full_node {
                Some(each) => ranks.with_full_nodes(each),
                None => ranks.with_nodes(nodes),
            };
        }
        let size = run.times.first().map_or(Bytes(1), |t| t.0);
        let (machine, params) = (self.machine.clone(), ParamFlags::default());
        let mut query = OnFlags { ranks, machine, params }.query(run.collective, size)?;
        run.tell(&mut query.machine);
        Ok(query)
    }

    /// One typed number.
    fn number(&self, word: &str) -> Result<Run> {
        let collective: Collective = word.parse().map_err(|e: Error| {
            e.at(format!("compare {word}")).or_help("write a collective before one number")
        })?;
        let place = format!("compare {}", collective.id());
        let size = collective
            .sized(size("--size", self.size.as_ref())?)
            .map_err(|e| e.at(format!("{place} --size")))?
            .ok_or_else(|| {
                Error::input(
                    "a number means nothing without its size: an average over sizes depends on them",
                )
                .at(place.clone())
                .help("give the size at which it was measured: --size 1GiB")
            })?;
        let rate = |flag: &str, text: &Option<String>| value::<Bandwidth>(flag, text.as_ref());
        let (flag, typed) = match (rate("--busbw", &self.busbw)?, rate("--algbw", &self.algbw)?) {
            (Some(busbw), _) => ("--busbw", Typed::Busbw(busbw)),
            (_, Some(algbw)) => ("--algbw", Typed::Algbw(algbw)),
            _ => {
                let time = value::<Seconds>("--time", self.time.as_ref())?;
                ("--time", Typed::Time(time.unwrap_or(Seconds(0.0))))
            }
        };
        let mut run = Run {
            file: None,
            collective,
            ranks: None,
            nodes: None,
            dtype: value::<DataType>("--dtype", self.dtype.as_ref())?,
            library: None,
            times: Vec::new(),
            facts: Facts { typed: Some(typed), ..Facts::default() },
            traced: Vec::new(),
        };
        let measured = typed.call(&self.query(&run)?, size);
        run.times.push(measured.map_err(|e| e.at(format!("{place} {flag}")))?);
        Ok(run)
    }

    /// The logs, at least one.
    fn read(&self) -> Result<Sorted> {
        if let Some(word) = self.what.iter().find(|w| w.parse::<Collective>().is_ok()) {
            return Err(Error::input(format!("`{word}` is not a log"))
                .at(format!("compare {}", self.what.join(" ")))
                .help("give its number: --size 1GiB --busbw 200GB/s, --algbw or --time"));
        }
        Sorted::read(&self.what, &self.asked()?).some()
    }

    /// What the flags say about the logs.
    fn asked(&self) -> Result<Asked> {
        let nodes: Option<u32> = self.ranks.nodes()?.map(Into::into);
        let per_node: Option<u32> = self.ranks.per_node()?.map(Into::into);
        let product = |(nodes, each): (u32, u32)| {
            nodes.checked_mul(each).ok_or_else(|| {
                Error::input("so many ranks are not supported")
                    .at(format!("--nodes {nodes} --gpus-per-node {each}"))
                    .help("give fewer of either")
            })
        };
        let all = nodes.zip(per_node).map(product).transpose()?;
        Ok(Asked {
            ranks: self.ranks.count()?.map(Into::into).or(all),
            collective: value::<Collective>("--collective", self.collective.as_ref())?,
            nodes,
            per_node,
        })
    }

    fn two(&self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let read = self.read()?;
        if let Some(error) = read.refusal() {
            return Err(error.into());
        }
        let [(first, a), (second, b)] = read.logs.as_slice() else {
            return Err(Error::input(format!("--two compares two logs, not {}", read.logs.len()))
                .at(self.what.join(" "))
                .help("write compare BEFORE AFTER --two")
                .into());
        };
        let found = two(a, b).ok_or_else(|| {
            Error::input("the logs have fewer than three sizes in common")
                .at(format!("{first}, {second}"))
                .help("give logs of the same collective, ranks, type and sizes")
        })?;
        let report = answer::compare::two(&found, first.clone(), second.clone());
        match self.format.get()? {
            Format::Prometheus => view::compare::two_gauges(out, &report)?,
            format => write(format, out, &report, |_| view::compare::two(&report))?,
        }
        if report.differs || report.wrong { Err(Stop::Failed) } else { Ok(()) }
    }
}

/// The runs of all logs: rows of the same file, collective, ranks, type and library form one run. A log without
/// times is refused.
fn runs_of(read: &mut Sorted, left_out: &mut Vec<String>) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    let several = read.logs.len() > 1;
    for (file, log) in &read.logs {
        let found = collcost::measure::verdict::runs(file, log, left_out);
        if !found.is_empty() {
            runs.extend(found);
            continue;
        }
        // A recorder without times still tells the order of calls, beside a trace that has times.
        let order = log.tables.iter().flat_map(|t| &t.warnings);
        let order: Vec<String> = order.map(|what| format!("{file}: {what}")).collect();
        if several && !order.is_empty() && log.is_trace() {
            left_out.extend(order);
            continue;
        }
        let none = || {
            Error::input("the log holds no collective's times")
                .at(file.clone())
                .help("compare needs times of collectives; collcost import shows what a log holds")
        };
        read.refused.push((file.clone(), log.usable().err().unwrap_or_else(none)));
    }
    match read.refusal() {
        _ if !runs.is_empty() => Ok(runs),
        Some(error) => Err(error),
        None => Err(Error::input("no file has times")
            .help("compare needs times of collectives; collcost import shows what a log holds")),
    }
}
