"""Servers that are killed and stopped, connections that are cut, and clients that leave."""

import asyncio
import json
import time
import uuid

import httpx
from langgraph_sdk import get_client, get_sync_client

from harness import FULL, Proxy, Server, case, equal, items, node, randoms, until
from sdk import UPDATES

STEPS = 10
MODES = ["values", "updates"]


def expected(steps, delay):
    """The committed events of a run of `slow`."""
    events = [("values", {"log": [], "steps": steps, "delay": delay})]
    for step in range(steps):
        events.append(("updates", {"slow": {"log": [f"step{step}"]}}))
        log = [f"step{done}" for done in range(step + 1)]
        events.append(("values", {"log": log, "steps": steps, "delay": delay}))
    return events


async def follow(kind, url, thread, steps, delay, client=None):
    """Streams a run of `slow` with a client; returns the events of its modes."""
    value = {"steps": steps, "delay": delay}
    if kind == "js":
        lines = await node("stream.mjs", url, thread, "slow", json.dumps(value), json.dumps(MODES))
        events = [tuple(json.loads(line)) for line in lines if line.startswith("[")]
        return [event for event in events if event[0] in MODES]
    client = client or (get_client(url=url) if kind == "async" else get_sync_client(url=url))
    options = {"input": value, "stream_mode": MODES, "stream_resumable": True}
    parts = await items(client.runs.stream(thread, "slow", **options))
    equal([part for part in parts if part.event == "error"], [])
    return [(part.event, part.data) for part in parts if part.event in MODES]


async def kill(server, kind, random):
    """Kills the server while a client streams; returns the seconds until the run went on."""
    delay = 0.05
    client = get_client(url=server.url)
    thread = (await client.threads.create())["thread_id"]
    streaming = asyncio.ensure_future(follow(kind, server.url, thread, STEPS, delay))

    async def log():
        return len((await client.threads.get_state(thread))["values"].get("log", []))

    async def begun():
        return await log() >= 1

    await until(begun)
    await asyncio.sleep(random.uniform(0, STEPS * delay * 0.7))
    server.kill()
    await asyncio.to_thread(server.start)
    begin, before = time.monotonic(), await log()

    async def goes_on():
        return await log() > before or before == STEPS

    await until(goes_on)
    seconds = time.monotonic() - begin
    equal(await streaming, expected(STEPS, delay))
    equal(await log(), STEPS)
    return seconds


@case
async def a_client_that_streams_while_the_server_is_killed_gets_each_event_once(_, store):
    kinds, random = ["async", "sync", "js"], randoms("kill")

    async def on_one_server(first, count):
        with Server(store) as server:
            return [await kill(server, kinds[(first + n) % 3], random) for n in range(count)]

    servers, count = (4, 5) if store is None else (1, 2)
    waits = await asyncio.gather(*(on_one_server(first, count) for first in range(servers)))
    waits = sorted(sum(waits, []))
    if FULL and store is None:
        assert waits[-1] <= 1, waits
    return f"{len(waits)} kills; went on after {waits[len(waits) // 2]:.2f} s (median), {waits[-1]:.2f} s (longest)"


CHANNELS = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"]


async def thread_events(url, thread, since, count=None):
    """Reads events of a thread after a number, until the server is gone or the run has ended.

    With a count it stops after as many events, one of them a checkpoint: a run that ends three processes without a
    checkpoint is not begun again.
    """
    events, body = [], {"channels": CHANNELS} | ({} if since is None else {"since": since})
    try:
        async with httpx.AsyncClient(base_url=url) as http:
            async with http.stream("POST", f"/threads/{thread}/stream/events", json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        events.append(json.loads(line[6:]))
                        ended = events[-1]["params"]["data"].get("event") in ("completed", "failed")
                        got_on = any(event["method"] == "checkpoints" for event in events)
                        if ended or (count and len(events) >= count and got_on):
                            return events
    except httpx.TransportError:
        pass
    return events


@case
async def the_events_of_a_thread_continue_exactly_over_kills(_, store):
    if store is not None:
        return "sqlite only"
    random, kills = randoms("events"), 0
    with Server(store) as server:
        thread = str(uuid.UUID(int=random.getrandbits(128), version=4))
        start = {"assistant_id": "slow", "input": {"steps": STEPS, "delay": 0.1}}
        async with httpx.AsyncClient(base_url=server.url) as http:
            await http.post(f"/threads/{thread}/commands", json={"id": 1, "method": "run.start", "params": start})
        tape = []
        while not (tape and tape[-1]["params"]["data"].get("event") == "completed"):
            since = tape[-1]["seq"] if tape else None
            count = random.randint(2, 12) if kills < 5 else None
            tape += await thread_events(server.url, thread, since, count)
            if kills < 5:
                server.kill()
                await asyncio.to_thread(server.start)
                kills += 1
        whole = await thread_events(server.url, thread, 0)
        equal([event["event_id"] for event in tape], [event["event_id"] for event in whole])
        equal(tape, whole)
    return f"{len(tape)} events, {kills} kills"


@case
async def a_server_that_stops_under_64_streams_shows_no_client_an_error(_, store):
    with Server(store) as server:
        client = get_client(url=server.url)
        count, steps, delay = 64 if store is None else 8, 10, 0.8
        threads = [(await client.threads.create())["thread_id"] for _ in range(count)]
        streams = [
            asyncio.ensure_future(follow("async", server.url, thread, steps, delay, client))
            for thread in threads
        ]

        async def all_run():
            held = await asyncio.gather(*(client.threads.get(at) for at in threads))
            return all(row["status"] == "busy" for row in held)

        await until(all_run)
        await asyncio.to_thread(server.terminate)
        await asyncio.to_thread(server.start)
        for events in await asyncio.gather(*streams):
            equal(events, expected(steps, delay))
        return f"{count} streams"


@case
async def a_connection_that_is_cut_ends_right(_, store):
    seconds = 2 if FULL else 0.5
    steps, delay = 8, seconds * 0.5
    log = [f"step{n}" for n in range(steps)]
    with Server(store) as server:
        async with Proxy(server.address, seconds) as proxy:
            value = {"steps": steps, "delay": delay}

            async def stream(kind):
                thread = (await get_client(url=server.url).threads.create())["thread_id"]
                equal(await follow(kind, proxy.url, thread, steps, delay), expected(steps, delay))

            async def wait(client, thread):
                values = client.runs.wait(thread, "slow", input=value)
                equal((await values)["log"], log)

            async def join(client):
                direct = get_client(url=server.url)
                thread = (await direct.threads.create())["thread_id"]
                run = await direct.runs.create(thread, "slow", input=value)
                equal((await client.runs.join(thread, run["run_id"]))["log"], log)

            client, direct = get_client(url=proxy.url), get_client(url=server.url)
            thread = (await direct.threads.create())["thread_id"]
            tests = [stream("async"), stream("sync"), stream("js"), wait(client, thread), wait(client, None), join(client)]
            await asyncio.gather(*tests)
            assert proxy.cuts >= len(tests), proxy.cuts
            return f"{len(tests)} calls, {proxy.cuts} cuts"


async def leave(http, thread, random, **more):
    """Begins a stream and leaves it at a random point."""
    body = {"assistant_id": "slow", "input": {"steps": 5, "delay": 0.04}, "stream_mode": MODES, **more}
    seconds = random.uniform(0, 0.25)
    async with http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
        equal(response.status_code, 200)
        end = time.monotonic() + seconds
        async for _ in response.aiter_raw(chunk_size=16):
            if time.monotonic() > end:
                break


async def finished(client, thread):
    """Waits until the only run of a thread has ended; returns its status."""

    async def ended():
        status = (await client.runs.list(thread))[0]["status"]
        return status if status not in ("pending", "running") else None

    return await until(ended)


@case
async def a_client_that_leaves_does_not_change_the_run(_, store):
    count, random = 100 if store is None else 10, randoms("leave")
    with Server(store) as server:
        client = get_client(url=server.url)
        async with httpx.AsyncClient(base_url=server.url) as http:

            async def one():
                thread = (await client.threads.create())["thread_id"]
                await leave(http, thread, random)
                equal(await finished(client, thread), "success")
                state = await client.threads.get_state(thread)
                equal(state["values"]["log"], [f"step{n}" for n in range(5)])
                equal(len(await client.threads.get_history(thread, limit=50)), 7)

            for _ in range(count // 10):
                await asyncio.gather(*(one() for _ in range(10)))
    return f"{count} clients"


@case
async def a_client_that_leaves_cancels_its_run_if_it_asked_for_that(_, store):
    random, stopped, count = randoms("cancel"), 0, 20
    with Server(store) as server:
        client = get_client(url=server.url)
        async with httpx.AsyncClient(base_url=server.url) as http:
            for _ in range(count):
                thread = (await client.threads.create())["thread_id"]
                value = {"steps": 100, "delay": 0.04}
                await leave(http, thread, random, on_disconnect="cancel", input=value)
                status = await finished(client, thread)
                equal(status, "interrupted")
                log = (await client.threads.get_state(thread))["values"].get("log", [])
                equal([{"slow": {"log": [step]}} for step in log], UPDATES[: len(log)])
                stopped += 1
    return f"{stopped} of {count} runs stopped"
