//! Spans of OpenTelemetry as records.

use decklog::Store;
use decklog::otlp::{self, Encoding, Refusal, Signal};
use napi::Result;
use napi_derive::napi;

use crate::{errors, page};

/// Receives requests of OTLP, in the form that exporters send.
#[napi]
pub struct Receiver(otlp::Receiver);

impl Receiver {
    pub(crate) fn new(store: Store) -> Receiver {
        Receiver(otlp::Receiver::new(store))
    }
}

#[napi]
impl Receiver {
    /// Records spans or log records. Returns the numbers of those that were accepted and rejected,
    /// and why.
    #[napi]
    pub fn receive(&self, is_json: bool, is_traces: bool, request: &[u8]) -> Result<String> {
        let encoding = if is_json {
            Encoding::Json
        } else {
            Encoding::Protobuf
        };
        let signal = if is_traces {
            Signal::Traces
        } else {
            Signal::Logs
        };
        let outcome = self.0.receive(encoding, signal, request);
        let outcome = outcome.map_err(|refusal| match refusal {
            Refusal::Log(error) => errors::of(&error),
            malformed => errors::invalid("request", &malformed.to_string()),
        })?;
        page::text(&(outcome.accepted, outcome.rejected, outcome.reasons))
    }
}
