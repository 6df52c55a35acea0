"""Tests of an agent with a scripted model: approvals, retries, time limits.

pytest tests.py
"""

import asyncio
from typing import Annotated, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy

from scripted import ScriptedModel, call

CONFIG = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def shop(paid: list[int]):
    def refund(order: str, euros: int) -> str:
        """Refunds an order."""
        paid.append(euros)
        return f"refunded {euros}"

    model = ScriptedModel(steps=[call("refund", order="A1", euros=90), "It is done."])
    agent = create_agent(
        model,
        [refund],
        middleware=[HumanInTheLoopMiddleware({"refund": True})],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": ["Refund A1."]}, CONFIG)
    return agent


def decide(agent, decision: dict) -> str:
    ended = agent.invoke(Command(resume={"decisions": [decision]}), CONFIG)
    return ended["messages"][-2].text


def test_the_question_names_tool_and_arguments(shop, paid):
    [question] = shop.get_state(CONFIG).interrupts
    [action] = question.value["action_requests"]
    assert action["name"] == "refund"
    assert action["args"] == {"order": "A1", "euros": 90}
    assert paid == []


def test_an_approved_call_is_made_once(shop, paid):
    assert decide(shop, {"type": "approve"}) == "refunded 90"
    assert paid == [90]


def test_a_rejected_call_is_not_made(shop, paid):
    assert "too much" in decide(shop, {"type": "reject", "message": "too much"})
    assert paid == []


def test_an_edited_call_has_the_new_arguments(shop, paid):
    action = {"name": "refund", "args": {"order": "A1", "euros": 50}}
    assert "refunded 50" in decide(shop, {"type": "edit", "edited_action": action})
    assert paid == [50]


def test_a_model_is_called_again_after_a_failure():
    model = ScriptedModel(steps=[ConnectionError("busy"), "Hello."])
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0)
    agent = create_agent(model, middleware=[retry])
    ended = agent.invoke({"messages": ["Hi."]})
    assert ended["messages"][-1].text == "Hello."
    assert model.calls == 2


def test_a_failed_tool_is_called_again():
    calls = []

    def look_up(order: str) -> str:
        """Looks up an order."""
        calls.append(order)
        if len(calls) < 3:
            raise ConnectionError("busy")
        return "paid"

    model = ScriptedModel(steps=[call("look_up", order="A1"), "It is paid."])
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0)
    agent = create_agent(model, [look_up], middleware=[retry])
    ended = agent.invoke({"messages": ["Is A1 paid?"]})
    assert ended["messages"][-2].text == "paid"
    assert calls == ["A1"] * 3


def test_an_agent_stops_at_its_budget():
    def search(query: str) -> str:
        """Searches."""
        return "nothing"

    model = ScriptedModel(steps=[call("search", query="it") for _ in range(9)])
    limit = ModelCallLimitMiddleware(run_limit=3)
    agent = create_agent(model, [search], middleware=[limit])
    ended = agent.invoke({"messages": ["Find it."]})
    assert "limit" in ended["messages"][-1].text
    assert model.calls == 3


class Log(TypedDict):
    log: Annotated[list[str], lambda log, lines: log + lines]


def test_a_node_is_repeated():
    attempts = []

    def flaky(log: Log) -> dict:
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionError("busy")
        return {"log": [f"attempt {len(attempts)}"]}

    graph = StateGraph(Log)
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False)
    graph.add_node("flaky", flaky, retry_policy=policy)
    graph.add_edge(START, "flaky")
    assert graph.compile().invoke({"log": []}) == {"log": ["attempt 3"]}


async def test_a_node_that_hangs_is_cut_off():
    async def stuck(log: Log) -> None:
        await asyncio.sleep(3600)

    graph = StateGraph(Log)
    graph.add_node("stuck", stuck, timeout=0.01)
    graph.add_edge(START, "stuck")
    with pytest.raises(NodeTimeoutError, match="stuck"):
        await graph.compile().ainvoke({"log": []})
