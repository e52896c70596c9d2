//! How does a step get its Python tools?

use crate::{Check, call, install, root};
use std::path::PathBuf;

/// A virtual environment of Python.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Makes the environment in a folder of `target`, unless the folder has one from the same recipe. pip
    /// gets the arguments.
    pub fn prepare(name: &str, recipe: &str, arguments: &[&str]) -> Result<Self, String> {
        let environment = Environment { folder: root().join("target").join(name) };
        let stamp = environment.folder.join("recipe");
        if std::fs::read_to_string(&stamp).is_ok_and(|made_by| made_by == recipe) {
            return Ok(environment);
        }
        environment.make()?;
        let install = ["-m", "pip", "install", "--quiet", "--upgrade"];
        environment.run("python", &[&install[..], arguments].concat())?;
        std::fs::write(&stamp, recipe).map_err(|error| format!("{}: {error}", stamp.display()))?;
        Ok(environment)
    }

    /// Makes an empty environment. On Debian this needs a separate package, which is installed if it is
    /// missing.
    fn make(&self) -> Check {
        let folder = self.folder.to_string_lossy();
        let make = || call("python3", &["-m", "venv", "--clear", &folder], &[]);
        make()
            .or_else(|_| {
                install("python3-venv")?;
                make()
            })
            .map_err(|why| format!("Python 3.10 or newer with the module venv is needed ({why})"))
    }

    /// Runs one of its programs.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Check {
        let bin = self.folder.join("bin");
        // maturin builds for the first interpreter on the path.
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", bin.to_string_lossy());
        let program = bin.join(program);
        let environment =
            [("PATH", path.as_str()), ("VIRTUAL_ENV", &self.folder.to_string_lossy())];
        call(&program.to_string_lossy(), arguments, &environment)
    }
}
