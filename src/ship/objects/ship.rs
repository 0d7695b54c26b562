//! A run: compares a store with what is there, and writes what differs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _};

use uuid::Uuid;

use super::client::{Known, Objects};
use super::layout::{
    self, DayEntry, DayManifest, FileEntry, ObjectEntry, StoreState, file_object, is_named_by,
    kinds, prefix, run_name, state_object, state_prefix,
};
use super::plan::{Planned, fingerprint, plan_day};
use super::{CONCURRENT, upload};
use crate::error::{Error, ErrorKind, Result};
use crate::record::now;
use crate::segment::seal::Digest;
use crate::ship::{Progress, ShipOptions, Shipped};
use crate::store::{Point, PointSegment, Store};

/// How often a run notes what it has written. If it is killed, the next one continues from there.
const NOTED_EVERY: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 10 });

/// Copies a store to one destination again and again.
#[derive(Debug)]
pub(crate) struct ObjectShipper {
    objects: Objects,
    store: Store,
    options: ShipOptions,
    /// What is there; `None` until it was read.
    known: Option<Known>,
    /// The days whose objects this process has compared with their manifests.
    clean: BTreeSet<String>,
    /// The days that a run which failed may have changed.
    touched: BTreeSet<String>,
    /// The end of the names of what this run writes.
    run: String,
    progress: Progress,
}

impl ObjectShipper {
    pub(in crate::ship) fn new(
        objects: Objects,
        store: Store,
        options: ShipOptions,
        progress: Progress,
    ) -> ObjectShipper {
        ObjectShipper {
            objects,
            store,
            options,
            known: None,
            clean: BTreeSet::new(),
            touched: BTreeSet::new(),
            run: String::new(),
            progress,
        }
    }

    async fn load(&mut self) -> Result<Known> {
        if let Some(known) = self.known.take() {
            return Ok(known);
        }
        let store_id = self.store.inner().store_id();
        let found = self.objects.known(store_id).await?;
        let known = found.unwrap_or_else(|| Known {
            state: StoreState::new(store_id, self.options.format),
            version: None,
        });
        let format = known.state.format;
        if format != self.options.format {
            let message = format!(
                "{} has this store as {format}: ship it as {format}, or to another place",
                self.objects.name
            );
            return Err(Error::invalid(message));
        }
        Ok(known)
    }

    /// Copies everything up to now. After an error, what is there is read again.
    pub(in crate::ship) async fn try_ship(&mut self) -> Result<Shipped> {
        self.run = run_name();
        let shipped = self.run().await;
        match &shipped {
            Ok(_) => self.touched.clear(),
            // Another run may have been there.
            Err(_) => self.clean.clear(),
        }
        shipped
    }

    async fn run(&mut self) -> Result<Shipped> {
        let mut known = self.load().await?;
        let before = known.state.unfinished.len();
        known.state.unfinished.extend(self.touched.iter().cloned());
        let point = self.store.point(self.options.is_backup)?;
        let days = by_day(&point);
        let mut shipped = Shipped {
            store_id: point.store_id,
            last_seq: point.last_seq,
            ..Shipped::default()
        };
        let changes = self.changes(&known.state, &point, &days);
        if changes.is_none() {
            self.known = Some(known);
            return Ok(shipped);
        }
        let plans = self.plans(&known.state, &changes, &days).await?;
        self.count(&plans, &mut shipped);
        if self.options.dry_run {
            self.known = Some(known);
            return Ok(shipped);
        }
        // Name the days before their objects change, so that a later run finds what this one leaves.
        let touched = changes.days.keys().chain(&changes.removed);
        self.touched.extend(touched.cloned());
        known.state.unfinished.extend(self.touched.iter().cloned());
        if known.state.unfinished.len() > before {
            self.objects.write_state(&mut known).await?;
        }
        let (named, mut replaced) = self
            .ship_days(&mut known, plans, (&point, &days), &mut shipped)
            .await?;
        for day in &changes.removed {
            let entry = known.state.days.remove(day);
            replaced.extend(entry.map(|entry| entry.manifest));
        }
        replaced.extend(self.ship_files(&mut known.state, &point).await?);
        known.state.at = now();
        known.state.last_seq = point.last_seq;
        known.state.last_seal = point.last_seal;
        self.check_still_has(&point)?;
        self.objects.write_state(&mut known).await?;
        shipped.objects_removed += self.objects.remove(replaced).await?;
        self.clean_up(&mut known, &point, &named, &mut shipped)
            .await?;
        self.known = Some(known);
        Ok(shipped)
    }

    /// Writes the days, and makes them those of `store.json`. Returns the names of the objects that
    /// each manifest has, and of what they replace.
    async fn ship_days(
        &self,
        known: &mut Known,
        plans: Vec<DayPlan>,
        (point, days): (&Point, &BTreeMap<String, Vec<PointSegment>>),
        shipped: &mut Shipped,
    ) -> Result<(BTreeMap<String, HashSet<String>>, Vec<String>)> {
        let (mut named, mut replaced) = (BTreeMap::new(), Vec::new());
        let mut noted = Instant::now();
        for plan in plans {
            let (day, old) = (plan.day.clone(), plan.old.clone());
            let before = known.state.of_day(&day).map(|entry| entry.manifest.clone());
            let before: Vec<String> = before.collect();
            let (entry, new) = self.ship_day(&known.state, plan, days, shipped).await?;
            let is_other = |manifest: &String| *manifest != entry.manifest;
            replaced.extend(before.into_iter().filter(is_other));
            replaced.extend(old.into_iter().filter(|object| !new.contains(object)));
            known.state.prepared.insert(day.clone(), entry);
            named.insert(day, new);
            if noted.elapsed() >= NOTED_EVERY {
                self.check_still_has(point)?;
                self.objects.write_state(known).await?;
                noted = Instant::now();
            }
        }
        let mut written = std::mem::take(&mut known.state.prepared);
        // Of a run before, and of days that are not in the store any more.
        let left = written.extract_if(.., |day, _| !named.contains_key(day));
        replaced.extend(left.map(|(_, entry)| entry.manifest));
        known.state.days.append(&mut written);
        Ok((named, replaced))
    }

    /// A rewrite that ran meanwhile may have moved lines between the files that were read.
    fn check_still_has(&self, point: &Point) -> Result<()> {
        if self.store.point(self.options.is_backup)?.has_all_of(point) {
            return Ok(());
        }
        let message = "the store was rewritten while it was copied: try again";
        Err(Error::new(ErrorKind::Conflict, message))
    }

    fn count(&self, plans: &[DayPlan], shipped: &mut Shipped) {
        let all = plans.iter().flat_map(|plan| &plan.objects);
        for planned in all.filter(|planned| planned.there.is_none()) {
            shipped.objects_written += 1;
            shipped.bytes += planned.bytes();
        }
        self.progress.expect(shipped.bytes);
    }

    /// What differs between the store and what is there.
    fn changes(
        &self,
        state: &StoreState,
        point: &Point,
        days: &BTreeMap<String, Vec<PointSegment>>,
    ) -> Changes {
        let now = days.iter().map(|(day, segments)| {
            let last_seal = segments.first().and_then(|segment| {
                let of_day = point.last_seals.get(&segment.name.day);
                of_day.copied()
            });
            let now = fingerprint(segments, last_seal.unwrap_or(0), self.options.format);
            (day.clone(), now)
        });
        let is_changed = |(day, now): &(String, String)| {
            let is_same = |entry: &DayEntry| entry.fingerprint == *now;
            let is_clean = !state.unfinished.contains(day) || self.clean.contains(day);
            !(is_clean && state.days.get(day).is_some_and(is_same))
        };
        let known = state.days.keys().chain(&state.unfinished);
        let removed = known.filter(|day| !days.contains_key(*day));
        let is_same = |(name, bytes): (&String, &Vec<u8>)| {
            let entry = state.files.get(name);
            entry.is_some_and(|entry| entry.sha256 == Digest::of(bytes))
        };
        let has_files = point.files.iter().all(is_same) && self.surplus(state, point).is_empty();
        Changes {
            days: now.filter(is_changed).collect(),
            removed: removed.cloned().collect(),
            of_files: !has_files || state.last_seal != point.last_seal,
        }
    }

    async fn plans(
        &self,
        state: &StoreState,
        changes: &Changes,
        days: &BTreeMap<String, Vec<PointSegment>>,
    ) -> Result<Vec<DayPlan>> {
        let mut plans = Vec::new();
        for (day, fingerprint) in &changes.days {
            let mut present = Vec::new();
            for entry in state.of_day(day) {
                match self.objects.day_manifest(entry).await {
                    Ok(manifest) => present.push(manifest),
                    // What it names is written again.
                    Err(e) if e.kind() == ErrorKind::Damaged => {}
                    Err(e) => return Err(e),
                }
            }
            let storage = self.store.inner().storage();
            let segments = days.get(day).map_or(&[][..], Vec::as_slice);
            let (store_id, format) = (state.store_id, self.options.format);
            let names = (store_id, &*self.run);
            let plan = plan_day(storage, segments, present.first(), names, format)?;
            plans.push(DayPlan {
                day: day.clone(),
                fingerprint: fingerprint.clone(),
                old: present.into_iter().flat_map(names_of).collect(),
                objects: plan,
            });
        }
        Ok(plans)
    }

    /// Writes the objects and the manifest of a day. Returns what `store.json` is to have of it, and
    /// the names of the objects that the manifest has.
    async fn ship_day(
        &self,
        state: &StoreState,
        plan: DayPlan,
        days: &BTreeMap<String, Vec<PointSegment>>,
        shipped: &mut Shipped,
    ) -> Result<(DayEntry, HashSet<String>)> {
        let day = &*plan.day;
        let writes = plan.objects.into_iter().map(|planned| async {
            if let Some(entry) = planned.there.clone() {
                return Ok((entry, false));
            }
            let (objects, store) = (Arc::clone(&self.objects.store), self.store.clone());
            let done: Arc<AtomicU64> = self.progress.done();
            let entry = upload::upload(objects, store, planned, self.options.format, done).await?;
            if self.options.is_backup {
                self.objects.read_back(&entry).await?;
            }
            Ok::<_, Error>((entry, true))
        });
        let entries = futures_util::stream::iter(writes).buffered(CONCURRENT);
        let entries: Vec<(ObjectEntry, bool)> = entries.try_collect().await?;
        let segments = days.get(day).map_or(&[][..], Vec::as_slice);
        for (entry, is_new) in &entries {
            if *is_new {
                shipped.bytes_written += entry.bytes;
            }
            shipped.unlike_seal.extend(unlike_seal(entry, segments));
        }
        let seals = match segments.first() {
            Some(segment) => self.store.seals_of_day(segment.name.day)?,
            None => Vec::new(),
        };
        let manifest = DayManifest {
            layout: layout::LAYOUT,
            store_id: state.store_id,
            day: day.to_owned(),
            seals: DayManifest::text_of(&seals),
            objects: entries.into_iter().map(|(entry, _)| entry).collect(),
        };
        let bytes =
            serde_json::to_vec(&manifest).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        let sha256 = Digest::of(&bytes);
        let mut present = state.of_day(day).map(|entry| &entry.manifest);
        let name = if let Some(name) = present.find(|name| is_named_by(name, sha256)) {
            name.clone()
        } else {
            let name = self.file_object(state, &format!("{day}.json"), sha256);
            self.objects.put(&name, bytes).await?;
            name
        };
        let entry = DayEntry {
            manifest: name,
            fingerprint: plan.fingerprint,
        };
        Ok((entry, names_of(manifest)))
    }

    /// Writes the store's other files, and returns the objects that they replace.
    async fn ship_files(&self, state: &mut StoreState, point: &Point) -> Result<Vec<String>> {
        let mut replaced = Vec::new();
        for name in self.surplus(state, point) {
            let old = state.files.remove(&name);
            replaced.extend(old.map(|old| old.object));
        }
        for (name, bytes) in &point.files {
            let sha256 = Digest::of(bytes);
            let is_same = |entry: &FileEntry| entry.sha256 == sha256;
            if state.files.get(name).is_some_and(is_same) {
                continue;
            }
            let object = self.file_object(state, name, sha256);
            self.objects.put(&object, bytes.clone()).await?;
            let entry = FileEntry {
                object,
                bytes: bytes.len() as u64,
                sha256,
            };
            let old = state.files.insert(name.clone(), entry);
            replaced.extend(old.map(|old| old.object));
        }
        Ok(replaced)
    }

    /// The files that are there and not in the store any more. A run that does not copy all files
    /// leaves those of a backup.
    fn surplus(&self, state: &StoreState, point: &Point) -> Vec<String> {
        if !self.options.is_backup {
            return Vec::new();
        }
        let names = state.files.keys();
        let gone = names.filter(|name| !point.files.contains_key(*name));
        gone.cloned().collect()
    }

    /// Removes objects that no manifest names, left by a run that died, of the days that this run
    /// or an earlier one touched.
    async fn clean_up(
        &mut self,
        known: &mut Known,
        point: &Point,
        named: &BTreeMap<String, HashSet<String>>,
        shipped: &mut Shipped,
    ) -> Result<()> {
        let unfinished = known.state.unfinished.iter();
        let unclean = unfinished.filter(|day| !self.clean.contains(*day));
        let unclean: Vec<String> = unclean.cloned().collect();
        let mut left = self.unnamed(&unclean, point.store_id, named).await?;
        // While this process follows the log, the last day changes all the time.
        let last = known.state.days.keys().next_back();
        let stays = last.filter(|_| self.options.follows).cloned();
        let is_last = |day: &String| Some(day) == stays.as_ref();
        let is_finished = !known.state.unfinished.iter().all(is_last);
        if is_finished {
            left.extend(self.old_files(&known.state).await?);
        }
        if !left.is_empty() {
            // If another run has named one of them since, this fails. From here on, none can.
            self.objects.write_state(known).await?;
            shipped.objects_removed += self.objects.remove(left).await?;
        }
        let days = &known.state.days;
        let is_there = |day: &String| days.contains_key(day);
        self.clean.extend(unclean.into_iter().filter(is_there));
        if is_finished {
            known.state.unfinished.retain(is_last);
            self.objects.write_state(known).await?;
        }
        Ok(())
    }

    /// The objects of these days that no manifest names.
    async fn unnamed(
        &self,
        days: &[String],
        store_id: Uuid,
        named: &BTreeMap<String, HashSet<String>>,
    ) -> Result<Vec<String>> {
        let prefixes = days
            .iter()
            .flat_map(|day| kinds().map(move |kind| (day, prefix(kind, day, store_id))));
        let lists = prefixes.map(|(day, prefix)| async move {
            let mut listed = self.objects.list(&prefix).await?;
            let named = named.get(day);
            listed.retain(|name| !named.is_some_and(|named| named.contains(name)));
            Ok::<_, Error>(listed)
        });
        let lists = futures_util::stream::iter(lists).buffer_unordered(CONCURRENT);
        lists.try_concat().await
    }

    /// The manifests and files that `store.json` does not name.
    async fn old_files(&self, state: &StoreState) -> Result<Vec<String>> {
        let files = state.files.values().map(|entry| entry.object.clone());
        let manifests = state.days.values().map(|entry| entry.manifest.clone());
        let mut named: HashSet<String> = files.chain(manifests).collect();
        named.insert(state_object(state.store_id));
        let mut listed = self.objects.list(&state_prefix(state.store_id)).await?;
        listed.retain(|name| !named.contains(name));
        Ok(listed)
    }

    fn file_object(&self, state: &StoreState, name: &str, sha256: Digest) -> String {
        file_object(state.store_id, name, sha256, &self.run)
    }
}

/// What a day is to have.
#[derive(Debug)]
struct DayPlan {
    day: String,
    fingerprint: String,
    /// The names of the objects that its manifest has now.
    old: HashSet<String>,
    objects: Vec<Planned>,
}

fn names_of(manifest: DayManifest) -> HashSet<String> {
    let objects = manifest.objects.into_iter();
    objects.map(|entry| entry.object).collect()
}

/// What differs between a store and what is there.
#[derive(Debug)]
struct Changes {
    /// The fingerprints of the days that are to be written.
    days: BTreeMap<String, String>,
    removed: BTreeSet<String>,
    of_files: bool,
}

impl Changes {
    fn is_none(&self) -> bool {
        self.days.is_empty() && self.removed.is_empty() && !self.of_files
    }
}

fn by_day(point: &Point) -> BTreeMap<String, Vec<PointSegment>> {
    let mut days: BTreeMap<String, Vec<PointSegment>> = BTreeMap::new();
    for segment in &point.segments {
        let day = days.entry(segment.name.day.to_string()).or_default();
        day.push(segment.clone());
    }
    days
}

/// The segments of an object that do not match their seals.
fn unlike_seal(entry: &ObjectEntry, segments: &[PointSegment]) -> Vec<String> {
    let pieces = entry.pieces.iter();
    let unlike = pieces.filter(|piece| {
        let mut of_piece = segments.iter().filter(|it| it.name.path() == piece.file);
        let seal = of_piece.next().and_then(|segment| segment.seal.as_ref());
        seal.is_some_and(|seal| piece.sealed && seal.sha256 != piece.sha256)
    });
    unlike.map(|piece| piece.file.clone()).collect()
}
