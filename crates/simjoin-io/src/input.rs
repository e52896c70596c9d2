//! Do the rows of a join come from a file or from memory?

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
enum FileOrMemory<M> {
    Memory(M),
    #[cfg(feature = "files")]
    File(PathBuf),
}

impl<M> FileOrMemory<M> {
    fn path(&self) -> Option<&Path> {
        match self {
            FileOrMemory::Memory(_) => None,
            #[cfg(feature = "files")]
            FileOrMemory::File(path) => Some(path),
        }
    }

    #[cfg(feature = "files")]
    fn file(path: &Path) -> Self {
        FileOrMemory::File(path.to_owned())
    }
}

/// Refuses options of files for rows in memory.
fn refuse_file_options(given: bool) -> Result<()> {
    let message = "`column`, `id` and `format` only apply to files, and these rows are in memory; remove the options";
    if given { Err(Error::Config(message.into())) } else { Ok(()) }
}

/// An input of sets or text, and how it is read. A clone shares rows in memory.
#[derive(Clone, Debug)]
pub struct SetInput {
    source: FileOrMemory<Rows>,
    /// How rows are read. The threads of the current rayon pool replace the number in the options.
    pub options: ReadOptions,
}

impl SetInput {
    /// Makes an input of rows in memory.
    pub fn of_rows(rows: Rows, tokenizer: Tokenizer) -> Self {
        let options = ReadOptions { tokenizer, ..ReadOptions::default() };
        SetInput { source: FileOrMemory::Memory(rows), options }
    }

    /// Makes an input of a file.
    #[cfg(feature = "files")]
    pub fn of_file(path: &Path, tokenizer: Tokenizer) -> Self {
        let options = ReadOptions { tokenizer, ..ReadOptions::default() };
        SetInput { source: FileOrMemory::file(path), options }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// Reads the rows; messages call rows in memory `name`.
    pub fn read(&self, reader: &mut SetReader, name: &str) -> Result<Table> {
        let options = ReadOptions { threads: rayon::current_num_threads(), ..self.options.clone() };
        match &self.source {
            FileOrMemory::Memory(rows) => {
                let ReadOptions { format, column, id, .. } = &options;
                refuse_file_options(format.is_some() || column.is_some() || id.is_some())?;
                reader.rows(name, rows, &options)
            }
            #[cfg(feature = "files")]
            FileOrMemory::File(path) => reader.file(path, &options, &AtomicU64::new(0)),
        }
    }
}

/// An input of vectors, and how it is read. A clone shares vectors in memory.
#[derive(Clone, Debug)]
pub struct VectorInput {
    source: FileOrMemory<Arc<VectorCollection>>,
    /// How vectors are read.
    #[cfg(feature = "files")]
    pub options: VectorOptions,
}

impl VectorInput {
    /// Makes an input of vectors in memory.
    pub fn of_vectors(vectors: VectorCollection) -> Self {
        VectorInput {
            source: FileOrMemory::Memory(Arc::new(vectors)),
            #[cfg(feature = "files")]
            options: VectorOptions::default(),
        }
    }

    /// Makes an input of a file.
    #[cfg(feature = "files")]
    pub fn of_file(path: &Path) -> Self {
        VectorInput { source: FileOrMemory::file(path), options: VectorOptions::default() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// Reads the vectors, and the ids of the rows.
    pub fn read(&self) -> Result<(Arc<VectorCollection>, Option<Ids>)> {
        match &self.source {
            FileOrMemory::Memory(vectors) => {
                #[cfg(feature = "files")]
                {
                    let VectorOptions { format, column, id } = &self.options;
                    refuse_file_options(format.is_some() || column.is_some() || id.is_some())?;
                }
                Ok((vectors.clone(), None))
            }
            #[cfg(feature = "files")]
            FileOrMemory::File(path) => {
                let read = crate::read_vectors(path, &self.options, &AtomicU64::new(0))?;
                Ok((Arc::new(read.vectors), read.ids))
            }
        }
    }
}
