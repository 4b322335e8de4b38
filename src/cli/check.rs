//! `collcost check`: budgets of a file, compared with the model or measurements.

use std::io::Write;
use std::path::Path;

use super::Stop;
use super::against::At;
use super::files::{Here, Noted};
use super::format::{FormatFlag, Formats, OfBudgets, write};
use super::input;
use super::output::{append, refuse_input, write_whole};
use super::profiles::today;
use super::streams::say;
use super::terminal::look;
use collcost::answer;
use collcost::answer::check::Check;
use collcost::answer::check_diff::CheckDiff;
use collcost::base::error::{Error, Result, did_you_mean};
use collcost::base::format::Format;
use collcost::base::quantity::{Percent, Ratio};
use collcost::machine::profile::Date;
use collcost::plan::check::{At as Point, Checked, Gate, Options, check, thresholds, update};
use collcost::view::Look;
use collcost::view::check as results;
use collcost::view::check_diff as compared;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost check
  collcost check budgets.toml --format github --write junit=report.xml
  collcost check --write summary=$GITHUB_STEP_SUMMARY --write gitlab=gl-code-quality.json
  collcost check --update --margin 10%
  collcost check --threshold-for nccl-tests
  collcost check --against origin/main --format markdown > comment.md
  git diff --quiet origin/main -- $(collcost check --inputs) || collcost check

A budget in the file:

  [[budget]]
  name = \"gradients\"
  collective = \"allreduce\"
  n = 64
  size = \"1GiB\"
  profile = \"dgx-h100\"
  max_time = \"6ms\"     # or min_busbw, max_bound_ratio, max_regret, max_exposed, within …

A budget holds when the whole band of the expected value is within its limit, fails when none of the
band is, and is at risk in between.

Exit code 0: no budget fails. 1: a budget fails or, with --strict, is at risk. 2: the file is wrong;
all its faults are listed.")]
pub(super) struct Args {
    /// The file of budgets, or - for standard input; default: collcost.toml
    #[arg(value_name = "FILE", default_value = "collcost.toml", hide_default_value = true)]
    file: String,
    #[command(flatten)]
    format: FormatFlag<OfBudgets>,
    /// Judge by one point of the band (low, mid or high) instead of the whole band
    #[arg(long, value_name = "POINT")]
    at: Option<String>,
    /// Also fail a budget whose limit is inside the band
    #[arg(long)]
    strict: bool,
    /// Also write the results to a file, such as junit=report.xml; a summary is appended
    #[arg(long, value_name = "FORMAT=FILE")]
    write: Vec<String>,
    /// Show what changed since a git revision, or since another file
    #[arg(long, value_name = "REF|FILE", conflicts_with_all = ["update", "threshold_for"])]
    against: Option<String>,
    /// Print the files that the results depend on, one a line, instead of the results
    #[arg(long, conflicts_with_all = ["against", "update", "threshold_for", "write"])]
    inputs: bool,
    /// Write limits into the file: the worse end of each expected range plus a margin
    #[arg(long)]
    update: bool,
    /// The margin for --update
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "10%",
        requires = "update",
        allow_hyphen_values = true
    )]
    margin: String,
    /// The date for which waivers are checked, such as 2026-12-31; default: today
    #[arg(long, value_name = "DATE")]
    today: Option<String>,
    /// Print the rate below which another tool should fail each size, from what is expected and not
    /// from the limits: nccl-tests, sichek, nvsentinel, dcgm, ai-cloud-validation or cluster-toolkit
    #[arg(long, value_name = "GATE", conflicts_with_all = ["update", "write"])]
    threshold_for: Option<String>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let format = self.format.get()?;
        let writes = self.writes()?;
        let margin = margin(&self.margin)?;
        if self.update && self.file == "-" {
            return Err(Error::input("standard input cannot be updated")
                .at("check - --update")
                .help("name the file into which the limits are written")
                .into());
        }
        let at =
            self.at.as_ref().map(|at| at.parse::<Point>().map_err(|e| e.at(format!("--at {at}"))));
        let at = at.transpose()?;
        let updating = self.update || self.threshold_for.is_some();
        let options = Options { updating, at, today: self.today()? };
        let noted = Noted::default();
        let checked = check(&noted, &self.file, &options);
        for (_, file) in &writes {
            refuse_input("--write", file, noted.read.borrow().iter().map(String::as_str))?;
        }
        if self.inputs && checked.faults.is_empty() {
            let report = answer::check::inputs(noted.read.into_inner());
            return write(format, out, &report, |_| results::inputs(&report));
        }
        let mut report = answer::check::check(&self.file, &checked, self.strict);
        if self.inputs && format == Format::Text {
            // Who reads names of files gets none, and not the words of faults.
            put(&mut std::io::stderr(), format, &report, None, Look::document())?;
            return Err(Stop::Faults);
        }
        let diff = |against: &String| {
            let before = match Path::new(against).is_file() {
                true => check(&Here, against, &options),
                false => check(&At::new(against)?, &self.file, &options),
            };
            Ok::<_, Error>(answer::check_diff::check_diff(against, &before, &checked, self.strict))
        };
        let diff = self.against.as_ref().map(diff).transpose()?;
        if let Some(diff) = &diff {
            report.explain(diff);
            // The page has it.
            if let (Some(fault), true) = (diff.faults_before.first(), format != Format::Text) {
                say(format_args!("note: {} is not compared: {}", diff.against, fault.what));
            }
        }
        if let (Some(gate), true) = (&self.threshold_for, checked.faults.is_empty()) {
            return self.thresholds(gate, &checked, out);
        }
        if self.update && checked.faults.is_empty() {
            let changed = update_files(&checked, margin)?;
            let after = check(&Here, &self.file, &Options { updating: false, ..options });
            report = answer::check::check(&self.file, &after, self.strict);
            match changed {
                1 => say("note: 1 limit was written"),
                _ => say(format_args!("note: {changed} limits were written")),
            }
        }
        let shown = |format| if format == Format::Text { look() } else { Look::document() };
        put(out, format, &report, diff.as_ref(), shown(format))?;
        let mut lost = None;
        for (format, file) in writes {
            let mut text = Vec::new();
            let look = Look { whole: format != Format::Text, ..Look::default() };
            put(&mut text, format, &report, diff.as_ref(), look)?;
            if let Err(error) = keep(format, file, &text) {
                lost = lost.or(Some(error));
            }
        }
        out.flush()?;
        let verdict = match (report.faults.is_empty(), report.any_fails()) {
            (true, false) => return lost.map_or(Ok(()), |error| Err(error.into())),
            (true, true) => Stop::Failed,
            (false, _) => Stop::Faults,
        };
        // What was judged does not change with what could be written.
        if let Some(error) = lost {
            say(error);
        }
        Err(verdict)
    }

    /// The date for which waivers are checked: the one given, else that of this computer's clock.
    fn today(&self) -> Result<Option<Date>> {
        match &self.today {
            Some(day) => day.parse().map(Some).map_err(|e: Error| e.at(format!("--today {day}"))),
            None => Ok(today()),
        }
    }

    fn writes(&self) -> Result<Vec<(Format, &str)>> {
        let mut all = Vec::new();
        for text in &self.write {
            let (id, file) = text.split_once('=').ok_or_else(|| {
                Error::input(format!("`{text}` does not name a file"))
                    .at(format!("--write {text}"))
                    .help("write FORMAT=FILE, such as junit=report.xml")
            })?;
            if file.is_empty() {
                return Err(Error::input("the file has no name")
                    .at(format!("--write {text}"))
                    .help("is a variable unset?"));
            }
            if all.iter().any(|(_, known)| *known == file) {
                return Err(Error::input(format!("{file} would be written twice"))
                    .at(format!("--write {text}"))
                    .help("name another file"));
            }
            all.push((known(id)?, file));
        }
        Ok(all)
    }

    fn thresholds(
        &self,
        gate: &str,
        checked: &Checked,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        let gate = Gate::named(gate).map_err(|e| e.at(format!("--threshold-for {gate}")))?;
        let found = thresholds(gate, &checked.budgets)?;
        let report = answer::check::thresholds(gate, &found);
        write(self.format.get()?, out, &report, |_| results::thresholds(&report))
    }
}

/// Writes the comparison in the formats for people and in JSON. The formats of programs that gather
/// results get the state of each budget, with what changed it.
fn put(
    out: &mut impl Write,
    format: Format,
    report: &Check,
    diff: Option<&CheckDiff>,
    look: Look,
) -> std::result::Result<(), Stop> {
    match (diff, format) {
        (Some(diff), Format::Markdown | Format::Summary) => compared::comment(out, diff)?,
        (Some(diff), Format::Json) => collcost::view::json(out, diff)?,
        (Some(diff), Format::Text | Format::Csv | Format::Latex) => {
            compared::check_diff(diff).write(out, format, look)?;
        }
        _ => results::write(out, format, report, look)?,
    }
    Ok(())
}

fn known(id: &str) -> Result<Format> {
    let found = Format::named(id).filter(|format| OfBudgets::ALL.contains(format));
    found.ok_or_else(|| {
        let known = || OfBudgets::ALL.iter().map(|format| format.id());
        Error::input(format!("`{id}` is not a format of results")).at(format!("--write {id}")).help(
            did_you_mean(id, known(), || {
                format!("known formats: {}", known().collect::<Vec<_>>().join(", "))
            }),
        )
    })
}

/// Writes limits into the files of `checked`; the number of limits that changed.
fn update_files(checked: &Checked, margin: Ratio) -> Result<usize> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for budget in &checked.budgets {
        if !texts.iter().any(|(file, _)| *file == budget.file) {
            let text = input::text_at(&budget.file, &budget.file)?;
            texts.push((budget.file.clone(), text));
        }
    }
    let edited = update(checked, &texts, margin);
    // A file that can be read no more is worse than limits that are old.
    for one in &edited {
        if let Err(refused) = toml::from_str::<toml::Table>(&one.text) {
            let what = format!("the limits cannot be written: {}", refused.message());
            return Err(Error::input(what)
                .at(one.file.clone())
                .help("write each budget as a table [[budget]]"));
        }
    }
    for one in &edited {
        write_whole("--update", Path::new(&one.file), &one.text)?;
    }
    Ok(edited.iter().map(|e| e.changed).sum())
}

fn margin(text: &str) -> Result<Ratio> {
    let place = |e: Error| e.at(format!("--margin {text}"));
    let Percent(part) = text.parse().map_err(place)?;
    if part > 10.0 {
        return Err(place(Error::input("the margin is above 1000 %").help("write 10%, or 0.1")));
    }
    Ok(Ratio(part))
}

/// A summary belongs to a whole job, whose other steps write to the same file.
fn keep(format: Format, file: &str, text: &[u8]) -> Result<()> {
    let (flag, text) = (format!("--write {}", format.id()), String::from_utf8_lossy(text));
    match format {
        Format::Summary => append(&flag, Path::new(file), &text),
        _ => write_whole(&flag, Path::new(file), &text),
    }
}
