//! NCCL's choice if both buffers of a call are in symmetric windows.

use super::{Question, RangeView, seconds};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::cost_model::{Best, Candidate, CostModel, Windows};
use crate::library::nccl::{Call, Chooser, Version, logged_channels, since};

/// The choices on windows, by size.
pub(super) struct OnWindows<'a> {
    question: &'a Question<'a>,
    chooser: &'a Chooser,
    models: CostModel,
}

/// What runs at a size.
#[derive(Clone, Copy)]
struct Taken {
    size: u64,
    best: Option<Best>,
}

impl<'a> OnWindows<'a> {
    /// The choices of a question.
    ///
    /// # Errors
    /// A release without symmetric kernels.
    pub fn of(question: &'a Question<'a>, chooser: &'a Chooser) -> Result<Self> {
        let version = question.nccl;
        if !version.has(since::SYMMETRIC_KERNELS) {
            return Err(Error::unsupported(format!("NCCL {version} has no symmetric kernels"))
                .at("--registered")
                .help("they were added in 2.27.3: name that release or a later one"));
        }
        let models = match chooser.models() {
            Some(models) => models.clone(),
            None => CostModel::new(question.comm, version, question.settings, question.reduction)?,
        };
        Ok(Self { question, chooser, models })
    }

    /// What to know about these answers.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.question.comm.reach.is_none() {
            notes.push(
                "assumes that a node is one NVLink domain and that windows also work between nodes"
                    .to_owned(),
            );
        }
        notes
    }

    fn call(&self, size: u64) -> Call {
        Call { function: self.question.function, size: Bytes(size), pipelined: 1 }
    }

    fn at(&self, size: u64) -> Taken {
        let call = self.call(size);
        let best = match self.chooser.models() {
            Some(models) => models.decide(&call, Windows::Both),
            None => self.models.instead_of(self.chooser, &call),
        };
        Taken { size, best }
    }

    /// The key by which two choices differ.
    fn key(&self, taken: &Taken) -> Option<String> {
        match taken.best {
            Some(best) => Some(best.candidate.name(self.question.nccl).into_owned()),
            None => self
                .chooser
                .decide(&self.call(taken.size))
                .map(|d| format!("{}/{}", d.algo, d.proto)),
        }
    }

    /// The choices between two sizes. If one changes and changes back within a sixteenth of a power
    /// of two, that is ignored.
    pub fn ranges(&self, from: Bytes, to: Bytes) -> Vec<RangeView> {
        let points = CostModel::points().filter(|&p| from.0 < p && p < to.0).chain([to.0]);
        let mut ranges = Vec::new();
        let mut first = self.at(from.0);
        let mut last = first;
        for point in points {
            let end = self.at(point);
            while self.key(&last) != self.key(&end) {
                let (before, behind) = self.change(last, end);
                ranges.push(self.range(first, before));
                (first, last) = (behind, behind);
            }
            last = end;
        }
        ranges.push(self.range(first, last));
        ranges
    }

    /// The two adjacent sizes between which the choice at the lower size changes.
    fn change(&self, mut low: Taken, mut high: Taken) -> (Taken, Taken) {
        let key = self.key(&low);
        while high.size - low.size > 1 {
            let middle = self.at(low.size + (high.size - low.size) / 2);
            if self.key(&middle) == key { low = middle } else { high = middle }
        }
        (low, high)
    }

    fn range(&self, first: Taken, last: Taken) -> RangeView {
        let decision = |taken: Taken| match taken.best {
            Some(best) => best.decision(),
            None => self.chooser.decide(&self.call(taken.size)),
        };
        let (from, to) = (decision(first), decision(last));
        let version = self.question.nccl;
        let kernel = first.best.and_then(|best| name(best.candidate, version));
        let blocks = |taken: Taken, channels: Option<u32>| {
            channels.or(taken.best.map(|best| best.channels)).filter(|&channels| channels > 0)
        };
        let comm = self.question.comm;
        let used = |taken: Taken| {
            let call = self.call(taken.size);
            match decision(taken) {
                Some(d) => Some(logged_channels(comm, self.question.nccl, &call, &d)),
                None => taken.best.and_then(|best| self.models.launched(&call, &best)),
            }
        };
        let time = |taken: Taken, own: Option<f32>| {
            own.or(taken.best.and_then(|best| best.time()).map(|t| t.0)).map(seconds)
        };
        let middle = (first.size as f64 * last.size as f64).sqrt() as u64;
        let middle = self.call(middle.clamp(first.size, last.size));
        let ranked = match (first.best, self.chooser.models()) {
            (Some(_), _) | (_, Some(_)) => self.models.ranked(&middle, Windows::Both),
            (None, None) => Vec::new(),
        };
        let second = ranked.first().zip(ranked.get(1));
        RangeView {
            from_bytes: first.size,
            to_bytes: last.size,
            kernel,
            algorithm: from.map(|d| d.algo.name()),
            protocol: from.map(|d| d.proto.name()),
            channels_from: blocks(first, from.map(|d| d.channels)),
            channels_to: blocks(last, to.map(|d| d.channels)),
            logged_channels_from: used(first),
            logged_channels_to: used(last),
            threads: blocks(last, to.map(|d| d.threads).or(last.best.map(|best| best.threads))),
            threads_from: blocks(
                first,
                from.map(|d| d.threads).or(first.best.map(|best| best.threads)),
            ),
            time_from_s: time(first, from.and_then(|d| d.time).map(|t| t.0)),
            time_to_s: time(last, to.and_then(|d| d.time).map(|t| t.0)),
            second: second.map(|(_, second)| second.candidate.name(version).into_owned()),
            margin: second
                .map(|(first, second)| f64::from(second.compared().0 / first.compared().0) - 1.0),
        }
    }

    /// The rule that decided, in a sentence.
    pub fn rule(&self, size: Bytes) -> String {
        let call = self.call(size.0);
        let ranked = self.models.ranked(&call, Windows::Both);
        let version = self.question.nccl;
        let (Some(_), Some(first)) =
            (self.at(size.0).best.and_then(|b| name(b.candidate, version)), ranked.first())
        else {
            return "no kernel on windows serves this call: NCCL chooses among the algorithms"
                .to_owned();
        };
        match (first.candidate, ranked.get(1)) {
            (Candidate::Copied(_), _) => {
                "an all-gather this large goes to the copy engines, whatever time kernels take"
                    .to_owned()
            }
            (_, None) => {
                format!("{} is the only kernel that may run", first.candidate.name(version))
            }
            (_, Some(second)) => format!(
                "the least estimate of {} kernels, with its blocks charged; algorithms are not \
                 considered: {} {:.1} µs, then {} {:.1} µs",
                ranked.len(),
                first.candidate.name(version),
                first.compared().0,
                second.candidate.name(version),
                second.compared().0
            ),
        }
    }
}

fn name(candidate: Candidate, version: Version) -> Option<&'static str> {
    match candidate {
        Candidate::General(..) => None,
        Candidate::Symmetric(kernel) => Some(kernel.name(version)),
        Candidate::Copied(copies) => Some(copies.name()),
    }
}
