//! How are JSON lines read?
//!
//! Each line is one object. The record is a string, or for white-space tokens an array of strings and integers, whose
//! elements are the tokens (an integer is its decimal text). A null record has no tokens. The id is a string or an
//! integer. Blank lines are errors, because skipping them would shift row numbers.
//!
//! If the user names no column, the first object must have exactly one key other than the id, which is the column.

use super::lines::{LineBlock, LineCutter};
use super::{Columns, name_list};
use crate::block::BlockBuilder;
use crate::dictionary::Place;
use crate::pipeline::{Block, BlockReader};
use crate::source::Source;
use crate::tokenize::Tokenizer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use simjoin_core::Result;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Reads one JSON object per line.
pub(crate) struct Reader<'a> {
    lines: LineCutter<'a>,
    columns: Columns,
    names: Option<Arc<Names>>,
}

/// The keys to read.
struct Names {
    column: String,
    id: Option<String>,
}

struct JsonBlock {
    lines: LineBlock,
    names: Arc<Names>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: Source<'a>, columns: Columns, block_bytes: usize) -> Self {
        Reader { lines: LineCutter::new(source, block_bytes), columns, names: None }
    }

    /// Returns the keys to read; finds them in the first line if the user named no column.
    fn names(&self, block: &LineBlock) -> Result<Names> {
        let id = self.columns.id.clone();
        if let Some(column) = self.columns.column.clone() {
            return Ok(Names { column, id });
        }
        // An invalid first line is reported when the block is tokenized, so any name will do.
        let keys = block.first().and_then(|line| keys(line).ok()).unwrap_or_default();
        if keys.is_empty() {
            return Ok(Names { column: String::new(), id });
        }
        let (column, _) = self.columns.find(block.name(), &keys)?;
        Ok(Names { column: keys[column].clone(), id })
    }
}

impl BlockReader for Reader<'_> {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        let Some(lines) = self.lines.next()? else { return Ok(None) };
        let names = match &self.names {
            Some(names) => names.clone(),
            None => self.names.insert(Arc::new(self.names(&lines)?)).clone(),
        };
        Ok(Some(Box::new(JsonBlock { lines, names })))
    }

    fn place(&self) -> Place {
        Place::Line
    }
}

impl Block for JsonBlock {
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()> {
        self.lines.for_each(|line, number| {
            self.object(line, number, builder).map_err(|message| self.lines.error(number, message))
        })
    }
}

impl JsonBlock {
    fn object(
        &self,
        line: &str,
        number: u64,
        builder: &mut BlockBuilder,
    ) -> std::result::Result<(), String> {
        if line.trim_ascii().is_empty() {
            return Err("a blank line; one JSON object per line was expected".into());
        }
        let mut json = serde_json::Deserializer::from_str(line);
        let (column, id) = ObjectSeed(&self.names)
            .deserialize(&mut json)
            .and_then(|found| json.end().map(|()| found))
            .map_err(|error| syntax(&error))?;
        let name = &self.names.column;
        let value = column.ok_or_else(|| missing(line, name))?.get();
        match value.as_bytes() {
            [b'"', ..] => builder.record(&string(value)?),
            [b'[', ..] if builder.tokenizer() == Tokenizer::Whitespace => {
                array(name, value, builder)?;
            }
            // A null record has no tokens.
            [b'n', ..] => {}
            _ => {
                let expected = if builder.tokenizer() == Tokenizer::Whitespace {
                    "a string or an array of strings or integers"
                } else {
                    "a string"
                };
                return Err(format!("`{name}` is {}; {expected} was expected", kind(value)));
            }
        }
        if let Some(name) = &self.names.id {
            let value = id.ok_or_else(|| missing(line, name))?.get();
            match value.as_bytes() {
                [b'"', ..] => builder.id(&string(value)?, false, number),
                [b'n', ..] => return Err(format!("the id `{name}` is null; a value was expected")),
                _ => match integer(value) {
                    Some(integer) => builder.id(integer, true, number),
                    None => {
                        return Err(format!(
                            "the id `{name}` is {}; a string or an integer was expected",
                            kind(value)
                        ));
                    }
                },
            }
        }
        builder.end_row();
        Ok(())
    }
}

fn array(name: &str, value: &str, builder: &mut BlockBuilder) -> std::result::Result<(), String> {
    let elements: Vec<&RawValue> = serde_json::from_str(value).map_err(|error| syntax(&error))?;
    for (at, element) in elements.iter().enumerate() {
        let element = element.get();
        match element.as_bytes() {
            [b'"', ..] => builder.token(string(element)?.as_bytes()),
            _ => match integer(element) {
                Some(integer) => builder.token(integer.as_bytes()),
                None => {
                    return Err(format!(
                        "element {at} of `{name}` is {}; a string or an integer was expected",
                        kind(element)
                    ));
                }
            },
        }
    }
    Ok(())
}

/// Returns the text of a well-formed JSON string.
fn string(json: &str) -> std::result::Result<Cow<'_, str>, String> {
    let inner = json.get(1..json.len() - 1).unwrap_or_default();
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(json).map(Cow::Owned).map_err(|error| syntax(&error))
}

/// Returns the decimal text of a JSON integer; nothing for fractions, exponents and other values.
fn integer(json: &str) -> Option<&str> {
    let digits = json.strip_prefix('-').unwrap_or(json);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer.then_some(if json == "-0" { "0" } else { json })
}

fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ if integer(json).is_some() => "an integer",
        _ => "a number with a fraction or an exponent",
    }
}

fn missing(line: &str, name: &str) -> String {
    match keys(line) {
        Ok(keys) if !keys.is_empty() => {
            format!("the key `{name}` is missing; the object has the keys {}", name_list(&keys))
        }
        _ => format!("the key `{name}` is missing; the object is empty"),
    }
}

/// Rewrites a message of serde_json, whose line number is wrong because each line is parsed alone.
fn syntax(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    if error.is_data() {
        format!("{reason}; one JSON object per line was expected")
    } else {
        format!("invalid JSON at byte {}: {reason}", error.column())
    }
}

/// Picks the values of the wanted keys. If a key occurs twice, the last value counts.
struct ObjectSeed<'a>(&'a Names);

type Found<'de> = (Option<&'de RawValue>, Option<&'de RawValue>);

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        json: D,
    ) -> std::result::Result<Found<'de>, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Found<'de>, M::Error> {
        let mut found = (None, None);
        while let Some((is_column, is_id)) = map.next_key_seed(KeySeed(self.0))? {
            if !is_column && !is_id {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            if is_column {
                found.0 = Some(value);
            }
            if is_id {
                found.1 = Some(value);
            }
        }
        Ok(found)
    }
}

/// Compares a key with the wanted names without copying it.
struct KeySeed<'a>(&'a Names);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = (bool, bool);

    fn deserialize<D: Deserializer<'de>>(
        self,
        json: D,
    ) -> std::result::Result<(bool, bool), D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = (bool, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> std::result::Result<(bool, bool), E> {
        Ok((key == self.0.column, self.0.id.as_deref() == Some(key)))
    }
}

/// Returns the different keys of an object, in order.
fn keys(line: &str) -> serde_json::Result<Vec<String>> {
    struct Keys;

    impl<'de> Visitor<'de> for Keys {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(
            self,
            mut map: M,
        ) -> std::result::Result<Vec<String>, M::Error> {
            let mut keys: Vec<String> = Vec::new();
            let mut seen = HashSet::new();
            while let Some((key, IgnoredAny)) = map.next_entry::<String, _>()? {
                if seen.insert(key.clone()) {
                    keys.push(key);
                }
            }
            Ok(keys)
        }
    }

    serde_json::Deserializer::from_str(line).deserialize_map(Keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_decimal_text() {
        for (json, expected) in [
            ("12", Some("12")),
            ("-7", Some("-7")),
            ("-0", Some("0")),
            ("123456789012345678901234567890", Some("123456789012345678901234567890")),
            ("1.0", None),
            ("1e3", None),
            ("true", None),
            ("null", None),
        ] {
            assert_eq!(integer(json), expected, "{json}");
        }
    }

    #[test]
    fn strings_are_read_with_and_without_escapes() {
        assert_eq!(string(r#""plain é""#).unwrap(), "plain é");
        assert_eq!(string(r#""a\tb\u00e9\"""#).unwrap(), "a\tbé\"");
        assert_eq!(string(r#""""#).unwrap(), "");
    }
}
