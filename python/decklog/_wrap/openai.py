"""Requests and answers of OpenAI: Chat Completions and Responses."""

from __future__ import annotations

from typing import Any, cast

from ._said import (
    Answer,
    Asked,
    Assembler,
    Call,
    Role,
    Said,
    get,
    joined,
    listed,
    number,
    plain,
    shown,
    text,
    tokens,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal")

_ENDS = ("response.completed", "response.incomplete", "response.failed")


class OpenAI:
    """How OpenAI writes requests and answers."""

    name = "openai"

    def asked(self, path: str, body: Any, /) -> Asked | None:
        """The request to a path of the API; `None` if it is no request to a model."""
        model = text(get(body, "model"))
        if path.endswith("/chat/completions"):
            return Asked("chat", [_message(it) for it in listed(get(body, "messages"))], model)
        if not path.endswith("/responses"):
            return None
        said = []
        if instructions := text(get(body, "instructions")):
            said.append(Said("system", [instructions]))
        given = get(body, "input")
        said += [Said("user", [given])] if isinstance(given, str) else _items(listed(given))
        # A conversation that the vendor keeps has the same place as a response before this one.
        talk = get(body, "conversation")
        talk = talk if isinstance(talk, str) else get(talk, "id")
        return Asked(
            "responses", said, model, text(get(body, "previous_response_id")) or text(talk)
        )

    def answered(self, what: str, response: Any, /) -> Answer:
        """The answer in a response."""
        return _completion(response) if what == "chat" else _response(response)

    def assembler(self, what: str, /) -> Assembler:
        """What puts the answer of a stream together."""
        return _Completion() if what == "chat" else _Response()


def _add_parts(said: Said, content: Any) -> None:
    if isinstance(content, str):
        said.texts.append(content)
    for part in listed(content):
        kind = text(get(part, "type"))
        if isinstance(part, str):
            said.texts.append(part)
        elif kind in _TEXTS:
            said.texts.append(text(get(part, "text")) or text(get(part, "refusal")))
        elif kind:
            said.others.append(kind)


def _message(message: Any) -> Said:
    said = Said(_ROLES.get(text(get(message, "role")), "user"))
    if said.role == "tool":
        said.answers = text(get(message, "tool_call_id")) or text(get(message, "name"))
    _add_parts(said, get(message, "content"))
    said.texts.append(text(get(message, "refusal")))
    # Not OpenAI's own, but of servers that speak its protocol.
    said.reasoning.append(
        text(get(message, "reasoning_content")) or text(get(message, "reasoning"))
    )
    for call in listed(get(message, "tool_calls")):
        said.calls.append(_call(call))
    if (function := get(message, "function_call")) is not None and get(function, "name"):
        name = text(get(function, "name"))
        said.calls.append(Call(name, name, text(get(function, "arguments")) or {}))
    return said


def _call(call: Any) -> Call:
    function = get(call, "function")
    if function is None:
        function = get(call, "custom")
    given = text(get(function, "arguments")) or text(get(function, "input"))
    return Call(text(get(call, "id")), text(get(function, "name")), given or {})


def _completion(response: Any) -> Answer:
    choices = listed(get(response, "choices"))
    answer = Answer([_message(get(it, "message")) for it in choices])
    reasons = [text(get(it, "finish_reason")) for it in choices]
    return _completed(answer, response, reasons)


def _completed(answer: Answer, response: Any, reasons: list[str]) -> Answer:
    """Adds to an answer what the response or a chunk of it says beside the choices."""
    answer.id = text(get(response, "id")) or answer.id
    answer.model = text(get(response, "model")) or answer.model
    usage = get(response, "usage")
    if get(usage, "prompt_tokens") is not None:
        answer.tokens = tokens(
            number(get(usage, "prompt_tokens")),
            number(get(usage, "completion_tokens")),
            read=number(get(usage, "prompt_tokens_details", "cached_tokens")),
            write=number(get(usage, "prompt_tokens_details", "cache_write_tokens")),
            reasoning=number(get(usage, "completion_tokens_details", "reasoning_tokens")),
        )
        answer.metadata["usage"] = plain(usage)
    if any(reasons):
        answer.metadata["finish_reason"] = ", ".join(dict.fromkeys(filter(None, reasons)))
    if answer.id:
        answer.metadata["response_id"] = answer.id
    return answer


class _Completion:
    """The chunks of a chat completion."""

    def __init__(self) -> None:
        self._answer = Answer()
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: Any, /) -> None:
        """Adds a chunk."""
        for choice in listed(get(chunk, "choices")):
            at = number(get(choice, "index"))
            found = self._choices.get(at)
            if found is None:
                found = self._choices[at] = _Choice()
            found.add(get(choice, "delta"))
            found.reason = text(get(choice, "finish_reason")) or found.reason
        reasons = [it.reason for it in self._choices.values()]
        _completed(self._answer, chunk, reasons)

    def is_complete(self) -> bool:
        """Whether the answer is whole."""
        return bool(self._choices) and all(it.reason for it in self._choices.values())

    def answer(self) -> Answer:
        """The answer as far as it was received."""
        self._answer.choices = [self._choices[at].said() for at in sorted(self._choices)]
        return self._answer


class _Choice:
    """The deltas of one choice."""

    def __init__(self) -> None:
        self.reason = ""
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, str]] = {}

    def add(self, delta: Any) -> None:
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if piece := text(get(delta, name)):
                self._texts.setdefault(name, []).append(piece)
        for call in listed(get(delta, "tool_calls")):
            known = self._calls.setdefault(
                number(get(call, "index")), {"id": "", "name": "", "args": ""}
            )
            function = get(call, "function")
            if function is None:
                function = get(call, "custom")
            known["id"] = text(get(call, "id")) or known["id"]
            known["name"] += text(get(function, "name"))
            known["args"] += text(get(function, "arguments")) or text(get(function, "input"))
        if (function := get(delta, "function_call")) is not None:
            known = self._calls.setdefault(0, {"id": "", "name": "", "args": ""})
            known["name"] += text(get(function, "name"))
            known["id"] = known["name"]
            known["args"] += text(get(function, "arguments"))

    def said(self) -> Said:
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        calls = [self._calls[at] for at in sorted(self._calls)]
        return Said(
            "assistant",
            [texts.get("content", ""), texts.get("refusal", "")],
            [texts.get("reasoning_content") or texts.get("reasoning", "")],
            [Call(it["id"], it["name"], it["args"] or {}) for it in calls],
        )


def _items(items: Any) -> list[Said]:
    """Items of the Responses API. Those of one answer are one message."""
    found: list[Said] = []

    def assistant() -> Said:
        if not found or found[-1].role != "assistant":
            found.append(Said("assistant"))
        return found[-1]

    for item in items:
        kind = text(get(item, "type"))
        role = _ROLES.get(text(get(item, "role")))
        if role == "assistant":
            _add_parts(assistant(), get(item, "content"))
        elif role is not None:
            found.append(Said(role))
            _add_parts(found[-1], get(item, "content"))
        elif kind == "reasoning":
            thought = Said("assistant")
            _add_parts(thought, get(item, "summary"))
            _add_parts(thought, get(item, "content"))
            assistant().reasoning += thought.texts
        elif kind.endswith("_output"):
            found.append(_result(item))
        elif kind.endswith("_call"):
            assistant().calls.append(_item_call(item, kind))
        elif kind and kind != "item_reference":
            assistant().others.append(kind)
    return found


def _result(item: Any) -> Said:
    output = get(item, "output")
    said = Said("tool", answers=text(get(item, "call_id")) or text(get(item, "id")))
    if isinstance(output, (list, tuple)):
        _add_parts(said, output)
    if not joined(said.texts) and not said.others:
        said.texts.append(shown(output))
    return said


def _item_call(item: Any, kind: str) -> Call:
    args = (
        get(item, name) for name in ("arguments", "input", "action", "operation", "queries", "code")
    )
    given: Any = next((it for it in args if it is not None), {})
    name = text(get(item, "name")) or kind.removesuffix("_call")
    call = Call(text(get(item, "call_id")), name, given if isinstance(given, str) else plain(given))
    if not call.id:
        # The vendor ran it.
        call.id = text(get(item, "id"))
        output = (get(item, name) for name in ("error", "output", "outputs", "results"))
        call.outcome = plain(next((it for it in output if it is not None), None))
        is_failure = get(item, "error") is not None or get(item, "status") == "failed"
        call.status = "failed" if is_failure else "completed"
    return call


def _response(response: Any) -> Answer:
    answer = Answer(
        _items(listed(get(response, "output"))),
        text(get(response, "model")),
        id=text(get(response, "id")),
    )
    usage = get(response, "usage")
    if get(usage, "input_tokens") is not None:
        answer.tokens = tokens(
            number(get(usage, "input_tokens")),
            number(get(usage, "output_tokens")),
            read=number(get(usage, "input_tokens_details", "cached_tokens")),
            write=number(get(usage, "input_tokens_details", "cache_write_tokens")),
            reasoning=number(get(usage, "output_tokens_details", "reasoning_tokens")),
        )
        answer.metadata["usage"] = plain(usage)
    reason = text(get(response, "incomplete_details", "reason")) or text(get(response, "status"))
    if reason:
        answer.metadata["finish_reason"] = reason
    if answer.id:
        answer.metadata["response_id"] = answer.id
    if (error := get(response, "error")) is not None:
        message = text(get(error, "message"))
        kind = text(get(error, "code")) or "api_error"
        answer.error = (kind, message or kind)
    return answer


class _Response:
    """The events of a response."""

    def __init__(self) -> None:
        self._last: Any = None
        self._is_ended = False
        self._error: tuple[str, str] | None = None
        self._items: dict[int, Any] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Any, /) -> None:
        """Adds an event."""
        kind = text(get(event, "type"))
        at = number(get(event, "output_index"))
        if kind.startswith("response.output_item."):
            self._items[at] = get(event, "item")
            if kind.endswith(".done"):
                for key in [it for it in self._pieces if it[0] == at]:
                    del self._pieces[key]
        elif kind.endswith(".delta"):
            part = kind.removeprefix("response.").removesuffix(".delta")
            self._pieces.setdefault((at, part), []).append(text(get(event, "delta")))
        elif kind == "error":
            code = text(get(event, "code")) or "api_error"
            self._error = (code, text(get(event, "message")) or code)
        elif (response := get(event, "response")) is not None:
            self._last = response
            self._is_ended = self._is_ended or kind in _ENDS

    def is_complete(self) -> bool:
        """Whether the answer is whole."""
        return self._is_ended

    def answer(self) -> Answer:
        """The answer as far as it was received."""
        if self._is_ended:
            return _response(self._last)
        answer = _response({"id": get(self._last, "id"), "model": get(self._last, "model")})
        answer.choices = _items([self._item(at) for at in sorted(self._items)])
        answer.error = self._error
        return answer

    def _item(self, at: int) -> Any:
        pieces = {part: "".join(it) for (of, part), it in self._pieces.items() if of == at}
        if not pieces:
            return self._items[at]
        item = cast("dict[str, Any]", plain(self._items[at]))
        texts = [pieces.get(part, "") for part in ("output_text", "refusal")]
        thoughts = [pieces.get(part, "") for part in ("reasoning_summary_text", "reasoning_text")]
        if item.get("type") == "message":
            item["content"] = [{"type": "output_text", "text": it} for it in texts if it]
        elif item.get("type") == "reasoning":
            item["summary"] = [{"type": "summary_text", "text": it} for it in thoughts if it]
        else:
            item["arguments"] = pieces.get("function_call_arguments") or pieces.get(
                "custom_tool_call_input", ""
            )
        return item
