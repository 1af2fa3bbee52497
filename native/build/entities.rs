//! HTML's named entities, from Python's standard library: the list of HTML 5, which is final.

use crate::interpreter;

const SCRIPT: &str = r#"
from html.entities import html5
for name, text in sorted(html5.items()):
    print(name, *(f"{ord(character):x}" for character in text))
"#;

/// The source of a table of names, in order of their bytes, and of what each stands for.
pub fn source() -> String {
    let entities: Vec<(String, String)> = interpreter::run(SCRIPT).lines().map(entity).collect();
    assert!(entities.is_sorted(), "names are in order");
    format!("static ENTITIES: [(&str, &str); {}] = {entities:?};\n", entities.len())
}

fn entity(line: &str) -> (String, String) {
    let mut parts = line.split(' ');
    let name = parts.next().expect("a name").to_owned();
    let point = |hex| u32::from_str_radix(hex, 16).ok().and_then(char::from_u32).expect("a character");
    (name, parts.map(point).collect())
}
