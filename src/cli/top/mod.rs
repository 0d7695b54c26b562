//! `decklog top`

mod draw;
#[cfg(all(test, target_os = "linux"))]
#[path = "../../../tests/it/cli/pty.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::expect_used)]
mod pty;
mod screen;
#[cfg(test)]
mod tests;
mod watch;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use decklog::Store;

use super::context::Context;
use super::exit::{Exit, Failure};
use draw::Now;
use screen::{Key, Screen};
use watch::{View, Watch};

/// How long one look at the log waits for new lines.
const LOOK: Duration = Duration::from_millis(500);
/// How long one look at the keyboard takes.
const KEYS: Duration = Duration::from_millis(100);
/// The screen is drawn this often, also if the log does not change: durations grow.
const LOOKS_PER_DRAWING: u32 = 5;

/// Watch the log live: rates, running calls, errors, and the busiest conversations
///
/// Rates are those of the last seconds, from all processes. Ends with q, Esc or Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog top\n  decklog top --once\n  decklog top --once --json | jq .tokens_per_minute"
)]
pub struct Args {
    /// Print the figures once, as text or with --json, and end; needs no terminal
    #[arg(long)]
    once: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if args.once {
        return once(context);
    }
    if context.json {
        return Err(Failure::usage(
            "--json needs --once: a terminal is for people",
        ));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let message = "top draws on a terminal, and standard input or output is none: for scripts, use --once";
        return Err(Failure::usage(message));
    }
    let store = context.open_to_read()?;
    let (sender, views) = sync_channel(1);
    let reader = thread::Builder::new().name("decklog top".to_owned());
    let reader = reader.spawn(move || read(&store, &sender));
    reader.map_err(|error| Failure::store(format!("cannot start a thread: {error}")))?;
    let mut screen = Screen::open().map_err(|e| of_terminal(&e))?;
    let ended = show(&mut screen, &views);
    let signal = screen.signal();
    drop(screen);
    if let Some(signal) = signal {
        screen::end_by(signal);
    }
    ended.map(|()| Exit::Ok)
}

/// Sends views of the log until one cannot be had or nobody takes them. The screen answers to keys
/// meanwhile.
fn read(store: &Store, views: &SyncSender<decklog::Result<View>>) {
    let mut watch = match Watch::new(store) {
        Ok(watch) => watch,
        Err(error) => {
            let _ = views.send(Err(error));
            return;
        }
    };
    let mut timeout = Duration::ZERO;
    loop {
        let view = watch.look(timeout).cloned();
        let is_last = view.is_err();
        if views.send(view).is_err() || is_last {
            return;
        }
        timeout = LOOK;
    }
}

fn of_terminal(error: &io::Error) -> Failure {
    Failure::store(format!("cannot use the terminal: {error}"))
}

/// Draws the views until a key or a signal ends it.
fn show(screen: &mut Screen, views: &Receiver<decklog::Result<View>>) -> Result<(), Failure> {
    let mut view = None;
    let mut looks = 0;
    loop {
        let is_new = match views.try_recv() {
            Ok(new) => {
                view = Some(new?);
                true
            }
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::store("the thread that reads the log ended"));
            }
        };
        if is_new || looks == 0 {
            let now = Now::new();
            let lines = |columns, rows| draw::lines(view.as_ref(), &now, columns, Some(rows));
            screen.draw(lines).map_err(|e| of_terminal(&e))?;
            looks = LOOKS_PER_DRAWING;
        }
        looks -= 1;
        match screen.key(KEYS).map_err(|e| of_terminal(&e))? {
            Key::End => return Ok(()),
            Key::Redraw => looks = 0,
            Key::None => {}
        }
    }
}

fn once(context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let mut watch = Watch::new(&store)?;
    let view = watch.look(Duration::ZERO)?;
    if context.json {
        context.out.json(view)?;
        return Ok(Exit::Ok);
    }
    let columns = context.out.columns();
    for line in draw::lines(Some(view), &Now::new(), columns, None) {
        context.out.spans(&line)?;
    }
    Ok(Exit::Ok)
}
