//! How is each format cut into blocks of records?
//!
//! There is one file per format. A reader runs on one thread and does only the work that must be done in order (finding
//! record boundaries, decoding columns); its blocks do the rest on the workers.

pub(crate) mod columnar;
pub(crate) mod csv;
pub(crate) mod ipc_check;
pub(crate) mod jsonl;
pub(crate) mod lines;
pub(crate) mod vectors;

use simjoin_core::{Error, Parameter, Result};

/// The columns that the user named.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) column: Option<String>,
    pub(crate) id: Option<String>,
}

/// Lists names in a message, such as `a`, `b`; only the first ones if there are very many.
pub(crate) fn name_list<S: AsRef<str>>(names: &[S]) -> String {
    const SHOWN: usize = 40;
    let mut list: Vec<String> =
        names.iter().take(SHOWN).map(|name| format!("`{}`", name.as_ref())).collect();
    if names.len() > SHOWN {
        list.push(format!("and {} more", names.len() - SHOWN));
    }
    list.join(", ")
}

impl Columns {
    /// Returns the parameters with which the user named columns.
    pub(crate) fn given(&self) -> impl Iterator<Item = Parameter> {
        let named = [(Parameter::Column, &self.column), (Parameter::Id, &self.id)];
        named.into_iter().filter(|(_, name)| name.is_some()).map(|(parameter, _)| parameter)
    }

    /// Refuses names of columns for a file without columns; `why` explains how the file is read.
    pub(crate) fn refuse(&self, why: impl Fn() -> String) -> Result<()> {
        self.given().next().map_or(Ok(()), |parameter| {
            let message = format!("needs a format with columns, but {}", why());
            Err(Error::parameter(parameter, message))
        })
    }

    /// Returns the positions of the record column and the id column among the columns of a file.
    pub(crate) fn find<S: AsRef<str>>(
        &self,
        file: &str,
        names: &[S],
    ) -> Result<(usize, Option<usize>)> {
        let position = |wanted: &str| {
            let mut found = (0..names.len()).filter(|&at| names[at].as_ref() == wanted);
            match (found.next(), found.next()) {
                (Some(at), None) => Ok(at),
                (Some(_), Some(_)) => Err(Error::input(
                    file,
                    "",
                    format!("more than one column is called `{wanted}`"),
                )),
                (None, _) => Err(Error::input(
                    file,
                    "",
                    format!("no column `{wanted}`; the columns are {}", name_list(names)),
                )),
            }
        };
        let id = self.id.as_deref().map(position).transpose()?;
        if let Some(column) = &self.column {
            return Ok((position(column)?, id));
        }
        let others: Vec<usize> = (0..names.len()).filter(|&at| Some(at) != id).collect();
        match others[..] {
            [only] => Ok((only, id)),
            _ => Err(Error::input_needs(
                file,
                "",
                Parameter::Column,
                format!("must say which column to read; the columns are {}", name_list(names)),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(
        column: Option<&str>,
        id: Option<&str>,
        names: &[&str],
    ) -> Result<(usize, Option<usize>)> {
        let columns = Columns { column: column.map(Into::into), id: id.map(Into::into) };
        columns.find("f", names)
    }

    #[test]
    fn the_column_is_optional_only_if_there_is_one() {
        assert_eq!(find(None, None, &["a"]).unwrap(), (0, None));
        assert_eq!(find(None, Some("a"), &["a", "b"]).unwrap(), (1, Some(0)));
        assert_eq!(find(Some("b"), None, &["a", "b"]).unwrap(), (1, None));
        for (column, id, names, message) in [
            (
                None,
                None,
                vec!["a", "b"],
                "f: column must say which column to read; the columns are `a`, `b`",
            ),
            (Some("x"), None, vec!["a", "b"], "f: no column `x`; the columns are `a`, `b`"),
            (Some("a"), Some("y"), vec!["a"], "f: no column `y`; the columns are `a`"),
            (Some("a"), None, vec!["a", "a"], "f: more than one column is called `a`"),
            (
                None,
                Some("a"),
                vec!["a"],
                "f: column must say which column to read; the columns are `a`",
            ),
        ] {
            assert_eq!(find(column, id, &names).unwrap_err().to_string(), message);
        }
    }
}
