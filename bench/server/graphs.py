"""The graph `echo` of the reference server, for `langgraph dev`."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    msg: str
    out: str
    n: int


def node(state: State):
    return {"out": "echo:" + state.get("msg", ""), "n": state.get("n", 0) + 1}


graph = StateGraph(State)
graph.add_node("echo", node)
graph.add_edge(START, "echo")
graph.add_edge("echo", END)
echo = graph.compile()
