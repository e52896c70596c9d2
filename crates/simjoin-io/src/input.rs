//! Where do the rows of a join come from: a file, or memory?

use crate::ids::Ids;
use crate::options::{ReadOptions, Table};
use crate::rows::{Rows, SetReader};
use crate::tokenize::Tokenizer;
#[cfg(feature = "files")]
use crate::vectors::VectorOptions;
use simjoin_core::{Error, Result, VectorCollection};
use std::path::Path;
#[cfg(feature = "files")]
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "files")]
use std::sync::atomic::AtomicU64;

/// A file, or rows in memory.
#[derive(Clone, Debug)]
enum Source<M> {
    Memory(M),
    #[cfg(feature = "files")]
    File(PathBuf),
}

impl<M> Source<M> {
    fn path(&self) -> Option<&Path> {
        match self {
            Source::Memory(_) => None,
            #[cfg(feature = "files")]
            Source::File(path) => Some(path),
        }
    }

    #[cfg(feature = "files")]
    fn file(path: &Path) -> Self {
        Source::File(path.to_owned())
    }
}

fn no_columns(given: bool) -> Result<()> {
    let message = "`column`, `id` and `format` are for files; these rows are in memory";
    if given { Err(Error::Config(message.into())) } else { Ok(()) }
}

/// Sets or text, and how they are read. A clone shares rows in memory.
#[derive(Clone, Debug)]
pub struct SetInput {
    source: Source<Rows>,
    /// How rows are read; the number of threads is that of the current rayon pool.
    pub options: ReadOptions,
}

impl SetInput {
    /// Takes rows from memory.
    pub fn of_rows(rows: Rows, tokenizer: Tokenizer) -> Self {
        let options = ReadOptions { tokenizer, ..ReadOptions::default() };
        SetInput { source: Source::Memory(rows), options }
    }

    /// Takes the rows of a file.
    #[cfg(feature = "files")]
    pub fn of_file(path: &Path, tokenizer: Tokenizer) -> Self {
        let options = ReadOptions { tokenizer, ..ReadOptions::default() };
        SetInput { source: Source::file(path), options }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// Reads the rows; `name` is what messages call those in memory.
    pub fn read(&self, reader: &mut SetReader, name: &str) -> Result<Table> {
        let options = ReadOptions { threads: rayon::current_num_threads(), ..self.options.clone() };
        match &self.source {
            Source::Memory(rows) => {
                let ReadOptions { format, column, id, .. } = &options;
                no_columns(format.is_some() || column.is_some() || id.is_some())?;
                reader.rows(name, rows, &options)
            }
            #[cfg(feature = "files")]
            Source::File(path) => reader.file(path, &options, &AtomicU64::new(0)),
        }
    }
}

/// Vectors, and how they are read. A clone shares those in memory.
#[derive(Clone, Debug)]
pub struct VectorInput {
    source: Source<Arc<VectorCollection>>,
    /// How vectors are read.
    #[cfg(feature = "files")]
    pub options: VectorOptions,
}

impl VectorInput {
    /// Takes vectors from memory.
    pub fn of_vectors(vectors: VectorCollection) -> Self {
        VectorInput {
            source: Source::Memory(Arc::new(vectors)),
            #[cfg(feature = "files")]
            options: VectorOptions::default(),
        }
    }

    /// Takes the vectors of a file.
    #[cfg(feature = "files")]
    pub fn of_file(path: &Path) -> Self {
        VectorInput { source: Source::file(path), options: VectorOptions::default() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// Reads the vectors, and the ids of the rows.
    pub fn read(&self) -> Result<(Arc<VectorCollection>, Option<Ids>)> {
        match &self.source {
            Source::Memory(vectors) => {
                #[cfg(feature = "files")]
                {
                    let VectorOptions { format, column, id } = &self.options;
                    no_columns(format.is_some() || column.is_some() || id.is_some())?;
                }
                Ok((vectors.clone(), None))
            }
            #[cfg(feature = "files")]
            Source::File(path) => {
                let read = crate::read_vectors(path, &self.options, &AtomicU64::new(0))?;
                Ok((Arc::new(read.vectors), read.ids))
            }
        }
    }
}
