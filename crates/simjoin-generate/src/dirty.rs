//! How are copies with typing errors made?
//!
//! As in evaluations of joins on strings, each record is followed by its copies. Each copy has a
//! number of random edits of single characters, so its edit distance from the record is at most that
//! number. An edit inserts, deletes or replaces a character; each kind and each place has the same
//! probability. Inserted characters are letters from a to z; a replaced character becomes another
//! letter. The last character of a record is never deleted but replaced, and an empty record only gets
//! insertions, so every copy has text.
//!
//! Characters are Unicode scalar values. A carriage return within a record would end the line for some
//! readers, so it is written as a space.
//!
//! # Memory
//!
//! One block of lines is in memory. The input is read once, so it may be standard input.

use crate::output::Lines;
use crate::random::Random;
use simjoin_core::{Error, Result};
use simjoin_io::read_lines;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Dirty copies of a text's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// The number of copies of each record.
    pub copies: u64,
    /// The range of the number of edits of a copy; each number has the same probability.
    pub edits: RangeInclusive<u64>,
    /// The seed of the edits.
    pub seed: u64,
}

const MAX_EDITS: u64 = 1000;

impl Dirty {
    /// Returns an error for impossible settings.
    pub fn check(&self) -> Result<()> {
        if self.copies == 0 {
            return Err(Error::Config("0 copies cannot be made; expected at least 1".into()));
        }
        let (least, most) = (self.edits.start(), self.edits.end());
        if least > most || *most > MAX_EDITS {
            return Err(Error::Config(format!(
                "{least}..{most} edits do not fit; expected a range from 0 to {MAX_EDITS}, the \
                 smaller number first"
            )));
        }
        Ok(())
    }

    /// Hands the records of a file, one per line, and their copies to `receiver`, in blocks of
    /// whole lines. The bytes read are counted in `bytes_read`.
    pub fn write(
        &self,
        path: &Path,
        bytes_read: &AtomicU64,
        mut receiver: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.check()?;
        let (least, most) = (*self.edits.start(), *self.edits.end());
        let mut random = Random::new(self.seed);
        let mut lines = Lines::new(&mut receiver);
        let (mut record, mut copy): (Vec<char>, Vec<char>) = (Vec::new(), Vec::new());
        read_lines(path, bytes_read, |line, _| {
            record.clear();
            record.extend(line.chars().map(|c| if c == '\r' { ' ' } else { c }));
            lines.line(record.iter().copied())?;
            for _ in 0..self.copies {
                copy.clone_from(&record);
                for _ in 0..least + random.below(most - least + 1) {
                    edit(&mut copy, &mut random);
                }
                lines.line(copy.iter().copied())?;
            }
            Ok(())
        })?;
        lines.flush()
    }
}

/// Makes one edit.
fn edit(text: &mut Vec<char>, random: &mut Random) {
    let length = text.len() as u64;
    match random.below(3) {
        kind if kind == 0 || length == 0 => {
            let place = random.below(length + 1) as usize;
            text.insert(place, letter(random.below(26)));
        }
        1 if length > 1 => {
            text.remove(random.below(length) as usize);
        }
        _ => {
            let old = &mut text[random.below(length) as usize];
            // A letter becomes one of the 25 others.
            *old = match *old {
                'a'..='z' => letter(u64::from(*old) - u64::from('a') + 1 + random.below(25)),
                _ => letter(random.below(26)),
            };
        }
    }
}

/// Returns the letter with this number; after z comes a.
fn letter(number: u64) -> char {
    char::from(b'a' + (number % 26) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirty(text: &str, dirty: &Dirty) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut out = Vec::new();
        dirty
            .write(file.path(), &AtomicU64::new(0), |lines| {
                out.extend_from_slice(lines);
                Ok(())
            })
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    fn edit_distance(left: &str, right: &str) -> u64 {
        let right: Vec<char> = right.chars().collect();
        let mut row: Vec<u64> = (0..=right.len() as u64).collect();
        for (at, a) in left.chars().enumerate() {
            let mut diagonal = row[0];
            row[0] = at as u64 + 1;
            for (place, &b) in right.iter().enumerate() {
                let replaced = diagonal + u64::from(a != b);
                diagonal = row[place + 1];
                row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
            }
        }
        row[right.len()]
    }

    const TEXT: &str =
        "The quick brown fox\nÄpfel und Öl, 3 €\n\na\nx\ry\u{2028}z\n日本語のテキスト";

    #[test]
    fn copies_follow_their_record_within_the_edit_distance() {
        let plan = Dirty { copies: 500, edits: 2..=4, seed: 7 };
        let out = dirty(TEXT, &plan);
        let lines: Vec<&str> = out.split('\n').collect();
        assert_eq!(lines.len(), 6 * 501 + 1);
        let mut far = [0; 6];
        for (chunk, record) in lines.chunks(501).zip(TEXT.split('\n')) {
            assert_eq!(chunk[0], record.replace('\r', " "));
            for copy in &chunk[1..] {
                assert!(!copy.is_empty() && !copy.contains('\r'));
                let distance = edit_distance(chunk[0], copy);
                assert!(distance <= 4, "{record:?} {copy:?}");
                far[distance as usize] += 1;
            }
        }
        // Every number of edits occurs. (In very short records edits often hit the same place.)
        assert!(far[2..=4].iter().all(|&count| count > 350), "{far:?}");
        assert!(far[0] < 100, "{far:?}");
    }

    #[test]
    fn seed_determines_the_output() {
        let plan = Dirty { copies: 2, edits: 1..=5, seed: 1 };
        let out = dirty(TEXT, &plan);
        assert_eq!(out, dirty(TEXT, &plan));
        assert_eq!(
            out.lines().take(3).collect::<Vec<_>>(),
            ["The quick brown fox", "Te quickc bzrown foix", "The quic brown fox"]
        );
        assert_ne!(out, dirty(TEXT, &Dirty { seed: 2, ..plan }));
    }

    #[test]
    fn one_edit_changes_a_copy_and_no_edit_does_not() {
        let plan = Dirty { copies: 300, edits: 1..=1, seed: 1 };
        let out = dirty("ab\n", &plan);
        assert!(out.lines().skip(1).all(|copy| edit_distance("ab", copy) == 1));
        for length in 1..=3 {
            assert!(out.lines().any(|copy| copy.len() == length), "{length}");
        }
        assert_eq!(dirty("ab\n", &Dirty { copies: 2, edits: 0..=0, seed: 1 }), "ab\nab\nab\n");
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn impossible_settings_are_errors() {
        for (copies, edits) in [(0, 1..=5), (1, 5..=1), (1, 1..=1001)] {
            let plan = Dirty { copies, edits, seed: 1 };
            assert!(matches!(plan.check(), Err(Error::Config(_))), "{plan:?}");
        }
    }
}
