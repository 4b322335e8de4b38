//! Flags that several verbs share: their text, and parsing it into values with units.
//!
//! Every value is read as text and parsed here, so that each error has the same three lines.

use std::num::NonZeroU32;
use std::str::FromStr;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use super::config::settings;
use super::profiles::find;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Asked, Bytes, Ratio};
use collcost::base::size_is::SizeIs;
use collcost::library::engines;
use collcost::machine::parameters::{self, Group, PARAMETERS, Parameter, Parameters, Takes};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Layout, Machine, Query};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Protocol;
use collcost::plan::config::{Setting, Settings};

/// The flags of one group of the parameter table; a verb flattens the groups that it has.
#[derive(Clone, Default)]
pub(super) struct Flags<const GROUP: usize>(Vec<(&'static Parameter, String)>);

pub(super) type RankFlags = Flags<{ Group::Ranks as usize }>;
pub(super) type MachineFlags = Flags<{ Group::Machine as usize }>;
pub(super) type ParamFlags = Flags<{ Group::Algorithms as usize }>;

/// The parameters of a group.
fn of(group: usize) -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().filter(move |p| p.group as usize == group)
}

impl<const GROUP: usize> clap::Args for Flags<GROUP> {
    fn augment_args(command: Command) -> Command {
        let heading = of(GROUP).next().map_or("", |p| p.group.heading());
        let argument = |p: &'static Parameter| {
            let excludes = p.excludes.iter().copied();
            let help = [p.help, p.several].concat();
            let argument = Arg::new(p.key).long(p.flag).help(help).help_heading(heading);
            let argument = argument.visible_aliases(p.aliases).conflicts_with_all(excludes);
            let argument = argument.hide_short_help(!p.common);
            let argument = p.letter.into_iter().fold(argument, Arg::short);
            match p.takes {
                Takes::Quantity(name) => argument.value_name(name).allow_hyphen_values(true),
                Takes::Word(name) => argument.value_name(name),
                Takes::Nothing => argument.action(ArgAction::SetTrue),
            }
        };
        command.args(of(GROUP).map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const GROUP: usize> FromArgMatches for Flags<GROUP> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let typed = |p: &'static Parameter| match p.takes {
            Takes::Nothing => matches.get_flag(p.key).then(|| (p, "true".to_owned())),
            _ => matches.get_one::<String>(p.key).map(|text| (p, text.clone())),
        };
        Ok(Self(of(GROUP).filter_map(typed).collect()))
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const GROUP: usize> Flags<GROUP> {
    /// What was typed for a parameter.
    pub(super) fn get(&self, key: &str) -> Option<&String> {
        self.0.iter().find(|(p, _)| p.key == key).map(|(_, text)| text)
    }

    /// The flags as they can be typed again, each after a space.
    fn typed(&self) -> String {
        let flag = |(p, text): &(&Parameter, String)| {
            let flag = match p.letter {
                Some(letter) => format!(" -{letter}"),
                None => format!(" --{}", p.flag),
            };
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@%+,:=".contains(c);
            match p.takes {
                Takes::Nothing => flag,
                _ if text.chars().all(is_plain) => format!("{flag} {text}"),
                _ => format!("{flag} '{}'", text.replace('\'', r"'\''")),
            }
        };
        self.0.iter().map(flag).collect()
    }

    /// The same with another text for a parameter.
    fn with(mut self, key: &str, text: impl ToString) -> Self {
        self.0.retain(|(p, _)| p.key != key);
        self.0.extend(of(GROUP).find(|p| p.key == key).map(|p| (p, text.to_string())));
        self
    }

    /// The same with the settings for parameters that were not typed, by all flags that were.
    fn settled(&self, settings: &Settings, typed: impl Fn(&str) -> bool + Copy) -> Self {
        let mut flags = self.clone();
        for p in of(GROUP) {
            let settled = settings.get(p.key).filter(|_| p.is_settled(typed));
            flags.0.extend(settled.map(|s| (p, s.value.clone())));
        }
        flags
    }

    /// Puts all into `said`; an error names the flag.
    fn put(&self, said: &mut Parameters) -> Result<()> {
        let mut put = |(p, text): &(&'static Parameter, String)| {
            said.put(p, text).map_err(|e| e.at(format!("--{} {text}", p.flag)))
        };
        self.0.iter().try_for_each(&mut put)
    }
}

/// Parses a flag's text; an error names the flag.
pub(super) fn value<T: FromStr<Err = Error>>(
    flag: &str,
    text: Option<&String>,
) -> Result<Option<T>> {
    text.map(|t| t.parse().map_err(|e: Error| e.at(format!("{flag} {t}").trim_start()))).transpose()
}

/// The size that a flag names.
pub(super) fn size(flag: &str, text: Option<&String>) -> Result<Option<Bytes>> {
    Ok(value::<Asked>(flag, text)?.map(|Asked(size)| size))
}

/// The bytes that `size` means, counted as --size-is says.
pub(super) fn counted(query: &Query, size: Bytes, size_is: Option<&String>) -> Result<Bytes> {
    let counts: SizeIs = value("--size-is", size_is)?.unwrap_or_default();
    let typed = size_is.map_or("total", String::as_str);
    let total = counts.total(query.shape.collective, query.shape.ranks, size);
    total.map_err(|e| e.at(format!("--size-is {typed}")))
}

/// A whole number above 0.
pub(super) fn count(flag: &str, what: &str, text: Option<&String>) -> Result<Option<NonZeroU32>> {
    let read =
        |text: &String| parameters::count(what, text).map_err(|e| e.at(format!("{flag} {text}")));
    text.map(read).transpose()
}

/// A whole number from 0.
pub(super) fn whole(flag: &str, what: &str, text: Option<&String>) -> Result<Option<u32>> {
    let Some(text) = text else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| {
        Error::input(format!("`{text}` is not a {what}"))
            .at(format!("{flag} {text}"))
            .help("write a whole number, counted from 0")
    })
}

/// A finite number above 0.
pub(super) fn ratio(flag: &str, text: Option<&String>) -> Result<Option<Ratio>> {
    let read = |text: &String| parameters::ratio(text).map_err(|e| e.at(format!("{flag} {text}")));
    text.map(read).transpose()
}

impl RankFlags {
    /// Whether neither flags nor settings give the number of ranks.
    pub(super) fn is_silent(&self) -> bool {
        let said = |key| self.get(key).is_some() || settings().is_ok_and(|s| s.get(key).is_some());
        !["n", "nodes", "gpus_per_node"].into_iter().any(said)
    }

    /// The same with the ranks of a communicator.
    ///
    /// # Errors
    /// Ranks that were typed as well.
    pub(super) fn placed(&self, nodes: u32, per_node: u32) -> Result<Self> {
        let counts = |p: &Parameter| matches!(p.key, "n" | "nodes" | "gpus_per_node");
        if let Some((p, text)) = self.0.iter().find(|(p, _)| counts(p)) {
            return Err(Error::input("the communicator already sets the number of ranks")
                .at(format!("--{} {text}", p.flag))
                .help(format!("leave out --{}", p.flag)));
        }
        Ok(self.clone().with("nodes", nodes).with("gpus_per_node", per_node))
    }

    /// Whether nodes, or ranks per node, were typed.
    pub(super) fn names_nodes(&self) -> bool {
        self.get("nodes").is_some() || self.get("gpus_per_node").is_some()
    }

    /// N where it is given.
    pub(super) fn count(&self) -> Result<Option<NonZeroU32>> {
        count("--n", "ranks", self.get("n"))
    }

    /// The nodes where they are given.
    pub(super) fn nodes(&self) -> Result<Option<NonZeroU32>> {
        count("--nodes", "nodes", self.get("nodes"))
    }

    /// The ranks on each node where they are given.
    pub(super) fn per_node(&self) -> Result<Option<NonZeroU32>> {
        count("--gpus-per-node", "ranks per node", self.get("gpus_per_node"))
    }

    /// The same for the `n` ranks of a schedule from `file`.
    pub(super) fn for_ranks(self, n: u32, file: &str) -> Result<Self> {
        match self.count()? {
            Some(asked) if asked.get() != n => {
                Err(Error::input(format!("the schedule has {n} ranks, not {asked}"))
                    .at(format!("--n {asked} --schedule {file}"))
                    .help("leave out --n"))
            }
            _ => Ok(self.with_ranks(n)),
        }
    }

    /// The same for the `n` ranks of a log.
    pub(super) fn with_ranks(self, n: u32) -> Self {
        self.with("n", n)
    }

    /// The same over that many nodes.
    pub(super) fn with_nodes(self, nodes: u32) -> Self {
        self.with("nodes", nodes)
    }

    /// The same with so many ranks on each node, and what is left of them on the last.
    pub(super) fn with_full_nodes(self, each: u32) -> Self {
        self.with("gpus_per_node", each)
    }
}

impl MachineFlags {
    /// Whether the flags name a machine, so that no parameter from the settings applies.
    fn names_another(&self) -> bool {
        parameters::names_machine(|key| self.get(key).is_some())
    }

    /// The machine that is named, and the source of its name; none if parameters define the machine
    /// or none is named.
    fn read_profile(&self, settings: &Settings) -> Result<Option<(Profile, &'static str)>> {
        if let Some(name) = self.get("profile") {
            let found = find(name).map_err(|e| e.at(format!("--on {name}")))?;
            return Ok(Some((found, "--on")));
        }
        let settled = settings.get("profile").filter(|_| !self.names_another());
        let Some(Setting { value, from, .. }) = settled else { return Ok(None) };
        let found = find(value).map_err(|e| e.at(format!("{from}: {value}")))?;
        Ok(Some((found, from.short())))
    }
}

// Where a call runs: its ranks, the machine, and the parameters of algorithms.
#[derive(clap::Args, Clone, Default)]
pub(super) struct OnFlags {
    #[command(flatten)]
    pub(super) ranks: RankFlags,
    #[command(flatten)]
    pub(super) machine: MachineFlags,
    #[command(flatten)]
    pub(super) params: ParamFlags,
}

impl OnFlags {
    /// A profile, with ranks on its nodes, as if flags named them.
    pub(super) fn of_profile(name: &str, nodes: u32, per_node: u32) -> Self {
        let ranks = RankFlags::default().with("nodes", nodes).with("gpus_per_node", per_node);
        let machine = MachineFlags::default().with("profile", name);
        Self { ranks, machine, params: ParamFlags::default() }
    }

    /// The one query that these flags make.
    pub(super) fn query(&self, collective: Collective, size: Bytes) -> Result<Query> {
        let (machine, said) = self.placed(collective)?;
        Query::new(machine, collective, size, said.layout, said.params)
    }

    /// Refuses flags for links that no message of `query` uses. Only for a single question: in a
    /// sweep, or the runs of logs, some may use them.
    pub(super) fn refuse_idle(&self, query: &Query) -> Result<()> {
        for (p, text) in self.ranks.0.iter().chain(&self.machine.0) {
            let Some(links) = p.links else { continue };
            let flag = format!("--{}", p.flag);
            query.refuse_idle(links, &flag).map_err(|e| e.at(format!("{flag} {text}")))?;
        }
        Ok(())
    }

    /// A query for every number of ranks that --n names.
    pub(super) fn queries(&self, collective: Collective, size: Bytes) -> Result<Vec<Query>> {
        let Some(typed) = self.ranks.get("n") else {
            return Ok(vec![self.query(collective, size)?]);
        };
        let counts = rank_counts(typed)?;
        let (machine, said) = self.of(self.ranks.clone().with_ranks(1)).placed(collective)?;
        let query = |n| {
            let layout = Layout { ranks: n, ..said.layout };
            Query::new(machine.clone(), collective, size, layout, said.params)
        };
        counts.into_iter().map(query).collect()
    }

    /// Takes the protocol off an algorithm that is typed as screens print it, such as `Tree/LL`, or
    /// by the name of a kernel with packets, as if its flag were typed.
    pub(super) fn take_protocol(&mut self, algorithm: &mut Option<String>) {
        let Some(name) = algorithm.as_deref() else { return };
        let (plain, protocol) = match (name.rsplit_once('/'), engines::in_packets(name)) {
            (Some(parts), _) => parts,
            (None, Some(plain)) => (plain, "LL"),
            (None, None) => return,
        };
        if protocol.parse::<Protocol>().is_ok() && self.machine.get("protocol").is_none() {
            self.machine = std::mem::take(&mut self.machine).with("protocol", protocol);
            *algorithm = Some(plain.to_owned());
        }
    }

    /// The first flag that was typed, other than the one of `key`.
    pub(super) fn typed_but(&self, key: &str) -> Option<String> {
        let ranks = self.ranks.0.iter().chain(&self.machine.0).chain(&self.params.0);
        let mut others = ranks.filter(|(p, _)| p.key != key);
        others.next().map(|(p, text)| format!("--{} {text}", p.flag))
    }

    /// The flags as they can be typed again, each after a space.
    pub(super) fn typed(&self) -> String {
        self.ranks.typed() + &self.machine.typed() + &self.params.typed()
    }

    /// The same for other ranks.
    pub(super) fn of(&self, ranks: RankFlags) -> Self {
        Self { ranks, ..self.clone() }
    }

    /// The machine, and all parameters of the question.
    fn placed(&self, collective: Collective) -> Result<(Machine, Parameters)> {
        let settings = settings()?;
        let another = self.machine.names_another();
        let named = self.machine.read_profile(settings)?;
        let mut said = Parameters::default();
        let typed = |key: &str| {
            let typed = [self.ranks.get(key), self.machine.get(key), self.params.get(key)];
            typed.iter().any(Option::is_some)
        };
        self.ranks.settled(settings, typed).put(&mut said)?;
        self.machine.settled(settings, typed).put(&mut said)?;
        self.params.settled(settings, typed).put(&mut said)?;
        let own = named.is_none() && !another;
        let mut machine = Machine::new(named, &said.given, collective)?;
        if let Some(settled) = settings.get("alpha").filter(|_| own && machine.chosen == "flags") {
            machine.chosen = settled.from.short();
        }
        let idle = PARAMETERS.iter().filter(|p| p.of_machine && p.is_of_another(typed));
        let idle = idle.filter(|p| !typed(p.key)).filter_map(|p| settings.get(p.key));
        // Those of a machine that a nearer setting replaces, as the variable does.
        let replaced = settings.left_out().filter(|(s, instead)| {
            s.key != "profile" && instead.is_some_and(|instead| instead.key == "profile")
        });
        let idle = idle.chain(replaced.map(|(s, _)| s));
        machine.left_out = idle.map(|s| format!("{} of {}", s.key, s.from.short())).collect();
        Ok((machine, said))
    }
}

// One algorithm at one size, as words such as `ring 1G` or as options.
#[derive(clap::Args)]
pub(super) struct CallFlags {
    /// An algorithm of the collective, a size, or both
    #[arg(value_name = "ALGORITHM|SIZE", num_args = 0..=2)]
    pub(super) words: Vec<String>,
    /// The algorithm; default: what the library runs
    #[arg(long, visible_alias = "algo", value_name = "NAME")]
    pub(super) algorithm: Option<String>,
    /// The size as an option
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, hide_short_help = true)]
    pub(super) size: Option<String>,
    /// What the size counts: total, per-rank or per-peer
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    pub(super) size_is: Option<String>,
}

impl CallFlags {
    /// Sorts the words into the options for algorithm and size.
    ///
    /// # Errors
    /// A second algorithm or size.
    pub(super) fn sort(&mut self, registry: &Registry, collective: Collective) -> Result<()> {
        for word in std::mem::take(&mut self.words) {
            let known = registry.find(collective, &word).is_ok();
            // A name such as 2d-ring begins with a digit too.
            let number = word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('-');
            let slot = if !known && number { &mut self.size } else { &mut self.algorithm };
            if let Some(other) = slot.replace(word) {
                return Err(Error::input(format!("`{other}` is one too many"))
                    .help("give one algorithm and one size"));
            }
        }
        Ok(())
    }

    /// The query for the typed size, or else for `otherwise`, counted as --size-is says; a barrier
    /// has no size.
    ///
    /// # Errors
    /// No size is given.
    pub(super) fn query(
        &self,
        on: &OnFlags,
        collective: Collective,
        otherwise: Option<Bytes>,
    ) -> Result<Query> {
        let typed = size("--size", self.size.as_ref())?;
        let size = collective.sized(typed).map_err(|e| e.at("--size"))?.or(otherwise);
        let size =
            size.ok_or_else(|| Error::input("how many bytes?").help("give a size, such as 16MiB"))?;
        let mut query = on.query(collective, size)?;
        on.refuse_idle(&query)?;
        query.size = counted(&query, size, self.size_is.as_ref())?;
        Ok(query)
    }
}

/// Both ends of a range as it is typed, `1K..1G` or `1K..=1G`: the last is part of it either way. `1K...5G` may mean
/// 5 or half a GiB, so the whole is left as an end, which is no size.
pub(super) fn ends(range: &str) -> Option<(&str, &str)> {
    let (first, last) = range.split_once("..")?;
    if last.starts_with('.') {
        return Some((range, range));
    }
    Some((first.trim(), last.trim_start_matches('=').trim()))
}

/// The most rank counts of a sweep.
const MOST_COUNTS: usize = 1000;

/// One count, `2..1024` doubling, or `2,4,8`.
fn rank_counts(text: &str) -> Result<Vec<Option<NonZeroU32>>> {
    let one = |part: &str| count("--n", "ranks", Some(&part.trim().to_owned()));
    let Some((first, last)) = ends(text) else {
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > MOST_COUNTS {
            return Err(Error::input(format!("more than {MOST_COUNTS} rank counts")).at("--n"));
        }
        if let Some(part) =
            parts.iter().skip(1).find(|part| part.trim().len() > 1 && part.trim().starts_with('0'))
        {
            return Err(Error::input(format!("`{text}` is a list, and `{part}` begins with 0"))
                .at(format!("--n {text}"))
                .help(format!("write {} for one number, or 8,16 for two", text.replace(',', ""))));
        }
        let mut counts: Vec<Option<NonZeroU32>> = Vec::with_capacity(parts.len());
        for part in parts {
            let next = one(part)?;
            if !counts.contains(&next) {
                counts.push(next);
            }
        }
        return Ok(counts);
    };
    let (Some(first), Some(last)) = (one(first)?, one(last)?) else {
        return Ok(vec![None]);
    };
    if first > last {
        return Err(Error::input(format!("`{text}` has no ranks"))
            .at(format!("--n {text}"))
            .help("write the smaller number first, as 2..1024"));
    }
    let doubled = std::iter::successors(Some(first.get()), |n| n.checked_mul(2));
    Ok(doubled.take_while(|n| *n <= last.get()).map(NonZeroU32::new).collect())
}
