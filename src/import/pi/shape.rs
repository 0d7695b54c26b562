//! The objects in a session file. Their members may have any type.

use crate::import::json::shapes;

shapes! {
    Entry {
        kind: "type",
        id: "id",
        parent: "parentId",
        timestamp: "timestamp",
        cwd: "cwd",
        parent_session: "parentSession",
        branched_from: "branchedFrom",
        provider: "provider",
        model: "modelId",
        message: "message",
        summary: "summary",
        content: "content",
        custom_type: "customType",
        name: "name",
    }

    Message {
        role: "role",
        content: "content",
        timestamp: "timestamp",
        provider: "provider",
        model: "model",
        usage: "usage",
        stop: "stopReason",
        error: "errorMessage",
        call_id: "toolCallId",
        is_error: "isError",
        details: "details",
        command: "command",
        output: "output",
        exit_code: "exitCode",
        cancelled: "cancelled",
        summary: "summary",
    }

    Block {
        kind: "type",
        text: "text",
        thinking: "thinking",
        id: "id",
        name: "name",
        arguments: "arguments",
    }

    Usage {
        input: "input",
        output: "output",
        cache_read: "cacheRead",
        cache_write: "cacheWrite",
        total: "totalTokens",
        cost: "cost",
    }

    Cost {
        total: "total",
    }
}
