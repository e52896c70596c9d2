//! Does every dependency between our crates point to an earlier one?
//!
//! The order below is the architecture: data flows from top to bottom, and upper crates do not know lower
//! ones.

use crate::{Check, modules, root};
use serde_json::Value;
use std::process::Command;

const ORDER: [&str; 12] = [
    "simjoin-core",
    "simjoin-kernels",
    "simjoin-io",
    "simjoin-generate",
    "simjoin-engine",
    FOR_TESTS,
    "simjoin-cpu",
    "simjoin-gpu",
    "simjoin",
    "simjoin-cluster",
    "simjoin-cli",
    "simjoin-python",
];

/// The crate that tests share: tests of every crate may use it, other code may not.
const FOR_TESTS: &str = "simjoin-testing";

/// Tools for working on the project, which nothing may depend on.
const TOOLS: [&str; 3] = ["cuda-emulator", "simjoin-fuzz", "xtask"];

pub fn check() -> Check {
    let metadata = metadata(&["--no-deps"])?;
    let mut crates = Vec::new();
    for package in array(&metadata["packages"]) {
        let dependencies: Vec<String> = array(&package["dependencies"])
            .filter(|dependency| dependency["name"] != FOR_TESTS || dependency["kind"] != "dev")
            .filter_map(|dependency| dependency["name"].as_str().map(str::to_string))
            .collect();
        crates.push((package["name"].as_str().unwrap_or_default().to_string(), dependencies));
    }
    violations(&crates).map_or(Ok(()), Err)?;
    modules::order()?;
    modules::lengths()
}

/// Returns the first broken rule, if any.
fn violations(crates: &[(String, Vec<String>)]) -> Option<String> {
    let place = |name: &str| ORDER.iter().position(|&other| other == name);
    for (name, dependencies) in crates {
        if TOOLS.contains(&name.as_str()) {
            continue;
        }
        if dependencies.iter().any(|dependency| dependency == FOR_TESTS) {
            return Some(format!("{name} depends on {FOR_TESTS}, which is only for tests"));
        }
        let Some(own) = place(name) else {
            return Some(format!("crate {name} has no place in the order of xtask/src/layers.rs"));
        };
        for dependency in dependencies {
            if TOOLS.contains(&dependency.as_str()) {
                return Some(format!("{name} depends on the tool {dependency}"));
            }
            if place(dependency).is_some_and(|other| other >= own) {
                return Some(format!("{name} depends on {dependency}, which comes later"));
            }
        }
    }
    None
}

/// Returns cargo's metadata of the workspace.
pub fn metadata(arguments: &[&str]) -> Result<Value, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(arguments)
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Returns the elements of a JSON array; none for any other value.
pub fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates(list: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        list.iter()
            .map(|(name, dependencies)| {
                (name.to_string(), dependencies.iter().map(ToString::to_string).collect())
            })
            .collect()
    }

    #[test]
    fn workspace_keeps_the_order_of_crates() {
        check().unwrap();
    }

    #[test]
    fn later_crates_tools_and_unknown_crates_are_rejected() {
        assert_eq!(violations(&crates(&[("simjoin-cpu", &["simjoin-core", "rayon"])])), None);
        let later = violations(&crates(&[("simjoin-core", &["simjoin-cpu"])])).unwrap();
        assert!(later.contains("comes later"), "{later}");
        assert!(violations(&crates(&[("simjoin-io", &["xtask"])])).is_some());
        let in_product = violations(&crates(&[("simjoin-cpu", &[FOR_TESTS])])).unwrap();
        assert!(in_product.contains("only for tests"), "{in_product}");
        assert!(violations(&crates(&[("simjoin-new", &[])])).is_some());
    }
}
