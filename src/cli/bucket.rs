//! `collcost bucket`: which gradients share a call, how much a backward pass hides, the best cap.

use std::io::Write;

use super::Stop;
use super::flags::{OnFlags, size, value};
use super::format::{FormatFlag, Report};
use collcost::answer;
use collcost::base::encoding;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::sample::DataType;
use collcost::measure::expect::Expecting;
use collcost::model::algorithm::Registry;
use collcost::plan::bucket::{Gradients, Limit, Rule};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost bucket --params shapes.json --explain
  collcost bucket --model 7B@bf16 -n 64 --backward 180ms
  collcost bucket --tensors 1000x1MB --rule greedy --cap 25MB -n 8 --alpha 10us --bw 100GB/s

PyTorch writes a list of parameters with:
  json.dump({n: list(p.shape) for n, p in model.named_parameters()}, open('shapes.json', 'w'))")]
pub(super) struct Args {
    /// JSON file of the parameters: names with shapes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "tensors"])]
    params: Option<String>,
    /// Size of the gradients: bytes, or parameters with their type, such as 7B@bf16
    #[arg(long, value_name = "SIZE", conflicts_with = "tensors")]
    model: Option<String>,
    /// Number and size of equal tensors, such as 1000x1MB
    #[arg(long, value_name = "COUNTxSIZE")]
    tensors: Option<String>,
    /// Type of gradients that do not name one; in a list of shapes the default is f32
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    dtype: Option<String>,
    /// The bucketing rule: ddp, megatron, deepspeed, xla or greedy
    #[arg(long, value_name = "NAME", default_value = "ddp")]
    rule: String,
    /// Size limit of a bucket, such as 100MiB; also of DDP's first one
    #[arg(long, visible_alias = "bucket-cap", value_name = "SIZE")]
    cap: Option<String>,
    /// Size limit of the first bucket
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    first_bucket: Option<String>,
    /// Time of the backward pass that hides the calls, such as 180ms
    #[arg(long, value_name = "TIME")]
    backward: Option<String>,
    /// Use only this algorithm; default: what the library runs
    #[arg(long, visible_alias = "algo", value_name = "NAME", hide_short_help = true)]
    algorithm: Option<String>,
    /// List every bucket with its tensors
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    format: FormatFlag<Report>,
    #[command(flatten)]
    on: OnFlags,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let gradients = self.gradients()?;
        let backward = value::<Seconds>("--backward", self.backward.as_ref())?;
        let rule = Rule::named(&self.rule).map_err(|e| e.at(format!("--rule {}", self.rule)))?;
        let registry = Registry::builtin();
        let asked = match self.on.ranks.is_silent() {
            true => None,
            false => {
                let query = self.on.query(rule.collective, gradients.bytes())?;
                let take =
                    Expecting::of(&registry, &query, self.algorithm.as_deref()).map_err(|e| {
                        e.at(format!(
                            "--algorithm {}",
                            self.algorithm.as_deref().unwrap_or_default()
                        ))
                    })?;
                Some((query, take))
            }
        };
        if let (None, Some(time)) = (&asked, &self.backward) {
            return Err(Error::input("how much a backward pass hides depends on the ranks")
                .at(format!("--backward {time}"))
                .help("give --n, such as --n 64")
                .into());
        }
        if let (None, Some(flag)) = (&asked, self.on.typed_but("n")) {
            return Err(Error::input("buckets have times only on a number of ranks")
                .at(flag)
                .help("give --n too, such as --n 64")
                .into());
        }
        let ranks = asked.as_ref().map_or(1, |(query, _)| query.shape.ranks);
        let rule = self.limited(rule.over(ranks))?;
        let priced = asked.as_ref().map(|(query, take)| (query, take));
        let report = answer::bucket::bucket(&gradients, &rule, priced, backward)?;
        self.format
            .write(out, &report, |look| view::bucket::bucket(&report, self.explain || look.whole))
    }

    /// The rule with the limits of the flags.
    fn limited(&self, rule: Rule) -> Result<Rule> {
        let limit = |flag: &str, text: Option<&String>| -> Result<Option<Limit>> {
            match size(flag, text)? {
                Some(Bytes(0)) => Err(Error::input("a bucket of 0 bytes holds nothing")
                    .at(format!("{flag} 0"))
                    .help("write a size such as 25MiB")),
                other => Ok(other.map(Limit::Bytes)),
            }
        };
        let cap = limit("--cap", self.cap.as_ref())?;
        let first = limit("--first-bucket", self.first_bucket.as_ref())?;
        Ok(match (cap, first) {
            (None, None) => rule,
            (Some(cap), first) => rule.with_cap(cap, first),
            (None, first) => {
                let cap = rule.cap;
                rule.with_cap(cap, first)
            }
        })
    }

    fn gradients(&self) -> Result<Gradients> {
        let typed = value::<DataType>("--dtype", self.dtype.as_ref())?;
        if let Some(file) = &self.params {
            let text = super::input::text(file).map_err(|e| {
                Error::input(format!("the list of parameters cannot be read: {e}"))
                    .at(format!("--params {file}"))
                    .help(encoding::mend(&e, "name a JSON file of names and shapes"))
            })?;
            let read = Gradients::parse(&text, typed.unwrap_or(DataType::F32));
            return read.map_err(|e| e.within(file));
        }
        if let Some(model) = &self.model {
            let bytes: Bytes =
                model.parse().map_err(|e: Error| e.at(format!("--model {model}")))?;
            let said = model.split_once('@').map(|(_, dtype)| dtype.parse()).transpose()?;
            let billions = model.trim().trim_end_matches('B');
            if said.is_none() && bytes.0 < SMALLEST && billions != model.trim() {
                return Err(Error::input(format!("`{model}` is a model of {} bytes", bytes.0))
                    .at(format!("--model {model}"))
                    .help(format!("{billions} billion parameters are {billions}B@bf16")));
            }
            return Ok(Gradients::Smooth { bytes, dtype: typed.or(said).unwrap_or(DataType::F32) });
        }
        if let Some(text) = &self.tensors {
            let refuse = || {
                Error::input(format!("`{text}` does not describe tensors"))
                    .at(format!("--tensors {text}"))
                    .help("write their number and size as 1000x1MB")
            };
            let (count, each) = text.split_once('x').ok_or_else(refuse)?;
            let count: u32 = count.trim().parse().map_err(|_| refuse())?;
            if count == 0 || count > MOST {
                return Err(refuse().or_help(format!("from 1 to {MOST}")));
            }
            let each: Bytes = each.parse().map_err(|e: Error| e.at(format!("--tensors {text}")))?;
            return Ok(Gradients::alike(count, each, typed.unwrap_or(DataType::F32)));
        }
        Err(Error::input("the gradients of what?")
            .help("give --params shapes.json, --model 7B@bf16 or --tensors 1000x1MB"))
    }
}

/// Below this many bytes, `7B` was meant as a number of parameters.
const SMALLEST: u64 = 10_000;

/// More tensors than any model has.
const MOST: u32 = 10_000_000;
