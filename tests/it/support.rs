//! Shared by the engine's tests: a random number generator, records to write, and a storage that
//! records its calls.

#![allow(clippy::unwrap_used)]
#![allow(dead_code)]

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use decklog::storage::{
    Access, Entry, FileStat, FileTimes, Memory, Storage, StorageFile, Volume, Words,
};
use decklog::{
    ConversationTurn, Durability, Options, Record, Settings, Store, ToolCallDone, ToolCallReq,
    ToolStatus, TurnKind, Validity, args_sha256,
};
use uuid::Uuid;

/// 2025-12-27T00:00:00Z.
pub const DAY_1: i64 = 1_766_793_600_000;
pub const DAY_MS: i64 = 86_400_000;
pub const DAY_1_NAME: &str = "2025-12-27";

/// A count from the environment, for long runs without code changes.
pub fn count(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no count"))
    })
}

/// `SplitMix64`: small, and the same on every platform.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    /// Seeded from `DECKLOG_SEED`, or from the clock. Prints the seed so that a failure can be
    /// reproduced.
    pub fn seeded(test: &str) -> Rng {
        let own = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64;
        let seed = count("DECKLOG_SEED", own);
        println!("{test}: DECKLOG_SEED={seed}");
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n - 1`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

pub fn turn(id: u128, content: &str, at: i64) -> ConversationTurn {
    ConversationTurn {
        id: Uuid::from_u128(id),
        parent_id: None,
        message_id: Uuid::from_u128(0xA000 + id),
        kind: TurnKind::User,
        content: content.into(),
        created_at: Validity::at(at),
        thread_id: Some(Uuid::from_u128(0xB000)),
    }
}

pub fn request(id: u128, call_id: &str, at: i64) -> ToolCallReq {
    let arguments = r#"{"path":"src/main.rs"}"#;
    ToolCallReq {
        request_id: Uuid::from_u128(id),
        call_id: call_id.into(),
        parent_id: Uuid::from_u128(0xC000),
        vendor: "anthropic".into(),
        tool_name: "read_file".into(),
        args_sha256: args_sha256(arguments),
        arguments_json: Some(arguments.into()),
        started_at: Validity::at(at),
    }
}

pub fn done(req: &ToolCallReq) -> ToolCallDone {
    ToolCallDone {
        request_id: req.request_id,
        call_id: req.call_id.clone(),
        ended_at: Validity::at(req.started_at.at + 12),
        latency_ms: 12,
        outcome_json: Some(r#"{"lines":12}"#.into()),
        error_kind: None,
        error_msg: None,
        status: ToolStatus::Completed,
    }
}

pub fn failed(req: &ToolCallReq) -> ToolCallDone {
    ToolCallDone {
        outcome_json: None,
        error_kind: Some("timeout".into()),
        error_msg: Some("took too long".into()),
        status: ToolStatus::Failed,
        ..done(req)
    }
}

/// Settings that store user ids unhashed. Hashing would create a key outside the store.
pub fn plain_users() -> Settings {
    let mut settings = Settings::default();
    settings.privacy.hash_user_id = false;
    settings
}

/// Options without background activity on the files of an open store, so that the order of
/// operations is deterministic.
pub fn still() -> Options {
    Store::options()
        .settings(plain_users())
        .flush_interval(Duration::from_secs(3600))
        .upkeep(false)
        .sidecar_bytes_min(u64::MAX)
}

pub fn in_memory(memory: &Memory, durability: Durability) -> Store {
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    still()
        .durability(durability)
        .storage(storage)
        // Always use the sidecar, so that tests also cover stores that were not read in full.
        .sidecar_bytes_min(0)
        .open("memory")
        .unwrap()
}

/// Every line of the store that is a valid record, with its sequence number, in order.
pub fn all_lines(store: &Store) -> Vec<(u64, Record)> {
    let lines = store.last_lines(usize::MAX).unwrap();
    let read = |line: &decklog::lines::LogLine| {
        // Parsed as it is: its fields determine its kind.
        let record = Record::from_json(&line.text);
        let record = record.unwrap_or_else(|e| panic!("{e}: {}", line.text));
        assert_eq!(record.kind(), line.kind, "{}", line.text);
        record
    };
    lines.iter().map(|line| (line.seq, read(line))).collect()
}

/// An operation that a [`Spy`] passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name in the trait.
    pub operation: &'static str,
    pub path: String,
    /// The open file, numbered in the order of opening; 0 for none.
    pub handle: usize,
    pub is_ok: bool,
}

type Hook = Box<dyn Fn(&'static str, &str) -> io::Result<()> + Send + Sync>;
type WrittenHook = Box<dyn Fn(&str, &[u8]) + Send + Sync>;

/// Passes all calls to another storage and records them. A hook sees each operation first and may
/// refuse it; another hook sees the bytes of each write.
#[derive(Clone)]
pub struct Spy {
    inner: Arc<dyn Storage>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    events: Mutex<Vec<Event>>,
    handles: std::sync::atomic::AtomicUsize,
    hook: Mutex<Option<Arc<Hook>>>,
    written: Mutex<Option<Arc<WrittenHook>>>,
    volume: Mutex<Option<Volume>>,
}

impl std::fmt::Debug for Spy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spy")
    }
}

impl Spy {
    pub fn new(inner: impl Storage + 'static) -> Spy {
        Spy {
            inner: Arc::new(inner),
            shared: Arc::default(),
        }
    }

    pub fn events(&self) -> Vec<Event> {
        self.shared.events.lock().unwrap().clone()
    }

    pub fn hook(
        &self,
        hook: impl Fn(&'static str, &str) -> io::Result<()> + Send + Sync + 'static,
    ) {
        *self.shared.hook.lock().unwrap() = Some(Arc::new(Box::new(hook)));
    }

    /// Sees the bytes of each write and the file, at any offset.
    pub fn hook_written(&self, hook: impl Fn(&str, &[u8]) + Send + Sync + 'static) {
        *self.shared.written.lock().unwrap() = Some(Arc::new(Box::new(hook)));
    }

    /// Sets the volume that the store reports.
    pub fn lies_on(&self, volume: Volume) {
        *self.shared.volume.lock().unwrap() = Some(volume);
    }

    pub fn unhook(&self) {
        *self.shared.hook.lock().unwrap() = None;
    }

    fn pass<T>(
        &self,
        operation: &'static str,
        path: &str,
        handle: usize,
        run: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let hook = self.shared.hook.lock().unwrap().clone();
        let result = hook
            .map_or(Ok(()), |hook| hook(operation, path))
            .and_then(|()| run());
        self.shared.events.lock().unwrap().push(Event {
            operation,
            path: path.to_owned(),
            handle,
            is_ok: result.is_ok(),
        });
        result
    }
}

impl Storage for Spy {
    fn root(&self) -> &Path {
        self.inner.root()
    }
    fn is_in_place(&self) -> io::Result<bool> {
        self.inner.is_in_place()
    }
    fn check_writable(&self) -> io::Result<()> {
        self.inner.check_writable()
    }
    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        self.pass("read_dir", dir, 0, || self.inner.read_dir(dir))
    }
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.pass("open", path, 0, || self.inner.open(path, access))?;
        let handles = &self.shared.handles;
        Ok(Arc::new(SpyFile {
            spy: self.clone(),
            file,
            path: path.to_owned(),
            handle: 1 + handles.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        }))
    }
    fn stat(&self, path: &str) -> io::Result<FileStat> {
        self.pass("stat", path, 0, || self.inner.stat(path))
    }
    fn times(&self, path: &str) -> io::Result<Option<FileTimes>> {
        self.pass("times", path, 0, || self.inner.times(path))
    }
    fn mount_id(&self) -> Option<u64> {
        self.inner.mount_id()
    }
    fn volume(&self) -> io::Result<Option<Volume>> {
        Ok(self.shared.volume.lock().unwrap().clone())
    }

    fn create_dir(&self, dir: &str) -> io::Result<bool> {
        self.pass("create_dir", dir, 0, || self.inner.create_dir(dir))
    }
    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.pass("sync_dir", dir, 0, || self.inner.sync_dir(dir))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.pass("rename", to, 0, || self.inner.rename(from, to))
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.pass("remove_dir", path, 0, || self.inner.remove_dir(path))
    }
    fn set_read_only(&self, path: &str) -> io::Result<()> {
        self.pass("set_read_only", path, 0, || self.inner.set_read_only(path))
    }
    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.pass("remove_file", path, 0, || self.inner.remove_file(path))
    }
}

#[derive(Debug)]
struct SpyFile {
    spy: Spy,
    file: Arc<dyn StorageFile>,
    path: String,
    handle: usize,
}

impl SpyFile {
    fn pass<T>(
        &self,
        operation: &'static str,
        run: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.spy.pass(operation, &self.path, self.handle, run)
    }

    fn show(&self, bytes: &[u8]) {
        let hook = self.spy.shared.written.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(&self.path, bytes);
        }
    }
}

impl StorageFile for SpyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.pass("read_at", || self.file.read_at(buf, offset))
    }
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.show(bytes);
        self.pass("append", || self.file.append(bytes))
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.show(bytes);
        self.pass("write_at", || self.file.write_at(bytes, offset))
    }
    fn sync(&self) -> io::Result<()> {
        self.pass("sync", || self.file.sync())
    }
    fn stat(&self) -> io::Result<FileStat> {
        self.pass("stat", || self.file.stat())
    }
    fn words(&self, count: usize) -> Option<Words> {
        self.file.words(count)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.pass("try_lock", || self.file.try_lock())
    }
    fn unlock(&self) -> io::Result<()> {
        self.pass("unlock", || self.file.unlock())
    }
}

/// A process that is killed when the test ends, also on a panic.
#[derive(Debug)]
pub struct Kid(pub std::process::Child);

impl Kid {
    /// Sends a signal by name: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.0.id());
        let status = std::process::Command::new("sh")
            .args(["-c", &command])
            .status();
        assert!(status.unwrap().success(), "{command}");
    }
}

impl Drop for Kid {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CRC-32 of ISO-HDLC, by a table. Implemented separately so that it does not share the engine's
/// bugs.
pub fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut crc, mut bit) = (byte as u32, 0);
            while bit < 8 {
                crc = crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| crc >> 8 ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize];
    !bytes.iter().fold(u32::MAX, step)
}

/// The sequence number of a line without its LF, if the line is complete and its checksum is valid.
pub fn seq_of(line: &[u8]) -> Option<u64> {
    let (covered, crc) = line.split_at_checked(line.len().checked_sub(18)?)?;
    let expected = format!(",\"crc\":\"{:08x}\"}}", crc32(covered));
    let digits = covered.strip_prefix(b"{\"seq\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    let seq = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    (crc == expected.as_bytes()).then_some(seq)
}

/// A line with another sequence number and a matching checksum.
pub fn renumbered(line: &str, seq: u64) -> String {
    let (_, rest) = line.split_once(',').unwrap();
    restamped(&format!("{{\"seq\":{seq},{rest}"))
}

/// A changed line with its LF and a matching checksum.
pub fn restamped(line: &str) -> String {
    let (covered, _) = line.rsplit_once(",\"crc\"").unwrap();
    format!(
        "{covered},\"crc\":\"{:08x}\"}}\n",
        crc32(covered.as_bytes())
    )
}
