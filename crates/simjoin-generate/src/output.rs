//! How do lines get to the receiver?
//!
//! Lines are collected in blocks of whole lines, so that the receiver is called rarely.

use simjoin_core::Result;

const BLOCK_BYTES: usize = 256 << 10;

/// Collects lines for a receiver.
pub(crate) struct Lines<'a> {
    buffer: Vec<u8>,
    receiver: &'a mut dyn FnMut(&[u8]) -> Result<()>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(receiver: &'a mut dyn FnMut(&[u8]) -> Result<()>) -> Self {
        Lines { buffer: Vec::with_capacity(BLOCK_BYTES + (16 << 10)), receiver }
    }

    /// Adds a token and a space after it.
    #[inline]
    pub(crate) fn token(&mut self, token: &[u8]) {
        self.buffer.extend_from_slice(token);
        self.buffer.push(b' ');
    }

    /// Ends a line of tokens: the space after the last one becomes the line's end.
    #[inline]
    pub(crate) fn end_tokens(&mut self, empty: bool) -> Result<()> {
        if !empty {
            self.buffer.pop();
        }
        self.end()
    }

    /// Adds a whole line.
    pub(crate) fn line(&mut self, characters: impl Iterator<Item = char>) -> Result<()> {
        for character in characters {
            let mut bytes = [0; 4];
            self.buffer.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
        }
        self.end()
    }

    #[inline]
    fn end(&mut self) -> Result<()> {
        self.buffer.push(b'\n');
        if self.buffer.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Passes the rest to the receiver.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            (self.receiver)(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
