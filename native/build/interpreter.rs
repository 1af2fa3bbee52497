//! The Python that the crate is built for: its packages and its standard library have data that the crate embeds.

use std::{env, process::Command};

/// Runs a script with the interpreter that maturin, or whoever builds, names; returns what it prints.
pub fn run(script: &str) -> String {
    println!("cargo:rerun-if-env-changed=PYO3_PYTHON");
    let named = env::var_os("PYO3_PYTHON").unwrap_or_else(|| "python3".into());
    let shown = named.to_string_lossy();
    // Not from the folder that the build runs in; from where pip has what the build requires.
    let made = Command::new(&named).args(["-P", "-c", script]).output();
    let made = made.unwrap_or_else(|error| panic!("{shown} does not run: {error}; name one in PYO3_PYTHON"));
    let (said, complaint) = (String::from_utf8(made.stdout), String::from_utf8_lossy(&made.stderr));
    assert!(made.status.success(), "{shown} fails, which needs the packages of build-system.requires:\n{complaint}");
    said.expect("printed in UTF-8")
}
