//! The body of a long answer. It ends when its client loses access. An endless answer also ends
//! when the server stops.

use std::time::Duration;

use axum::body::Body;
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
        loop {
            // A part is taken once it can be sent: none waits here while the client loses access.
            let permit = tokio::select! {
                permit = out.reserve() => permit,
                () = lost_access(&caller) => return,
            };
            let part = tokio::select! {
                part = parts.next() => part,
                () = lost_access(&caller) => return,
            };
            let (Ok(permit), Some(Ok(part))) = (permit, part) else {
                return;
            };
            if !caller.is_allowed() {
                return;
            }
            permit.send(part);
        }
    })
}

/// Waits until the client loses access.
async fn lost_access(caller: &Caller) {
    while caller.is_allowed() {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
