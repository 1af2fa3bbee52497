//! Makes what the crate embeds: tables of Unicode, of letters that are folded, of `OpenCC` and of jieba's package.
//!
//! It also tells whether the compiler knows AVX-512, which is stable since Rust 1.89: Debian's is older.

mod characters;
mod folding;
mod interpreter;
mod jieba;
mod opencc;
#[path = "../src/text/ranges.rs"]
mod ranges;
mod traits;
mod trie;

use std::path::PathBuf;
use std::{env, fs, process::Command};

/// The first minor version of Rust 1 in which AVX-512 is stable.
const FIRST: u32 = 89;

fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=src/text/ranges.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let keep = |name: &str, content: &[u8]| fs::write(out.join(name), content).expect("OUT_DIR can be written");

    let conversion = opencc::Conversion::read();
    keep("opencc.rs", conversion.source().as_bytes());
    let folding = folding::Folding::read();
    keep("folding.rs", folding.source().as_bytes());
    keep("traits.bin", &traits::of_units(&conversion, &folding));

    keep("characters.rs", characters::source().as_bytes());
    let package = jieba::Package::read();
    let dictionary = jieba::Dictionary::of(&package);
    let trie = trie::Trie::of(&dictionary);
    keep("nodes.bin", &trie.node_bytes());
    keep("logs.bin", &trie.log_bytes());
    keep("idf.bin", &trie.idf_bytes());
    keep("codes.bin", &dictionary.code_bytes());
    keep("emissions.bin", &jieba::emission_bytes(&package, &dictionary));
    keep("jieba.rs", (jieba::constants(&package, &dictionary) + &trie::Trie::constants()).as_bytes());

    println!("cargo:rustc-check-cfg=cfg(avx512)");
    let said = Command::new(env::var_os("RUSTC").expect("set by cargo")).arg("--version").output();
    let said = String::from_utf8(said.expect("the compiler answers").stdout).expect("a version");
    // rustc 1.85.0 (…)
    let minor = said.split(' ').nth(1).and_then(|version| version.split('.').nth(1));
    if minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| minor >= FIRST) {
        println!("cargo:rustc-cfg=avx512");
    }
}
