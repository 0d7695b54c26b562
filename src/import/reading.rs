//! Reads the files of a path, each only as far as no checkpoint covers it.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::agent::{LineReader, Reader, Whole, WholeReader};
use super::batch::Place;
use super::checkpoint::{Checkpoint, Hashed, Reading, State};
use super::facts::Facts;
use super::format::{self, Detected, HEAD_BYTES};
use super::lines::{self, Chunk, Line, Lines};
use super::run::KeptLines;
use super::tee::Tee;
use super::walk::{self, Found};
use super::{Format, Importer, Progress, without_bom};
use crate::error::{Error, Result};

const READ_BYTES: usize = 256 << 10;
/// Number of bytes of lines that are parsed before the log is asked what it has of them. It is
/// asked once for all, since a reader waits while a batch is written.
const CHUNK_BYTES: usize = 512 << 10;
/// Number of bytes between two progress reports.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Why reading a file stopped early.
pub(super) enum Stop {
    /// The rest of the file cannot be read. Other files may be readable.
    Source(Place, Error),
    Log(Error),
}

/// A parsed line.
enum Item<'a> {
    Empty,
    Facts(Vec<Facts<'a>>),
    Unfinished,
    /// With the reason.
    Broken(String),
}

/// How a file is read from its start.
enum Start {
    Lines(Position),
    /// With the bytes that were already read.
    Whole(WholeReader, Vec<u8>),
}

/// A position between two lines of a file.
struct Position {
    /// Bytes after it that were already read.
    head: Vec<u8>,
    /// The number of lines and bytes before it.
    number: u64,
    bytes: u64,
    /// The format of the file and the reader of the lines after it; `None` if there are none that
    /// can be read.
    reader: Option<(Format, Box<dyn LineReader>)>,
    /// Whether no bytes can be added to the line before it.
    is_end_of_line: bool,
}

impl Position {
    /// The state to keep, so that later lines can be read from here.
    fn state(self, lines: Option<KeptLines>) -> Option<State> {
        let (format, reader) = self.reader.filter(|_| self.is_end_of_line)?;
        Some(State {
            number: self.number,
            format: format.as_str().to_owned(),
            reader: reader.state()?,
            lines: lines?,
        })
    }
}

/// The reader of the lines after a state.
fn reader_at(path: &Path, state: &State) -> Option<(Format, Box<dyn LineReader>)> {
    let format: Format = state.format.parse().ok()?;
    match format.agent().reader(path, Some(&state.reader))? {
        Reader::Lines(reader) => Some((format, reader)),
        Reader::Whole(_) => None,
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Log(error)
    }
}

impl Importer<'_> {
    pub(super) fn folder(&mut self, folder: &Path) -> Result<()> {
        let sources = walk::sources(folder, self.format);
        self.bytes_total = sources.iter().map(Found::bytes).sum();
        for source in sources {
            match source {
                Found::File { path, metadata } => match self.file(&path, &metadata) {
                    Ok(()) => {}
                    Err(Stop::Source(place, error)) => self.run.broken(place, error.to_string()),
                    Err(Stop::Log(error)) => return Err(error),
                },
                Found::Refused { path, reason } => {
                    let place = self.run.open_file(&path);
                    self.run.broken(place, reason);
                }
            }
        }
        Ok(())
    }

    pub(super) fn file(&mut self, path: &Path, metadata: &Metadata) -> Result<(), Stop> {
        let source = self.checkpoints.source(path, metadata);
        let unchanged =
            source.and_then(|source| self.checkpoints.unchanged(path, &source, self.format));
        if let Some(checkpoint) = unchanged {
            self.skip(path, &checkpoint.clone());
            return Ok(());
        }
        let read = self.read_file(path);
        // Also after a read error: the lines read before it are kept.
        if !matches!(read, Err(Stop::Log(_))) {
            self.run.end_file();
        }
        read
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Stop> {
        let opened = File::open(path).and_then(|mut file| {
            let source = self.checkpoints.source(path, &file.metadata()?);
            let reading = source.map(|source| {
                let file = (&mut file, source);
                self.checkpoints.reading(path, file, self.format)
            });
            Ok((file, source, reading.unwrap_or(Ok(Reading::Whole))?))
        });
        let (mut file, source, reading) = match opened {
            Ok(opened) => opened,
            Err(e) => {
                let place = self.run.open_file(path);
                return Err(Stop::Source(place, Error::io("read", path, e)));
            }
        };
        let keeps_state = |source| self.checkpoints.keeps_state(path, source, self.format);
        if source.as_ref().is_some_and(keeps_state) {
            self.run.keep_lines();
        }
        let (place, mut hash, start) = match reading {
            Reading::Unchanged(checkpoint) => {
                let place = self.skip(path, &checkpoint);
                self.checkpoints.add(path, place.file, *checkpoint, None);
                return Ok(());
            }
            Reading::Rest(rest) => {
                let place = self.run.open_file(path);
                let reader = reader_at(path, &rest.state);
                if let Some((format, _)) = &reader {
                    self.run.set_format(place, *format);
                }
                self.run.recall_headings(place, rest.checkpoint.headings());
                self.run.recall_lines(place, rest.state.lines);
                let start = Position {
                    head: Vec::new(),
                    number: rest.state.number,
                    bytes: rest.checkpoint.bytes(),
                    reader,
                    is_end_of_line: true,
                };
                (place, Some(rest.hash), start)
            }
            Reading::Whole => {
                let place = self.run.open_file(path);
                match self.start(path, place, &mut file)? {
                    Start::Lines(start) => (place, source.map(|_| Xxh3::new()), start),
                    Start::Whole(read, head) => {
                        let mut hash = source.map(|_| Xxh3::new());
                        let input = Hashed::new(file, hash.as_mut());
                        let mut input = Cursor::new(head).chain(input);
                        let cursor = self.whole(path, place, &mut input, read)?;
                        if let (Some(source), Some(hash)) = (source, hash) {
                            let len = source.len();
                            let checkpoint =
                                Checkpoint::new(source, self.format, len, hash.digest());
                            let is_open = self.run.is_unfinished(place);
                            let checkpoint = checkpoint.with_cursor(cursor, is_open);
                            self.checkpoints.add(path, place.file, checkpoint, None);
                        }
                        return Ok(());
                    }
                }
            }
        };
        let end = self.lines(path, place, Hashed::new(file, hash.as_mut()), start)?;
        let (Some(source), Some(hash)) = (source, hash) else {
            return Ok(());
        };
        let checkpoint = Checkpoint::new(source, self.format, end.bytes, hash.digest());
        let state = end.state(self.run.kept_lines());
        self.checkpoints
            .add(path, place.file, checkpoint, state.as_ref());
        Ok(())
    }

    /// Skips a file that did not change.
    fn skip(&mut self, path: &Path, checkpoint: &Checkpoint) -> Place {
        let place = self.run.skip_file(path, checkpoint.headings());
        self.bytes_done += checkpoint.bytes();
        self.show_progress(path, 0);
        place
    }

    /// Imports bytes as if they were a file's content.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let place = self.run.open_file(path);
        let mut input = Cursor::new(bytes);
        let read = match self.start(path, place, &mut input) {
            Ok(Start::Lines(start)) => self.lines(path, place, input, start).map(drop),
            Ok(Start::Whole(read, _)) => self.whole(path, place, &mut input, read).map(drop),
            Err(stop) => Err(stop),
        };
        if let Err(Stop::Log(error)) = read {
            return Err(error);
        }
        self.run.end_file();
        self.run.settle()?;
        match read {
            Err(Stop::Source(_, error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// How to read a file from its start.
    fn start(
        &mut self,
        path: &Path,
        place: Place,
        file: &mut (impl Read + Seek),
    ) -> Result<Start, Stop> {
        let mut head = Vec::new();
        let detected = match self.format {
            Some(format) => Ok(Detected::Known(format)),
            None => self.detect(path, file, &mut head),
        };
        let detected = detected.map_err(|e| Stop::Source(place, Error::io("read", path, e)))?;
        let reader = match detected {
            Detected::Known(format) => {
                self.run.set_format(place, format);
                match format.agent().reader(path, None) {
                    Some(Reader::Lines(reader)) => Some((format, reader)),
                    Some(Reader::Whole(read)) => return Ok(Start::Whole(read, head)),
                    None => None,
                }
            }
            Detected::Empty => None,
            Detected::Unfinished => {
                self.run.count_line(place);
                self.run.unfinished(place);
                None
            }
            Detected::Unknown => {
                return Err(Stop::Source(place, format::unknown()));
            }
        };
        Ok(Start::Lines(Position {
            head,
            number: 0,
            bytes: 0,
            reader,
            is_end_of_line: true,
        }))
    }

    /// Reads a file as a whole. Returns how far a database was read.
    fn whole(
        &mut self,
        path: &Path,
        place: Place,
        input: &mut dyn Read,
        read: WholeReader,
    ) -> Result<Option<String>, Stop> {
        self.run.count_file(place);
        self.show_progress(path, 0);
        let known = self.checkpoints.read_before(path, self.format);
        let cursor = known.map(|(cursor, headings)| {
            self.run.recall_headings(place, headings);
            cursor.to_owned()
        });
        let mut whole = Whole::new(path, input, &mut self.run, place, cursor);
        let is_read = read(&mut whole);
        let cursor = whole.finish()?;
        if let Err(reason) = is_read {
            self.run.broken(place, reason);
        }
        self.bytes_done += fs::metadata(path).map_or(0, |it| it.len());
        self.show_progress(path, 0);
        Ok(cursor)
    }

    /// Reads the lines of a file from a position to its end.
    fn lines(
        &mut self,
        path: &Path,
        mut place: Place,
        file: impl Read,
        from: Position,
    ) -> Result<Position, Stop> {
        self.run.count_file(place);
        self.show_progress(path, from.bytes);
        let mut shown = from.bytes;
        let mut reader = from.reader;
        let mut is_end_of_line = from.is_end_of_line;
        let input = Cursor::new(from.head).chain(file);
        let input = BufReader::with_capacity(READ_BYTES, input);
        let lines = Lines::new(input, self.line_bytes_max);
        let mut lines = lines.after(from.number, from.bytes);
        let mut chunk = Chunk::default();
        while let Some((_, reader)) = &mut reader {
            place.line = lines.number() + 1;
            chunk.clear();
            let mut stop = None;
            while chunk.len() < CHUNK_BYTES {
                match lines.read_next() {
                    Ok(Some(line)) => {
                        is_end_of_line = matches!(line, Line::Whole(_));
                        chunk.add(&line);
                    }
                    Ok(None) => break,
                    Err(e) => {
                        let place = Place {
                            line: lines.number() + 1,
                            ..place
                        };
                        stop = Some(Stop::Source(place, Error::io("read", path, e)));
                        break;
                    }
                }
            }
            if !self.chunk(place, &chunk, &mut **reader)? && stop.is_none() {
                break;
            }
            stop.map_or(Ok(()), Err)?;
            if lines.bytes_read() - shown >= PROGRESS_BYTES {
                shown = lines.bytes_read();
                self.show_progress(path, shown);
            }
        }
        self.bytes_done += lines.bytes_read();
        self.show_progress(path, 0);
        Ok(Position {
            head: Vec::new(),
            number: lines.number(),
            bytes: lines.bytes_read(),
            reader,
            is_end_of_line,
        })
    }

    /// Detects the format. A pipe cannot be rewound, so the bytes read from it are added to `head`.
    fn detect(
        &self,
        path: &Path,
        file: &mut (impl Read + Seek),
        head: &mut Vec<u8>,
    ) -> io::Result<Detected> {
        let line_bytes_max = self.line_bytes_max;
        if file.stream_position().is_err() {
            let tee = BufReader::new(Tee::new(file, head, line_bytes_max));
            let detected = format::of_lines(&mut Lines::new(tee, line_bytes_max))?;
            return Ok(match (detected, format::of_file(path, head)) {
                (Detected::Unknown | Detected::Unfinished, Some(format)) => Detected::Known(format),
                (detected, _) => detected,
            });
        }
        let mut start = Vec::with_capacity(HEAD_BYTES);
        file.by_ref()
            .take(HEAD_BYTES as u64)
            .read_to_end(&mut start)?;
        file.rewind()?;
        if let Some(format) = format::of_file(path, &start) {
            return Ok(Detected::Known(format));
        }
        let input = BufReader::new(&mut *file);
        let detected = format::of_lines(&mut Lines::new(input, line_bytes_max))?;
        file.rewind()?;
        Ok(detected)
    }

    /// Imports the lines of a chunk, the first of which is at this place. Returns whether there are
    /// any.
    fn chunk(
        &mut self,
        mut place: Place,
        chunk: &Chunk,
        reader: &mut dyn LineReader,
    ) -> Result<bool> {
        let mut items = Vec::new();
        for line in chunk.iter() {
            items.push((place, self.item(&line, place.line, reader)));
            place.line += 1;
        }
        let facts = items.iter().filter_map(|(_, item)| match item {
            Item::Facts(facts) => Some(facts),
            _ => None,
        });
        self.run.look_up(facts.flatten())?;
        let is_any = !items.is_empty();
        for (place, item) in items {
            if !matches!(item, Item::Empty) {
                self.run.count_line(place);
            }
            match item {
                Item::Empty => {}
                Item::Facts(facts) => {
                    for facts in facts {
                        self.run.take(place, facts)?;
                    }
                }
                Item::Unfinished => self.run.unfinished(place),
                Item::Broken(reason) => self.run.broken(place, reason),
            }
        }
        Ok(is_any)
    }

    /// Parses a line.
    fn item<'t>(&self, line: &Line<'t>, number: u64, reader: &mut dyn LineReader) -> Item<'t> {
        let is_last = matches!(line, Line::Last(_));
        let bytes = match line {
            Line::Whole(bytes) | Line::Last(bytes) => without_bom(bytes).trim_ascii(),
            Line::TooLong(bytes) => {
                let most = self.line_bytes_max;
                return Item::Broken(format!(
                    "the line has {bytes} bytes: at most {most} are read"
                ));
            }
        };
        if bytes.is_empty() {
            return Item::Empty;
        }
        let facts = match std::str::from_utf8(bytes) {
            Ok(text) => reader.read(number, text),
            Err(e) => Err(format!("not UTF-8 at byte {}", e.valid_up_to())),
        };
        match facts {
            Ok(facts) => Item::Facts(facts),
            Err(_) if is_last && lines::is_unfinished(bytes) => Item::Unfinished,
            Err(reason) => Item::Broken(reason),
        }
    }

    fn show_progress(&mut self, file: &Path, bytes_in_file: u64) {
        if let Some(call) = &mut self.on_progress {
            call(&Progress {
                file,
                bytes_done: self.bytes_done + bytes_in_file,
                bytes_total: self.bytes_total,
            });
        }
    }
}
