"""Clients of both vendors, wrapped and not, that ask a server on this machine."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import decklog

sys.path.insert(0, str(Path(__file__).parent))

from fake import Server  # noqa: E402


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    http = server.start()
    yield server
    server.ended.set()
    http.shutdown()
    http.server_close()


class Recorded:
    """A log, and the capture of the clients that are wrapped for it."""

    def __init__(self, path: Path) -> None:
        self.log = decklog.open(path)
        self.lost: list[Any] = []
        self.capture = self.log.capture(on_error=lambda *error: self.lost.append(error))

    def wrap(self, client: Any, **more: Any) -> Any:
        wrapped = decklog.wrap(
            client, log=self.log, capture=self.capture, on_error=self._lost, **more
        )
        assert wrapped is client
        return wrapped

    def _lost(self, *error: Any) -> None:
        self.lost.append(error)

    def flush(self) -> None:
        self.capture.flush()
        assert self.lost == []

    def conversations(self) -> list[Any]:
        self.flush()
        return list(self.log.conversations())

    def messages(self, id: str | None = None) -> list[Any]:
        self.flush()
        if id is None:
            (conversation,) = self.log.conversations()
            id = conversation.id
        return list(self.log.messages(conversation_id=id))

    def said(self, id: str | None = None) -> list[tuple[str, str]]:
        return [(it.role, it.tool_result or it.content) for it in self.messages(id)]

    def calls(self) -> list[tuple[Any, ...]]:
        self.flush()
        calls = self.log.tool_calls(order="asc")
        return [
            (it.call_id, it.tool_name, it.arguments_json, it.status, it.outcome_json)
            for it in calls
        ]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    recorded = Recorded(tmp_path / "log")
    yield recorded
    recorded.capture.close()
    recorded.log.close()


@pytest.fixture(params=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


def _client(vendor: str, is_async: bool, url: str, **more: Any) -> Any:
    sdk = pytest.importorskip(vendor)
    name = {"openai": "OpenAI", "anthropic": "Anthropic"}[vendor]
    base_url = f"{url}/v1" if vendor == "openai" else url
    given = {"api_key": "k", "base_url": base_url, "max_retries": 0, **more}
    return getattr(sdk, f"Async{name}" if is_async else name)(**given)


@pytest.fixture
def client(server: Server) -> Iterator[Callable[..., Any]]:
    clients: weakref.WeakSet[Any] = weakref.WeakSet()

    def made(vendor: str, is_async: bool = False, **more: Any) -> Any:
        client = _client(vendor, is_async, server.url, **more)
        if not is_async:
            clients.add(client)
        return client

    yield made
    for it in list(clients):
        it.close()


def plain(value: Any) -> Any:
    """A result, so that two can be compared."""
    if hasattr(value, "model_dump"):
        return type(value), value.model_dump(warnings=False)
    return value


def outcome(client: Any, ask: Callable[[Any], Any], stop_after: int | None = None) -> Any:
    """What asking returns, streams or raises, and of which types."""
    if type(client).__name__.startswith("Async"):
        return asyncio.run(_async_outcome(client, ask, stop_after))
    chunks: list[Any] = []
    try:
        result = ask(client)
        if hasattr(result, "__enter__") and not hasattr(result, "close"):
            with result as stream:
                chunks += [plain(it) for it in stream]
            return type(result), type(stream), chunks
        if not hasattr(result, "__next__"):
            return plain(result)
        for at, it in enumerate(result):
            chunks.append(plain(it))
            if at + 1 == stop_after:
                result.close()
                break
        return type(result), chunks
    except Exception as error:
        return type(error), str(error), chunks


async def _async_outcome(client: Any, ask: Callable[[Any], Any], stop_after: int | None) -> Any:
    chunks: list[Any] = []
    try:
        result = ask(client)
        if hasattr(result, "__aenter__"):
            async with result as stream:
                chunks += [plain(it) async for it in stream]
            return type(result), type(stream), chunks
        result = await result
        if not hasattr(result, "__anext__"):
            return plain(result)
        at = 0
        async for it in result:
            chunks.append(plain(it))
            at += 1
            if at == stop_after:
                await result.close()
                break
        return type(result), chunks
    except Exception as error:
        return type(error), str(error), chunks
    finally:
        await client.close()


Same = Callable[..., Any]


@pytest.fixture
def same(server: Server, client: Callable[..., Any], recorded: Recorded) -> Same:
    """Asks with a client as it is and with a wrapped one, and compares."""

    def compared(
        vendor: str, is_async: bool, ask: Callable[[Any], Any], *script: Any, **more: Any
    ) -> Any:
        stop_after = more.pop("stop_after", None)
        results = []
        for of in (lambda it: it, recorded.wrap):
            server.script, server.requests = list(script), []
            asked = of(client(vendor, is_async, **more))
            results.append((outcome(asked, ask, stop_after), server.requests))
        assert results[0] == results[1]
        return results[0][0]

    return compared
