//! `collcost plan`: the collectives of a step of a model, their times, and the exposed time.

use std::io::Write;

use super::Stop;
use super::config::settings;
use super::files::Here;
use super::format::{FormatFlag, Report};
use super::picture::PictureFlags;
use collcost::answer::job::{self, is_job};
use collcost::answer::plan::{Plan, plan, plan_diff, plan_vary};
use collcost::base::error::{Error, Result, did_you_mean};
use collcost::base::quantity::Bytes;
use collcost::model::algorithm::Registry;
use collcost::plan::table::{Fault, Files, Machines};
use collcost::plan::{Asked, Step, Tweak, load, preset_names};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost plan collcost.toml
  collcost plan --preset hsdp-70b --vary shard_size=8,16,32,64
  collcost plan --preset deepep-ep64 --set skew=1.5
  collcost plan --preset decode-70b-tp8 --set inter.bw=800Gb/s --sensitivity
  collcost plan --diff before.toml after.toml
  collcost plan train.sh --set machine=dgx-h100
  collcost plan job.toml --search --gpus 512 --memory 80GB

A file holds steps as [step.NAME] tables. collcost plan --presets lists built-in layouts.")]
pub(super) struct Args {
    /// A file with steps (default: collcost.toml), or the configuration of a job, which may be
    /// followed by others such as its model's config.json
    #[arg(value_name = "FILE", conflicts_with = "preset")]
    files: Vec<String>,
    /// Show only this step of the file
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// Use a built-in layout from practice instead of a file
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// List the names of the built-in layouts
    #[arg(long, exclusive = true)]
    presets: bool,
    /// Set a key of the step or job, such as tp=4, or a parameter of a step's machine, such as
    /// inter.bw=800Gb/s
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Vary one key over several values, such as shard_size=8,16,32
    #[arg(long, value_name = "KEY=A,B,…", conflicts_with = "diff")]
    vary: Option<String>,
    /// Show the weight of each parameter of the machine
    #[arg(long)]
    sensitivity: bool,
    /// A similar job with a measured step (TOML with step_s), which sets the rate of kernels
    #[arg(long, value_name = "FILE")]
    anchor: Option<String>,
    /// Search the best layout of a job: least time, then least memory
    #[arg(long, requires = "gpus")]
    search: bool,
    /// Number of GPUs of a job; --search takes several and searches each
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    gpus: Vec<u32>,
    /// Memory per GPU that a layout may fill; default: all of it
    #[arg(long, value_name = "SIZE", requires = "search")]
    memory: Option<Bytes>,
    /// Show what changed since this file
    #[arg(long, value_name = "OLD")]
    diff: Option<String>,
    #[command(flatten)]
    pictures: PictureFlags,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        if self.presets {
            return Ok(preset_names().try_for_each(|name| writeln!(out, "{name}"))?);
        }
        let registry = Registry::builtin();
        if self.search || self.vary.is_some() || self.diff.is_some() {
            self.refuse_picture("a picture shows one step, not several")?;
        }
        if let Some(first) = self.files.first()
            && is_job(first, &Here.text(first)?)
        {
            return self.job(&registry, out);
        }
        self.only_of_jobs()?;
        if let Some(extra) = self.files.get(1) {
            return Err(Error::input(format!("`{extra}` is a second file of steps"))
                .help("name one file of steps, or a job's configurations")
                .into());
        }
        if let Some((key, values)) = self.varied()? {
            let mut found = Vec::new();
            for value in values {
                let mut set = self.set.clone();
                set.push(format!("{key}={value}"));
                let mut plan = self.plan(&registry, self.file(), &set)?;
                match (plan.steps.pop(), plan.steps.is_empty()) {
                    (Some(step), true) => found.push((value, step)),
                    _ => {
                        return Err(Error::input("the file has several steps")
                            .at(format!("--vary {key}"))
                            .help("name one with --step")
                            .into());
                    }
                }
            }
            let report = plan_vary(key, found);
            return self.format.write(out, &report, |_| view::plan::vary(&report));
        }
        let report = self.plan(&registry, self.file(), &self.set)?;
        if self.pictures.asked() {
            let [step] = report.steps.as_slice() else {
                return Err(Error::input("a picture shows one step, and the file has several")
                    .at("--svg")
                    .help("name one with --step")
                    .into());
            };
            if self.pictures.draw(out, || Ok(view::plot::of_plan(step)))? {
                return Ok(());
            }
        }
        if let Some(old) = &self.diff {
            let old = self.plan(&registry, Some(old), &self.set)?;
            let report = plan_diff(&old, &report);
            return self.format.write(out, &report, |look| view::plan::diff(&report, look));
        }
        self.format.write(out, &report, |look| view::plan::plan(&report, look))
    }

    fn file(&self) -> Option<&str> {
        self.files.first().map(String::as_str)
    }

    /// A job from its configuration.
    fn job(&self, registry: &Registry, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let set: Result<Vec<_>> = self.set.iter().map(|text| pair(text)).collect();
        let mut set = set?;
        self.only_of_steps()?;
        match self.gpus.as_slice() {
            [one] if !self.search => set.push(("gpus".to_owned(), one.to_string())),
            [_, _, ..] if !self.search => {
                return Err(Error::input("a job has one number of GPUs")
                    .at("--gpus")
                    .help("write --vary gpus=64,128, or --search")
                    .into());
            }
            _ => {}
        }
        let varied = self.varied()?;
        if varied.is_some() && self.search {
            return Err(Error::input("a search varies the layout itself")
                .at("--vary")
                .help("leave out --vary or --search")
                .into());
        }
        let asked = job::Asked { files: &self.files, set: &set, anchor: self.anchor.as_deref() };
        if self.search {
            let report = job::search(registry, &Here, &asked, &self.gpus, self.memory)?;
            return self.format.write(out, &report, |_| view::job::search(&report));
        }
        if let Some(served) = job::served(registry, &Here, &asked)? {
            self.refuse_picture("a picture shows a step of training, not a server's")?;
            if varied.is_some() {
                return Err(Error::input("the key of a server is not varied")
                    .at("--vary")
                    .help("write --set KEY=VALUE, once for each value")
                    .into());
            }
            return self.format.write(out, &served, |look| view::serve::serve(&served, look));
        }
        if let Some((key, values)) = varied {
            let mut all: Option<job::Jobs> = None;
            for value in values {
                let mut set = set.clone();
                set.push((key.clone(), value.clone()));
                let mut found =
                    job::jobs(registry, &Here, &job::Asked { set: &set, ..asked.clone() })?;
                for job in &mut found.jobs {
                    job.name = format!("{}, {key} {value}", job.name);
                }
                match &mut all {
                    Some(all) => all.jobs.append(&mut found.jobs),
                    None => all = Some(found),
                }
            }
            let Some(report) = all else { return Ok(()) };
            return self.format.write(out, &report, |_| view::job::jobs(&report));
        }
        let mut report = job::jobs(registry, &Here, &asked)?;
        if let [_] = report.jobs.as_slice()
            && let Some(one) = report.jobs.pop()
        {
            let picture = || {
                view::plot::step(&one).ok_or_else(|| {
                    Error::input(
                        "only the memory of this job is known, and a picture shows its step",
                    )
                    .help("write batch = { global = 512, … } in it")
                })
            };
            if self.pictures.draw(out, picture)? {
                return Ok(());
            }
            return self.format.write(out, &one, |look| view::job::job(&one, look));
        }
        self.refuse_picture("a picture shows one step, and these are several jobs")?;
        self.format.write(out, &report, |_| view::job::jobs(&report))
    }

    /// Refuses a picture, if one is asked for.
    fn refuse_picture(&self, why: &str) -> Result<()> {
        match self.pictures.asked() {
            true => {
                Err(Error::input(why).at("--svg, --plot").help("leave it out, or plan one step"))
            }
            false => Ok(()),
        }
    }

    /// Refuses what a job does not have.
    fn only_of_steps(&self) -> Result<()> {
        let flags = [
            ("--step", self.step.is_some()),
            ("--sensitivity", self.sensitivity),
            ("--diff", self.diff.is_some()),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(Error::input(format!("{flag} is for files of steps, and this is a job"))
                    .at(flag)
                    .help("leave it out; --vary KEY=A,B compares values of a job's key"))
            }
            None => Ok(()),
        }
    }

    /// Refuses what steps do not have.
    fn only_of_jobs(&self) -> Result<()> {
        let flags = [
            ("--search", self.search, "steps have the layout that their keys say: --set dp=128"),
            ("--gpus", !self.gpus.is_empty(), "steps have the ranks of their layout: --set dp=128"),
            (
                "--anchor",
                self.anchor.is_some(),
                "steps say the rate of their kernels: --set kernels=400TFLOP/s",
            ),
        ];
        if let Some((flag, _, help)) = flags.into_iter().find(|(_, given, _)| *given) {
            let error = Error::input(format!("{flag} is for jobs, and these are steps"));
            return Err(error.at(flag).help(help));
        }
        if self.preset.is_some() && self.step.is_some() {
            let error = Error::input("--step is for files of steps: a preset is one step");
            return Err(error.at("--step").help("leave it out"));
        }
        Ok(())
    }

    fn plan(&self, registry: &Registry, file: Option<&str>, set: &[String]) -> Result<Plan> {
        let pairs = set.iter().map(|text| pair(text)).collect::<Result<_>>()?;
        let (keys, tweak) = Tweak::sorted(pairs);
        let steps = self.steps(file, &keys)?;
        plan(registry, &steps, &tweak, self.sensitivity)
    }

    fn steps(&self, file: Option<&str>, keys: &[(String, String)]) -> Result<Vec<Step>> {
        let usual = settings()?.get("profile").map(|setting| setting.value.as_str());
        let machines = Machines::new(&Here).usually(usual);
        let asked = match (&self.preset, file) {
            (Some(name), None) => {
                if !preset_names().any(|known| known == name) {
                    return Err(unknown(name));
                }
                Asked::Preset(name)
            }
            (_, file) => {
                Asked::File { name: file.unwrap_or("collcost.toml"), step: self.step.as_deref() }
            }
        };
        load(&machines, &asked, keys).map_err(|faults| Fault::error_of(&faults))
    }

    fn varied(&self) -> Result<Option<(String, Vec<String>)>> {
        let Some(text) = &self.vary else { return Ok(None) };
        let refuse = || {
            Error::input(format!("`{text}` does not name values"))
                .at(format!("--vary {text}"))
                .help("write a key with its values, such as shard_size=8,16,32")
        };
        let (key, values) = text.split_once('=').ok_or_else(refuse)?;
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        if key.is_empty() || values.iter().any(String::is_empty) || values.len() > MOST {
            return Err(refuse());
        }
        Ok(Some((key.trim().to_owned(), values)))
    }
}

/// The most values of a key.
const MOST: usize = 1000;

fn unknown(name: &str) -> Error {
    let error = Error::input(format!("`{name}` is not a preset")).at(format!("--preset {name}"));
    error.help(did_you_mean(name, preset_names(), || {
        format!("known presets: {}", preset_names().collect::<Vec<_>>().join(", "))
    }))
}

fn pair(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        Error::input(format!("`{text}` sets nothing"))
            .at(format!("--set {text}"))
            .help("write KEY=VALUE, such as tp=4 or inter.bw=800Gb/s")
    })?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
