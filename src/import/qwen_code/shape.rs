//! The objects in a chat file. Their members may have any type.

use crate::import::json::shapes;

shapes! {
    Line {
        uuid: "uuid",
        parent: "parentUuid",
        session_id: "sessionId",
        timestamp: "timestamp",
        kind: "type",
        subtype: "subtype",
        provenance: "provenance",
        cwd: "cwd",
        branch: "gitBranch",
        model: "model",
        message: "message",
        usage: "usageMetadata",
        outcome: "toolCallResult",
        payload: "systemPayload",
        agent_id: "agentId",
        agent_name: "agentName",
        is_agent: "isSidechain",
        fork: "forkedFrom",
    }

    Message {
        parts: "parts",
    }

    Usage {
        prompt: "promptTokenCount",
        output: "candidatesTokenCount",
        thoughts: "thoughtsTokenCount",
        cached: "cachedContentTokenCount",
        total: "totalTokenCount",
    }

    Outcome {
        status: "status",
        display: "resultDisplay",
    }

    Fork {
        session_id: "sessionId",
    }

    /// The members of all kinds of payload.
    Payload {
        title: "customTitle",
        source: "titleSource",
        parent_session: "parentSessionId",
        model: "modelId",
        command: "rawCommand",
        items: "outputHistoryItems",
        history: "compressedHistory",
        event: "uiEvent",
    }

    Shown {
        text: "text",
    }

    Event {
        name: "event.name",
        error: "error",
        error_too: "error_message",
    }
}
