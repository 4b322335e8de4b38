//! Everything that may be the cause, with how much longer calls would take.
//!
//! A suspect is one line in [`all`]: a short name, a sentence, what to run next, and the ratio of its
//! times to the expected ones at each size. Its score is how often it was true elsewhere, less how far
//! its prediction lies from what was measured over all sizes, less what its free figures would fit of
//! anything.

use super::plateau::Plateau;
use super::signature::{Place, SIGNATURES, Signature, region};
use super::{Cause, Facts, Point, Typed, prior, shape};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::base::stats::median;
use crate::cost::rank::candidates;
use crate::library::nccl::Proto;
use crate::machine::profile::LinkKind;
use crate::machine::query::Query;
use crate::machine::sample::DataType;
use crate::measure::expect::Expecting;
use crate::measure::mock::{Fault, slowdown};
use crate::model::algorithm::Registry;

/// Something that may be the cause.
pub(super) struct Suspect {
    id: &'static str,
    what: String,
    next: String,
    /// ln(time with it/expected time) for each point.
    foretold: Foretold,
    /// Figures of it that were fitted to the points.
    fitted: u32,
    /// ln of the width of ranges that were open to it, over all sizes, and of how many forms it has.
    open: f64,
    /// Whether its times were taken from ranges.
    ranges: bool,
    /// ln of how likely it is, up to a constant.
    score: f64,
}

impl Default for Suspect {
    fn default() -> Self {
        Self {
            id: "",
            what: String::new(),
            next: String::new(),
            foretold: Foretold::Times(Vec::new()),
            fitted: 0,
            open: 0.0,
            ranges: false,
            score: 0.0,
        }
    }
}

/// What a suspect says of every point.
enum Foretold {
    /// ln(time with it/expected time).
    Times(Vec<f64>),
    /// The log itself, or a bound, says that it is so; what is said.
    Said(String),
}

/// A cause must bring the prediction nearer than this part of how far it is off without one.
const NEARER: f64 = 0.65;
/// What explains a run by itself leaves no more than this on average …
const CLOSE: f64 = 0.06;
/// … and no more than this part of the squares …
const UNEXPLAINED: f64 = 0.15;
/// … of no less than this, where it says that something is off …
const OFF: f64 = 0.05;
/// … at so many times its own strength.
const STRENGTH: (f64, f64) = (0.5, 1.3);
/// Sizes are off from here on.
const MOVED: f64 = 0.04;
/// The same where the curve is of another machine of the kind.
const OFF_ELSEWHERE: f64 = 0.10;
/// A figure that was fitted could have been anything in a range so wide, as a logarithm.
const FREE: f64 = 3.0;
/// So much of the band's reach is what neighbouring sizes are off by apart from each other …
const APART: f64 = 0.35;
/// … but no less than this, as simulated and real times differ.
const LEAST_APART: f64 = 0.04;
/// More sizes than this say nothing new: their errors go together.
const SIZES: usize = 8;
/// Sizes of which bytes decide.
const LARGE: Bytes = Bytes(1 << 20);

impl Suspect {
    /// How far its prediction is off: the mean of |ln(measured/predicted)|.
    fn off(&self, points: &[Point]) -> f64 {
        let Foretold::Times(foretold) = &self.foretold else { return 0.0 };
        let all = points.iter().zip(foretold).map(|(p, f)| (p.error() - f).abs());
        all.sum::<f64>() / points.len().max(1) as f64
    }

    /// ln of how likely it is, up to a constant.
    fn weigh(&mut self, points: &[Point], nodes: u32) {
        let scale = scale(points);
        let free = f64::from(self.fitted) * (1.0 + FREE / (3.0 * scale)).ln();
        let sizes = points.len().min(SIZES) as f64;
        self.score =
            prior::ln(self.id, nodes) - sizes * self.off(points) / scale - free - self.open;
    }

    /// Whether it is told by other things than times.
    pub(super) fn is_said(&self) -> bool {
        matches!(self.foretold, Foretold::Said(_))
    }

    /// Whether it alone is enough to call a run ill that lies inside its bands: the errors have its
    /// shape. They may be somewhat weaker or stronger, as noise makes a fault's share smaller.
    pub(super) fn explains(&self, points: &[Point]) -> bool {
        let Foretold::Times(foretold) = &self.foretold else { return true };
        // A range follows what was measured wherever it goes: it explains nothing by itself.
        if self.ranges {
            return false;
        }
        let both = || points.iter().zip(foretold).map(|(p, &f)| (p.error(), f));
        let sum = |of: fn((f64, f64)) -> f64| both().map(of).sum::<f64>();
        let (own, with, all) = (sum(|(_, f)| f * f), sum(|(e, f)| e * f), sum(|(e, _)| e * e));
        let strength = (with / own.max(1e-12)).clamp(STRENGTH.0, STRENGTH.1);
        let left = both().map(|(e, f)| (e - strength * f).powi(2)).sum::<f64>();
        let moved: Vec<f64> = both().filter(|(_, f)| *f > MOVED).map(|(e, _)| e).collect();
        let mean = moved.iter().sum::<f64>() / moved.len().max(1) as f64;
        moved.len() >= 3
            && mean > if points.iter().all(|p| p.doubt == 0.0) { OFF } else { OFF_ELSEWHERE }
            && left < UNEXPLAINED * all
            && left < CLOSE * CLOSE * points.len() as f64
    }

    /// The cause, if it brings the prediction nearer.
    pub(super) fn cause(&self, points: &[Point]) -> Option<Cause> {
        let (off, without) = (self.off(points), none(points));
        let evidence = match &self.foretold {
            Foretold::Said(what) => what.clone(),
            Foretold::Times(_) if off > NEARER * without => return None,
            Foretold::Times(foretold) => {
                let last = points.len().checked_sub(1)?;
                let times = |i: usize| {
                    format!(
                        "{:.2} x at {} (measured {:.2} x)",
                        foretold[i].exp(),
                        points[i].size,
                        points[i].ratio().0
                    )
                };
                let ends =
                    if last == 0 { times(0) } else { format!("{}, {}", times(0), times(last)) };
                format!(
                    "foretells {ends}; off by {:.0} % over all sizes, {:.0} % without it",
                    100.0 * off,
                    100.0 * without
                )
            }
        };
        Some(Cause {
            id: self.id,
            what: self.what.clone(),
            chance: Ratio(self.score.exp()),
            off: matches!(self.foretold, Foretold::Times(_)).then_some(Ratio(off)),
            evidence,
            next: self.next.clone(),
        })
    }
}

/// How far a right prediction is off at one size.
fn scale(points: &[Point]) -> f64 {
    let reach = median(points.iter().map(Point::reach).collect()).unwrap_or(0.0);
    (APART * reach).max(LEAST_APART)
}

/// How far the expectation itself is off.
fn none(points: &[Point]) -> f64 {
    points.iter().map(|p| p.error().abs()).sum::<f64>() / points.len().max(1) as f64
}

/// All suspects, the nearest first.
pub(super) fn all(
    registry: &Registry,
    query: &Query,
    dtype: Option<DataType>,
    points: &[Point],
    (facts, impossible): (&Facts, Option<&(Bytes, String)>),
) -> Vec<Suspect> {
    let lab = Lab { registry, query, dtype, points };
    let mut all = Vec::new();
    if facts.shared_gpu {
        all.push(Suspect {
            id: "shared-gpu",
            what: "several ranks run on one GPU: it is no run of the machine".to_owned(),
            next: "start one rank per GPU: mpirun --map-by ppr:8:node, CUDA_VISIBLE_DEVICES, -g 1"
                .to_owned(),
            foretold: Foretold::Said("the log says so".to_owned()),
            fitted: 0,
            ..Suspect::default()
        });
    }
    if facts.wrong > 0 {
        all.push(Suspect {
            id: "wrong-results",
            what: "results were wrong: data were lost or mixed up, and no time counts".to_owned(),
            next: "nvidia-smi -q -d ECC; dmesg | grep -i xid; the run with -c 1 on each pair of GPUs or \
                   nodes alone, until the wrong one is found"
                .to_owned(),
            foretold: Foretold::Said(format!("#wrong counts {} elements", facts.wrong)),
            fitted: 0,
            ..Suspect::default()
        });
    }
    // Where latency decides, nothing else makes a call so fast.
    if let Some((_, why)) = impossible.filter(|(size, _)| *size < LARGE) {
        all.push(Suspect {
            id: "not-one-call",
            what: "what was timed is no call of its own".to_owned(),
            next:
                "the run without -G, with -m 1, and with a wait for the end: cudaEventSynchronize"
                    .to_owned(),
            foretold: Foretold::Said(why.clone()),
            fitted: 0,
            ..Suspect::default()
        });
    }
    let said = all.len();
    all.extend(lab.conventions(facts));
    all.extend(alternatives(lab.nics()));
    all.extend(lab.switches());
    all.extend(alternatives(lab.tiers()));
    all.extend(alternatives(lab.protocols()));
    all.extend(lab.late());
    all.extend(lab.cliff());
    all.extend(alternatives(lab.algorithms()));
    all.extend(lab.slow());
    all.extend(lab.signatures());
    all.extend(lab.whole_nics());
    let nodes = query.placement.nodes();
    for suspect in &mut all[said..] {
        suspect.weigh(points, nodes);
    }
    all[said..].sort_by(|a, b| b.score.total_cmp(&a.score));
    // Among all of them together they are certain; what the log says itself needs no weighing.
    let most = all.get(said).map_or(0.0, |s| s.score);
    let sum: f64 = all[said..].iter().map(|s| (s.score - most).exp()).sum();
    for suspect in &mut all[said..] {
        suspect.score -= most + sum.ln();
    }
    all
}

/// Of several forms of one cause each is as much less likely.
fn alternatives(mut forms: Vec<Suspect>) -> Vec<Suspect> {
    let open = (forms.len().max(1) as f64).ln();
    forms.iter_mut().for_each(|form| form.open += open);
    forms
}

/// What confirms that NICs are missing.
const NICS_NEXT: &str = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET lists the NICs; ibstat, NCCL_IB_HCA, \
                         ib_write_bw -d each";
/// By chance a rate lies so near to a whole number of NICs once in six: ln 6.
const WHOLE: f64 = 1.8;
/// Machines' own rates differ by so much, as a logarithm.
const WHOLE_REACH: f64 = 0.1;
/// Lost NICs slow sizes up to 16 MiB by no more: ln 1.1.
const MIDDLE_NICS: f64 = 0.095;
/// No more is a rank or a link slower than the others.
const SLOWEST: f64 = 6.0;
/// Of more ranks one slow rank is taken to slow everything alike: to play that out takes seconds.
const MOST_SIMULATED: u32 = 1024;

struct Lab<'a> {
    registry: &'a Registry,
    query: &'a Query,
    dtype: Option<DataType>,
    points: &'a [Point],
}

impl Lab<'_> {
    /// Causes that are known by the factors they were seen to have.
    fn signatures(&self) -> Vec<Suspect> {
        SIGNATURES.iter().filter(|s| self.possible(s)).map(|s| self.signature(s)).collect()
    }

    /// Large sizes on a plateau at a whole number of NICs, whatever a simulation says of those between.
    fn whole_nics(&self) -> Option<Suspect> {
        let (left, nics) = Plateau::of(self.query, self.points)?.whole()?;
        let most = f64::ln(f64::from(nics) / f64::from(left)) + WHOLE_REACH;
        let ends = [0.0, MIDDLE_NICS, most];
        let foretold = |p: &Point| p.error().clamp(0.0, ends[region(p.size)]);
        let scale = scale(self.points);
        Some(Suspect {
            id: "missing-nic",
            what: format!("{left} of {nics} NICs per node carry the traffic"),
            next: NICS_NEXT.to_owned(),
            foretold: Foretold::Times(self.points.iter().map(foretold).collect()),
            open: (1.0 + most / (3.0 * scale)).ln() - WHOLE,
            ranges: true,
            ..Suspect::default()
        })
    }

    fn possible(&self, signature: &Signature) -> bool {
        let several = self.query.placement.nodes() > 1;
        let link = self.query.machine.hardware.as_ref().map(|h| h.link);
        let pcie = link.is_none_or(|link| link == LinkKind::Pcie);
        match signature.place {
            Place::Anywhere => true,
            Place::SeveralNodes => several,
            Place::OneNodePcie => !several && pcie,
            Place::NotSwitched => several || pcie,
            Place::OwnRuns => self.points.iter().all(|p| p.doubt == 0.0),
        }
    }

    /// A region's times inside of the range, as near as it comes to what was measured.
    fn signature(&self, signature: &Signature) -> Suspect {
        let scale = scale(self.points);
        let (mut foretold, mut open) = ([0.0; 3], 0.0);
        for (at, &(least, most)) in signature.factors.iter().enumerate() {
            let errors = self.points.iter().filter(|p| region(p.size) == at).map(Point::error);
            if let Some(middle) = median(errors.collect()) {
                foretold[at] = middle.clamp(f64::ln(least), f64::ln(most));
                open += (1.0 + f64::ln(most / least) / (3.0 * scale)).ln();
            }
        }
        Suspect {
            id: signature.id,
            what: signature.what.to_owned(),
            next: signature.next.to_owned(),
            foretold: Foretold::Times(
                self.points.iter().map(|p| foretold[region(p.size)]).collect(),
            ),
            open,
            ranges: true,
            ..Suspect::default()
        }
    }

    /// A fault put into the machine and simulated; none where the machine cannot have it.
    fn fault(&self, fault: &Fault) -> Option<Foretold> {
        let sizes: Vec<Bytes> = self.points.iter().map(|p| p.size).collect();
        let dtype = self.dtype.unwrap_or(DataType::F32);
        let ratios = slowdown(self.registry, self.query, fault, &sizes, dtype).ok()?;
        let ratios: Vec<f64> = ratios.into_iter().map(|r| r.0.ln()).collect();
        ratios.iter().any(|r| r.abs() > 0.01).then_some(Foretold::Times(ratios))
    }

    /// Rates and sizes that mean something else.
    fn conventions(&self, facts: &Facts) -> Vec<Suspect> {
        use Collective::{AllGather, AllToAll, ReduceScatter};
        let (shape, points) = (&self.query.shape, self.points);
        let mut all = Vec::new();
        let mut say = |what: String, next: &str, foretold: Option<Vec<f64>>| {
            all.extend(foretold.map(|times| Suspect {
                id: "wrong-convention",
                what,
                next: next.to_owned(),
                foretold: Foretold::Times(times),
                fitted: 0,
                ..Suspect::default()
            }));
        };
        let blocks = matches!(shape.collective, AllGather | ReduceScatter | AllToAll);
        if blocks {
            let n = u64::from(shape.ranks);
            for (what, scale) in [
                ("sizes are of one rank's block: M is N times as much", Ratio(n as f64)),
                ("sizes are N times M", Ratio(1.0 / n as f64)),
            ] {
                let next =
                    "collcost convert --size-is, and give the sizes as nccl-tests counts them";
                say(what.to_owned(), next, self.scaled(scale));
            }
        }
        if let Some(typed @ (Typed::Busbw | Typed::Algbw)) = facts.typed {
            let factor = shape.collective.busbw_factor(shape.ranks).0;
            let all = |times: f64| Some(vec![f64::ln(times); points.len()]);
            let convert = "collcost convert says what each rate means";
            if (factor - 1.0).abs() > 0.05 {
                match typed {
                    Typed::Algbw => {
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

    /// What M times `scale` takes, over what M does.
    fn scaled(&self, scale: Ratio) -> Option<Vec<f64>> {
        let expecting =
            Expecting::with(self.registry, self.query, None, self.dtype).ok()?.unseen_tier(true);
        let of = |p: &Point| {
            let size = Bytes((p.size.0 as f64 * scale.0).round().max(1.0) as u64);
            (expecting.time(size).0 / p.expected.time.0).ln()
        };
        Some(self.points.iter().map(of).collect())
    }

    /// Some NICs of several.
    fn nics(&self) -> Vec<Suspect> {
        let tiers = &self.query.machine.fabric.tiers;
        let nics = tiers.last().and_then(|t| t.nics).map_or(1, |n| n.get());
        if self.query.placement.nodes() < 2 {
            return Vec::new();
        }
        let lost = |k: u32| {
            let count = std::num::NonZeroU32::new(k)?;
            let left = nics - k;
            Some(Suspect {
                id: "missing-nic",
                what: format!("{left} of {nics} NICs per node carry the traffic"),
                next: NICS_NEXT.to_owned(),
                foretold: self.fault(&Fault::MissingNic { count })?,
                fitted: 0,
                ..Suspect::default()
            })
        };
        (1..nics).filter_map(lost).collect()
    }

    /// Switches that should add and do not.
    fn switches(&self) -> Option<Suspect> {
        Some(Suspect {
            id: "nvls-missing",
            what: "the switch does not add: NVLS (or SHARP) is missing".to_owned(),
            next: "NCCL_DEBUG=INFO shows `NVLS multicast support`; NCCL_NVLS_ENABLE=1, the fabric manager, \
                   the data type (integers and f64 are not added by every switch)"
                .to_owned(),
            foretold: self.fault(&Fault::NvlsOff)?,
            fitted: 0,
            ..Suspect::default()
        })
    }

    /// Data inside a node that go over other links.
    fn tiers(&self) -> Vec<Suspect> {
        let mut all = Vec::new();
        let others = [None, Some("a100-pcie"), Some("l40s-pcie"), Some("tcp-25g")];
        for of in others {
            let what = match of {
                None => "data inside a node go over the network: its links are not used".to_owned(),
                Some("tcp-25g") => "data inside a node go over TCP".to_owned(),
                Some(other) => format!("data inside a node go over PCIe, as on {other}"),
            };
            let fault = Fault::WrongTier { of: of.map(str::to_owned) };
            let Some(foretold) = self.fault(&fault) else { continue };
            all.push(Suspect {
                id: "setting",
                what,
                next: "nvidia-smi topo -m, nvidia-smi nvlink -s; NCCL_P2P_LEVEL, NCCL_DEBUG=INFO shows \
                       `via P2P` or `via SHM`"
                    .to_owned(),
                foretold,
                fitted: 0,
                ..Suspect::default()
            });
        }
        all
    }

    /// A protocol of NCCL that is off.
    fn protocols(&self) -> Vec<Suspect> {
        let off = |protocol: Proto| {
            Some(Suspect {
                id: "setting",
                what: format!("NCCL does not use {}", protocol.name()),
                next: "env | grep NCCL_PROTO; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING, then collcost \
                       nccl log"
                    .to_owned(),
                foretold: self.fault(&Fault::ProtocolOff { protocol })?,
                fitted: 0,
                ..Suspect::default()
            })
        };
        [Proto::Ll, Proto::Ll128].into_iter().filter_map(off).collect()
    }

    /// A rank that comes late to every call: as much longer at every size.
    fn late(&self) -> Option<Suspect> {
        let [small, ..] = shape::regions(self.points);
        let late = median(small.iter().map(|p| p.measured.0 - p.expected.time.0).collect())?;
        if late <= 0.0 {
            return None;
        }
        let foretold = self.points.iter().map(|p| (1.0 + late / p.expected.time.0).ln()).collect();
        Some(Suspect {
            id: "straggler",
            what: format!("every call takes {} longer, whatever its size: a rank comes late", Seconds(late)),
            next: "time the ranks apart (nccl-tests -a 0..3), look for clocks, other jobs, CPU frequency; \
                   NCCL's RAS or flight recorder names the rank"
                .to_owned(),
            foretold: Foretold::Times(foretold),
            fitted: 1,
            ..Suspect::default()
        })
    }

    /// From one size on everything is slower by one factor.
    fn cliff(&self) -> Option<Suspect> {
        let at = shape::breaks(self.query, self.points)?.at;
        let behind = |p: &&Point| p.size >= at;
        let factor = median(self.points.iter().filter(behind).map(Point::error).collect())?;
        let step = |p: &Point| if p.size >= at { factor } else { 0.0 };
        Some(Suspect {
            id: if self.query.placement.nodes() > 1 { "fabric" } else { "version" },
            what: format!(
                "from {at} on something else runs: another algorithm or protocol, no GPUDirect, or a \
                 congested network (PFC, ECN)"
            ),
            next: "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING says what runs at each size; the same with \
                   NCCL_ALGO and NCCL_PROTO set; pause and retransmission counters of the NICs"
                .to_owned(),
            foretold: Foretold::Times(self.points.iter().map(step).collect()),
            fitted: 2,
            ..Suspect::default()
        })
    }

    /// Another algorithm than the one that is best.
    fn algorithms(&self) -> Vec<Suspect> {
        let (shape, fabric) = (&self.query.shape, &self.query.machine.fabric);
        let library = self.query.library();
        let Ok((ready, _)) = candidates(self.registry, shape, fabric) else { return Vec::new() };
        let shipped: Vec<_> =
            ready.iter().filter(|c| c.algorithm.is_shipped(library, shape)).collect();
        let time = |p: &Point, i: usize| shipped[i].prepared.time(Volume::from(p.size)).0;
        let best = |p: &Point| (0..shipped.len()).map(|i| time(p, i)).fold(f64::INFINITY, f64::min);
        let one = |i: usize| {
            let ratio = |p: &Point| (time(p, i) / best(p)).ln();
            let foretold: Vec<f64> = self.points.iter().map(ratio).collect();
            foretold.iter().any(|r| *r > 0.02).then(|| Suspect {
                id: "setting",
                what: format!("{} runs at every size", shipped[i].algorithm.meta().title),
                next: "env | grep NCCL_ALGO; collcost select says what should run".to_owned(),
                foretold: Foretold::Times(foretold.clone()),
                fitted: 0,
                ..Suspect::default()
            })
        };
        (0..shipped.len()).filter_map(one).collect()
    }

    /// One link or rank that is slower than the others.
    fn slow(&self) -> Vec<Suspect> {
        let [.., large] = shape::regions(self.points);
        let factor = median(large.iter().map(|p| p.ratio().0).collect()).unwrap_or(1.0);
        // Of ranks that are slower by more nobody tells: paths are, and these are other causes.
        if !(1.05..=SLOWEST).contains(&factor) {
            return Vec::new();
        }
        let factor = Ratio(factor);
        let many = self.query.shape.ranks > MOST_SIMULATED;
        let alike = || Some(Foretold::Times(vec![factor.0.ln(); self.points.len()]));
        let link = match many {
            true => None,
            false => {
                self.fault(&Fault::SlowLink { link: crate::measure::mock::Link::Of(0), factor })
            }
        };
        let of_rank = match many {
            true => alike(),
            false => self.fault(&Fault::SlowRank { rank: Some(0), factor }),
        };
        let times = factor.0;
        // Inside one node a rank has one link, so a slow one is a slow rank.
        if self.query.placement.nodes() < 2 {
            let suspect = |foretold| {
                Suspect {
                id: "slow-rank",
                what: format!("the link of one rank, or all that it does, is {times:.1} times slower"),
                next: "nvidia-smi nvlink -s; nvidia-smi -q -d CLOCK,PERFORMANCE; PCIe width (lspci -vv); \
                       dmesg | grep -i xid; the run on each pair of GPUs"
                    .to_owned(),
                foretold,
                fitted: 1,
                ..Suspect::default()
            }
            };
            return of_rank.or(link).map(suspect).into_iter().collect();
        }
        let suspect = |(id, what, next, foretold): (_, String, &str, Option<Foretold>)| {
            Some(Suspect {
                id,
                what,
                next: next.to_owned(),
                foretold: foretold?,
                fitted: 1,
                ..Suspect::default()
            })
        };
        [
            (
                "bad-node",
                format!("one link is {times:.1} times slower than the others"),
                "ib_write_bw between pairs of nodes; perfquery for symbol errors; width and speed of \
                 links (lspci -vv, ibstat)",
                link,
            ),
            (
                "slow-rank",
                format!("all of one rank's traffic is {times:.1} times slower"),
                "nvidia-smi -q -d CLOCK,PERFORMANCE on every node: throttling; PCIe width of one GPU",
                of_rank,
            ),
        ]
        .into_iter()
        .filter_map(suspect)
        .collect()
    }
}
