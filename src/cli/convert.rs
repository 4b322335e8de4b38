//! `collcost convert`: time, algbw, busbw, and sizes as tools count them.

use std::io::Write;

use super::Stop;
use super::flags::{count, value};
use super::format::{FormatFlag, Report};
use collcost::answer::convert::{Amount, Conversion, Kind, convert};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bandwidth, Bytes, Seconds};
use collcost::model::algorithm::Registry;
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost convert 120GB/s algbw busbw reducescatter -n 16
  collcost convert 5ms time busbw allreduce -n 64 --size 1GiB
  collcost convert 64MiB osu nccl-tests allgather -n 16
  collcost convert 391GB/s busbw alltoall -n 16 -g 8 --nics-per-node 4")]
pub(super) struct Args {
    /// A number with its unit, what it is, what to convert it to, and a collective
    ///
    /// Names: time, algbw, busbw, deepspeed, old-nccl-tests; for sizes nccl-tests, nccl, torch,
    /// mpi, osu, imb, oneccl, mpich, openmpi. `algbw:busbw` gives both in one word, and so does
    /// 'algbw->busbw'; without the quotes the shell writes to a file.
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// Number of ranks
    #[arg(short, long, visible_aliases = ["np", "ranks"], value_name = "N", allow_hyphen_values = true)]
    n: Option<String>,
    /// Ranks per node, to see the load of a NIC
    #[arg(short, long, visible_alias = "ppn", value_name = "G", allow_hyphen_values = true)]
    gpus_per_node: Option<String>,
    /// NICs that the ranks of a node share; default: one NIC per rank
    #[arg(long, value_name = "K", requires = "gpus_per_node", allow_hyphen_values = true)]
    nics_per_node: Option<String>,
    /// The size as nccl-tests counts it, to convert between a rate and a time
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<String>,
    /// The rate of a port, to compare busbw with
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    peak: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let place = format!("convert {}", self.words.join(" "));
        let report = self
            .conversion()
            .and_then(|asked| convert(&Registry::builtin(), &asked))
            .map_err(|e| e.at(place))?;
        self.format.write(out, &report, |_| view::convert::converted(&report))
    }

    fn conversion(&self) -> Result<Conversion> {
        let words = sorted(&self.words)?;
        let mut kinds = words.kinds;
        // A time needs no name, so the first name is the one to convert to.
        if matches!(words.amount, Amount::Time(_)) && kinds.first() != Some(&Kind::Time) {
            kinds.insert(0, Kind::Time);
        }
        let mut kinds = kinds.into_iter();
        let from = match (kinds.next(), words.amount) {
            (Some(from), _) => from,
            (None, Amount::Time(_)) => Kind::Time,
            (None, Amount::Size(_)) => Kind::Size(collcost::answer::convert::Tool::NcclTests),
            (None, Amount::Rate(rate)) => {
                return Err(Error::input(format!("{rate}: algbw or busbw?"))
                    .help("say what it is: 120GB/s algbw"));
            }
        };
        let to = kinds.next();
        if let Some(more) = kinds.next() {
            return Err(Error::input(format!("`{}` is one too many", more.id()))
                .help("say what the number is, and what to convert it to"));
        }
        let ranks = count("--n", "ranks", self.n.as_ref())?;
        let ranks =
            ranks.ok_or_else(|| Error::input("how many ranks?").help("give -n, such as -n 16"))?;
        if let (Amount::Size(_), Some(size)) = (words.amount, &self.size) {
            return Err(Error::input("the number to convert is a size already")
                .at(format!("--size {size}"))
                .help("leave out --size"));
        }
        Ok(Conversion {
            collective: words.collective.unwrap_or(Collective::AllReduce),
            ranks,
            per_node: count("--gpus-per-node", "ranks per node", self.gpus_per_node.as_ref())?,
            nics: count("--nics-per-node", "NICs", self.nics_per_node.as_ref())?,
            amount: words.amount,
            from,
            to,
            size: value("--size", self.size.as_ref())?,
            peak: value("--peak", self.peak.as_ref())?,
        })
    }
}

/// The words by kind. Their order matters only for which quantity is given and which is wanted.
struct Sorted {
    amount: Amount,
    kinds: Vec<Kind>,
    collective: Option<Collective>,
}

fn sorted(words: &[String]) -> Result<Sorted> {
    let (mut amount, mut kinds, mut collective) = (None, Vec::new(), None);
    for word in words {
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            if amount.replace(read(word)?).is_some() {
                return Err(Error::input(format!("`{word}` is a second number"))
                    .help("add a size with --size"));
            }
            continue;
        }
        if let Some(kind) = word.strip_suffix('-').and_then(|w| w.parse::<Kind>().ok()) {
            let kind = kind.id();
            return Err(Error::input(format!(
                "the shell redirected the output to the word after `{word}`"
            ))
            .help(format!("write {kind}:busbw, or quote '{kind}->busbw'")));
        }
        for part in word.split([':', '→']).flat_map(|p| p.split("->")) {
            match (part, part.parse::<Kind>(), part.parse::<Collective>()) {
                ("to" | "in" | "from" | "as" | "", ..) => {}
                (_, Ok(kind), _) => kinds.push(kind),
                (_, _, Ok(found)) if collective.is_none() => collective = Some(found),
                (_, _, Ok(_)) => {
                    return Err(
                        Error::input(format!("`{part}` is a second collective")).help("name one")
                    );
                }
                // `alltoallv` is a collective, though not one that is known.
                (_, Err(_), Err(error)) if part.ends_with('v') => return Err(error),
                (_, Err(error), _) => return Err(error),
            }
        }
    }
    let amount = amount.ok_or_else(|| {
        Error::input("there is no number to convert").help("begin with one: 120GB/s, 5ms or 1GiB")
    })?;
    Ok(Sorted { amount, kinds, collective })
}

/// A rate, a time or a size, by its unit.
fn read(word: &str) -> Result<Amount> {
    if let Ok(rate) = word.parse::<Bandwidth>() {
        return Ok(Amount::Rate(rate));
    }
    if let Ok(size) = word.parse::<Bytes>() {
        return Ok(Amount::Size(size));
    }
    if let Ok(time) = word.parse::<Seconds>() {
        return Ok(Amount::Time(time));
    }
    Err(Error::input(format!("`{word}` is not a rate, a time or a size"))
        .help("write 120GB/s, 960Gb/s, 5ms or 1GiB"))
}
