"""Records as Arrow, as the engines of others take them."""

from __future__ import annotations

from typing import Any

import decklog
import pytest


@pytest.fixture
def calls(log: decklog.Log) -> decklog.Log:
    with log.run("anthropic") as run:
        run.user("hi")
        for number in range(2500):
            call = run.tool_call("Bash" if number % 2 else "Read", {"n": number})
            if number % 10:
                call.done({"lines": number})
            else:
                call.failed("timeout", "30 s")
    return log


def test_pyarrow_takes_it(calls: decklog.Log) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(calls.to_arrow("tool_calls"))
    assert table.num_rows == 2500
    row: dict[str, Any] = table.slice(11, 1).to_pylist()[0]
    call = list(calls.tool_calls(order="asc"))[11]
    assert (row["call_id"], row["status"]) == (call.call_id, "completed")
    assert (row["arguments_json"], row["outcome_json"]) == ('{"n":11}', '{"lines":11}')
    assert int(row["started_at"].timestamp() * 1000) == call.started_at
    statuses = table.column("status").value_counts().to_pylist()
    assert {it["values"]: it["counts"] for it in statuses} == {"completed": 2250, "failed": 250}


def test_columns_and_times_are_chosen(calls: decklog.Log) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    reader = pyarrow.RecordBatchReader.from_stream(
        calls.to_arrow("tool_calls", columns=["status", "tool_name"], since="1999-01-01")
    )
    assert reader.schema.names == ["status", "tool_name"]
    assert reader.read_all().num_rows == 2500
    assert pyarrow.table(calls.to_arrow("tool_calls", until="1999-01-01")).num_rows == 0
    with pytest.raises(decklog.InvalidInputError, match="no column"):
        calls.to_arrow("tool_calls", columns=["statuss"])


def test_polars_duckdb_and_pandas_take_it(calls: decklog.Log) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    frame = polars.DataFrame(calls.to_arrow("tool_calls"))
    assert frame.filter(polars.col("status") == "failed").height == 250
    stream = calls.to_arrow("tool_calls")
    [(count, longest)] = duckdb.sql(
        "select count(*), max(latency_ms) from stream where tool_name = 'Bash'"
    ).fetchall()
    assert (count, longest >= 0) == (1250, True)
    pandas = pytest.importorskip("pandas")
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert len(pandas.DataFrame.from_arrow(calls.to_arrow("tool_calls"))) == 2500


def test_every_kind_has_a_table(log: decklog.Log) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    talk = log.conversation(title="t")
    talk.assistant("yo", tokens_out=3, model_used="m")
    log.log_event("a.b")
    for kind in ("conversations", "messages", "events", "inbox", "history", "thought_records"):
        table = pyarrow.table(log.to_arrow(kind))  # type: ignore[arg-type]
        assert table.num_rows == (kind in ("conversations", "messages", "events"))
    row = pyarrow.table(log.to_arrow("conversations")).to_pylist()[0]
    assert (row["message_count"], row["total_tokens_out"], row["models_used"]) == (1, 3, '["m"]')


def test_a_stream_is_read_once(log: decklog.Log) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    stream = log.to_arrow("events")
    assert pyarrow.table(stream).num_rows == 0
    with pytest.raises(decklog.LifecycleError, match="new one"):
        pyarrow.table(stream)


def test_a_long_list_is_whole_and_in_order(log: decklog.Log) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    # Many records have the same time, and batches end between them.
    events = [{"event_type": "a.b", "created_at": 10**12 + n // 50_000} for n in range(100_000)]
    log.record_batch(events, kind="events")
    turns = [
        {"kind": "user", "content": str(n), "created_at": 10**12 + n // 50_000}
        for n in range(100_000)
    ]
    log.record_batch(turns)
    table = pyarrow.table(log.to_arrow("events", columns=["id"]))
    assert table.column("id").to_pylist() == list(range(1, 100_001))
    table = pyarrow.table(log.to_arrow("conversation_turns", columns=["content"]))
    assert table.column("content").to_pylist() == [str(n) for n in range(100_000)]
    some = log.to_arrow("conversation_turns", columns=["content"], since=10**12 + 1)
    assert pyarrow.table(some).num_rows == 50_000
    # A reader that stops early leaves nothing behind.
    reader = pyarrow.RecordBatchReader.from_stream(log.to_arrow("conversation_turns"))
    assert reader.read_next_batch().num_rows > 0
    del reader
