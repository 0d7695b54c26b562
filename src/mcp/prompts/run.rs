//! The events of a run: all of them, or its beginning, its end and what failed.

use serde_json::{Value, json};

use super::short::{clipped, without_nulls};
use crate::collections::{EventNode, SpanStatus};

/// Maximum size of all events, in bytes of JSON.
const NODES_BYTES_MAX: usize = 44 << 10;
const PAYLOAD_BYTES_MAX: usize = 400;

pub(super) fn shown(nodes: &[EventNode]) -> Value {
    let chosen = chosen(nodes);
    let left_out = nodes.len() - chosen.len();
    json!({ "nodes": chosen, "total": nodes.len(), "left_out": left_out })
}

/// The events that fit, in order: the root, failures, and then events from both ends.
fn chosen(nodes: &[EventNode]) -> Vec<Value> {
    let (mut front, mut back) = (0, nodes.len());
    let ends = std::iter::from_fn(|| {
        if front >= back {
            return None;
        }
        // The end is more informative, and has half as much space.
        if (front + (nodes.len() - back)) % 3 == 2 {
            back -= 1;
            return Some(back);
        }
        front += 1;
        Some(front - 1)
    });
    let failed = (0..nodes.len()).filter(|place| is_failed(&nodes[*place]));
    let mut taken = std::collections::BTreeMap::new();
    let mut bytes = 0;
    for place in (0..nodes.len().min(1)).chain(failed).chain(ends) {
        if taken.contains_key(&place) {
            continue;
        }
        let node = short(&nodes[place]);
        bytes += node.to_string().len() + 1;
        if bytes > NODES_BYTES_MAX {
            break;
        }
        taken.insert(place, node);
    }
    taken.into_values().collect()
}

fn is_failed(node: &EventNode) -> bool {
    node.status == Some(SpanStatus::Failed) || node.event.event_type.ends_with(".failed")
}

fn short(node: &EventNode) -> Value {
    let event = &node.event;
    let payload = event.payload.as_deref();
    without_nulls(json!({
        "id": event.id,
        "parent_id": event.parent_id,
        "depth": node.depth,
        "event_type": clipped(&event.event_type, 120),
        "created_at": event.created_at,
        "status": node.status,
        "duration_ms": node.duration_ms,
        "payload": payload.map(|text| clipped(text, PAYLOAD_BYTES_MAX)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Event;

    #[test]
    fn of_a_long_run_both_ends_and_what_failed_are_shown() {
        let node = |id: i64| {
            let kind = if id % 500 == 0 { "a.failed" } else { "a.done" };
            EventNode {
                event: Event {
                    id,
                    payload: Some("\n".repeat(300)),
                    ..Event::new(Some(1), kind)
                },
                depth: 1,
                status: None,
                duration_ms: None,
                parent_is_gone: false,
            }
        };
        let nodes: Vec<EventNode> = (1..=2_000).map(node).collect();
        let data = shown(&nodes);
        assert!(data.to_string().len() < 45 << 10);
        let ids = data["nodes"].as_array().unwrap().iter();
        let ids: Vec<i64> = ids.map(|node| node["id"].as_i64().unwrap()).collect();
        assert!(ids.is_sorted() && ids.len() > 20, "{ids:?}");
        for id in [1, 2, 500, 1_000, 1_500, 2_000, 1_999] {
            assert!(ids.contains(&id), "{id} is not in {ids:?}");
        }
        assert_eq!(data["left_out"], 2_000 - ids.len());
        assert_eq!(shown(&nodes[..9])["left_out"], 0);
        assert_eq!(shown(&[])["nodes"], json!([]));
    }
}
