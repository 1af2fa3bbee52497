//! Whether the compiler knows AVX-512, which is stable since Rust 1.89: Debian's is older.

use std::{env, process::Command};

/// The first minor version of Rust 1 that has it.
const FIRST: u32 = 89;

fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rustc-check-cfg=cfg(avx512)");
    let said = Command::new(env::var_os("RUSTC").expect("set by cargo")).arg("--version").output();
    let said = String::from_utf8(said.expect("the compiler answers").stdout).expect("a version");
    // rustc 1.85.0 (…)
    let minor = said.split(' ').nth(1).and_then(|version| version.split('.').nth(1));
    if minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| minor >= FIRST) {
        println!("cargo:rustc-cfg=avx512");
    }
}
