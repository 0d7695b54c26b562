"""Spans and log records of OpenTelemetry, recorded in process.

Needs `opentelemetry-sdk` and `opentelemetry-exporter-otlp-proto-common`.

>>> import decklog, tempfile
>>> from decklog.otel import SpanExporter
>>> from opentelemetry.sdk.trace import TracerProvider
>>> from opentelemetry.sdk.trace.export import BatchSpanProcessor
>>> log = decklog.open(tempfile.mkdtemp() + "/log")
>>> provider = TracerProvider()
>>> provider.add_span_processor(BatchSpanProcessor(SpanExporter(log)))
>>> with provider.get_tracer("shop").start_as_current_span("chat small-1") as span:
...     span.set_attribute("gen_ai.operation.name", "chat")
...     span.set_attribute("gen_ai.usage.output_tokens", 4)
>>> provider.shutdown()
>>> [talk.total_tokens_out for talk in log.conversations()]
[4]
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

try:
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk._logs import export as _logs_export
    from opentelemetry.sdk.trace import export as _trace_export
except ImportError as error:
    raise ImportError(
        f"{error}: decklog.otel needs opentelemetry-sdk"
        " and opentelemetry-exporter-otlp-proto-common"
    ) from error

from ._queue import Opened
from .errors import ClosedError, ForkedError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult

    from ._log import Log

__all__ = ["LogRecordExporter", "SpanExporter"]

logger = logging.getLogger(__name__)


class _Exporter:
    """What the exporters of spans and of log records share."""

    _what: str

    def __init__(self, log: Log | str | os.PathLike[str]) -> None:
        self._opened = Opened(log)
        self._receiver = self._opened.log._receiver()
        self._is_shut_down = False
        self._is_told: set[str] = set()
        self.rejected = 0
        """The number of items that were rejected."""

    def _receive(self, request: bytes) -> tuple[int, int, list[str]]:
        raise NotImplementedError

    def _export(self, encode: Any, items: Sequence[Any]) -> bool:
        """Whether the items were recorded, or at least some of them."""
        if self._is_shut_down:
            self._tell("shut down", "%s came after the shutdown: they are lost", self._what)
            return False
        if not items:
            return True
        try:
            request = encode(items).SerializeToString()
            try:
                # The receiver would go on after the log was closed.
                self._opened.check()
                accepted, rejected, reasons = self._receive(request)
            except ForkedError:
                self._opened.open_again()
                self._receiver = self._opened.log._receiver()
                accepted, rejected, reasons = self._receive(request)
        except ClosedError:
            self._tell("closed", "the log was closed: %s are lost", self._what)
            return False
        except Exception as error:
            kind = type(error).__name__
            self._tell(kind, "%d %s were not recorded: %s", len(items), self._what, error)
            return False
        if rejected:
            self.rejected += rejected
            reason = reasons[0] if reasons else "no reason was given"
            what = (rejected, len(items), self._what, reason)
            self._tell("rejected", "%d of %d %s were rejected, the first: %s", *what)
        return accepted > 0 or not rejected

    def _tell(self, kind: str, text: str, *args: object) -> None:
        if kind not in self._is_told:
            self._is_told.add(kind)
            logger.warning(text, *args)

    def shutdown(self) -> None:
        """Ends it. A log that it opened is closed."""
        self._is_shut_down = True
        self._opened.close()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Does nothing: what was exported is in the log."""
        return True


class SpanExporter(_Exporter, _trace_export.SpanExporter):
    """Records spans: conversations, messages, tool calls, tokens and errors of GenAI spans, and
    each other span as a turn of the kind `sysinfo`.

    log: The log, or the directory of one, which the exporter opens and closes.

    The same span twice adds nothing. What is not recorded is logged as a warning by the
    logger `decklog.otel`, once for each kind of reason.

    >>> import tempfile
    >>> from opentelemetry.sdk.trace.export import BatchSpanProcessor
    >>> processor = BatchSpanProcessor(SpanExporter(tempfile.mkdtemp() + "/log"))
    """

    _what = "spans"

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Records spans. Returns `FAILURE` if none of them was recorded."""
        results = _trace_export.SpanExportResult
        return results.SUCCESS if self._export(encode_spans, spans) else results.FAILURE

    def _receive(self, request: bytes) -> tuple[int, int, list[str]]:
        received: tuple[int, int, list[str]] = self._receiver.traces(request)
        return received


if TYPE_CHECKING:
    from opentelemetry.sdk._logs.export import LogRecordExporter as _LogBase, LogRecordExportResult
else:
    # Earlier versions of the SDK have other names.
    _LogBase = getattr(_logs_export, "LogRecordExporter", None) or _logs_export.LogExporter
    LogRecordExportResult = (
        getattr(_logs_export, "LogRecordExportResult", None) or _logs_export.LogExportResult
    )


class LogRecordExporter(_Exporter, _LogBase):
    """Records log records of OpenTelemetry: the messages of requests whose instrumentation sends
    them as events, and each other log record as a turn of the kind `sysinfo`.

    log: The log, or the directory of one, which the exporter opens and closes.

    >>> import tempfile
    >>> from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    >>> processor = BatchLogRecordProcessor(LogRecordExporter(tempfile.mkdtemp() + "/log"))
    """

    _what = "log records"

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Records log records. Returns `FAILURE` if none of them was recorded."""
        results = LogRecordExportResult
        return results.SUCCESS if self._export(encode_logs, batch) else results.FAILURE

    def _receive(self, request: bytes) -> tuple[int, int, list[str]]:
        received: tuple[int, int, list[str]] = self._receiver.logs(request)
        return received
