//! May every dependency be shipped with ours?
//!
//! Reads the licence that each package declares, offline. Known vulnerabilities are not checked, since the
//! advisory database is a separate download (`cargo audit` fetches it).

use crate::Check;
use crate::layers::{array, metadata};
use spdx::{Expression, Licensee, ParseMode};

/// The licences that only require that their text is kept.
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
    let rejected: Vec<String> = array(&metadata["packages"])
        .filter_map(|package| {
            let licence = package["license"].as_str().unwrap_or("none declared");
            let name = package["name"].as_str().unwrap_or_default();
            (!accepted(licence)).then(|| format!("{name}: {licence}"))
        })
        .collect();
    if rejected.is_empty() { Ok(()) } else { Err(rejected.join("; ")) }
}

/// Returns whether an SPDX expression can be satisfied with accepted licences. `/` is an old way to write `OR`.
fn accepted(expression: &str) -> bool {
    let accepted: Vec<Licensee> =
        ACCEPTED.iter().filter_map(|name| Licensee::parse(name).ok()).collect();
    Expression::parse_mode(expression, ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|wanted| accepted.iter().any(|licence| licence.satisfies(wanted)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_of_the_workspace_are_accepted() {
        check().unwrap();
    }

    #[test]
    fn accepted_licences_are_valid_names() {
        assert!(ACCEPTED.iter().all(|name| Licensee::parse(name).is_ok()));
    }

    #[test]
    fn expressions_need_an_accepted_choice() {
        assert!(accepted("MIT"));
        assert!(accepted("MIT/Apache-2.0"));
        assert!(accepted("GPL-3.0 OR MIT"));
        assert!(accepted("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        assert!(accepted("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!accepted("(MIT OR Apache-2.0) AND GPL-3.0"));
        assert!(!accepted("GPL-3.0"));
        assert!(!accepted("MIT AND GPL-3.0-only"));
        assert!(!accepted("LGPL-2.1-or-later WITH LLVM-exception"));
        assert!(!accepted("none declared"));
        assert!(!accepted(""));
    }
}
