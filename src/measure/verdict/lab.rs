//! Causes that are simulated on the machine or computed by the model: a fault of `mock`, a forced
//! algorithm, a size in another convention, a break at one size.

use std::cell::{OnceCell, RefCell};

use super::likelihood::Figures;
use super::mechanism::{
    ALGORITHM, CLIFF, DOMAIN, NICS, NVLS, Next, P2P, P2P_NEXT, PROTO, SLOW_RANK_MPI, Wire,
};
use super::plateau::known;
use super::suspects::{Predicted, Suspect};
use super::{Facts, Point, Sizes, Typed, trays};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::cost::rank::candidates;
use crate::library::nccl::{Algo, Proto};
use crate::machine::query::Query;
use crate::machine::sample::DataType;
use crate::measure::expect::{Expecting, Ideal};
use crate::measure::mock::{Fault, Link, Suspected};
use crate::model::algorithm::RunBy;
use crate::model::algorithm::{Library, Registry};

/// A slower rank or link is simulated with this factor …
const SIMULATED: Ratio = Ratio(2.0);
/// … and its times are scaled to each of these factors: what they add is no further apart than it may be off.
const SLOWER: [f64; 10] = [1.2, 1.28, 1.4, 1.56, 1.8, 2.1, 2.5, 3.1, 3.9, 5.0];
/// With more ranks a simulation takes too long.
const MOST_SIMULATED: u32 = 1024;
/// Breaks are searched at this size and above.
const BREAK: Bytes = Bytes(1 << 18);
/// … each by this factor above the one before, or more: nearer ones cannot be told apart.
const APART: Ratio = Ratio(1.18);
/// Factors by which calls are slower after a break, as close together.
const FALLS: [f64; 9] = [1.5, 1.7, 2.0, 2.4, 3.0, 3.8, 4.9, 6.4, 8.5];
/// All calls before it may be slower, too: the network is not the profile's.
const BEFORE: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

/// What confirms that data inside a node go over the network.
const OTHER_LINKS: Next = Next::All {
    nccl: P2P_NEXT,
    mpi: "UCX_TLS must allow `sm`; ompi_info | grep btl, /dev/shm inside the container",
};
const SLOW_LINK: Next = Next::of_all(
    "ib_write_bw between pairs of nodes; perfquery for symbol errors; width and speed of links (lspci -vv, \
     ibstat)",
);
const SLOW_RANK: Next = Next::All {
    nccl: "nvidia-smi nvlink -s; nvidia-smi -q -d CLOCK,PERFORMANCE on every node: throttling; PCIe width \
           (lspci -vv); dmesg | grep -i xid; a run on each pair of GPUs",
    mpi: SLOW_RANK_MPI,
};

pub(super) struct Lab<'a> {
    pub registry: &'a Registry,
    pub query: &'a Query,
    pub expecting: &'a Expecting<'a>,
    pub dtype: Option<DataType>,
    pub points: &'a [Point],
    pub run_by: RunBy,
    /// The only algorithm that the run's variables leave.
    pub only: Option<Algo>,
    /// The machine that has each fault in turn; `None` if it has no prices.
    pub faulty: OnceCell<Option<RefCell<Suspected<'a>>>>,
}

impl Lab<'_> {
    /// The time of a healthy call, by everything that is known.
    pub fn healthy(&self, size: Bytes) -> Seconds {
        let expected = self.expecting.at(size);
        expected.time
            * Ratio(known((self.query, self.run_by, self.only), size, &expected).later.exp())
    }

    /// What confirms a cause with the library that ran; `None` if it cannot have the cause.
    fn next(&self, next: &Next) -> Option<String> {
        next.of(self.run_by).map(str::to_owned)
    }

    /// A fault that is simulated on the machine; `None` if the machine cannot have it.
    fn fault(&self, fault: &Fault) -> Option<Predicted> {
        let faulty = self.faulty.get_or_init(|| {
            let sizes: Vec<Bytes> = self.points.iter().map(|p| p.size).collect();
            let dtype = self.dtype.unwrap_or(DataType::F32);
            Suspected::new(self.registry, self.query, &sizes, dtype).ok().map(RefCell::new)
        });
        let ratios = faulty.as_ref()?.borrow_mut().slowdown(fault).ok()?;
        let ratios: Vec<f64> = ratios.into_iter().map(|r| r.0.ln()).collect();
        ratios.iter().any(|r| r.abs() > 0.01).then_some(Predicted::Times(vec![ratios]))
    }

    /// Rates and sizes that are meant in another convention.
    pub fn conventions(&self, facts: &Facts) -> Vec<Suspect> {
        use Collective::{AllGather, AllToAll, ReduceScatter};
        let (shape, points) = (&self.query.shape, self.points);
        let mut all = Vec::new();
        let mut say = |what: String, next: &str, predicted: Option<Vec<f64>>| {
            all.extend(predicted.map(|times| Suspect {
                id: "wrong-convention",
                what,
                next: next.to_owned(),
                predicted: Predicted::Times(vec![times]),
                figures: Figures::Exact,
                ..Suspect::default()
            }));
        };
        let blocks = matches!(shape.collective, AllGather | ReduceScatter | AllToAll);
        // A program that prints what its sizes count does not err in it.
        let open = facts.typed.is_some() || facts.sizes != Sizes::Documented;
        if blocks && open {
            let n = u64::from(shape.ranks);
            for (what, scale) in [
                ("sizes count one rank's block: M is N times as large", Ratio(n as f64)),
                ("sizes count N times M", Ratio(1.0 / n as f64)),
            ] {
                let next =
                    "use collcost convert --size-is, and give sizes as nccl-tests counts them";
                say(what.to_owned(), next, self.scaled(scale));
            }
        }
        if let Some(typed @ (Typed::Busbw(_) | Typed::Algbw(_))) = facts.typed {
            let factor = shape.collective.busbw_factor(shape.ranks).0;
            let all = |times: f64| Some(vec![f64::ln(times); points.len()]);
            let convert = "collcost convert shows what each rate means";
            if (factor - 1.0).abs() > 0.05 {
                match typed {
                    Typed::Algbw(_) => {
                        say("the rate is busbw, not algbw".to_owned(), convert, all(1.0 / factor));
                    }
                    _ => say("the rate is algbw, not busbw".to_owned(), convert, all(factor)),
                }
            }
            say("the rate is in bits per second, not in bytes".to_owned(), convert, all(0.125));
            say("the rate is in bytes per second, not in bits".to_owned(), convert, all(8.0));
            say(
                "the rate counts both directions; algbw and busbw are one way".to_owned(),
                convert,
                all(0.5),
            );
        }
        all
    }

    /// The time of M times `scale`, relative to that of M.
    fn scaled(&self, scale: Ratio) -> Option<Vec<f64>> {
        let of = |p: &Point| {
            let size = Bytes((p.size.0 as f64 * scale.0).round().max(1.0) as u64);
            (self.expecting.time(size).0 / p.expected.time.0).ln()
        };
        Some(self.points.iter().map(of).collect())
    }

    /// Missing NICs.
    pub fn nics(&self) -> Vec<Suspect> {
        let tiers = &self.query.machine.fabric.tiers;
        let nics = tiers.last().and_then(|t| t.nics).map_or(1, |n| n.get());
        if self.query.placement.nodes() < 2 {
            return Vec::new();
        }
        let lost = |k: u32| {
            let next = self.next(&NICS)?;
            let count = std::num::NonZeroU32::new(k)?;
            let left = nics - k;
            Some(Suspect {
                id: "missing-nic",
                what: format!("{left} of {nics} NICs per node carry the traffic"),
                next,
                predicted: self.fault(&Fault::MissingNic { count })?,
                ..Suspect::default()
            })
        };
        (1..nics).filter_map(lost).collect()
    }

    /// Whether switches do not reduce the type of the elements, though they reduce others: NCCL has no
    /// NVLS for types of eight bits.
    pub fn is_not_added(&self) -> bool {
        use DataType::{F8e4m3, F8e5m2, I8, U8};
        let eight = matches!(self.dtype, Some(I8 | U8 | F8e4m3 | F8e5m2));
        let adds = self.query.machine.has_nvls();
        eight && adds && self.query.shape.collective == Collective::AllReduce
    }

    /// Switches that should reduce and do not.
    pub fn switches(&self) -> Option<Suspect> {
        Some(Suspect {
            id: "nvls-missing",
            what: "the switch does not reduce: NVLS (or SHARP) is missing".to_owned(),
            next: self.next(&NVLS)?,
            predicted: self.fault(&Fault::NvlsOff)?,
            ..Suspect::default()
        })
    }

    /// Data inside a node that use other links.
    pub fn tiers(&self) -> Vec<Suspect> {
        let mut all = Vec::new();
        // A rank alone on its node has no link inside.
        if self.query.placement.nodes() == self.query.shape.ranks {
            return all;
        }
        let others = [None, Some("a100-pcie"), Some("l40s-pcie"), Some("tcp-25g")];
        for of in others {
            let what = match of {
                None => {
                    "data inside a node go over the network: the node's links are idle".to_owned()
                }
                Some("tcp-25g") => "data inside a node go over TCP".to_owned(),
                Some(other) => format!("data inside a node go over PCIe, as on {other}"),
            };
            let fault = Fault::WrongTier { of: of.map(str::to_owned) };
            let next = if of.is_none() { OTHER_LINKS } else { P2P };
            let Some(next) = self.next(&next) else { continue };
            let Some(predicted) = self.fault(&fault) else { continue };
            all.push(Suspect { id: "setting", what, next, predicted, ..Suspect::default() });
        }
        all
    }

    /// Hosts of a rack that NVLink does not join, over all their NICs or some.
    pub fn trays(&self) -> Option<Suspect> {
        let apart = trays::apart(self.query)?;
        let expecting = Expecting::with(self.registry, &apart, None, self.dtype).ok()?;
        let sizes: Vec<Bytes> = self.points.iter().map(|p| p.size).collect();
        let wire = Wire::new(&apart, &|size| expecting.time(size), &sizes, false);
        let more = |times: Vec<f64>| {
            let of = |(p, more): (&Point, f64)| {
                (expecting.time(p.size).0 / p.expected.time.0).ln().max(0.0) + more
            };
            self.points.iter().zip(times).map(of).collect()
        };
        let fewer = wire.lost().map(|times| more(wire.left(times)));
        let all = Some(more(vec![0.0; sizes.len()]));
        Some(Suspect {
            id: "domain-off",
            what: "the NVLink domain is not used between the hosts of a rack: IMEX is down, or MNNVL is off"
                .to_owned(),
            next: self.next(&DOMAIN)?,
            predicted: Predicted::Times(all.into_iter().chain(fewer).collect()),
            ..Suspect::default()
        })
    }

    /// A protocol of NCCL that is off.
    pub fn protocols(&self) -> Vec<Suspect> {
        let off = |protocol: Proto| {
            Some(Suspect {
                id: "setting",
                what: format!("NCCL does not use {}", protocol.name()),
                next: self.next(&PROTO)?,
                lacks: Some(protocol),
                predicted: self.fault(&Fault::ProtocolOff { protocol })?,
                ..Suspect::default()
            })
        };
        [Proto::Ll, Proto::Ll128].into_iter().filter_map(off).collect()
    }

    /// All sizes from one on are slower by the same factor.
    pub fn cliff(&self) -> Option<Suspect> {
        // A single size after a break is an outlier.
        let last = self.points.len().checked_sub(2).map(|i| self.points[i].size)?;
        let sizes = self.points.iter().skip(2).map(|p| p.size);
        let mut breaks: Vec<Bytes> = Vec::new();
        for size in sizes.filter(|size| (BREAK..=last).contains(size)) {
            let next = breaks.last().map_or(0.0, |at| at.0 as f64 * APART.0);
            if size.0 as f64 >= next {
                breaks.push(size);
            }
        }
        let step = |at: Bytes, by: f64, before: f64| -> Vec<f64> {
            let of = |p: &Point| if p.size >= at { (by * before).ln() } else { before.ln() };
            self.points.iter().map(of).collect()
        };
        let several = self.query.placement.nodes() > 1;
        let before = if several { &BEFORE[..] } else { &BEFORE[..1] };
        let each =
            |at| FALLS.into_iter().flat_map(move |by| before.iter().map(move |b| (at, by, *b)));
        let forms = breaks.into_iter().flat_map(each);
        let forms: Vec<Vec<f64>> = forms.map(|(at, by, before)| step(at, by, before)).collect();
        (!forms.is_empty()).then(|| Suspect {
            id: if self.query.placement.nodes() > 1 { "fabric" } else { "version" },
            what: format!(
                "something changes from one size on: another algorithm or protocol, {}or a congested \
                 network (PFC, ECN)",
                if self.run_by == RunBy::Hosts { "" } else { "no GPUDirect, " }
            ),
            next: self.next(&CLIFF).unwrap_or_default(),
            predicted: Predicted::Times(forms),
            ..Suspect::default()
        })
    }

    /// An algorithm other than what runs by itself.
    pub fn algorithms(&self) -> Vec<Suspect> {
        if self.only.is_some() {
            return Vec::new();
        }
        let (shape, fabric) = (&self.query.shape, &self.query.machine.fabric);
        // GPU machines that name no library run NCCL or a derivative of it.
        let gpus = self.query.machine.hardware.is_some();
        let library = match self.query.library() {
            // What ran is the log's library, even where the machine's is another.
            Some(own) if self.run_by == RunBy::Nccl && !own.connects_as_nccl() => {
                Some(Library::Nccl)
            }
            own => own.or(gpus.then_some(Library::Nccl)),
        };
        let Ok((ready, _)) = candidates(self.registry, shape, fabric) else { return Vec::new() };
        let shipped: Vec<_> =
            ready.iter().filter(|c| c.algorithm.is_shipped(library, shape)).collect();
        let names = |i: usize| {
            let names = shipped[i].algorithm.shipped(shape);
            names
                .iter()
                .find_map(|&(l, name)| (Some(l) == library).then(|| Algo::named(name).ok())?)
        };
        let one = |i: usize| {
            let id = shipped[i].algorithm.meta().id;
            let named = Ideal::new(self.registry, self.query, fabric, Some(id)).ok()?;
            let ratio = |p: &Point| {
                let with = self.expecting.with_only(&named, p.size);
                (with.time.0 / p.expected.time.0).ln().max(0.0)
            };
            let predicted: Vec<f64> = self.points.iter().map(ratio).collect();
            predicted.iter().any(|r| *r > 0.02).then(|| Suspect {
                id: "setting",
                what: format!("{} runs at every size", shipped[i].algorithm.meta().title),
                next: self.next(&ALGORITHM).unwrap_or_default(),
                forces: names(i),
                predicted: Predicted::Times(vec![predicted.clone()]),
                ..Suspect::default()
            })
        };
        (0..shipped.len()).filter_map(one).collect()
    }

    /// One link or rank slower than the others; inside one node each rank has one link.
    pub fn slow(&self) -> Vec<Suspect> {
        let (nodes, ranks) = (self.query.placement.nodes(), self.query.shape.ranks);
        if ranks > MOST_SIMULATED {
            return Vec::new();
        }
        let of_rank = Fault::SlowRank { rank: Some(0), factor: SIMULATED };
        let of_link = Fault::SlowLink { link: Link::Of(0), factor: SIMULATED };
        let of = |(id, what, next, fault): (_, &str, &Next, &Fault)| {
            let Predicted::Times(forms) = self.fault(fault)? else { return None };
            // The factor is unknown: its logarithm scales that of the times.
            let stretched = SLOWER.map(|x: f64| {
                let by = x.ln() / SIMULATED.0.ln();
                forms[0].iter().map(|f| by * f).collect()
            });
            Some(Suspect {
                id,
                what: what.to_owned(),
                next: self.next(next)?,
                predicted: Predicted::Times(stretched.to_vec()),
                ..Suspect::default()
            })
        };
        let all = [
            ("bad-node", "one link is slower than the others", &SLOW_LINK, &of_link),
            (
                "slow-rank",
                "one rank's link, or everything the rank does, is slower than the others'",
                &SLOW_RANK,
                &of_rank,
            ),
        ];
        all[usize::from(nodes < 2)..].iter().copied().filter_map(of).collect()
    }
}
