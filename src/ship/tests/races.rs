//! Runs of two machines, which no lock excludes, and runs of one process after a failure.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::*;

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
                let failing = Failing::at(&objects, operations / 4, true);
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
            let interrupted = Failing::interrupted(&objects, operations, meanwhile);
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
    let failing = Arc::new(Failing::at(&objects, u64::MAX, true));
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
            let failing = Failing::at(&objects, operations % 20 + 1, takes_effect);
            let _ = ship(&log, Arc::new(failing));
            let there = Arc::clone(&objects) as Arc<dyn ObjectStore>;
            let found = Destination::of_test("test", there).verify(None).unwrap();
            assert!(found[0].is_clean(), "{:?}", found[0].damage);
        }
    }
}
