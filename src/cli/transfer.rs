//! Shared by the commands that copy a log.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use decklog::ship::Progress;
use decklog::{Error, ErrorKind};
use indicatif::{ProgressBar, ProgressStyle};

use super::exit::Failure;

/// A shorter run shows no progress bar.
const BAR_AFTER: Duration = Duration::from_millis(500);

/// Runs a copy. On a terminal, a long one shows its progress on standard error.
pub fn with_progress<T>(
    progress: &Progress,
    is_json: bool,
    copy: impl FnOnce() -> decklog::Result<T>,
) -> Result<T, Failure> {
    if is_json || !std::io::stderr().is_terminal() {
        return copy().map_err(advise);
    }
    let is_over = AtomicBool::new(false);
    let copied = thread::scope(|scope| {
        scope.spawn(|| show(progress, &is_over));
        let copied = copy();
        is_over.store(true, Ordering::Release);
        copied
    });
    copied.map_err(advise)
}

/// Says what to do if the far end failed.
fn advise(error: Error) -> Failure {
    let is_remote = error.kind() == ErrorKind::Remote;
    let failure = Failure::from(error);
    if is_remote {
        failure.followed_by("; run the command again: it continues from what is there")
    } else {
        failure
    }
}

fn show(progress: &Progress, is_over: &AtomicBool) {
    let began = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    while !is_over.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(50));
        if began.elapsed() < BAR_AFTER || progress.bytes_total() == 0 {
            continue;
        }
        let bar = bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(
                "{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left",
            );
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_length(progress.bytes_total());
        bar.set_position(progress.bytes_done());
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}
