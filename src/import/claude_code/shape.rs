//! The objects in a session file, of any member types.

use serde::Deserialize;

use crate::import::json::Raw;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::import) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(in crate::import) kind: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) uuid: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) parent_uuid: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) session_id: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) cwd: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) is_sidechain: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) agent_id: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) is_api_error_message: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) timestamp: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) message: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) is_meta: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) is_compact_summary: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) tool_use_result: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) content: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) subtype: Raw<'a>,
}

#[derive(Deserialize)]
pub(in crate::import) struct Message<'a> {
    #[serde(borrow)]
    pub(in crate::import) id: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) model: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) content: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) usage: Raw<'a>,
}

#[derive(Deserialize)]
pub(in crate::import) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(in crate::import) kind: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) text: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) thinking: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) id: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) name: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) input: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) tool_use_id: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) content: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) is_error: Raw<'a>,
}

#[derive(Deserialize)]
pub(in crate::import) struct UsageObject {
    #[serde(rename = "input_tokens")]
    pub(in crate::import) input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    pub(in crate::import) cache_creation: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    pub(in crate::import) cache_read: Option<u64>,
    #[serde(rename = "output_tokens")]
    pub(in crate::import) output: Option<u64>,
}
