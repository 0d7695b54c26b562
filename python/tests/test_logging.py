"""Records of `logging` become events, and the program that logs notices nothing of it."""

from __future__ import annotations

import datetime
import logging
import logging.config
import logging.handlers
import multiprocessing
import os
import queue
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import decklog
from decklog.logging import Handler


@pytest.fixture
def log(tmp_path: Path) -> Iterator[decklog.Log]:
    with decklog.open(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("shop.till")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield logger
    for handler in [*logger.handlers]:
        logger.removeHandler(handler)
        handler.close()


def attach(logger: logging.Logger, log: Any, **arguments: Any) -> Handler:
    handler = Handler(log, **arguments)
    logger.addHandler(handler)
    return handler


def test_a_record_is_an_event_with_all_it_has(log: decklog.Log, logger: logging.Logger) -> None:
    handler = attach(logger, log)
    before = int(time.time() * 1000)
    logger.warning("no %s left", "tea", extra={"order": 7, "tags": ["a", "b"]})
    handler.flush()
    [event] = log.events()
    payload = event.payload
    assert event.event_type == "log.warning"
    assert before <= event.created_at <= int(time.time() * 1000)
    assert event.parent_id is None
    assert payload["logger"] == "shop.till"
    assert payload["level"] == "WARNING"
    assert payload["message"] == "no tea left"
    assert payload["file"] == __file__
    assert payload["function"] == "test_a_record_is_an_event_with_all_it_has"
    assert isinstance(payload["line"], int)
    assert payload["thread"] == threading.current_thread().name
    assert payload["process"] == os.getpid()
    assert payload["extra"] == {"order": 7, "tags": ["a", "b"]}
    assert "exception" not in payload and "stack" not in payload


def test_an_exception_is_recorded_with_its_traceback(
    log: decklog.Log, logger: logging.Logger
) -> None:
    handler = attach(logger, log)
    try:
        {"milk": 1}["tea"]
    except KeyError:
        logger.exception("the till failed")
    logger.error("a stack", stack_info=True)
    logger.error("no exception", exc_info=True)
    handler.flush()
    first, second, third = log.events()
    exception = first.payload["exception"]
    assert exception["type"] == "KeyError"
    assert exception["message"] == "'tea'"
    assert exception["traceback"].startswith("Traceback") and '["tea"]' in exception["traceback"]
    assert "test_an_exception" in second.payload["stack"]
    assert third.payload["exception"] is None


def test_extra_without_a_form_in_json_is_shown_as_text(
    log: decklog.Log, logger: logging.Logger
) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    loop: list[Any] = []
    loop.append(loop)
    handler = attach(logger, log)
    utc = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    more = {"lock": object, "nan": float("nan"), "sub": {1: b"x"}, "broken": Broken(), "loop": loop}
    logger.info("m", extra={"at": utc, **more, "surrogate": "\udc80", "big": 2**70})
    handler.flush()
    assert handler.lost == 0
    [event] = log.events()
    extra = event.payload["extra"]
    assert extra["at"] == "2026-01-02T00:00:00Z"
    assert extra["lock"] == "<class 'object'>"
    assert extra["nan"] == "nan"
    assert extra["sub"] == {"1": "b'x'"}
    assert extra["broken"].endswith("Broken>")
    assert extra["surrogate"] == "\\udc80"
    assert extra["big"] == 2**70
    assert isinstance(extra["loop"], list)


def test_arguments_that_do_not_fit_are_not_lost(log: decklog.Log) -> None:
    handler = Handler(log)
    handler.handle(logging.makeLogRecord({"msg": "%d apples", "args": ("many",)}))
    handler.handle(logging.makeLogRecord({"msg": "%s %s", "args": ("one",)}))
    handler.close()
    messages = [event.payload["message"] for event in log.events()]
    assert messages == ["'%d apples' ('many',)", "'%s %s' ('one',)"]


def test_levels_of_ones_own_have_a_type(log: decklog.Log, logger: logging.Logger) -> None:
    handler = attach(logger, log, level=logging.INFO)
    logging.addLevelName(25, "Very Odd!")
    logger.debug("below the level")
    logger.log(25, "a")
    logger.log(33, "b")
    logging.addLevelName(26, "é")
    logger.log(26, "c")
    handler.flush()
    types = [event.event_type for event in log.events()]
    assert types == ["log.very_odd", "log.level_33", "log.26"]


def test_the_type_and_the_parent_can_be_chosen(log: decklog.Log, logger: logging.Logger) -> None:
    run = log.log_event("agent.started")
    handler = attach(
        logger,
        log,
        event_type=lambda record: f"app.{record.name}",
        parent_id=lambda record: getattr(record, "run", None),
    )
    logger.info("in the run", extra={"run": run})
    logger.info("outside")
    logger.removeHandler(handler)
    other = attach(logger, log, event_type="app.log", parent_id=run)
    logger.info("constant")
    handler.flush()
    other.flush()
    found = [(it.event_type, it.parent_id) for it in log.events()][1:]
    assert found == [("app.shop.till", run), ("app.shop.till", None), ("app.log", run)]
    with pytest.raises(ValueError, match="dotted name"):
        Handler(log, event_type="log")
    with pytest.raises(ValueError, match="give a log or a path"):
        Handler()
    handler.close()


def test_what_fails_is_counted_and_told_once(
    log: decklog.Log, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = attach(logger, log, event_type=lambda record: 1 / 0)
    logger.info("a")
    logger.info("b")
    assert handler.lost == 2
    assert capsys.readouterr().err == "decklog: a log record was lost: division by zero\n"
    # An event that the log rejects is lost on the writing thread.
    logger.removeHandler(handler)
    other = attach(logger, log, parent_id=999)
    logger.info("c")
    other.flush()
    assert other.lost == 1
    assert "999" in capsys.readouterr().err
    handler.close()


def test_a_full_queue_does_not_block(log: decklog.Log, logger: logging.Logger) -> None:
    capture = log.capture(queue_records_max=1)
    handler = attach(logger, log, capture=capture)
    began = time.perf_counter()
    for nth in range(5_000):
        logger.info("record %d", nth)
    assert time.perf_counter() - began < 5
    handler.flush()
    recorded = sum(1 for _ in log.events())
    assert recorded + handler.lost == 5_000
    assert recorded >= 1
    handler.close()
    # The capture is the caller's.
    capture.record({"event_type": "still.open"}, kind="events")
    capture.close()


def test_a_log_that_is_closed_does_not_raise(log: decklog.Log, logger: logging.Logger) -> None:
    handler = attach(logger, log)
    logger.info("before")
    handler.close()
    handler.close()
    logger.info("after")
    handler.flush()
    assert handler.lost == 1
    assert len([*log.events()]) == 1


def test_what_the_package_logs_is_not_recorded(log: decklog.Log) -> None:
    handler = Handler(log)
    for name in ("decklog", "decklog.otel", "decklogs"):
        handler.handle(logging.makeLogRecord({"name": name, "msg": "m"}))
    handler.flush()
    assert [it.payload["logger"] for it in log.events()] == ["decklogs"]
    handler.close()


def test_a_repr_that_logs_does_not_recurse(log: decklog.Log) -> None:
    class Chatty:
        def __repr__(self) -> str:
            handler.handle(logging.makeLogRecord({"msg": "I am %r", "args": (self,)}))
            return "Chatty"

    handler = Handler(log)
    handler.handle(logging.makeLogRecord({"msg": "m", "it": Chatty()}))
    handler.close()
    assert [it.payload["extra"] for it in log.events()] == [{"it": "Chatty"}]


def test_threads_share_a_handler(log: decklog.Log, logger: logging.Logger) -> None:
    handler = attach(logger, log)

    def work(name: int) -> None:
        for nth in range(200):
            logger.info("%d:%d", name, nth)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.flush()
    messages = [it.payload["message"] for it in log.events()]
    for name in range(8):
        own = [int(it.split(":")[1]) for it in messages if it.startswith(f"{name}:")]
        assert own == list(range(200))


def test_a_record_that_came_through_a_queue(log: decklog.Log, logger: logging.Logger) -> None:
    handler = Handler(log)
    records: queue.SimpleQueue[Any] = queue.SimpleQueue()
    logger.addHandler(logging.handlers.QueueHandler(records))
    listener = logging.handlers.QueueListener(records, handler)
    listener.start()
    try:
        raise ValueError("no tea")
    except ValueError:
        logger.exception("failed")
    listener.stop()
    handler.flush()
    [event] = log.events()
    assert "ValueError: no tea" in str(event.payload)
    handler.close()


def test_dict_config_opens_the_log(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "configured"
    handler = {"class": "decklog.logging.Handler", "path": str(path), "level": "WARNING"}
    config = {"handlers": ["decklog"], "level": "INFO", "propagate": False}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"plain": {"format": "%(message)s"}},
            "handlers": {"decklog": {**handler, "formatter": "plain", "event_type": "app.log"}},
            "loggers": {"shop.till": config},
        }
    )
    logger.info("below")
    logger.error("above")
    logger.handlers[0].close()
    with decklog.open(path, read_only=True) as log:
        assert [(it.event_type, it.payload["message"]) for it in log.events()] == [
            ("app.log", "above")
        ]


def run(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_what_is_logged_until_the_exit_is_recorded(tmp_path: Path) -> None:
    done = run(
        """
        import atexit, logging, sys
        atexit.register(lambda: logging.error("at exit, first registered"))
        from decklog.logging import Handler
        atexit.register(lambda: logging.error("at exit, last registered"))
        logging.getLogger().addHandler(Handler(path=sys.argv[1]))
        logging.error("before the exit")
        """,
        str(tmp_path / "log"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    with decklog.open(tmp_path / "log", read_only=True) as log:
        messages = [it.payload["message"] for it in log.events()]
    assert messages[:2] == ["before the exit", "at exit, last registered"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_was_forked_records_too(log: decklog.Log, logger: logging.Logger) -> None:
    handler = attach(logger, log)
    logger.info("parent")
    handler.flush()

    def work() -> None:
        logger.info("child")
        handler.close()

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    logger.info("parent again")
    handler.flush()
    messages = [it.payload["message"] for it in log.events()]
    assert messages == ["parent", "child", "parent again"]


def test_the_package_imports_neither_logging_nor_the_integrations() -> None:
    done = run(
        """
        import sys
        import decklog
        loaded = {"logging", "opentelemetry", "langchain_core", "decklog.logging", "asyncio"}
        print(sorted(loaded & {*sys.modules}))
        """
    )
    assert done.stdout.strip() == "[]", done.stderr
