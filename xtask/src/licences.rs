//! May every dependency be shipped with ours?
//!
//! Reads what each package declares, offline. Known vulnerabilities are not checked: the advisory
//! database is a download of its own (`cargo audit` fetches it).

use crate::Check;
use crate::layers::{array, metadata};

/// Licences that ask for no more than their text to be kept.
const ACCEPTED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub fn check() -> Check {
    let metadata = metadata(&[])?;
    let refused: Vec<String> = array(&metadata["packages"])
        .filter_map(|package| {
            let licence = package["license"].as_str().unwrap_or("none declared");
            let name = package["name"].as_str().unwrap_or_default();
            (!accepted(licence)).then(|| format!("{name}: {licence}"))
        })
        .collect();
    if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
}

/// Whether an SPDX expression can be satisfied with accepted licences: `OR` needs one side, `AND`
/// both. `/` is the old way to write `OR`.
fn accepted(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = either(&words, &mut at);
    value && at == words.len()
}

fn either(words: &[&str], at: &mut usize) -> bool {
    let mut value = both(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        value |= both(words, at);
    }
    value
}

fn both(words: &[&str], at: &mut usize) -> bool {
    let mut value = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(words, at);
    }
    value
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let value = either(words, at);
        *at += 1;
        return value;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return ACCEPTED.contains(&format!("{word} WITH {exception}").as_str());
    }
    ACCEPTED.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_clean() {
        check().unwrap();
    }

    #[test]
    fn expressions() {
        assert!(accepted("MIT"));
        assert!(accepted("MIT/Apache-2.0"));
        assert!(accepted("GPL-3.0 OR MIT"));
        assert!(accepted("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        assert!(accepted("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!accepted("(MIT OR Apache-2.0) AND GPL-3.0"));
        assert!(!accepted("GPL-3.0"));
        assert!(!accepted("none declared"));
        assert!(!accepted(""));
    }
}
