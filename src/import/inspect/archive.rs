//! Logs as zip archives: a header, and an entry for each sample and epoch.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::DeflateDecoder;
use ruzstd::decoding::StreamingDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::{Eval, Items, SAMPLE_BYTES_MAX, is_archive, shape, text};
use crate::import::agent::Whole;
use crate::import::json;

/// Written when the evaluation ends.
const HEADER: &str = "header.json";
/// What of the header is known from the start.
const START: &str = "_journal/start.json";
/// The record at the end of an archive, without its comment.
const END: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
/// Maximum size of that record with its comment.
const END_BYTES_MAX: u64 = END_BYTES as u64 + u16::MAX as u64;

/// The file, if it is an archive. It may be larger than what is held in memory.
pub(super) fn file(path: &Path) -> Option<BufReader<File>> {
    let mut file = BufReader::new(File::open(path).ok()?);
    let is_file = file.get_ref().metadata().is_ok_and(|it| it.is_file());
    (is_file && is_archive(file.fill_buf().ok()?)).then_some(file)
}

pub(super) fn read<R: Read + Seek>(whole: &mut Whole<'_, '_>, mut input: R) -> Result<(), String> {
    if !has_end(&mut input).map_err(|e| format!("cannot read: {e}"))? {
        whole.unfinished();
        return Ok(());
    }
    let mut archive =
        ZipArchive::new(input).map_err(|e| format!("cannot read the archive: {e}"))?;
    let header = archive.index_for_name(HEADER);
    if header.is_none() {
        whole.unfinished();
    }
    let header = header.or_else(|| archive.index_for_name(START));
    let header = header.ok_or("no log of Inspect: it has no header")?;
    let header = entry(&mut archive, header)?;
    let log: Option<shape::Log<'_>> = json::object(&header)?;
    let eval = Eval::of(log.unwrap_or_default().eval)?;
    let mut items = Items::new(whole);
    for index in 0..archive.len() {
        let name = archive.name_for_index(index).and_then(Result::ok);
        let name = name.filter(|name| name.starts_with("samples/") && name.ends_with(".json"));
        let Some(name) = name.map(std::borrow::Cow::into_owned) else {
            continue;
        };
        match entry(&mut archive, index) {
            Ok(text) => items.sample(&eval, &text),
            Err(reason) => items.take(Err(format!("{name}: {reason}"))),
        }
        if items.whole.is_stopped() {
            break;
        }
    }
    Ok(())
}

/// Whether the archive has an end: a program writes it last.
fn has_end<R: Read + Seek>(input: &mut R) -> std::io::Result<bool> {
    let len = input.seek(SeekFrom::End(0))?;
    input.seek(SeekFrom::Start(len.saturating_sub(END_BYTES_MAX)))?;
    let mut tail = Vec::new();
    input.take(END_BYTES_MAX).read_to_end(&mut tail)?;
    input.rewind()?;
    let end = memchr::memmem::rfind(&tail, END);
    Ok(end.is_some_and(|end| end + END_BYTES <= tail.len()))
}

/// The JSON of an entry. No more is held than the size that the directory states, which is limited.
fn entry<R: Read + Seek>(archive: &mut ZipArchive<R>, index: usize) -> Result<String, String> {
    let file = archive.by_index_raw(index).map_err(|e| e.to_string())?;
    let (size, checksum, method) = (file.size(), file.crc32(), file.compression());
    if size > SAMPLE_BYTES_MAX {
        return Err(format!(
            "it has {size} bytes: the maximum is {SAMPLE_BYTES_MAX} bytes"
        ));
    }
    let mut bytes = Vec::new();
    let read = match method {
        CompressionMethod::STORE => file.take(size + 1).read_to_end(&mut bytes),
        CompressionMethod::DEFLATE => DeflateDecoder::new(file)
            .take(size + 1)
            .read_to_end(&mut bytes),
        CompressionMethod::ZSTD => frames(BufReader::new(file), size + 1, &mut bytes),
        other => return Err(format!("the compression {other} is not known")),
    };
    read.map_err(|e| format!("cannot decompress: {e}"))?;
    if bytes.len() as u64 != size || crc32fast::hash(&bytes) != checksum {
        return Err("damaged: its size or checksum is not the stated one".to_owned());
    }
    text(bytes)
}

/// Decompresses frames of zstd, one after the other, up to a maximum of bytes.
fn frames(mut input: impl BufRead, max: u64, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
    while !input.fill_buf()?.is_empty() && (bytes.len() as u64) < max {
        let frame = StreamingDecoder::new(&mut input).map_err(std::io::Error::other)?;
        let room = max - bytes.len() as u64;
        frame.take(room).read_to_end(bytes)?;
    }
    Ok(bytes.len())
}
