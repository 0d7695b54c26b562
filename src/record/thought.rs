//! Thoughts: an audit trail of an agent's plans, findings and decisions. Each record is chained to
//! the previous one by a hash.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::check_sha256;
use super::declare::record;
use super::json::hex;
use super::timestamp::Timestamp;
use super::words::words;
use crate::error::{Error, Result};

/// The `prev_hash` of the first record of a chain.
pub const GENESIS_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

words! {
    /// The type of the thought.
    ThoughtType("type") {
        /// The intended steps.
        Plan = "plan",
        /// A finding.
        Analysis = "analysis",
        /// A decision.
        Decision = "decision",
        /// A lesson learned.
        Reflection = "reflection",
    }
}

record! {
    /// A thought. Key: `id`. The records of one task form a chain.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub struct ThoughtRecord {
        /// Unique id. A UUID unless the caller sets it.
        [text_id, key] id: String = "a new UUID",
        /// The task whose chain it is in; never empty.
        [text_id, lookup] task_id: String,
        /// The hash of the previous record in the chain, or [`GENESIS_HASH`]. If empty, the log
        /// fills it in.
        [hash, default, lookup] prev_hash: String = "the hash of the previous thought",
        /// The hash of this record. If empty, the log fills it in.
        [hash, default, lookup] hash: String = "computed",
        /// The type of the thought.
        [word] thought_type as "type": ThoughtType,
        /// The agent's id; never empty, and not part of the hash.
        [text_id] agent_id: String,
        /// Time of the thought.
        [own_instant] timestamp: Timestamp,
        /// The text, stored byte for byte.
        [content] content: String,
    }
}

impl ThoughtRecord {
    /// The expected hash of the record: the SHA-256, in lower-case hex digits, of the canonical
    /// JSON (RFC 8785) of `content`, `id`, `prev_hash`, `task_id`, `timestamp` and `type`.
    ///
    /// ```
    /// use decklog::ThoughtRecord;
    /// use decklog::record::{GENESIS_HASH, ThoughtType};
    /// let record = ThoughtRecord {
    ///     id: "r1".into(),
    ///     task_id: "t1".into(),
    ///     prev_hash: GENESIS_HASH.into(),
    ///     hash: String::new(),
    ///     thought_type: ThoughtType::Plan,
    ///     agent_id: "not hashed".into(),
    ///     timestamp: "2026-04-17T00:00:00Z".parse()?,
    ///     content: "hello".into(),
    /// };
    /// let expected = "6a2f9597f563d5515cfa69891a51806d0f93bfbe222997d3ba37c365ceee3f1a";
    /// assert_eq!(record.computed_hash(), expected);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn computed_hash(&self) -> String {
        #[derive(Serialize)]
        struct Hashed<'a> {
            content: &'a str,
            id: &'a str,
            prev_hash: &'a str,
            task_id: &'a str,
            timestamp: &'a str,
            r#type: ThoughtType,
        }
        let hashed = Hashed {
            content: &self.content,
            id: &self.id,
            prev_hash: &self.prev_hash,
            task_id: &self.task_id,
            timestamp: self.timestamp.as_str(),
            r#type: self.thought_type,
        };
        // Texts always have a canonical form.
        let canonical = serde_json_canonicalizer::to_vec(&hashed).unwrap_or_default();
        hex(&Sha256::digest(canonical))
    }

    pub(super) fn check(&self) -> Result<()> {
        for (name, hash) in [("prev_hash", &self.prev_hash), ("hash", &self.hash)] {
            if !hash.is_empty() {
                check_sha256(name, hash)?;
                if hash.bytes().any(|b| b.is_ascii_uppercase()) {
                    let message = format!("{name} {hash} is not in lower case");
                    return Err(Error::invalid(message));
                }
            }
        }
        Ok(())
    }
}
