"""Observes a client. Its methods return and raise what they did before.

A client sends each request through its method `request`, after its arguments were prepared and before
they are sent, and retries within it. That method is replaced on the one client, so that all ways of
asking are recorded alike.
"""

from __future__ import annotations

import inspect
import os
import weakref
from typing import TYPE_CHECKING, Any

from .._handles import BEFORE_DRAIN
from ._said import Answer, get, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._recording import Exchange, Recorder
    from ._said import Vendor

_REPLACED = ("request", "copy", "with_options")

_RECORDER = "_decklog_recorder"

_OPEN: weakref.WeakSet[_Reading] = weakref.WeakSet()
"""The streams that are read now."""


def _end_all() -> None:
    for it in list(_OPEN):
        it.dropped()


BEFORE_DRAIN.append(_end_all)


def recorder_of(client: Any) -> Recorder | None:
    """The recorder of a wrapped client."""
    found: Recorder | None = vars(client).get(_RECORDER)
    return found


def observe(client: Any, vendor: Vendor, recorder: Recorder) -> None:
    """Records the requests of a client and of its copies. A recorder that it had is replaced."""
    for name in _REPLACED:
        vars(client).pop(name, None)
    observer = _Observer(vendor, recorder)
    is_async = any(base.__name__ == "AsyncAPIClient" for base in type(client).__mro__)
    client.request = (observer.asynchronous if is_async else observer.synchronous)(client.request)
    for name in _REPLACED[1:]:
        if hasattr(client, name):
            setattr(client, name, _copying(getattr(client, name), vendor, recorder))
    setattr(client, _RECORDER, recorder)


def _copying(copy: Callable[..., Any], vendor: Vendor, recorder: Recorder) -> Callable[..., Any]:
    def copied(*args: Any, **kwargs: Any) -> Any:
        copied = copy(*args, **kwargs)
        recorder.safely(observe, copied, vendor, recorder)
        return copied

    return _named(copied, copy)


def _named(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = original.__name__
    function.__doc__ = original.__doc__
    return function


class _Observer:
    """The requests of a client."""

    def __init__(self, vendor: Vendor, recorder: Recorder) -> None:
        self._vendor = vendor
        self._recorder = recorder

    def synchronous(self, request: Callable[..., Any]) -> Callable[..., Any]:
        """The method that sends a request."""

        def requested(*args: Any, **kwargs: Any) -> Any:
            exchange = self._recorder.safely(self._asked, args, kwargs)
            if exchange is None:
                return request(*args, **kwargs)
            try:
                result = request(*args, **kwargs)
            except BaseException as error:
                exchange.ended(_received(self._vendor, exchange.what, error), error)
                raise
            self._recorder.safely(self._returned, exchange, result)
            return result

        return _named(requested, request)

    def asynchronous(self, request: Callable[..., Any]) -> Callable[..., Any]:
        """The method that sends a request."""

        async def requested(*args: Any, **kwargs: Any) -> Any:
            exchange = self._recorder.safely(self._asked, args, kwargs)
            if exchange is None:
                return await request(*args, **kwargs)
            try:
                result = await request(*args, **kwargs)
            except BaseException as error:
                exchange.ended(_received(self._vendor, exchange.what, error), error)
                raise
            self._recorder.safely(self._returned, exchange, result)
            return result

        return _named(requested, request)

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exchange | None:
        options = kwargs["options"] if "options" in kwargs else args[1]
        if text(get(options, "method")).lower() != "post":
            return None
        path = text(get(options, "url")).partition("?")[0].rstrip("/")
        asked = self._vendor.asked(path, get(options, "json_data"))
        return None if asked is None else self._recorder.asked(asked)

    def _returned(self, exchange: Exchange, result: Any) -> None:
        if hasattr(result, "http_response") and hasattr(result, "parse"):
            self._raw(exchange, result)
        elif hasattr(result, "_iterator") and hasattr(result, "response"):
            self._stream(exchange, result)
        else:
            exchange.ended(lambda: self._vendor.answered(exchange.what, result))

    def _raw(self, exchange: Exchange, result: Any) -> None:
        """A response that the caller reads, or not."""
        response = result.http_response
        if response.is_closed and _is_json(response):
            exchange.ended(lambda: self._vendor.answered(exchange.what, response.json()))
            return

        def read(name: str, found: Any) -> None:
            if exchange.is_ended:
                return
            if name == "parse":
                self._returned(exchange, found)
            elif _is_json(response):
                exchange.ended(lambda: self._vendor.answered(exchange.what, response.json()))

        for name in ("parse", "read", "json", "text"):
            # Others of them are properties, which would be read.
            if callable(getattr(type(result), name, None)):
                setattr(result, name, self._reading(getattr(result, name), read))

    def _reading(
        self, method: Callable[..., Any], read: Callable[[str, Any], None]
    ) -> Callable[..., Any]:
        name = method.__name__

        async def awaited(reading: Any) -> Any:
            found = await reading
            self._recorder.safely(read, name, found)
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            found = method(*args, **kwargs)
            if inspect.isawaitable(found):
                return awaited(found)
            self._recorder.safely(read, name, found)
            return found

        return _named(called, method)

    def _stream(self, exchange: Exchange, stream: Any) -> None:
        reading = _Reading(exchange, self._vendor, self._recorder, stream.response)
        chunks = stream._iterator
        if hasattr(chunks, "__anext__"):
            stream._iterator = _AsyncChunks(chunks, reading)
            reading.watch("aclose")
        else:
            stream._iterator = _Chunks(chunks, reading)
            reading.watch("close")


def _is_json(response: Any) -> bool:
    return "json" in text(response.headers.get("content-type"))


def _received(vendor: Vendor, what: str, error: BaseException) -> Callable[[], Answer]:
    """What was received before an error."""
    # The SDK refuses an answer that was cut, and hands it over with the error.
    completion = getattr(error, "completion", None)
    return Answer if completion is None else lambda: vendor.answered(what, completion)


class _Reading:
    """A stream while it is read."""

    def __init__(
        self, exchange: Exchange, vendor: Vendor, recorder: Recorder, response: Any
    ) -> None:
        self._exchange = exchange
        self._recorder = recorder
        self._response = response
        self._assembler = vendor.assembler(exchange.what)
        self._process = os.getpid()
        self.is_in_next = False
        _OPEN.add(self)

    def watch(self, name: str) -> None:
        """Notices that the response is closed early. What is replaced is restored at the end."""
        close = getattr(self._response, name)

        def closed() -> Any:
            self.closed()
            return close()

        setattr(self._response, name, _named(closed, close))

    def chunk(self, chunk: Any) -> None:
        """A chunk was received."""
        self._recorder.safely(self._assembler.add, chunk)

    def closed(self) -> None:
        """The response is closed: early, unless the stream closes it at its end."""
        if not self.is_in_next:
            self.ended(GeneratorExit())

    def dropped(self) -> None:
        """The stream is dropped, or the program ends. In a child that was forked, that of the parent
        goes on."""
        if os.getpid() == self._process:
            self.ended(GeneratorExit())

    def ended(self, error: BaseException | None) -> None:
        """The stream has ended: by itself, by an error, or because it was closed or dropped."""
        _OPEN.discard(self)
        for name in ("close", "aclose"):
            vars(self._response).pop(name, None)
        if not isinstance(error, Exception) and self._assembler.is_complete():
            error = None
        self._exchange.ended(self._assembler.answer, error)


class _Observed:
    """The chunks of a stream, as the SDK reads them."""

    def __init__(self, chunks: Any, reading: _Reading) -> None:
        self._chunks = chunks
        self._reading = reading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chunks, name)

    def __del__(self) -> None:
        self._reading.dropped()


class _Chunks(_Observed):
    """The chunks of a stream that is read by `for`."""

    def __iter__(self) -> _Chunks:
        return self

    def __next__(self) -> Any:
        reading = self._reading
        reading.is_in_next = True
        try:
            chunk = next(self._chunks)
        except StopIteration:
            reading.ended(None)
            raise
        except BaseException as error:
            reading.ended(error)
            raise
        finally:
            reading.is_in_next = False
        reading.chunk(chunk)
        return chunk


class _AsyncChunks(_Observed):
    """The chunks of a stream that is read by `async for`."""

    def __aiter__(self) -> _AsyncChunks:
        return self

    async def __anext__(self) -> Any:
        reading = self._reading
        reading.is_in_next = True
        try:
            chunk = await self._chunks.__anext__()
        except StopAsyncIteration:
            reading.ended(None)
            raise
        except BaseException as error:
            reading.ended(error)
            raise
        finally:
            reading.is_in_next = False
        reading.chunk(chunk)
        return chunk
