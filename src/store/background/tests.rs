use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// A queue of its own, so that the jobs of other tests do not count.
fn queue(lane: Lane) -> &'static Queue {
    let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
    &pool.queues[lane as usize]
}

fn add(queue: &'static Queue, work: impl Fn() -> Option<Instant> + Send + Sync + 'static) -> Job {
    queue.add(Arc::new(work)).expect("a thread")
}

#[test]
fn work_is_done_when_it_is_due_and_again_when_it_says_so() {
    let queue = queue(Lane::Sync);
    let (done, runs) = mpsc::channel();
    let left = AtomicUsize::new(2);
    let job = add(queue, move || {
        done.send(Instant::now()).expect("the test waits");
        let is_last = left.fetch_sub(1, Ordering::Relaxed) == 0;
        (!is_last).then(|| Instant::now() + Duration::from_millis(5))
    });
    let due = Instant::now() + Duration::from_millis(30);
    job.wake_at(due + LONG);
    job.wake_at(due);
    job.wake_at(due + LONG);
    let ran: Vec<Instant> = (0..3)
        .map(|_| runs.recv_timeout(LONG).expect("it runs"))
        .collect();
    assert!(ran[0] >= due, "not before it is due");
    assert!(ran.is_sorted());
    let more = runs.recv_timeout(Duration::from_millis(50));
    assert!(more.is_err(), "not after it said that it is done");
}

/// Jobs that each wait until the sender is dropped.
fn stuck(queue: &'static Queue, count: usize) -> (mpsc::Sender<()>, Vec<Job>) {
    let (release, is_released) = mpsc::channel::<()>();
    let is_released = Arc::new(Mutex::new(is_released));
    let jobs = (0..count)
        .map(|_| {
            let is_released = Arc::clone(&is_released);
            let work = move || {
                let _ = is_released.lock().expect("unharmed").recv_timeout(LONG);
                None
            };
            let job = add(queue, work);
            job.wake_at(Instant::now());
            job
        })
        .collect();
    (release, jobs)
}

#[test]
fn many_jobs_share_few_threads_and_slow_ones_delay_no_other() {
    for stuck_jobs in [0, 1, 10] {
        let queue = queue(Lane::Sync);
        let (release, stuck) = stuck(queue, stuck_jobs);
        let (done, runs) = mpsc::channel();
        let jobs: Vec<Job> = (0..50)
            .map(|i| {
                let done = done.clone();
                let work = move || {
                    let _ = done.send(i);
                    None
                };
                add(queue, work)
            })
            .collect();
        for job in &jobs {
            job.wake_at(Instant::now());
        }
        let mut ran: Vec<i32> = (0..50)
            .map(|_| runs.recv_timeout(LONG / 2).expect("it runs"))
            .collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..50).collect::<Vec<_>>());
        let threads = queue.lock().threads;
        assert!(threads <= stuck_jobs + 6, "{stuck_jobs}: {threads}");
        drop(release);
        drop((jobs, stuck));
    }
}

#[test]
fn work_that_is_due_again_is_done_although_another_job_is_due_much_later() {
    let queue = queue(Lane::Sync);
    let later = add(queue, || None);
    later.wake_at(Instant::now() + 10 * LONG);
    let (done, runs) = mpsc::channel();
    let job = add(queue, move || {
        // Until another thread waits for the later one.
        std::thread::sleep(Duration::from_millis(20));
        let _ = done.send(());
        Some(Instant::now() + Duration::from_millis(5))
    });
    job.wake_at(Instant::now());
    for _ in 0..3 {
        runs.recv_timeout(LONG).expect("it runs");
    }
    drop((job, later));
}

#[test]
fn dropping_a_job_waits_for_its_work_and_a_panic_ends_no_other_job() {
    let queue = queue(Lane::Sync);
    let ends = Arc::new(AtomicUsize::new(0));
    let begins = Arc::new(Barrier::new(2));
    let slow = {
        let (begins, ends) = (Arc::clone(&begins), Arc::clone(&ends));
        add(queue, move || {
            begins.wait();
            std::thread::sleep(Duration::from_millis(30));
            ends.fetch_add(1, Ordering::SeqCst);
            Some(Instant::now())
        })
    };
    slow.wake_at(Instant::now());
    begins.wait();
    drop(slow);
    assert_eq!(ends.load(Ordering::SeqCst), 1);

    let panics = add(queue, || panic!("on purpose"));
    panics.wake_at(Instant::now());
    let (done, runs) = mpsc::channel();
    let next = add(queue, move || {
        let _ = done.send(());
        None
    });
    next.wake_at(Instant::now());
    runs.recv_timeout(LONG).expect("it runs");
    drop(panics);
    drop(next);
}

#[test]
fn a_job_can_be_dropped_by_its_own_work() {
    let own: Arc<Mutex<Option<Job>>> = Arc::default();
    let (done, runs) = mpsc::channel();
    let job = {
        let own = Arc::clone(&own);
        add(queue(Lane::Upkeep), move || {
            drop(own.lock().expect("unharmed").take());
            let _ = done.send(());
            None
        })
    };
    let mut place = own.lock().expect("unharmed");
    place.insert(job).wake_at(Instant::now());
    drop(place);
    runs.recv_timeout(LONG).expect("it ends");
}
