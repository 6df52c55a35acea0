"""A web service with an agent: messages, a stream that resumes, approvals.

    web_service.py DB

    POST /threads/ID/messages   {"text": ...}: starts a run
    GET  /threads/ID/stream     events of the newest run, from `Last-Event-ID` on
    GET  /threads/ID/questions  open approvals
    POST /threads/ID/answer     {"approved": true or false}: starts a run

It prints its port. A client that reconnects gets each event once.
"""

import asyncio
import json
import socket
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from pydantic import BaseModel

from scripted import ScriptedModel, call


def refund_order(order: str, euros: int) -> str:
    """Refunds an order."""
    return f"refunded {euros} euros for order {order}"


def model(messages: list[BaseMessage]):
    if messages[-1].type == "tool":
        return f"Done: {messages[-1].text}"
    if messages[-1].text.startswith("Refund"):
        return call("refund_order", order="A1", euros=int(messages[-1].text.split()[1]))
    return "I refund orders, nothing else."


class Say(BaseModel):
    text: str


class Answer(BaseModel):
    approved: bool


class Log:
    """The events of the newest run of a thread."""

    def __init__(self) -> None:
        self.events: list[dict] = []
        self.changed = asyncio.Event()
        self.ended = False

    def add(self, event: dict) -> None:
        self.events.append(event)
        self.ended = event["type"] == "end"
        self.changed.set()
        self.changed = asyncio.Event()

    async def follow(self, place: int) -> AsyncIterator[str]:
        while True:
            for event in self.events[place:]:
                place += 1
                yield f"id: {place}\ndata: {json.dumps(event)}\n\n"
            if self.ended:
                return
            await self.changed.wait()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncSqliteSaver.from_conn_string(sys.argv[1]) as saver:
        app.state.agent = create_agent(
            ScriptedModel(reply=model),
            [refund_order],
            middleware=[HumanInTheLoopMiddleware({"refund_order": True})],
            checkpointer=saver,
        )
        app.state.logs = defaultdict(Log)
        app.state.runs = {}
        yield


app = FastAPI(lifespan=lifespan)


def start(thread: str, given: dict | Command) -> None:
    run = app.state.runs.get(thread)
    if run and not run.done():
        raise HTTPException(409, "the thread has a run")
    log = app.state.logs[thread] = Log()

    async def execute() -> None:
        try:
            stream = app.state.agent.astream(
                given, config(thread), stream_mode=["messages", "updates"]
            )
            async for mode, part in stream:
                if mode == "messages":
                    message, _ = part
                    if isinstance(message, AIMessageChunk) and message.text:
                        log.add({"type": "text", "text": message.text})
                elif "__interrupt__" in part:
                    log.add({"type": "question"})
            log.add({"type": "end"})
        except Exception as error:
            log.add({"type": "end", "error": str(error)})

    app.state.runs[thread] = asyncio.create_task(execute())


def config(thread: str) -> dict:
    return {"configurable": {"thread_id": thread}}


@app.post("/threads/{thread}/messages", status_code=202)
async def say(thread: str, body: Say) -> None:
    start(thread, {"messages": [{"role": "user", "content": body.text}]})


@app.get("/threads/{thread}/stream")
async def stream(
    thread: str, last_event_id: Annotated[int, Header()] = 0
) -> StreamingResponse:
    if thread not in app.state.logs:
        raise HTTPException(404, "the thread has no run")
    events = app.state.logs[thread].follow(last_event_id)
    return StreamingResponse(events, media_type="text/event-stream")


@app.get("/threads/{thread}/questions")
async def questions(thread: str) -> list[dict]:
    state = await app.state.agent.aget_state(config(thread))
    return [
        {"tool": action["name"], "args": action["args"]}
        for question in state.interrupts
        for action in question.value["action_requests"]
    ]


@app.post("/threads/{thread}/answer", status_code=202)
async def answer(thread: str, body: Answer) -> None:
    state = await app.state.agent.aget_state(config(thread))
    if not state.interrupts:
        raise HTTPException(409, "no question is open")
    decision = {"type": "approve" if body.approved else "reject"}
    start(thread, Command(resume={"decisions": [decision]}))


async def main() -> None:
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        await server.serve([listener])


if __name__ == "__main__":
    asyncio.run(main())
