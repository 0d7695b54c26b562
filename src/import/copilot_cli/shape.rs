//! The objects in an event file. Their members may have any type.

use crate::import::json::shapes;

shapes! {
    Line {
        kind: "type",
        data: "data",
        id: "id",
        timestamp: "timestamp",
        agent_id: "agentId",
    }

    /// The members of all kinds of data.
    Data {
        session_id: "sessionId",
        context: "context",
        spawner: "detachedFromSpawningParentSessionId",
        start_time: "startTime",
        selected_model: "selectedModel",
        was_active: "sessionWasActive",
        new_model: "newModel",
        title: "title",
        content: "content",
        source: "source",
        attachments: "attachments",
        message_id: "messageId",
        api_call_id: "apiCallId",
        parent_call: "parentToolCallId",
        reasoning: "reasoningText",
        requests: "toolRequests",
        output_tokens: "outputTokens",
        model: "model",
        call_id: "toolCallId",
        tool: "toolName",
        arguments: "arguments",
        success: "success",
        result: "result",
        error: "error",
        agent_name: "agentName",
        agent_title: "agentDisplayName",
        message: "message",
        summary: "summary",
        summary_content: "summaryContent",
        reason: "reason",
        cwd: "cwd",
        branch: "branch",
        metrics: "modelMetrics",
        nano_aiu: "totalNanoAiu",
    }

    Context {
        cwd: "cwd",
        branch: "branch",
        model: "model",
    }

    Request {
        id: "toolCallId",
        name: "name",
        name_too: "toolName",
        arguments: "arguments",
    }

    Outcome {
        content: "content",
        message: "message",
    }

    Attachment {
        kind: "type",
    }

    Metric {
        usage: "usage",
    }

    Usage {
        input: "inputTokens",
        output: "outputTokens",
        cache_read: "cacheReadTokens",
        cache_write: "cacheWriteTokens",
        reasoning: "reasoningTokens",
    }
}
