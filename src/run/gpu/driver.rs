//! The driver of NVIDIA's GPUs, as far as it is used: devices, memory, copies, one kernel, graphs.
//!
//! The driver is looked for when [`Driver::load`] is called and not before. The crate that binds it
//! panics where the library or a function is missing, so both are asked for first, by name.
//!
//! # Why this is sound
//!
//! * Handles (contexts, streams, events, memory) are private to their types, made by the driver and
//!   given back once, when the type is dropped. What is made of a GPU holds its context.
//! * Every call that works in "the current context" is made by a method that sets it first.
//! * Lengths are checked against those of the buffers before a copy or a kernel is started; memory
//!   of the host that a copy reads or writes is borrowed until the stream has been waited for.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::rc::Rc;

use cudarc::driver::{DriverError, result, sys};

use crate::base::error::{Error, Result};
use crate::base::quantity::Seconds;

/// The functions that are called; a driver that lacks one is too old.
const NEEDED: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDeviceCanAccessPeer",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxEnablePeerAccess",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuLaunchKernel",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventElapsedTime",
    "cuEventDestroy_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

/// Adds `count` f32 to others, four at a time; any grid of any blocks will do.
const ADD: &str = include_str!("add.ptx");
const BLOCK: u32 = 256;
const MOST_BLOCKS: u64 = 4096;

/// The driver, loaded and ready.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    version: u32,
    count: u32,
}

impl Driver {
    /// Loads the driver and counts the GPUs.
    ///
    /// # Errors
    /// No driver, one that is too old, one that does not start, no GPU.
    pub fn load() -> Result<Self> {
        // SAFETY: loading the driver runs its start-up code, as any CUDA program does.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::environment("there is no driver of NVIDIA's GPUs: no libcuda.so.1")
                .help("install the driver, or measure with --transport shm or tcp"));
        }
        // SAFETY: it is present, so this does not panic; nothing is called through the symbols.
        let library = unsafe { sys::culib() };
        let missing = NEEDED.iter().find(|name| {
            // SAFETY: the symbol is looked up and dropped.
            unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err()
        });
        if let Some(name) = missing {
            return Err(Error::environment(format!("the driver has no {name}: it is too old"))
                .at("libcuda.so.1")
                .help("CUDA 12 (driver 525) or later is needed"));
        }
        result::init().map_err(|e| {
            said("cuInit", e).help("`nvidia-smi` should list the GPUs; look whether it does")
        })?;
        let mut version: c_int = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }
            .result()
            .map_err(|e| said("cuDriverGetVersion", e))?;
        let count = result::device::get_count().map_err(|e| said("cuDeviceGetCount", e))?;
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(Self { version: version.unsigned_abs(), count }),
            _ => Err(Error::environment("the driver finds no GPU")
                .help("look at CUDA_VISIBLE_DEVICES, or measure with --transport shm or tcp")),
        }
    }

    /// The version of CUDA that the driver has, such as `12.4`.
    #[must_use]
    pub fn version(self) -> String {
        format!("{}.{}", self.version / 1000, self.version % 1000 / 10)
    }

    /// How many GPUs there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether GPU `from` can reach the memory of `to` by itself.
    ///
    /// # Errors
    /// What the driver says.
    pub fn reaches(self, from: u32, to: u32) -> Result<bool> {
        let (from, to) = (device(from)?, device(to)?);
        let mut can: c_int = 0;
        // SAFETY: the pointer is to a live integer; the devices are the driver's.
        unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, from, to) }
            .result()
            .map_err(|e| said("cuDeviceCanAccessPeer", e))?;
        Ok(can != 0)
    }
}

fn device(ordinal: u32) -> Result<sys::CUdevice> {
    let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
    result::device::get(number).map_err(|e| said("cuDeviceGet", e))
}

/// What the driver said to a call.
fn said(call: &str, error: DriverError) -> Error {
    let name = error.error_name().ok().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| format!("error {}", error.0 as u32));
    Error::environment(format!("the GPU's driver says {name}")).at(call.to_owned())
}

/// A GPU with a stream of its own.
pub struct Gpu {
    context: Rc<Context>,
    stream: sys::CUstream,
    start: sys::CUevent,
    end: sys::CUevent,
    module: sys::CUmodule,
    add: sys::CUfunction,
}

struct Context {
    device: sys::CUdevice,
    handle: sys::CUcontext,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once, when it was made. What fails here ends with the process.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Context {
    fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { result::ctx::set_current(self.handle) }.map_err(|e| said("cuCtxSetCurrent", e))
    }
}

impl Gpu {
    /// GPU number `ordinal` of the driver.
    ///
    /// # Errors
    /// What the driver says.
    pub fn open(_: Driver, ordinal: u32) -> Result<Self> {
        let device = device(ordinal)?;
        // SAFETY: the device is the driver's; the context is released when it is dropped.
        let handle = unsafe { result::primary_ctx::retain(device) }
            .map_err(|e| said("cuDevicePrimaryCtxRetain", e))?;
        let context = Rc::new(Context { device, handle });
        context.enter()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| said("cuStreamCreate", e))?;
        let event = || {
            result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
                .map_err(|e| said("cuEventCreate", e))
        };
        let (start, end) = (event()?, event()?);
        let text = CString::new(ADD).map_err(|_| Error::environment("the kernel is no text"))?;
        // SAFETY: the text ends with a zero and is well-formed PTX; the driver copies it.
        let module = unsafe { result::module::load_data(text.as_ptr().cast()) }
            .map_err(|e| said("cuModuleLoadData", e))?;
        let name = CString::new("add").map_err(|_| Error::environment("no name"))?;
        // SAFETY: the module is loaded and stays so as long as `self` lives.
        let add = unsafe { result::module::get_function(module, name) }
            .map_err(|e| said("cuModuleGetFunction", e))?;
        Ok(Self { context, stream, start, end, module, add })
    }

    /// What the maker calls it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn name(&self) -> Result<String> {
        result::device::get_name(self.context.device).map_err(|e| said("cuDeviceGetName", e))
    }

    /// Which it is, in all the world: another host's or another part of this one has another.
    ///
    /// # Errors
    /// What the driver says.
    pub fn id(&self) -> Result<String> {
        let id = result::device::get_uuid(self.context.device)
            .map_err(|e| said("cuDeviceGetUuid", e))?;
        Ok(id.bytes.iter().map(|byte| format!("{:02x}", byte.to_ne_bytes()[0])).collect())
    }

    /// Makes it the GPU on which this thread's calls work.
    ///
    /// # Errors
    /// What the driver says.
    pub fn enter(&self) -> Result<()> {
        self.context.enter()
    }

    /// The stream, as other libraries take it.
    pub(super) fn stream(&self) -> *mut c_void {
        self.stream.cast()
    }

    /// Lets copies go straight to the memory of `other`. False where that cannot be: then they go
    /// through the host.
    ///
    /// # Errors
    /// What the driver says, but that it cannot be.
    pub fn reach(&self, other: &Self) -> Result<bool> {
        self.enter()?;
        // SAFETY: both contexts are retained.
        let done = unsafe { sys::cuCtxEnablePeerAccess(other.context.handle, 0) }.result();
        use sys::cudaError_enum as E;
        match done {
            Ok(()) => Ok(true),
            Err(e) if e.0 == E::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
            Err(e) if e.0 == E::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED => Ok(false),
            Err(e) => Err(said("cuCtxEnablePeerAccess", e)),
        }
    }

    /// Memory on it.
    ///
    /// # Errors
    /// There is not so much.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        self.enter()?;
        // SAFETY: the memory is freed when the buffer is dropped, and never read before written.
        let at = unsafe { result::malloc_sync(bytes.max(16)) }
            .map_err(|e| said("cuMemAlloc", e).help("give smaller --sizes"))?;
        Ok(Buffer { context: Rc::clone(&self.context), at, bytes })
    }

    /// Puts `bytes` into `buffer` at `at`, and waits until they are there.
    ///
    /// # Errors
    /// What the driver says.
    pub fn write(&self, buffer: &Buffer, at: usize, bytes: &[u8]) -> Result<()> {
        buffer.holds(at, bytes.len())?;
        self.enter()?;
        // SAFETY: the place is inside the buffer, and `bytes` are borrowed until the wait is over.
        unsafe { result::memcpy_htod_async(buffer.at + at as u64, bytes, self.stream) }
            .map_err(|e| said("cuMemcpyHtoDAsync", e))?;
        self.wait()
    }

    /// Gets `bytes` from `buffer` at `at`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn read(&self, buffer: &Buffer, at: usize, bytes: &mut [u8]) -> Result<()> {
        buffer.holds(at, bytes.len())?;
        self.enter()?;
        // SAFETY: as in `write`.
        unsafe { result::memcpy_dtoh_async(bytes, buffer.at + at as u64, self.stream) }
            .map_err(|e| said("cuMemcpyDtoHAsync", e))?;
        self.wait()
    }

    /// Starts to copy the first `bytes` of `from`, which may be of another GPU, to `into`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn copy(&self, into: &Buffer, from: &Buffer, bytes: usize) -> Result<()> {
        into.holds(0, bytes)?;
        from.holds(0, bytes)?;
        self.enter()?;
        let same = Rc::ptr_eq(&into.context, &from.context);
        // SAFETY: both places are inside their buffers, whose memory outlives the stream's work:
        // buffers are dropped by those who wait for it.
        let done = unsafe {
            match same {
                true => result::memcpy_dtod_async(into.at, from.at, bytes, self.stream),
                false => result::memcpy_peer_async(
                    into.context.handle,
                    into.at,
                    from.context.handle,
                    from.at,
                    bytes,
                    self.stream,
                ),
            }
        };
        done.map_err(|e| said(if same { "cuMemcpyDtoDAsync" } else { "cuMemcpyPeerAsync" }, e))
    }

    /// Starts to add the first `floats` f32 of `from` to those of `into`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn add(&self, into: &Buffer, from: &Buffer, floats: usize) -> Result<()> {
        into.holds(0, 4 * floats)?;
        from.holds(0, 4 * floats)?;
        self.enter()?;
        let (mut a, mut b, mut count) = (into.at, from.at, floats as u64);
        let blocks = (count / 4).div_ceil(u64::from(BLOCK)).clamp(1, MOST_BLOCKS) as u32;
        let mut parameters: [*mut c_void; 3] =
            [(&raw mut a).cast(), (&raw mut b).cast(), (&raw mut count).cast()];
        // SAFETY: the kernel takes two addresses and a count, which the driver copies before it
        // returns, and touches `count` floats of each buffer.
        unsafe {
            result::launch_kernel(
                self.add,
                (blocks, 1, 1),
                (BLOCK, 1, 1),
                0,
                self.stream,
                &mut parameters,
            )
        }
        .map_err(|e| said("cuLaunchKernel", e))
    }

    /// Waits until everything that was started has ended.
    ///
    /// # Errors
    /// What the driver says of it.
    pub fn wait(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream) }
            .map_err(|e| said("cuStreamSynchronize", e))
    }

    /// Notes the time at which what was started before has ended.
    ///
    /// # Errors
    /// What the driver says.
    pub fn mark_start(&self) -> Result<()> {
        self.mark(self.start)
    }

    /// The same, for the end.
    ///
    /// # Errors
    /// What the driver says.
    pub fn mark_end(&self) -> Result<()> {
        self.mark(self.end)
    }

    fn mark(&self, event: sys::CUevent) -> Result<()> {
        self.enter()?;
        // SAFETY: event and stream live as long as `self`, and are of the same context.
        unsafe { result::event::record(event, self.stream) }.map_err(|e| said("cuEventRecord", e))
    }

    /// Between the two marks; everything must have ended.
    ///
    /// # Errors
    /// What the driver says.
    pub fn between(&self) -> Result<Seconds> {
        // SAFETY: both events were recorded in this stream.
        let milliseconds = unsafe { result::event::elapsed(self.start, self.end) }
            .map_err(|e| said("cuEventElapsedTime", e))?;
        Ok(Seconds(f64::from(milliseconds) * 1e-3))
    }

    /// What `starts` starts, as a graph; nothing runs yet.
    ///
    /// # Errors
    /// What the driver says.
    pub fn graph(&self, starts: impl FnOnce(&Self) -> Result<()>) -> Result<Graph<'_>> {
        self.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as `self`, and the capture ends below whatever happens.
        unsafe { result::stream::begin_capture(self.stream, mode) }
            .map_err(|e| said("cuStreamBeginCapture", e))?;
        let started = starts(self);
        // SAFETY: a capture was begun.
        let graph = unsafe { result::stream::end_capture(self.stream) }
            .map_err(|e| said("cuStreamEndCapture", e))?;
        started?;
        // SAFETY: the graph is the driver's, and given back below.
        let made = unsafe {
            let flags = sys::CUgraphInstantiate_flags_enum(0);
            let made = result::graph::instantiate(graph, flags);
            let _ = result::graph::destroy(graph);
            made
        };
        let run = made.map_err(|e| said("cuGraphInstantiate", e))?;
        Ok(Graph { gpu: self, run })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: each was made once, by `open`, and nothing uses it any more.
        unsafe {
            let _ = self.context.enter();
            let _ = result::stream::synchronize(self.stream);
            let _ = result::event::destroy(self.start);
            let _ = result::event::destroy(self.end);
            let _ = result::module::unload(self.module);
            let _ = result::stream::destroy(self.stream);
        }
    }
}

/// Work that a GPU was told before.
pub struct Graph<'a> {
    gpu: &'a Gpu,
    run: sys::CUgraphExec,
}

impl Graph<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn start(&self) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: both live as long as `self`.
        unsafe { result::graph::launch(self.run, self.gpu.stream) }
            .map_err(|e| said("cuGraphLaunch", e))
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made once, by `Gpu::graph`.
        let _ = unsafe { result::graph::exec_destroy(self.run) };
    }
}

/// Memory of a GPU.
pub struct Buffer {
    context: Rc<Context>,
    at: sys::CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    fn holds(&self, at: usize, bytes: usize) -> Result<()> {
        match at.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            true => Ok(()),
            false => Err(Error::input(format!(
                "{bytes} B at {at} are not in a buffer of {} B",
                self.bytes
            ))),
        }
    }

    /// Where it is, `offset` bytes on, as other libraries take it.
    pub(super) fn address(&self, offset: usize) -> *mut c_void {
        (self.at + offset as u64) as *mut c_void
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: it was allocated once, and who started work on it has waited.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

/// Pinned memory of the host.
pub struct Pinned {
    at: *mut u8,
    bytes: usize,
    context: Rc<Context>,
}

impl Pinned {
    /// So many bytes of it, all zero.
    ///
    /// # Errors
    /// There is not so much.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        gpu.enter()?;
        // SAFETY: it is freed once, when it is dropped.
        let at = unsafe { result::malloc_host(bytes.max(1), 0) }
            .map_err(|e| said("cuMemHostAlloc", e))?
            .cast::<u8>();
        // SAFETY: the driver gave so many bytes, which nobody else has.
        unsafe { at.write_bytes(0, bytes) };
        Ok(Self { at, bytes, context: Rc::clone(&gpu.context) })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: they are initialised, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: as in `new`.
        let _ = unsafe { result::free_host(self.at.cast()) };
    }
}
