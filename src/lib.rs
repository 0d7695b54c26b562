//! stub
mod error;
pub mod import;
mod record;
mod store;
pub use error::{DbError, Error, ErrorKind, Result};
pub use record::{
    CallStatus, ConversationTurn, Day, Kind, NAME_BYTES_MAX, Record, ToolCall, ToolCallDone,
    ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};
pub use store::{Ack, AckStatus, Store};
