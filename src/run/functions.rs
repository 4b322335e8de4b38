//! Functions of a C library that is loaded on demand.

/// A struct `Api` of functions that return a code, each found under its own name.
macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        /// The functions.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,)*
        }

        impl Api {
            /// All of them, or the name of a missing one.
            ///
            /// SAFETY of its callers: the library's functions have these types, and it stays loaded.
            unsafe fn of(library: &libloading::Library) -> std::result::Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: guaranteed by the caller.
                    $($name: *unsafe { library.get(stringify!($name).as_bytes()) }
                        .map_err(|_| stringify!($name))?,)*
                })
            }
        }
    };
}

pub(in crate::run) use functions;
