//! What the example plugin can ask NCCL for, and plans as its table.

use super::{LEAST_GAIN, Pick, Plan, Point};
use crate::algorithm::{Algorithm, Library, Registry};
use crate::collective::Collective;
use crate::error::Result;
use crate::formula::Protocol as Wire;
use crate::nccl::{Algo, Call, Chooser, Function, Proto, ranges};
use crate::price::{Prepared, on};
use crate::quantity::{Bytes, Ratio, Volume};
use crate::query::Query;
use crate::rules::Line;
use crate::rules::nccl::{COLLECTIVES, Channels, Rule, Rules};

/// The algorithms and protocols of one function, each priced under the machine of a query.
pub struct Compared<'a> {
    chooser: &'a Chooser,
    function: Function,
    ranks: u32,
    cells: Vec<((Algo, Proto), Prepared)>,
}

impl<'a> Compared<'a> {
    /// Everything that NCCL considers for the collective and the closed forms price; none where
    /// NCCL's tuner has no say.
    ///
    /// # Errors
    /// A figure that a price needs is unknown.
    pub fn new(registry: &Registry, chooser: &'a Chooser, query: &Query) -> Result<Option<Self>> {
        let shape = &query.shape;
        let Some(function) = Function::of(shape.collective) else { return Ok(None) };
        let mut cells = Vec::new();
        for (algo, proto) in each() {
            if !chooser.considers(function, algo, proto) {
                continue;
            }
            let there = on(shape, &query.machine.fabric);
            let known = |(library, name): &(Library, &str)| {
                *library == Library::Nccl && *name == algo.name()
            };
            // Of two with one name that applies which runs on so many nodes.
            let mut all = registry.of(shape.collective);
            let runs = |a: &&dyn Algorithm| {
                a.applies(&there).is_ok() && a.shipped(&there).iter().any(known)
            };
            let Some(ours) = all.find(runs) else {
                continue;
            };
            let (alpha, bytes) = wire(proto).factors();
            let fabric = query.machine.fabric.clone().contended(alpha, Ratio(1.0 / bytes.0));
            match Prepared::new(ours, shape, &fabric) {
                Ok(prepared) => cells.push(((algo, proto), prepared)),
                Err(error) if error.is_unsupported() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Self { chooser, function, ranks: shape.ranks, cells }))
    }

    /// What everything takes at a size.
    #[must_use]
    pub fn point(&self, size: Bytes) -> Point {
        let call = Call { function: self.function, size, pipelined: 1 };
        let own = self.chooser.decide(&call).map(|d| (d.algo, d.proto));
        let time = |prepared: &Prepared| prepared.time(Volume::from(size));
        let own = self.cells.iter().find(|(cell, _)| Some(*cell) == own);
        let own = own.map(|(_, prepared)| time(prepared));
        let offers = self.cells.iter().map(|(cell, prepared)| (pick(*cell), time(prepared)));
        Point { own, least_gain: LEAST_GAIN, offers: offers.collect() }
    }

    /// The plan of the collective.
    ///
    /// # Errors
    /// None; the answer is a result like that of other libraries.
    pub fn plan(&self) -> Result<Plan> {
        let point = |size| Ok(self.point(size));
        let operation = self.function.collective().into();
        super::plan(&super::Question { operation, ranks: self.ranks, point: &point })
    }
}

fn each() -> impl Iterator<Item = (Algo, Proto)> {
    let protos = [Proto::Ll, Proto::Ll128, Proto::Simple];
    Algo::ALL.into_iter().flat_map(move |algo| protos.map(|proto| (algo, proto)))
}

fn wire(proto: Proto) -> Wire {
    match proto {
        Proto::Ll => Wire::Ll,
        Proto::Ll128 => Wire::Ll128,
        Proto::Simple => Wire::Simple,
    }
}

fn pick((algorithm, protocol): (Algo, Proto)) -> Pick {
    let name = format!("{}/{}", algorithm.lower(), protocol.lower());
    Pick { id: None, name: name.into(), segment: Bytes(0) }
}

/// Where NCCL's choice is asked last; it goes on beyond.
const LARGEST: Bytes = Bytes(1 << 50);

/// Up to here rings of other communicators take LL.
const SHORT: Bytes = Bytes(65_536);

/// The table of some plans, for one communicator.
///
/// The plugin leaves one channel to every call that no line fits, and to every line of `-1`
/// channels. So lines say 0, which leaves the number to NCCL; behind the plans' lines stands what
/// NCCL takes by itself, for all sizes, and behind that rings for all other communicators.
#[must_use]
pub fn table(plans: &[Plan], chooser: &Chooser, nodes: u32, ranks: u32) -> Rules {
    let mut rules = Vec::new();
    let here = (Some(nodes), Some(ranks));
    for plan in plans {
        let ends = plan.spans.iter().skip(1).map(|next| Bytes(next.from.0 - 1));
        for (span, to) in plan.spans.iter().zip(ends.chain([Bytes(u64::MAX)])) {
            let wanted = span.pick.as_ref().and_then(|asked| each().find(|&c| pick(c) == *asked));
            if let Some(cell) = wanted {
                rules.push(rule(plan.operation.collective, (span.from, to), cell, here));
            }
        }
    }
    for &collective in COLLECTIVES {
        let Some(function) = Function::of(collective) else { continue };
        for own in ranges(chooser, function, Bytes(0), LARGEST) {
            if let Some(decision) = own.first {
                let cell = (decision.algo, decision.proto);
                let to = if own.to == LARGEST { Bytes(u64::MAX) } else { own.to };
                rules.push(rule(collective, (own.from, to), cell, here));
            }
        }
    }
    for &collective in COLLECTIVES {
        let long = (Bytes(SHORT.0 + 1), Bytes(u64::MAX));
        let ring = |protocol| (Algo::Ring, protocol);
        rules.push(rule(collective, (Bytes(0), SHORT), ring(Proto::Ll), (None, None)));
        rules.push(rule(collective, long, ring(Proto::Simple), (None, None)));
    }
    Rules { rules }
}

fn rule(
    collective: Collective,
    (from, to): (Bytes, Bytes),
    (algorithm, protocol): (Algo, Proto),
    (nodes, ranks): (Option<u32>, Option<u32>),
) -> Rule {
    Rule {
        collective,
        from,
        to,
        algorithm,
        protocol,
        channels: Channels::Own,
        nodes,
        ranks,
        pipe_ops: None,
        registered: None,
        line: Line::default(),
    }
}

/// How the file is loaded, and what to know.
#[must_use]
pub fn head(file: Option<&str>) -> Vec<String> {
    let file = file.unwrap_or("THIS_FILE");
    vec![
        "load it with NCCL's example tuner plugin (plugins/tuner/example, 2.27.7 and later):"
            .to_owned(),
        format!(
            "  NCCL_TUNER_PLUGIN=/path/to/libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={file}"
        ),
        "the plugin leaves one channel to calls that no line fits: so all have a line, and 0 \
         channels leaves their number to NCCL"
            .to_owned(),
        "behind the predicted lines stands what NCCL takes by itself there, then rings for \
         communicators of other sizes"
            .to_owned(),
    ]
}
