//! The objects in a rollout file. Their members may have any type.

use crate::import::json::shapes;

shapes! {
    Line {
        timestamp: "timestamp",
        kind: "type",
        payload: "payload",
        ordinal: "ordinal",
    }

    /// The members of all kinds of payload.
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
        session_id: "session_id",
        parent_thread_id: "parent_thread_id",
        source: "source",
        agent_nickname: "agent_nickname",
        agent_path: "agent_path",
        new_thread_id: "new_thread_id",
        item: "item",
        usage: "usage",
        git: "git",
        text: "text",
        thread_id: "thread_id",
        thread_name: "thread_name",
        agent_thread_id: "agent_thread_id",
        activity: "kind",
        event_id: "event_id",
        tools: "tools",
        status: "status",
        revised_prompt: "revised_prompt",
        result: "result",
        prompt: "prompt",
        hint: "user_facing_hint",
        num_turns: "num_turns",
    }

    /// The repository of a session.
    Git {
        branch: "branch",
    }

    /// A completed item.
    Item {
        kind: "type",
        id: "id",
        activity: "kind",
        agent_thread_id: "agent_thread_id",
        command: "command",
        cwd: "cwd",
        changes: "changes",
        status: "status",
        exit_code: "exit_code",
        duration: "duration",
        aggregated_output: "aggregated_output",
        stderr: "stderr",
        call_id: "call_id",
        success: "success",
        invocation: "invocation",
        server: "server",
        tool: "tool",
        arguments: "arguments",
        result: "result",
        error: "error",
    }

    /// The result of an MCP tool.
    McpResult {
        ok: "Ok",
        err: "Err",
        is_error: "isError",
        is_error_too: "is_error",
        content: "content",
        message: "message",
    }

    Duration {
        secs: "secs",
        nanos: "nanos",
    }

    /// The origin of a session that no person started.
    Source {
        subagent: "subagent",
    }

    Subagent {
        thread_spawn: "thread_spawn",
    }

    Spawn {
        parent_thread_id: "parent_thread_id",
        agent_nickname: "agent_nickname",
        agent_path: "agent_path",
    }

    Part {
        kind: "type",
        text: "text",
    }

    Info {
        model: "model",
        total_token_usage: "total_token_usage",
        last_token_usage: "last_token_usage",
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
