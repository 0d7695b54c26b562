"""The loop of an agent: runs, turns and tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal, TypeAlias

    from typing_extensions import Self

    from . import _decklog
    from ._log import Log

    TurnKind: TypeAlias = Literal["user", "assistant", "system", "sysinfo", "tool"]

_ENTERED: Any = None
"""The runs that the code is within: the inner one, and those around it."""


def current_run(log: Log) -> Run | None:
    """The innermost run of a log that the code is within."""
    entered = None if _ENTERED is None else _ENTERED.get()
    while entered is not None:
        run, entered = entered
        if run._log is log:
            found: Run = run
            return found
    return None


def _without(entered: Any, run: Run) -> Any:
    """The runs without the innermost mention of one."""
    if entered is None:
        return None
    inner, outer = entered
    return outer if inner is run else (inner, _without(outer, run))


class Run:
    """A run of an agent. Made by `Log.run`."""

    def __init__(self, log: Log, native: _decklog.Run) -> None:
        self._log = log
        self._native = native
        self._turn: Turn | None = None

    @property
    def thread_id(self) -> str:
        """The id of its thread."""
        return self._native.thread_id

    def turn(self, kind: TurnKind, content: str, /) -> Turn:
        """Records a turn, which follows the one before it."""
        self._turn = Turn(self._native.turn(kind, content))
        return self._turn

    def user(self, content: str, /) -> Turn:
        """Records what the user says."""
        return self.turn("user", content)

    def assistant(self, content: str, /) -> Turn:
        """Records what the model answers."""
        return self.turn("assistant", content)

    def tool_call(
        self, tool_name: str, arguments: Any = None, /, *, call_id: str | None = None
    ) -> ToolCallScope:
        """Records the request of a tool call of the latest turn.

        Without a turn, an empty one of the assistant is recorded first.
        """
        turn = self._turn or self.assistant("")
        return turn.tool_call(tool_name, arguments, call_id=call_id)

    def __enter__(self) -> Self:
        global _ENTERED
        if _ENTERED is None:
            from contextvars import ContextVar

            _ENTERED = ContextVar("decklog runs", default=None)
        # In the context and not in the run: tasks and threads may enter the same one.
        _ENTERED.set((self, _ENTERED.get()))
        return self

    def __exit__(self, *_: object) -> None:
        _ENTERED.set(_without(_ENTERED.get(), self))

    def __repr__(self) -> str:
        return repr(self._native)


class Turn:
    """A turn that was recorded. Made by `Log.turn` and `Run.turn`."""

    __slots__ = ("_native",)

    def __init__(self, native: _decklog.Turn) -> None:
        self._native = native

    @property
    def id(self) -> str:
        """Its id, which is also the `request_id` and the `parent_id` of its tool calls."""
        return self._native.id

    def tool_call(
        self, tool_name: str, arguments: Any = None, /, *, call_id: str | None = None
    ) -> ToolCallScope:
        """Records the request of a tool call.

        arguments: What has a form in JSON.
        call_id: The vendor's id of the call. Default: a new one.
        """
        if call_id is None:
            import uuid

            call_id = f"call_{uuid.uuid4().hex}"
        given = {} if arguments is None else arguments
        return ToolCallScope(self._native.call(call_id, tool_name, given))

    def __repr__(self) -> str:
        return repr(self._native)


class ToolCallScope:
    """A tool call that was requested. Made by `Log.tool_call`.

    Its outcome is recorded once: by `done`, by `failed`, or at the end of a `with` block. A call
    that is dropped without an outcome is recorded as failed, with the `error_kind` `abandoned`.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _decklog.Call) -> None:
        self._native = native

    @property
    def call_id(self) -> str:
        """Its id."""
        return self._native.call_id

    @property
    def turn_id(self) -> str:
        """The turn that it belongs to."""
        return self._native.turn_id

    def done(self, outcome: Any = None, /) -> None:
        """Records what the tool returned, and how long it took."""
        self._native.done(outcome)

    def failed(self, error_kind: str, error_msg: str = "", /) -> None:
        """Records that the tool failed, and how long it took."""
        self._native.failed(error_kind, error_msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        if self._native.is_ended:
            return
        if kind is None:
            self.done()
        else:
            self._failed(kind, error)

    def _failed(self, kind: type[BaseException], error: BaseException | None) -> None:
        from ._shown import message_of, text, warn

        try:
            self.failed(text(kind.__name__), message_of(error))
        except Exception as unrecorded:
            # The exception of the block goes on, and no other one in its place.
            warn("the failure of a tool was not recorded", unrecorded)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)
