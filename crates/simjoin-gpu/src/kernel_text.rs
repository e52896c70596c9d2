//! Which part of a kernel's text makes a difference to the compiler?
//!
//! Two records depend on it: the list of compiled kernels (`kernels-compiled.txt`) and the list of kernels
//! that have run on a real device (`gpu-verification.toml`). A change of comments or indentation makes
//! neither of them stale.

use sha2::{Digest, Sha256};

/// The name and text of every file under `kernels/`.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("kernels/", $name)))),+]
    };
}

/// Every kernel file, by name.
pub static FILES: &[(&str, &str)] = files![
    "accept.cuh",
    "bitmap.cu",
    "candidates.cu",
    "intersect.cu",
    "overlaps.cu",
    "overlaps_answers.cu",
    "prefix.cu",
    "sets.cu",
    "sets.cuh",
    "shared.cuh",
    "vectors.cu",
    "vectors.cuh",
    "vectors_direct.cu",
    "vectors_tensor.cu",
];

/// Returns a hash of CUDA source that ignores comments and blank space.
pub fn hash(source: &str) -> String {
    let digest = Sha256::digest(normalized(source));
    // 80 bits distinguish all kernel texts that will ever exist.
    digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns CUDA source without comments, and with one space in place of blank space. Line ends next to
/// preprocessor directives and literals stay unchanged.
pub fn normalized(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut in_directive = false;
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let comment = comment_length(rest);
        let length = match first {
            _ if comment > 0 => comment,
            '\n' => 1,
            '\\' if rest.starts_with("\\\n") => 2,
            _ if first.is_whitespace() => first.len_utf8(),
            '"' => literal_length(rest),
            // Between digits it is only a separator.
            '\'' if !text.ends_with(|before: char| before.is_alphanumeric()) => {
                literal_length(rest)
            }
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        if first == '\n' && in_directive {
            in_directive = false;
            text.truncate(text.trim_end().len());
            text.push('\n');
        } else if comment > 0 || first.is_whitespace() || token == "\\\n" {
            if !text.is_empty() && !text.ends_with([' ', '\n']) {
                text.push(' ');
            }
        } else {
            if first == '#' && !in_directive {
                in_directive = true;
                text.truncate(text.trim_end().len());
                if !text.is_empty() {
                    text.push('\n');
                }
            }
            text.push_str(token);
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the length of the comment that the text begins with, without the end of its last line; 0 if there is none.
fn comment_length(text: &str) -> usize {
    if let Some(after) = text.strip_prefix("/*") {
        return after.find("*/").map_or(text.len(), |end| end + 4);
    }
    if !text.starts_with("//") {
        return 0;
    }
    let mut ends = text.match_indices('\n').map(|(at, _)| at);
    ends.find(|&at| !text[..at].ends_with('\\')).unwrap_or(text.len())
}

/// Returns the length of the literal that the text begins with, quotes included.
fn literal_length(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (at, &byte) in text.as_bytes().iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn comments_and_blank_space_make_no_difference() {
        let plain = normalized("int a = 1; int b = 2;");
        let same = [
            "int a = 1; // one\nint b = 2;",
            "/* two\n   lines */ int a\n    = 1;\n\n\tint b = 2;  \n",
            "int a/**/= 1; // \"no literal\nint b = 2; /* // */",
            "// goes on \\\n on the next line\nint a = 1; int b = 2;",
        ];
        for text in same {
            assert_eq!(normalized(text), plain);
            assert_eq!(hash(text), hash(&plain));
        }
        for other in ["int a = 1; int b = 3;", "inta = 1; int b = 2;", "int a = 1; // int b = 2;"] {
            assert_ne!(hash(other), hash(&plain));
        }
    }

    #[test]
    fn literals_stay_as_they_are() {
        let text = r#"asm("mov  %0, 1; // \"x\"  /* y */" : "=r"(a)); c = '"'; d = '\''; e = 1'000; f = '  ';"#;
        assert_eq!(normalized(text), text);
    }

    #[test]
    fn preprocessor_lines_stay_lines() {
        let text = "int a;\n  #if A // why\n\tint b;\n#  endif\n#define C(x) \\\n    x\nint d;";
        assert_eq!(normalized(text), "int a;\n#if A\nint b;\n# endif\n#define C(x) x\nint d;");
        assert_ne!(normalized("#define A 1\nint b;"), normalized("#define A 1 int b;"));
    }

    #[test]
    fn normalized_text_stays_as_it_is() {
        for (name, text) in FILES {
            let once = normalized(text);
            assert!(!once.contains("//") && !once.contains("/*"), "{name}");
            assert!(once.len() < text.len() && once.len() > text.len() / 3, "{name}");
            assert_eq!(normalized(&once), once, "{name}");
        }
    }

    #[test]
    fn every_kernel_file_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kernels");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".cu") || name.ends_with(".cuh"))
            .collect();
        assert_eq!(there, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    }
}
