//! The driver of NVIDIA's GPUs, as far as it is used here: devices, memory, copies, one kernel,
//! graphs.
//!
//! The driver is looked for only when [`Driver::load`] is called.
//!
//! # Why this is sound
//!
//! * Handles (contexts, streams, events, memory) are private to their types, made by the driver and
//!   released once, when the type is dropped. Each object of a GPU holds the GPU's context.
//! * Every call that works in "the current context" is made by a method that sets it first.
//! * Lengths are checked against those of the buffers before a copy or a kernel is started; memory
//!   of the host that a copy reads or writes is borrowed until the stream has been waited for.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::rc::Rc;

use super::api::{self, Api};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};

/// Adds `count` f32 to others, four at a time; any grid of any blocks will do.
const ADD: &str = include_str!("add.ptx");
const BLOCK: u32 = 256;
const MOST_BLOCKS: u64 = 4096;

/// The driver, loaded and ready.
#[derive(Clone, Copy)]
pub struct Driver {
    api: &'static Api,
    version: u32,
    count: u32,
}

impl Driver {
    /// Loads the driver and counts the GPUs.
    ///
    /// # Errors
    /// No driver, a stub, a driver that is too old or does not initialize, no GPU.
    pub fn load() -> Result<Self> {
        let api = Api::load()?;
        let (mut version, mut count): (c_int, c_int) = (0, 0);
        // SAFETY: the pointers are to live integers.
        unsafe {
            api.held("cuDriverGetVersion", (api.cuDriverGetVersion)(&raw mut version))?;
            api.held("cuDeviceGetCount", (api.cuDeviceGetCount)(&raw mut count))?;
        }
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(Self { api, version: version.unsigned_abs(), count }),
            _ => Err(Error::environment("the driver found no GPU")
                .help("check CUDA_VISIBLE_DEVICES, or measure with --transport shm or tcp")),
        }
    }

    /// The CUDA version that the driver supports, such as `12.4`.
    #[must_use]
    pub fn version(self) -> String {
        format!("{}.{}", self.version / 1000, self.version % 1000 / 10)
    }

    /// How many GPUs there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether GPU `from` can access the memory of `to` directly.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn reaches(self, from: u32, to: u32) -> Result<bool> {
        let (from, to) = (self.device(from)?, self.device(to)?);
        let mut can: c_int = 0;
        // SAFETY: the pointer is to a live integer; the devices are the driver's.
        let said = unsafe { (self.api.cuDeviceCanAccessPeer)(&raw mut can, from, to) };
        self.api.held("cuDeviceCanAccessPeer", said)?;
        Ok(can != 0)
    }

    fn device(self, ordinal: u32) -> Result<api::Device> {
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        let mut device = 0;
        // SAFETY: the pointer is to a live integer.
        let said = unsafe { (self.api.cuDeviceGet)(&raw mut device, number) };
        self.api.held("cuDeviceGet", said)?;
        Ok(device)
    }
}

/// A GPU with its own stream.
pub struct Gpu {
    context: Rc<Context>,
    stream: api::Handle,
    start: api::Handle,
    end: api::Handle,
    module: api::Handle,
    add: api::Handle,
}

struct Context {
    api: &'static Api,
    device: api::Device,
    handle: api::Handle,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once, when it was made. An error here ends with the process.
        let _ = unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

impl Context {
    fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained as long as `self` lives.
        self.api.held("cuCtxSetCurrent", unsafe { (self.api.cuCtxSetCurrent)(self.handle) })
    }
}

/// A stream that does not wait for the one that all programs share.
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: a graph does not include the work of other threads.
const THREAD_LOCAL: c_int = 1;

impl Gpu {
    /// GPU number `ordinal` of the driver.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn open(driver: Driver, ordinal: u32) -> Result<Self> {
        let (api, device) = (driver.api, driver.device(ordinal)?);
        let none: api::Handle = std::ptr::null_mut();
        let mut handle = none;
        // SAFETY: the device is the driver's; the context is released when it is dropped.
        let said = unsafe { (api.cuDevicePrimaryCtxRetain)(&raw mut handle, device) };
        api.held("cuDevicePrimaryCtxRetain", said)?;
        let context = Rc::new(Context { api, device, handle });
        context.enter()?;
        let (mut stream, mut start, mut end) = (none, none, none);
        let (mut module, mut add) = (none, none);
        let text =
            CString::new(ADD).map_err(|_| Error::environment("the kernel's text is invalid"))?;
        // SAFETY: the pointers are to live handles; the text ends with a zero and is well-formed PTX,
        // which the driver copies; the module stays loaded as long as `self` lives.
        unsafe {
            api.held("cuStreamCreate", (api.cuStreamCreate)(&raw mut stream, NON_BLOCKING))?;
            api.held("cuEventCreate", (api.cuEventCreate)(&raw mut start, 0))?;
            api.held("cuEventCreate", (api.cuEventCreate)(&raw mut end, 0))?;
            let said = (api.cuModuleLoadData)(&raw mut module, text.as_ptr().cast());
            api.held("cuModuleLoadData", said)?;
            let said = (api.cuModuleGetFunction)(&raw mut add, module, c"add".as_ptr());
            api.held("cuModuleGetFunction", said)?;
        }
        Ok(Self { context, stream, start, end, module, add })
    }

    fn api(&self) -> &'static Api {
        self.context.api
    }

    /// The vendor's name for it.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn name(&self) -> Result<String> {
        let mut name = [0_u8; 128];
        // SAFETY: the driver writes at most the given number of bytes, including a final zero.
        let said = unsafe {
            let room = (name.len() - 1) as c_int;
            (self.api().cuDeviceGetName)(
                name.as_mut_ptr().cast::<c_char>(),
                room,
                self.context.device,
            )
        };
        self.api().held("cuDeviceGetName", said)?;
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        Ok(String::from_utf8_lossy(&name[..length]).into_owned())
    }

    /// Its globally unique id: other hosts' GPUs and other parts of this one (MIG) have other ids.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn id(&self) -> Result<String> {
        let mut id = [0_u8; 16];
        // SAFETY: the driver writes sixteen bytes.
        let said = unsafe { (self.api().cuDeviceGetUuid_v2)(&raw mut id, self.context.device) };
        self.api().held("cuDeviceGetUuid", said)?;
        Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// How much of its memory is free.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn free(&self) -> Result<Bytes> {
        self.enter()?;
        let (mut free, mut all) = (0, 0);
        // SAFETY: the pointers are to live integers.
        let said = unsafe { (self.api().cuMemGetInfo_v2)(&raw mut free, &raw mut all) };
        self.api().held("cuMemGetInfo", said)?;
        Ok(Bytes(free as u64))
    }

    /// Makes it the GPU on which this thread's calls work.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn enter(&self) -> Result<()> {
        self.context.enter()
    }

    /// The stream, as other libraries take it.
    pub(super) fn stream(&self) -> *mut c_void {
        self.stream
    }

    /// Enables direct copies to the memory of `other`. False if that is impossible: then copies go
    /// through the host.
    ///
    /// # Errors
    /// An error from the driver, except that it is impossible.
    pub fn reach(&self, other: &Self) -> Result<bool> {
        self.enter()?;
        // SAFETY: both contexts are retained.
        match unsafe { (self.api().cuCtxEnablePeerAccess)(other.context.handle, 0) } {
            api::SUCCESS | api::REACHED_ALREADY => Ok(true),
            api::OUT_OF_REACH => Ok(false),
            code => Err(self.api().said("cuCtxEnablePeerAccess", code)),
        }
    }

    /// Memory on it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        self.enter()?;
        let mut at = 0;
        // SAFETY: the memory is freed when the buffer is dropped, and never read before written.
        let said = unsafe { (self.api().cuMemAlloc_v2)(&raw mut at, bytes.max(16)) };
        self.api().held("cuMemAlloc", said).map_err(|e| e.help("give smaller --sizes"))?;
        Ok(Buffer { context: Rc::clone(&self.context), at, bytes, free: None })
    }

    /// Puts `bytes` into `buffer` at `at`, and waits until they are there.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn write(&self, buffer: &Buffer, at: usize, bytes: &[u8]) -> Result<()> {
        buffer.holds(at, bytes.len())?;
        self.enter()?;
        // SAFETY: the place is inside the buffer, and `bytes` are borrowed until the wait is over.
        let said = unsafe {
            let (to, from) = (buffer.at + at as u64, bytes.as_ptr().cast());
            (self.api().cuMemcpyHtoDAsync_v2)(to, from, bytes.len(), self.stream)
        };
        self.api().held("cuMemcpyHtoDAsync", said)?;
        self.wait()
    }

    /// Gets `bytes` from `buffer` at `at`.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn read(&self, buffer: &Buffer, at: usize, bytes: &mut [u8]) -> Result<()> {
        buffer.holds(at, bytes.len())?;
        self.enter()?;
        // SAFETY: as in `write`.
        let said = unsafe {
            let (to, from) = (bytes.as_mut_ptr().cast(), buffer.at + at as u64);
            (self.api().cuMemcpyDtoHAsync_v2)(to, from, bytes.len(), self.stream)
        };
        self.api().held("cuMemcpyDtoHAsync", said)?;
        self.wait()
    }

    /// Starts to copy the first `bytes` of `from`, which may be of another GPU, to `into`.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn copy(&self, into: &Buffer, from: &Buffer, bytes: usize) -> Result<()> {
        into.holds(0, bytes)?;
        from.holds(0, bytes)?;
        self.enter()?;
        let same = Rc::ptr_eq(&into.context, &from.context);
        // SAFETY: both places are inside their buffers, whose memory outlives the stream's work:
        // their owners wait for it before they drop them.
        let (said, call) = unsafe {
            let api = self.api();
            match same {
                true => (
                    (api.cuMemcpyDtoDAsync_v2)(into.at, from.at, bytes, self.stream),
                    "cuMemcpyDtoDAsync",
                ),
                false => {
                    let (to, of) = (into.context.handle, from.context.handle);
                    let said =
                        (api.cuMemcpyPeerAsync)(into.at, to, from.at, of, bytes, self.stream);
                    (said, "cuMemcpyPeerAsync")
                }
            }
        };
        self.api().held(call, said)
    }

    /// Fills `buffer` with repetitions of its first `period` bytes.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn repeat(&self, buffer: &Buffer, period: usize) -> Result<()> {
        buffer.holds(0, period)?;
        self.enter()?;
        let mut done = period;
        while done > 0 && done < buffer.bytes {
            let next = done.min(buffer.bytes - done);
            // SAFETY: both places are inside the buffer and do not overlap; the stream keeps order.
            let said = unsafe {
                let to = buffer.at + done as u64;
                (self.api().cuMemcpyDtoDAsync_v2)(to, buffer.at, next, self.stream)
            };
            self.api().held("cuMemcpyDtoDAsync", said)?;
            done += next;
        }
        self.wait()
    }

    /// Starts to add the first `floats` f32 of `from` to those of `into`.
    ///
    /// # Errors
    /// An error from the driver.
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
        let said = unsafe {
            (self.api().cuLaunchKernel)(
                self.add,
                blocks,
                1,
                1,
                BLOCK,
                1,
                1,
                0,
                self.stream,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.api().held("cuLaunchKernel", said)
    }

    /// Waits until everything that was started has ended.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn wait(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream lives as long as `self`.
        let said = unsafe { (self.api().cuStreamSynchronize)(self.stream) };
        self.api().held("cuStreamSynchronize", said)
    }

    /// Whether everything that was started has ended.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn is_through(&self) -> Result<bool> {
        self.enter()?;
        // SAFETY: the stream lives as long as `self`.
        match unsafe { (self.api().cuStreamQuery)(self.stream) } {
            api::NOT_READY => Ok(false),
            code => self.api().held("cuStreamQuery", code).map(|()| true),
        }
    }

    /// Records the time at which all work started before has ended.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn mark_start(&self) -> Result<()> {
        self.mark(self.start)
    }

    /// The same for the end of a measurement.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn mark_end(&self) -> Result<()> {
        self.mark(self.end)
    }

    fn mark(&self, event: api::Handle) -> Result<()> {
        self.enter()?;
        // SAFETY: event and stream live as long as `self`, and are of the same context.
        let said = unsafe { (self.api().cuEventRecord)(event, self.stream) };
        self.api().held("cuEventRecord", said)
    }

    /// The time between the two marks; all work must have ended.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn between(&self) -> Result<Seconds> {
        // SAFETY: both events were recorded in this stream.
        let mut milliseconds = 0_f32;
        let said =
            unsafe { (self.api().cuEventElapsedTime)(&raw mut milliseconds, self.start, self.end) };
        self.api().held("cuEventElapsedTime", said)?;
        Ok(Seconds(f64::from(milliseconds) * 1e-3))
    }

    /// The work that `starts` starts on this GPU, as a graph; nothing runs yet.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn graph(&self, starts: impl FnOnce(&Self) -> Result<()>) -> Result<Graph<'_>> {
        let mut graphs = Self::graphs(std::slice::from_ref(self), || starts(self))?;
        graphs.pop().ok_or_else(|| Error::environment("no graph was made"))
    }

    /// The work that `starts` starts on each of `gpus`, as one graph per GPU; nothing runs yet.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn graphs(gpus: &[Self], starts: impl FnOnce() -> Result<()>) -> Result<Vec<Graph<'_>>> {
        let mut begun = Ok(());
        let mut capturing = 0;
        for gpu in gpus {
            begun = gpu.enter().and_then(|()| {
                // SAFETY: the stream lives as long as `gpu`, and the capture ends below whatever
                // happens.
                let said = unsafe { (gpu.api().cuStreamBeginCapture_v2)(gpu.stream, THREAD_LOCAL) };
                gpu.api().held("cuStreamBeginCapture", said)
            });
            if begun.is_err() {
                break;
            }
            capturing += 1;
        }
        let started = begun.and_then(|()| starts());
        let mut ended = Vec::with_capacity(capturing);
        for gpu in &gpus[..capturing] {
            let mut graph = std::ptr::null_mut();
            // SAFETY: a capture was begun; the pointer is to a live handle.
            let said = unsafe {
                let _ = gpu.context.enter();
                (gpu.api().cuStreamEndCapture)(gpu.stream, &raw mut graph)
            };
            ended
                .push(gpu.api().held("cuStreamEndCapture", said).map(|()| Captured { gpu, graph }));
        }
        started?;
        ended.into_iter().map(|captured| captured?.ready()).collect()
    }
}

/// A captured graph that is not yet ready to run.
struct Captured<'a> {
    gpu: &'a Gpu,
    graph: api::Handle,
}

impl<'a> Captured<'a> {
    fn ready(self) -> Result<Graph<'a>> {
        let (gpu, mut run) = (self.gpu, std::ptr::null_mut());
        gpu.enter()?;
        // SAFETY: the graph is the driver's, and given back once, when `self` is dropped.
        let said = unsafe { (gpu.api().cuGraphInstantiateWithFlags)(&raw mut run, self.graph, 0) };
        gpu.api().held("cuGraphInstantiate", said)?;
        Ok(Graph { gpu, run })
    }
}

impl Drop for Captured<'_> {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: it was made once, by the end of a capture.
            let _ = unsafe { (self.gpu.api().cuGraphDestroy)(self.graph) };
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: each was made once, by `open`, and nothing uses it any more.
        unsafe {
            let _ = self.context.enter();
            let api = self.api();
            let _ = (api.cuStreamSynchronize)(self.stream);
            let _ = (api.cuEventDestroy_v2)(self.start);
            let _ = (api.cuEventDestroy_v2)(self.end);
            let _ = (api.cuModuleUnload)(self.module);
            let _ = (api.cuStreamDestroy_v2)(self.stream);
        }
    }
}

/// Work of a GPU, captured in advance.
pub struct Graph<'a> {
    gpu: &'a Gpu,
    run: api::Handle,
}

impl Graph<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// An error from the driver.
    pub fn start(&self) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: both live as long as `self`.
        let said = unsafe { (self.gpu.api().cuGraphLaunch)(self.run, self.gpu.stream) };
        self.gpu.api().held("cuGraphLaunch", said)
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made once, by `Gpu::graph`.
        let _ = unsafe { (self.gpu.api().cuGraphExecDestroy)(self.run) };
    }
}

/// Memory of a GPU.
pub struct Buffer {
    context: Rc<Context>,
    at: api::Address,
    bytes: usize,
    /// How it is freed, if the driver did not allocate it.
    free: Option<Box<dyn Fn(*mut c_void)>>,
}

impl Buffer {
    /// Memory of `gpu` that another library allocated, and frees.
    pub(super) fn given(
        gpu: &Gpu,
        (at, bytes): (*mut c_void, usize),
        free: Box<dyn Fn(*mut c_void)>,
    ) -> Self {
        Self { context: Rc::clone(&gpu.context), at: at as u64, bytes, free: Some(free) }
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn holds(&self, at: usize, bytes: usize) -> Result<()> {
        match at.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            true => Ok(()),
            false => Err(Error::input(format!(
                "{bytes} B at offset {at} exceed a buffer of {} B",
                self.bytes
            ))),
        }
    }

    /// Its address plus `offset` bytes, as other libraries take it.
    pub(super) fn address(&self, offset: usize) -> *mut c_void {
        (self.at + offset as u64) as *mut c_void
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.context.enter();
        if let Some(free) = &self.free {
            return free(self.address(0));
        }
        // SAFETY: it was allocated once, and all work on it has been waited for.
        let _ = unsafe { (self.context.api.cuMemFree_v2)(self.at) };
    }
}

/// Pinned memory of the host.
pub struct Pinned {
    at: *mut u8,
    bytes: usize,
    context: Rc<Context>,
}

impl Pinned {
    /// This many bytes of it, all zero.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        gpu.enter()?;
        // SAFETY: it is freed once, when it is dropped.
        let mut at: *mut c_void = std::ptr::null_mut();
        let said = unsafe { (gpu.api().cuMemHostAlloc)(&raw mut at, bytes.max(1), 0) };
        gpu.api().held("cuMemHostAlloc", said)?;
        let at = at.cast::<u8>();
        // SAFETY: the driver allocated this many bytes, which have no other user.
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
        let _ = unsafe { (self.context.api.cuMemFreeHost)(self.at.cast()) };
    }
}
