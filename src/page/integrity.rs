//! The state of the files: damage, seals, removals, and what retention removes next.

use maud::{Markup, html};

use super::layout::{Page, figure};
use super::text::time;
use super::{Answer, Site};
use crate::human::{bytes, count, counted};
use crate::store::{Health, LockState};

const PATH: &str = "/ui/integrity";
/// Number of damaged places in the list.
const DAMAGE_MAX: usize = 100;

pub(super) fn page(site: &Site<'_>) -> Answer {
    let health = site.store.health()?;
    let damage = site.store.damage()?;
    let seals = site.store.seal_head()?;
    let main = html! {
        h1 { "Integrity" }
        (state(&health))
        h2 { "Seals" }
        @match seals {
            Some(head) => p {
                "The last of " (count(head.seal)) " seals was made " (time(head.at)) ". Its hash: " code { (head.hash) } "."
            },
            None => p.empty { "Nothing is sealed yet. Segments are sealed when they are full or their day is over." },
        }
        h2 { "Verification" }
        (verification(site))
        h2 { "Damage" }
        @if damage.is_empty() {
            p.ok { "No damage is known." }
        } @else {
            div.scroll {
                table {
                    thead { tr { th scope="col" { "File" } th.num scope="col" { "Byte" } th.num scope="col" { "Length" } th scope="col" { "Class" } th scope="col" { "Reason" } } }
                    tbody {
                        @for it in damage.iter().take(DAMAGE_MAX) {
                            tr data-item data-failed {
                                th scope="row" { code { (it.file) } }
                                td.num { (count(it.offset)) }
                                td.num { (bytes(it.length)) }
                                td { span.tag.failed { (it.class.as_str()) } }
                                td { (it.reason) }
                            }
                        }
                    }
                }
            }
            @if damage.len() > DAMAGE_MAX { p.note { (count((damage.len() - DAMAGE_MAX) as u64)) " more places: see 'decklog doctor'." } }
        }
        h2 { "Removals" }
        @if health.removed.lines == 0 {
            p.empty { "No line was removed." }
        } @else {
            p {
                (count(health.removed.lines)) " lines (" (bytes(health.removed.bytes)) ") were removed."
                @if let (Some(at), Some(reason)) = (health.removed.last_at, health.removed.last_reason) {
                    " The last removal was " (time(at)) ", by " (reason.as_str()) "."
                }
            }
        }
        (next_removals(&health))
        h2 { "Files" }
        (files(&health))
    };
    Ok(Page::new("Integrity", PATH, main))
}

/// The last verification of all bytes.
fn verification(site: &Site<'_>) -> Markup {
    let Some(last) = site.store.last_verification() else {
        return html! {
            p.empty { "The log was not verified yet. 'decklog verify' checks every byte of it, and every seal." }
        };
    };
    let found = [
        (last.damage, "damaged place"),
        (last.violations, "broken rule"),
        (last.gaps, "gap"),
        (last.repeats, "repeat"),
    ];
    let found = found.into_iter().filter(|(number, _)| *number > 0);
    let found: Vec<String> = found.map(|(number, what)| counted(number, what)).collect();
    html! {
        p.ok[last.is_clean()].error[!last.is_clean()] data-part="verification" {
            "The last verification was " (time(last.at)) ". It read " (bytes(last.bytes)) " in "
            (counted(last.segments, "segment")) " and " (counted(last.seals, "seal"))
            @if found.is_empty() { ". Nothing was wrong." } @else { ". It found " (found.join(", ")) ": see 'decklog verify'." }
        }
    }
}

fn state(health: &Health) -> Markup {
    let lock = match health.lock {
        LockState::Free => "free".to_owned(),
        LockState::Held {
            process: Some(process),
        } => format!("held by process {process}"),
        LockState::Held { process: None } => "held".to_owned(),
        LockState::Abandoned { process } => format!("abandoned by process {process}"),
        LockState::Unknown => "unknown".to_owned(),
    };
    html! {
        @if let Some(reason) = &health.poisoned {
            p.banner.bad { "This service acknowledges no more records: " (reason) ". Restart it." }
        }
        @if let Some(error) = &health.upkeep_failed {
            p.banner.bad { "The last daily upkeep failed: " (error) }
        }
        dl.figures {
            (figure("State", if health.is_good() { "good" } else { "needs attention" }, None))
            (figure("Damaged places", count(health.damage.total()), None))
            (figure("Last sequence number", count(health.last_seq), None))
            (figure("Size", bytes(health.bytes()), health.max_bytes.map(|max| format!("of at most {}", bytes(max)))))
            (figure("Quarantine", count(health.quarantine_files), Some("files".into())))
            (figure("Write lock", lock, None))
            @if let Some(day) = health.last_upkeep { (figure("Last upkeep", day.to_string(), None)) }
        }
    }
}

fn next_removals(health: &Health) -> Markup {
    html! {
        h2 { "What retention removes next" }
        @if health.next_removals.is_empty() {
            p.empty { "Nothing is removed automatically." }
        } @else {
            div.scroll {
                table {
                    thead { tr { th scope="col" { "Kind" } th scope="col" { "Day" } th scope="col" { "Expires" } th.num scope="col" { "What" } th scope="col" { "Setting" } } }
                    tbody {
                        @for next in &health.next_removals {
                            tr data-item {
                                th scope="row" { (next.kind.stem()) }
                                td { (next.day) }
                                td { (time(next.at)) }
                                td.num { @if next.conversations > 0 { (count(next.conversations)) " conversations" } @else { (bytes(next.bytes)) } }
                                td { code { (next.setting) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn files(health: &Health) -> Markup {
    let mut kinds: Vec<_> = health.usage.iter().map(|usage| usage.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let sums = kinds.into_iter().map(|kind| {
        let of_kind = health.usage.iter().filter(|usage| usage.kind == kind);
        let (mut days, mut segments, mut bytes) = (0_u64, 0, 0);
        for usage in of_kind {
            (days, segments, bytes) = (days + 1, segments + usage.segments, bytes + usage.bytes);
        }
        (kind, days, segments, bytes)
    });
    html! {
        div.scroll {
            table {
                thead { tr { th scope="col" { "Kind" } th.num scope="col" { "Days" } th.num scope="col" { "Files" } th.num scope="col" { "Size" } } }
                tbody {
                    @for (kind, days, segments, size) in sums {
                        tr { th scope="row" { (kind.stem()) } td.num { (count(days)) } td.num { (count(segments)) } td.num { (bytes(size)) } }
                    }
                }
            }
        }
        p.soft { "Cache: " (bytes(health.cache_bytes)) ". It can be deleted at any time." }
    }
}
