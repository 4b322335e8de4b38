//! The functions of an MPI library, found by name in the library that `mpirun` started with.
//!
//! # Why this is sound
//!
//! The types of the functions are those of MPI 3.1. Handles are pointers in Open MPI and `int` in
//! MPICH: both fit into a machine word, of which MPICH's functions read the lower half, and into whose
//! lower half they write (little-endian machines; others are refused).
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{c_char, c_int, c_void};

use libloading::Library as File;
use libloading::os::unix;

use crate::base::error::{Error, Result};
use crate::model::algorithm::Library;
use crate::run::functions::functions;

/// A communicator, a type or an operation.
pub(super) type Handle = usize;
type Data = *mut c_void;
type Number = *mut c_int;

functions! {
    MPI_Init(Number, *mut c_void);
    MPI_Finalize();
    MPI_Get_library_version(*mut c_char, Number);
    MPI_Get_processor_name(*mut c_char, Number);
    MPI_Comm_rank(Handle, Number);
    MPI_Comm_size(Handle, Number);
    MPI_Comm_dup(Handle, *mut Handle);
    MPI_Barrier(Handle);
    MPI_Bcast(Data, c_int, Handle, c_int, Handle);
    MPI_Reduce(Data, Data, c_int, Handle, Handle, c_int, Handle);
    MPI_Allreduce(Data, Data, c_int, Handle, Handle, Handle);
    MPI_Reduce_scatter(Data, Data, *const c_int, Handle, Handle, Handle);
    MPI_Reduce_scatter_block(Data, Data, c_int, Handle, Handle, Handle);
    MPI_Allgather(Data, c_int, Handle, Data, c_int, Handle, Handle);
    MPI_Alltoall(Data, c_int, Handle, Data, c_int, Handle, Handle);
    MPI_Gather(Data, c_int, Handle, Data, c_int, Handle, c_int, Handle);
    MPI_Scatter(Data, c_int, Handle, Data, c_int, Handle, c_int, Handle);
    MPI_T_init_thread(c_int, Number);
    MPI_T_cvar_get_index(*const c_char, Number);
    MPI_T_cvar_get_info(c_int, *mut c_char, Number, Number, *mut Handle, *mut Handle, *mut c_char, Number, Number, Number);
    MPI_T_cvar_handle_alloc(c_int, *mut c_void, *mut Handle, Number);
    MPI_T_cvar_handle_free(*mut Handle);
    MPI_T_cvar_write(Handle, *const c_void);
}

/// What a library's header defines.
pub(super) struct Defined {
    pub(super) world: Handle,
    pub(super) byte: Handle,
    pub(super) float: Handle,
    pub(super) double: Handle,
    pub(super) int: Handle,
    pub(super) sum: Handle,
    pub(super) max: Handle,
}

/// `MPICH`'s `mpi.h`, the same from 3.0 to 5.0.
const MPICH: Defined = Defined {
    world: 0x4400_0000,
    byte: 0x4c00_010d,
    float: 0x4c00_040a,
    double: 0x4c00_080b,
    int: 0x4c00_0405,
    sum: 0x5800_0003,
    max: 0x5800_0001,
};

impl Defined {
    /// Open MPI's objects: `mpi.h` defines each handle as the address of one.
    fn of_open_mpi(file: &File) -> std::result::Result<Self, &'static str> {
        let address = |name: &'static str| {
            // SAFETY: only the address of the object is used.
            let found = unsafe { file.get::<*const c_void>(name.as_bytes()) }.map_err(|_| name)?;
            // SAFETY: the symbol is not called or read.
            let symbol = unsafe { found.into_raw() };
            Ok(symbol.as_raw_ptr() as Handle)
        };
        Ok(Self {
            world: address("ompi_mpi_comm_world")?,
            byte: address("ompi_mpi_byte")?,
            float: address("ompi_mpi_float")?,
            double: address("ompi_mpi_double")?,
            int: address("ompi_mpi_int")?,
            sum: address("ompi_mpi_op_sum")?,
            max: address("ompi_mpi_op_max")?,
        })
    }
}

/// The names under which packages install a library.
fn names(library: Library) -> &'static [&'static str] {
    match library {
        Library::OpenMpi => &["libmpi.so.40", "libmpi.so"],
        _ => &["libmpich.so.12", "libmpi.so.12", "libmpich.so"],
    }
}

/// Loads a library; it stays loaded until the process ends.
///
/// # Errors
/// It is not installed, or another library has its name.
pub(super) fn load(library: Library) -> Result<(&'static Api, Defined)> {
    if cfg!(target_endian = "big") {
        return Err(Error::unsupported("MPI libraries are run on little-endian machines only"));
    }
    let mut refused = None;
    for name in names(library) {
        // SAFETY: loading an MPI library runs its start-up code, as any program that links it does.
        // Its plugins look for its functions among those that all may see.
        let opened =
            unsafe { unix::Library::open(Some(*name), unix::RTLD_NOW | unix::RTLD_GLOBAL) };
        let file = match opened {
            Ok(file) => File::from(file),
            Err(error) => {
                refused.get_or_insert_with(|| error.to_string());
                continue;
            }
        };
        // SAFETY: the types are those of MPI 3.1; the file is never closed.
        let found = unsafe { Api::of(&file) }.and_then(|api| {
            let defined = match library {
                Library::OpenMpi => Defined::of_open_mpi(&file)?,
                _ => MPICH,
            };
            Ok((api, defined))
        });
        std::mem::forget(file);
        match found {
            Ok((api, defined)) => return Ok((Box::leak(Box::new(api)), defined)),
            Err(missing) => refused = Some(format!("{name} has no {missing}")),
        }
    }
    let why = refused.unwrap_or_default();
    Err(Error::environment(format!("{library} cannot be loaded: {why}"))
        .help("install it, or name its folder in LD_LIBRARY_PATH"))
}
