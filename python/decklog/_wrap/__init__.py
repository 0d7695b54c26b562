"""Clients of OpenAI and Anthropic whose requests are recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from ..errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._handles import Capture
    from .._log import Log
    from ._said import Vendor

Client = TypeVar("Client")

_BASES = ("SyncAPIClient", "AsyncAPIClient")


class UnknownClientError(InvalidInputError, TypeError):
    """The client is not one of an SDK that decklog knows."""


def wrap(
    client: Client,
    /,
    *,
    log: Log | None = None,
    path: str | os.PathLike[str] | None = None,
    conversation: str | None = None,
    capture: Capture | None = None,
    on_error: Callable[[Exception, str, str], object] | None = None,
) -> Client:
    """Records the requests of a client of OpenAI or Anthropic. Returns the same client.

    client: An `OpenAI`, `AsyncOpenAI`, `Anthropic` or `AsyncAnthropic`, or a variant for a cloud.
    log: Where to record.
    path: Opens the log in this directory. Default: the environment variable `DECKLOG_STORE`.
    conversation: Records all requests in this conversation: a UUID, or a name of your own. Default: a
        request that continues an answer of this client goes on in its conversation; any other request
        starts one.
    capture: Records through this one. Default: one that is closed at exit.
    on_error: Called with the exception, the kind and the key of what was not recorded.

    The client does what it did before. Its methods never wait for the log, and an error of the log is
    never raised by them: the first one is a warning of the logger `decklog`.

    Raises `InvalidInputError` for a client that is not known, which is a `TypeError` too, and if there
    is no log to record in.
    """
    from ._observing import observe
    from ._recording import Recorder

    vendor = _vendor(client)
    if log is None and (capture is None or path is not None):
        from .._log import open

        where = path if path is not None else os.environ.get("DECKLOG_STORE")
        if not where:
            raise InvalidInputError(
                "there is no log to record in: give log=decklog.open(PATH) or path=PATH,"
                " or set the environment variable DECKLOG_STORE",
                field="log",
            )
        log = open(where)
    observe(client, vendor, Recorder(vendor.name, capture, log, conversation, on_error))
    return client


def _vendor(client: object) -> Vendor:
    for base in type(client).__mro__:
        # By name, so that the SDK of the other vendor need not be installed.
        package = base.__module__.partition(".")[0]
        if base.__name__ in _BASES and package == "openai":
            from .openai import OpenAI

            return OpenAI()
        if base.__name__ in _BASES and package == "anthropic":
            from .anthropic import Anthropic

            return Anthropic()
    kind = client.__qualname__ if isinstance(client, type) else type(client).__qualname__
    hint = f" Give a client, such as {kind}(), not its class." if isinstance(client, type) else ""
    raise UnknownClientError(
        f"a {kind} cannot be wrapped: give a client of the package openai or anthropic,"
        f" such as OpenAI() or AsyncAnthropic().{hint}",
        field="client",
    )


__all__ = ["UnknownClientError", "wrap"]
