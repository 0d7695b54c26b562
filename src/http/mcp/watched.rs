//! The body of a long answer. It ends when its client loses access. An endless answer also ends
//! when the server stops.

use std::time::Duration;

use axum::body::Body;
use tokio::time::MissedTickBehavior;
use tokio_stream::StreamExt as _;

use super::sessions::InUse;
use crate::http::access::Caller;
use crate::http::long;

/// Interval of checks of the client's access.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn watched(
    body: Body,
    caller: Caller,
    session: Option<InUse>,
    is_endless: bool,
) -> Body {
    let app = caller.app.clone();
    long::body(&app, is_endless, |out| async move {
        let _session = session;
        let mut parts = body.into_data_stream();
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                part = parts.next() => {
                    let Some(Ok(part)) = part else {
                        return;
                    };
                    // If the token was revoked, the answer ends before more data is sent.
                    if !caller.is_allowed() || out.send(part).await.is_err() {
                        return;
                    }
                }
                _ = looks.tick() => {
                    if !caller.is_allowed() {
                        return;
                    }
                }
            }
        }
    })
}
