//! The functions of NVIDIA's driver in use, found by name in the library that the driver installs.
//!
//! `libcuda.so` is tried last: with a CUDA toolkit that name may be a stub, which has every
//! function and no GPU. A stub reports this when it is initialized; then the next file is tried.
//!
//! # Why this is sound
//!
//! The types of the functions are those of CUDA 12's `cuda.h`; the table lists each under the name
//! that has this type (`_v2` where there is one).
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

use crate::base::error::{Error, Result};
use crate::run::functions::functions;

pub(super) type Device = c_int;
pub(super) type Handle = *mut c_void;
pub(super) type Address = u64;
type Size = usize;

/// `CUDA_SUCCESS`, and codes that need special treatment.
pub(super) const SUCCESS: c_int = 0;
pub(super) const STUB: c_int = 34;
pub(super) const NOT_READY: c_int = 600;
pub(super) const REACHED_ALREADY: c_int = 704;
pub(super) const OUT_OF_REACH: c_int = 217;

/// Where drivers are installed. A folder of stubs may come first in the loader's path, so the
/// places where drivers are installed are also tried by their full names.
const FILES: &[&str] = &[
    "libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "libcuda.so",
];

/// The message if there is no driver.
pub const NO_DRIVER: &str = "no NVIDIA GPU driver found: there is no libcuda.so.1";

functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut Device, c_int);
    cuDeviceGetName(*mut c_char, c_int, Device);
    cuDeviceGetUuid_v2(*mut [u8; 16], Device);
    cuDeviceCanAccessPeer(*mut c_int, Device, Device);
    cuDevicePrimaryCtxRetain(*mut Handle, Device);
    cuDevicePrimaryCtxRelease_v2(Device);
    cuCtxSetCurrent(Handle);
    cuCtxEnablePeerAccess(Handle, c_uint);
    cuGetErrorName(c_int, *mut *const c_char);
    cuStreamCreate(*mut Handle, c_uint);
    cuStreamQuery(Handle);
    cuStreamSynchronize(Handle);
    cuStreamDestroy_v2(Handle);
    cuStreamBeginCapture_v2(Handle, c_int);
    cuStreamEndCapture(Handle, *mut Handle);
    cuMemGetInfo_v2(*mut Size, *mut Size);
    cuMemAlloc_v2(*mut Address, Size);
    cuMemFree_v2(Address);
    cuMemHostAlloc(*mut *mut c_void, Size, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemcpyHtoDAsync_v2(Address, *const c_void, Size, Handle);
    cuMemcpyDtoHAsync_v2(*mut c_void, Address, Size, Handle);
    cuMemcpyDtoDAsync_v2(Address, Address, Size, Handle);
    cuMemcpyPeerAsync(Address, Handle, Address, Handle, Size, Handle);
    cuModuleLoadData(*mut Handle, *const c_void);
    cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    cuModuleUnload(Handle);
    cuLaunchKernel(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle,
        *mut *mut c_void, *mut *mut c_void
    );
    cuEventCreate(*mut Handle, c_uint);
    cuEventRecord(Handle, Handle);
    cuEventElapsedTime(*mut f32, Handle, Handle);
    cuEventDestroy_v2(Handle);
    cuGraphInstantiateWithFlags(*mut Handle, Handle, c_ulonglong);
    cuGraphLaunch(Handle, Handle);
    cuGraphExecDestroy(Handle);
    cuGraphDestroy(Handle);
}

impl Api {
    /// The functions of the first file that is a driver and starts.
    ///
    /// # Errors
    /// No file, a file that lacks a function, only stubs, a driver that does not initialize.
    pub(super) fn load() -> Result<&'static Self> {
        let mut refused = None;
        for file in FILES {
            // SAFETY: loading the driver runs its start-up code, as any CUDA program does.
            let Ok(library) = (unsafe { Library::new(*file) }) else { continue };
            // SAFETY: the file has a driver's name; it stays loaded where it is kept below.
            let api = match unsafe { Self::of(&library) } {
                Ok(api) => api,
                Err(name) => {
                    refused.get_or_insert_with(|| {
                        Error::environment(format!("the driver has no {name}: it is too old"))
                            .at((*file).to_owned())
                            .help("CUDA 12 (driver 525) or later is needed")
                    });
                    continue;
                }
            };
            // SAFETY: zero is the only valid value of the flags.
            match unsafe { (api.cuInit)(0) } {
                SUCCESS => {
                    // The process ends with it.
                    std::mem::forget(library);
                    return Ok(Box::leak(Box::new(api)));
                }
                // NCCL looks for the same name: a file that is not a driver is closed again.
                STUB => {
                    refused.get_or_insert_with(|| {
                        Error::environment("the first libcuda.so.1 found is a stub, not a driver")
                            .at((*file).to_owned())
                            .help("remove the toolkit's folder `stubs` from LD_LIBRARY_PATH")
                    });
                }
                code => {
                    let help = "check whether `nvidia-smi` lists the GPUs";
                    return Err(api.said("cuInit", code).help(help));
                }
            }
        }
        Err(refused.unwrap_or_else(|| {
            Error::environment(NO_DRIVER)
                .help("install the driver, or measure with --transport shm or tcp")
        }))
    }

    /// The driver's error for a call.
    pub(super) fn said(&self, call: &str, code: c_int) -> Error {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the pointer is to a live one; the driver stores a constant text there.
        let name = unsafe {
            match (self.cuGetErrorName)(code, &raw mut name) {
                SUCCESS if !name.is_null() => {
                    std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned()
                }
                _ => format!("error {code}"),
            }
        };
        Error::environment(format!("the GPU driver returned {name}")).at(call.to_owned())
    }

    /// An error if a call did not succeed.
    pub(super) fn held(&self, call: &str, code: c_int) -> Result<()> {
        if code == SUCCESS { Ok(()) } else { Err(self.said(call, code)) }
    }
}
