//! Do the lengths and offsets in an Arrow IPC file fit the file?
//!
//! The Arrow decoder trusts some lengths in the data. These functions read the headers of all messages and check that
//! every block lies within the file and every buffer within its block, so that a damaged file causes an error and not a
//! crash.

use arrow_ipc::{Block, Message, MessageHeader, root_as_footer, root_as_message};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Returns whether a file has the file format of IPC rather than its stream format.
pub(crate) fn is_file_format(file: &mut File) -> std::io::Result<bool> {
    let mut magic = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(6).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(magic == b"ARROW1")
}

/// Checks a file in the file format of IPC.
pub(crate) fn check_file(file: &mut File, length: u64) -> Result<(), String> {
    if length < 20 {
        return Err("the file ends before its footer".into());
    }
    let tail = read_at(file, length, length - 10, 10)?;
    if &tail[4..] != b"ARROW1" {
        return Err("the footer is missing".into());
    }
    let footer_length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let start =
        (length - 10).checked_sub(footer_length).ok_or("the footer is longer than the file")?;
    let footer = read_at(file, length, start, footer_length)?;
    let footer = root_as_footer(&footer).map_err(|error| format!("invalid footer: {error}"))?;
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches());
    for block in blocks.flat_map(|blocks| blocks.iter().copied()) {
        check_block(file, length, &block)?;
    }
    Ok(())
}

fn check_block(file: &mut File, length: u64, block: &Block) -> Result<(), String> {
    let outside = "a block lies outside the file";
    let offset = u64::try_from(block.offset()).map_err(|_| outside)?;
    let metadata = u64::try_from(block.metaDataLength()).map_err(|_| outside)?;
    let body = u64::try_from(block.bodyLength()).map_err(|_| outside)?;
    let end = offset.checked_add(metadata).and_then(|end| end.checked_add(body)).ok_or(outside)?;
    if end > length || metadata < 8 {
        return Err(outside.into());
    }
    let header = read_at(file, length, offset, metadata)?;
    let start = if header.starts_with(&[0xFF; 4]) { 8 } else { 4 };
    let message =
        root_as_message(&header[start..]).map_err(|error| format!("invalid message: {error}"))?;
    check_message(file, length, &message, offset + metadata, body)
}

/// Checks a file in the stream format of IPC.
pub(crate) fn check_stream(file: &mut File, length: u64) -> Result<(), String> {
    let mut at = 0;
    while at < length {
        let mut prefix = read_at(file, length, at, 4)?;
        at += 4;
        if prefix == [0xFF; 4] {
            prefix = read_at(file, length, at, 4)?;
            at += 4;
        }
        let size = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]);
        if size == 0 {
            return Ok(());
        }
        let header = read_at(file, length, at, u64::from(size))?;
        at += u64::from(size);
        let message =
            root_as_message(&header).map_err(|error| format!("invalid message: {error}"))?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| "a negative length")?;
        let end = at.checked_add(body).filter(|&end| end <= length);
        let end = end.ok_or("the file ends too early")?;
        check_message(file, length, &message, at, body)?;
        at = end;
    }
    Ok(())
}

/// Checks a message. Its body begins at `start` and has `body` bytes.
fn check_message(
    file: &mut File,
    length: u64,
    message: &Message<'_>,
    start: u64,
    body: u64,
) -> Result<(), String> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => {
            message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
        }
        _ => return Ok(()),
    };
    let batch = batch.ok_or("a batch without content")?;
    if batch.length() < 0 {
        return Err("a negative number of rows".into());
    }
    for node in batch.nodes().into_iter().flatten() {
        if node.length() < 0 || node.null_count() < 0 || node.null_count() > node.length() {
            return Err("a column with an impossible length".into());
        }
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let outside = "a buffer lies outside its block";
        let offset = u64::try_from(buffer.offset()).map_err(|_| outside)?;
        let size = u64::try_from(buffer.length()).map_err(|_| outside)?;
        if offset.checked_add(size).is_none_or(|end| end > body) {
            return Err(outside.into());
        }
        if batch.compression().is_some() && size > 0 {
            check_compressed(file, length, start + offset, size)?;
        }
    }
    Ok(())
}

/// Checks the length after decompression with which a compressed buffer starts, because the decoder allocates memory for
/// it. A byte cannot become more than 32 768 bytes: zstd needs four bytes to repeat a byte 2¹⁷ times.
fn check_compressed(file: &mut File, length: u64, start: u64, size: u64) -> Result<(), String> {
    let prefix = read_at(file, length, start, size.min(8))?;
    let prefix: [u8; 8] = prefix.try_into().map_err(|_| "a compressed buffer without a length")?;
    match i64::from_le_bytes(prefix) {
        -1 => Ok(()),
        long if u64::try_from(long).is_ok_and(|long| long <= size.saturating_mul(1 << 15)) => {
            Ok(())
        }
        _ => Err("a compressed buffer with an impossible length".into()),
    }
}

fn read_at(file: &mut File, length: u64, offset: u64, size: u64) -> Result<Vec<u8>, String> {
    if offset.checked_add(size).is_none_or(|end| end > length) {
        return Err("the file ends too early".into());
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset)).map_err(|error| error.to_string())?;
    file.take(size).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 != size {
        return Err("the file ends too early".into());
    }
    Ok(bytes)
}
