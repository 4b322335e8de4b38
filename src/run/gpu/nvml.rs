//! NVML, loaded where it exists: the clock rates of GPUs, and what throttles them.
//!
//! # Why this is sound
//!
//! * The types of the functions are those of NVML's `nvml.h`, which has kept them since CUDA 8.
//! * NVML stays loaded and started as long as the process lives.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

/// The name that drivers install.
const NAME: &str = "libnvidia-ml.so.1";
/// `NVML_CLOCK_SM`.
const MULTIPROCESSORS: c_uint = 1;

type Device = *mut c_void;

/// NVML.
pub(super) struct Nvml {
    by_uuid: unsafe extern "C" fn(*const c_char, *mut Device) -> c_int,
    clock: unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int,
    reasons: unsafe extern "C" fn(Device, *mut c_ulonglong) -> c_int,
    /// The GPU that a MIG part belongs to; older versions do not support parts.
    whole: Option<unsafe extern "C" fn(Device, *mut Device) -> c_int>,
}

impl Nvml {
    /// `None` if there is no NVML, or one that does not match this driver.
    pub(super) fn load() -> Option<Self> {
        // SAFETY: loading NVML runs its start-up code, as any program that links it does.
        let library = unsafe { Library::new(NAME) }.ok()?;
        // It stays loaded until the process ends.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of nvml.h.
        let (init, found) = unsafe {
            let init = library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2").ok()?;
            let found = Self {
                by_uuid: *library.get(b"nvmlDeviceGetHandleByUUID").ok()?,
                clock: *library.get(b"nvmlDeviceGetClockInfo").ok()?,
                reasons: *library.get(b"nvmlDeviceGetCurrentClocksThrottleReasons").ok()?,
                whole: library
                    .get(b"nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
                    .ok()
                    .map(|found| *found),
            };
            (init, found)
        };
        // SAFETY: it has no parameters.
        let said = unsafe { init() };
        (said == 0).then_some(found)
    }

    /// The clock of a GPU's multiprocessors in MHz, and its throttle reasons as bits; `None` for a
    /// GPU that NVML does not know or cannot query. A part of a GPU runs at the clock of the whole.
    pub(super) fn pace(&self, uuid: &str) -> Option<(u32, u64)> {
        let (mut clock, mut reasons) = (0, 0);
        let whole = self.find(&format!("GPU-{uuid}"));
        let device = whole.or_else(|| {
            let (part, mut whole) = (self.find(&format!("MIG-{uuid}"))?, std::ptr::null_mut());
            // SAFETY: the handle is NVML's; the pointer is to a live value.
            let said = unsafe { (self.whole?)(part, &raw mut whole) };
            (said == 0).then_some(whole)
        })?;
        // SAFETY: the pointers are to live values; the handle is NVML's.
        let said = unsafe {
            [
                (self.clock)(device, MULTIPROCESSORS, &raw mut clock),
                (self.reasons)(device, &raw mut reasons),
            ]
        };
        (said == [0, 0]).then_some((clock, reasons))
    }

    fn find(&self, name: &str) -> Option<Device> {
        let (name, mut device) = (CString::new(name).ok()?, std::ptr::null_mut());
        // SAFETY: the text ends with a zero; the pointer is to a live value.
        let said = unsafe { (self.by_uuid)(name.as_ptr(), &raw mut device) };
        (said == 0).then_some(device)
    }
}
