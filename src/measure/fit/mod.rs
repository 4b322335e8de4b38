//! Fits a machine's parameters to timed runs, with intervals, and with the error on held-out runs.
//!
//! ```text
//!   samples → points → design → knots → median regression → intervals, held-out errors → gates
//! ```
//!
//! The model is t = Σ f(m) + n_γ·M·γ over the messages m of an algorithm's critical path, with
//! f(m) = α + Σ β_j·(bytes of m in segment j). α and all slopes are non-negative, so every solve
//! is a non-negative least squares problem of a few unknowns; reweighting it minimises absolute relative
//! errors. Nothing here reads files or clocks: the same samples and seed give the same fit.

mod bootstrap;
mod bucket;
mod devices;
mod gates;
mod held_out;
mod identify;
mod knots;
pub(in crate::measure) mod lad;
mod ladder;
mod library;
mod line;
mod model;
pub(in crate::measure) mod nnls;
mod path;
mod point;
mod profile;
mod protocol;
mod states;
mod stretches;
mod tiers;

pub use bootstrap::Estimate;
pub use devices::{DeviceFit, Devices, devices, has_devices};
#[cfg(all(feature = "exec", target_os = "linux"))]
pub(crate) use gates::DISTURBED;
pub use gates::{Gate, Verdict};
pub use held_out::{Errors, Predicted, Regimes};
pub use ladder::{Ladder, Slope};
pub use library::{Curves, Logs, has_library, library};
pub use line::line;
pub use path::{Kind, Path, Sent};
pub(crate) use point::is_fitted;
pub use point::{Point, Statistic};
pub use profile::About;
pub use protocol::{HeldOut, Protocol, Protocols, Switch, has_protocols, protocols};
pub use states::OtherState;
pub use stretches::BetweenRuns;
pub use tiers::two_tiers;

use std::num::NonZeroU32;

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte};
use crate::base::random::Random;
use crate::base::stats::HALF_WIDTH;
use crate::machine::link::{Bucket, Exchange, Link, Share};
use crate::machine::profile::StatedBands;
use crate::machine::sample::{Block, Op, Origin, Samples};
use crate::model::algorithm::Registry;

use bootstrap::{draws, groups, widening};
use held_out::{Part, bands, harder, predict, regimes};
use ladder::{ladder, slopes};
use model::{Basis, Design, Entry, Model, Prior};

/// Options of a fit.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Which time of a point; absent: typical.
    pub statistic: Option<Statistic>,
    /// The seed of the draws.
    pub seed: u64,
    /// The number of draws for an interval.
    pub draws: u32,
    /// The precision at which a median counts in full; points that were not finished count less.
    pub precision: Ratio,
    /// A known token bucket; absent: the one in the samples' file, or the one that the ladder shows.
    pub bucket: Option<Bucket>,
    /// The rate at which data flowed without a pause; absent: the one in the samples' file.
    pub stream: Option<Bandwidth>,
}

impl Default for Asked {
    fn default() -> Self {
        let (bucket, stream) = (None, None);
        Self { statistic: None, seed: 1, draws: 400, precision: Ratio(0.2), bucket, stream }
    }
}

/// α and β of one statistic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Which time of a point.
    pub statistic: Statistic,
    /// α.
    pub alpha: Estimate<Seconds>,
    /// β, the long-run time per byte.
    pub beta: Estimate<SecondsPerByte>,
}

/// Why a point is not in the joint fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    /// It moves no messages: it gives γ, or the rate of copies.
    Local,
    /// A token bucket hides the rate.
    Bucket,
    /// It shows how a port is shared.
    FanOut,
    /// It has a separate coefficient, c_real.
    Tree,
    /// Other processes held the CPUs in nearly all of its runs.
    Lost,
}

/// A machine's parameters and everything they are based on.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// α and β of the chosen statistic.
    pub link: Line,
    /// The same of the other statistic.
    pub other: Line,
    /// The link as measured, with all deviations from the line: this is what predicts.
    pub measured: Link,
    /// The time per byte by its position in the message; the last is β.
    pub slopes: Vec<Slope>,
    /// γ, if runs without messages measured it.
    pub gamma: Option<Estimate<SecondsPerByte>>,
    /// n_β of the double binary tree as measured.
    pub c_real: Option<Estimate<Ratio>>,
    /// The rate each way of an exchange over the rate one way.
    pub duplex: Option<Estimate<Ratio>>,
    /// For k simultaneous messages from one port, the part of the rate that they reach together.
    pub sharing: Vec<(u32, Estimate<Ratio>)>,
    /// A token bucket, if the ladder shows one.
    pub bucket: Option<Bucket>,
    /// Copies in memory.
    pub copies: Option<Ladder>,
    /// Additions in memory.
    pub additions: Option<Ladder>,
    /// All points, in order.
    pub points: Vec<Point>,
    /// The prediction of each point by the whole model; `None` for local work.
    pub predicted: Vec<Option<Seconds>>,
    /// Points that are not in the joint fit, by their index.
    pub apart: Vec<(usize, Apart)>,
    /// Each point as predicted by a fit without its algorithm; empty if there is only one.
    pub by_algorithm: Vec<Predicted>,
    /// Each point as predicted by a fit without its size and every fourth other.
    pub by_size: Vec<Predicted>,
    /// The errors of the former.
    pub errors_by_algorithm: Option<Regimes>,
    /// The errors of the latter.
    pub errors_by_size: Option<Regimes>,
    /// The band that contains 8 of 10 times, relative to the prediction.
    pub bands: StatedBands,
    /// The errors of α and β alone, without knots: ideal prices use only these.
    pub errors_of_line: Option<Regimes>,
    /// R² of the logarithms.
    pub r2_log: Ratio,
    /// The condition number of the design.
    pub condition: Ratio,
    /// The largest variance inflation of α, β and γ.
    pub inflation: Ratio,
    /// The part of every interval that no longer measuring narrows: half the 95 % interval, over the
    /// value, by which parameters differ between runs on a machine that has not changed.
    pub between_runs: BetweenRuns,
    /// The part of the blocks that were disturbed.
    pub disturbed: Ratio,
    /// The other of the machine's two states, if it showed two.
    pub other_state: Option<OtherState>,
    /// The checks of the fit against its own samples.
    pub gates: Vec<Gate>,
}

impl Fitted {
    /// The worst result of all gates.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.gates.iter().map(|g| g.verdict).max().unwrap_or(Verdict::Good)
    }

    /// α of the chosen statistic.
    #[must_use]
    pub fn alpha(&self) -> Seconds {
        self.link.alpha.value
    }
}

/// Messages below this say nothing about a rate: a ping-pong of them is kept despite a bucket.
const LATENCY_ONLY: Bytes = Bytes(64);

/// An exchange that is slower than one way by less than this counts as equally fast.
const SAME_RATE: f64 = 0.1;

/// Fits the parameters of the machine on which `samples` were taken.
///
/// A library's own collectives ([`Op::Library`]) say nothing about single messages and are left out.
///
/// # Errors
/// Too few points, or an algorithm that is not in `registry` or runs in a switch.
pub fn fit(registry: &Registry, samples: &Samples, asked: &Asked) -> Result<Fitted> {
    let points = point::points(&samples.blocks, &samples.origin);
    if let Some(block) = samples.blocks.first().filter(|_| points.is_empty()) {
        let what = match block.op {
            Op::Library(_) | Op::Forced(_) => "the samples are only of a library's collectives",
            _ => "the samples are only of runs that follow each other without a pause",
        };
        return Err(Error::input(format!("{what}, which say nothing about single messages"))
            .at(samples.origin.files.join(", "))
            .help("add runs of messages: osu_latency, IMB PingPong, or collcost calibrate"));
    }
    let bucket = asked.bucket.or(samples.bucket);
    let asked = Asked { bucket, stream: asked.stream.or(samples.stream), ..*asked };
    let in_one_state = |points| fit_points(registry, points, &samples.origin, &asked);
    let mut fitted = match states::apart(samples) {
        None => in_one_state(points)?,
        Some(apart) => {
            let of = |blocks: &[Block]| in_one_state(point::points(blocks, &samples.origin));
            // With too few blocks of one state, both together are better than nothing.
            match of(&apart.main) {
                Ok(main) => main.beside(of(&apart.other).ok(), apart.part),
                Err(_) => in_one_state(points)?,
            }
        }
    };
    fitted.gates.extend(gates::stream(&fitted, asked.stream));
    fitted.gates.extend(gates::links(&samples.slow));
    Ok(fitted)
}

/// The most points of a fit: a sweep of all algorithms by powers of two has a thousand.
const MOST_POINTS: usize = 4096;

/// The same from points whose origin is `origin`.
///
/// # Errors
/// As [`fit`], or more than 4,096 points.
pub fn fit_points(
    registry: &Registry,
    points: Vec<Point>,
    origin: &Origin,
    asked: &Asked,
) -> Result<Fitted> {
    if points.len() > MOST_POINTS {
        return Err(Error::input(format!("{} points are too many for a fit", points.len()))
            .help(format!("give at most {MOST_POINTS} different sizes, ranks and algorithms")));
    }
    let blocks: usize = points.iter().map(|p| p.blocks).sum();
    let disturbed: usize = points.iter().map(|p| p.disturbed).sum();
    let disturbed = Ratio(disturbed as f64 / blocks.max(1) as f64);
    let statistic = asked.statistic.unwrap_or(Statistic::Typical);
    let other = match statistic {
        Statistic::Typical => Statistic::Floor,
        Statistic::Floor => Statistic::Typical,
    };
    let paths = paths(registry, &points)?;
    let shared = Shared { points: &points, paths: &paths, origin, asked };
    let main = shared.work(statistic)?;
    let beside = shared.work(other)?;
    let told = main.told();
    let measured = main.measured();
    // Without a rate, or without α, only the coefficients themselves predict.
    let times = measured.times().unwrap_or_else(|| main.model.basis.times(&main.model.x));
    let mut fitted = Fitted {
        link: main.line(),
        other: beside.line(),
        measured,
        slopes: slopes(&main.model.basis.knots, |j| main.estimate(|x| x[1 + j], main.of_bytes)),
        gamma: main.gamma(),
        c_real: main.c_real(),
        duplex: main.duplex.map(|d| {
            // Where exchanges are not slower there is no factor.
            let most = if d.value < 1.0 { 1.0 } else { f64::INFINITY };
            d.beside(main.of_bytes).within(0.0, most).map(Ratio)
        }),
        sharing: main.sharing(),
        bucket: main.bucket,
        copies: shared.local(&Op::Copy, f64::INFINITY, statistic),
        additions: shared.local(&Op::Reduce, f64::INFINITY, statistic),
        predicted: paths
            .iter()
            .map(|p| (p.kind != Kind::Local).then(|| Seconds(main.model.on(p, &times))))
            .collect(),
        apart: main.apart.clone(),
        errors_by_algorithm: main.errors(&told.by_algorithm),
        errors_by_size: main.errors(&told.by_size),
        errors_of_line: main.errors_of_line(),
        bands: bands(
            &harder(&told.by_algorithm, &told.by_size).iter().map(Part::of).collect::<Vec<_>>(),
            Seconds(main.model.alpha()),
        ),
        by_algorithm: told.by_algorithm,
        by_size: told.by_size,
        r2_log: main.r2_log(),
        condition: Ratio(main.identified.condition),
        inflation: Ratio(main.identified.inflation),
        between_runs: stretches::between_runs(origin),
        disturbed,
        other_state: None,
        gates: Vec::new(),
        points,
    };
    fitted.gates = gates::gates(&fitted, origin);
    Ok(fitted)
}

fn paths(registry: &Registry, points: &[Point]) -> Result<Vec<Path>> {
    points
        .iter()
        .map(|p| {
            Path::of(registry, &p.op, p.ranks, p.size.into())
                .map_err(|e| e.at(format!("samples of {} over {} ranks", p.op, p.ranks)))
        })
        .collect()
}

/// From here on a stream was far slower than the messages.
const MANY: f64 = 1.5;

/// How many times as long as by `beta`, in s/B, a byte of a stream took, if it is many times: what was
/// timed then may have been messages that a bucket let through at once, not found or larger than found.
fn slower(beta: f64, stream: Bandwidth) -> Option<f64> {
    let times = 1.0 / (stream.0 * beta);
    (times > MANY).then_some(times)
}

/// The seed of draws on which a choice rests, such as whether exchanges are slower than one way: another
/// seed of the intervals must not make other values.
const OF_CHOICES: u64 = 1;

/// What the fits of both statistics share.
struct Shared<'a> {
    points: &'a [Point],
    paths: &'a [Path],
    origin: &'a Origin,
    asked: &'a Asked,
}

/// One fit with its draws.
struct Work<'a> {
    shared: &'a Shared<'a>,
    statistic: Statistic,
    entries: Vec<Entry>,
    /// Points outside the joint fit that have separate parameters.
    extra: Vec<(Apart, Entry)>,
    apart: Vec<(usize, Apart)>,
    bucket: Option<Bucket>,
    additions: Option<Ladder>,
    model: Model,
    draws: Vec<Draw>,
    /// The factor by which intervals are wider than the draws.
    widening: f64,
    /// The uncertainty from changes of the machine and from the choice of knots, half the interval over
    /// the value: where starts decide, and where bytes do.
    of_start: f64,
    of_bytes: f64,
    /// The same from changes of the machine alone, where additions decide.
    of_additions: f64,
    duplex: Option<Estimate<f64>>,
    identified: identify::Apart,
}

/// What one draw gave.
struct Draw {
    x: [f64; nnls::MOST],
    c_real: Option<f64>,
    sharing: Vec<(u32, f64)>,
}

impl Shared<'_> {
    fn local(&self, op: &Op, largest: f64, statistic: Statistic) -> Option<Ladder> {
        ladder(self.points, op, largest, (statistic, self.asked.draws, OF_CHOICES))
    }

    fn work(&self, statistic: Statistic) -> Result<Work<'_>> {
        // Shared memory shows the steps of caches, which look like a bucket, and so do the largest sizes
        // of a machine that was slower just then. A stream would have shown all but the smallest.
        let is_missed = |b: &Bucket| self.asked.stream.is_none() || b.burst <= Bucket::UNSEEN;
        let shown = || bucket::find(self.points, statistic).filter(is_missed);
        let bucket = self.asked.bucket.or_else(shown).filter(|_| !self.origin.is_in_memory());
        let (mut entries, mut extra, mut apart) = (Vec::new(), Vec::new(), Vec::new());
        let marks: Vec<&Op> = self.points.iter().map(|p| &p.op).collect();
        for (i, (point, path)) in self.points.iter().zip(self.paths).enumerate() {
            let group = marks.iter().position(|m| *m == &point.op).unwrap_or(0);
            let weight = (self.asked.precision.0 / point.precision.0.max(1e-9)).min(1.0);
            let time = point.time(statistic).0;
            let entry = Entry { path: path.clone(), time, weight, group, point: i };
            let why = match &point.op {
                _ if point.lost => Some(Apart::Lost),
                Op::Copy | Op::Reduce | Op::Device(_) => Some(Apart::Local),
                Op::FanOut(_) => Some(Apart::FanOut),
                Op::OneWay if bucket.is_some() && point.size > LATENCY_ONLY => Some(Apart::Bucket),
                _ => path.tree.map(|_| Apart::Tree),
            };
            match why {
                None => entries.push(entry),
                Some(why) => {
                    apart.push((i, why));
                    extra.push((why, entry));
                }
            }
        }
        let additions = self.additions(&entries, statistic);
        let prior = additions.as_ref().and_then(|a| {
            let last = a.last()?;
            let half = a.precision()?.0;
            (last.value.0 > 0.0).then_some(Prior { gamma: last.value.0, half })
        });
        let plain = Basis { knots: Vec::new(), prior, bucket, exchange: Exchange::AS_ONE_WAY };
        if entries.len() <= plain.p() + 2 {
            return Err(Error::scarce(format!(
                "{} points with messages are too few to fit α and β",
                entries.len()
            ))
            .at(self.origin.files.join(", "))
            .help("measure more sizes: at least four decided by latency and four by bytes"));
        }
        let (basis, rivals, duplex) = self.knots_and_duplex(&entries, plain);
        let design = Design::new(&basis, &entries);
        let every: Vec<usize> = (0..entries.len()).collect();
        let x = design.fit(&every);
        let mut random = Random::new(self.asked.seed);
        // What shows the rate behind a bucket is drawn apart: else one draw in fifty has none of it.
        let settled = |e: &Entry| basis.settles(e.path.smallest());
        let groups = groups(entries.iter().map(|e| (!settled(e)).then_some(e.group)));
        let own = |x: &[f64; nnls::MOST], random: Option<&mut Random>| {
            let model = Model { basis: basis.clone(), x: *x };
            beside(&model, &extra, random)
        };
        let (mut fits, mut after) = (Vec::new(), random.clone());
        // Where no run says much of γ, it is known as well as additions alone show it.
        let mut known = Random::of(self.asked.seed, 1);
        draws(&groups, self.asked.draws, &mut random, |drawn| {
            let prior = basis.prior.map(|prior| prior.drawn(&mut known));
            let x = design.fit_knowing(drawn, prior);
            fits.push(own(&x, Some(&mut after)).draw(x));
        });
        let identified = identify::apart(&design);
        let model = Model { basis: basis.clone(), x };
        let rivals: Vec<(Model, f64)> = rivals
            .into_iter()
            .map(|(knots, weight)| {
                let basis = Basis { knots, ..basis.clone() };
                let x = Design::new(&basis, &entries).fit(&every);
                (Model { basis, x }, weight)
            })
            .collect();
        let of = |counts: &dyn Fn(&Entry) -> bool, parameter: &dyn Fn(&Model) -> f64| {
            let own = entries.iter().filter(|e| counts(e));
            let moved = stretches::between(own.map(|e| &self.points[e.point]));
            let chosen = other_knots(parameter(&model), &rivals, parameter);
            moved.hypot(chosen)
        };
        let between = stretches::between_runs(self.origin);
        // Behind a token bucket smaller messages differ by what it holds just then.
        let is_bulk = |e: &Entry| settled(e) || bucket.is_none() && e.time > 10.0 * model.alpha();
        let added = self.points.iter().filter(|p| p.op == Op::Reduce);
        Ok(Work {
            shared: self,
            of_additions: stretches::between(added).hypot(stretches::of_memory(self.origin)),
            of_start: of(&|e| e.time < 3.0 * model.alpha(), &Model::alpha).hypot(between.starts.0),
            of_bytes: of(&is_bulk, &Model::beta)
                .hypot(between.bytes.0)
                .hypot(stretches::of_traffic(self.origin)),
            statistic,
            draws: fits,
            widening: widening(&groups, basis.p()),
            model,
            identified,
            duplex,
            entries,
            extra,
            apart,
            bucket,
            additions,
        })
    }

    /// Knots, other knots with their weights, and the rate of exchanges, of all bytes or of those after
    /// a knot. Knots that were found for exchanges as fast as one way are found again for the others.
    fn knots_and_duplex(&self, entries: &[Entry], plain: Basis) -> Chosen {
        let search = |exchange: Exchange| {
            let found = knots::search(entries, &Basis { exchange, ..plain.clone() });
            (Basis { knots: found.best, exchange, ..plain.clone() }, found.rivals)
        };
        let (mut basis, mut rivals) = search(Exchange::AS_ONE_WAY);
        // If exchanges are faster than one way, one way rested: no port exceeds its rate.
        let with = |above: f64| {
            let exchange = Exchange { above, ..Exchange::AS_ONE_WAY };
            let duplex = duplex(&Basis { exchange, ..basis.clone() }, entries, self.asked)?;
            let slower = (duplex.value < 1.0 - SAME_RATE).then_some(1.0 / duplex.value)?;
            Some((Exchange { slower, above }, duplex))
        };
        let all = duplex(&basis, entries, self.asked);
        let Some((exchange, _)) = with(0.0) else { return (basis, rivals, all) };
        let score =
            |exchange: Exchange| knots::criterion(entries, &Basis { exchange, ..basis.clone() });
        let after = basis.knots.iter().filter_map(|&above| with(above));
        let best = after
            .map(|found| (score(found.0), found))
            .filter(|(new, _)| *new <= score(exchange) - knots::FALL)
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let (exchange, duplex) = match best {
            None => (exchange, all),
            Some((_, (exchange, duplex))) => (exchange, Some(duplex)),
        };
        (basis, rivals) = search(exchange);
        (basis, rivals, duplex)
    }

    /// Additions of the sizes that the collectives add at a time; of all sizes if no collective adds.
    fn additions(&self, entries: &[Entry], statistic: Statistic) -> Option<Ladder> {
        let added = entries.iter().map(|e| e.path.reduced.0).fold(0.0, f64::max);
        let largest = if added > 0.0 { added } else { f64::INFINITY };
        self.local(&Op::Reduce, largest, statistic)
            .or_else(|| self.local(&Op::Reduce, f64::INFINITY, statistic))
    }
}

/// The parameters from points outside the joint fit, with its coefficients fixed.
struct Beside {
    c_real: Option<f64>,
    sharing: Vec<(u32, f64)>,
}

impl Beside {
    fn draw(self, x: [f64; nnls::MOST]) -> Draw {
        Draw { x, c_real: self.c_real, sharing: self.sharing }
    }
}

fn beside(model: &Model, extra: &[(Apart, Entry)], mut random: Option<&mut Random>) -> Beside {
    let mut drawn = |own: Vec<&Entry>| -> Vec<Entry> {
        match &mut random {
            Some(random) => (0..own.len()).map(|_| own[random.below(own.len())].clone()).collect(),
            None => own.into_iter().cloned().collect(),
        }
    };
    let of = |why: Apart| extra.iter().filter(move |(w, _)| *w == why).map(|(_, e)| e);
    let trees = drawn(of(Apart::Tree).collect());
    // The latency is fixed; the rest of the time is a factor of what the form predicts.
    let shares = trees.iter().filter_map(|e| {
        let latency = model.alpha() * e.path.count();
        let bytes = model.predict(&e.path) - latency;
        (e.time > 2.0 * latency)
            .then(|| (e.weight * bytes / e.time, e.weight * (e.time - latency) / e.time))
    });
    let limit = trees.first().and_then(|e| e.path.tree);
    let c_real = lad::ratio(shares).zip(limit).map(|(share, limit)| share * limit.0);
    let mut ks: Vec<u32> = of(Apart::FanOut).filter_map(|e| e.path.fan_out()).collect();
    ks.sort_unstable();
    ks.dedup();
    let sharing = ks.into_iter().filter_map(|k| {
        let own = drawn(of(Apart::FanOut).filter(|e| e.path.fan_out() == Some(k)).collect());
        let bulk = own.iter().filter(|e| e.time > 20.0 * model.alpha());
        let slower = lad::ratio(bulk.map(|e| (model.predict(&e.path) / e.time, 1.0)))?;
        Some((k, 1.0 / slower))
    });
    Beside { c_real, sharing: sharing.collect() }
}

/// Half the 95 % interval, over the value, of a parameter that other knots would have made another.
fn other_knots(value: f64, rivals: &[(Model, f64)], of: &dyn Fn(&Model) -> f64) -> f64 {
    let (mut sum, mut weights) = (0.0, 1.0);
    for (model, weight) in rivals {
        let off = (of(model) / value).ln();
        if off.is_finite() {
            sum += weight * off * off;
            weights += weight;
        }
    }
    HALF_WIDTH * f64::sqrt(sum / weights)
}

/// The basis, other knots with their weights, and the rate of exchanges over that one way.
type Chosen = (Basis, Vec<(Vec<f64>, f64)>, Option<Estimate<f64>>);

/// The rate of exchanges over the rate one way, if both were measured and they certainly differ.
fn duplex(basis: &Basis, entries: &[Entry], asked: &Asked) -> Option<Estimate<f64>> {
    const LEAST: usize = 3;
    let design = Design::new(basis, entries);
    let every: Vec<usize> = (0..entries.len()).collect();
    let x = design.fit(&every);
    let bulk = |kind: Kind| -> Vec<usize> {
        let own = every.iter().copied().filter(|&i| entries[i].path.kind == kind);
        let free = basis.bucket.is_none();
        // A rank that only sends, or only receives, may rest while its bucket fills: that is not the
        // link's rate.
        own.filter(|&i| design.is_settled(i) || free && design.is_bulk(i, x[0])).collect()
    };
    let (one, both) = (bulk(Kind::OneWay), bulk(Kind::Exchange));
    if one.len() < LEAST || both.len() < LEAST {
        return None;
    }
    // Of the bytes that the factor is for.
    let times = basis.times(&x);
    let slower = |rows: &[usize]| {
        lad::ratio(rows.iter().map(|&i| {
            let own = entries[i].path.time_after(&times) / entries[i].time;
            (own, own - design.rows[i].error(&x, basis.p()))
        }))
    };
    let ratio = |one: &[usize], both: &[usize]| Some(slower(one)? / slower(both)?);
    let value = ratio(&one, &both)?;
    let mut drawn = Vec::new();
    let split = one.len();
    draws(&[one.clone(), both.clone()], asked.draws, &mut Random::new(OF_CHOICES), |rows| {
        drawn.extend(ratio(&rows[..split], &rows[split..]));
    });
    let estimate = Estimate::of(value, drawn);
    (estimate.low > 1.0 || estimate.high < 1.0).then_some(estimate)
}

/// Both ways to hold points out.
struct Told {
    by_algorithm: Vec<Predicted>,
    by_size: Vec<Predicted>,
}

/// Of the sizes, one in this many is left out at a time.
const FOLDS: usize = 4;

impl Work<'_> {
    /// A parameter with its interval, if the machine changed by a part of it.
    fn estimate(&self, of: impl Fn(&[f64; nnls::MOST]) -> f64, moved: f64) -> Estimate<f64> {
        let draws = self.draws.iter().map(|d| of(&d.x)).collect();
        Estimate::widened(of(&self.model.x), draws, self.widening).beside(moved)
    }

    fn line(&self) -> Line {
        let last = self.model.basis.last();
        let mut beta = self.estimate(|x| x[last], self.of_bytes);
        // What may be as slow as a stream was is not known better than that.
        let stream = self.shared.asked.stream;
        if let Some(slow) = stream.and_then(|stream| slower(beta.value, stream)) {
            beta.high = beta.high.max(slow * beta.value);
        }
        Line {
            statistic: self.statistic,
            alpha: self.estimate(|x| x[0], self.of_start).map(Seconds),
            beta: beta.map(SecondsPerByte),
        }
    }

    /// The link with the parameters from points outside the joint fit.
    fn measured(&self) -> Link {
        let share = |(k, part): (u32, Estimate<Ratio>)| {
            Some(Share { flows: NonZeroU32::new(k)?, part: part.value })
        };
        let sharing = self.sharing().into_iter().filter_map(share).collect();
        Link { sharing, bucket: self.bucket, ..self.model.link() }
    }

    fn gamma(&self) -> Option<Estimate<SecondsPerByte>> {
        self.model.gamma()?;
        let last = self.model.basis.p() - 1;
        let adds = self.entries.iter().any(|e| e.path.reduced.0 > 0.0);
        // If no collective adds, only the ladder's own interval is known.
        let gamma = match &self.additions {
            Some(ladder) if !adds => ladder.last()?.map(|s| s.0).beside(self.of_additions),
            // In memory, bytes are moved and added at once.
            _ => self.estimate(|x| x[last], self.of_bytes.max(self.of_additions)),
        };
        // What is fitted as 0 is not known.
        (gamma.value > 0.0).then(|| gamma.map(SecondsPerByte))
    }

    fn c_real(&self) -> Option<Estimate<Ratio>> {
        let value = beside(&self.model, &self.extra, None).c_real?;
        let draws = self.draws.iter().filter_map(|d| d.c_real).collect();
        let estimate = Estimate::of(value, draws).beside(self.of_bytes);
        // No tree is faster than its links.
        Some(estimate.within(1.0, f64::INFINITY).map(Ratio))
    }

    fn sharing(&self) -> Vec<(u32, Estimate<Ratio>)> {
        let values = beside(&self.model, &self.extra, None).sharing.into_iter();
        values
            .map(|(k, value)| {
                let own = |d: &Draw| d.sharing.iter().find(|(of, _)| *of == k).map(|(_, s)| *s);
                let draws = self.draws.iter().filter_map(own).collect();
                (k, Estimate::of(value, draws).within(0.0, 1.0).map(Ratio))
            })
            .collect()
    }

    fn told(&self) -> Told {
        let basis = &self.model.basis;
        let groups = groups(self.entries.iter().map(|e| e.group)).len();
        let by_algorithm = match groups {
            0 | 1 => Vec::new(),
            _ => predict(basis, &self.entries, |i| self.entries[i].group),
        };
        // The index of a size among all sizes, so that the same sizes are left out of every algorithm.
        let mut sizes: Vec<u64> =
            self.entries.iter().map(|e| self.shared.points[e.point].size.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let place = |i: usize| {
            let size = self.shared.points[self.entries[i].point].size.0;
            sizes.partition_point(|s| *s < size) % FOLDS
        };
        Told { by_algorithm, by_size: predict(basis, &self.entries, place) }
    }

    fn errors(&self, told: &[Predicted]) -> Option<Regimes> {
        let time = |f: &Predicted| self.shared.points[f.point].time(self.statistic).0;
        let pairs: Vec<(f64, f64)> = told.iter().map(|f| (time(f), f.error.0)).collect();
        regimes(&pairs, Seconds(self.model.alpha()))
    }

    fn errors_of_line(&self) -> Option<Regimes> {
        let basis =
            Basis { knots: Vec::new(), exchange: Exchange::AS_ONE_WAY, ..self.model.basis.clone() };
        let mut x = [0.0; nnls::MOST];
        (x[0], x[1]) = (self.model.alpha(), self.model.beta());
        x[2] = self.model.gamma().unwrap_or(0.0);
        let line = Model { basis, x };
        let error = |e: &Entry| (e.time, line.predict(&e.path) / e.time - 1.0);
        let pairs: Vec<(f64, f64)> = self.entries.iter().map(error).collect();
        regimes(&pairs, Seconds(self.model.alpha()))
    }

    fn r2_log(&self) -> Ratio {
        let logs: Vec<f64> = self.entries.iter().map(|e| e.time.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let whole: f64 = logs.iter().map(|l| (l - mean).powi(2)).sum();
        let said = |e: &Entry| self.model.predict(&e.path).max(f64::MIN_POSITIVE).ln();
        let left: f64 = self.entries.iter().map(|e| (said(e) - e.time.ln()).powi(2)).sum();
        Ratio(if whole > 0.0 { 1.0 - left / whole } else { 0.0 })
    }
}
