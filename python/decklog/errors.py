"""The exceptions of this package. Each is a subclass of `Error`."""

from __future__ import annotations

from typing import Any, Optional


class Error(Exception):
    """An error of the log.

    Its text says what happened, where, and what to do.
    """

    kind: str = "error"
    """A short stable word, such as `conflict`."""
    field: Optional[str]
    """The field or argument that is invalid."""
    path: Optional[str]
    """The file or directory concerned."""
    key: Optional[str]
    """The record concerned: its kind and its id."""
    offset: Optional[int]
    """The byte offset in `path`."""

    def __init__(
        self,
        message: str,
        *,
        field: Optional[str] = None,
        path: Optional[str] = None,
        key: Optional[str] = None,
        offset: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.path = path
        self.key = key
        self.offset = offset


class StoreIOError(Error):
    """The operating system refused an operation."""

    kind = "io"


class InvalidInputError(Error, ValueError):
    """A record or an argument is invalid. Nothing was written."""

    kind = "invalid_input"


class NotFoundError(Error, LookupError):
    """The record that this one belongs to is not in the log, or was retracted. Nothing was written."""

    kind = "not_found"


class LifecycleError(Error):
    """The step is not possible in the present state of the record. Nothing was written."""

    kind = "lifecycle"


class ConflictError(Error):
    """The log has another fact for this key. The first one is kept, and nothing was written."""

    kind = "conflict"


class LockedError(Error, TimeoutError):
    """Another process held the log's write lock for longer than the timeout."""

    kind = "locked"


class PoisonedError(Error):
    """An earlier write failed. Open the log again to recover."""

    kind = "poisoned"


class DamagedError(Error):
    """Bytes of the log were changed or damaged."""

    kind = "damaged"


class NewerFormatError(Error):
    """The log was written by a newer version, in a format that this one does not know."""

    kind = "newer_format"


class NotAStoreError(Error):
    """The path is not a log, and cannot become one."""

    kind = "not_a_store"


class ReadOnlyError(Error):
    """The log was opened read-only."""

    kind = "read_only"


class NetworkFileSystemError(Error):
    """The log is on a network file system, where locks are not reliable."""

    kind = "network_file_system"


class UserIdKeyError(Error):
    """The key with which user ids are hashed is missing, or is another one. Nothing was written."""

    kind = "user_id_key"


class QueueFullError(Error):
    """The queue of a capture is full. The record was not queued."""

    kind = "queue_full"


class RemoteError(Error):
    """An object store or a database cannot be reached, or refused an operation."""

    kind = "remote"


class ClosedError(Error, ValueError):
    """The log was closed."""

    kind = "closed"


class ForkedError(Error):
    """The log was opened before the process was forked. Open it again in the child."""

    kind = "forked"


class BatchError(Error):
    """Some records of a batch were rejected. The others were recorded."""

    kind = "batch"
    results: list[Any]
    """For each record, in order, its `Ack` or the exception."""

    def __init__(self, results: list[Any], failed: int) -> None:
        errors = (it for it in results if isinstance(it, Exception))
        first = next(errors, None)
        super().__init__(f"{failed} of {len(results)} records were rejected, the first: {first}")
        self.results = results
        self._failed = failed

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is made again of its text otherwise.
        return type(self), (self.results, self._failed), self.__dict__


BY_KIND: dict[str, type[Error]] = {
    of.kind: of
    for of in (
        StoreIOError,
        InvalidInputError,
        NotFoundError,
        LifecycleError,
        ConflictError,
        LockedError,
        PoisonedError,
        DamagedError,
        NewerFormatError,
        NotAStoreError,
        ReadOnlyError,
        NetworkFileSystemError,
        UserIdKeyError,
        QueueFullError,
        RemoteError,
        ClosedError,
        ForkedError,
    )
}
"""The exception of each kind of error."""
