"""Splits a document, summarises its sections side by side, and writes the result.

document_pipeline.py FILE SUMMARY
"""

import operator
import sys
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send

from scripted import ScriptedModel


def first_sentence(messages: list[BaseMessage]) -> str:
    return messages[-1].text.split(".")[0].strip() + "."


MODEL = ScriptedModel(reply=first_sentence)


class Section(TypedDict):
    index: int
    title: str
    text: str


class Summary(TypedDict):
    index: int
    title: str
    summary: str


class Document(TypedDict):
    source: str
    target: str
    sections: list[Section]
    summaries: Annotated[list[Summary], operator.add]
    report: str


def split(document: Document) -> dict:
    sections = []
    for part in Path(document["source"]).read_text().split("# ")[1:]:
        title, _, text = part.partition("\n")
        section = Section(index=len(sections), title=title, text=text.strip())
        sections.append(section)
    return {"sections": sections}


def each_section(document: Document) -> list[Send]:
    return [Send("summarise", section) for section in document["sections"]]


def summarise(section: Section) -> dict:
    prompt = "Summarise the section in one sentence."
    answer = MODEL.invoke([("system", prompt), ("user", section["text"])])
    index, title = section["index"], section["title"]
    return {"summaries": [Summary(index=index, title=title, summary=answer.text)]}


def join(document: Document) -> dict:
    ordered = sorted(document["summaries"], key=lambda summary: summary["index"])
    lines = [f"{summary['title']}: {summary['summary']}" for summary in ordered]
    return {"report": "\n".join(lines) + "\n"}


def write(document: Document) -> None:
    Path(document["target"]).write_text(document["report"])


def build_pipeline():
    graph = StateGraph(Document)
    graph.add_node(split)
    graph.add_node(summarise, retry_policy=RetryPolicy(max_attempts=3))
    graph.add_node(join)
    graph.add_node(write)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", each_section, ["summarise"])
    graph.add_edge("summarise", "join")
    graph.add_edge("join", "write")
    graph.add_edge("write", END)
    return graph.compile()


def main() -> None:
    source, target = sys.argv[1:]
    document = build_pipeline().invoke({"source": source, "target": target})
    print(f"{len(document['sections'])} sections")
    print(document["report"], end="")


if __name__ == "__main__":
    main()
