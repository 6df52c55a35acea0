"""A supervisor with two workers, a refund that needs an approval, and SQLite.

    team_with_policy_and_store.py DB say THREAD TEXT
    team_with_policy_and_store.py DB questions THREAD
    team_with_policy_and_store.py DB approve THREAD
    team_with_policy_and_store.py DB reject THREAD REASON

Each command is a process of its own; `say` may be killed while it waits.
"""

import sys

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from langgraph_supervisor import create_supervisor

from scripted import ScriptedModel, call


def look_up_order(order: str) -> str:
    """Looks up where an order is."""
    return f"order {order} arrives tomorrow"


def refund_order(order: str, euros: int) -> str:
    """Refunds an order."""
    return f"refunded {euros} euros for order {order}"


def lead(messages: list[BaseMessage]):
    if messages[-1].type == "human":
        refund = messages[-1].text.startswith("Refund")
        return call("transfer_to_refunds" if refund else "transfer_to_orders")
    said = [message for message in messages if message.name in ("orders", "refunds")]
    return f"Done: {said[-2].text}"


def orders(messages: list[BaseMessage]):
    if messages[-1].name == "look_up_order":
        return messages[-1].text
    return call("look_up_order", order="A1")


def refunds(messages: list[BaseMessage]):
    if messages[-1].name == "refund_order":
        return messages[-1].text
    asked = next(message for message in reversed(messages) if message.type == "human")
    return call("refund_order", order="A1", euros=int(asked.text.split()[-1]))


def build_team(saver: SqliteSaver):
    approval = {
        "allowed_decisions": ["approve", "edit", "reject"],
        "description": "it moves money",
        "when": lambda request: request.tool_call["args"]["euros"] > 50,
    }
    members = [
        create_agent(
            ScriptedModel(reply=orders),
            [look_up_order],
            system_prompt="You look up where an order is.",
            name="orders",
        ),
        create_agent(
            ScriptedModel(reply=refunds),
            [refund_order],
            system_prompt="You refund orders.",
            middleware=[HumanInTheLoopMiddleware({"refund_order": approval})],
            name="refunds",
        ),
    ]
    team = create_supervisor(
        members,
        model=ScriptedModel(reply=lead),
        prompt="Hand each request to the member whose work it is.",
    )
    return team.compile(checkpointer=saver)


def show(team, config) -> None:
    state = team.get_state(config)
    for question in state.interrupts:
        for action in question.value["action_requests"]:
            print(f"approve {action['name']} {action['args']}? {action['description']}")
    if not state.interrupts:
        print(state.values["messages"][-1].text)


def main() -> None:
    database, command, thread, *words = sys.argv[1:]
    config = {"configurable": {"thread_id": thread}}
    with SqliteSaver.from_conn_string(database) as saver:
        team = build_team(saver)
        if command == "say":
            text = " ".join(words)
            team.invoke({"messages": [{"role": "user", "content": text}]}, config)
        elif command == "approve":
            decisions = [{"type": "approve"}]
            team.invoke(Command(resume={"decisions": decisions}), config)
        elif command == "reject":
            decisions = [{"type": "reject", "message": " ".join(words)}]
            team.invoke(Command(resume={"decisions": decisions}), config)
        show(team, config)


if __name__ == "__main__":
    main()
