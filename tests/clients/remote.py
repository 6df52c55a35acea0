"""`RemoteGraph` of LangGraph, alone and as a node of a graph."""

from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command, interrupt

from harness import case, equal


def at(thread):
    return {"configurable": {"thread_id": thread["thread_id"]}}


@case
async def a_graph_is_invoked_and_streamed_with_its_subgraphs(client, server):
    graph = RemoteGraph("parent", url=server.url)
    equal((await graph.ainvoke({"msg": "a"}))["out"], "echo:pre-a")
    equal(graph.invoke({"msg": "b"})["out"], "echo:pre-b")
    config = at(await client.threads.create())
    parts = [part async for part in graph.astream({"msg": "a"}, config, stream_mode="updates", subgraphs=True)]
    equal(parts[0], ((), {"pre": {"msg": "pre-a"}}))
    namespace, update = parts[1]
    equal(([name.split(":")[0] for name in namespace], update), (["sub"], {"echo": {"out": "echo:pre-a", "n": 1}}))
    equal((parts[2][0], list(parts[2][1])), ((), ["sub"]))
    parts = list(graph.stream({"msg": "b"}, config, stream_mode=["values", "updates"]))
    equal(parts[-1][0], "values")
    equal(parts[-1][1]["out"], "echo:pre-b")


@case
async def a_graph_is_drawn(_, server):
    drawn = await RemoteGraph("parent", url=server.url).aget_graph(xray=True)
    assert any("echo" in name for name in drawn.nodes), drawn
    equal({"pre", "sub"} <= set((await RemoteGraph("parent", url=server.url).aget_graph()).nodes), True)


@case
async def a_state_is_read_changed_and_continued(client, server):
    graph = RemoteGraph("echo", url=server.url)
    config = at(await client.threads.create())
    await graph.ainvoke({"msg": "a"}, config)
    state = await graph.aget_state(config)
    equal((state.values["out"], state.next), ("echo:a", ()))
    after = await graph.aupdate_state(config, {"n": 7}, as_node="echo")
    equal((await graph.aget_state(after)).values["n"], 7)
    equal((await graph.ainvoke({"msg": "b"}, config))["n"], 8)
    history = [state async for state in graph.aget_state_history(config)]
    equal([state.values.get("n") for state in history if not state.next], [8, 7, 1])
    old = [state for state in history if not state.next][-1]
    equal((await graph.aget_state(old.config)).values["n"], 1)


@case
async def a_question_is_answered(client, server):
    graph = RemoteGraph("inter", url=server.url)
    config = at(await client.threads.create())
    asked = await graph.ainvoke({"q": "x"}, config)
    assert "__interrupt__" in asked or "note" not in asked, asked
    state = await graph.aget_state(config)
    equal(state.next, ("ask",))
    equal(state.tasks[0].interrupts[0].value, {"question": "approve?", "q": "x"})
    equal((await graph.ainvoke(Command(resume="yes"), config))["note"], "done:yes")


class Outer(TypedDict, total=False):
    q: str
    answer: str
    note: str
    after: str


def around(node):
    """A local graph with a node between its start and `after`."""
    outer = StateGraph(Outer)
    outer.add_node("remote", node)
    outer.add_node("after", lambda state: {"after": f"after {state['note']}"})
    outer.add_edge(START, "remote")
    outer.add_edge("remote", "after")
    outer.add_edge("after", END)
    return outer.compile(checkpointer=InMemorySaver())


@case
async def a_graph_is_a_node_of_a_local_graph(client, server):
    outer = around(RemoteGraph("inter", url=server.url))
    config = at(await client.threads.create())
    asked = await outer.ainvoke({"q": "x"}, config)
    equal([found.value for found in asked["__interrupt__"]], [{"question": "approve?", "q": "x"}])
    equal((await outer.aget_state(config)).next, ("remote",))


@case
async def a_question_inside_a_node_of_a_local_graph_is_answered(client, server):
    graph = RemoteGraph("inter", url=server.url)
    config = at(await client.threads.create())

    # LangGraph does not pass answers of the outer graph to a remote one by itself.
    async def node(state):
        await graph.ainvoke({"q": state["q"]}, config)
        (task,) = (await graph.aget_state(config)).tasks
        answer = interrupt(task.interrupts[0].value)
        return await graph.ainvoke(Command(resume=answer), config)

    outer, local = around(node), {"configurable": {"thread_id": "local"}}
    asked = await outer.ainvoke({"q": "x"}, local)
    equal([found.value for found in asked["__interrupt__"]], [{"question": "approve?", "q": "x"}])
    equal((await outer.ainvoke(Command(resume="yes"), local))["after"], "after done:yes")
