//! Long answers: a task sends them in parts, while the client reads.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::app::App;
use super::metrics::Counted;

/// The body of a long answer, which `send` sends until the client disconnects. An endless answer also
/// ends when the server stops.
pub(super) fn body<F: Future<Output = ()> + Send + 'static>(
    app: &App,
    is_endless: bool,
    send: impl FnOnce(mpsc::Sender<Bytes>) -> F,
) -> Body {
    let (out, parts) = mpsc::channel(1);
    let sending = send(out.clone());
    let mut stopped = app.stopped.clone();
    let counted = Counted::new(&app.metrics.streams);
    tokio::spawn(async move {
        let _counted = counted;
        tokio::select! {
            () = sending => {}
            _ = stopped.wait_for(|stopped| *stopped), if is_endless => {}
            () = out.closed() => {}
        }
    });
    Body::from_stream(ReceiverStream::new(parts).map(Ok::<Bytes, Infallible>))
}
