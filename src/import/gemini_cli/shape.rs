//! The objects in a chat file. Their members may have any type.

use crate::import::json::shapes;

shapes! {
    /// A whole chat, or a line of one: its start, a message, a change or a step back.
    Entry {
        session_id: "sessionId",
        project: "projectHash",
        kind_of_chat: "kind",
        directories: "directories",
        summary: "summary",
        messages: "messages",
        set: "$set",
        rewind: "$rewindTo",
        id: "id",
        timestamp: "timestamp",
        kind: "type",
        content: "content",
        thoughts: "thoughts",
        tokens: "tokens",
        model: "model",
        calls: "toolCalls",
    }

    Thought {
        subject: "subject",
        description: "description",
    }

    Tokens {
        input: "input",
        output: "output",
        cached: "cached",
        thoughts: "thoughts",
        tool: "tool",
        total: "total",
    }

    Call {
        id: "id",
        name: "name",
        args: "args",
        result: "result",
        status: "status",
        timestamp: "timestamp",
        agent_id: "agentId",
        display: "resultDisplay",
    }

    Part {
        text: "text",
        thought: "thought",
        call: "functionCall",
        response: "functionResponse",
        inline: "inlineData",
        file: "fileData",
        code: "executableCode",
        code_result: "codeExecutionResult",
    }

    FunctionCall {
        id: "id",
        name: "name",
        args: "args",
    }

    FunctionResponse {
        id: "id",
        response: "response",
    }

    Response {
        output: "output",
        error: "error",
    }
}
