"""The queue of an integration, which neither waits for the log nor raises.

What is lost is counted. In a child that was forked the log is opened again.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ._log import open
from ._shown import shown
from .errors import ClosedError, Error, ForkedError, QueueFullError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from typing import Literal

    from ._handles import Capture
    from ._log import Log

    Kind = Literal["conversation_turns", "conversations", "events", "messages", "tool_calls"]


class Opened:
    """A log, or the directory of one, which is then opened and closed by its user here."""

    def __init__(self, log: Log | str | os.PathLike[str]) -> None:
        from ._log import Log

        self._own: Log | None = None
        if isinstance(log, Log):
            self.log = log
        else:
            self.log = self._own = open(log)
        self._path = self.log.path

    def check(self) -> None:
        """Raises `ClosedError` if the log was closed, and `ForkedError` in another process."""
        _ = self.log.path

    def open_again(self) -> None:
        """Opens the log in a child that was forked."""
        self.log = self._own = open(self._path)

    def close(self) -> None:
        """Closes the log if it was opened here."""
        if self._own is not None:
            try:
                self._own.close()
            except (ClosedError, ForkedError):
                pass


class Queue:
    """Queues records. Nothing in here raises an `Exception`.

    on_loss: A method that is called with the reason of each loss.
    """

    def __init__(
        self,
        log: Log | str | os.PathLike[str],
        capture: Capture | None,
        on_loss: Callable[[Exception], object],
    ) -> None:
        self._opened = Opened(log)
        # A user of the queue that is dropped drops it too, without waiting for the collector.
        self._on_loss = weakref.WeakMethod(on_loss)
        self._own: Capture | None = None
        self._capture = capture or self._begin()
        self._is_closed = False
        self.lost = 0
        """The number of records that were lost."""

    @property
    def log(self) -> Log:
        """The log, for reads."""
        return self._opened.log

    def put(self, record: dict[str, Any], kind: Kind) -> bool:
        """Queues a record. Values without a form in JSON are shown as text."""
        try:
            try:
                self._put(record, kind)
            except (ClosedError, ForkedError) as error:
                if self._is_closed:
                    raise
                self._resume(error)
                self._put(record, kind)
        except Exception as error:
            self.lose(error)
            return False
        return True

    def _put(self, record: dict[str, Any], kind: Kind) -> None:
        try:
            self._put_as_is(record, kind)
        except (ClosedError, ForkedError, QueueFullError):
            raise
        except Exception:
            self._put_as_is(shown(record), kind)

    def _put_as_is(self, record: dict[str, Any], kind: Kind) -> None:
        if kind == "conversations":
            # One that the log has is left as it is.
            self._capture.request(record)
        else:
            self._capture.record(record, kind=kind)

    def _begin(self) -> Capture:
        queue = weakref.ref(self)

        def on_error(error: Exception, _kind: str, _key: str) -> None:
            it = queue()
            if it is not None:
                it.lose(error)

        self._own = self.log.capture(on_error=on_error)
        return self._own

    def _resume(self, error: Exception) -> None:
        # In a child that was forked, or at exit, when the captures were closed.
        if isinstance(error, ForkedError):
            self._opened.open_again()
        elif self._own is None:
            raise error
        self._capture = self._begin()

    def lose(self, error: Exception) -> None:
        """Counts a record that was lost."""
        self.lost += 1
        on_loss = self._on_loss()
        if on_loss is not None:
            on_loss(error)

    def flush(self) -> None:
        """Returns when all that was queued is in the log or lost."""
        try:
            self._capture.flush()
        except Error:
            # Each loss was told.
            pass

    def close(self) -> None:
        """Writes what is queued, and closes what was opened here."""
        if self._is_closed:
            return
        self._is_closed = True
        self.flush()
        if self._own is not None:
            try:
                self._own.close()
            except Error:
                pass
        self._opened.close()
