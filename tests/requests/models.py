"""Posts what the models of the conversation service's document say, as pydantic writes them, and
reads the answers into the same models: models.py URL"""

import json
import sys
import urllib.error
import urllib.request
from datetime import datetime, timezone
from typing import Literal, Optional
from uuid import UUID, uuid4

from pydantic import BaseModel


class Conversation(BaseModel):
    id: UUID
    created_at: datetime
    updated_at: datetime
    client: Literal["vscode", "web", "api", "cli"]
    workspace: Optional[str]
    project: Optional[str]
    user_id: Optional[str]
    session_id: Optional[str]
    message_count: int = 0
    total_tokens_in: int = 0
    total_tokens_out: int = 0
    total_latency_ms: int = 0
    models_used: list[str] = []
    configs_used: list[str] = []
    status: Literal["active", "completed", "error"] = "active"
    last_error: Optional[str] = None


class ConversationMessage(BaseModel):
    id: UUID
    conversation_id: UUID
    sequence: int
    timestamp: datetime
    role: Literal["system", "user", "assistant", "tool"]
    source: Literal["user", "model", "system", "tool"]
    content: str
    content_type: Literal["text", "code", "markdown", "json"] = "text"
    tool_name: Optional[str] = None
    tool_args: Optional[dict] = None
    tool_result: Optional[str] = None
    model_used: Optional[str] = None
    config_used: Optional[str] = None
    orchestration_mode: Optional[str] = None
    models_in_chain: Optional[list[str]] = None
    tokens_in: Optional[int] = None
    tokens_out: Optional[int] = None
    latency_ms: Optional[int] = None
    context_utilization: Optional[float] = None
    task_type: Optional[str] = None
    handoff_steps: Optional[int] = None
    compression_applied: Optional[bool] = None
    error: Optional[str] = None
    error_type: Optional[str] = None


class InferenceMetadata(BaseModel):
    config: str
    orchestration_mode: str
    models_used: list[str]
    handoff_steps: int
    compression_applied: bool
    context_utilization: float
    total_latency_ms: int
    model_latencies: dict[str, int]
    tokens_by_model: dict[str, dict[str, int]]


class DashboardMetrics(BaseModel):
    conversations_today: int
    messages_today: int
    tokens_today: int
    avg_latency_ms: float
    p95_latency_ms: float
    error_rate: float
    by_model: dict[str, int]
    by_config: dict[str, int]
    by_task_type: dict[str, int]
    avg_context_utilization: float
    compression_rate: float


url = sys.argv[1]


def ask(method, path, body=None):
    """The status and the answer; a body as pydantic writes it."""
    data = None if body is None else body.encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}")


def read(model, found):
    """What was read, into a model that leaves out what it does not know and may lack optional fields."""
    optional = {name: None for name in model.model_fields}
    return model.model_validate(optional | {k: v for k, v in found.items() if k in optional})


def same(found, expected, what):
    if found != expected:
        raise SystemExit(f"{what}: {found!r}, not {expected!r}")


# datetime.utcnow() has no offset.
now = datetime.now(timezone.utc).replace(tzinfo=None)
conversation = Conversation(
    id=uuid4(), created_at=now, updated_at=now, client="vscode", workspace="/w", project=None,
    user_id=None, session_id="sess_abc123",
)
same(ask("POST", "/conversations", conversation.model_dump_json())[0], 201, "a conversation")
path = f"/conversations/{conversation.id}"

metadata = InferenceMetadata(
    config="D3", orchestration_mode="debate", models_used=["phi-4", "deepseek-r1-7b"], handoff_steps=1,
    compression_applied=True, context_utilization=0.72, total_latency_ms=2340,
    model_latencies={"phi-4": 340, "deepseek-r1-7b": 2000},
    tokens_by_model={"phi-4": {"in": 100, "out": 20}, "deepseek-r1-7b": {"in": 50, "out": 480}},
)


def message(sequence, role, source, content, **fields):
    return ConversationMessage(
        id=uuid4(), conversation_id=conversation.id, sequence=sequence, timestamp=now, role=role, source=source,
        content=content, **fields,
    )


# capture_request, capture_response and capture_error, as the document has them.
captured = [
    message(1, "user", "user", "How?", task_type="code"),
    message(
        2, "assistant", "model", "So.", model_used="deepseek-r1-7b", config_used=metadata.config,
        orchestration_mode=metadata.orchestration_mode, models_in_chain=metadata.models_used, tokens_in=150,
        tokens_out=500, latency_ms=2340, context_utilization=metadata.context_utilization,
        handoff_steps=metadata.handoff_steps, compression_applied=metadata.compression_applied,
    ),
    message(3, "user", "user", "And then?"),
    message(4, "system", "system", "Error: late", error="late", error_type="TimeoutError"),
]
for one in captured:
    same(ask("POST", path + "/messages", one.model_dump_json())[0], 201, one)
    same(ask("POST", path + "/messages", one.model_dump_json())[0], 200, "the same again")
alone = {"role": "assistant", "content": "So.", "inference_metadata": metadata.model_dump()}
status, added = ask("POST", path + "/messages", json.dumps(alone))
same(status, 201, "metadata alone")

whole = ask("GET", path)[1]
same(read(Conversation, whole).message_count, 5, "messages")
messages = [read(ConversationMessage, one) for one in whole["messages"]]
utc = now.replace(tzinfo=timezone.utc)
captured[1].task_type = "code"  # That of the request before it.
for one, found in zip(captured, messages):
    same(found, one.model_copy(update={"timestamp": utc}), "a message")
filled = messages[4]
for name in ["model_used", "config_used", "models_in_chain", "tokens_in", "tokens_out", "latency_ms", "handoff_steps"]:
    same(getattr(filled, name), getattr(captured[1], name), name)

# What was read can be posted.
same(ask("POST", "/conversations", json.dumps(whole))[0], 200, "a conversation that was read")
for found in whole["messages"]:
    same(ask("POST", path + "/messages", json.dumps(found))[0], 200, "a message that was read")
# The last one has metadata, which the document's model has no field for.
for found in messages[:4]:
    same(ask("POST", path + "/messages", found.model_dump_json())[0], 200, "the same as a model")
same(ask("POST", "/conversations", read(Conversation, whole).model_dump_json())[0], 200, "the same as a model")

metrics = DashboardMetrics.model_validate(ask("GET", "/analytics/dashboard")[1], strict=True)
same(metrics.by_task_type, {"code": 1}, "task types")
same(metrics.by_model["deepseek-r1-7b"], 2, "requests of a model")
