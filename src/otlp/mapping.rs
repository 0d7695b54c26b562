//! What the attributes of each convention mean: one table for each.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The meaning of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Field {
    /// The operation, by the names of the GenAI conventions.
    Operation,
    /// The kind of a span, by the names of OpenInference and OpenLLMetry.
    SpanKind,
    /// The operation, by the names of the Vercel AI SDK.
    VercelOperation,
    Provider,
    Conversation,
    User,
    Agent,
    RequestModel,
    ResponseModel,
    ResponseId,
    /// Messages, as JSON or as a value.
    Input,
    System,
    Output,
    /// Parts of the output that are reported apart.
    OutputText,
    OutputReasoning,
    OutputCalls,
    ToolName,
    ToolCallId,
    ToolArguments,
    ToolResult,
    TokensIn,
    TokensOut,
    TokensCacheRead,
    TokensCacheWrite,
    TokensReasoning,
    /// In US dollars.
    Cost,
    ErrorType,
    ErrorMessage,
}

type Table = &'static [(&'static str, Field)];

/// The GenAI conventions: github.com/open-telemetry/semantic-conventions-genai at commit e8fc575.
const GEN_AI: Table = &[
    ("gen_ai.operation.name", Field::Operation),
    ("gen_ai.provider.name", Field::Provider),
    ("gen_ai.conversation.id", Field::Conversation),
    ("gen_ai.agent.name", Field::Agent),
    ("gen_ai.request.model", Field::RequestModel),
    ("gen_ai.response.model", Field::ResponseModel),
    ("gen_ai.response.id", Field::ResponseId),
    ("gen_ai.input.messages", Field::Input),
    ("gen_ai.system_instructions", Field::System),
    ("gen_ai.output.messages", Field::Output),
    ("gen_ai.tool.name", Field::ToolName),
    ("gen_ai.tool.call.id", Field::ToolCallId),
    ("gen_ai.tool.call.arguments", Field::ToolArguments),
    ("gen_ai.tool.call.result", Field::ToolResult),
    ("gen_ai.usage.input_tokens", Field::TokensIn),
    ("gen_ai.usage.output_tokens", Field::TokensOut),
    (
        "gen_ai.usage.cache_read.input_tokens",
        Field::TokensCacheRead,
    ),
    (
        "gen_ai.usage.cache_creation.input_tokens",
        Field::TokensCacheWrite,
    ),
    (
        "gen_ai.usage.reasoning.output_tokens",
        Field::TokensReasoning,
    ),
    ("error.type", Field::ErrorType),
    ("session.id", Field::Conversation),
    ("user.id", Field::User),
    ("enduser.id", Field::User),
];

/// Names of earlier versions of the GenAI conventions, and variants that are in use.
const GEN_AI_BEFORE: Table = &[
    ("gen_ai.system", Field::Provider),
    ("gen_ai.prompt", Field::Input),
    ("gen_ai.completion", Field::Output),
    ("gen_ai.tool.arguments", Field::ToolArguments),
    ("gen_ai.tool.result", Field::ToolResult),
    ("gen_ai.usage.prompt_tokens", Field::TokensIn),
    ("gen_ai.usage.completion_tokens", Field::TokensOut),
    (
        "gen_ai.usage.cache_read_input_tokens",
        Field::TokensCacheRead,
    ),
    ("gen_ai.usage.cached_tokens", Field::TokensCacheRead),
    (
        "gen_ai.usage.cache_write.input_tokens",
        Field::TokensCacheWrite,
    ),
    (
        "gen_ai.usage.cache_creation_input_tokens",
        Field::TokensCacheWrite,
    ),
    ("gen_ai.usage.reasoning_tokens", Field::TokensReasoning),
    ("gen_ai.usage.cost", Field::Cost),
    ("operation.cost", Field::Cost),
    ("enduser.pseudo.id", Field::User),
    // Pydantic AI.
    ("pydantic_ai.all_messages", Field::Input),
    ("agent_name", Field::Agent),
    ("tool_arguments", Field::ToolArguments),
    ("tool_response", Field::ToolResult),
    (
        "gen_ai.usage.details.cache_read_tokens",
        Field::TokensCacheRead,
    ),
    (
        "gen_ai.usage.details.cache_write_tokens",
        Field::TokensCacheWrite,
    ),
    (
        "gen_ai.usage.details.reasoning_tokens",
        Field::TokensReasoning,
    ),
];

/// OpenLLMetry (Traceloop), where it differs.
const OPENLLMETRY: Table = &[
    ("traceloop.span.kind", Field::SpanKind),
    ("llm.request.type", Field::SpanKind),
    ("traceloop.entity.name", Field::ToolName),
    ("traceloop.entity.input", Field::ToolArguments),
    ("traceloop.entity.output", Field::ToolResult),
    (
        "traceloop.association.properties.session_id",
        Field::Conversation,
    ),
    (
        "traceloop.association.properties.thread_id",
        Field::Conversation,
    ),
    ("traceloop.association.properties.user_id", Field::User),
    ("llm.usage.reasoning_tokens", Field::TokensReasoning),
    ("llm.user", Field::User),
];

/// OpenInference (Arize Phoenix).
const OPENINFERENCE: Table = &[
    ("openinference.span.kind", Field::SpanKind),
    ("llm.provider", Field::Provider),
    ("llm.system", Field::Provider),
    ("llm.model_name", Field::ResponseModel),
    ("llm.request.model_name", Field::RequestModel),
    ("llm.response.model_name", Field::ResponseModel),
    ("llm.input_messages", Field::Input),
    ("llm.output_messages", Field::Output),
    ("llm.token_count.prompt", Field::TokensIn),
    ("llm.token_count.completion", Field::TokensOut),
    (
        "llm.token_count.prompt_details.cache_read",
        Field::TokensCacheRead,
    ),
    (
        "llm.token_count.prompt_details.cache_write",
        Field::TokensCacheWrite,
    ),
    (
        "llm.token_count.completion_details.reasoning",
        Field::TokensReasoning,
    ),
    ("llm.cost.total", Field::Cost),
    ("agent.name", Field::Agent),
    ("tool.name", Field::ToolName),
    ("tool.id", Field::ToolCallId),
    ("tool_call.id", Field::ToolCallId),
    ("tool.parameters", Field::ToolArguments),
    ("input.value", Field::ToolArguments),
    ("output.value", Field::ToolResult),
    ("embedding.model_name", Field::ResponseModel),
];

/// The Vercel AI SDK, where it differs.
const VERCEL: Table = &[
    ("ai.operationId", Field::VercelOperation),
    ("ai.model.provider", Field::Provider),
    ("ai.model.id", Field::RequestModel),
    ("ai.response.model", Field::ResponseModel),
    ("ai.response.id", Field::ResponseId),
    ("ai.prompt.messages", Field::Input),
    ("ai.response.text", Field::OutputText),
    ("ai.response.reasoning", Field::OutputReasoning),
    ("ai.response.toolCalls", Field::OutputCalls),
    ("ai.toolCall.name", Field::ToolName),
    ("ai.toolCall.id", Field::ToolCallId),
    ("ai.toolCall.args", Field::ToolArguments),
    ("ai.toolCall.result", Field::ToolResult),
    ("ai.usage.inputTokens", Field::TokensIn),
    ("ai.usage.promptTokens", Field::TokensIn),
    ("ai.usage.outputTokens", Field::TokensOut),
    ("ai.usage.completionTokens", Field::TokensOut),
    ("ai.usage.cachedInputTokens", Field::TokensCacheRead),
    (
        "ai.usage.inputTokenDetails.cacheReadTokens",
        Field::TokensCacheRead,
    ),
    (
        "ai.usage.inputTokenDetails.cacheWriteTokens",
        Field::TokensCacheWrite,
    ),
    ("ai.usage.reasoningTokens", Field::TokensReasoning),
    (
        "ai.usage.outputTokenDetails.reasoningTokens",
        Field::TokensReasoning,
    ),
    ("ai.telemetry.metadata.sessionId", Field::Conversation),
    ("ai.settings.context.sessionId", Field::Conversation),
    ("ai.settings.context.userId", Field::User),
    ("ai.telemetry.metadata.userId", Field::User),
];

/// Attributes that have an element of a list in their name, such as
/// `llm.input_messages.0.message.role`.
pub(super) const FLATTENED: &[(&str, Field)] = &[
    ("llm.input_messages.", Field::Input),
    ("llm.output_messages.", Field::Output),
    ("gen_ai.prompt.", Field::Input),
    ("gen_ai.completion.", Field::Output),
];

static MEANINGS: LazyLock<HashMap<&'static str, (Field, usize)>> = LazyLock::new(|| {
    let tables = [GEN_AI, GEN_AI_BEFORE, OPENLLMETRY, OPENINFERENCE, VERCEL];
    let entries = tables.into_iter().flatten().enumerate();
    let entries = entries.map(|(place, (name, field))| (*name, (*field, place)));
    // The first meaning of a name stands.
    let mut meanings = HashMap::new();
    for (name, meaning) in entries {
        meanings.entry(name).or_insert(meaning);
    }
    meanings
});

/// The meaning of an attribute. Of two attributes with the same meaning, the one with the lower
/// place applies.
pub(super) fn meaning(name: &str) -> Option<(Field, usize)> {
    MEANINGS.get(name).copied()
}

/// What a span or an event stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// A request to a model.
    Inference,
    Embeddings,
    /// A tool call.
    Tool,
    /// The run of an agent or a workflow.
    Agent,
    Other,
}

/// The names of the kinds of spans, by their numbers.
const SPAN_KINDS: [&str; 6] = [
    INTERNAL, INTERNAL, "server", "client", "producer", "consumer",
];
const INTERNAL: &str = "internal";

pub(super) fn span_kind_name(kind: i32) -> &'static str {
    let name = usize::try_from(kind).ok().and_then(|at| SPAN_KINDS.get(at));
    name.unwrap_or(&INTERNAL)
}

pub(super) fn span_kind_of(name: &str) -> i32 {
    let at = SPAN_KINDS.iter().rposition(|it| *it == name);
    at.and_then(|at| i32::try_from(at).ok()).unwrap_or(1)
}

impl Operation {
    /// By an attribute with this meaning; `None` if it does not name an operation.
    pub(super) fn of(field: Field, value: &str) -> Option<Operation> {
        let operation = match field {
            Field::Operation => Operation::of_name(value),
            Field::SpanKind => Operation::of_span_kind(value),
            Field::VercelOperation => Operation::of_vercel(value),
            _ => Operation::Other,
        };
        (operation != Operation::Other).then_some(operation)
    }

    /// By `gen_ai.operation.name`.
    fn of_name(name: &str) -> Operation {
        match name {
            "chat" | "generate_content" | "text_completion" | "completion" | "message" => {
                Operation::Inference
            }
            "embeddings" => Operation::Embeddings,
            "execute_tool" => Operation::Tool,
            "invoke_agent" | "invoke_workflow" => Operation::Agent,
            _ => Operation::Other,
        }
    }

    /// By `openinference.span.kind`, `traceloop.span.kind` or `llm.request.type`.
    fn of_span_kind(kind: &str) -> Operation {
        match kind {
            "LLM" | "chat" | "completion" => Operation::Inference,
            "EMBEDDING" | "embedding" => Operation::Embeddings,
            "TOOL" | "tool" => Operation::Tool,
            "AGENT" | "agent" | "workflow" => Operation::Agent,
            _ => Operation::Other,
        }
    }

    /// By `ai.operationId`.
    fn of_vercel(id: &str) -> Operation {
        match id {
            "ai.toolCall" => Operation::Tool,
            "ai.generateText" | "ai.streamText" | "ai.generateObject" | "ai.streamObject" => {
                Operation::Agent
            }
            _ if id.ends_with(".doEmbed") => Operation::Embeddings,
            _ if id.ends_with(".doGenerate") || id.ends_with(".doStream") => Operation::Inference,
            _ => Operation::Other,
        }
    }
}
