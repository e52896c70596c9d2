//! Does the Python package work?
//!
//! Creates a virtual environment in `target/python` and installs a wheel of these sources, built in the
//! development profile so that it shares compiled code with the other steps. Then runs its tests, the
//! examples of its documentation, and checks of its types and style.

use crate::environment::Environment;
use crate::{Check, root};

/// The tools that build wheels.
const TOOLS: [&str; 2] = ["maturin>=1.9,<2", "pip"];

/// Returns the virtual environment, which is made again if its recipe has changed.
fn prepare() -> Result<Environment, String> {
    let recipe = std::fs::read_to_string(root().join("pyproject.toml"));
    let recipe = recipe.map_err(|error| format!("pyproject.toml: {error}"))?;
    let extras = extras(&recipe, "test");
    let packages: Vec<&str> = TOOLS.into_iter().chain(extras.iter().map(String::as_str)).collect();
    Environment::prepare("python/venv", &recipe, &packages)
}

/// Builds, installs and tests the package.
pub fn check() -> Check {
    let environment = prepare()?;
    let folder = root().join("target/python");
    let wheels = folder.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let out = wheels.to_string_lossy();
    environment.run(
        "maturin",
        &[
            "build",
            "--quiet",
            "--locked",
            "--profile",
            "dev",
            "--target-dir",
            "target",
            "--out",
            &out,
        ],
    )?;
    let built = std::fs::read_dir(&wheels).map_err(|error| format!("{out}: {error}"))?;
    let wheel = built
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheel.ok_or_else(|| format!("{out} contains no wheel"))?;
    let install = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    environment.run("python", &[&install[..], &[&wheel.to_string_lossy()]].concat())?;
    environment.run("python", &["-m", "pytest", "--quiet", "python/tests"])?;
    environment
        .run("python", &["-m", "pytest", "--quiet", "--doctest-modules", "--pyargs", "simjoin"])?;
    environment.run("mypy", &["python/simjoin", "python/tests"])?;
    environment.run("stubtest", &["--mypy-config-file", "pyproject.toml", "simjoin._native"])?;
    environment.run("ruff", &["check", "--quiet", "python"])?;
    // Scripts have no types, but every name must be known.
    let scripts = ["check", "--quiet", "--select", "F", "benchmarks", "docs", "fuzz"];
    environment.run("ruff", &scripts)?;
    environment.run("ruff", &["format", "--check", "--quiet", "python"])
}

/// Returns the packages of an extra: the strings of its list in pyproject.toml.
fn extras(recipe: &str, name: &str) -> Vec<String> {
    let list = recipe.split_once(&format!("\n{name} = [")).map_or("", |(_, rest)| rest);
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_are_read_from_their_list() {
        let recipe = "[project.optional-dependencies]\ncuda = [\"a>=1,<2\"]\ntest = [\n    \"b\",\n    \"c\",\n]\n";
        assert_eq!(extras(recipe, "cuda"), ["a>=1,<2"]);
        assert_eq!(extras(recipe, "test"), ["b", "c"]);
        assert!(extras(recipe, "none").is_empty());
    }
}
