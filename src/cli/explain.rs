//! `collcost explain`: an algorithm derived, a collective with its algorithms, or a topic.

use std::io::Write;

use super::Stop;
use super::flags::{CallFlags, OnFlags};
use super::format::{FormatFlag, Report, write};
use collcost::answer::explain::{self, Explanation};
use collcost::answer::notes;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::library::engines;
use collcost::machine::query::Query;
use collcost::model::algorithm::Registry;
use collcost::model::formula::Dims;
use collcost::view;

#[derive(clap::Args)]
#[command(
    mut_arg("algorithm", |a| a.help("The algorithm as an option")),
    mut_arg("size", |a| a.help("The size as an option; default: 16MiB"))
)]
pub(super) struct Args {
    /// A collective, a topic such as busbw, a word of a screen, or a contradiction such as K4
    what: String,
    #[command(flatten)]
    call: CallFlags,
    #[command(flatten)]
    format: FormatFlag<Report>,
    #[command(flatten)]
    on: OnFlags,
}

/// The default size.
const SIZE: Bytes = Bytes(16 << 20);

/// Nodes to use if the algorithm needs more than one and the flags do not say how many.
const NODES: u32 = 8;

/// Whether the algorithm applies to a torus of the ranks, and the question names none.
fn needs_sides(registry: &Registry, query: &Query, name: &str) -> bool {
    let mut torus = query.clone();
    torus.shape.params.dims = Dims::new(&[query.shape.ranks]);
    query.shape.params.dims.is_none() && explain::algorithm(registry, &torus, name).is_ok()
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let format = self.format.get()?;
        let report = self.explanation()?;
        write(format, out, &report, |_| view::explain::explanation(&report))
    }

    fn explanation(mut self) -> Result<Explanation> {
        let place = format!("explain {}", self.what);
        let registry = Registry::builtin();
        // Words of a screen, typed without quotes.
        let words =
            std::iter::once(self.what.as_str()).chain(self.call.words.iter().map(String::as_str));
        let whole = words.collect::<Vec<_>>().join(" ");
        if notes::meaning(&whole).is_some() {
            self.call.words.clear();
            self.what = whole;
        }
        // A sentence may mean a collective without naming it.
        let meant = self.what.contains(' ').then(|| notes::heard(&self.what)).flatten();
        if let Some(meant) = meant {
            self.what = meant.id().to_owned();
        }
        let Ok(collective) = self.what.parse::<Collective>() else {
            let ranks = self.on.ranks.count()?;
            let algorithm = self.call.algorithm.as_ref().or(self.call.words.first());
            let topic = explain::topic(&self.what, ranks, algorithm.map(String::as_str));
            let packets = engines::in_packets(&self.what).map(|_| Collective::AllReduce);
            return match (topic, packets.or_else(|| first_with(&registry, &self.what))) {
                (Err(_), Some(of)) => self.of_algorithm(of),
                (Ok(topic), _) => self.refuse_idle().map(|()| topic),
                (Err(unknown), _) => Err(unknown.at(place)),
            };
        };
        self.call.sort(&registry, collective).map_err(|e| e.at(place.clone()))?;
        self.on.take_protocol(&mut self.call.algorithm);
        let sized = self.call.size.is_some();
        let Some(name) = self.call.algorithm.take() else {
            let query = self.query(collective)?;
            return explain::collective(&registry, &query, sized).map_err(|e| e.at(place));
        };
        let place = |e: Error| e.at(format!("explain {} {name}", self.what));
        let query = self.query(collective)?;
        let report = explain::algorithm(&registry, &query, &name);
        // The number of nodes is not given, and the algorithm needs more than one.
        let retry = matches!(&report, Err(e) if e.is_unsupported()) && self.on.ranks.is_silent();
        if retry {
            self.on.ranks = std::mem::take(&mut self.on.ranks).with_nodes(NODES);
            let several = self.query(collective);
            if let Ok(report) = several.and_then(|q| explain::algorithm(&registry, &q, &name)) {
                return Ok(report);
            }
        }
        report.map_err(|error| match error.is_unsupported() {
            true => {
                let other = match needs_sides(&registry, &query, &name) {
                    true => "give the sides with --dims, such as --dims 4x4 for 16 ranks",
                    false => "ask for other ranks with -n",
                };
                let id = collective.id();
                place(error).or_help(format!("{other}; collcost explain {id} lists what applies"))
            }
            false => place(error),
        })
    }

    /// A page that is about no call has numbers of its own.
    fn refuse_idle(&self) -> Result<()> {
        let size = self.call.size.as_ref().map(|size| format!("--size {size}"));
        let Some(flag) = self.on.typed_but("n").or(size) else { return Ok(()) };
        Err(Error::input("the page is about no call, and has numbers of its own")
            .at(format!("explain {} … {flag}", self.what))
            .help(format!("leave out {flag}, or name a collective: collcost explain allreduce")))
    }

    /// An algorithm that was named without its collective.
    fn of_algorithm(mut self, collective: Collective) -> Result<Explanation> {
        let name = std::mem::replace(&mut self.what, collective.id().to_owned());
        self.call.words.insert(0, name);
        self.explanation()
    }

    fn query(&self, collective: Collective) -> Result<Query> {
        self.call.query(&self.on, collective, Some(SIZE))
    }
}

/// The first collective that has an algorithm of this name.
fn first_with(registry: &Registry, name: &str) -> Option<Collective> {
    let mut all = Collective::ALL.iter().copied();
    all.find(|&collective| registry.find(collective, name).is_ok())
}
