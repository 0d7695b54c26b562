//! The objects in a rollout file, of any member types.

use crate::import::json::shapes;

shapes! {
    Line {
        timestamp: "timestamp",
        kind: "type",
        payload: "payload",
        ordinal: "ordinal",
    }

    /// The members of every kind of payload.
    Payload {
        kind: "type",
        id: "id",
        model_provider: "model_provider",
        cwd: "cwd",
        model: "model",
        role: "role",
        content: "content",
        summary: "summary",
        name: "name",
        arguments: "arguments",
        input: "input",
        action: "action",
        call_id: "call_id",
        output: "output",
        message: "message",
        info: "info",
        timestamp: "timestamp",
        forked_from_id: "forked_from_id",
        history_start: "subagent_history_start_ordinal",
        turn_id: "turn_id",
        started_at: "started_at",
    }

    Part {
        kind: "type",
        text: "text",
    }

    Info {
        total_token_usage: "total_token_usage",
    }

    Total {
        input: "input_tokens",
        cache_read: "cached_input_tokens",
        cache_write: "cache_write_input_tokens",
        output: "output_tokens",
        reasoning: "reasoning_output_tokens",
    }

    Outcome {
        metadata: "metadata",
        success: "success",
        output: "output",
        content: "content",
    }

    Metadata {
        exit_code: "exit_code",
    }
}
