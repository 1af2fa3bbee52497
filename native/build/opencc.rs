//! `OpenCC`'s conversion `t2s`, from the dictionaries of the package opencc.
//!
//! A file (`.ocd2`) is a trie of keys (marisa), and behind it the values of each, in the order of the trie's numbers:
//!
//!     "OPENCC_MARISA_0.2.5"  trie  keys: u32  bytes: u32  values, each with a zero byte behind it
//!     and for each key: values: u16, and for each of these its bytes: u16, the zero byte with them
//!
//! The first value of a key is what the conversion takes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::interpreter;
use crate::marisa;

const MAGIC: &[u8] = b"OPENCC_MARISA_0.2.5";

/// Prints the folder, and the files of the dictionaries in the order of the stages; refuses what is not known here.
const SCRIPT: &str = r#"
import importlib.util, json, pathlib
[package] = importlib.util.find_spec("opencc").submodule_search_locations
folder = pathlib.Path(package, "clib", "share", "opencc")
config = json.loads((folder / "t2s.json").read_bytes())
assert config.keys() == {"name", "normalization", "conversion_chain"}, config
[first], [second] = config["normalization"], config["conversion_chain"]
assert second["dict"].keys() == {"type", "match_policy", "dicts"}, second
assert second["dict"]["match_policy"] == "short_circuit", second
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
        let (folder, names) = said.split_once('\n').expect("a folder and names");
        let names: Vec<&str> = names.lines().collect();
        let dictionaries: Vec<_> = names.iter().map(|name| read(&Path::new(folder).join(name))).collect();
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
fn read(path: &Path) -> (String, Dictionary) {
    println!("cargo:rerun-if-changed={}", path.display());
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let hash = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes));
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_else(|| panic!("{} has another format", path.display()));
    let keys = marisa::keys(&mut rest);
    assert_eq!(number(&mut rest, 4), keys.len(), "{} has values of all keys", path.display());
    let size = number(&mut rest, 4);
    let (mut values, mut lengths) = rest.split_at(size);
    let mut dictionary = Dictionary::new();
    for key in keys {
        let of_key: Vec<&[u8]> = (0..number(&mut lengths, 2))
            .map(|_| {
                let (value, behind) = values.split_at(number(&mut lengths, 2));
                values = behind;
                value.strip_suffix(b"\0").expect("a zero byte")
            })
            .collect();
        let first = std::str::from_utf8(of_key.first().expect("a value")).expect("a value is UTF-8");
        dictionary.insert(String::from_utf8(key).expect("a key is UTF-8"), first.to_owned());
    }
    assert!(values.is_empty() && lengths.is_empty(), "{} ends behind its values", path.display());
    (hash, dictionary)
}

/// Takes a little-endian number off the bytes.
pub fn number(bytes: &mut &[u8], size: usize) -> usize {
    let (own, behind) = bytes.split_at(size);
    *bytes = behind;
    own.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}
