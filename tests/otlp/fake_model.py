#!/usr/bin/env python3
"""A fake model server that speaks OpenAI Chat Completions, OpenAI Responses and Anthropic Messages.

    fake_model.py TRUTH [PORT]

prints its base address and writes each exchange as a line of JSON to the file TRUTH: the path, the
request, the status, and the response (of a stream: what its events add up to). The answer depends
on the request alone; the ids count the exchanges.
"""
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CREATED = 1700000000


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(p.get("text") or "" for p in content or [] if isinstance(p, dict))


def decide(last_role, text, is_result, tools):
    """What the model does: an error, a tool call, or a text."""
    if is_result:
        return "text", "It is sunny in Paris."
    if "fail" in text:
        return "fail", None
    if last_role == "user" and "weather" in text.lower() and tools:
        return "tool", {"city": "Paris"}
    return "text", "Hello from the model."


def chat(req, n):
    last = req["messages"][-1]
    what, value = decide(last["role"], text_of(last.get("content")), last["role"] == "tool", req.get("tools"))
    if what == "fail":
        return 500, {"error": {"message": "The server had an error", "type": "server_error",
                               "param": None, "code": None}}
    message = {"role": "assistant", "content": value if what == "text" else None, "refusal": None,
               "annotations": []}
    if what == "tool":
        message["tool_calls"] = [{"id": f"call_{n}", "type": "function", "function": {
            "name": "get_weather", "arguments": json.dumps(value)}}]
    return 200, {
        "id": f"chatcmpl-{n}", "object": "chat.completion", "created": CREATED,
        "model": req["model"] + "-2024-07-18",
        "choices": [{"index": 0, "message": message, "logprobs": None,
                     "finish_reason": "tool_calls" if what == "tool" else "stop"}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 15, "total_tokens": 135,
                  "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
                  "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 0,
                                                "accepted_prediction_tokens": 0,
                                                "rejected_prediction_tokens": 0}},
        "service_tier": "default", "system_fingerprint": "fp_fake"}


def chat_events(req, whole):
    base = {k: whole[k] for k in ("id", "created", "model", "service_tier", "system_fingerprint")}
    base["object"] = "chat.completion.chunk"
    usage = (req.get("stream_options") or {}).get("include_usage")

    def chunk(delta, finish=None):
        c = dict(base, choices=[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])
        return dict(c, usage=None) if usage else c

    message, finish = whole["choices"][0]["message"], whole["choices"][0]["finish_reason"]
    yield chunk({"role": "assistant", "content": "" if message["content"] else None})
    for word in (message["content"] or "").split(" "):
        if word:
            yield chunk({"content": word if word == message["content"].split(" ")[0] else " " + word})
    for i, call in enumerate(message.get("tool_calls") or []):
        args = call["function"]["arguments"]
        yield chunk({"tool_calls": [dict(call, index=i, function={"name": call["function"]["name"], "arguments": ""})]})
        for part in (args[:5], args[5:]):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": part}}]})
    yield chunk({}, finish)
    if usage:
        yield dict(base, choices=[], usage=whole["usage"])


def responses(req, n):
    items = req["input"] if isinstance(req["input"], list) else [{"role": "user", "content": req["input"]}]
    last = items[-1]
    what, value = decide(last.get("role"), text_of(last.get("content")),
                         last.get("type") == "function_call_output", req.get("tools"))
    if what == "fail":
        return 500, {"error": {"message": "The server had an error", "type": "server_error",
                               "param": None, "code": None}}
    output = [{"id": f"rs_{n}", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Thinking of Paris."}]}]
    if what == "tool":
        output.append({"id": f"fc_{n}", "type": "function_call", "status": "completed", "call_id": f"call_{n}",
                       "name": "get_weather", "arguments": json.dumps(value)})
    else:
        output.append({"id": f"msg_{n}", "type": "message", "role": "assistant", "status": "completed",
                       "content": [{"type": "output_text", "text": value, "annotations": [], "logprobs": []}]})
    return 200, {
        "id": f"resp_{n}", "object": "response", "created_at": CREATED, "status": "completed",
        "error": None, "incomplete_details": None, "instructions": req.get("instructions"),
        "metadata": {}, "model": req["model"] + "-2024-07-18", "output": output,
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto",
        "tools": req.get("tools") or [], "top_p": 1.0,
        "previous_response_id": req.get("previous_response_id"), "service_tier": "default",
        "usage": {"input_tokens": 120, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 15,
                  "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 135}}


def responses_events(req, whole):
    number = iter(range(1000))

    def event(kind, **members):
        return dict(members, type=kind, sequence_number=next(number))

    begun = dict(whole, status="in_progress", output=[], usage=None)
    yield event("response.created", response=begun)
    for i, item in enumerate(whole["output"]):
        yield event("response.output_item.added", output_index=i, item=dict(item, content=[]) if "content" in item else item)
        for j, part in enumerate(item.get("content") or []):
            at = {"item_id": item["id"], "output_index": i, "content_index": j}
            yield event("response.content_part.added", part=dict(part, text=""), **at)
            yield event("response.output_text.delta", delta=part["text"], logprobs=[], **at)
            yield event("response.output_text.done", text=part["text"], logprobs=[], **at)
            yield event("response.content_part.done", part=part, **at)
        yield event("response.output_item.done", output_index=i, item=item)
    yield event("response.completed", response=whole)


def messages(req, n):
    last = req["messages"][-1]
    content = last["content"]
    is_result = isinstance(content, list) and any(b.get("type") == "tool_result" for b in content)
    what, value = decide(last["role"], text_of(content), is_result, req.get("tools"))
    if what == "fail":
        return 429, {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests"},
                     "request_id": f"req_{n}"}
    blocks = [{"type": "text", "text": value}] if what == "text" else [
        {"type": "text", "text": "I look it up."},
        {"type": "tool_use", "id": f"toolu_{n}", "name": "get_weather", "input": value}]
    if req.get("thinking"):
        blocks.insert(0, {"type": "thinking", "thinking": "The user asks.", "signature": "c2ln"})
    return 200, {
        "id": f"msg_{n}", "type": "message", "role": "assistant", "model": req["model"],
        "content": blocks, "stop_reason": "tool_use" if what == "tool" else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 80, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 40,
                  "output_tokens": 15, "service_tier": "standard"}}


def messages_events(_req, whole):
    begun = dict(whole, content=[], stop_reason=None, usage=dict(whole["usage"], output_tokens=1))
    yield {"type": "message_start", "message": begun}
    for i, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, deltas = dict(block, text=""), [{"type": "text_delta", "text": t}
                                                   for t in (block["text"][:6], block["text"][6:])]
        elif block["type"] == "tool_use":
            args = json.dumps(block["input"])
            empty, deltas = dict(block, input={}), [{"type": "input_json_delta", "partial_json": t}
                                                    for t in (args[:5], args[5:])]
        else:
            empty = dict(block, thinking="", signature="")
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]},
                      {"type": "signature_delta", "signature": block["signature"]}]
        yield {"type": "content_block_start", "index": i, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": i, "delta": delta}
        yield {"type": "content_block_stop", "index": i}
    yield {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
           "usage": {"output_tokens": whole["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def embeddings(req, _n):
    texts = req["input"] if isinstance(req["input"], list) else [req["input"]]
    return 200, {"object": "list", "model": req["model"], "usage": {"prompt_tokens": 4, "total_tokens": 4},
                 "data": [{"object": "embedding", "index": i, "embedding": [0.5, -0.25]} for i in range(len(texts))]}


ROUTES = {"/v1/chat/completions": (chat, chat_events), "/v1/responses": (responses, responses_events),
          "/v1/messages": (messages, messages_events), "/v1/embeddings": (embeddings, None)}


def serve(truth, port=0):
    """Starts the server in a thread and gives it back; its address is `server.server_address`."""
    lock = threading.Lock()
    count = [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.split("?")[0]
            with lock:
                count[0] += 1
                n = count[0]
            if path not in ROUTES:
                return self.answer(404, {"error": {"message": "no such path", "type": "not_found"}})
            req = json.loads(body)
            make, events = ROUTES[path]
            status, whole = make(req, n)
            with lock, open(truth, "a") as f:
                line = {"path": path, "request": req, "status": status, "response": whole}
                f.write(json.dumps(line, ensure_ascii=False) + "\n")
            if status != 200 or not req.get("stream"):
                return self.answer(status, whole)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for e in events(req, whole):
                self.chunk((f"event: {e['type']}\n" if "type" in e else "") + f"data: {json.dumps(e)}\n\n")
            if path == "/v1/chat/completions":
                self.chunk("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def chunk(self, text):
            data = text.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def answer(self, status, value):
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    it = serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"http://127.0.0.1:{it.server_address[1]}/v1", flush=True)
    threading.Event().wait()
