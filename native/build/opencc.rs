//! `OpenCC`'s conversion `t2s`, from the dictionaries of the package opencc.
//!
//! The package's own tool turns a dictionary (`.ocd2`) into text: lines of a key, a tab, and its values with spaces between
//! them. The first value of a key is what the conversion takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::interpreter;

/// Prints the tool, the folder, and the files of the dictionaries in the order of the stages; refuses what is not known here.
const SCRIPT: &str = r#"
import importlib.util, json, pathlib
[package] = importlib.util.find_spec("opencc").submodule_search_locations
folder = pathlib.Path(package, "clib", "share", "opencc")
config = json.loads((folder / "t2s.json").read_bytes())
assert config.keys() == {"name", "normalization", "conversion_chain"}, config
[first], [second] = config["normalization"], config["conversion_chain"]
assert second["dict"].keys() == {"type", "match_policy", "dicts"}, second
assert second["dict"]["match_policy"] == "short_circuit", second
print(pathlib.Path(package, "clib", "bin", "opencc_dict"))
print(folder)
for dictionary in (first["dict"], *second["dict"]["dicts"]):
    assert dictionary["type"] == "ocd2", dictionary
    print(dictionary["file"])
"#;

/// The ideographs that may have a simplified form.
const IDEOGRAPHS: [std::ops::RangeInclusive<u32>; 4] =
    [0x2e80..=0x2fdf, 0x3400..=0x9fff, 0xf900..=0xfaff, 0x2_0000..=0x3_1fff];
/// An ideograph that a rule beside `OpenCC` simplifies: see `src/text/simplify.rs`.
const PARTICLE: char = '著';

type Dictionary = BTreeMap<String, String>;

/// A conversion in two stages.
pub struct Conversion {
    /// Compatibility ideographs, which are replaced first, by what they are.
    unified: BTreeMap<char, char>,
    phrases: Dictionary,
    characters: BTreeMap<char, char>,
    hashes: Vec<String>,
}

impl Conversion {
    /// Reads the package of the interpreter that the crate is built for.
    pub fn read() -> Self {
        let said = interpreter::run(SCRIPT);
        let [tool, folder, names @ ..] = &said.lines().collect::<Vec<_>>()[..] else { panic!("printed: {said}") };
        let dictionaries: Vec<_> = names.iter().map(|name| read(tool, &Path::new(folder).join(name))).collect();
        let hashes = dictionaries.iter().map(|(hash, _)| hash.clone()).collect();
        let [(_, first), (_, phrases), others @ ..] = &dictionaries[..] else {
            panic!("dictionaries of t2s: {names:?}")
        };
        let mut characters = BTreeMap::new();
        for (key, value) in others.iter().flat_map(|(_, others)| others) {
            // The first dictionary that has a character says what it becomes.
            characters.entry(alone(key)).or_insert_with(|| alone(value));
        }
        assert!(phrases.keys().all(|phrase| phrase.chars().count() > 1), "a phrase has several characters");
        let unified = first.iter().map(|(key, value)| (alone(key), alone(value))).collect();
        Self { unified, phrases: phrases.clone(), characters, hashes }
    }

    /// The source of its tables, each in the order of the keys' bytes.
    pub fn source(&self) -> String {
        [
            table("UNIFIED", "(char, char)", &self.unified.iter().collect::<Vec<_>>()),
            table("CHARACTERS", "(char, char)", &self.characters.iter().collect::<Vec<_>>()),
            table("PHRASES", "(&str, &str)", &self.phrases.iter().collect::<Vec<_>>()),
            format!(
                "/// XXH3-64 of each dictionary, as the scheme names them.\npub static HASHES: [&str; {}] = {:?};\n",
                self.hashes.len(),
                self.hashes
            ),
        ]
        .concat()
    }

    /// Returns the characters that phrases begin with.
    pub fn firsts(&self) -> impl Iterator<Item = u32> {
        self.phrases.keys().filter_map(|phrase| phrase.chars().next()).map(u32::from)
    }

    /// Returns the ideographs that have a simplified form by themselves.
    pub fn simplifiable(&self) -> impl Iterator<Item = u32> {
        let points = IDEOGRAPHS.into_iter().flatten().filter_map(char::from_u32);
        points.filter(|character| self.simplified(*character) != *character).map(u32::from)
    }

    fn simplified(&self, character: char) -> char {
        let unified = *self.unified.get(&character).unwrap_or(&character);
        let simple = *self.characters.get(&unified).unwrap_or(&unified);
        if simple == PARTICLE { '着' } else { simple }
    }
}

/// The source of a table; what is no ASCII is escaped, because some of it is not normalised.
fn table<T: std::fmt::Debug>(name: &str, of: &str, rows: &[T]) -> String {
    let shown: String = format!("{rows:?}").chars().map(escaped).collect();
    format!("static {name}: [{of}; {}] = {shown};\n", rows.len())
}

fn escaped(character: char) -> String {
    if character.is_ascii() { character.to_string() } else { character.escape_unicode().to_string() }
}

/// The character of a text of one.
fn alone(text: &str) -> char {
    let mut characters = text.chars();
    let first = characters.next().expect("no key and no value is empty");
    assert_eq!(characters.next(), None, "{text} is one character");
    first
}

/// Returns the hash of a dictionary, and what it has.
fn read(tool: &str, path: &Path) -> (String, Dictionary) {
    println!("cargo:rerun-if-changed={}", path.display());
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let hash = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes));
    let made = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("dictionary.txt");
    let run = Command::new(tool).args(["-f", "ocd2", "-t", "text", "-i"]).arg(path).arg("-o").arg(&made).status();
    assert!(run.is_ok_and(|status| status.success()), "{tool} fails at {}", path.display());
    let lines = fs::read_to_string(&made).expect("the tool wrote text");
    let entry = |line: &str| {
        let (key, values) = line.split_once('\t').expect("a key and its values");
        (key.to_owned(), values.split(' ').next().unwrap_or(values).to_owned())
    };
    (hash, lines.lines().map(entry).collect())
}
