//! The names of objects, and the manifests that say what is in them.

use std::collections::{BTreeMap, BTreeSet};

use object_store::path::Path;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::segment::seal::Digest;
use crate::ship::Format;

/// The version of the layout.
pub(super) const LAYOUT: u32 = 1;

/// Engines ignore names that begin with an underscore.
pub(super) const ROOT: &str = "_decklog";

/// Maximum size of the lines of a day, in bytes: 4 TiB. There are fewer than 2^22 days, so sums over
/// the days of a store do not overflow.
const DAY_BYTES_MAX: u64 = u64::MAX >> 22;

/// What is there of a store: `_decklog/store=<id>/store.json`. It is replaced last, so what it
/// names is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoreState {
    /// The version of the layout.
    pub layout: u32,
    pub store_id: Uuid,
    pub format: Format,
    /// Another one each time it is written.
    #[serde(default)]
    pub version: Uuid,
    /// When it was written, in epoch milliseconds.
    pub at: i64,
    /// The greatest sequence number of the log at the point that was copied.
    pub last_seq: u64,
    /// The number of the last seal at that point, 0 if there was none.
    pub last_seal: u64,
    /// The store's other files, by name.
    #[serde(default)]
    pub files: BTreeMap<String, FileEntry>,
    /// By day.
    #[serde(default)]
    pub days: BTreeMap<String, DayEntry>,
    /// By day, what a run that has not come to its end has written. The next run uses it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prepared: BTreeMap<String, DayEntry>,
    /// Days that may have objects which no manifest names. The next run removes these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unfinished: BTreeSet<String>,
}

impl StoreState {
    pub(super) fn new(store_id: Uuid, format: Format) -> StoreState {
        StoreState {
            layout: LAYOUT,
            store_id,
            format,
            version: Uuid::nil(),
            at: 0,
            last_seq: 0,
            last_seal: 0,
            files: BTreeMap::new(),
            days: BTreeMap::new(),
            prepared: BTreeMap::new(),
            unfinished: BTreeSet::new(),
        }
    }
}

impl StoreState {
    /// What is there of a day: what a run that has not come to its end has written, then what is
    /// named.
    pub(super) fn of_day(&self, day: &str) -> impl Iterator<Item = &DayEntry> {
        [&self.prepared, &self.days]
            .into_iter()
            .filter_map(move |days| days.get(day))
    }

    /// What is wrong with it. Names come from elsewhere, and become paths of files and objects.
    pub(super) fn flaw(&self, store_id: Uuid) -> Option<String> {
        if self.store_id != store_id {
            return Some(format!("it is of store {}", self.store_id));
        }
        let is_file = |name: &String| {
            let rest = name.strip_prefix("quarantine/");
            let is_plain = |rest: &str| !rest.contains(['/', '\\']) && !rest.starts_with('.');
            rest.is_some_and(is_plain)
                || ["decklog.json", "removals.jsonl", "access.json"].contains(&&**name)
        };
        if let Some(name) = self.files.keys().find(|name| !is_file(name)) {
            return Some(format!("{name:?} is no file of a store"));
        }
        let days = self.days.keys().chain(self.prepared.keys());
        let mut days = days.chain(&self.unfinished);
        let bad = days.find(|day| day.parse::<Day>().is_err());
        bad.map(|day| format!("{day:?} is no day"))
    }
}

/// An object with one file of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub object: String,
    pub bytes: u64,
    pub sha256: Digest,
}

/// A day of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DayEntry {
    /// The object with the day's [`DayManifest`].
    pub manifest: String,
    /// Hash of the names, lengths and seals of the day's segments. A day whose segments still have
    /// it need not be looked at.
    pub fingerprint: String,
}

/// What is there of a day of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DayManifest {
    /// The version of the layout.
    pub layout: u32,
    pub store_id: Uuid,
    pub day: String,
    /// The day's `seals.jsonl`: each byte as the character of that number.
    pub seals: String,
    /// In the order of their kinds and segments.
    pub objects: Vec<ObjectEntry>,
}

impl DayManifest {
    pub(crate) fn seals(&self) -> Vec<u8> {
        let bytes = self.seals.chars();
        bytes
            .map(|char| u8::try_from(char).unwrap_or(b'?'))
            .collect()
    }

    /// What is wrong with it.
    pub(super) fn flaw(&self) -> Option<String> {
        let day: Option<Day> = self.day.parse().ok();
        let Some(day) = day else {
            return Some(format!("{:?} is no day", self.day));
        };
        let pieces = || self.objects.iter().flat_map(|entry| &entry.pieces);
        if bytes_of(pieces()) > DAY_BYTES_MAX {
            return Some("its objects have more bytes than a day can have".to_owned());
        }
        let is_right = |piece: &&Piece| {
            let name = piece.file.strip_prefix(&format!("{day}/"));
            let name = name.and_then(|name| SegmentName::parse(day, name));
            name.is_some() && piece.from <= piece.to && piece.lines <= piece.to - piece.from
        };
        let wrong = pieces().find(|piece| !is_right(piece));
        wrong.map(|piece| format!("{:?} is no part of a segment of {day}", piece.file))
    }

    pub(super) fn text_of(seals: &[u8]) -> String {
        seals.iter().copied().map(char::from).collect()
    }
}

/// An object with lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectEntry {
    pub object: String,
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of all its bytes.
    pub sha256: Digest,
    /// The parts of segments that it holds, one after another.
    pub pieces: Vec<Piece>,
}

/// A segment, or a part of one that is still appended to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The segment, relative to the store.
    pub file: String,
    /// The offset of its first byte in the segment.
    pub from: u64,
    /// The offset after its last byte.
    pub to: u64,
    pub lines: u64,
    /// The SHA-256 of these bytes.
    pub sha256: Digest,
    /// Whether the segment is sealed, so this is all of it.
    pub sealed: bool,
    /// CRC-32 of the last 64 bytes, or of all if there are fewer. It shows whether a segment that
    /// is still appended to was rewritten.
    pub tail_crc: u32,
}

/// Size of the lines of these pieces, in bytes.
pub(super) fn bytes_of<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> u64 {
    let sizes = pieces.into_iter().map(|it| it.to.saturating_sub(it.from));
    sizes.fold(0, u64::saturating_add)
}

/// The prefix of the objects with lines of a store, kind and day.
pub(super) fn prefix(kind: &str, day: &str, store_id: Uuid) -> String {
    format!("kind={kind}/day={day}/store={store_id}")
}

/// The end of the names of the objects of one run. So no run replaces an object, and what one
/// removes is not what another one writes.
pub(super) fn run_name() -> String {
    let id = Uuid::new_v4().simple().to_string();
    id.get(..8).unwrap_or_default().to_owned()
}

/// The name of an object with whole segments.
pub(super) fn sealed_object(
    (first, last): (SegmentName, SegmentName),
    store_id: Uuid,
    run: &str,
    format: Format,
) -> String {
    let numbers = if first == last {
        format!("{:04}", first.number)
    } else {
        format!("{:04}-{:04}", first.number, last.number)
    };
    let prefix = prefix(first.kind.stem(), &first.day.to_string(), store_id);
    format!("{prefix}/{numbers}.{run}.{}", format.extension())
}

/// The name of an object with a part of a segment.
pub(super) fn part_object(
    name: SegmentName,
    (from, to): (u64, u64),
    store_id: Uuid,
    run: &str,
    format: Format,
) -> String {
    let prefix = prefix(name.kind.stem(), &name.day.to_string(), store_id);
    let extension = format.extension();
    format!(
        "{prefix}/{:04}.{from:012}-{to:012}.{run}.{extension}",
        name.number
    )
}

/// The prefix of what is known of a store.
pub(super) fn state_prefix(store_id: Uuid) -> String {
    format!("{ROOT}/store={store_id}")
}

/// The object of a store's [`StoreState`].
pub(super) fn state_object(store_id: Uuid) -> String {
    format!("{}/store.json", state_prefix(store_id))
}

/// The name of an object with a file of the store, or a manifest. It has the hash of its bytes.
pub(super) fn file_object(store_id: Uuid, name: &str, sha256: Digest, run: &str) -> String {
    let sha256 = sha256.to_string();
    let hash = sha256.get(..16).unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "json"));
    format!("{}/{stem}.{hash}.{run}.{extension}", state_prefix(store_id))
}

/// Whether the name of an object has the hash of its bytes.
pub(super) fn is_named_by(object: &str, sha256: Digest) -> bool {
    let sha256 = sha256.to_string();
    let hash = sha256.get(..16);
    hash.is_some_and(|hash| object.contains(&format!(".{hash}.")))
}

/// The path of an object. Names are made of letters, digits, `=`, `.`, `-`, `_` and `/`.
pub(super) fn path(object: &str) -> Path {
    Path::from(object)
}

/// All kinds, as prefixes have them.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    Kind::ALL.into_iter().map(Kind::stem)
}
