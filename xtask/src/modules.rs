//! Does every module of a crate use only earlier modules, and is every file short?
//!
//! Crates whose modules have an order are listed in [`CRATES`]. Tests may use everything.

use crate::{Check, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules of a crate, in order. A file belongs to the longest entry that its path begins with.
struct Order {
    name: &'static str,
    modules: &'static [&'static str],
    /// Known uses of later modules, which should be removed.
    exceptions: &'static [(&'static str, &'static str)],
}

const CRATES: [Order; 1] = [Order {
    name: "simjoin-engine",
    modules: &[
        "size",
        "cache",
        "clock",
        "control",
        "costs",
        "tuning",
        "processor",
        "kind",
        "technique",
        "sets",
        "vectors",
        "overlaps",
        "host",
        "report",
        "registry",
        "machine",
        "answer",
        "plan",
        "run",
        "join",
        "explain",
        "intersect",
        // The implementations of `Joinable`.
        "sets/joined",
        "vectors/sample",
        "vectors/joined",
        "overlaps/joined",
    ],
    exceptions: &[],
}];

/// The largest number of lines in a file.
const MAX_LINES: usize = 700;

/// Checks the order of modules.
pub fn order() -> Check {
    for order in &CRATES {
        let folder = root().join("crates").join(order.name).join("src");
        let mut files = BTreeMap::new();
        for path in source_files(&folder, &["rs"])? {
            let name = path.strip_prefix(&folder).unwrap_or(&path).with_extension("");
            files.insert(name.to_string_lossy().into_owned(), read(&path)?);
        }
        let broken = violations(order, &files);
        if !broken.is_empty() {
            return Err(format!("{}: {}", order.name, broken.join("; ")));
        }
    }
    Ok(())
}

/// Checks the lengths of files.
pub fn lengths() -> Check {
    let mut long = Vec::new();
    let folders = ["crates", "emulator", "fuzz", "xtask", "python", "benchmarks", "docs"];
    let mut paths = Vec::new();
    for folder in folders {
        paths.extend(source_files(&root().join(folder), &["rs", "cu", "cuh", "cc", "h", "py"])?);
    }
    for path in paths {
        let lines = read(&path)?.lines().count();
        if lines > MAX_LINES {
            let name = path.strip_prefix(root()).unwrap_or(&path).display();
            long.push(format!("{name} has {lines} lines"));
        }
    }
    let most = format!("a file may have {MAX_LINES} lines");
    if long.is_empty() { Ok(()) } else { Err(format!("{}; {most}", long.join("; "))) }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the files with these endings in a folder and the folders in it, in order, except hidden ones.
fn source_files(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut found = Vec::new();
    for entry in entries.map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            found.extend(source_files(&path, endings)?);
        } else if path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one)) {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the uses of later modules in the files of a crate.
fn violations(order: &Order, files: &BTreeMap<String, String>) -> Vec<String> {
    let exported = files.get("lib").map(|lib| exports(lib)).unwrap_or_default();
    let place = |module: &str| order.modules.iter().position(|&other| other == module);
    let mut broken = BTreeSet::new();
    for (file, text) in files.iter().filter(|(file, _)| *file != "lib") {
        let holds = |module: &&&str| {
            file.strip_prefix(**module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let Some(own) = order.modules.iter().filter(holds).max_by_key(|module| module.len()) else {
            broken.insert(format!("{file}.rs has no place in the order of xtask/src/modules.rs"));
            continue;
        };
        let top = own.split('/').next().unwrap_or(own);
        for used in uses(text) {
            let module = exported.get(&used).unwrap_or(&used);
            let later = place(module) > place(own) && module != top;
            if later && !order.exceptions.contains(&(*own, module)) {
                broken.insert(format!("{file}.rs uses {module}, which comes later"));
            }
        }
    }
    broken.into_iter().collect()
}

/// Returns the module of each item that a crate's root exports.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in lib.split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        let Some((module, items)) = path.split_once("::") else { continue };
        for item in items.trim_matches(['{', '}']).split(',') {
            let name = item.trim().rsplit(' ').next().unwrap_or_default();
            exports.insert(name.trim_matches(['{', '}']).to_string(), module.to_string());
        }
    }
    exports
}

/// Returns the names after `crate::` in the code of a file without its tests.
fn uses(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => names.extend(first_name(rest)),
            Some(list) => names.extend(listed(list)),
        }
    }
    names
}

/// Returns the first names of the paths in a list of `use` that begins after its brace.
fn listed(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut begins) = (Vec::new(), 1, true);
    for (at, sign) in list.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => begins = true,
            _ if begins && !sign.is_whitespace() => {
                names.extend(first_name(&list[at..]));
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn first_name(path: &str) -> Option<String> {
    let end = path.find(|sign: char| !sign.is_alphanumeric() && sign != '_');
    let name = &path[..end.unwrap_or(path.len())];
    (!name.is_empty()).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: Order = Order {
        name: "a-crate",
        modules: &["low", "middle", "high", "low/top"],
        exceptions: &[("low", "high")],
    };

    fn broken(file: &str, text: &str) -> Vec<String> {
        let lib = "mod low;\npub use low::Low;\npub use middle::{Other,\n Middle as Renamed};\n";
        let files = [("lib", lib), (file, text)].map(|(a, b)| (a.to_string(), b.to_string()));
        violations(&ORDER, &files.into())
    }

    #[test]
    fn workspace_keeps_the_order_of_modules() {
        order().unwrap();
    }

    #[test]
    fn files_are_short() {
        lengths().unwrap();
    }

    #[test]
    fn later_modules_are_rejected_in_every_form_of_use() {
        for text in [
            "use crate::middle::Other;",
            "use crate::Renamed;",
            "use crate::{\n    Low,\n    middle::{Other, Renamed},\n};",
            "fn f() { crate::middle::other() }",
        ] {
            let broken = broken("low/file", text);
            assert_eq!(broken, ["low/file.rs uses middle, which comes later"], "{text}");
        }
        assert_eq!(broken("unknown", "").len(), 1);
    }

    #[test]
    fn earlier_modules_exceptions_tests_and_comments_are_allowed() {
        for (file, text) in [
            ("high/file", "use crate::{Low, middle::Other};"),
            ("low", "use crate::high::High;"),
            ("low", "// See crate::middle.\n#[cfg(test)]\nmod tests { use crate::middle::Other; }"),
            ("low/top", "use crate::high::High;\nuse crate::low::Low;"),
        ] {
            assert!(broken(file, text).is_empty(), "{file}: {text}");
        }
    }
}
