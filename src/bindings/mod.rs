//! Records and queries whose types are known only at run time: what the bindings for Python and
//! JavaScript are made of.
//!
//! ```
//! use decklog::bindings::{Dynamic, Input, List};
//! use decklog::Kind;
//! # let dir = tempfile::tempdir().unwrap();
//! # let store = decklog::Store::open(dir.path().join("log"))?;
//! let input = Input::new(Some(Kind::Events), &[("event_type", "worker.spawned".into())])?;
//! assert_eq!(store.record_input(input)?.assigned, Some(1));
//! let mut list = List::new(Kind::Events, &[("event_type", "worker.spawned".into())])?;
//! let event = list.next(&store)?.pop().unwrap();
//! assert_eq!(serde_json::to_value(&event).unwrap()["id"], 1);
//! assert!(list.next(&store)?.is_empty());
//! # Ok::<(), decklog::Error>(())
//! ```

mod ack;
#[cfg(feature = "arrow")]
mod arrow;
mod batch;
mod get;
mod input;
mod item;
mod list;
mod numbers;
mod schema;
mod update;

pub use self::ack::{Head, RecordId, Recorded};
#[cfg(feature = "arrow")]
pub use self::arrow::ArrowReader;
pub use self::batch::{Batch, Outcomes, Refused};
pub use self::get::{get, key};
pub use self::input::{Input, payload, push_text};
pub use self::item::Item;
pub use self::list::{List, time};
pub use self::numbers::has_long_number;
pub use self::schema::{MemberSchema, RecordSchema, list_arguments, record_types};
pub use self::update::update_conversation;
pub use crate::collections::ArgumentSchema;
pub use crate::record::Dynamic;
