"""A checkpoint store of one's own, over one SQLite file, and its conformance.

    own_store.py

It has all eight capabilities of LangGraph's conformance suite, in `async`.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import START, MessagesState, StateGraph

SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoints (
    thread TEXT, ns TEXT, id TEXT, parent TEXT,
    kind TEXT, value BLOB, metadata TEXT,
    PRIMARY KEY (thread, ns, id)
);
CREATE TABLE IF NOT EXISTS writes (
    thread TEXT, ns TEXT, id TEXT, task TEXT, path TEXT, place INTEGER,
    channel TEXT, kind TEXT, value BLOB,
    PRIMARY KEY (thread, ns, id, task, place)
);
"""
TABLES = {
    "checkpoints": "ns, id, parent, kind, value, metadata",
    "writes": "ns, id, task, path, place, channel, kind, value",
}
COLUMNS = f"thread, {TABLES['checkpoints']}"


class OwnStore(BaseCheckpointSaver[int]):
    def __init__(self, file: str) -> None:
        super().__init__()
        self.database = sqlite3.connect(file)
        self.database.executescript(SCHEMA)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns, parent = key(config)
        row = (
            *(thread, ns, checkpoint["id"], parent),
            *self.serde.dumps_typed(checkpoint),
            json.dumps(get_checkpoint_metadata(config, metadata)),
        )
        with self.database:
            self.database.execute(
                f"INSERT OR REPLACE INTO checkpoints ({COLUMNS}) VALUES (?,?,?,?,?,?,?)",
                row,
            )
        return address(thread, ns, checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        rows = [
            (
                *(*key(config), task_id, task_path),
                *(WRITES_IDX_MAP.get(channel, place), channel),
                *self.serde.dumps_typed(value),
            )
            for place, (channel, value) in enumerate(writes)
        ]
        with self.database:
            self.database.executemany(
                f"INSERT OR {'REPLACE' if special else 'IGNORE'} INTO writes"
                " VALUES (?,?,?,?,?,?,?,?,?)",
                rows,
            )

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        rows = self.database.execute(
            f"SELECT {COLUMNS} FROM checkpoints WHERE thread = ? AND ns = ?"
            " AND id = coalesce(?, id) ORDER BY id DESC LIMIT 1",
            key(config),
        )
        return next((self.load(row) for row in rows), None)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        asked = config["configurable"] if config else {}
        rows = self.database.execute(
            f"SELECT {COLUMNS} FROM checkpoints WHERE thread = coalesce(?, thread)"
            " AND ns = coalesce(?, ns) AND id = coalesce(?, id)"
            " AND (? IS NULL OR id < ?) ORDER BY id DESC",
            (
                asked.get("thread_id"),
                asked.get("checkpoint_ns"),
                asked.get("checkpoint_id"),
                *([get_checkpoint_id(before) if before else None] * 2),
            ),
        ).fetchall()
        for row in rows:
            if limit is not None and limit <= 0:
                return
            metadata = json.loads(row[-1])
            if all(
                metadata.get(name) == value for name, value in (filter or {}).items()
            ):
                limit = None if limit is None else limit - 1
                yield self.load(row)

    async def adelete_thread(self, thread_id: str) -> None:
        with self.database:
            for table in TABLES:
                self.database.execute(
                    f"DELETE FROM {table} WHERE thread = ?", (thread_id,)
                )

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        marks = ",".join("?" * len(run_ids))
        chosen = f"json_extract(metadata, '$.run_id') IN ({marks})"
        self.delete_checkpoints(chosen, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        with self.database:
            for table, columns in TABLES.items():
                self.database.execute(
                    f"INSERT OR REPLACE INTO {table} (thread, {columns})"
                    f" SELECT ?, {columns} FROM {table} WHERE thread = ?",
                    (target_thread_id, source_thread_id),
                )

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        for thread in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread)
                continue
            newest = "SELECT max(id) FROM checkpoints WHERE thread = ? GROUP BY ns"
            self.delete_checkpoints(
                f"thread = ? AND id NOT IN ({newest})", [thread] * 2
            )

    def delete_checkpoints(self, chosen: str, values: Sequence[str]) -> None:
        rows = f"SELECT thread, ns, id FROM checkpoints WHERE {chosen}"
        with self.database:
            for table in ("writes", "checkpoints"):
                self.database.execute(
                    f"DELETE FROM {table} WHERE (thread, ns, id) IN ({rows})",
                    tuple(values),
                )

    def load(self, row: tuple) -> CheckpointTuple:
        thread, ns, id, parent, kind, value, metadata = row
        writes = self.database.execute(
            "SELECT task, channel, kind, value FROM writes"
            " WHERE thread = ? AND ns = ? AND id = ? ORDER BY path, task, place",
            (thread, ns, id),
        )
        return CheckpointTuple(
            config=address(thread, ns, id),
            checkpoint=self.serde.loads_typed((kind, value)),
            metadata=json.loads(metadata),
            parent_config=address(thread, ns, parent) if parent else None,
            pending_writes=[
                (task, channel, self.serde.loads_typed((kind, value)))
                for task, channel, kind, value in writes
            ],
        )


def key(config: RunnableConfig) -> tuple[str, str, str | None]:
    named = config["configurable"]
    return named["thread_id"], named.get("checkpoint_ns", ""), get_checkpoint_id(config)


def address(thread: str, ns: str, id: str) -> RunnableConfig:
    named = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}
    return {"configurable": named}


@checkpointer_test(name="OwnStore")
async def own_store():
    yield OwnStore(":memory:")


async def main() -> None:
    report = await validate(own_store)
    for capability, result in report.results.items():
        print(
            f"{capability}: {result.tests_passed} passed, {result.tests_failed} failed"
        )

    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [("ai", "Hello.")]})
    graph.add_edge(START, "answer")
    compiled = graph.compile(checkpointer=OwnStore(":memory:"))
    config = {"configurable": {"thread_id": "t"}}
    for _ in range(2):
        ended = await compiled.ainvoke({"messages": [("user", "Hi.")]}, config)
    print(f"{len(ended['messages'])} messages after two runs")


if __name__ == "__main__":
    asyncio.run(main())
