//! The name under which programs that are linked with the shared library look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // Without it a program remembers the path that its linker was given.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcollcost.so");
    }
}
