//! A report as a web page in one file.

use std::io::Write as _;
use std::str::FromStr;

use decklog::Store;
use decklog::page::Report;
use decklog::record::{Day, epoch_ms};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::ids::Root;

/// What a report is about.
#[derive(Debug, Clone)]
pub enum What {
    /// A conversation or a run, as [`Root::named`] reads it.
    Root(String),
    Days(Day, Option<Day>),
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<What, String> {
        if text.parse::<i64>().is_ok() {
            return Ok(What::Root(text.to_owned()));
        }
        let day = |text: &str| epoch_ms(text).and_then(Day::of).map_err(|e| e.to_string());
        if let Some((since, last)) = text.split_once("..") {
            return Ok(What::Days(day(since)?, Some(day(last)?)));
        }
        if let Ok(since) = day(text) {
            // A day alone is that day; 7d and the like last until today.
            let is_day = text == "yesterday" || text.parse::<Day>().is_ok();
            return Ok(What::Days(since, is_day.then_some(since)));
        }
        Ok(What::Root(text.to_owned()))
    }
}

pub fn write(what: Option<&What>, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let html = store.html_report(&report(&store, what)?)?;
    context.out.write_all(html.as_bytes())?;
    Ok(Exit::Ok)
}

fn report(store: &Store, what: Option<&What>) -> Result<Report, Failure> {
    Ok(match what {
        Some(What::Root(root)) => match Root::named(store, root)? {
            Root::Session(id) => Report::Conversation(id),
            Root::Event(event) => Report::Run(event),
        },
        Some(What::Days(since, last)) => {
            let after = |day: &Day| Day::of(day.bounds_ms().1);
            let until = last.as_ref().map(after).transpose()?;
            let since = Some(*since);
            Report::Period { since, until }
        }
        None => Report::Period {
            since: None,
            until: None,
        },
    })
}
