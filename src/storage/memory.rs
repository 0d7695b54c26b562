//! A store in memory, for tests. It gives exactly the guarantees of the contract and no more.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Entry, FileStat, FileTimes, Storage, StorageFile};

/// A fault injected into one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with this error and does nothing.
    Error(io::ErrorKind),
    /// An append or overwrite writes only this many bytes; any other operation fails.
    Short(usize),
    /// This operation and every later one fails, as if the disk were gone.
    Gone,
}

/// Files in memory, shared by every clone: stores over clones of one `Memory` see each other like
/// processes on one disk.
///
/// ```
/// use std::sync::Arc;
/// use decklog::{Store, storage::Memory};
/// let memory = Memory::new();
/// let store = Store::options().storage(Arc::new(memory.clone())).open("in memory")?;
/// # drop(store);
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Memory {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The names in every directory: the visible ones in `live`, the synced ones in `durable`.
    dirs: BTreeMap<String, Dir>,
    files: BTreeMap<u64, Content>,
    next_id: u64,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    gone: bool,
}

#[derive(Debug, Default, Clone)]
struct Dir {
    live: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(u64),
    Dir,
}

#[derive(Debug, Default, Clone)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    is_read_only: bool,
    is_durably_read_only: bool,
    locked_by: Option<u64>,
}

impl Content {
    fn stat(&self, id: u64, is_linked: bool) -> FileStat {
        FileStat {
            len: self.live.len() as u64,
            identity: id + 1,
            is_linked,
            is_read_only: self.is_read_only,
        }
    }
}

impl Memory {
    /// No files.
    pub fn new() -> Memory {
        Memory::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation that cannot be short, and returns the state.
    fn begin(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.step_whole()?;
        Ok(state)
    }

    /// Number of operations so far, including reads and locks.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Injects a fault into the operation with this number, counted from 0.
    pub fn fail_at(&self, operation: u64, fault: Fault) {
        self.state().faults.insert(operation, fault);
    }

    /// Removes all faults, and makes a disk that was gone work again.
    pub fn heal(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.gone = false;
    }

    /// The contents after a power cut: synced names and bytes, and an arbitrary part of the rest.
    /// `choose` is called with a length and returns how much of it is kept.
    #[must_use]
    pub fn after_power_cut(&self, mut choose: impl FnMut(usize) -> usize) -> Memory {
        let state = self.state();
        let mut kept = State {
            next_id: state.next_id,
            ..State::default()
        };
        for (path, dir) in &state.dirs {
            let mut names = dir.durable.clone();
            for (name, node) in &dir.live {
                if dir.durable.get(name) != Some(node) && choose(1) == 1 {
                    names.insert(name.clone(), *node);
                }
            }
            for node in names.values() {
                if let Node::File(id) = node
                    && let Some(content) = state.files.get(id)
                {
                    let unsynced = content.live.len().saturating_sub(content.durable.len());
                    let keep = content.durable.len() + choose(unsynced).min(unsynced);
                    let bytes = match content.live.get(..keep) {
                        Some(live) if live.starts_with(&content.durable) => live.to_vec(),
                        _ => content.durable.clone(),
                    };
                    let is_read_only =
                        content.is_durably_read_only || content.is_read_only && choose(1) == 1;
                    kept.files.insert(
                        *id,
                        Content {
                            live: bytes.clone(),
                            durable: bytes,
                            is_read_only,
                            is_durably_read_only: is_read_only,
                            locked_by: None,
                        },
                    );
                }
            }
            kept.dirs.insert(
                path.clone(),
                Dir {
                    live: names.clone(),
                    durable: names,
                },
            );
        }
        // A directory whose own name was lost is unreachable, with everything in it.
        let reachable: Vec<String> = kept
            .dirs
            .keys()
            .filter(|path| kept.is_reachable(path))
            .cloned()
            .collect();
        kept.dirs.retain(|path, _| reachable.contains(path));
        Memory {
            shared: Arc::new(Mutex::new(kept)),
        }
    }

    /// A copy of a file's bytes.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut state = self.state();
        let (_, content) = state.content(path).ok()?;
        Some(content.live.clone())
    }

    /// Writes a file as another program would, regardless of faults and the read-only mode.
    pub fn put_bytes(&self, path: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let known = state.file_id(path);
        if let Ok(id) = known.map_or_else(|| state.open(path, Access::Overwrite), Ok)
            && let Some(content) = state.files.get_mut(&id)
        {
            content.live.clone_from(&bytes);
            content.durable = bytes;
        }
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl State {
    /// Counts an operation; returns its fault, if there is one.
    fn step(&mut self) -> io::Result<Option<usize>> {
        let number = self.operations;
        self.operations += 1;
        if self.gone {
            return Err(io::Error::other("the disk has gone"));
        }
        match self.faults.get(&number) {
            None => Ok(None),
            Some(Fault::Short(len)) => Ok(Some(*len)),
            Some(Fault::Error(kind)) => Err((*kind).into()),
            Some(Fault::Gone) => {
                self.gone = true;
                Err(io::Error::other("the disk has gone"))
            }
        }
    }

    /// Counts an operation that cannot be short.
    fn step_whole(&mut self) -> io::Result<()> {
        match self.step()? {
            None => Ok(()),
            Some(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn is_reachable(&self, dir: &str) -> bool {
        if dir.is_empty() {
            return true;
        }
        let (parent, name) = split(dir);
        self.dirs
            .get(parent)
            .is_some_and(|dir| dir.live.get(name) == Some(&Node::Dir))
            && self.is_reachable(parent)
    }

    fn dir(&mut self, path: &str) -> io::Result<&mut Dir> {
        let dir = self.dirs.get_mut(path);
        dir.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn content(&mut self, path: &str) -> io::Result<(u64, &mut Content)> {
        let id = self.file_id(path).ok_or(io::ErrorKind::NotFound)?;
        let content = self.files.get_mut(&id).ok_or(io::ErrorKind::NotFound)?;
        Ok((id, content))
    }

    fn file_id(&self, path: &str) -> Option<u64> {
        let (dir, name) = split(path);
        match self.dirs.get(dir)?.live.get(name)? {
            Node::File(id) => Some(*id),
            Node::Dir => None,
        }
    }

    fn open(&mut self, path: &str, access: Access) -> io::Result<u64> {
        if let Some(id) = self.file_id(path) {
            let is_read_only = self.files.get(&id).is_some_and(|file| file.is_read_only);
            if is_read_only && access != Access::Read {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            return Ok(id);
        }
        let (dir, name) = split(path);
        let id = self.next_id;
        let dir = self.dir(dir)?;
        if access == Access::Read {
            return Err(io::ErrorKind::NotFound.into());
        }
        dir.live.insert(name.to_owned(), Node::File(id));
        self.files.insert(id, Content::default());
        self.next_id += 1;
        Ok(id)
    }
}

impl Storage for Memory {
    fn root(&self) -> &Path {
        Path::new("memory")
    }

    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        let mut state = self.begin()?;
        let dir = state.dir(dir)?;
        let entry = |(name, node): (&String, &Node)| Entry {
            name: name.clone(),
            is_dir: *node == Node::Dir,
            is_file: *node != Node::Dir,
        };
        Ok(dir.live.iter().map(entry).collect())
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.begin()?;
        let id = state.open(path, access)?;
        let handle = state.next_id;
        state.next_id += 1;
        Ok(Arc::new(MemoryFile {
            memory: self.clone(),
            id,
            handle,
            access,
        }))
    }

    fn stat(&self, path: &str) -> io::Result<FileStat> {
        let mut state = self.begin()?;
        let (id, content) = state.content(path)?;
        Ok(content.stat(id, true))
    }

    fn times(&self, _: &str) -> io::Result<Option<FileTimes>> {
        self.begin().map(|_| None)
    }

    fn create_dir(&self, dir: &str) -> io::Result<bool> {
        let mut state = self.begin()?;
        if state.dirs.contains_key(dir) {
            return Ok(false);
        }
        if !dir.is_empty() {
            let (parent, name) = split(dir);
            let parent = state.dir(parent)?;
            parent.live.insert(name.to_owned(), Node::Dir);
        }
        state.dirs.insert(dir.to_owned(), Dir::default());
        Ok(true)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.begin()?;
        let dir = state.dir(dir)?;
        dir.durable = dir.live.clone();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.begin()?;
        let (from_dir, from_name) = split(from);
        let (to_dir, to_name) = split(to);
        let from_dir = state.dir(from_dir)?;
        let node = from_dir.live.remove(from_name);
        let node = node.ok_or(io::ErrorKind::NotFound)?;
        state.dir(to_dir)?.live.insert(to_name.to_owned(), node);
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.begin()?;
        if !state.dir(path)?.live.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.dirs.remove(path);
        let (parent, name) = split(path);
        state.dir(parent)?.live.remove(name);
        Ok(())
    }

    fn set_read_only(&self, path: &str) -> io::Result<()> {
        let mut state = self.begin()?;
        state.content(path)?.1.is_read_only = true;
        Ok(())
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut state = self.begin()?;
        let (dir, name) = split(path);
        let removed = state.dir(dir)?.live.remove(name);
        removed
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[derive(Debug)]
struct MemoryFile {
    memory: Memory,
    id: u64,
    handle: u64,
    access: Access,
}

impl MemoryFile {
    fn with<T>(
        &self,
        operation: impl FnOnce(&mut Content, Option<usize>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.memory.state();
        let short = state.step()?;
        let content = state
            .files
            .get_mut(&self.id)
            .ok_or(io::ErrorKind::NotFound)?;
        operation(content, short)
    }

    fn whole(short: Option<usize>) -> io::Result<()> {
        short.map_or(Ok(()), |_| Err(io::ErrorKind::StorageFull.into()))
    }

    fn writable(&self, access: Access) -> io::Result<()> {
        if self.access == access {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|content, short| {
            let from = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(content.live.len());
            let len = (content.live.len() - from)
                .min(buf.len())
                .min(short.unwrap_or(usize::MAX).max(1));
            buf[..len].copy_from_slice(&content.live[from..from + len]);
            Ok(len)
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.writable(Access::Append)?;
        self.with(|content, short| {
            let len = bytes.len().min(short.unwrap_or(usize::MAX));
            content.live.extend_from_slice(&bytes[..len]);
            Ok(len)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.writable(Access::Overwrite)?;
        self.with(|content, short| {
            let len = bytes.len().min(short.unwrap_or(usize::MAX));
            let from = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
            if content.live.len() < from + len {
                content.live.resize(from + len, 0);
            }
            content.live[from..from + len].copy_from_slice(&bytes[..len]);
            Ok(len)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|content, short| {
            Self::whole(short)?;
            content.durable = content.live.clone();
            if self.access == Access::Read {
                content.is_durably_read_only = content.is_read_only;
            }
            Ok(())
        })
    }

    fn stat(&self) -> io::Result<FileStat> {
        let is_linked = self
            .memory
            .state()
            .dirs
            .values()
            .any(|dir| dir.live.values().any(|node| *node == Node::File(self.id)));
        self.with(|content, short| {
            Self::whole(short)?;
            Ok(content.stat(self.id, is_linked))
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.with(|content, short| {
            Self::whole(short)?;
            let free = content.locked_by.is_none_or(|handle| handle == self.handle);
            if free {
                content.locked_by = Some(self.handle);
            }
            Ok(free)
        })
    }

    fn unlock(&self) -> io::Result<()> {
        drop(self.memory.begin()?);
        self.release();
        Ok(())
    }
}

impl MemoryFile {
    fn release(&self) {
        let mut state = self.memory.state();
        if let Some(content) = state.files.get_mut(&self.id)
            && content.locked_by == Some(self.handle)
        {
            content.locked_by = None;
        }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.release();
    }
}
