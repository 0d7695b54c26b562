//! Runs of two machines, which no lock excludes, and runs of one process after a failure.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

use super::*;

type Meanwhile = Box<dyn FnOnce() + Send>;

/// An object store in which something happens before one of the operations.
struct Interrupted {
    inner: Arc<InMemory>,
    /// Number of operations until then.
    left: AtomicU64,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl Interrupted {
    fn next(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let meanwhile = self.meanwhile.lock().unwrap().take().unwrap();
            // A thread of its own, since it has a runtime of its own.
            std::thread::spawn(meanwhile).join().unwrap();
        }
    }
}

#[async_trait]
impl ObjectStore for Interrupted {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.next();
        self.inner.put_opts(at, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, opts).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.next();
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.next();
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.next();
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Ships as another machine does.
fn ship_as(name: &str, store: &Store, objects: Arc<dyn ObjectStore>) -> crate::Result<()> {
    let destination = Destination::of_test(name, objects);
    let mut shipper = Shipper::new(store, &destination, ShipOptions::default())?;
    shipper.ship().map(drop)
}

#[test]
fn runs_of_two_machines_at_the_same_time_do_no_harm() {
    for is_changed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let log = Arc::new(Mutex::new(Log::new(dir.path(), 17)));
        let store = log.lock().unwrap().store.clone();
        let objects = Arc::new(InMemory::new());
        for operations in 1..40 {
            for _ in 0..3 {
                log.lock().unwrap().change();
            }
            if operations % 4 == 0 {
                // What a run leaves that is killed is removed by both.
                let failing = Failing {
                    inner: Arc::clone(&objects),
                    left: AtomicU64::new(operations / 4),
                    takes_effect: true,
                };
                let _ = ship_as("killed", &store, Arc::new(failing));
            }
            let (other, at) = (Arc::clone(&log), Arc::clone(&objects));
            let meanwhile = move || {
                let mut log = other.lock().unwrap();
                if is_changed {
                    log.change();
                }
                ship_as("other", &log.store, at).unwrap();
            };
            let interrupted = Interrupted {
                inner: Arc::clone(&objects),
                left: AtomicU64::new(operations),
                meanwhile: Mutex::new(Some(Box::new(meanwhile))),
            };
            ship_as("one", &store, Arc::new(interrupted)).unwrap();
            check(&log.lock().unwrap(), &objects);
        }
    }
}

#[test]
fn a_shipper_that_failed_removes_what_it_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 19);
    let objects = Arc::new(InMemory::new());
    let failing = Arc::new(Failing {
        inner: Arc::clone(&objects),
        left: AtomicU64::new(u64::MAX),
        takes_effect: true,
    });
    let destination = Destination::of_test("test", Arc::clone(&failing) as Arc<dyn ObjectStore>);
    let options = ShipOptions {
        follows: true,
        ..ShipOptions::default()
    };
    let mut shipper = Shipper::new(&log.store, &destination, options).unwrap();
    for operations in 1..40 {
        log.change();
        failing.left.store(operations % 12 + 1, Ordering::SeqCst);
        let failed = shipper.ship().is_err();
        failing.left.store(u64::MAX, Ordering::SeqCst);
        if failed {
            log.converse();
        }
        shipper.ship().unwrap();
        check(&log, &objects);
    }
}

#[test]
fn what_is_named_is_complete_after_a_run_that_was_killed() {
    for takes_effect in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::new(dir.path(), 23);
        let objects = Arc::new(InMemory::new());
        ship(&log, Arc::clone(&objects) as Arc<dyn ObjectStore>).unwrap();
        for operations in 1..60 {
            log.change();
            let failing = Failing {
                inner: Arc::clone(&objects),
                left: AtomicU64::new(operations % 20 + 1),
                takes_effect,
            };
            let _ = ship(&log, Arc::new(failing));
            let there = Arc::clone(&objects) as Arc<dyn ObjectStore>;
            let found = Destination::of_test("test", there).verify(None).unwrap();
            assert!(found[0].is_clean(), "{:?}", found[0].damage);
        }
    }
}
