"""Values of other classes are recorded by their form in JSON."""

from __future__ import annotations

import datetime
import decimal
import os
import subprocess
import sys
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

import decklog
import pytest
from decklog import _plain

UTC = datetime.timezone.utc


class Id(uuid.UUID):
    pass


class When(datetime.datetime):
    pass


class Day(datetime.date):
    pass


class Amount(decimal.Decimal):
    pass


class Index:
    def __index__(self) -> int:
        return 7


def back(log: decklog.Log, payload: Any) -> Any:
    event = log.get_event(log.log_event("a.b", payload))
    assert event is not None
    return event.payload


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (Id(int=5), "00000000-0000-0000-0000-000000000005"),
        (When(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (Day(2026, 1, 1), "2026-01-01"),
        (Amount("1.10"), "1.10"),
        (decimal.Decimal("1.10"), "1.10"),
        (PurePosixPath("/a"), "/a"),
        (datetime.time(12, 30), "12:30:00"),
        (Index(), 7),
        (range(3), [0, 1, 2]),
        (
            datetime.datetime(
                2026, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2, seconds=30))
            ),
            "2025-12-31T23:59:30Z",
        ),
    ],
)
def test_subclasses_are_recorded_as_their_classes(log: decklog.Log, value: Any, found: Any) -> None:
    assert back(log, {"it": value}) == {"it": found}


def test_a_time_with_seconds_in_its_offset_is_recorded_in_utc(log: decklog.Log) -> None:
    zone = datetime.timezone(datetime.timedelta(minutes=53, seconds=28))
    at = datetime.datetime(1970, 1, 2, tzinfo=zone)
    talk = log.conversation()
    talk.user("hi", timestamp=at)
    assert next(talk.messages()).timestamp.startswith("1970-01-01T23:06:32")
    log.record({"kind": "events", "event_type": "a.b", "created_at": at})
    assert next(log.events()).created_at == at.timestamp() * 1000


def test_decimals_are_numbers_in_fields_of_numbers(log: decklog.Log) -> None:
    talk = log.conversation()
    talk.assistant("x", cost_usd=decimal.Decimal("0.01"), tokens_in=decimal.Decimal("5"))
    [message] = talk.messages()
    assert (message.cost_usd, message.tokens_in) == (0.01, 5)
    with pytest.raises(decklog.InvalidInputError, match="tokens_in"):
        talk.assistant("x", tokens_in=decimal.Decimal("NaN"))
    with pytest.raises(decklog.InvalidInputError, match="cost_usd"):
        talk.assistant("x", cost_usd=decimal.Decimal("0.1234567890123456789"))


def test_the_fields_of_numbers_are_those_of_the_records() -> None:
    from decklog import records

    found = {
        name
        for of in (getattr(records, it) for it in records.__all__ if it[0].isupper())
        for name, kind in getattr(of, "__annotations__", {}).items()
        if kind.split()[0] in ("int", "float")
    }
    assert found == _plain.NUMBERS


def test_values_of_numpy_are_recorded(log: decklog.Log) -> None:
    np = pytest.importorskip("numpy")
    given = {
        "int": np.int64(5),
        "float": np.float32(1.5),
        "long": np.longdouble(2.5),
        "flag": np.bool_(True),
        "text": np.str_("x"),
        "array": np.array([[1, 2], [3, 4]]),
        "zero": np.array(5),
        "floats": np.array([1.5]),
        "objects": np.array([{"a": 1}, None], dtype=object),
    }
    assert back(log, given) == {
        "int": 5,
        "float": 1.5,
        "long": 2.5,
        "flag": True,
        "text": "x",
        "array": [[1, 2], [3, 4]],
        "zero": 5,
        "floats": [1.5],
        "objects": [{"a": 1}, None],
    }
    log.conversation().assistant("x", tokens_in=np.int32(5), cost_usd=np.float32(0.5))
    assert next(log.messages()).tokens_in == 5
    for wrong in (np.datetime64("2026-01-01"), np.array(["2026-01-01"], "datetime64[ns]"), 1j):
        with pytest.raises(decklog.InvalidInputError):
            log.log_event("a.b", wrong)


def test_values_of_pandas_are_recorded(log: decklog.Log) -> None:
    pd = pytest.importorskip("pandas")
    at = pd.Timestamp("2026-01-01", tz="UTC")
    found = back(log, {"at": at, "none": pd.NaT, "column": pd.Series([1, 2])})
    assert found == {"at": "2026-01-01T00:00:00Z", "none": None, "column": {"0": 1, "1": 2}}
    log.record({"kind": "events", "event_type": "c.d", "created_at": at})
    assert next(log.events(event_type="c.d")).created_at == 1767225600000
    with pytest.raises(decklog.InvalidInputError, match="time zone"):
        log.log_event("a.b", pd.Timestamp("2026-01-01"))


@pytest.mark.parametrize("length", [10**9, 10**30])
def test_a_huge_range_is_refused_and_builds_no_list(log: decklog.Log, length: int) -> None:
    with pytest.raises(decklog.InvalidInputError, match="payload"):
        log.log_event("a.b", range(length))


def test_recording_imports_no_further_module() -> None:
    program = """
import decklog, sys
from decklog import _plain
try:
    _plain.plain(object(), "it")
except decklog.InvalidInputError:
    pass
print([it for it in ("datetime", "uuid", "decimal", "numpy") if it in sys.modules])
"""
    command = [sys.executable, "-S", "-c", program]
    # Without `site`, which may import them, the package has to be found.
    found = {**os.environ, "PYTHONPATH": str(Path(decklog.__file__).parent.parent)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=found)
    assert done.stdout == "[]\n"
