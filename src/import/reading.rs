//! Reads the files of a path, each only as far as no checkpoint covers it.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::batch::Place;
use super::checkpoint::{Checkpoint, Hashed, Reading};
use super::facts::Facts;
use super::format::{self, Detected};
use super::lines::{self, Line, Lines};
use super::tee::Tee;
use super::walk::{self, Found};
use super::{Format, Importer, Progress, claude_code, codex, without_bom};
use crate::error::{Error, Result};

const READ_BYTES: usize = 256 << 10;
/// Number of bytes between two progress reports.
const PROGRESS_BYTES: u64 = 1 << 20;
const UNKNOWN_FORMAT: &str = "cannot tell which tool wrote this file: \
     name the format (--format claude-code or --format codex)";

/// Why reading a file stopped early.
pub(super) enum Stop {
    /// The rest of the file cannot be read. Other files may be readable.
    Source(Place, Error),
    Log(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Log(error)
    }
}

impl Importer<'_> {
    pub(super) fn folder(&mut self, folder: &Path) -> Result<()> {
        let sources = walk::sources(folder);
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
            self.run.skip_file(path, checkpoint.headings());
            self.bytes_done += checkpoint.bytes();
            self.show_progress(path, 0);
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
            let reading = match source {
                Some(source) => self
                    .checkpoints
                    .reading(path, (&mut file, source), self.format)?,
                None => Reading::Whole,
            };
            Ok((file, source, reading))
        });
        let (file, source, reading) = match opened {
            Ok(opened) => opened,
            Err(e) => {
                let place = self.run.open_file(path);
                return Err(Stop::Source(place, Error::io("read", path, e)));
            }
        };
        if let Reading::Unchanged(checkpoint) = reading {
            let place = self.run.skip_file(path, checkpoint.headings());
            self.bytes_done += checkpoint.bytes();
            self.show_progress(path, 0);
            self.checkpoints.add(path, place.file, *checkpoint);
            return Ok(());
        }
        let place = self.run.open_file(path);
        let mut hash = source.map(|_| Xxh3::new());
        let bytes = self.read(path, place, file, hash.as_mut())?;
        if let (Some(source), Some(hash)) = (source, hash) {
            let made = Checkpoint::new(source, self.format, bytes, hash.digest());
            self.checkpoints.add(path, place.file, made);
        }
        Ok(())
    }

    /// Imports bytes as if they were a file's content.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let place = self.run.open_file(path);
        let read = self.read(path, place, io::Cursor::new(bytes), None);
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

    /// Reads a file to its end. Returns the number of its bytes.
    fn read(
        &mut self,
        path: &Path,
        mut place: Place,
        mut file: impl Read + Seek,
        hash: Option<&mut Xxh3>,
    ) -> Result<u64, Stop> {
        let unreadable = |place, e| Stop::Source(place, Error::io("read", path, e));
        let mut head = Vec::new();
        let format = match self.format {
            Some(format) => Some(format),
            None => match self
                .detect(&mut file, &mut head)
                .map_err(|e| unreadable(place, e))?
            {
                Detected::Known(format) => Some(format),
                Detected::Empty => None,
                Detected::Unfinished => {
                    self.run.count_line(place);
                    self.run.unfinished(place);
                    None
                }
                Detected::Unknown => {
                    return Err(Stop::Source(place, Error::invalid(UNKNOWN_FORMAT)));
                }
            },
        };
        let file = Hashed::new(Cursor::new(head).chain(file), hash);
        self.run.count_file(place);
        self.show_progress(path, 0);
        let mut shown = 0;
        let mut parser = format.map(|format| Parser::new(format, path));
        let input = BufReader::with_capacity(READ_BYTES, file);
        let mut lines = Lines::new(input, self.line_bytes_max);
        while let Some(parser) = &mut parser {
            place.line = lines.number() + 1;
            let line = lines.read_next().map_err(|e| unreadable(place, e))?;
            let Some(line) = line else { break };
            self.line(place, &line, parser)?;
            if lines.bytes_read() - shown >= PROGRESS_BYTES {
                shown = lines.bytes_read();
                self.show_progress(path, shown);
            }
        }
        self.bytes_done += lines.bytes_read();
        self.show_progress(path, 0);
        Ok(lines.bytes_read())
    }

    /// Detects the format. A pipe cannot be rewound, so the bytes read from it are added to `head`.
    fn detect(&self, file: &mut (impl Read + Seek), head: &mut Vec<u8>) -> io::Result<Detected> {
        let line_bytes_max = self.line_bytes_max;
        if file.stream_position().is_err() {
            let tee = BufReader::new(Tee::new(file, head, line_bytes_max));
            return format::detect(&mut Lines::new(tee, line_bytes_max));
        }
        let input = BufReader::new(&mut *file);
        let detected = format::detect(&mut Lines::new(input, line_bytes_max))?;
        file.rewind()?;
        Ok(detected)
    }

    fn line(&mut self, place: Place, line: &Line<'_>, parser: &mut Parser) -> Result<()> {
        let is_last = matches!(line, Line::Last(_));
        let bytes = match line {
            Line::Whole(bytes) | Line::Last(bytes) => without_bom(bytes).trim_ascii(),
            Line::TooLong(bytes) => {
                self.run.count_line(place);
                let most = self.line_bytes_max;
                let reason = format!("the line has {bytes} bytes: at most {most} are read");
                self.run.broken(place, reason);
                return Ok(());
            }
        };
        if bytes.is_empty() {
            return Ok(());
        }
        self.run.count_line(place);
        let facts = match std::str::from_utf8(bytes) {
            Ok(text) => parser.read(place.line, text),
            Err(e) => Err(format!("not UTF-8 at byte {}", e.valid_up_to())),
        };
        match facts {
            Ok(facts) => self.run.take(place, facts),
            Err(_) if is_last && lines::is_unfinished(bytes) => {
                self.run.unfinished(place);
                Ok(())
            }
            Err(reason) => {
                self.run.broken(place, reason);
                Ok(())
            }
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

/// The parser of one file's lines.
enum Parser {
    ClaudeCode(claude_code::Session),
    Codex(codex::Rollout),
}

impl Parser {
    fn new(format: Format, path: &Path) -> Parser {
        match format {
            Format::ClaudeCode => Parser::ClaudeCode(claude_code::Session::of_file(path)),
            Format::Codex => Parser::Codex(codex::Rollout::new()),
        }
    }

    fn read<'a>(&mut self, number: u64, text: &'a str) -> Result<Facts<'a>, String> {
        match self {
            Parser::ClaudeCode(session) => claude_code::read(session, text),
            Parser::Codex(rollout) => rollout.read(number, text),
        }
    }
}
