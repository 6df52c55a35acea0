"""A writer and a critic: the draft is revised until it is accepted, at most three times.

loop_with_condition.py TOPIC
"""

import operator
import sys
from typing import Annotated, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

from scripted import ScriptedModel

WRITER = ScriptedModel(
    steps=["Rust is fast.", "Rust is fast and safe.", "Rust is fast, safe and small."]
)
CRITIC = ScriptedModel(
    steps=[
        '{"accepted": false, "reason": "say that it is safe"}',
        '{"accepted": false, "reason": "say that it is small"}',
        '{"accepted": true, "reason": "good"}',
    ]
)


class Verdict(BaseModel):
    accepted: bool
    reason: str


class Draft(TypedDict):
    topic: str
    text: str
    rounds: Annotated[int, operator.add]
    verdict: Verdict
    log: Annotated[list[str], operator.add]


def write(draft: Draft) -> dict:
    prompt = f"Write a sentence about {draft['topic']}."
    if verdict := draft.get("verdict"):
        prompt += f" The last one was `{draft['text']}`; {verdict.reason}."
    text = WRITER.invoke(prompt).text
    return {"text": text, "rounds": 1, "log": [f"draft: {text}"]}


def judge(draft: Draft) -> dict:
    answer = CRITIC.invoke(f"Is this good? {draft['text']}").text
    verdict = Verdict.model_validate_json(answer)
    return {"verdict": verdict, "log": [f"verdict: {verdict.reason}"]}


def after_judge(draft: Draft) -> Literal["write", "__end__"]:
    if draft["verdict"].accepted or draft["rounds"] == 3:
        return END
    return "write"


def build_loop():
    graph = StateGraph(Draft)
    graph.add_node(write)
    graph.add_node(judge)
    graph.add_edge(START, "write")
    graph.add_edge("write", "judge")
    graph.add_conditional_edges("judge", after_judge)
    return graph.compile()


def main() -> None:
    draft = build_loop().invoke({"topic": sys.argv[1]})
    print("\n".join(draft["log"]))
    print(f"{draft['rounds']} rounds: {draft['text']}")


if __name__ == "__main__":
    main()
