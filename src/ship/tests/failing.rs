//! An object store for tests of failures.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

type Meanwhile = Box<dyn FnOnce() + Send>;

/// An object store in which something happens at one of the operations.
pub struct Failing {
    inner: Arc<InMemory>,
    /// Number of operations left, with that one.
    pub left: AtomicU64,
    at_last: AtLast,
}

enum AtLast {
    /// It fails, and all after it, as if the process died or the network went.
    Fails { takes_effect: bool },
    /// This happens before it, and nothing fails.
    Runs(Mutex<Option<Meanwhile>>),
}

impl fmt::Debug for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failing")
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failing")
    }
}

fn gone() -> object_store::Error {
    object_store::Error::Generic {
        store: "test",
        source: "the network is gone".into(),
    }
}

impl Failing {
    /// Fails at an operation, which has taken effect or not, and at all after it.
    pub fn at(inner: &Arc<InMemory>, operation: u64, takes_effect: bool) -> Failing {
        Failing {
            inner: Arc::clone(inner),
            left: AtomicU64::new(operation),
            at_last: AtLast::Fails { takes_effect },
        }
    }

    /// Does something before an operation.
    pub fn interrupted(
        inner: &Arc<InMemory>,
        operation: u64,
        meanwhile: impl FnOnce() + Send + 'static,
    ) -> Failing {
        Failing {
            inner: Arc::clone(inner),
            left: AtomicU64::new(operation),
            at_last: AtLast::Runs(Mutex::new(Some(Box::new(meanwhile)))),
        }
    }

    /// Whether this operation runs, and whether it succeeds.
    fn next(&self) -> (bool, bool) {
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        match (&self.at_last, left) {
            (AtLast::Fails { takes_effect }, Ok(1)) => (*takes_effect, false),
            (AtLast::Fails { .. }, Err(_)) => (false, false),
            (AtLast::Runs(meanwhile), Ok(1)) => {
                let meanwhile = meanwhile.lock().unwrap().take().unwrap();
                // A thread of its own, since it has a runtime of its own.
                std::thread::spawn(meanwhile).join().unwrap();
                (true, true)
            }
            _ => (true, true),
        }
    }
}

#[async_trait]
impl ObjectStore for Failing {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let (runs, succeeds) = self.next();
        if !runs {
            return Err(gone());
        }
        let put = self.inner.put_opts(at, payload, opts).await?;
        succeeds.then_some(put).ok_or_else(gone)
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.next() {
            (_, true) => self.inner.put_multipart_opts(at, opts).await,
            _ => Err(gone()),
        }
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        match self.next() {
            (_, true) => self.inner.get_opts(at, options).await,
            _ => Err(gone()),
        }
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(at, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.next() {
            (_, true) => self.inner.delete_stream(locations),
            (true, _) => {
                let deleted = self.inner.delete_stream(locations);
                deleted.map(|_| Err(gone())).boxed()
            }
            _ => futures_util::stream::once(async { Err(gone()) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.next() {
            (_, true) => self.inner.list(prefix),
            _ => futures_util::stream::once(async { Err(gone()) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
