//! What retention removes and what stays: messages expire, the sums in the reports do not. The log
//! is in a temporary directory that is removed at the end.
//!
//! `cargo run --example retention`

use decklog::analytics::AnalyticsQuery;
use decklog::retention::{Keep, RetainOptions};
use decklog::{Client, Conversation, ConversationMessage, Role, Settings, Store, Timestamp};
use uuid::Uuid;

const DAY_MS: i64 = 86_400_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("decklog-retention-{}", Uuid::new_v4()));
    // Every process that writes this store obeys these settings.
    let mut settings = Settings::default();
    settings.retention.messages = Some(Keep::Days(30));
    let store = Store::options().settings(settings).open(&dir)?;

    let now = Timestamp::now().at();
    for days_ago in [100, 60, 31, 10, 0] {
        let at = Timestamp::from_ms(now - days_ago * DAY_MS)?;
        let conversation = Conversation::new(Uuid::new_v4(), Client::Api)
            .created_at(at.clone())
            .updated_at(at.clone())
            .title(format!("{days_ago} days ago"));
        let answer = ConversationMessage::new(conversation.id, Role::Assistant, "Done.")
            .timestamp(at)
            .model_used("small-1")
            .tokens_in(100)
            .tokens_out(20);
        store.record(conversation)?;
        store.record(answer)?;
    }
    show("before", &store)?;
    for dry_run in [true, false] {
        let options = RetainOptions {
            dry_run,
            ..RetainOptions::default()
        };
        let does = if dry_run { "would remove" } else { "removes" };
        for part in store.retain(options)?.parts {
            println!(
                "retention {does} {} lines of {} of {}",
                part.lines, part.kind, part.day
            );
        }
    }
    show("after", &store)?;
    store.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn show(when: &str, store: &Store) -> decklog::Result<()> {
    let kept = store.conversations(&decklog::query::ConversationQuery::default())?;
    let titles = kept
        .items
        .into_iter()
        .filter_map(|(conversation, _)| conversation.title);
    println!(
        "{when}: {} conversations: {}",
        kept.total,
        titles.collect::<Vec<_>>().join(", ")
    );
    let usage = store.analytics().usage(&AnalyticsQuery::default())?.total;
    println!(
        "{when}: {} requests, {} tokens in",
        usage.requests, usage.tokens_in
    );
    Ok(())
}
