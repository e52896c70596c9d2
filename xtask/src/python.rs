//! Does the Python package work?
//!
//! A virtual environment in `target/python`, a wheel of these sources in it, built in the development profile so
//! that it shares what the other steps have compiled, and then its tests, the examples of its documentation, its
//! types and its style.

use crate::{Check, call, root, virtual_environment};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Libraries for tests, and what builds wheels.
const TOOLS: [&str; 2] = ["maturin>=1.9,<2", "pip"];

/// One at a time prepares it.
static PREPARING: Mutex<()> = Mutex::new(());

/// Makes the virtual environment, anew when its recipe has changed.
pub fn prepare() -> Check {
    let _alone = PREPARING.lock().unwrap_or_else(PoisonError::into_inner);
    environment().prepare()
}

fn environment() -> Environment {
    Environment { folder: root().join("target/python/venv") }
}

/// Builds, installs and tests the package.
pub fn check() -> Check {
    prepare()?;
    let environment = environment();
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
    let wheel = wheel.ok_or_else(|| format!("{out} holds no wheel"))?;
    let install = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    environment.run("python", &[&install[..], &[&wheel.to_string_lossy()]].concat())?;
    environment.run("python", &["-m", "pytest", "--quiet", "python/tests"])?;
    environment
        .run("python", &["-m", "pytest", "--quiet", "--doctest-modules", "--pyargs", "simjoin"])?;
    environment.run("mypy", &["python/simjoin", "python/tests"])?;
    environment.run("stubtest", &["--mypy-config-file", "pyproject.toml", "simjoin._native"])?;
    environment.run("ruff", &["check", "--quiet", "python"])?;
    // Scripts without types: at least every name is known.
    let scripts = ["check", "--quiet", "--select", "F", "benchmarks", "docs", "fuzz"];
    environment.run("ruff", &scripts)?;
    environment.run("ruff", &["format", "--check", "--quiet", "python"])
}

/// A virtual environment.
struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Makes it, unless one is there that was made by the same recipe.
    fn prepare(&self) -> Check {
        let recipe = root().join("pyproject.toml");
        let recipe = std::fs::read_to_string(&recipe).map_err(|error| error.to_string())?;
        let stamp = self.folder.join("recipe.toml");
        if std::fs::read_to_string(&stamp).is_ok_and(|made_by| made_by == recipe) {
            return Ok(());
        }
        let folder = self.folder.to_string_lossy();
        virtual_environment(&folder)?;
        let extras = extras(&recipe, "test");
        let wanted: Vec<&str> =
            TOOLS.into_iter().chain(extras.iter().map(String::as_str)).collect();
        self.run(
            "python",
            &[&["-m", "pip", "install", "--quiet", "--upgrade"], &wanted[..]].concat(),
        )?;
        std::fs::write(&stamp, recipe).map_err(|error| error.to_string())
    }

    /// Runs one of its programs.
    fn run(&self, program: &str, arguments: &[&str]) -> Check {
        let bin = self.folder.join("bin");
        // maturin builds for the interpreter that is first on the path.
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", bin.to_string_lossy());
        let program = bin.join(program);
        let environment =
            [("PATH", path.as_str()), ("VIRTUAL_ENV", &self.folder.to_string_lossy())];
        call(&program.to_string_lossy(), arguments, &environment)
    }
}

/// The packages of an extra: the strings of its list in pyproject.toml.
fn extras(recipe: &str, name: &str) -> Vec<String> {
    let list = recipe.split_once(&format!("\n{name} = [")).map_or("", |(_, rest)| rest);
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_are_the_strings_of_a_list() {
        let recipe = "[project.optional-dependencies]\ncuda = [\"a>=1,<2\"]\ntest = [\n    \"b\",\n    \"c\",\n]\n";
        assert_eq!(extras(recipe, "cuda"), ["a>=1,<2"]);
        assert_eq!(extras(recipe, "test"), ["b", "c"]);
        assert!(extras(recipe, "none").is_empty());
    }
}
