//! What decklog sends comes back through the receiver as it was.

use super::{Body, Signal, Target};
use crate::otlp::send::tests::{all_lines, fill, open, records};
use crate::record::Kind;

#[test]
fn a_log_comes_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let lines = all_lines(&store);
    let bodies: Vec<Body> = lines
        .iter()
        .map(|line| {
            let signal = if line.starts_with("{\"resourceSpans\"") {
                Signal::Traces
            } else {
                Signal::Logs
            };
            Body::json(signal, line)
        })
        .collect();
    let target = Target::new();
    for body in &bodies {
        target.accept(body);
    }
    let (mut here, mut there) = (records(&store), records(&target.store));
    // The receiver describes what sent it in a turn.
    here.retain(|it| !there.remove(it));
    let strange: Vec<_> = there
        .iter()
        .filter(|it| !it.contains(r#"{\"otel\":{\"resource\""#))
        .collect();
    assert!(
        here.is_empty() && strange.is_empty(),
        "lost {here:#?}, changed {strange:#?}"
    );
    let (last, before) = (target.last(), records(&target.store));
    for body in &bodies {
        target.accept(body);
    }
    assert_eq!(records(&target.store), before);
    // A conversation that was changed goes through its changes once more. Nothing else is new.
    let more = target.store.last_lines(10).unwrap();
    let more = more.iter().filter(|it| it.seq > last);
    let more: Vec<_> = more.filter(|it| it.kind != Kind::Conversations).collect();
    assert!(more.is_empty(), "{more:#?}");
}
