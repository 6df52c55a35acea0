"""Threads that this build cannot read, among a hundred others: each costs itself alone in every client."""

import json
import sqlite3
from pathlib import Path
from urllib.parse import quote

import httpx
from langgraph_sdk import get_client

from harness import Server, case, equal, node, until

READABLE = 100
# The kinds of `weftwork-server`'s own test, of two builds of one program.
KINDS = json.loads((Path(__file__).resolve().parents[2] / "examples/reference_server/changed.json").read_text())
# What is written over rows of a chat that waits at a question: valid for the file, not for this build. The rows of
# `left` are read by workers: one must not keep the others from being taken over and woken.
STATEMENTS = json.loads((Path(__file__).resolve().parents[1] / "damages.json").read_text())
DAMAGES = STATEMENTS["damages"]
LEFT = STATEMENTS["left"]


def changed(kind):
    """Returns the id of a thread of a kind of changed graphs."""
    return f"changed/{kind['name']}"


async def ask(http, thread):
    """Begins a chat that waits at a question."""
    said = {"threadId": thread, "messages": [{"role": "user", "content": "Refund order A1002, amount 40."}]}
    equal((await http.post("/chat/desk", json=said)).status_code, 200)


async def write(server):
    """Writes the threads with the earlier build, ends it with kill -9, and damages rows of the file."""
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        client = get_client(url=server.url)
        for number in range(READABLE - 1):
            run = {"input": {"msg": f"{number}"}, "if_not_exists": "create"}
            await client.runs.wait(f"good {number}", "echo", **run)
        await ask(http, "good chat")
        for name in [*DAMAGES, *LEFT]:
            await ask(http, name)
        for kind in KINDS:
            for graph in kind["graphs"]:
                run = {"assistant_id": graph.split(":")[-1], "input": {}, "if_not_exists": "create"}
                way = "runs" if graph == "hangs" else "runs/wait"
                answer = await http.post(f"/threads/{quote(changed(kind), safe='')}/{way}", json=run)
                equal(answer.status_code, 200)
        # A thread that is due after the restart, beside those that cannot be read.
        await client.runs.create("slow one", "slow", input={"steps": 30, "delay": 0.1}, if_not_exists="create")
    server.kill()
    with sqlite3.connect(server.store.removeprefix("sqlite:")) as store:
        for name, sql in {**DAMAGES, **LEFT}.items():
            assert store.execute(sql, {"id": name}).rowcount > 0, name


async def read(server):
    """Reads all threads with the SDK; returns the number of those with an error."""
    client = get_client(url=server.url)
    all_ = READABLE + len(DAMAGES) + len(LEFT) + len(KINDS) + 1
    found = {row["thread_id"]: row for row in await client.threads.search(limit=1_000)}
    equal((len(found), await client.threads.count()), (all_, all_))
    errors = {name for name, row in found.items() if row.get("error") and row["status"] != "error"}
    for name in [*DAMAGES, *LEFT]:
        assert name in errors, (name, found[name])
    for number in range(READABLE - 1):
        equal(found[f"good {number}"]["values"]["out"], f"echo:{number}")
    for kind in KINDS:
        said = str(found[changed(kind)].get("error"))
        # Rows of this kind are damaged by the test of the server alone.
        if kind["error"] and "damaged" not in kind["error"]:
            assert kind["error"] in said, (kind["name"], said)
    for name in errors:
        equal((await client.threads.get(name))["error"]["error"], found[name]["error"]["error"])
    return len(errors)


@case
async def threads_that_cannot_be_read_cost_themselves_alone(_, __):
    with Server(graphs="before") as server:
        await write(server)
        server.graphs = ["--graphs", "now"]
        server.start()
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            count = await read(server)

            async def ended():
                return (await http.get("/threads/slow%20one")).json()["status"] == "idle"

            await until(ended)
            open_ = [one["thread_id"] for one in (await http.get("/interrupts")).json()]
            assert "good chat" in open_, open_
            lines = await node("unreadable.mjs", server.url, json.dumps([*DAMAGES, *LEFT]))
            for name in DAMAGES:
                equal((name, (await http.delete(f"/threads/{quote(name)}")).status_code), (name, 204))
        return f"{count} with an error; {lines[-1]}"
