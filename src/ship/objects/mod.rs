//! A log in object storage: S3, Google Cloud Storage, Azure, or a directory.
//!
//! Each segment is compressed as it is. Engines read the objects by their names, see
//! [`layout`]; `store.json` names the manifests of the days, and they name the objects and the
//! hashes of what is in them.
//!
//! A run compares the store with `store.json`, and writes what differs: first the objects, then the
//! manifests, and then `store.json`. A run that dies leaves objects that no manifest names. Their
//! days are listed in `store.json` before the first of them is written, and the next run removes
//! them.

mod client;
mod connect;
mod layout;
#[cfg(feature = "parquet")]
mod parquet;
mod plan;
mod pull;
mod read;
mod ship;
mod upload;
mod verify;

pub(crate) use self::client::Objects;
pub(in crate::ship) use self::connect::open;
pub use self::pull::Pulled;
pub(crate) use self::ship::ObjectShipper;
pub use self::verify::{RemoteDamage, RemoteVerification};

/// Number of objects that are written or read at the same time.
const CONCURRENT: usize = 4;
