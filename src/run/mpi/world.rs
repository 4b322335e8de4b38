//! The ranks of one `mpirun`: rank 0 leads, the others do as it says.
//!
//! Everything goes through the library itself. Orders and times travel over a communicator of their
//! own, so that a forced algorithm never moves them.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_int};
use std::time::Instant;

use super::api::{Api, Defined, Handle, load};
use super::contents::Contents;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::base::stats::median;
use crate::library::{Operation, mpich, openmpi};
use crate::model::algorithm::Library;

/// The operations that can be timed; orders name them by their place.
const OPERATIONS: [Operation; 9] = {
    use crate::base::collective::Collective as C;
    use crate::library::Flavour::{Block, Plain};
    const fn plain(collective: C) -> Operation {
        Operation { collective, flavour: Plain }
    }
    [
        plain(C::AllReduce),
        plain(C::AllGather),
        plain(C::ReduceScatter),
        Operation { collective: C::ReduceScatter, flavour: Block },
        plain(C::AllToAll),
        plain(C::Broadcast),
        plain(C::Reduce),
        plain(C::Gather),
        plain(C::Scatter),
    ]
};

/// Bytes of a float.
const FLOAT: u64 = 4;
/// Names of hosts and versions are not longer.
const NAME: usize = 1024;

/// A forced algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Forced {
    /// The library's number; 0 is its own decision.
    pub number: u32,
    /// Bytes of a segment; 0: the vector in one piece.
    pub segment: Bytes,
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The collective and its variant.
    pub operation: Operation,
    /// M.
    pub size: Bytes,
    /// What runs.
    pub forced: Forced,
    /// How often.
    pub runs: u32,
    /// Whether one run before them is compared with what it should give.
    pub check: bool,
}

/// What rank 0 says to the others: these words, in this order.
#[derive(Clone, Copy, Default)]
struct Order {
    /// The operation's place, from 1; 0 ends it.
    operation: u64,
    size: u64,
    number: u64,
    segment: u64,
    runs: u64,
    check: u64,
}

/// The ranks, and the library that joins them.
pub struct World {
    library: Library,
    api: &'static Api,
    defined: Defined,
    /// Of orders and times.
    control: Handle,
    rank: u32,
    ranks: u32,
    nodes: u32,
    version: String,
    /// Open MPI reads what is forced when a communicator is made.
    made: BTreeMap<(usize, Forced), Handle>,
    contents: Contents,
}

/// How an algorithm is made to run: by a communicator of its own, or by a variable while it runs.
struct Way {
    comm: Handle,
    variable: Option<(c_int, u32)>,
}

/// What ranks tell each other before and after a result is compared.
const FINE: c_int = 0;
const NOT_FORCED: c_int = 1;
const WRONG: c_int = 2;

impl World {
    /// Starts the library in this process, which `mpirun` started.
    ///
    /// # Errors
    /// It is not installed, does not start, or its ranks are spread unevenly over hosts.
    pub fn join(library: Library) -> Result<Self> {
        let (api, defined) = load(library)?;
        let (mut thread, mut rank, mut ranks) = (0, 0, 0);
        let mut control: Handle = 0;
        // SAFETY: both are called once in the process, with pointers to live numbers, or none.
        let codes = unsafe {
            [
                (api.MPI_T_init_thread)(0, &raw mut thread),
                (api.MPI_Init)(std::ptr::null_mut(), std::ptr::null_mut()),
            ]
        };
        // SAFETY: the library has started; the pointers are to live numbers.
        let more = unsafe {
            [
                (api.MPI_Comm_dup)(defined.world, &raw mut control),
                (api.MPI_Comm_rank)(defined.world, &raw mut rank),
                (api.MPI_Comm_size)(defined.world, &raw mut ranks),
            ]
        };
        if codes.into_iter().chain(more).any(|code| code != 0) {
            return Err(Error::environment(format!("{library} does not start")));
        }
        let mut world = Self {
            library,
            api,
            defined,
            control,
            rank: rank.unsigned_abs(),
            ranks: ranks.unsigned_abs(),
            nodes: 1,
            version: text(|to, length| {
                // SAFETY: the text has room for what MPI may write.
                unsafe { (api.MPI_Get_library_version)(to, length) }
            }),
            made: BTreeMap::new(),
            contents: Contents::new(rank.unsigned_abs(), ranks.unsigned_abs()),
        };
        world.nodes = world.hosts()?;
        Ok(world)
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// On how many hosts, equally many on each.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The library's own words for its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// On how many hosts the ranks are.
    fn hosts(&self) -> Result<u32> {
        let api = self.api;
        // SAFETY: as for the version.
        let own = text(|to, length| unsafe { (api.MPI_Get_processor_name)(to, length) });
        let own = u64::from(crc32fast::hash(own.as_bytes()));
        let mut all = vec![0u64; self.ranks as usize];
        let byte = self.defined.byte;
        // SAFETY: eight bytes of each rank fit where they are gathered.
        let code = unsafe {
            let from: *const u64 = &raw const own;
            let into = all.as_mut_ptr().cast();
            (api.MPI_Allgather)(from.cast_mut().cast(), 8, byte, into, 8, byte, self.control)
        };
        self.held("MPI_Allgather", code)?;
        let names: BTreeSet<u64> = all.iter().copied().collect();
        let each = all.len() / names.len().max(1);
        let even = names.iter().all(|n| all.iter().filter(|a| *a == n).count() == each);
        if !even {
            return Err(Error::unsupported("the hosts have different numbers of ranks")
                .help("start equally many on each"));
        }
        Ok(names.len() as u32)
    }

    /// The number by which the library's variable forces an algorithm: in MPICH its place in the
    /// description of the variable, which lists what it takes.
    ///
    /// # Errors
    /// This build does not have it.
    pub fn number(&self, operation: Operation, id: Option<u32>, name: &str) -> Result<u32> {
        if let (Library::OpenMpi, Some(id)) = (self.library, id) {
            return Ok(id);
        }
        let variable = self.parameter(operation)?;
        let listed = self.description(self.index(&variable)?);
        place(&listed, name).ok_or_else(|| {
            Error::unsupported(format!("this {} has no {name} for {operation}", self.library))
                .at(variable)
        })
    }

    /// The median of timed runs; each is the longest that a rank took.
    ///
    /// # Errors
    /// A wrong result, or an algorithm that the library does not take.
    pub fn time(&mut self, timing: &Timing) -> Result<Option<Seconds>> {
        let is = |known: &Operation| *known == timing.operation;
        let place = OPERATIONS.iter().position(is).ok_or_else(|| {
            Error::unsupported(format!("{} is not timed in an MPI library", timing.operation))
        })?;
        let order = Order {
            operation: place as u64 + 1,
            size: timing.size.0,
            number: timing.forced.number.into(),
            segment: timing.forced.segment.0,
            runs: timing.runs.into(),
            check: timing.check.into(),
        };
        self.send(order)?;
        let times = self.follow(order)?.into_iter().map(|time| time.0);
        Ok(median(times.collect()).map(Seconds))
    }

    /// Does what rank 0 says, until it ends.
    ///
    /// # Errors
    /// An error of the library. Wrong results are rank 0's to report.
    pub fn serve(&mut self) -> Result<()> {
        loop {
            let order = self.send(Order::default())?;
            if order.operation == 0 {
                return Ok(());
            }
            // Every rank knows when one could not follow, and goes on.
            let _ = self.follow(order);
        }
    }

    /// Ends all ranks' part, and the library's.
    pub fn end(mut self) {
        if self.rank == 0 {
            let _ = self.send(Order::default());
        }
        // SAFETY: called once, after everything else.
        unsafe { (self.api.MPI_Finalize)() };
    }

    /// Rank 0's order, at every rank.
    fn send(&mut self, order: Order) -> Result<Order> {
        let Order { operation, size, number, segment, runs, check } = order;
        let mut words = [operation, size, number, segment, runs, check];
        let length = size_of_val(&words) as c_int;
        // SAFETY: the words live, and are as long as said.
        let code = unsafe {
            let at = words.as_mut_ptr().cast();
            (self.api.MPI_Bcast)(at, length, self.defined.byte, 0, self.control)
        };
        self.held("MPI_Bcast", code)?;
        let [operation, size, number, segment, runs, check] = words;
        Ok(Order { operation, size, number, segment, runs, check })
    }

    fn follow(&mut self, order: Order) -> Result<Vec<Seconds>> {
        let place = (order.operation as usize).saturating_sub(1).min(OPERATIONS.len() - 1);
        let operation = OPERATIONS[place];
        let forced = Forced { number: order.number as u32, segment: Bytes(order.segment) };
        self.contents.size(operation, Bytes(order.size));
        let way = self.way(place, forced);
        let mut state = self.together(if way.is_ok() { FINE } else { NOT_FORCED })?;
        if let (FINE, true, Ok(way)) = (state, order.check != 0, &way) {
            self.contents.fill(operation);
            self.set(way)?;
            self.call(operation, way.comm)?;
            self.unset(way)?;
            let is_right = self.contents.is_right(operation);
            state = self.together(if is_right { FINE } else { WRONG })?;
        }
        match (state, way) {
            (FINE, Ok(way)) => {
                let mut times = Vec::with_capacity(order.runs as usize);
                self.set(&way)?;
                for _ in 0..order.runs {
                    // SAFETY: the communicator is one of the library's.
                    let code = unsafe { (self.api.MPI_Barrier)(self.control) };
                    self.held("MPI_Barrier", code)?;
                    let began = Instant::now();
                    self.call(operation, way.comm)?;
                    times.push(began.elapsed().as_secs_f64());
                }
                self.unset(&way)?;
                self.longest(times)
            }
            (_, Err(error)) => Err(error),
            (state, Ok(_)) => {
                let number = forced.number;
                let what = match state {
                    NOT_FORCED => {
                        format!("a rank could not force algorithm {number} of {operation}")
                    }
                    _ => format!("algorithm {number} of {operation} gave a wrong result"),
                };
                Err(Error::unsupported(what).at(format!("{}, {}", self.library, Bytes(order.size))))
            }
        }
    }

    /// The largest state of any rank.
    fn together(&self, state: c_int) -> Result<c_int> {
        let mut most: c_int = 0;
        let own: *const c_int = &raw const state;
        // SAFETY: one number of each rank, and one for the result.
        let code = unsafe {
            let from = own.cast_mut().cast();
            let (int, max) = (self.defined.int, self.defined.max);
            (self.api.MPI_Allreduce)(from, (&raw mut most).cast(), 1, int, max, self.control)
        };
        self.held("MPI_Allreduce", code)?;
        Ok(most)
    }

    /// Of each run the longest time of a rank, at rank 0.
    fn longest(&self, mut times: Vec<f64>) -> Result<Vec<Seconds>> {
        let mut most = vec![0.0f64; times.len()];
        // SAFETY: as many doubles of each rank as the result has.
        let code = unsafe {
            let (from, into) = (times.as_mut_ptr().cast(), most.as_mut_ptr().cast());
            let (double, max) = (self.defined.double, self.defined.max);
            (self.api.MPI_Reduce)(from, into, times.len() as c_int, double, max, 0, self.control)
        };
        self.held("MPI_Reduce", code)?;
        Ok(most.into_iter().map(Seconds).collect())
    }

    /// How an algorithm is made to run. Whether it can be is seen before anything is called.
    fn way(&mut self, place: usize, forced: Forced) -> Result<Way> {
        let world = self.defined.world;
        if forced == Forced::default() {
            return Ok(Way { comm: world, variable: None });
        }
        if let Some(&comm) = self.made.get(&(place, forced)) {
            return Ok(Way { comm, variable: None });
        }
        let variable = self.parameter(OPERATIONS[place])?;
        let index = self.index(&variable)?;
        if self.library != Library::OpenMpi {
            let way = Way { comm: world, variable: Some((index, forced.number)) };
            self.set(&way)?;
            self.unset(&way)?;
            return Ok(way);
        }
        // Algorithms without segments have no variable for them.
        let segments = self.index(&format!("{variable}_segmentsize")).ok();
        let segment = u32::try_from(forced.segment.0).unwrap_or(0);
        let both = |number: u32, segment: u32| {
            self.write(index, number)?;
            segments.map_or(Ok(()), |segments| self.write(segments, segment))
        };
        let wrote = both(forced.number, segment);
        let mut comm: Handle = 0;
        // Every rank makes it, also where one could not write, so that none waits for another.
        // SAFETY: the pointer is to a live handle.
        let code = unsafe { (self.api.MPI_Comm_dup)(world, &raw mut comm) };
        both(0, 0)?;
        wrote?;
        self.held("MPI_Comm_dup", code)?;
        self.made.insert((place, forced), comm);
        Ok(Way { comm, variable: None })
    }

    fn set(&self, way: &Way) -> Result<()> {
        way.variable.map_or(Ok(()), |(index, number)| self.write(index, number))
    }

    /// Gives the decision back to the library, which moves orders and times too.
    fn unset(&self, way: &Way) -> Result<()> {
        way.variable.map_or(Ok(()), |(index, _)| self.write(index, 0))
    }

    fn parameter(&self, operation: Operation) -> Result<String> {
        let found = match self.library {
            Library::OpenMpi => openmpi::parameter(operation),
            _ => Some(mpich::parameter(operation)),
        };
        found.ok_or_else(|| {
            Error::unsupported(format!("{} has no parameter for {operation}", self.library))
        })
    }

    fn index(&self, variable: &str) -> Result<c_int> {
        let lacks = || {
            Error::unsupported(format!("this {} has no variable {variable}", self.library))
                .help("a build with its variables (MPI_T) is needed")
        };
        let name = CString::new(variable).map_err(|_| lacks())?;
        let mut index = 0;
        // SAFETY: the text ends with a zero; the number lives.
        let code = unsafe { (self.api.MPI_T_cvar_get_index)(name.as_ptr(), &raw mut index) };
        if code == 0 { Ok(index) } else { Err(lacks()) }
    }

    fn write(&self, index: c_int, value: u32) -> Result<()> {
        let value = value.cast_signed();
        let (mut handle, mut count): (Handle, c_int) = (0, 0);
        // SAFETY: the variable is an int of no object, as both libraries define these; pointers are to
        // live numbers.
        let codes = unsafe {
            let none = std::ptr::null_mut();
            let taken =
                (self.api.MPI_T_cvar_handle_alloc)(index, none, &raw mut handle, &raw mut count);
            let value: *const c_int = &raw const value;
            let wrote =
                if taken == 0 { (self.api.MPI_T_cvar_write)(handle, value.cast()) } else { taken };
            if taken == 0 {
                (self.api.MPI_T_cvar_handle_free)(&raw mut handle);
            }
            wrote
        };
        self.held("MPI_T_cvar_write", codes)
    }

    fn description(&self, index: c_int) -> String {
        let mut name = [0; NAME];
        let mut long = vec![0; 16 * NAME];
        let (mut lengths, mut numbers) = ([NAME as c_int, 16 * NAME as c_int], [0; 3]);
        let mut handles: [Handle; 2] = [0; 2];
        let [short, length] = &mut lengths;
        let [verbosity, bind, scope] = &mut numbers;
        let [kind, listed] = &mut handles;
        // SAFETY: texts are as long as said; numbers and handles live.
        let code = unsafe {
            (self.api.MPI_T_cvar_get_info)(
                index,
                name.as_mut_ptr(),
                short,
                verbosity,
                kind,
                listed,
                long.as_mut_ptr(),
                length,
                bind,
                scope,
            )
        };
        if code == 0 { until_zero(&long) } else { String::new() }
    }

    /// One call.
    fn call(&mut self, operation: Operation, comm: Handle) -> Result<()> {
        use crate::base::collective::Collective as C;
        use crate::library::Flavour;
        let (api, Defined { float, sum, .. }) = (self.api, &self.defined);
        let (float, sum) = (*float, *sum);
        let (whole, block) = self.contents.counts();
        let (from, into) = self.contents.data();
        let counts = self.contents.each();
        // SAFETY: `contents` has room for the whole vector in both, and `counts` a number for each rank;
        // the communicator has all ranks.
        let code = unsafe {
            match (operation.collective, operation.flavour) {
                (C::AllReduce, _) => (api.MPI_Allreduce)(from, into, whole, float, sum, comm),
                (C::Broadcast, _) => (api.MPI_Bcast)(into, whole, float, 0, comm),
                (C::Reduce, _) => (api.MPI_Reduce)(from, into, whole, float, sum, 0, comm),
                (C::ReduceScatter, Flavour::Block) => {
                    (api.MPI_Reduce_scatter_block)(from, into, block, float, sum, comm)
                }
                (C::ReduceScatter, _) => {
                    (api.MPI_Reduce_scatter)(from, into, counts.as_ptr(), float, sum, comm)
                }
                (C::AllGather, _) => {
                    (api.MPI_Allgather)(from, block, float, into, block, float, comm)
                }
                (C::AllToAll, _) => {
                    (api.MPI_Alltoall)(from, block, float, into, block, float, comm)
                }
                (C::Gather, _) => (api.MPI_Gather)(from, block, float, into, block, float, 0, comm),
                _ => (api.MPI_Scatter)(from, block, float, into, block, float, 0, comm),
            }
        };
        self.held("the collective", code)
    }

    fn held(&self, call: &str, code: c_int) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(Error::lost(format!("{} answered {call} with error {code}", self.library))),
        }
    }
}

/// The place of a name in `…algorithm`, `auto - …`, `nb   - Force nonblocking algorithm`, `ring - …`: MPICH
/// 4.0 joins these lines without a space between them.
fn place(listed: &str, name: &str) -> Option<u32> {
    let mut heads = listed.split(" - ").map(str::trim_end);
    let is =
        |head: &str| head.strip_suffix(name).is_some_and(|before| !before.ends_with(['_', '-']));
    heads.position(is).and_then(|place| u32::try_from(place).ok())
}

/// What the library writes as a text and its length.
fn text(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    // MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 in known libraries.
    let (mut long, mut length) = (vec![0; 16 * NAME], 0);
    match write(long.as_mut_ptr(), &raw mut length) {
        0 => until_zero(&long),
        _ => String::new(),
    }
}

fn until_zero(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The largest M that is timed: counts are `int`s of floats, and both vectors lie in memory.
pub const LARGEST: Bytes = Bytes(FLOAT << 28);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithms_number_is_its_place_in_the_description() {
        let joined = "Variable to select bcast algorithmauto - Internal algorithm selectionbinomial \
                      - Force Binomial Treenb       - Force nonblocking algorithmscatter_ring_allgather \
                      - Force Scatter Ring";
        let lines = "Variable to select allgather algorithm\nauto - Internal algorithm selection\n\
                     brucks - Force brucks algorithm\nring   - Force ring algorithm";
        for (listed, name, number) in [
            (joined, "auto", Some(0)),
            (joined, "binomial", Some(1)),
            (joined, "nb", Some(2)),
            (joined, "scatter_ring_allgather", Some(3)),
            (joined, "allgather", None),
            (lines, "brucks", Some(1)),
            (lines, "ring", Some(2)),
            (lines, "rin", None),
        ] {
            assert_eq!(place(listed, name), number, "{name}");
        }
    }
}
