//! `collcost fit`: from files of samples or logs to a machine's profile, on any computer.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::path::Path;

use super::Stop;
use super::flags::{count, value};
use super::format::{self, FormatFlag, Report};
use super::import::{Sorted, besides, left_out, refusal};
use super::input;
use super::named::{apart, short};
use super::output::{refuse_input, write_whole};
use super::picture::PictureFlags;
use super::profiles::{find, today};
use collcost::Collective;
use collcost::answer;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::machine::profile::Profile;
use collcost::machine::sample::{self, Block, IMPORT, Op, Samples};
use collcost::measure::fit::{
    About, Asked, Fitted, Logs, Statistic, Verdict, devices, fit, has_devices, has_library,
    has_protocols, library, protocols, two_tiers,
};
use collcost::measure::logs;
use collcost::model::algorithm::Registry;
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost fit run.samples.jsonl --out rack.toml
  collcost fit run.samples.jsonl --stat floor --explain
  collcost fit all_reduce.log all_gather.log --on dgx-h100 --out rack.toml
  collcost allreduce 1M -n 4 --on rack.toml")]
pub(super) struct Args {
    /// Samples of calibrate, or logs in the formats that import reads; gzip is unpacked
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// The file to write the profile to
    #[arg(short, long, value_name = "FILE.toml")]
    out: Option<String>,
    /// The machine of the logs: its links are kept, and the measurements are added
    #[arg(long, visible_alias = "profile", value_name = "NAME|FILE")]
    on: Option<String>,
    /// Number of ranks, for logs that do not say it
    #[arg(short, long, visible_aliases = ["ranks", "np"], value_name = "N", allow_hyphen_values = true)]
    n: Option<String>,
    /// Ranks per node, for logs that do not say how many nodes there were
    #[arg(short, long, visible_alias = "ppn", value_name = "G", allow_hyphen_values = true)]
    gpus_per_node: Option<String>,
    /// The collective of nccl-tests' rows, where neither a heading nor a command names it
    #[arg(long, value_name = "COLLECTIVE")]
    collective: Option<String>,
    /// Keep only parameters, not the residuals at each size, if times must stay confidential
    #[arg(long)]
    no_residuals: bool,
    /// The statistic of a point to fit: typical (median) or floor (10 % quantile)
    #[arg(long, value_name = "STATISTIC", hide_possible_values = true)]
    stat: Option<Stat>,
    /// What --explain holds out: algo, size or both (default: both)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "both",
        hide_default_value = true,
        hide_possible_values = true
    )]
    holdout: HoldOut,
    /// Show every point with its prediction
    #[arg(long)]
    explain: bool,
    /// Write the profile even if a gate refuses it; the profile records that
    #[arg(long)]
    force: bool,
    /// Seed of the random draws for the intervals; default: 1
    #[arg(long, value_name = "SEED", allow_hyphen_values = true)]
    seed: Option<String>,
    #[command(flatten)]
    picture: PictureFlags,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Stat {
    Typical,
    Floor,
}

impl From<Stat> for Statistic {
    fn from(stat: Stat) -> Self {
        match stat {
            Stat::Typical => Self::Typical,
            Stat::Floor => Self::Floor,
        }
    }
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum HoldOut {
    Algo,
    Size,
    Both,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let files = || self.files.iter().map(String::as_str);
        for (flag, file) in [("--out", self.out.as_deref()), ("--svg", self.picture.file())] {
            file.map_or(Ok(()), |file| refuse_input(flag, file, files()))?;
        }
        if self.holdout != HoldOut::Both && !self.explain {
            return Err(Error::input("it is for --explain, which shows every point")
                .at("--holdout")
                .help("leave it out, or add --explain")
                .into());
        }
        let (inside, samples, refused) = self.samples()?;
        besides(self.fitted(inside, samples, out), refused)
    }

    /// Fits, writes and shows the samples.
    fn fitted(
        &self,
        inside: Option<Samples>,
        mut samples: Samples,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        let of_library = |b: &Block| matches!(b.op, Op::Library(_) | Op::Forced(_));
        let moves = |b: &Block| b.op.moves_data() && !of_library(b);
        let messages = samples.blocks.iter().filter(|block| moves(block)).count();
        if has_library(&samples) {
            // Of a log of both, messages make a machine, and the library's times are added to one.
            if messages == 0 || self.on.is_some() {
                samples.blocks.retain(|block| !moves(block));
                if messages > 0 {
                    let what = format!("{messages} times of messages are left out: --on has links");
                    samples.notes.push(what);
                }
                return measured_library(&samples, self.measured()?, out);
            }
            let what = "the times of the library's collectives are left out: fit the same files with --on \
                        the profile of its messages to add them";
            samples.notes.push(what.to_owned());
        }
        if has_devices(&samples) && messages == 0 {
            return measured_devices(&samples, self.measured()?, out);
        }
        if self.on.is_some() || self.no_residuals {
            return Err(Error::input("--on and --no-residuals are for logs of a library")
                .at(self.files.join(", "))
                .help("leave them out: samples of messages define a machine by themselves")
                .into());
        }
        let seed = value::<Seed>("--seed", self.seed.as_ref())?.unwrap_or(Seed(1));
        let files = self.files.join(", ");
        let all = inside.into_iter().chain([samples]).map(|samples| (files.clone(), samples));
        let tiers = Tiers::fit(all.collect(), self.stat, seed.0)
            .map_err(|e| e.or_help("name samples of one machine"))?;
        let refusal = tiers.refusal().filter(|_| !self.force);
        let written = self.out.as_ref().filter(|_| refusal.is_none());
        if let Some(file) = written {
            tiers.write(file, self.command())?;
        }
        let mut shown = tiers.report(self.explain, written.cloned());
        let inside = shown.inside.iter_mut().flat_map(|inside| &mut inside.fit.residuals);
        for row in shown.residuals.iter_mut().chain(inside) {
            if self.holdout == HoldOut::Algo {
                row.held_out_size_error = None;
            }
            if self.holdout == HoldOut::Size {
                row.held_out_algorithm_error = None;
            }
        }
        let all = || tiers.report(true, None);
        if !self.picture.draw(out, || Ok(view::plot::residuals(&all())))? {
            self.format.write(out, &shown, |_| view::fit::fit(&shown))?;
        }
        refusal.map_or(Ok(()), Err)
    }

    /// The options for a fit of measured times of a library or of GPUs.
    fn measured(&self) -> Result<Measured> {
        Ok(Measured {
            logs: self.logs()?,
            base: self.on.as_deref().map(find).transpose()?,
            out: self.out.clone(),
            command: self.command(),
            notes: Vec::new(),
            seed: value::<Seed>("--seed", self.seed.as_ref())?.map_or(1, |seed| seed.0),
            force: self.force,
            picture: self.picture.clone(),
            format: self.format.get()?,
        })
    }

    fn logs(&self) -> Result<Logs> {
        let per_node = count("--gpus-per-node", "ranks per node", self.gpus_per_node.as_ref())?;
        Ok(Logs { per_node, residuals: !self.no_residuals })
    }

    /// Refuses what completes logs, of samples: they say it themselves.
    fn refuse_words_for_logs(&self) -> Result<()> {
        let words = [(self.n.is_some(), "--ranks"), (self.collective.is_some(), "--collective")];
        match words.into_iter().find(|(typed, _)| *typed) {
            None => Ok(()),
            Some((_, flag)) => Err(Error::input("the samples say it themselves")
                .at(flag)
                .help("leave it out: it is for logs that do not say it")),
        }
    }

    /// The samples; apart from them those of links inside groups of ranks, if there are both; and why logs
    /// are refused, if others are not.
    fn samples(&self) -> Result<(Option<Samples>, Samples, Option<Error>)> {
        let asked = logs::Asked {
            ranks: count("--n", "ranks", self.n.as_ref())?.map(Into::into),
            collective: value::<Collective>("--collective", self.collective.as_ref())?,
            ..logs::Asked::default()
        };
        let (mut each, mut files, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        let mut runs = BTreeSet::new();
        for (file, name) in self.files.iter().zip(apart(&self.files)) {
            match is_samples(file) {
                Ok(true) => {
                    let text = input::log_text(file).map_err(|e| unreadable(file, &e));
                    match text.and_then(|text| sample::read(&text, file)) {
                        Ok((header, mut one)) => {
                            let one_run = !header.run.is_empty() && header.run != IMPORT;
                            if one_run && !runs.insert(header.run) {
                                return Err(twice(file));
                            }
                            one.origin.files = vec![name];
                            each.push(one);
                        }
                        Err(error) => refused.push((name, error)),
                    }
                }
                // A file that cannot be read is refused as a log.
                Ok(false) | Err(_) => files.push(file.clone()),
            }
        }
        if files.is_empty() && refused.is_empty() {
            self.refuse_words_for_logs()?;
        }
        let base = self.on.as_deref().map(find).transpose()?;
        let logs = Sorted::read(&files, &asked);
        refused.extend(logs.refused);
        logs::of_one_library(logs.logs.iter().map(|(_, log)| log))
            .map_err(|e| e.at(self.files.join(", ")))?;
        for (file, log) in &logs.logs {
            if let Err(error) = log.usable().and_then(|()| log.fittable()) {
                refused.push((file.clone(), error));
                continue;
            }
            let mut one = log.samples();
            one.origin.files = vec![file.clone()];
            one.notes.extend(base.iter().flat_map(|base| log.contradictions(base)));
            one.notes.iter_mut().for_each(|note| note.insert_str(0, &format!("{file}: ")));
            each.push(one);
        }
        if let Some(one) = each.last_mut() {
            one.notes
                .extend(left_out(&refused).into_iter().map(|what| format!("left out: {what}")));
        }
        let (mut inside, mut all): (Option<Samples>, Option<Samples>) = (None, None);
        for one in each {
            let known = if one.origin.span.is_some() { &mut inside } else { &mut all };
            *known = Some(match known.take() {
                None => one,
                Some(known) => known.join(one)?,
            });
        }
        let refused: Vec<Error> = refused.into_iter().map(|(_, error)| error).collect();
        let refused = refusal(&refused, self.files.len());
        match (inside, all) {
            (inside, Some(all)) => {
                inside.iter().try_for_each(|inside| inside.is_of(&all))?;
                Ok((inside, all, refused))
            }
            (Some(only), None) => Ok((None, only, refused)),
            (None, None) => Err(refused
                .unwrap_or_else(|| Error::input("no file of samples").help("name at least one"))),
        }
    }

    /// The command without paths, which mean nothing on another computer.
    fn command(&self) -> String {
        let mut words = vec!["collcost fit".to_owned()];
        words.extend(self.files.iter().map(|f| short(f)));
        let known = [
            ("-n", &self.n),
            ("--gpus-per-node", &self.gpus_per_node),
            ("--collective", &self.collective),
        ];
        for (flag, value) in known {
            words.extend(value.iter().map(|value| format!("{flag} {value}")));
        }
        words.extend(self.no_residuals.then(|| "--no-residuals".to_owned()));
        words.extend(self.out.iter().map(|o| format!("--out {}", short(o))));
        match self.stat {
            Some(Stat::Typical) => words.push("--stat typical".to_owned()),
            Some(Stat::Floor) => words.push("--stat floor".to_owned()),
            None => {}
        }
        words.extend(self.on.iter().map(|o| format!("--on {}", short(o))));
        words.extend(self.seed.iter().map(|s| format!("--seed {s}")));
        if self.force {
            words.push("--force".to_owned());
        }
        words.join(" ")
    }
}

/// The options for a fit of measured times of a library or of GPUs.
pub(super) struct Measured {
    pub(super) logs: Logs,
    /// The machine to which the measurements are added.
    pub(super) base: Option<Profile>,
    /// The profile to write.
    pub(super) out: Option<String>,
    pub(super) command: String,
    /// What calibrate reported while it measured.
    pub(super) notes: Vec<String>,
    pub(super) seed: u64,
    /// Whether the profile is written even if nothing was confirmed.
    pub(super) force: bool,
    pub(super) picture: PictureFlags,
    pub(super) format: Format,
}

impl Measured {
    fn about(&self, file: &str) -> About {
        let command = self.command.clone();
        About { name: name(file), command, tool: TOOL.to_owned(), date: today() }
    }
}

/// Draws that make an interval.
const DRAWS: u32 = 400;

/// Fits, writes and shows the times of a library's collectives.
pub(super) fn measured_library(
    samples: &Samples,
    asked: Measured,
    out: &mut impl Write,
) -> std::result::Result<(), Stop> {
    let files = samples.origin.files.join(", ");
    let hardware = asked.base.as_ref().and_then(Profile::hardware);
    let mut logs = asked.logs;
    // Every rank is a node of a network alone, as where a log is compared with it.
    let is_alone = |base: &Profile| base.fabric(Collective::AllReduce).is_network_alone();
    if asked.base.as_ref().is_some_and(is_alone) {
        logs.per_node = logs.per_node.or(Some(NonZeroU32::MIN));
    }
    let mut curves = library(samples, &logs, hardware.as_ref()).map_err(|e| e.at(files))?;
    curves.notes.extend(asked.notes.iter().cloned());
    let found = has_protocols(samples).then(|| protocols(samples, DRAWS, asked.seed));
    let refusal = match &found {
        Some(Err(error)) if !asked.force => Some(error.clone()),
        _ => None,
    };
    let found = found.and_then(Result::ok);
    let written = asked.out.clone().filter(|_| refusal.is_none());
    let mut shown = answer::curves::curves(&curves, samples.origin.files.clone(), written.clone());
    if let Some(found) = &found {
        shown = shown.with(found);
    }
    if let Some(file) = &written {
        let mut profile = curves.profile(asked.base.clone(), samples, &asked.about(file));
        profile.notes.extend(asked.notes.iter().cloned());
        let library = samples.origin.library.clone();
        profile.nccl = found.map(|found| found.stored(library)).or(profile.nccl);
        write(file, &profile.to_toml())?;
    }
    if !asked.picture.draw(out, || Ok(view::plot::measured_curves(&shown)))? {
        format::write(asked.format, out, &shown, |_| view::curves::curves(&shown))?;
    }
    refusal.map_or(Ok(()), |error| Err(Stop::FitRefused(error)))
}

/// Fits, writes and shows what single GPUs do.
pub(super) fn measured_devices(
    samples: &Samples,
    asked: Measured,
    out: &mut impl Write,
) -> std::result::Result<(), Stop> {
    let found = devices(samples, DRAWS, asked.seed)?;
    let machine = samples.origin.machine.clone();
    let mut shown = answer::devices::devices(&found, machine, asked.out.clone());
    let mut profile = found.profile(samples, &asked.about(asked.out.as_deref().unwrap_or("gpu")));
    profile.notes.extend(asked.notes.iter().cloned());
    shown.notes.extend(profile.notes.iter().cloned());
    if let Some(file) = &asked.out {
        write(file, &profile.to_toml())?;
    }
    format::write(asked.format, out, &shown, |_| view::devices::devices(&shown))
}

/// The tiers of a machine's links, the innermost first: all links, or those inside groups of ranks and
/// those between groups.
pub(super) struct Tiers {
    inside: Option<Tier>,
    outermost: Tier,
}

struct Tier {
    files: String,
    samples: Samples,
    fitted: Fitted,
}

impl Tiers {
    /// Fits the samples of each, with the names of their files.
    pub(super) fn fit(
        measured: Vec<(String, Samples)>,
        stat: Option<Stat>,
        seed: u64,
    ) -> Result<Self> {
        let asked = Asked { statistic: stat.map(Statistic::from), seed, ..Asked::default() };
        let tier = |(files, samples): (String, Samples)| {
            let fitted = fit(&Registry::builtin(), &samples, &asked).map_err(|e| e.at(&files))?;
            Ok(Tier { files, samples, fitted })
        };
        let mut tiers = measured.into_iter().map(tier).collect::<Result<Vec<Tier>>>()?;
        let outermost = tiers.pop().ok_or_else(|| Error::input("there are no samples"))?;
        Ok(Self { inside: tiers.pop(), outermost })
    }

    /// The fit that concerns all ranks.
    pub(super) fn outermost(&mut self) -> &mut Fitted {
        &mut self.outermost.fitted
    }

    /// Why a gate refuses a fit, if one does.
    pub(super) fn refusal(&self) -> Option<Stop> {
        let all = self.inside.iter().chain([&self.outermost]);
        let mut gates =
            all.flat_map(|tier| tier.fitted.gates.iter().map(move |gate| (&tier.files, gate)));
        let (files, gate) = gates.find(|(_, gate)| gate.verdict == Verdict::Refused)?;
        let error = Error::input(format!("the fit is refused: {}: {}", gate.name, gate.said))
            .at(files.as_str())
            .help(format!("{}; --force writes it anyway", gate.help));
        Some(Stop::FitRefused(error))
    }

    /// The fits for people and programs; with `residuals`, every point.
    pub(super) fn report(&self, residuals: bool, written: Option<String>) -> answer::fit::Fit {
        let of = |tier: &Tier, written| {
            answer::fit::fit(&tier.fitted, &tier.samples, residuals, written)
        };
        let outermost = of(&self.outermost, written);
        match &self.inside {
            None => outermost,
            Some(near) => outermost.around(
                of(near, None),
                &near.samples,
                &self.outermost.samples,
                &self.profile(&About::default()),
            ),
        }
    }

    fn profile(&self, about: &About) -> Profile {
        let Tier { fitted, samples, .. } = &self.outermost;
        match &self.inside {
            None => fitted.profile(samples, about),
            Some(near) => two_tiers(
                &Registry::builtin(),
                (&near.fitted, &near.samples),
                (fitted, samples),
                about,
            ),
        }
    }

    /// Writes them as a profile, which names `command` as its origin.
    pub(super) fn write(&self, file: &str, command: String) -> std::result::Result<(), Stop> {
        let about = About { name: name(file), command, tool: TOOL.to_owned(), date: today() };
        write(file, &self.profile(&about).to_toml())
    }
}

/// This program with its version.
pub(super) const TOOL: &str = concat!("collcost ", env!("CARGO_PKG_VERSION"));

/// A whole number from 0 on.
pub(super) struct Seed(pub(super) u64);

impl std::str::FromStr for Seed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(Self).map_err(|_| {
            Error::input(format!("`{text}` is not a seed")).help("write a whole number, 0 or more")
        })
    }
}

fn twice(file: &str) -> Error {
    Error::input("the same samples are given twice").at(file.to_owned()).help("name them once")
}

/// Whether a file holds samples, by its first bytes; otherwise it is a log.
fn is_samples(file: &str) -> Result<bool> {
    let head = match file {
        "-" => input::head().map_err(|e| unreadable(file, &e))?,
        _ => {
            let mut head = Vec::with_capacity(HEAD);
            let read = input::log(file)?.take(HEAD as u64).read_to_end(&mut head);
            read.map_err(|e| unreadable(file, &e))?;
            head
        }
    };
    let text = String::from_utf8_lossy(&head);
    Ok(text.is_empty() || text.starts_with("{\"t\":"))
}

/// This many bytes distinguish samples from logs.
const HEAD: usize = 4096;

fn unreadable(file: &str, why: &dyn std::fmt::Display) -> Error {
    Error::input(format!("the samples cannot be read: {why}"))
        .at(file.to_owned())
        .help("name a file of samples that calibrate wrote, or a log")
}

/// The name of a machine by its file.
fn name(file: &str) -> String {
    let stem = Path::new(file).file_stem().map(|s| s.to_string_lossy().into_owned());
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name: String =
        stem.unwrap_or_default().chars().map(|c| if known(c) { c } else { '-' }).collect();
    if name.chars().any(|c| c.is_ascii_alphanumeric()) { name } else { "local".to_owned() }
}

/// Writes the profile.
fn write(file: &str, text: &str) -> std::result::Result<(), Stop> {
    Ok(write_whole("--out", Path::new(file), text)?)
}
