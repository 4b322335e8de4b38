//! nccl-tests' output without GPUs: what a run on a machine would print, predicted.
//!
//! ```text
//! # PREDICTED by collcost 0.2.0, not measured: no GPU ran and no network carried anything
//! # machine dgx-h100, 16 ranks = 2 nodes x 8; noise 3 %; seed 1
//! # fault missing-nic=1: 7 of 8 NICs per node are left, and share the traffic
//! # nccl-tests version 2.19.6 nccl-headers=0 nccl-library=0
//! …
//! #       size         count      type   redop    root     time   algbw   busbw  #wrong     time …
//! #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us) …
//!            8             2     float     sum      -1    11.49    0.00    0.00       0    11.49 …
//! ```
//!
//! A time is the expected one times a ratio of two simulations of the chosen algorithm's schedule, on the
//! faulty machine over the healthy one (`play`), and the wait for late ranks. Noise is drawn for each rank,
//! once per run and once per iteration. The mean over the iterations is printed, as by nccl-tests. Equal
//! seeds give equal bytes.

mod fault;
mod json;
mod layout;
mod play;
mod program;
mod rails;
mod tuner;

pub use fault::{Fault, Link};
pub use program::{OPERATIONS, PROGRAMS, Program};

use std::num::NonZeroU32;

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::library::nccl::{Function, Reduction};
use crate::machine::query::Query;
use crate::machine::sample::DataType;
use crate::measure::expect::{Expecting, Rules};
use crate::model::algorithm::Registry;
use fault::Broken;
use play::{Bench, Found, Lab, Take, Way};

/// How the first line of such an output begins.
pub(super) const PREDICTED: &str = "PREDICTED by collcost";

/// What a row names if the machine's prices need a parameter that is unknown.
const UNPRICED: &str = "an algorithm that is not known here";

/// The most rows of a table.
pub const MOST_ROWS: usize = 10_000;

/// The most ranks: each has a line in the list of devices.
pub const MOST_RANKS: u32 = 1 << 20;

/// The step between sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A factor, at least 2.
    Factor(u64),
    /// A number of bytes, at least 1.
    Plus(Bytes),
}

/// The sizes of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The first.
    pub first: Bytes,
    /// The upper limit.
    pub last: Bytes,
    /// The step between them.
    pub step: Step,
}

/// What is mocked.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The program.
    pub program: Program,
    /// The requested sizes; the printed ones are whole blocks.
    pub sizes: Sizes,
    /// The type of the elements, one that nccl-tests has.
    pub dtype: DataType,
    /// The operation, one of [`OPERATIONS`].
    pub operation: &'static str,
    /// The rank that has or gets the data, for rooted collectives.
    pub root: u32,
    /// Calls whose mean is printed.
    pub iterations: u32,
    /// Warmup calls, which have no effect.
    pub warmup: u32,
    /// How often results are checked; 0 for never.
    pub check: u32,
    /// The standard deviation of the times of a rank's messages, per run and again per iteration.
    pub noise: Ratio,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

impl Ask {
    /// A healthy run without noise, with nccl-tests' own defaults.
    #[must_use]
    pub fn new(program: Program, sizes: Sizes) -> Self {
        Self {
            program,
            sizes,
            dtype: DataType::F32,
            operation: "sum",
            root: 0,
            iterations: 20,
            warmup: 1,
            check: 1,
            noise: Ratio(0.0),
            faults: Vec::new(),
            seed: 1,
        }
    }
}

/// A run that did not take place.
#[derive(Debug, Clone, PartialEq)]
pub struct Mock {
    /// What was asked.
    pub ask: Asked,
    /// The machine's name.
    pub machine: String,
    /// N.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// Ranks on a node.
    pub per_node: u32,
    /// The faults in words, with the ranks that were drawn.
    pub faults: Vec<String>,
    /// From which size on the library runs which algorithm on the healthy machine.
    pub takes: Vec<(Bytes, &'static str)>,
    /// Notes on how the numbers were made.
    pub notes: Vec<String>,
    /// The list of devices, rank 0 first.
    pub devices: Vec<Device>,
    /// The table.
    pub rows: Vec<Row>,
    /// The mean busbw over rows and places; not a parameter of the machine.
    pub average: Bandwidth,
}

/// The parts of the question that are printed again.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The program.
    pub program: Program,
    /// The sizes.
    pub sizes: Sizes,
    /// The type, as nccl-tests names it.
    pub dtype: &'static str,
    /// The operation, `none` if nothing is reduced.
    pub redop: &'static str,
    /// The root, −1 for none.
    pub root: i64,
    /// Calls whose mean is printed.
    pub iterations: u32,
    /// Warmup calls.
    pub warmup: u32,
    /// How often results are checked.
    pub check: u32,
    /// The noise.
    pub noise: Ratio,
    /// The seed.
    pub seed: u64,
    /// GPUs of a thread.
    pub gpus_per_thread: u32,
}

/// A rank's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The rank.
    pub rank: u32,
    /// Its node, from 1.
    pub node: u32,
    /// The device on the node.
    pub device: u32,
}

/// A line of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The size that is printed.
    pub size: Bytes,
    /// The count that is printed.
    pub count: u64,
    /// The algorithm that the library runs on the healthy machine.
    pub algorithm: &'static str,
    /// Out of place.
    pub out_of_place: Place,
    /// In place.
    pub in_place: Place,
}

/// The numbers of one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// The mean time of a call.
    pub time: Seconds,
    /// M over it.
    pub algbw: Bandwidth,
    /// algbw times the collective's factor.
    pub busbw: Bandwidth,
    /// The number of wrong elements; absent if results are not checked.
    pub wrong: Option<u64>,
}

/// Mocks a run of a program on the machine and ranks of `query`, whose size is ignored.
///
/// # Errors
/// One rank, or more than [`MOST_RANKS`]; no size, or more than [`MOST_ROWS`]; a root that does not
/// exist; a type or an operation that nccl-tests does not have; a fault that the machine cannot have; an
/// unknown parameter of the machine.
pub fn mock(registry: &Registry, query: &Query, ask: &Ask) -> Result<Mock> {
    let asked = check(query, ask)?;
    let ranks = query.shape.ranks;
    let mut broken = Broken::new(query, &ask.faults, ask.seed)?;
    let reduction = reduction(ask)?;
    let added = reduction.is_none_or(Reduction::is_added_in_switch);
    let unadded = query.machine.has_nvls() && !added;
    if unadded {
        broken.without_switches();
    }
    let tuner = match broken.off.as_slice() {
        [] => None,
        off => Some(tuner::Tuner::new(query, off)?),
    };
    let sizes = sizes(&ask.sizes)?;
    let expecting = Expecting::with(registry, query, None, Some(ask.dtype))?;
    let drawn = (ask.noise, ask.iterations, ask.seed);
    let as_expected = ask.faults.is_empty() && ask.noise.0 == 0.0 && !unadded;
    let mut lab = match Bench::new(registry, query, ask.root) {
        // Measurements may tell the time of a machine that has no prices.
        Err(error) if as_expected && error.is_unknown() && expecting.is_learned() => None,
        healthy => Some(Lab::new(registry, (healthy?, &broken), drawn, sizes.len())?),
    };
    let mut rows: Vec<Row> = Vec::with_capacity(sizes.len());
    let mut told = Told::default();
    for (i, &each) in sizes.iter().enumerate() {
        let (size, count) = ask.program.sizes(each, ask.dtype, ranks);
        let protocol = tuner.as_ref().filter(|_| size.0 > 0).map_or(Ratio(1.0), |t| t.factor(size));
        let expected = expecting.time(size) * protocol;
        let (mut algorithm, mut found) = match &mut lab {
            Some(lab) => {
                let take = took(&lab.healthy, &expecting, size);
                (take.algorithm.meta().title, lab.look(i, size, &take, expected)?)
            }
            None => (UNPRICED, Found::as_expected(expected)),
        };
        if unadded {
            algorithm = found.chosen.take().unwrap_or(algorithm);
        }
        let place = |in_place: bool| {
            let time = found.times[usize::from(in_place)];
            let looked = ask.check > 0 && (!in_place || ask.program.checks_in_place);
            figures(query, size, time, looked)
        };
        told.take(size, algorithm, &found, ask);
        let (out_of_place, in_place) = (place(false), place(true));
        rows.push(Row { size, count, algorithm, out_of_place, in_place });
    }
    let both = rows.iter().flat_map(|row| [row.out_of_place.busbw.0, row.in_place.busbw.0]);
    let average = Bandwidth(both.sum::<f64>() / (2 * rows.len()) as f64);
    let mut notes = told.notes(ask, !broken.off.is_empty());
    let shuns = |(reduction, function): (Reduction, _)| reduction.shuns_rings(function, ranks);
    if reduction.zip(Function::of(ask.program.collective)).is_some_and(shuns) {
        notes.push(
            "NCCL avoids rings of 8-bit floats over more than 8 ranks: where these times are a ring's, it may \
             run another algorithm"
                .to_owned(),
        );
    }
    if unadded {
        let what = format!("switches do not add {} of {}", asked.redop, asked.dtype);
        notes
            .insert(0, format!("{what}: times are those of sums, with what runs without switches"));
    }
    Ok(Mock {
        ask: asked,
        machine: query.machine.name.clone(),
        ranks,
        nodes: query.placement.nodes(),
        per_node: query.placement.per_node,
        notes,
        takes: told.takes,
        faults: broken.told.clone(),
        devices: devices(query, broken.per_device),
        rows,
        average,
    })
}

/// Messages that are simulated for one suspected fault: there are some twenty, and the user waits.
const SUSPECTED: u64 = 500_000;

/// A machine whose possible faults are looked at, one after another and without noise.
pub struct Suspected<'r> {
    registry: &'r Registry,
    query: Query,
    expecting: Expecting<'r>,
    sizes: Vec<Bytes>,
    lab: Lab,
}

impl<'r> Suspected<'r> {
    /// The machine of `query` with calls of `sizes`, in whole elements: sizes may be meant for another type.
    ///
    /// # Errors
    /// An unknown parameter of the machine.
    pub fn new(
        registry: &'r Registry,
        query: &Query,
        sizes: &[Bytes],
        dtype: DataType,
    ) -> Result<Self> {
        let healthy = Bench::new(registry, query, 0)?;
        let none = Broken::new(query, &[], 1)?;
        let lab = Lab::new(registry, (healthy, &none), (Ratio(0.0), 1, 1), sizes.len())?;
        let whole = |size: &Bytes| Bytes(size.0 - size.0 % dtype.bytes().0.max(1));
        Ok(Self {
            registry,
            query: query.clone(),
            expecting: Expecting::new(registry, query)?,
            sizes: sizes.iter().map(whole).collect(),
            lab: lab.within(SUSPECTED, sizes.len()),
        })
    }

    /// How much longer calls of each size take with a fault.
    ///
    /// # Errors
    /// A fault that the machine cannot have; an unknown parameter of the machine.
    pub fn slowdown(&mut self, fault: &Fault) -> Result<Vec<Ratio>> {
        let broken = Broken::new(&self.query, std::slice::from_ref(fault), 1)?;
        let tuner = match broken.off.as_slice() {
            [] => None,
            off => Some(tuner::Tuner::new(&self.query, off)?),
        };
        self.lab.turn_to(self.registry, &broken)?;
        let mut ratios = Vec::with_capacity(self.sizes.len());
        for (i, &size) in self.sizes.iter().enumerate() {
            let take = took(&self.lab.healthy, &self.expecting, size);
            let protocol = tuner.as_ref().map_or(Ratio(1.0), |t| t.factor(size));
            let usual = self.expecting.time(size);
            let time = self.lab.look(i, size, &take, usual * protocol)?.times[0];
            ratios.push(if usual.0 > 0.0 { time / usual } else { protocol });
        }
        Ok(ratios)
    }
}

/// The reduction of a program that reduces.
fn reduction(ask: &Ask) -> Result<Option<Reduction>> {
    let of = |operation| Reduction { element: ask.dtype, operation };
    let reduces = ask.program.collective.reduces();
    reduces.then(|| ask.operation.parse().map(of)).transpose()
}

/// What the library runs for `size` bytes on the healthy machine.
fn took(healthy: &Bench, expecting: &Expecting<'_>, size: Bytes) -> Take {
    let guessed = expecting.runs(size).rules == Rules::Unknown;
    Take { guessed, ..healthy.run(expecting.ideal(size).id, size) }
}

fn check(query: &Query, ask: &Ask) -> Result<Asked> {
    let ranks = query.shape.ranks;
    if ranks < 2 {
        return Err(Error::input("one rank alone communicates nothing").help("use --n 2 or more"));
    }
    if ranks > MOST_RANKS {
        return Err(Error::input(format!("{ranks} ranks are too many for the list of devices"))
            .help(format!("use at most {MOST_RANKS}")));
    }
    if query.shape.collective != ask.program.collective {
        let what = format!("{} does not run {}", ask.program.name, query.shape.collective);
        return Err(Error::input(what));
    }
    if ask.root >= ranks {
        return Err(Error::input(format!("there is no rank {}", ask.root))
            .at(format!("--root {}", ask.root))
            .help(format!("ranks are 0 to {}", ranks - 1)));
    }
    let dtype = ask.dtype.nccl_name().ok_or_else(|| {
        Error::input(format!("nccl-tests has no type `{}`", ask.dtype))
            .at(format!("--datatype {}", ask.dtype))
            .help("write float, half, bfloat16, double, int8, int32 or another of NCCL's")
    })?;
    if !OPERATIONS.contains(&ask.operation) {
        return Err(Error::input(format!("nccl-tests has no operation `{}`", ask.operation))
            .at(format!("--op {}", ask.operation))
            .help(format!("known: {}", OPERATIONS.join(", "))));
    }
    Ok(Asked {
        program: ask.program,
        sizes: ask.sizes,
        dtype,
        redop: ask.program.redop(ask.operation),
        root: ask.program.root(ask.root),
        iterations: ask.iterations.max(1),
        warmup: ask.warmup,
        check: ask.check,
        noise: ask.noise,
        seed: ask.seed,
        gpus_per_thread: query.machine.gpus_per_thread.map_or(1, NonZeroU32::get),
    })
}

/// The requested sizes in order.
fn sizes(asked: &Sizes) -> Result<Vec<Bytes>> {
    if asked.first.0 > asked.last.0 {
        return Err(Error::input(format!("{} is more than {}", asked.first, asked.last))
            .at(format!("-b {} -e {}", asked.first.0, asked.last.0))
            .help("write the smaller size after -b"));
    }
    let next = |&size: &u64| match asked.step {
        Step::Factor(factor) => size.checked_mul(factor.max(2)),
        Step::Plus(Bytes(more)) => size.checked_add(more.max(1)),
    };
    if asked.first.0 == 0 && matches!(asked.step, Step::Factor(_)) {
        return Err(Error::input("0 bytes times any factor are 0 bytes")
            .at("-b 0")
            .help("begin with a size above 0, or step by bytes with -i"));
    }
    let all = std::iter::successors(Some(asked.first.0), next);
    let sizes: Vec<Bytes> =
        all.take_while(|&s| s <= asked.last.0).take(MOST_ROWS + 1).map(Bytes).collect();
    if sizes.len() > MOST_ROWS {
        return Err(Error::input(format!("these are more than {MOST_ROWS} sizes"))
            .help("step by a factor, such as -f 2, or by more bytes with -i"));
    }
    Ok(sizes)
}

fn figures(query: &Query, size: Bytes, time: Seconds, looked: bool) -> Place {
    let shape = &query.shape;
    let rate = if time.0 > 0.0 { size.0 as f64 / time.0 } else { 0.0 };
    let algbw = Bandwidth(rate);
    let busbw = algbw * shape.collective.busbw_factor(shape.ranks);
    Place { time, algbw, busbw, wrong: looked.then_some(0) }
}

fn devices(query: &Query, per_device: u32) -> Vec<Device> {
    let node = |rank| query.placement.node_of(rank) + 1;
    let here = |rank| query.placement.local(rank);
    (0..query.shape.ranks)
        .map(|rank| Device { rank, node: node(rank), device: here(rank) / per_device.max(1) })
        .collect()
}

/// What the table does not show about how it was made.
#[derive(Default)]
struct Told {
    takes: Vec<(Bytes, &'static str)>,
    chosen: Vec<(Bytes, &'static str)>,
    priced: Vec<&'static str>,
    /// The fewest iterations of a row that were simulated.
    fewest: Option<u32>,
}

impl Told {
    fn take(&mut self, size: Bytes, algorithm: &'static str, found: &Found, ask: &Ask) {
        if self.takes.last().is_none_or(|(_, last)| *last != algorithm) {
            self.takes.push((size, algorithm));
        }
        let ran = found.chosen.unwrap_or(algorithm);
        if let Some(chosen) = found.chosen
            && self.chosen.last().is_none_or(|(_, last)| *last != chosen)
        {
            self.chosen.push((size, chosen));
        }
        let draws = match found.way {
            None => return,
            Some(Way::Played(draws)) => draws,
            Some(Way::Priced(draws)) => {
                if !self.priced.contains(&ran) {
                    self.priced.push(ran);
                }
                draws
            }
        };
        if ask.noise.0 > 0.0 && draws < ask.iterations {
            self.fewest = Some(self.fewest.map_or(draws, |fewest| fewest.min(draws)));
        }
    }

    fn notes(&self, ask: &Ask, protocols: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.chosen.is_empty() {
            notes.push(format!("with the fault it runs {}", ranges(&self.chosen)));
        }
        if !self.priced.is_empty() {
            notes.push(format!(
                "{}: by the closed form, with every link as slow as the slowest of its kind; there is \
                 no explicit schedule, or it is too long to simulate",
                self.priced.join(", ")
            ));
        }
        if let Some(fewest) = self.fewest {
            notes.push(format!(
                "at least {fewest} of the {} iterations of a row are simulated, each for several",
                ask.iterations
            ));
        }
        if protocols {
            notes.push("protocols: by the ratio of NCCL's own estimates, not simulated".to_owned());
        }
        notes
    }
}

/// `ring`, or `ring; double binary tree from 1 MiB on`.
fn ranges(takes: &[(Bytes, &'static str)]) -> String {
    let part = |(i, (from, name)): (usize, &(Bytes, &'static str))| match i {
        0 => (*name).to_owned(),
        _ => format!("{name} from {from} on"),
    };
    takes.iter().enumerate().map(part).collect::<Vec<_>>().join("; ")
}
