"""A server that answers like OpenAI and Anthropic, by a script."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server answers to one request."""

    body: Any = None
    status: int = 200
    events: list[Any] | None = None
    """Sent as a stream. A member `type` is the name of the event."""
    is_cut: bool = False
    """Whether the connection ends after the events, without the end of the stream."""
    waits: bool = False
    """Whether the server waits after the events until the test ends."""


@dataclass
class Server:
    """The server, with what it is to answer and what it was asked."""

    url: str = ""
    script: list[Reply] = field(default_factory=list)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> ThreadingHTTPServer:
        of = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                of.requests.append((self.path, json.loads(self.rfile.read(length) or b"null")))
                reply = of.script.pop(0) if len(of.script) > 1 else of.script[0]
                if reply.events is not None:
                    self._events(reply)
                    return
                body = json.dumps(reply.body).encode()
                self.send_response(reply.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.send_header("x-request-id", "req_1")
                self.send_header("request-id", "req_1")
                self.end_headers()
                self.wfile.write(body)

            def _events(self, reply: Reply) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                try:
                    for event in reply.events or ():
                        text = event if isinstance(event, str) else json.dumps(event)
                        name = event.get("type") if isinstance(event, dict) else None
                        line = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line.encode()), line.encode()))
                        self.wfile.flush()
                    if reply.waits:
                        of.ended.wait(20)
                    if not reply.is_cut and not reply.waits:
                        self.wfile.write(b"0\r\n\r\n")
                except (BrokenPipeError, ConnectionResetError):
                    pass
                if reply.is_cut or reply.waits:
                    self.close_connection = True

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(
            target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}
        ).start()
        return server


# OpenAI, Chat Completions.

CHAT_USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 9,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 12},
    "completion_tokens_details": {"reasoning_tokens": 4},
}

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "count_lines", "arguments": '{"path": "main.rs"}'},
}


def chat(content: str | None = "12 lines.", calls: list[Any] | None = None, **more: Any) -> Reply:
    message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return Reply(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-5-2026",
            "choices": [choice],
            "usage": CHAT_USAGE,
            **more,
        }
    )


def chunk(delta: Any, reason: str | None = None, usage: Any = None, index: int = 0) -> Any:
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": reason}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-5-2026",
        "choices": choices,
        "usage": usage,
    }


CHAT_EVENTS = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "12 "}),
    chunk({"content": "lines."}),
    chunk({}, "stop"),
    chunk(None, usage=CHAT_USAGE),
    "[DONE]",
]

CHAT_CALL_EVENTS = [
    chunk({"role": "assistant", "content": None}),
    chunk(
        {"tool_calls": [{"index": 0, **CALL, "function": {"name": "count_lines", "arguments": ""}}]}
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"path": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"main.rs"}'}}]}),
    chunk({}, "tool_calls"),
    "[DONE]",
]

# OpenAI, Responses.

RESPONSE_USAGE = {
    "input_tokens": 20,
    "output_tokens": 9,
    "total_tokens": 29,
    "input_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 4},
}

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Count them."}],
}


def text_item(text: str, status: str = "completed") -> Any:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": status,
        "content": content,
    }


CALL_ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "count_lines",
    "arguments": '{"path": "main.rs"}',
    "status": "completed",
}


def response_body(
    output: list[Any], id: str = "resp_1", status: str = "completed", **more: Any
) -> Any:
    return {
        "id": id,
        "object": "response",
        "created_at": 1,
        "model": "gpt-5-2026",
        "status": status,
        "output": output,
        "usage": RESPONSE_USAGE,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **more,
    }


def response_events(output: list[Any]) -> list[Any]:
    start = response_body([], status="in_progress", usage=None)
    events: list[Any] = [{"type": "response.created", "response": start}]
    for at, item in enumerate(output):
        place = {"output_index": at, "item_id": item["id"], "content_index": 0}
        begun = (
            {**item, "content": [], "status": "in_progress"} if item["type"] == "message" else item
        )
        events.append({"type": "response.output_item.added", **place, "item": begun})
        if item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            events.append({"type": "response.content_part.added", **place, "part": part})
            for delta in item["content"][0]["text"].split("|"):
                events.append(
                    {"type": "response.output_text.delta", **place, "delta": delta, "logprobs": []}
                )
        events.append({"type": "response.output_item.done", **place, "item": item})
    events.append({"type": "response.completed", "response": response_body(output)})
    return [{**event, "sequence_number": at} for at, event in enumerate(events)]


# Anthropic.

MESSAGE_USAGE = {
    "input_tokens": 5,
    "cache_read_input_tokens": 12,
    "cache_creation_input_tokens": 3,
    "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2},
    "output_tokens": 9,
}

TEXT_BLOCK = {"type": "text", "text": "12 lines."}
CALL_BLOCK = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "count_lines",
    "input": {"path": "main.rs"},
}


def message(content: list[Any], reason: str = "end_turn") -> Reply:
    return Reply(message_body(content, reason))


def message_body(content: list[Any], reason: str | None) -> Any:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-5-2026",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": MESSAGE_USAGE,
    }


def message_events(content: list[Any], reason: str = "end_turn") -> list[Any]:
    start = message_body([], None) | {"usage": {**MESSAGE_USAGE, "output_tokens": 1}}
    events: list[Any] = [{"type": "message_start", "message": start}]
    for at, block in enumerate(content):
        kind = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
        delta, name = kind.get(block["type"], ("input_json_delta", "partial_json"))
        whole = json.dumps(block["input"]) if name == "partial_json" else block[name]
        empty = {**block, "input": {}} if name == "partial_json" else {**block, name: ""}
        events.append({"type": "content_block_start", "index": at, "content_block": empty})
        for piece in (whole[:3], whole[3:]):
            events.append(
                {"type": "content_block_delta", "index": at, "delta": {"type": delta, name: piece}}
            )
        events.append({"type": "content_block_stop", "index": at})
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}})
    return [*events, {"type": "message_stop"}]


def failed(status: int) -> Reply:
    kinds = {400: "invalid_request_error", 429: "rate_limit_error", 500: "api_error"}
    error = {"type": kinds[status], "message": f"refused with {status}", "code": kinds[status]}
    return Reply({"type": "error", "error": error}, status)
