//! The objects in a log. Their members may have any type.

use crate::import::json::shapes;

shapes! {
    Log {
        status: "status",
        eval: "eval",
        samples: "samples",
    }

    Eval {
        task: "task",
        task_id: "task_id",
        created: "created",
    }

    Sample {
        id: "id",
        epoch: "epoch",
        uuid: "uuid",
        messages: "messages",
        scores: "scores",
        score: "score",
        events: "events",
        transcript: "transcript",
        attachments: "attachments",
        events_data: "events_data",
        message_pool: "message_pool",
        model_usage: "model_usage",
        started: "started_at",
        completed: "completed_at",
        error: "error",
        retries: "error_retries",
        limit: "limit",
    }

    /// What `events` and `attachments` were part of in the first versions.
    Transcript {
        events: "events",
        content: "content",
    }

    Pool {
        messages: "messages",
    }

    Message {
        id: "id",
        role: "role",
        content: "content",
        reasoning: "reasoning",
        calls: "tool_calls",
        call_id: "tool_call_id",
        error: "error",
        tool_error: "tool_error",
        model: "model",
    }

    Call {
        id: "id",
        function: "function",
        arguments: "arguments",
    }

    Part {
        kind: "type",
        text: "text",
        reasoning: "reasoning",
        summary: "summary",
        redacted: "redacted",
        id: "id",
        name: "name",
        arguments: "arguments",
        result: "result",
        error: "error",
    }

    Event {
        what: "event",
        kind: "type",
        at: "timestamp",
        completed: "completed",
        span: "span_id",
        id: "id",
        parent: "parent_id",
        name: "name",
        model: "model",
        input: "input",
        refs: "input_refs",
        output: "output",
        error: "error",
        cache: "cache",
        message: "message_id",
        agent_span: "agent_span_id",
    }

    Output {
        model: "model",
        choices: "choices",
        usage: "usage",
        time: "time",
        error: "error",
    }

    Choice {
        message: "message",
    }

    Usage {
        input: "input_tokens",
        output: "output_tokens",
        total: "total_tokens",
        cache_write: "input_tokens_cache_write",
        cache_read: "input_tokens_cache_read",
        reasoning: "reasoning_tokens",
        cost: "total_cost",
    }

    Score {
        value: "value",
        answer: "answer",
        explanation: "explanation",
    }

    /// An error, or a limit that was reached.
    Trouble {
        message: "message",
        kind: "type",
        limit: "limit",
        reason: "reason",
        events: "events",
    }
}
