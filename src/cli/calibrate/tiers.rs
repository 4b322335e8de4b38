//! Links of two tiers, each measured by itself: inside groups of ranks, and between groups.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::kept::SAMPLES;
use super::site::Site;
use super::{AUTO, Args};
use crate::cli::streams::say;
use collcost::base::error::Result;
use collcost::machine::sample::Samples;
use collcost::run::calibrate::{Groups, Plan, Survey, possible, survey};
use collcost::run::transport::{Kind, Wait};

/// The part of what is left then in which collectives run over the ranks of all groups.
const WHOLE: f64 = 0.2;

/// Which links are measured.
#[derive(Clone, Copy)]
pub(super) enum Links<'a> {
    /// Those between any two ranks, of which this is known.
    All(&'a Samples),
    /// Those inside the first group.
    Inside(&'a Groups),
    /// Those between one rank of each group; then, if bytes move there as they do inside, for so long
    /// collectives of all ranks.
    Between(&'a Groups, Option<Duration>),
}

impl<'a> Links<'a> {
    /// The groups.
    pub(super) fn groups(self) -> Option<&'a Groups> {
        match self {
            Self::All(_) => None,
            Self::Inside(groups) | Self::Between(groups, _) => Some(groups),
        }
    }
}

impl Args {
    /// The samples of each tier with their file, the innermost first.
    pub(super) fn tiers(&self, plan: &Plan, site: &mut Site) -> Result<Vec<(String, Samples)>> {
        let (began, file) = (Instant::now(), self.samples_file()?);
        self.existing().check(&file)?;
        let Survey { groups, before } = self.survey(plan, site)?;
        let Some(groups) = groups else {
            let plan = plan.clone().less(began.elapsed());
            return Ok(vec![self.measure(&plan, site, Links::All(&before), file)?]);
        };
        let (span, count) = (groups.span(), groups.heads().len());
        say(format_args!(
            "{count} groups of {span} ranks are near each other ({}): links inside a group and between \
             groups are measured by themselves",
            groups.words()
        ));
        let (inside, between) = (site.inside(&groups)?, site.setup.transport);
        site.only(groups.first().to_vec(), inside);
        let plan = self.plan(&site.setup)?.less(began.elapsed()).half();
        let near = self.measure(&plan, site, Links::Inside(&groups), beside(&file))?;
        site.only(groups.heads(), between);
        let mut plan = self.plan(&site.setup)?.less(began.elapsed());
        let whole = (inside == between).then(|| plan.longest.mul_f64(WHOLE));
        plan = plan.less(whole.unwrap_or_default());
        let links = Links::Between(&groups, whole);
        let far = self.measure(&plan, site, links, file)?;
        Ok(vec![near, far])
    }

    /// Whether ranks form groups, if operations are not chosen by hand and there may be any.
    fn survey(&self, plan: &Plan, site: &mut Site) -> Result<Survey> {
        // Ranks that share a CPU are near each other for that alone.
        let tells = site.setup.transport == Kind::Tcp || site.setup.wait == Some(Wait::Spin);
        if self.ops != AUTO || !possible(plan.ranks) || !tells {
            return Ok(Survey::default());
        }
        let (mut runner, start, _) = site.launch()?;
        survey(&mut *runner, start, plan)
    }
}

/// The file of samples of the links inside groups, beside the other.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.strip_suffix(SAMPLES).or_else(|| name.strip_suffix(".jsonl")).unwrap_or(&name);
    file.with_file_name(format!("{stem}.inside{SAMPLES}"))
}
