//! The public interface: a [`Question`] and fourteen functions.
//!
//! Everything they return is plain data. Names with `expect…` are times that real runs are expected
//! to take; ideal ones are prices of a schedule in the α-β model.

use std::num::NonZeroU32;

use crate::answer::explain::Explanation;
use crate::answer::job::Jobs;
use crate::answer::plan::Plan;
use crate::answer::serve::ServeView;
use crate::answer::{Intervals, Row};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::cost::simulate::{Outcome, Setup};
use crate::library::tuning_file::read_rules;
use crate::library::{Call, Choice, of_file, policy};
use crate::machine::parameters::{Parameter, Parameters, counted};
use crate::machine::profile::Profile;
use crate::machine::query::Query;
use crate::measure::expect::{Expect, Expecting, site};
use crate::measure::schedule_of::schedule_of;
use crate::measure::verdict::{Facts, Typed, Verdict, judge};
use crate::model::algorithm::Registry;
use crate::plan::bucket::{Gradients, Rule, Tensor};
use crate::plan::table::{Disk, Fault, Files, Machines};
use crate::{answer, plan as steps};

/// A collective of a size, on a machine, with a number of ranks.
///
/// ```
/// use collcost::{Bytes, Collective, Question};
///
/// let question = Question::new(Collective::AllReduce, Bytes(16 << 20)).on("dgx-h100")?.ranks(64);
/// assert_eq!(collcost::expect(&question)?.runs.name(), "NVLSTree/Simple");
/// # Ok::<(), collcost::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Question {
    collective: Collective,
    size: Bytes,
    machine: Option<Profile>,
    said: Parameters,
    seen: Vec<(Bytes, Seconds)>,
    /// The first count that is none.
    refused: Option<Error>,
}

impl Question {
    /// On one node of the default machine; `size` counts as nccl-tests counts it.
    #[must_use]
    pub fn new(collective: Collective, size: Bytes) -> Self {
        let said = Parameters::default();
        Self { collective, size, machine: None, said, seen: Vec::new(), refused: None }
    }

    /// The same of another size.
    #[must_use]
    pub fn sized(self, size: Bytes) -> Self {
        Self { size, ..self }
    }

    /// On a built-in machine, or on the one in a profile file.
    ///
    /// # Errors
    /// As [`machine`].
    pub fn on(self, name: &str) -> Result<Self> {
        Ok(self.machine(machine(name)?))
    }

    /// On a machine that a program has: read by [`Profile::parse`], or built in, by [`Profile::builtin`], which opens no file.
    #[must_use]
    pub fn machine(self, machine: Profile) -> Self {
        Self { machine: Some(machine), ..self }
    }

    /// On links with one α and one rate, without a machine.
    #[must_use]
    pub fn links(mut self, alpha: Seconds, bandwidth: Bandwidth) -> Self {
        if Seconds::checked(alpha.0).is_none() || Bandwidth::checked(bandwidth.0).is_none() {
            let what = format!("no link takes {alpha} and carries {bandwidth}");
            self.refused.get_or_insert(
                Error::input(what).help("give an α of 0 or more and a rate above 0"),
            );
        }
        (self.said.given.alpha, self.said.given.bandwidth) = (Some(alpha), Some(bandwidth));
        self
    }

    /// With this number of ranks.
    #[must_use]
    pub fn ranks(mut self, ranks: u32) -> Self {
        self.said.layout.ranks = self.counted("ranks", ranks);
        self
    }

    /// With this number of ranks on each node.
    #[must_use]
    pub fn per_node(mut self, ranks: u32) -> Self {
        self.said.layout.per_node = self.counted("ranks per node", ranks);
        self
    }

    fn counted(&mut self, what: &str, number: u32) -> Option<NonZeroU32> {
        counted(what, number).map_err(|error| self.refused.get_or_insert(error)).ok()
    }

    /// With any parameter, by its key in `collcost.toml`: `with("alpha_inter", "2.4us")`.
    ///
    /// # Errors
    /// An unknown key; a value that cannot be parsed, or that contradicts another.
    pub fn with(mut self, key: &str, value: &str) -> Result<Self> {
        let parameter = Parameter::named(key)?;
        self.said.put(parameter, value)?;
        match self.said.profile.take() {
            Some(name) => self.on(&name),
            None => Ok(self),
        }
    }

    /// With a measurement: the same call took `time` at `size`. Expectations are adjusted to it.
    #[must_use]
    pub fn seen(mut self, size: Bytes, time: Seconds) -> Self {
        self.seen.push((size, time));
        self
    }

    /// The question in the form that the internal modules use.
    ///
    /// # Errors
    /// No ranks, or more than the machine connects; ranks that do not fill whole nodes; a barrier with bytes;
    /// more bytes than any memory; measurements that say nothing.
    pub fn query(&self) -> Result<Query> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        self.collective.sized(Some(self.size.possible()?))?;
        let named = self.machine.clone().map(|profile| (profile, "--on"));
        let mut query = self.said.query(named, self.collective, self.size)?;
        if let Some((_, error)) = self.said.idle(&query, |_| true) {
            return Err(error);
        }
        query.see(self.seen.iter().copied())?;
        Ok(query)
    }
}

/// A built-in machine by name, or the profile in a file.
///
/// ```
/// assert_eq!(collcost::machine("h100")?.name, "dgx-h100");
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// An unknown name, with the nearest one; a file that cannot be read or is not a profile.
pub fn machine(name: &str) -> Result<Profile> {
    Disk.profile(name)
}

/// How long a call will take: time, band, what runs, and what the prediction is based on.
///
/// ```
/// use collcost::{Bytes, Collective, Question};
///
/// let question = Question::new(Collective::AllReduce, Bytes(1 << 20)).on("dgx-h100")?.ranks(8);
/// let expect = collcost::expect(&question)?;
/// assert!(expect.low_s < expect.time_s && expect.time_s < expect.high_s);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// As [`Question::query`]; an unknown parameter of the machine, if there is no other basis.
pub fn expect(question: &Question) -> Result<Expect> {
    let query = question.query()?;
    Ok(Expect::new(&Expecting::new(&Registry::builtin(), &query)?, query.size))
}

/// The same for several sizes, prepared once: a size takes less than a microsecond then.
///
/// ```
/// use collcost::{Bytes, Collective, Question};
///
/// let question = Question::new(Collective::AllReduce, Bytes(0)).on("dgx-h100")?.ranks(8);
/// let found = collcost::times(&question, &[Bytes(1 << 10), Bytes(1 << 30)])?;
/// assert!(found[0].time_s < found[1].time_s);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// As [`expect`].
pub fn times(question: &Question, sizes: &[Bytes]) -> Result<Vec<Expect>> {
    let (registry, query) = (Registry::builtin(), question.query()?);
    let expecting = Expecting::new(&registry, &query)?;
    let one = |size: &Bytes| {
        question.collective.sized(Some(size.possible()?))?;
        Ok(Expect::new(&expecting, *size))
    };
    sizes.iter().map(one).collect()
}

/// Every algorithm that applies with its ideal price, the cheapest first.
///
/// ```
/// use collcost::{Bandwidth, Bytes, Collective, Question, Seconds};
///
/// let question = Question::new(Collective::AllReduce, Bytes(1_000_000_000))
///     .links(Seconds(5e-6), Bandwidth(1e11))
///     .ranks(64);
/// let ring = collcost::ideal(&question)?.into_iter().find(|row| row.id == "ring").unwrap();
/// assert_eq!(ring.time_s, Some(20.3175e-3));
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// As [`Question::query`]; a parameter that prices need is unknown.
pub fn ideal(question: &Question) -> Result<Vec<Row>> {
    let cost = answer::cost(&Registry::builtin(), &question.query()?, None, true)?;
    Ok(cost.algorithms.into_iter().filter(|row| row.applies).collect())
}

/// The ideal price of one algorithm, by its id, or by another name that `collcost list algorithms` has: NCCL's `Ring` is a
/// ring over each rail, `ring` is one ring.
///
/// ```
/// use collcost::{Bandwidth, Bytes, Collective, Question, Seconds};
///
/// let question = Question::new(Collective::AllReduce, Bytes(1_000_000_000))
///     .links(Seconds(5e-6), Bandwidth(1e11))
///     .ranks(64);
/// assert_eq!(collcost::price(&question, "ring")?.time_s, Some(20.3175e-3));
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// As [`ideal`]; an algorithm that is unknown or does not apply.
pub fn price(question: &Question, algorithm: &str) -> Result<Row> {
    let cost = answer::cost(&Registry::builtin(), &question.query()?, Some(algorithm), true)?;
    let unsupported = |why: String| Error::unsupported(format!("`{algorithm}`: {why}"));
    match cost.algorithms.into_iter().next() {
        Some(row) if row.applies => Ok(row),
        Some(row) => Err(unsupported(row.reason.unwrap_or_default())),
        None => Err(unsupported("it does not apply".to_owned())),
    }
}

/// A library's choice: `nccl`, `openmpi@4.1`, `mpich`, any name of `collcost list policies`, or that with a
/// tuning file, as `rules-file:PATH`.
///
/// ```
/// use collcost::{Bytes, Collective, Question};
///
/// let question = Question::new(Collective::AllReduce, Bytes(64 << 20)).on("dgx-h100")?.ranks(8);
/// assert_eq!(collcost::choose(&question, "nccl")?.name, "NVLS/Simple");
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// An unknown library; a file that cannot be read or has no rules; a call for which it has no rule.
pub fn choose(question: &Question, library: &str) -> Result<Choice> {
    let query = question.query()?;
    answer::select::refuse_empty(&Registry::builtin(), &query)?;
    let site = site(&query);
    let policy = match library.strip_prefix("rules-file:") {
        Some(path) => of_file(read_rules(&Disk.text(path)?, path)?, path, &site)?,
        None => policy(library, &site)?,
    };
    policy.choose(&Call::of(&query))
}

/// The formula of an algorithm, with the question's numbers, step by step.
///
/// ```
/// use collcost::{Bytes, Collective, Question};
///
/// let question = Question::new(Collective::AllReduce, Bytes(1 << 20)).on("dgx-h100")?.ranks(8);
/// let ring = serde_json::to_value(collcost::explain(&question, "ring")?).unwrap();
/// assert_eq!(ring["schema"], "collcost/explain/1");
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// An algorithm that is unknown or does not apply.
pub fn explain(question: &Question, algorithm: &str) -> Result<Explanation> {
    answer::explain::algorithm(&Registry::builtin(), &question.query()?, algorithm)
}

/// Whether measured times of the call are healthy, and if not, why.
///
/// ```
/// use collcost::{Bytes, Collective, Question, Seconds};
///
/// let question = Question::new(Collective::AllReduce, Bytes(0)).on("dgx-h100")?.ranks(8);
/// let verdict = collcost::compare(&question, &[(Bytes(1 << 30), Seconds(50e-3))])?;
/// assert_eq!(verdict.points.len(), 1);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// As [`expect`]; no times; one rank; a call of 0 bytes; a time that is not above 0.
pub fn compare(question: &Question, times: &[(Bytes, Seconds)]) -> Result<Verdict> {
    let query = question.query()?;
    let times = times.iter().map(|&(size, time)| Typed::Time(time).call(&query, size));
    let times = times.collect::<Result<Vec<_>>>()?;
    if times.is_empty() {
        return Err(Error::input("no times to compare").help("give a size and its time"));
    }
    let facts =
        Facts { typed: times.first().map(|&(_, time)| Typed::Time(time)), ..Facts::default() };
    judge(&Registry::builtin(), &query, None, false, &times, &facts)
}

/// Where the answer changes as the size grows: what the library runs, and the lowest ideal time.
///
/// ```
/// use collcost::{Bytes, Collective, Question};
///
/// let question = Question::new(Collective::AllReduce, Bytes(0)).on("dgx-h100")?.ranks(64);
/// assert!(collcost::crossover(&question)?.runs.len() > 1);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// As [`ideal`].
pub fn crossover(question: &Question) -> Result<Intervals> {
    if question.collective == Collective::Barrier {
        return Err(Error::input("a barrier moves no data: nothing changes with its size")
            .help("ask what it takes on other numbers of ranks"));
    }
    answer::over_sizes(&Registry::builtin(), &question.query()?, &[])
}

/// The collectives of the steps in a file: its tables `[step.NAME]`, as described in `docs/reference/plans.md`. Jobs are
/// planned by [`jobs`] and [`server`].
///
/// ```no_run
/// let steps = collcost::plan("plan.toml")?.steps;
/// assert!(steps[0].step_low_s <= steps[0].step_s);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// The faults in the file, with their places.
pub fn plan(file: &str) -> Result<Plan> {
    let machines = Machines::new(&Disk);
    let asked = steps::Asked::File { name: file, step: None };
    let loaded = steps::load(&machines, &asked, &[]);
    let loaded = loaded.map_err(|faults| Fault::error_of(&faults))?;
    answer::plan::plan(&Registry::builtin(), &loaded, &steps::Tweak::default(), false)
}

/// The training jobs of configurations, such as a launch script and a `config.json`; `set` overrides their keys, as
/// `collcost plan FILE --set KEY=VALUE` does.
///
/// ```no_run
/// let found = collcost::jobs(&["train.sh"], &[("machine", "dgx-h100")])?;
/// assert!(found.jobs[0].fits);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// A file that cannot be read; a value that is missing, by name; a file that starts a server.
pub fn jobs(files: &[&str], set: &[(&str, &str)]) -> Result<Jobs> {
    asked(files, set, |asked| answer::job::jobs(&Registry::builtin(), &Disk, asked))
}

/// The same of what serves a model: memory, a decode step and a prefill.
///
/// ```no_run
/// let served = collcost::server(&["serve.sh"], &[("machine", "dgx-h100")])?;
/// assert!(served.fits && served.cache_tokens > 1e5);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// As [`jobs`]; a file that starts a training.
pub fn server(files: &[&str], set: &[(&str, &str)]) -> Result<ServeView> {
    asked(files, set, |asked| {
        answer::job::served(&Registry::builtin(), &Disk, asked)?.ok_or_else(|| {
            Error::input("these files start a training, not a server")
                .at(files.join(", "))
                .help("jobs() plans it")
        })
    })
}

fn asked<T>(
    files: &[&str],
    set: &[(&str, &str)],
    answer: impl FnOnce(&answer::job::Asked<'_>) -> Result<T>,
) -> Result<T> {
    let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
    let set: Vec<_> = set.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    answer(&answer::job::Asked { files: &files, set: &set, anchor: None })
}

/// Gradients of 32 bits, in the order of registration, fused by a rule (`ddp`, `megatron`,
/// `deepspeed`, `xla`, …) and priced as calls of `question`, whose size does not count.
///
/// ```
/// use collcost::{Bytes, Collective, Question};
///
/// let question = Question::new(Collective::AllReduce, Bytes(0)).on("dgx-h100")?.ranks(64);
/// let buckets = collcost::bucket(&question, &[Bytes(4 << 20); 20], "ddp")?;
/// assert!(buckets.buckets.len() > 1);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// An unknown rule; as [`expect`].
pub fn bucket(
    question: &Question,
    gradients: &[Bytes],
    rule: &str,
) -> Result<answer::bucket::Buckets> {
    let registry = Registry::builtin();
    let query = question.query()?;
    let expecting = Expecting::new(&registry, &query)?;
    for gradient in gradients {
        gradient.possible()?;
    }
    let tensor = |(i, &bytes)| Tensor::new(&format!("tensor {i}"), bytes);
    let gradients = Gradients::Tensors(gradients.iter().enumerate().map(tensor).collect());
    answer::bucket::bucket(&gradients, &Rule::named(rule)?, Some((&query, &expecting)), None)
}

/// Simulates the schedule of an algorithm, or of what the library runs, message by message, without the launch of a call.
///
/// ```
/// use collcost::{Bandwidth, Bytes, Collective, Question, Seconds};
///
/// let question = Question::new(Collective::AllReduce, Bytes(1_000_000))
///     .links(Seconds(1e-6), Bandwidth(1e9))
///     .ranks(4);
/// let played = collcost::simulate(&question, Some("ring"))?;
/// assert!((played.makespan.0 - 1506e-6).abs() < 1e-12);
/// # Ok::<(), collcost::Error>(())
/// ```
///
/// # Errors
/// An algorithm that has no schedule for these ranks; a schedule too large to simulate.
pub fn simulate(question: &Question, algorithm: Option<&str>) -> Result<Outcome> {
    let query = question.query()?;
    let spelled = schedule_of(&Registry::builtin(), &query, algorithm, None)?;
    let setup = Setup::new(Volume::from(query.size));
    crate::cost::simulate::simulate(&*spelled.schedule, &query.machine.fabric, &setup)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tuning file is a policy here, too, as the refusal of an unknown one offers.
    #[test]
    fn a_tuning_file_chooses() {
        let question = Question::new(Collective::AllReduce, Bytes(192 << 10));
        let question = question.on("dgx-h100").unwrap().ranks(16);
        let file = "rules-file:tests/data/nccl_tuner_switch_point.csv";
        let [by_file, own] = [file, "nccl"].map(|name| choose(&question, name).unwrap().name);
        assert!(by_file.starts_with("nvls_tree") && own.starts_with("Tree/LL"), "{by_file} {own}");
        let refused = choose(&question, "rules-file:/nowhere").unwrap_err().to_string();
        assert!(refused.contains("`/nowhere` cannot be read"), "{refused}");
    }

    /// A profile that a program has is a machine; links that nothing has are refused; training and serving have plans.
    #[test]
    fn a_program_has_its_own_machine() {
        let question = Question::new(Collective::AllReduce, Bytes(1 << 20)).ranks(8);
        let built_in = question.clone().machine(Profile::builtin("dgx-h100").unwrap());
        let named = question.clone().on("dgx-h100").unwrap();
        assert_eq!(expect(&built_in).unwrap().time_s, expect(&named).unwrap().time_s);
        let alone = expect(&named).unwrap().time_s;
        assert_eq!(times(&named, &[Bytes(1 << 20)]).unwrap()[0].time_s, alone);
        assert!(machine("/nowhere.toml").unwrap_err().is_profile());
        for (alpha, rate) in [(f64::NAN, 1e9), (-1.0, 1e9), (0.0, -1.0), (1e-6, 0.0), (1e-6, 1e300)]
        {
            let linked = question.clone().links(Seconds(alpha), Bandwidth(rate));
            assert!(expect(&linked).is_err(), "{alpha} {rate}");
        }
        assert!(compare(&named, &[]).is_err());
        let job = jobs(&["tests/data/jobs/llama3-70b.toml"], &[("micro_batch", "2")]).unwrap();
        assert_eq!((job.jobs.len(), job.jobs[0].gpus), (1, 64));
        let served = server(&["tests/data/jobs/serve.sh"], &[("machine", "dgx-h100")]).unwrap();
        assert!(served.fits && served.cache_tokens > 1e5, "{served:?}");
        let refused = server(&["tests/data/jobs/llama3-70b.toml"], &[]).unwrap_err().to_string();
        assert!(refused.contains("not a server"), "{refused}");
    }

    /// What the command refuses, the library refuses too, instead of answering another question.
    #[test]
    fn what_says_nothing_is_refused() {
        let question = Question::new(Collective::AllReduce, Bytes(1 << 20));
        for n in [0, 1 << 30] {
            assert!(question.clone().ranks(n).query().is_err(), "{n}");
        }
        assert!(question.clone().per_node(0).query().is_err());
        let sized = |size: u64| question.clone().ranks(8).sized(Bytes(size)).query();
        assert!(sized(u64::MAX).is_err() && sized(1 << 63).is_err() && sized(1 << 62).is_ok());
        let question = question.ranks(8);
        assert!(question.query().is_ok());
        let second = Seconds(1.0);
        let seen = [(0, 1.0), (1 << 20, 0.0), (1 << 20, f64::NAN), (1 << 20, f64::INFINITY)];
        for (size, time) in seen {
            assert!(question.clone().seen(Bytes(size), Seconds(time)).query().is_err(), "{time}");
        }
        let seen = question.clone().seen(Bytes(8), second);
        assert!(seen.query().is_ok() && seen.seen(Bytes(8), second).query().is_err());
        for time in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
            assert!(compare(&question, &[(Bytes(1 << 30), Seconds(time))]).is_err(), "{time}");
        }
    }
}
