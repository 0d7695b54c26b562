//! The lines of segments as Parquet: a row a line.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::layout::Piece;
use super::plan::{Planned, PlannedPiece};
use crate::error::Result;
use crate::line::{Op, Value, decode};
use crate::parquet_rows::{ParquetRows, column};
use crate::record::columns::{Cell, Column, ColumnType, Row, name_in_parquet};
use crate::record::declare::Fields as _;
use crate::record::{Kind, Record, each_type};
use crate::segment::seal::{Digest, read_through};
use crate::segment::{Fact, Span, scan};
use crate::storage::{Storage, StorageFile, io_error};
use crate::store::Store;

/// The columns of a line: the envelope, and then its fields.
fn columns(kind: Kind) -> Vec<Column> {
    let envelope = [
        column("seq", ColumnType::Integer, true),
        column("at", ColumnType::Time, true),
        column("op", ColumnType::Text, true),
    ];
    let fields = kind.line_columns().iter().map(|it| Column {
        name: name_in_parquet(it.name),
        is_required: false,
        ..*it
    });
    envelope.into_iter().chain(fields).collect()
}

/// Writes the lines of an object as Parquet.
pub(super) fn write(
    store: &Store,
    planned: &Planned,
    out: impl io::Write + Send,
    done: &AtomicU64,
) -> Result<Vec<Piece>> {
    let storage = store.inner().storage();
    let mut rows = ParquetRows::new(out, &columns(planned.kind), &[1, 0])?;
    let mut pieces = Vec::with_capacity(planned.pieces.len());
    for piece in &planned.pieces {
        let file = piece.segment.open(storage)?;
        pieces.push(hashed(storage, &*file, piece)?);
        push_lines(storage, &*file, piece, &mut rows)?;
        done.fetch_add(piece.to - piece.from, Ordering::Relaxed);
    }
    rows.end()?;
    Ok(pieces)
}

fn hashed(storage: &dyn Storage, file: &dyn StorageFile, piece: &PlannedPiece) -> Result<Piece> {
    let path = piece.segment.name.path();
    let (mut hash, mut lines, mut len) = (Sha256::new(), 0, 0);
    let read = read_through(file, piece.from, piece.to - piece.from, &mut |bytes| {
        hash.update(bytes);
        lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        len += bytes.len() as u64;
    });
    read.map_err(|e| io_error(storage, "read the segment", &path, e))?;
    if len < piece.to - piece.from {
        return Err(piece.segment.rewritten());
    }
    Ok(Piece {
        from: piece.from,
        to: piece.to,
        lines,
        sha256: Digest(hash.finalize().into()),
        sealed: piece.segment.seal.is_some(),
        tail_crc: piece.segment.tail_crc(storage, piece.to)?,
        file: path,
    })
}

fn push_lines<W: io::Write + Send>(
    storage: &dyn Storage,
    file: &dyn StorageFile,
    piece: &PlannedPiece,
    rows: &mut ParquetRows<W>,
) -> Result<()> {
    let (name, mut failed) = (piece.segment.name, None);
    let span = Span {
        from: piece.from,
        stop: piece.to,
        until: piece.to,
    };
    let scanned = scan(file, name.kind, span, &mut |line| {
        line.facts(name.kind, &mut |fact: Fact<'_>| {
            if failed.is_none() {
                failed = push_line(name.kind, &fact, rows).err();
            }
        });
    });
    scanned.map_err(|e| io_error(storage, "read the segment", &name.path(), e))?;
    failed.map_or(Ok(()), Err)
}

fn push_line<W: io::Write + Send>(
    kind: Kind,
    fact: &Fact<'_>,
    rows: &mut ParquetRows<W>,
) -> Result<()> {
    // Whatever is no record is no fact.
    let Ok(decoded) = decode(kind, fact.bytes) else {
        return Ok(());
    };
    let mut row = Row::new(kind);
    match &decoded.record {
        // A field of the line repeats its time.
        Record::ProposalStep(step) => step.stored().write(&mut row)?,
        record => each_type!(record, it => it.write(&mut row))?,
    }
    // What an outcome and a claim repeat of other lines.
    let at = Cell::Time(fact.envelope.at.saturating_mul(1_000));
    match (kind, decoded.op) {
        (Kind::ToolCalls, Op::Completed | Op::Failed) => {
            let parent_id = fact.envelope.lookups[0]
                .as_ref()
                .and_then(|value| Uuid::try_parse_ascii(value.text(&mut [0; Value::BYTES])).ok());
            if let Some(id) = parent_id {
                row.set("parent_id", Cell::Uuid(id));
            }
        }
        (Kind::Inbox, Op::InProgress) => row.set("locked_at", at.clone()),
        _ => {}
    }
    let mut cells = vec![
        Cell::Unsigned(fact.envelope.seq),
        at,
        Cell::Text(decoded.op.as_str().to_owned()),
    ];
    let fields = kind.line_columns().len();
    cells.extend(row.into_cells().into_iter().take(fields));
    rows.push((fact.envelope.at, fact.envelope.seq), cells)
}
