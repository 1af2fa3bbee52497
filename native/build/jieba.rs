//! Reads the dictionary, the model and the IDF of jieba's package.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::interpreter;
use crate::ranges::{HAN, HAN_COUNT};

/// jieba's logarithm of the probability of what the model does not know.
const NEVER: f64 = -3.14e100;
const STATES: [&str; 4] = ["B", "E", "M", "S"];
/// Units of IDF in 1.
const IDF_UNIT: f64 = 1024.0;

/// The files whose content the tables are made of.
const FILES: [&str; 5] =
    ["dict.txt", "finalseg/prob_start.py", "finalseg/prob_trans.py", "finalseg/prob_emit.py", "analyse/idf.txt"];

/// The package's files, as text.
pub struct Package(HashMap<&'static str, String>);

impl Package {
    /// Reads the package of this build's interpreter, which is not imported: that takes longer than all else here.
    pub fn read() -> Self {
        let script = "import importlib.util as u; print(u.find_spec('jieba').submodule_search_locations[0])";
        let said = interpreter::run(script);
        let folder = Path::new(said.trim_end());
        let content = |name: &'static str| {
            let path: &Path = &folder.join(name);
            println!("cargo:rerun-if-changed={}", path.display());
            let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (name, text)
        };
        Self(FILES.map(content).into())
    }

    fn text(&self, name: &str) -> &str {
        &self.0[name]
    }

    /// Each file with its hash.
    fn hashes(&self) -> [(&str, u64); FILES.len()] {
        FILES.map(|name| (name, xxh3_64(self.text(name).as_bytes())))
    }
}

pub struct Dictionary {
    /// The words of ideographs with their frequencies, in order; a later line has precedence.
    pub words: Vec<(Vec<u16>, u64)>,
    /// Sum of the frequencies of all words, of other characters too.
    pub total: u64,
    /// IDF of words of ideographs; the table has no others.
    pub idf: Vec<(Vec<u16>, u16)>,
    least_idf: u16,
    median_idf: u16,
    /// The code of each ideograph, from 1: the more frequent it is, the lower.
    codes: Vec<u16>,
}

impl Dictionary {
    pub fn of(package: &Package) -> Self {
        let (mut words, mut others, mut sum) = (Vec::new(), HashMap::new(), 0);
        for line in package.text("dict.txt").lines() {
            let mut parts = line.split(' ');
            let word = parts.next().expect("a word");
            let frequency: u64 = parts.next().and_then(|digits| digits.parse().ok()).expect("a frequency");
            if let Some(ideographs) = ideographs(word) {
                words.push((ideographs, frequency));
                sum += frequency;
            } else {
                others.insert(word, frequency);
            }
        }
        let total = sum + others.values().sum::<u64>();
        let codes = codes_by_frequency(&words);
        let by_code = |word: Vec<u16>| word.into_iter().map(|at| codes[usize::from(at)]).collect::<Vec<u16>>();
        let mut idf = HashMap::new();
        for line in package.text("analyse/idf.txt").lines() {
            let (word, number) = line.split_once(' ').expect("a word and its IDF");
            let value = (number.trim().parse::<f64>().expect("a number") * IDF_UNIT + 0.5).floor() as u16;
            idf.insert(by_code(ideographs(word).expect("a word of ideographs")), value);
        }
        let mut sorted: Vec<u16> = idf.values().copied().collect();
        sorted.sort_unstable();
        let words = words.into_iter().map(|(word, frequency)| (by_code(word), frequency)).collect();
        let mut idf: Vec<_> = idf.into_iter().collect();
        idf.sort_unstable();
        Self { words, total, idf, least_idf: sorted[0], median_idf: sorted[sorted.len() / 2], codes }
    }

    pub fn code_bytes(&self) -> Vec<u8> {
        self.codes.iter().flat_map(|code| code.to_le_bytes()).collect()
    }
}

/// The numbers of the ideographs of a word; none if it has other characters.
fn ideographs(word: &str) -> Option<Vec<u16>> {
    word.chars()
        .map(|character| {
            let point = u32::from(character);
            HAN.contains(&point).then(|| (point - HAN.start()) as u16)
        })
        .collect()
}

fn codes_by_frequency(words: &[(Vec<u16>, u64)]) -> Vec<u16> {
    let mut times = vec![0_u64; HAN_COUNT];
    for (word, frequency) in words {
        for &at in word {
            times[usize::from(at)] += frequency;
        }
    }
    let mut order: Vec<usize> = (0..HAN_COUNT).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(times[at]));
    let mut codes = vec![0; HAN_COUNT];
    for (code, at) in (1..).zip(order) {
        codes[at] = code;
    }
    codes
}

/// The logarithms of the probabilities of each ideograph in each state, by code.
pub fn emission_bytes(package: &Package, dictionary: &Dictionary) -> Vec<u8> {
    let mut emissions = vec![[NEVER; 4]; HAN_COUNT + 1];
    let mut state = 0;
    for (key, value) in numbers(package.text("finalseg/prob_emit.py")) {
        match key {
            Key::State(next) => state = next,
            Key::Character(character) => {
                if let Some(number) = ideographs(&character.to_string()).filter(|_| value.is_some()) {
                    let code = usize::from(dictionary.codes[usize::from(number[0])]);
                    // Six decimal places, as rjieba has: log entries were made with these first. The rest decides only
                    // between ways that are equally probable but for the last bit of a sum.
                    emissions[code][state] = format!("{:.6}", value.expect("checked")).parse().expect("a number");
                }
            }
        }
    }
    emissions.iter().flatten().flat_map(|value| value.to_le_bytes()).collect()
}

/// The constants of dictionary and model, as source.
pub fn constants(package: &Package, dictionary: &Dictionary) -> String {
    let (mut begins, mut steps, mut from) = ([NEVER; 4], [[NEVER; 4]; 4], 0);
    for (key, value) in numbers(package.text("finalseg/prob_start.py")) {
        if let (Key::State(state), Some(value)) = (key, value) {
            begins[state] = value;
        }
    }
    for (key, value) in numbers(package.text("finalseg/prob_trans.py")) {
        match (key, value) {
            (Key::State(to), Some(value)) => steps[from][to] = value,
            (Key::State(state), None) => from = state,
            (Key::Character(_), _) => unreachable!("states only"),
        }
    }
    let mut source = String::new();
    let Dictionary { total, least_idf, median_idf, .. } = dictionary;
    let mut write = |name: &str, value: &dyn std::fmt::Debug| {
        writeln!(source, "pub const {name} = {value:?};").expect("a string takes all");
    };
    write("TOTAL: u64", total);
    write("LEAST_IDF: u32", least_idf);
    write("MEDIAN_IDF: u32", median_idf);
    write("BEGINS: [f64; 4]", &begins);
    write("STEPS: [[f64; 4]; 4]", &steps);
    let hashes = package.hashes();
    let count = hashes.len();
    write(&format!("HASHES: [(&str, u64); {count}]"), &hashes);
    source
}

enum Key {
    State(usize),
    Character(char),
}

/// The keys of a literal of Python's dictionaries with their numbers; without one where a dictionary follows.
fn numbers(source: &str) -> Vec<(Key, Option<f64>)> {
    let mut found = Vec::new();
    let mut parts = source.split('\'').skip(1);
    while let (Some(key), Some(rest)) = (parts.next(), parts.next()) {
        let value =
            rest.trim_start_matches([':', ' ']).split([',', '}', '\n']).next().and_then(|one| one.trim().parse().ok());
        let key = match STATES.iter().position(|state| *state == key) {
            Some(state) => Key::State(state),
            None => Key::Character(unescaped(key)),
        };
        found.push((key, value));
    }
    found
}

fn unescaped(key: &str) -> char {
    match key.strip_prefix("\\u") {
        Some(digits) => u32::from_str_radix(digits, 16).ok().and_then(char::from_u32).expect("an escape"),
        None => key.chars().next().expect("a character"),
    }
}
