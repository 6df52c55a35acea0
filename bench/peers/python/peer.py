"""The benchmark cases on Python's langgraph, with the same arguments, clocks and JSON output as
the programs in Rust. The runtime `current` uses its async API, `pool` the synchronous one."""

import asyncio
import json
import operator
import sys
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

TASKS = {"seq10": 10, "fan100": 102, "react50": 101, "wide100": 10}
TURNS = 50
BATCH_MAX = 64
BATCH_SECONDS = 0.05
WIDE = {f"k{i:03}": "x" * 100 for i in range(100)}

Chain = TypedDict("Chain", {"n": int})
Wide = TypedDict("Wide", {"n": int, **{key: str for key in WIDE}})


class Fan(TypedDict):
    n: int
    items: Annotated[list, operator.add]


class React(TypedDict):
    messages: Annotated[list, operator.add]


def node(function, is_async):
    """A node for the async or the synchronous API."""
    if not is_async:
        return function

    async def run(state):
        return function(state)

    return run


def chain(schema, is_async):
    graph = StateGraph(schema)
    for i in range(10):
        graph.add_node(f"n{i}", node(lambda state: {"n": state["n"] + 1}, is_async))
        graph.add_edge(START if i == 0 else f"n{i - 1}", f"n{i}")
    graph.add_edge("n9", END)
    return graph


def fan(is_async):
    graph = StateGraph(Fan)
    graph.add_node("start", node(lambda state: {"n": 1}, is_async))
    graph.add_node("work", node(lambda i: {"items": [i]}, is_async))
    graph.add_node("join", node(lambda state: {"n": len(state["items"])}, is_async))
    graph.add_edge(START, "start")
    sends = lambda state: [Send("work", i) for i in range(100)]
    graph.add_conditional_edges("start", sends, ["work"])
    graph.add_edge("work", "join")
    graph.add_edge("join", END)
    return graph


def speak(state):
    """The agent or the tool, both of which append the next message."""
    count = len(state["messages"])
    if count >= 2 * TURNS:
        message = {"role": "assistant", "content": "done"}
    elif count % 2 == 0:
        message = {"role": "assistant", "content": f"call {count}"}
    else:
        message = {"role": "tool", "content": f"result {count}"}
    return {"messages": [message]}


def react(is_async):
    graph = StateGraph(React)
    graph.add_node("agent", node(speak, is_async))
    graph.add_node("tool", node(speak, is_async))
    graph.add_edge(START, "agent")
    graph.add_edge("tool", "agent")
    after_agent = lambda state: END if state["messages"][-1]["content"] == "done" else "tool"
    graph.add_conditional_edges("agent", after_agent, ["tool", END])
    return graph


GRAPHS = {
    "seq10": lambda is_async: chain(Chain, is_async),
    "fan100": fan,
    "react50": react,
    "wide100": lambda is_async: chain(Wide, is_async),
}
INPUTS = {
    "seq10": {"n": 0},
    "fan100": {"n": 0},
    "react50": {"messages": []},
    "wide100": {"n": 0, **WIDE},
}


def check(case, output):
    """Raises an error if the result is not the expected one."""
    if case == "react50":
        found, expected = len(output["messages"]), 101
    elif case == "fan100":
        found, expected = (output["n"], len(output["items"])), (100, 100)
    else:
        found, expected = (output["n"], len(output)), (10, len(INPUTS[case]))
    if found != expected:
        raise ValueError(f"{case} ended with {found}, expected {expected}")


class Bench:
    """A cell: the graph, its checkpointer, and the number of runs so far."""

    def __init__(self, case, saver, is_async, saver_object):
        self.case, self.saver, self.is_async = case, saver, is_async
        self.graph = GRAPHS[case](is_async)
        self.runs = 0
        self.stored = None
        self.open(saver_object)

    def open(self, saver_object):
        self.saver_object = saver_object
        self.compiled = self.graph.compile(checkpointer=saver_object)
        self.options = {"durability": "sync"} if saver_object else {}

    def config(self, run):
        return {"configurable": {"thread_id": f"t{run}"}, "recursion_limit": 1000}

    async def batch(self, runs):
        """Executes runs one after the other; returns CPU and wall time in seconds."""
        if self.saver == "memory" and self.runs:
            self.open(InMemorySaver())
        configs = [self.config(self.runs + i) for i in range(runs)]
        given = INPUTS[self.case]
        outputs = []
        cpu, wall = time.process_time(), time.perf_counter()
        for config in configs:
            if self.is_async:
                outputs.append(await self.compiled.ainvoke(given, config, **self.options))
            else:
                outputs.append(self.compiled.invoke(given, config, **self.options))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        self.runs += runs
        for output in outputs:
            check(self.case, output)
        if self.saver == "memory":
            self.stored = len(list(self.saver_object.list(configs[-1])))
        return cpu, wall

    async def measure(self, seconds):
        cpu, wall = await self.batch(1)
        done, batch = 1, 1
        while wall < seconds / 3:
            batch = max(1, min(BATCH_MAX, int(BATCH_SECONDS * done / wall)))
            _, more = await self.batch(batch)
            wall, done = wall + more, done + batch
        cpu = wall = 0.0
        first = self.runs
        while wall < seconds:
            more = await self.batch(batch)
            cpu, wall = cpu + more[0], wall + more[1]
        tasks = (self.runs - first) * TASKS[self.case]
        return {
            "cpu_us_per_task": cpu * 1e6 / tasks,
            "wall_us_per_task": wall * 1e6 / tasks,
            "runs": self.runs,
            "stored_per_run": self.stored,
        }


async def measured(case, saver, is_async, seconds, file):
    if not saver.startswith("sqlite"):
        saver_object = InMemorySaver() if saver == "memory" else None
        return await Bench(case, saver, is_async, saver_object).measure(seconds)
    synchronous = f"PRAGMA synchronous = {'FULL' if saver == 'sqlite-full' else 'NORMAL'}"
    if is_async:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with aiosqlite.connect(file) as connection:
            await connection.execute(synchronous)
            return await Bench(case, saver, True, AsyncSqliteSaver(connection)).measure(seconds)
    import sqlite3
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(file, check_same_thread=False)
    connection.execute(synchronous)
    return await Bench(case, saver, False, SqliteSaver(connection)).measure(seconds)


def main():
    case, saver, runtime, seconds, file = sys.argv[1:]
    is_async = runtime == "current"
    print(json.dumps(asyncio.run(measured(case, saver, is_async, float(seconds), file))))


main()
