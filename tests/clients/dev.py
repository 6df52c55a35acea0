"""Graphs of `langgraph dev` as nodes of our graphs, compared with `RemoteGraph` as a node of LangGraph's."""

import uuid
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client

from harness import Server, case, equal, until

MODES = ["values", "updates", "custom"]


def wanted(store, words):
    """Returns true if a test of this file is."""
    names = [f"{store} dev {name}" for name in case.all if name.startswith("dev.")]
    return not words or any(word in name for name in names for word in words)


class Outer(TypedDict, total=False):
    msg: str
    out: str
    n: int
    q: str
    answer: str
    note: str
    after: str


def around(url, name):
    """A graph of LangGraph with the node `remote`."""
    outer = StateGraph(Outer)
    outer.add_node("remote", RemoteGraph(name, url=url))
    outer.add_node("after", lambda state: {"after": f"after {state.get('note') or state.get('out')}"})
    outer.add_edge(START, "remote")
    outer.add_edge("remote", "after")
    outer.add_edge("after", END)
    return outer.compile(checkpointer=InMemorySaver())


def masked(namespace, mode, data):
    """A frame without ids of tasks."""
    return [part.split(":")[0] for part in namespace], mode, data


def inside(frames):
    """The frames of the node `remote` and of what is in it."""
    return [frame for frame in frames if frame[0][:1] == ["remote"]]


async def ours(client, thread, graph, **how):
    """The frames of a run of ours."""
    frames = []
    options = {"stream_mode": MODES, "stream_subgraphs": True, "stream_resumable": True}
    async for part in client.runs.stream(thread["thread_id"], graph, **how, **options):
        mode, *namespace = part.event.split("|")
        assert mode != "error", part
        if mode in MODES:
            frames.append(masked(namespace, mode, part.data))
    return frames


async def theirs(url, name, value):
    config = {"configurable": {"thread_id": str(uuid.uuid4())}}
    frames = around(url, name).astream(value, config, stream_mode=MODES, subgraphs=True)
    return [masked(*frame) async for frame in frames]


async def runs_of(other, graph):
    """The runs of a graph at the other server."""
    client, runs = get_client(url=other.url), []
    for thread in await client.threads.search(limit=1000, metadata={"graph_id": graph}):
        runs += await client.runs.list(thread["thread_id"], limit=100)
    return runs


def plain(value):
    """A value without the ids of questions."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items() if name not in ("id", "response_schema")}
    return [plain(item) for item in value] if isinstance(value, list) else value


@case
async def frames_are_those_of_remote_graph(place, other):
    with Server(place, remote=other.url) as server:
        client = get_client(url=server.url)
        found = await ours(client, await client.threads.create(), "remote_parent", input={"msg": "a"})
        expected = inside(await theirs(other.url, "parent", {"msg": "a"}))
        assert any(frame[0] == ["remote", "sub"] for frame in expected), expected
        equal(inside(found), expected)
        equal(found[-1], ([], "values", {"msg": "pre-a", "out": "echo:pre-a", "n": 1, "after": "after echo:pre-a"}))


@case
async def a_question_is_asked_and_answered_through_us(place, other):
    with Server(place, remote=other.url) as server:
        client = get_client(url=server.url)
        thread = await client.threads.create()
        found = await ours(client, thread, "remote_inter", input={"q": "x"})
        equal(plain(inside(found)), plain(inside(await theirs(other.url, "inter", {"q": "x"}))))
        state = await client.threads.get_state(thread["thread_id"])
        (task,) = state["tasks"]
        equal((task["name"], task["interrupts"][0]["value"]), ("remote", {"question": "approve?", "q": "x"}))
        before = len(await runs_of(other, "inter"))
        ended = await client.runs.wait(thread["thread_id"], "remote_inter", command={"resume": "yes"})
        equal((ended["note"], ended["after"]), ("done:yes", "after done:yes"))
        equal(len(await runs_of(other, "inter")), before + 1)


@case
async def a_killed_process_joins_the_run_it_started(place, other):
    before = len(await runs_of(other, "slow"))
    with Server(place, remote=other.url) as server:
        client = get_client(url=server.url)
        thread = (await client.threads.create())["thread_id"]
        value = {"steps": 6, "delay": 0.5}
        run = await client.runs.create(thread, "remote_slow", input=value)

        async def started():
            return len(await runs_of(other, "slow")) > before

        await until(started)
        server.kill()
        server.start()

        async def ended():
            found = await client.runs.get(thread, run["run_id"])
            assert found["status"] != "error", found
            return found["status"] == "success"

        await until(ended, 40)
        state = await client.threads.get_state(thread)
        equal(state["values"]["log"], [f"step{number}" for number in range(6)])
        equal(len(await runs_of(other, "slow")), before + 1)


@case
async def a_cancelled_run_is_cancelled_there(place, other):
    before = {run["run_id"] for run in await runs_of(other, "slow")}
    with Server(place, remote=other.url) as server:
        client = get_client(url=server.url)
        thread = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread, "remote_slow", input={"steps": 100, "delay": 0.5})

        async def new():
            return [run for run in await runs_of(other, "slow") if run["run_id"] not in before]

        async def running():
            return [run for run in await new() if run["status"] == "running"]

        async def cancelled():
            (found,) = await new()
            return found["status"] == "interrupted"

        await until(running)
        await client.runs.cancel(thread, run["run_id"], wait=True)
        await until(cancelled)
