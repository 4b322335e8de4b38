//! NCCL, loaded on demand, under the names that packages install.
//!
//! # Why this is sound
//!
//! * The types of the functions are those of NCCL 2's `nccl.h`, whose binary interface has not
//!   changed since 2.0: later versions only added functions.
//! * A communicator is private to its type, made once and released once. Buffers, their lengths
//!   and the GPU's stream are passed as the types that own them, and lengths are checked.
//! * The library stays loaded as long as any of its objects exist.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::fmt;
use std::rc::Rc;

use libloading::Library;

use super::call::{Call, element};
use super::driver::{Buffer, Gpu};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};

/// The names tried if no file is given.
pub const NAMES: &[&str] = &["libnccl.so.2", "libnccl.so"];

/// `ncclSum`, `ncclRemoteError`, `ncclInProgress`.
const SUM: c_int = 0;
const REMOTE: c_int = 6;
const IN_PROGRESS: c_int = 7;

/// An id that all ranks of a communicator share before it is created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; 128]);

impl UniqueId {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id with these bytes; `None` if their number is wrong.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

type Comm = *mut c_void;
type Address = *mut c_void;
type Stream = *mut c_void;
type Init = unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int) -> c_int;
type Ungrouped = unsafe extern "C" fn() -> c_int;
type Whole = unsafe extern "C" fn(Address, Address, usize, c_int, c_int, Comm, Stream) -> c_int;
type Rooted =
    unsafe extern "C" fn(Address, Address, usize, c_int, c_int, c_int, Comm, Stream) -> c_int;
type Gathered = unsafe extern "C" fn(Address, Address, usize, c_int, Comm, Stream) -> c_int;
type Paired = unsafe extern "C" fn(Address, usize, c_int, c_int, Comm, Stream) -> c_int;
type Register = unsafe extern "C" fn(Comm, Address, usize, *mut Address) -> c_int;

/// NCCL's functions. Requesting a missing collective is an error that names it.
struct Functions {
    get_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    init: Init,
    start: Ungrouped,
    end: Ungrouped,
    text: unsafe extern "C" fn(c_int) -> *const c_char,
    abort: Option<unsafe extern "C" fn(Comm) -> c_int>,
    all_reduce: Option<Whole>,
    reduce_scatter: Option<Whole>,
    broadcast: Option<Whole>,
    reduce: Option<Rooted>,
    all_gather: Option<Gathered>,
    send: Option<Paired>,
    receive: Option<Paired>,
    state: Option<unsafe extern "C" fn(Comm, *mut c_int) -> c_int>,
    last: Option<unsafe extern "C" fn(Comm) -> *const c_char>,
    register: Option<Register>,
    allocate: Option<unsafe extern "C" fn(*mut Address, usize) -> c_int>,
    free: Option<unsafe extern "C" fn(Address) -> c_int>,
    _library: Library,
}

/// NCCL.
#[derive(Clone)]
pub struct Nccl {
    functions: Rc<Functions>,
    version: Release,
    name: String,
}

/// A version of NCCL.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Release {
    /// 2 in 2.27.3.
    pub major: u32,
    /// 27.
    pub minor: u32,
    /// 3.
    pub patch: u32,
}

impl Release {
    /// From `ncclGetVersion`: 2708 is 2.7.8, 22703 is 2.27.3.
    #[must_use]
    pub fn of(code: u32) -> Self {
        let unit = if code < 10_000 { 1000 } else { 10_000 };
        Self { major: code / unit, minor: code % unit / 100, patch: code % 100 }
    }

    /// Whether it is 2.`minor` or later.
    #[must_use]
    pub fn has(self, minor: u32) -> bool {
        (self.major, self.minor) >= (2, minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Nccl {
    /// Loads the first of `names` that exists.
    ///
    /// # Errors
    /// None of them, or one that is not NCCL, each with the loader's message.
    pub fn load(names: &[OsString]) -> Result<Self> {
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: loading NCCL runs its start-up code, as any program that links it does.
            match unsafe { Library::new(name) } {
                Ok(library) => return Self::of(library, &name.to_string_lossy()),
                Err(e) => tried.push(e.to_string()),
            }
        }
        let first = tried.first().map_or("", |t| t.lines().next().unwrap_or(""));
        Err(Error::environment(format!("NCCL cannot be loaded: {first}")).help(
            "install libnccl2, or give the file with --nccl-lib or COLLCOST_NCCL: PyTorch's is \
                 site-packages/nvidia/nccl/lib/libnccl.so.2",
        ))
    }

    fn of(library: Library, name: &str) -> Result<Self> {
        let lacks = |symbol: &str| {
            Error::environment(format!("the library has no {symbol}: it is not NCCL 2"))
                .at(name.to_owned())
                .help("give libnccl.so.2 with --nccl-lib or COLLCOST_NCCL")
        };
        /// A function of the type that it has in `nccl.h`.
        ///
        /// SAFETY of its callers: `F` is that type.
        unsafe fn get<F: Copy>(library: &Library, symbol: &str) -> Option<F> {
            // SAFETY: guaranteed by the caller.
            unsafe { library.get::<F>(symbol.as_bytes()) }.ok().map(|found| *found)
        }
        // SAFETY: the types are those of nccl.h.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_int) -> c_int =
                get(&library, "ncclGetVersion").ok_or_else(|| lacks("ncclGetVersion"))?;
            let mut code: c_int = 0;
            if version(&raw mut code) != 0 || code < 2000 {
                return Err(lacks("version"));
            }
            let functions = Functions {
                get_id: get(&library, "ncclGetUniqueId").ok_or_else(|| lacks("ncclGetUniqueId"))?,
                init: get(&library, "ncclCommInitRank").ok_or_else(|| lacks("ncclCommInitRank"))?,
                start: get(&library, "ncclGroupStart").ok_or_else(|| lacks("ncclGroupStart"))?,
                end: get(&library, "ncclGroupEnd").ok_or_else(|| lacks("ncclGroupEnd"))?,
                text: get(&library, "ncclGetErrorString")
                    .ok_or_else(|| lacks("ncclGetErrorString"))?,
                abort: get(&library, "ncclCommAbort"),
                all_reduce: get(&library, "ncclAllReduce"),
                reduce_scatter: get(&library, "ncclReduceScatter"),
                broadcast: get(&library, "ncclBroadcast"),
                reduce: get(&library, "ncclReduce"),
                all_gather: get(&library, "ncclAllGather"),
                send: get(&library, "ncclSend"),
                receive: get(&library, "ncclRecv"),
                state: get(&library, "ncclCommGetAsyncError"),
                last: get(&library, "ncclGetLastError"),
                register: get(&library, "ncclCommRegister"),
                allocate: get(&library, "ncclMemAlloc"),
                free: get(&library, "ncclMemFree"),
                _library: library,
            };
            let version = Release::of(code.unsigned_abs());
            Ok(Self { functions: Rc::new(functions), version, name: name.to_owned() })
        }
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> Release {
        self.version
    }

    /// Whether it has the functions needed for a collective.
    #[must_use]
    pub fn has(&self, collective: Collective) -> bool {
        use Collective as C;
        let f = &self.functions;
        match collective {
            C::AllReduce => f.all_reduce.is_some(),
            C::ReduceScatter => f.reduce_scatter.is_some(),
            C::Broadcast => f.broadcast.is_some(),
            C::Reduce => f.reduce.is_some(),
            C::AllGather => f.all_gather.is_some(),
            C::AllToAll | C::SendRecv => f.send.is_some() && f.receive.is_some(),
            _ => false,
        }
    }

    /// An id for a new communicator.
    ///
    /// # Errors
    /// An error from NCCL.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: the pointer is to an id that lives.
        self.held(unsafe { (self.functions.get_id)(&raw mut id) }, "ncclGetUniqueId")?;
        Ok(id)
    }

    /// The communicators of the ranks from `first` on of `ranks`, one on each of `gpus`.
    ///
    /// # Errors
    /// An error from NCCL.
    pub fn communicators(
        &self,
        id: UniqueId,
        ranks: u32,
        first: u32,
        gpus: &[Gpu],
    ) -> Result<Vec<Communicator>> {
        let mut all: Vec<Comm> = vec![std::ptr::null_mut(); gpus.len()];
        self.group(|| {
            for ((rank, gpu), comm) in (first..).zip(gpus).zip(&mut all) {
                gpu.enter()?;
                let (ranks, rank) = (ranks.cast_signed(), rank.cast_signed());
                // SAFETY: the pointer is to a handle that lives until the group has ended.
                let said = unsafe { (self.functions.init)(comm, ranks, id, rank) };
                self.held(said, "ncclCommInitRank")?;
            }
            Ok(())
        })?;
        Ok(all.into_iter().map(|comm| Communicator { nccl: self.clone(), comm }).collect())
    }

    /// Calls that NCCL treats as one group.
    ///
    /// # Errors
    /// Errors of `calls` and NCCL.
    pub fn group(&self, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        // SAFETY: the two have no parameters, and are called in pairs.
        self.held(unsafe { (self.functions.start)() }, "ncclGroupStart")?;
        let called = calls();
        // SAFETY: as above.
        let ended = self.held(unsafe { (self.functions.end)() }, "ncclGroupEnd");
        called.and(ended)
    }

    fn held(&self, code: c_int, call: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NCCL returns a constant text for every number.
        let text = unsafe { CStr::from_ptr((self.functions.text)(code)) };
        let what = format!("NCCL says: {}", text.to_string_lossy());
        let error = if code == REMOTE { Error::lost(what) } else { Error::environment(what) };
        Err(error.at(call.to_owned()))
    }

    fn lacks(&self, symbol: &str) -> Error {
        Error::environment(format!("this NCCL has no {symbol}")).at(self.name.clone())
    }
}

/// One rank.
pub struct Communicator {
    nccl: Nccl,
    comm: Comm,
}

impl Communicator {
    /// Starts `call` from `send` to `receive`, as `rank` of `ranks`, in the stream of `gpu`.
    ///
    /// # Errors
    /// An error from NCCL; a function that it lacks; a buffer that is too small.
    pub fn start(
        &self,
        call: Call,
        (send, receive): (&Buffer, &Buffer),
        (rank, ranks): (u32, u32),
        gpu: &Gpu,
    ) -> Result<()> {
        let bytes = call.bytes(ranks);
        if bytes > send.bytes() || bytes > receive.bytes() {
            return Err(Error::input(format!("the buffers are smaller than {bytes} B")));
        }
        let (kind, block) = element(call.dtype)
            .map(|(kind, bytes)| (kind, bytes * call.count))
            .ok_or_else(|| Error::input(format!("{} is not measured", call.dtype.id())))?;
        let (count, stream) = (call.count, gpu.stream());
        let (from, to) = (send.address(0), receive.address(0));
        let f = &self.nccl.functions;
        let (comm, root) = (self.comm, 0);
        let missing = |symbol: &str| self.nccl.lacks(symbol);
        // SAFETY: the communicator lives; the buffers are large enough, and callers wait for the
        // stream before they drop them.
        let (said, name) = unsafe {
            match call.collective {
                Collective::AllReduce => {
                    let call = f.all_reduce.ok_or_else(|| missing("ncclAllReduce"))?;
                    (call(from, to, count, kind, SUM, comm, stream), "ncclAllReduce")
                }
                Collective::ReduceScatter => {
                    let call = f.reduce_scatter.ok_or_else(|| missing("ncclReduceScatter"))?;
                    (call(from, to, count, kind, SUM, comm, stream), "ncclReduceScatter")
                }
                Collective::Broadcast => {
                    let call = f.broadcast.ok_or_else(|| missing("ncclBroadcast"))?;
                    (call(from, to, count, kind, root, comm, stream), "ncclBroadcast")
                }
                Collective::Reduce => {
                    let call = f.reduce.ok_or_else(|| missing("ncclReduce"))?;
                    (call(from, to, count, kind, SUM, root, comm, stream), "ncclReduce")
                }
                Collective::AllGather => {
                    let call = f.all_gather.ok_or_else(|| missing("ncclAllGather"))?;
                    (call(from, to, count, kind, comm, stream), "ncclAllGather")
                }
                _ => {
                    let out = f.send.ok_or_else(|| missing("ncclSend"))?;
                    let into = f.receive.ok_or_else(|| missing("ncclRecv"))?;
                    let mut said = 0;
                    for (to_rank, from_rank, at) in call.messages(rank, ranks) {
                        let (source, target) =
                            (send.address(at * block), receive.address(at * block));
                        let (to, from) = (to_rank.cast_signed(), from_rank.cast_signed());
                        said = out(source, count, kind, to, comm, stream);
                        if said == 0 {
                            said = into(target, count, kind, from, comm, stream);
                        }
                        if said != 0 {
                            break;
                        }
                    }
                    (said, "ncclSend")
                }
            }
        };
        self.nccl.held(said, name)
    }

    /// The asynchronous error, if there is one: a peer that is gone, a network that fails.
    ///
    /// # Errors
    /// The error as NCCL reports it.
    pub fn look(&self) -> Result<()> {
        let Some(ask) = self.nccl.functions.state else { return Ok(()) };
        let mut state = 0;
        // SAFETY: the communicator lives, and the pointer is to a live integer.
        let said = unsafe { ask(self.comm, &raw mut state) };
        self.nccl.held(said, "ncclCommGetAsyncError")?;
        if state == IN_PROGRESS {
            return Ok(());
        }
        self.nccl.held(state, "ncclCommGetAsyncError").map_err(|e| match self.nccl.functions.last {
            None => e,
            Some(last) => {
                // SAFETY: NCCL returns a text that ends with a zero.
                let text = unsafe { CStr::from_ptr(last(self.comm)) };
                let text = text.to_string_lossy();
                if text.trim().is_empty() { e } else { e.help(text.trim().replace('\n', "; ")) }
            }
        })
    }

    /// Memory of `gpu` that NCCL allocated and registered, so other ranks may read it in place.
    ///
    /// # Errors
    /// A version without registration; an error from NCCL.
    pub fn registered(&self, gpu: &Gpu, bytes: usize) -> Result<Buffer> {
        let f = &self.nccl.functions;
        let (Some(allocate), Some(free), Some(register)) = (f.allocate, f.free, f.register) else {
            return Err(self.nccl.lacks("ncclCommRegister"));
        };
        gpu.enter()?;
        let (mut at, mut handle) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the pointer is to a live address; the memory goes back with the buffer.
        self.nccl.held(unsafe { allocate(&raw mut at, bytes) }, "ncclMemAlloc")?;
        let nccl = self.nccl.clone();
        let back = Box::new(move |at: *mut c_void| {
            let _ = &nccl;
            // SAFETY: it came from `ncclMemAlloc` of the same library, which the closure holds.
            unsafe { free(at) };
        });
        let buffer = Buffer::given(gpu, (at, bytes), back);
        // SAFETY: communicator and memory live; the registration goes with the communicator.
        let said = unsafe { register(self.comm, at, bytes, &raw mut handle) };
        self.nccl.held(said, "ncclCommRegister")?;
        Ok(buffer)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // The process ends soon: an orderly end would wait for peers that may hang.
        if let Some(abort) = self.nccl.functions.abort {
            // SAFETY: it was made once, and nothing uses it any more.
            unsafe { abort(self.comm) };
        }
    }
}
