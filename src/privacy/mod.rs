//! What of a record may reach the disk.

mod settings;

pub use settings::{Pattern, PrivacySettings};

use crate::error::Result;
use crate::record::Record;

/// Settings, ready to be applied.
#[allow(dead_code)]
#[derive(Debug)]
pub(crate) struct Privacy {
    settings: PrivacySettings,
}

#[allow(dead_code)]
impl Privacy {
    pub(crate) fn new(settings: PrivacySettings) -> Result<Privacy> {
        Ok(Privacy { settings })
    }

    /// What may be kept of a record that was checked.
    #[allow(clippy::unused_self)]
    pub(crate) fn apply(&self, record: Record) -> Result<Record> {
        Ok(record)
    }

    /// A user's id as it stands in the log.
    #[allow(clippy::unused_self)]
    pub(crate) fn user_id(&self, id: &str) -> Result<String> {
        Ok(id.to_owned())
    }
}
