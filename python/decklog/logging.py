"""Records of Python's `logging` as events.

>>> import decklog, logging, tempfile
>>> from decklog.logging import Handler
>>> log = decklog.open(tempfile.mkdtemp() + "/log")
>>> handler = Handler(log)
>>> logger = logging.getLogger("shop")
>>> logger.addHandler(handler)
>>> logger.error("no %s left", "tea", extra={"order": 7})
>>> handler.flush()
>>> event = next(log.events())
>>> event.event_type, event.payload["message"], event.payload["extra"]
('log.error', 'no tea left', {'order': 7})
>>> handler.close()
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

from ._queue import Queue
from ._shown import as_repr
from .errors import InvalidInputError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import TracebackType

    from ._handles import Capture
    from ._log import Log

    ExcInfo = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

__all__ = ["Handler"]

OWN = "decklog."
"""The loggers of this package, whose records are not recorded."""
DOTTED = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
NOT_OF_A_NAME = re.compile(r"[^a-z0-9_-]+")
STANDARD = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"},
)
"""The attributes of each record. The others are `extra`."""


class Handler(logging.Handler):
    """Records each log record as an event. It never waits for the log, and never raises.

    log: The log, or the directory of one, which the handler opens and closes.
    path: The directory, if no `log` is given: for `logging.config.dictConfig`.
    level: As of each handler.
    event_type: The type of all events, or a function that returns that of a record. Default: `log.`
        and the level, such as `log.error`.
    parent_id: The event above these, which must be in the log, or a function that returns it.
    capture: A capture of the log, which the caller closes. Default: one of the handler.

    The payload has `logger`, `level`, `message`, `file`, `line`, `function`, `thread`, `process`;
    and `task`, `exception`, `stack` and `extra` if there are any. A formatter is not used.

    >>> import logging.config, tempfile
    >>> path = tempfile.mkdtemp() + "/log"
    >>> logging.config.dictConfig({
    ...     "version": 1,
    ...     "disable_existing_loggers": False,
    ...     "handlers": {"decklog": {"class": "decklog.logging.Handler", "path": path}},
    ...     "loggers": {"bakery": {"level": "INFO", "handlers": ["decklog"]}},
    ... })
    """

    def __init__(
        self,
        log: Log | str | os.PathLike[str] | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        level: int | str = logging.NOTSET,
        event_type: str | Callable[[logging.LogRecord], str] | None = None,
        parent_id: int | Callable[[logging.LogRecord], int | None] | None = None,
        capture: Capture | None = None,
    ) -> None:
        super().__init__(level)
        if isinstance(event_type, str) and not DOTTED.fullmatch(event_type):
            raise InvalidInputError(
                f"event_type {event_type!r} is no dotted name: write it like app.log",
                field="event_type",
            )
        into = path if log is None else log
        if into is None:
            raise InvalidInputError("give a log or a path", field="log")
        self._event_type = event_type
        self._parent_id = parent_id
        self._is_told = False
        self._is_emitting = False
        self._queue = Queue(into, capture, self._tell)

    @property
    def lost(self) -> int:
        """The number of records that were lost, for instance because the queue was full.

        The first loss is told on stderr, unless `logging.raiseExceptions` is off.
        """
        return self._queue.lost

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the event of a record."""
        is_own = f"{record.name}.".startswith(OWN)
        # What is logged while a record is described, such as by a `repr`, would never end.
        if is_own or self._is_emitting:
            return
        self._is_emitting = True
        try:
            self._queue.put(self._event(record), "events")
        except Exception as error:
            self._queue.lose(error)
        finally:
            self._is_emitting = False

    def _event(self, record: logging.LogRecord) -> dict[str, Any]:
        kind, parent = self._event_type, self._parent_id
        if kind is None:
            kind = _event_type(record)
        event = {
            "event_type": kind if isinstance(kind, str) else kind(record),
            "created_at": int(record.created * 1000),
            "payload": _payload(record),
        }
        parent_id = parent(record) if callable(parent) else parent
        if parent_id is not None:
            event["parent_id"] = parent_id
        return event

    def _tell(self, error: Exception) -> None:
        if self._is_told or not logging.raiseExceptions:
            return
        self._is_told = True
        try:
            print(f"decklog: a log record was lost: {error}", file=sys.stderr)
        except Exception:
            # There may be no stderr.
            pass

    def flush(self) -> None:
        """Returns when all records are in the log or lost."""
        # Without the lock of the handler: other threads go on.
        self._queue.flush()

    def close(self) -> None:
        """Writes what is queued. Later records are lost. `logging` calls it at exit."""
        self._queue.close()
        super().close()


def _event_type(record: logging.LogRecord) -> str:
    level = NOT_OF_A_NAME.sub("_", record.levelname.lower()).strip("_")
    return f"log.{level or record.levelno}"


def _payload(record: logging.LogRecord) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "logger": record.name,
        "level": record.levelname,
        "message": _message(record),
        "file": record.pathname,
        "line": record.lineno,
        "function": record.funcName,
        "thread": record.threadName,
        "process": record.process,
    }
    task = getattr(record, "taskName", None)
    if task is not None:
        payload["task"] = task
    if record.exc_info:
        payload["exception"] = _exception(record.exc_info)
    elif record.exc_text:
        # Of a record that came through a queue.
        payload["exception"] = {"traceback": record.exc_text}
    if record.stack_info:
        payload["stack"] = record.stack_info
    extra = {name: it for name, it in record.__dict__.items() if name not in STANDARD}
    if extra:
        payload["extra"] = extra
    return payload


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # The arguments do not fit the text. Neither is lost.
        return f"{as_repr(record.msg)} {as_repr(record.args)}"


def _exception(exc_info: ExcInfo) -> dict[str, Any] | None:
    kind, error, _ = exc_info
    if kind is None:
        return None
    try:
        text = str(error)
    except Exception:
        text = as_repr(error)
    try:
        lines = "".join(traceback.format_exception(*exc_info))
    except Exception:
        lines = None
    return {"type": kind.__qualname__, "message": text, "traceback": lines}
