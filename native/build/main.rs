//! What is made when the crate is built: tables of characters and of jieba's package, and whether the compiler knows AVX-512.

mod characters;
mod jieba;
mod trie;

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// The first minor version of Rust 1 that has AVX-512; Debian's is older.
const AVX512: u32 = 89;

fn main() {
    println!("cargo:rerun-if-changed=build");
    name_avx512();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let keep = |name: &str, bytes: &[u8]| fs::write(out.join(name), bytes).expect("OUT_DIR can be written");
    keep("characters.rs", characters::source().as_bytes());
    let package = jieba::Package::read();
    let dictionary = jieba::Dictionary::of(&package);
    let trie = trie::Trie::of(&dictionary);
    keep("nodes.bin", &trie.node_bytes());
    keep("idf.bin", &trie.idf_bytes());
    keep("codes.bin", &dictionary.code_bytes());
    keep("emissions.bin", &jieba::emission_bytes(&package, &dictionary));
    keep("jieba.rs", jieba::constants(&package, &dictionary).as_bytes());
}

fn name_avx512() {
    println!("cargo:rustc-check-cfg=cfg(avx512)");
    let said = Command::new(env::var_os("RUSTC").expect("set by cargo")).arg("--version").output();
    let said = String::from_utf8(said.expect("the compiler answers").stdout).expect("a version");
    // rustc 1.85.0 (…)
    let minor = said.split(' ').nth(1).and_then(|version| version.split('.').nth(1));
    if minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| minor >= AVX512) {
        println!("cargo:rustc-cfg=avx512");
    }
}
