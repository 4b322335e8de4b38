//! NVML, loaded where it is there: at which clocks GPUs run, and what holds them back.
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
}

impl Nvml {
    /// None where there is none, or one that is not of this driver.
    pub(super) fn load() -> Option<Self> {
        // SAFETY: loading NVML runs its start-up code, as any program that links it does.
        let library = unsafe { Library::new(NAME) }.ok()?;
        // The process ends with it.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of nvml.h.
        let (init, found) = unsafe {
            let init = library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2").ok()?;
            let found = Self {
                by_uuid: *library.get(b"nvmlDeviceGetHandleByUUID").ok()?,
                clock: *library.get(b"nvmlDeviceGetClockInfo").ok()?,
                reasons: *library.get(b"nvmlDeviceGetCurrentClocksThrottleReasons").ok()?,
            };
            (init, found)
        };
        // SAFETY: it has no parameters.
        let said = unsafe { init() };
        (said == 0).then_some(found)
    }

    /// The clock of a GPU's multiprocessors in MHz, and by bits what holds it back; none of a GPU that
    /// it does not know or cannot ask.
    pub(super) fn pace(&self, uuid: &str) -> Option<(u32, u64)> {
        let uuid = CString::new(uuid).ok()?;
        let (mut device, mut clock, mut reasons) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the text ends with a zero; the pointers are to live values; the handle is NVML's.
        let said = unsafe {
            let found = (self.by_uuid)(uuid.as_ptr(), &raw mut device);
            if found != 0 {
                return None;
            }
            [
                (self.clock)(device, MULTIPROCESSORS, &raw mut clock),
                (self.reasons)(device, &raw mut reasons),
            ]
        };
        (said == [0, 0]).then_some((clock, reasons))
    }
}
