"""A server that is killed while five clients of four kinds show what an agent says."""

import asyncio
import json
import os
import subprocess
import uuid

import httpx
from langgraph_sdk import get_client

from harness import FULL, Server, case, equal, randoms, until

AGENT = "slow_desk"
QUESTION = "Where is order A1001? Where is order A1002? Where is order A1003?"
KINDS = ["classic", "newer", "aiSdk", "assistantUi", "python"]


class Page:
    """A client in a process of its own."""

    def __init__(self, kind, url, thread):
        self.command = ["killed.mjs", url, kind, thread, QUESTION]

    async def open(self):
        folder = os.environ["WEFT_CLIENTS"]
        self.process = await asyncio.create_subprocess_exec(
            f"{folder}/venv/bin/node", *self.command, cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        await self.line("ready")

    async def line(self, wanted):
        """Waits for a line, and fails with those before it if it does not come."""
        lines = []
        while line := (await self.process.stdout.readline()).decode().rstrip("\n"):
            lines.append(line)
            if line == wanted:
                return
        raise AssertionError("\n".join([f"{self.command} ended", *lines[-30:]]))

    async def speaks(self):
        self.process.stdin.write(b"go\n")
        await self.line("speaks")

    async def texts(self):
        lines = (await self.process.communicate())[0].decode().splitlines()
        assert self.process.returncode == 0, "\n".join([f"{self.command}", *lines[-30:]])
        return json.loads(lines[-1])


class Python:
    """The Python SDK, whose chunks the page joins."""

    def __init__(self, kind, url, thread):
        self.client, self.thread = get_client(url=url), thread
        self.shown, self.spoke = {}, asyncio.Event()

    async def open(self):
        await self.client.threads.create(thread_id=self.thread)

    async def read(self):
        said = {"messages": [{"role": "user", "content": QUESTION}]}
        modes = {"stream_mode": "messages-tuple", "stream_resumable": True}
        async for part in self.client.runs.stream(self.thread, AGENT, input=said, **modes):
            assert part.event != "error", part
            message = part.data[0] if part.event == "messages" else {}
            # A chunk follows those before it; a whole message replaces them.
            if message.get("type") == "AIMessageChunk":
                self.shown[message["id"]] = self.shown.get(message["id"], "") + message["content"]
            elif message.get("type") == "ai":
                self.shown[message["id"]] = message["content"]
            if any(self.shown.values()):
                self.spoke.set()

    async def speaks(self):
        self.reading = asyncio.ensure_future(self.read())
        waits = asyncio.ensure_future(self.spoke.wait())
        await asyncio.wait([self.reading, waits], return_when=asyncio.FIRST_COMPLETED)
        assert self.spoke.is_set(), "it said something"

    async def texts(self):
        await self.reading
        return [text for text in self.shown.values() if text]


async def stored(http, agent, thread):
    """The text of the stored message of a thread."""
    messages = (await http.get(f"/chat/{agent}/{thread}")).json()
    return "".join(part["text"] for part in messages[-1]["parts"] if part["type"] == "text")


async def round_(server, random):
    """Kills the server while all clients show words; returns what each shows at the end."""
    threads = {kind: str(uuid.uuid4()) for kind in KINDS}
    clients = {kind: (Python if kind == "python" else Page)(kind, server.url, threads[kind]) for kind in KINDS}
    await asyncio.gather(*(client.open() for client in clients.values()))
    await asyncio.gather(*(client.speaks() for client in clients.values()))
    await asyncio.sleep(random.uniform(0, 0.8))
    server.kill()
    await asyncio.to_thread(server.start)
    texts = await asyncio.gather(*(client.texts() for client in clients.values()))
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        for kind, thread in threads.items():
            state = (await http.get(f"/threads/{thread}")).json()
            equal((kind, state["status"]), (kind, "idle"))
        kept = [await stored(http, AGENT, thread) for thread in threads.values()]
    return dict(zip(KINDS, zip(texts, kept)))


@case
async def five_clients_of_a_killed_server_show_the_stored_message(_, __):
    random, rounds = randoms("killed"), 4 if FULL else 2
    with Server() as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            said = {"threadId": "whole", "messages": [{"role": "user", "content": QUESTION}]}
            await http.post("/chat/desk", json=said)
            whole = await stored(http, "desk", "whole")
        assert len(whole.split()) > 8, whole
        for _ in range(rounds):
            for kind, (shown, kept) in (await round_(server, random)).items():
                equal((kind, shown, kept), (kind, [whole], whole))
    return f"{len(KINDS)} clients, {rounds} kills"


async def answered(server, number, random):
    """Answers a question while the server is killed, and again after it; returns the second status."""
    thread = f"answered-{number}"
    said = [{"role": "user", "content": "Refund order A1002, amount 40."}]
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        await http.post(f"/chat/{AGENT}", json={"threadId": thread, "messages": said})
        question = next(one for one in (await http.get("/interrupts")).json() if one["thread_id"] == thread)
        path = f"/interrupts/{question['id']}/respond"
        answer = asyncio.ensure_future(http.post(path, json={"type": "approve"}))
        await asyncio.sleep(random.uniform(0, 0.02))
        server.kill()
        first = (await asyncio.gather(answer, return_exceptions=True))[0]
        await asyncio.to_thread(server.start)
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        second = (await http.post(path, json={"type": "approve"})).status_code
        if isinstance(first, httpx.Response):
            # An answer that a client was told of counts.
            equal((first.status_code, second), (202, 409))
        assert second in (202, 409), second

        async def ended():
            return (await http.get(f"/chat/{AGENT}/{thread}/stream")).status_code == 204

        await until(ended)
        messages = (await http.get(f"/chat/{AGENT}/{thread}")).json()
        calls = [part for part in messages[-1]["parts"] if part["type"] == "tool-refund_order"]
        equal([call["output"] for call in calls], ["refunded 40 for A1002"])
        assert (await stored(http, AGENT, thread)).count("refunded 40") == 1, messages
    return second


@case
async def a_question_that_is_answered_during_a_kill_is_answered_once(_, __):
    random, count = randoms("answered"), 12 if FULL else 6
    with Server() as server:
        found = [await answered(server, number, random) for number in range(count)]
    return f"{count} kills; the answer before the kill counted {found.count(409)} times"
