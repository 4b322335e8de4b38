//! `collcost choose`: which algorithm a library will pick, and its cost.

use std::io::Write;
use std::num::NonZeroU64;

use super::Stop;
use super::flags::{OnFlags, counted, ends, size, value};
use super::format::{FormatFlag, Report};
use super::picture::PictureFlags;
use collcost::answer::LARGEST;
use collcost::answer::select::{Select, select, select_map};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::library::engines::{Conditions, Variables};
use collcost::library::tuning_file::read_rules;
use collcost::library::{
    Call, Operation, Policy, Site, element, entry, is_engine, is_policy, of_file, policy,
    refuse_variables, unread,
};
use collcost::machine::query::Query;
use collcost::machine::sample::DataType;
use collcost::measure::expect::site;
use collcost::model::algorithm::Registry;
use collcost::view::{self, plot};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost choose nccl allreduce -n 64
  collcost choose openmpi@4.1 allreduce 32K -n 128 --on gcp-c2d --explain
  collcost choose bcast 1K..16M --policy openmpi --vs mpich -n 64 --on gcp-c2d
  collcost choose rules-file:tuner.csv allreduce -n 16 --vs nccl
  collcost choose vllm@0.33.0 allreduce 1K..64M -n 8 --on b200
  collcost choose sglang allreduce 256K -n 8 --on h100 --vs vllm --explain")]
pub(super) struct Args {
    /// The collective, a size or a range such as 8..1GiB, and the policy unless --policy names it
    #[arg(value_name = "COLLECTIVE [SIZE|RANGE]", allow_negative_numbers = true)]
    words: Vec<String>,
    /// The library whose rules decide: nccl, openmpi@4.1, mpich, …; see collcost list policies
    #[arg(long, value_name = "NAME|rules-file:FILE", hide_short_help = true)]
    policy: Option<String>,
    /// Other rules to compare with
    #[arg(long, visible_alias = "versus", value_name = "NAME|rules-file:FILE")]
    vs: Option<String>,
    /// Show the rule of every choice, what sizes count, and the source
    #[arg(long)]
    explain: bool,
    /// The element type, which sets the bytes per element: char, float, double, bf16
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    #[command(flatten)]
    engine: EngineFlags,
    /// The operation does not commute
    #[arg(long, hide_short_help = true)]
    non_commutative: bool,
    /// The operation is user-defined, not a predefined one
    #[arg(long, hide_short_help = true)]
    user_op: bool,
    /// The call works in place
    #[arg(long, hide_short_help = true)]
    in_place: bool,
    /// What the size counts: total, per-rank or per-peer
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    size_is: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
    #[command(flatten)]
    picture: PictureFlags,
    #[command(flatten)]
    on: OnFlags,
}

// What inference engines need to know about a call; a doc comment would become the help of the verb.
#[derive(clap::Args)]
#[command(next_help_heading = "Inference engines")]
struct EngineFlags {
    /// Columns of the tensor: the hidden size of the model
    #[arg(long, value_name = "H")]
    hidden: Option<NonZeroU64>,
    /// The call is captured in a CUDA graph (the default)
    #[arg(long, conflicts_with = "eager", hide_short_help = true)]
    graph: bool,
    /// The call is launched from Python, not captured in a CUDA graph
    #[arg(long)]
    eager: bool,
    /// An environment variable of NCCL, or one or a flag of the engine; p2p=0 means no peer access
    #[arg(long, value_name = "K=V")]
    env: Vec<String>,
}

impl EngineFlags {
    fn conditions(&self, dtype: Option<DataType>) -> Result<Conditions> {
        let mut variables = Variables::default();
        for text in &self.env {
            variables.put(text).map_err(|e| e.at(format!("--env {text}")))?;
        }
        Ok(Conditions {
            dtype,
            hidden: self.hidden.map(NonZeroU64::get),
            graph: !self.eager,
            variables,
            ..Conditions::default()
        })
    }
}

/// The words sorted by kind.
struct Asked {
    operation: Operation,
    policy: String,
    sizes: Option<String>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let asked = self.asked()?;
        let collective = asked.operation.collective;
        if let Some(sizes) = &asked.sizes {
            collective.refuse_size().map_err(|e| e.at(sizes.clone()))?;
        }
        if let Some(library) = self.on.machine.get("library") {
            return Err(Error::input(format!("the rules are those of {}", asked.policy))
                .at(format!("--library {library}"))
                .help("leave it out, or name the policy of that library")
                .into());
        }
        let queries = self.on.queries(collective, Bytes(0))?;
        if let [query] = &queries[..] {
            self.on.refuse_idle(query)?;
        }
        let reports = queries.into_iter().map(|query| self.one(&asked, query));
        let mut reports = reports.collect::<Result<Vec<Select>>>()?;
        if self.picture.asked() {
            let map = select_map(reports);
            if self.picture.draw(out, || Ok(plot::policy(&map)))? {
                return Ok(());
            }
            reports = map.by_ranks;
        }
        let page = |all: &[Select], look| view::select::select(all, self.explain, look);
        if let [only] = &reports[..] {
            return self.format.write(out, only, |look| page(&reports, look));
        }
        let map = select_map(reports);
        self.format.write(out, &map, |look| page(&map.by_ranks, look))
    }

    /// The choices for one number of ranks.
    fn one(&self, asked: &Asked, mut query: Query) -> Result<Select> {
        let collective = asked.operation.collective;
        // `1M@f64` says it, too.
        let counted = asked.sizes.as_deref().and_then(|sizes| sizes.rsplit_once('@'));
        let counted = counted.and_then(|(_, dtype)| dtype.trim().parse().ok());
        let dtype = value("--dtype", self.dtype.as_ref())?.or(counted);
        let element = element(&asked.policy, dtype);
        let range = match &asked.sizes {
            _ if collective == Collective::Barrier => (Bytes(0), Bytes(0)),
            Some(sizes) => self.range(&query, sizes)?,
            // From the first size that is not empty.
            None => (element, LARGEST),
        };
        query.size = range.0;
        let call = Call {
            flavour: asked.operation.flavour,
            nodes: query.placement.nodes(),
            element,
            commutative: !self.non_commutative,
            builtin_op: !self.user_op && !self.non_commutative,
            in_place: self.in_place,
            ..Call::new(collective, query.shape.ranks, range.0)
        };
        self.read_by(asked)?;
        let site = Site { conditions: self.engine.conditions(dtype)?, ..site(&query) };
        let one = |flag: &str, name: &String| {
            named(name, &site).map_err(|e| e.at(format!("{flag} {name}")))
        };
        let own = one("--policy", &asked.policy)?;
        let versus = self.vs.as_ref().map(|name| one("--vs", name)).transpose()?;
        let policies = (&*own, versus.as_deref());
        select(&Registry::builtin(), &query, &call, policies, range)
            .map_err(|e| e.at(format!("choose {}", self.words.join(" ")).trim_end()))
    }

    /// Refuses flags that no policy of the question reads.
    fn read_by(&self, asked: &Asked) -> Result<()> {
        let names = || std::iter::once(&asked.policy).chain(&self.vs).map(String::as_str);
        if let Some(first) = self.engine.env.first() {
            refuse_variables(names()).map_err(|e| e.at(format!("--env {first}")))?;
        }
        let flags = [
            ("--hidden", self.engine.hidden.is_some()),
            ("--graph", self.engine.graph),
            ("--eager", self.engine.eager),
        ];
        match flags.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if !names().any(is_engine) => {
                Err(unread(&asked.policy, "inference engines do").at(flag))
            }
            _ => Ok(()),
        }
    }

    /// Sorts the words into collective, policy and sizes: `openmpi@4.1 allreduce 32K` is the same
    /// as `allreduce 32K --policy openmpi@4.1`.
    fn asked(&self) -> Result<Asked> {
        let place = |e: Error| e.at(format!("choose {}", self.words.join(" ")).trim_end());
        let mut words = self.words.iter();
        let mut first = words.next().ok_or_else(|| {
            Error::input("which collective?").at("choose").help("write choose NAME allreduce")
        })?;
        let mut policy = self.policy.clone();
        if first.parse::<Operation>().is_err() && (is_rules_file(first) || is_policy(first)) {
            if let Some(other) = policy.replace(first.clone()) {
                return Err(place(
                    Error::input(format!("two policies, `{first}` and `{other}`"))
                        .help("give the second as --vs"),
                ));
            }
            first = words.next().ok_or_else(|| {
                place(Error::input("which collective?").help("write one after the policy"))
            })?;
        }
        let operation: Operation = first.parse().map_err(|e: Error| {
            // A first word that is neither may be a typo of either.
            let no_policy = policy.is_none() && self.words.len() > 1;
            let second = self.words.get(1).is_some_and(|w| w.parse::<Operation>().is_ok());
            place(match entry(first) {
                Err(of_policy) if no_policy && second => of_policy,
                _ => e,
            })
        })?;
        let sizes = words.next().cloned();
        if let Some(more) = words.next() {
            return Err(place(
                Error::input(format!("`{more}` is one too many"))
                    .help("give one collective and one size or range"),
            ));
        }
        let policy = policy.ok_or_else(|| {
            place(
                Error::input("which library's rules?")
                    .help("give --policy, such as --policy openmpi@4.1; collcost list policies"),
            )
        })?;
        Ok(Asked { operation, policy, sizes })
    }

    /// One size, or `8..1GiB`.
    fn range(&self, query: &Query, sizes: &str) -> Result<(Bytes, Bytes)> {
        let one = |text: &str| {
            let size = size("", Some(&text.trim().to_owned()))?.unwrap_or_default();
            counted(query, size, self.size_is.as_ref())
        };
        match ends(sizes) {
            Some((first, last)) => {
                let range = (one(first)?, one(last)?);
                if range.0 > range.1 {
                    return Err(Error::input(format!("`{sizes}` has no sizes"))
                        .at(format!("choose {sizes}"))
                        .help("write the smaller size first, as 8..1GiB"));
                }
                Ok(range)
            }
            None => one(sizes).map(|size| (size, size)),
        }
    }
}

/// The prefix of the path of a rules file.
const RULES_FILE: &str = "rules-file:";

fn is_rules_file(name: &str) -> bool {
    name.starts_with(RULES_FILE)
}

/// The policy of that name; a file of rules is read here.
fn named(name: &str, site: &Site) -> Result<Box<dyn Policy>> {
    let Some(path) = name.strip_prefix(RULES_FILE) else { return policy(name, site) };
    let text = super::input::text_at(path, path)?;
    of_file(read_rules(&text, path)?, path, site)
}
