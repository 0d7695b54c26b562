//! The terminal of `decklog top`. It is left as it was, however the program ends, unless it is killed.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};

use crate::cli::output::{Colour, Span, are_colours_wanted, fitting};

/// Whether the terminal is in the state for drawing.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// What a look at the keyboard found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A key or a signal that ends the program.
    End,
    /// The window has another size.
    Redraw,
    None,
}

/// The terminal in the state for drawing. Dropping it restores it, and so does a panic.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    signal: Arc<AtomicUsize>,
    has_colours: bool,
}

impl Screen {
    pub fn open() -> io::Result<Screen> {
        let signal = Arc::new(AtomicUsize::new(0));
        #[cfg(unix)]
        for number in ENDING {
            let registered = usize::try_from(number).unwrap_or(0);
            signal_hook::flag::register_usize(number, Arc::clone(&signal), registered)?;
        }
        #[cfg(unix)]
        end_if_stuck(Arc::clone(&signal))?;
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // The message comes after it.
            restore();
            before(panic);
        }));
        IS_OPEN.store(true, Ordering::SeqCst);
        let opened = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match opened {
            Ok(terminal) => Ok(Screen {
                terminal,
                signal,
                has_colours: are_colours_wanted(),
            }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Draws the lines that `lines` gives for the terminal's columns and rows.
    pub fn draw(
        &mut self,
        lines: impl FnOnce(usize, usize) -> Vec<Vec<Span<'static>>>,
    ) -> io::Result<()> {
        // Another thread may have panicked.
        if IS_OPEN.load(Ordering::SeqCst) {
            draw(&mut self.terminal, self.has_colours, lines)?;
        }
        Ok(())
    }

    /// Waits for a key.
    pub fn key(&self, timeout: Duration) -> io::Result<Key> {
        let has_event = match event::poll(timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            polled => polled?,
        };
        if self.signal().is_some() {
            return Ok(Key::End);
        }
        if !has_event {
            return Ok(Key::None);
        }
        Ok(match event::read()? {
            Event::Resize(..) => Key::Redraw,
            Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => Key::End,
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::End,
                _ => Key::None,
            },
            _ => Key::None,
        })
    }

    /// The signal that is to end the program.
    pub fn signal(&self) -> Option<i32> {
        let signal = i32::try_from(self.signal.load(Ordering::SeqCst));
        signal.ok().filter(|signal| *signal != 0)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// The signals that end the program.
#[cfg(unix)]
const ENDING: [i32; 4] = [
    signal_hook::consts::SIGHUP,
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGQUIT,
    signal_hook::consts::SIGTERM,
];

/// Starts a thread that ends the program if the screen does not answer to a signal: without its
/// terminal, the wait for a key does not end.
#[cfg(unix)]
fn end_if_stuck(signal: Arc<AtomicUsize>) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_millis(500);
    let watch = move || {
        loop {
            thread::sleep(PATIENCE);
            let number = i32::try_from(signal.load(Ordering::SeqCst)).unwrap_or(0);
            if number != 0 {
                thread::sleep(PATIENCE);
                restore();
                end_by(number);
            }
        }
    };
    let thread = thread::Builder::new().name("decklog top signals".to_owned());
    thread.spawn(watch).map(drop)
}

/// Ends the program as the signal does by default.
pub fn end_by(signal: i32) {
    #[cfg(unix)]
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    #[cfg(not(unix))]
    let _ = signal;
}

/// Restores the terminal once. It may be gone.
fn restore() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

pub fn draw<B: Backend>(
    terminal: &mut Terminal<B>,
    has_colours: bool,
    lines: impl FnOnce(usize, usize) -> Vec<Vec<Span<'static>>>,
) -> Result<(), B::Error> {
    terminal.draw(|frame| {
        let area = frame.area();
        let columns = usize::from(area.width);
        let line = |spans: Vec<Span<'static>>| {
            let parts = fitting(&spans, columns).into_iter();
            let parts = parts.map(|(text, colour)| {
                let style = colour
                    .filter(|_| has_colours)
                    .map_or_else(Style::new, style);
                ratatui::text::Span::styled(text, style)
            });
            parts.collect::<Line<'_>>()
        };
        let lines = lines(columns, usize::from(area.height));
        let text: Text<'_> = lines.into_iter().map(line).collect();
        frame.render_widget(text, area);
    })?;
    Ok(())
}

fn style(colour: Colour) -> Style {
    match colour {
        Colour::Red => Style::new().fg(Color::Red),
        Colour::Green => Style::new().fg(Color::Green),
        Colour::Yellow => Style::new().fg(Color::Yellow),
        Colour::Cyan => Style::new().fg(Color::Cyan),
        Colour::Bold => Style::new().add_modifier(Modifier::BOLD),
        Colour::Dim => Style::new().add_modifier(Modifier::DIM),
    }
}
