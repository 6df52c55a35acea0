"""Graphs that `langgraph dev` serves: those of the reference server, as LangGraph has them."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class Echo(TypedDict, total=False):
    msg: str
    out: str
    n: int


class Inter(TypedDict, total=False):
    q: str
    answer: str
    note: str


class Slow(TypedDict, total=False):
    log: Annotated[list, operator.add]
    steps: int
    delay: float


def built(state, nodes, *edges):
    graph = StateGraph(state)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for edge in zip([START, *nodes], [*nodes, END]):
        graph.add_edge(*edge)
    return graph.compile()


def say(state):
    return {"out": f"echo:{state['msg']}", "n": state.get("n", 0) + 1}


def pre(state):
    return {"msg": f"pre-{state['msg']}"}


def ask(state):
    return {"answer": interrupt({"question": "approve?", "q": state["q"]})}


def done(state):
    return {"note": f"done:{state['answer']}"}


async def step(state):
    number = len(state.get("log", []))
    get_stream_writer()({"progress": number})
    await asyncio.sleep(state.get("delay", 0.5))
    return {"log": [f"step{number}"]}


def again(state):
    return "slow" if len(state["log"]) < state.get("steps", 3) else END


parent = built(Echo, {"pre": pre, "sub": built(Echo, {"echo": say})})
inter = built(Inter, {"ask": ask, "done": done})
slow = StateGraph(Slow).add_node("slow", step).add_edge(START, "slow").add_conditional_edges("slow", again).compile()
