//! What are the tokens of a record?
//!
//! * [`Tokenizer::Whitespace`]: the parts between Unicode white space, unchanged.
//! * [`Tokenizer::Words`]: the record in lower case, split at the word boundaries of UAX #29; the parts with a letter
//!   or a digit are tokens.
//! * [`Tokenizer::Qgrams`]: all runs of `q` Unicode scalar values of the record, which is padded with `q − 1` dollar
//!   signs on both sides. Case is kept. An empty record has none; any other has `length + q − 1`.
//!
//! Records of ASCII characters are split by faster code, into the same tokens.

use simjoin_core::Error;
use std::str::FromStr;
use unicode_segmentation::UnicodeSegmentation;

/// The largest supported length of q-grams.
const MAX_Q: usize = 100;

/// A method to split records into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tokenizer {
    /// The parts between white space.
    Whitespace,
    /// Words in lower case.
    Words,
    /// Overlapping runs of characters with this length, with padding.
    Qgrams(usize),
}

impl FromStr for Tokenizer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "words" {
            return Ok(Tokenizer::Words);
        }
        let wrong = || {
            Error::Config(format!(
                "unknown tokens `{text}`; expected words or qgrams:Q with Q from 1 to {MAX_Q}"
            ))
        };
        let q = text.strip_prefix("qgrams:").ok_or_else(wrong)?;
        match q.parse() {
            Ok(q) if (1..=MAX_Q).contains(&q) => Ok(Tokenizer::Qgrams(q)),
            _ => Err(wrong()),
        }
    }
}

impl Tokenizer {
    /// Checks the length of q-grams.
    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            Tokenizer::Qgrams(q) if !(1..=MAX_Q).contains(&q) => Err(Error::Config(format!(
                "q-grams of length {q} are not supported; expected a length from 1 to {MAX_Q}"
            ))),
            _ => Ok(()),
        }
    }

    /// Calls `emit` with each token of the record, in order and with repetitions.
    #[inline]
    pub fn for_each(self, record: &str, scratch: &mut Scratch, emit: impl FnMut(&[u8])) {
        for_each_token(self, record, scratch, emit);
    }
}

/// Buffers that are reused from record to record.
#[derive(Default)]
pub struct Scratch {
    text: Vec<u8>,
    starts: Vec<usize>,
}

/// Calls `emit` with each token of the record, in order and with repetitions.
#[inline]
pub(crate) fn for_each_token(
    tokenizer: Tokenizer,
    record: &str,
    scratch: &mut Scratch,
    emit: impl FnMut(&[u8]),
) {
    match tokenizer {
        Tokenizer::Whitespace => whitespace(record, emit),
        Tokenizer::Words => words(record, scratch, emit),
        Tokenizer::Qgrams(q) => qgrams(record, q, scratch, emit),
    }
}

fn whitespace(record: &str, mut emit: impl FnMut(&[u8])) {
    if !record.is_ascii() {
        record.split_whitespace().for_each(|token| emit(token.as_bytes()));
        return;
    }
    let bytes = record.as_bytes();
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        // In ASCII, Unicode white space is tab to carriage return, and space.
        if byte == b' ' || byte.wrapping_sub(b'\t') < 5 {
            if start < at {
                emit(&bytes[start..at]);
            }
            start = at + 1;
        }
    }
    if start < bytes.len() {
        emit(&bytes[start..]);
    }
}

fn words(record: &str, scratch: &mut Scratch, mut emit: impl FnMut(&[u8])) {
    if record.is_ascii() {
        scratch.text.clear();
        scratch.text.extend_from_slice(record.as_bytes());
        scratch.text.make_ascii_lowercase();
        ascii_words(&scratch.text, emit);
    } else {
        let lower = record.to_lowercase();
        lower.unicode_words().for_each(|word| emit(word.as_bytes()));
    }
}

// The classes of ASCII characters in the word boundary rules.
const OTHER: u8 = 0;
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const UNDERSCORE: u8 = 3;
/// Joins letters: MidLetter.
const MID_LETTER: u8 = 4;
/// Joins digits: MidNum.
const MID_NUMBER: u8 = 5;
/// Joins letters or digits: MidNumLet and Single_Quote.
const MID_BOTH: u8 = 6;

const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDERSCORE,
            b':' => MID_LETTER,
            b',' | b';' => MID_NUMBER,
            b'.' | b'\'' => MID_BOTH,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// Calls `emit` with the words of UAX #29 in ASCII text: runs of letters, digits and underscores (WB5, WB8–10, WB13a,
/// WB13b). A single mid character between two letters (WB6, WB7) or two digits (WB11, WB12) does not end a run. Runs of
/// only underscores are not words.
fn ascii_words(text: &[u8], mut emit: impl FnMut(&[u8])) {
    let class = |at: usize| text.get(at).map_or(OTHER, |&byte| CLASSES[byte as usize]);
    let mut at = 0;
    while at < text.len() {
        if !matches!(class(at), LETTER | DIGIT | UNDERSCORE) {
            at += 1;
            continue;
        }
        let start = at;
        let mut is_word = false;
        let mut last = OTHER;
        loop {
            match class(at) {
                kind @ (LETTER | DIGIT) => {
                    is_word = true;
                    last = kind;
                }
                UNDERSCORE => last = UNDERSCORE,
                MID_LETTER if last == LETTER && class(at + 1) == LETTER => {}
                MID_NUMBER if last == DIGIT && class(at + 1) == DIGIT => {}
                MID_BOTH if matches!(last, LETTER | DIGIT) && class(at + 1) == last => {}
                _ => break,
            }
            at += 1;
        }
        if is_word {
            emit(&text[start..at]);
        }
    }
}

fn qgrams(record: &str, q: usize, scratch: &mut Scratch, mut emit: impl FnMut(&[u8])) {
    if record.is_empty() {
        return;
    }
    let text = &mut scratch.text;
    text.clear();
    text.resize(q - 1, b'$');
    text.extend_from_slice(record.as_bytes());
    text.resize(text.len() + q - 1, b'$');
    if record.is_ascii() {
        text.windows(q).for_each(emit);
        return;
    }
    // Every byte that does not continue a character starts one.
    let starts = &mut scratch.starts;
    starts.clear();
    starts.extend((0..text.len()).filter(|&at| text[at] & 0xC0 != 0x80));
    starts.push(text.len());
    for window in starts.windows(q + 1) {
        emit(&text[window[0]..window[q]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(tokenizer: Tokenizer, record: &str) -> Vec<String> {
        let mut out = Vec::new();
        for_each_token(tokenizer, record, &mut Scratch::default(), |token| {
            out.push(String::from_utf8(token.to_vec()).unwrap());
        });
        out
    }

    #[test]
    fn q_grams_are_those_of_the_papers() {
        assert_eq!(
            tokens(Tokenizer::Qgrams(3), "similarity").join(","),
            "$$s,$si,sim,imi,mil,ila,lar,ari,rit,ity,ty$,y$$"
        );
        assert_eq!(tokens(Tokenizer::Qgrams(2), "äB"), ["$ä", "äB", "B$"]);
        assert_eq!(tokens(Tokenizer::Qgrams(1), "aé"), ["a", "é"]);
        assert_eq!(tokens(Tokenizer::Qgrams(4), "a"), ["$$$a", "$$a$", "$a$$", "a$$$"]);
        assert!(tokens(Tokenizer::Qgrams(3), "").is_empty());
    }

    #[test]
    fn words_are_lower_case_and_have_a_letter_or_digit() {
        assert_eq!(
            tokens(Tokenizer::Words, "The 3.14 _snake_ ___ can't... U.S.A. a:b 1,000 (x) 1:2"),
            ["the", "3.14", "_snake_", "can't", "u.s.a", "a:b", "1,000", "x", "1", "2"]
        );
        assert_eq!(tokens(Tokenizer::Words, "ÄRGER naïve Straße"), ["ärger", "naïve", "straße"]);
    }

    #[test]
    fn white_space_is_that_of_unicode() {
        assert_eq!(
            tokens(Tokenizer::Whitespace, " a\u{3000}b\t\u{b}c  é\u{a0}"),
            ["a", "b", "c", "é"]
        );
        assert_eq!(tokens(Tokenizer::Whitespace, "\r a \u{c}"), ["a"]);
        assert!(tokens(Tokenizer::Whitespace, " \t ").is_empty());
    }

    #[test]
    fn tokenizers_parse_from_their_names() {
        assert_eq!("words".parse::<Tokenizer>().unwrap(), Tokenizer::Words);
        assert_eq!("qgrams:3".parse::<Tokenizer>().unwrap(), Tokenizer::Qgrams(3));
        for wrong in ["", "word", "qgrams", "qgrams:", "qgrams:0", "qgrams:101", "qgrams:-1"] {
            let error = wrong.parse::<Tokenizer>().unwrap_err().to_string();
            assert!(error.contains("qgrams:Q with Q from 1 to 100"), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn ascii_words_are_unicode_words(
            text in prop_oneof!["[a-c0-2_.,:;' \\-]{0,24}", "[\\x00-\\x7f]{0,40}"]
        ) {
            let expected: Vec<String> =
                text.to_lowercase().unicode_words().map(str::to_owned).collect();
            prop_assert_eq!(tokens(Tokenizer::Words, &text), expected);
        }

        #[test]
        fn ascii_white_space_is_unicode_white_space(text in "[\\x00-\\x7f]{0,40}") {
            let expected: Vec<&str> = text.split_whitespace().collect();
            prop_assert_eq!(tokens(Tokenizer::Whitespace, &text), expected);
        }

        #[test]
        fn records_have_length_plus_q_minus_one_q_grams(text in "\\PC{1,20}", q in 1usize..9) {
            let grams = tokens(Tokenizer::Qgrams(q), &text);
            prop_assert_eq!(grams.len(), text.chars().count() + q - 1);
            prop_assert!(grams.iter().all(|gram| gram.chars().count() == q));
        }
    }
}
