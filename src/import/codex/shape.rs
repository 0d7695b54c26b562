//! The objects in a rollout file, of any member types.

use serde::Deserialize;

use crate::import::json::Raw;

#[derive(Deserialize)]
pub(in crate::import) struct Line<'a> {
    #[serde(borrow)]
    pub(in crate::import) timestamp: Raw<'a>,
    #[serde(borrow, rename = "type")]
    pub(in crate::import) kind: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) payload: Raw<'a>,
}

/// The members of every kind of payload.
#[derive(Deserialize)]
pub(in crate::import) struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    pub(in crate::import) kind: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) id: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) model_provider: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) cwd: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) model: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) role: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) content: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) summary: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) name: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) arguments: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) input: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) action: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) call_id: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) output: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) message: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) info: Raw<'a>,
}

#[derive(Deserialize)]
pub(in crate::import) struct Part<'a> {
    #[serde(borrow, rename = "type")]
    pub(in crate::import) kind: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) text: Raw<'a>,
}

#[derive(Deserialize)]
pub(in crate::import) struct Info<'a> {
    #[serde(borrow)]
    pub(in crate::import) total_token_usage: Raw<'a>,
}

#[derive(Deserialize)]
pub(in crate::import) struct Total {
    pub(in crate::import) input_tokens: u64,
    pub(in crate::import) output_tokens: u64,
}

#[derive(Deserialize)]
pub(in crate::import) struct Outcome<'a> {
    #[serde(borrow)]
    pub(in crate::import) metadata: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) success: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) output: Raw<'a>,
    #[serde(borrow)]
    pub(in crate::import) content: Raw<'a>,
}

#[derive(Deserialize)]
pub(in crate::import) struct Metadata<'a> {
    #[serde(borrow)]
    pub(in crate::import) exit_code: Raw<'a>,
}
