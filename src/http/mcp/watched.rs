//! The body of a long answer. It ends when its client loses access. An endless answer also ends
//! when the server stops.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tokio::time::{Interval, MissedTickBehavior};

use super::sessions::InUse;
use crate::http::access::Caller;
use crate::http::metrics::Counted;

/// Interval of checks of the client's access.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Watched {
    /// `None` after its end.
    body: Option<Body>,
    caller: Caller,
    looks: Interval,
    /// Ends an endless answer.
    stopped: Option<Stopped>,
    _session: Option<InUse>,
    _counted: Counted,
}

impl Watched {
    pub(super) fn new(
        body: Body,
        caller: Caller,
        session: Option<InUse>,
        is_open_ended: bool,
    ) -> Watched {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = caller.app.stopped.clone();
        let stopped: Stopped = Box::pin(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        });
        Watched {
            body: Some(body),
            looks,
            stopped: is_open_ended.then_some(stopped),
            _session: session,
            _counted: Counted::new(&caller.app.metrics.streams),
            caller,
        }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let stopped = self.stopped.as_mut();
        if stopped.is_some_and(|stopped| stopped.as_mut().poll(context).is_ready()) {
            return true;
        }
        while self.looks.poll_tick(context).is_ready() {
            if !self.caller.is_allowed() {
                return true;
            }
        }
        false
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // A finished body is not polled again.
        let is_over = self.body.is_some() && self.is_over(context);
        let frame = match &mut self.body {
            Some(body) if !is_over => ready!(Pin::new(body).poll_frame(context)),
            _ => None,
        };
        // If the token was revoked, the answer ends before more data is sent.
        let frame = frame.and_then(Result::ok).map(Ok);
        let frame = frame.filter(|_| self.caller.is_allowed());
        if frame.is_none() {
            self.body = None;
        }
        Poll::Ready(frame)
    }
}
