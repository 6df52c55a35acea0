"""Runs the tests of the clients; `run.py` starts it with the pinned clients installed."""

import asyncio
import os
import sys
import time
import traceback

from langgraph_sdk import get_client, get_sync_client

import ag_ui_agents
import chat
import definitions
import dev
import faults
import front_ends
import guide
import javascript
import killed
import openai_sdk
import reconnect
import remote
import sdk
import sdk_suite
import thread_streams
import unreadable
from harness import SEED, Definitions, Dev, Server, case, report

# Longest time of a test in seconds.
LIMIT = 60


class Total:
    """Numbers of tests by result."""

    def __init__(self, words):
        self.words = words
        self.passed = self.failed = 0

    def wants(self, module):
        """Whether a test of a module is wanted."""
        names = [name for name in case.all if name.startswith(f"{module.__name__}.")]
        return not self.words or any(word in name for word in self.words for name in names)

    async def run(self, name, test):
        """Runs a test if it is wanted, and reports its result."""
        if self.words and not any(word in name for word in self.words):
            return
        begin = time.monotonic()
        problem, said = None, ""
        try:
            said = await asyncio.wait_for(test(), LIMIT)
        except Exception as error:
            problem = error
            traceback.print_exception(error)
        self.passed += problem is None
        self.failed += problem is not None
        report(name, problem, time.monotonic() - begin, f": {said}" if said else "")


async def of(module, server, total, store, clients):
    """Runs the tests of a module with each client."""
    for name, test in case.all.items():
        if name.startswith(f"{module.__name__}."):
            for kind, client in clients.items():
                await total.run(f"{store} {kind} {name}", lambda: test(client, server))


async def main(words):
    if words[:1] == ["--sdk-suite"]:
        return sdk_suite.main()
    is_chat = words[:1] == ["--chat"]
    total = Total(words[1:] if is_chat else words)
    if is_chat:
        with Server() as server:
            await of(chat, server, total, "sqlite", {"js": None})
            await of(guide, server, total, "sqlite", {"guide": None})
        await of(killed, None, total, "sqlite", {"all": None})
        return end(total)
    stores = {"sqlite": None}
    # Postgres has a smaller dose: one client, and two kills.
    if "WEFT_TEST_POSTGRES" in os.environ:
        stores["postgres"] = os.environ["WEFT_TEST_POSTGRES"]
    print(f"seed {SEED}; repeat with WEFT_SEED={SEED}")
    for store, place in stores.items():
        with Server(place) as server:
            python = {"async": get_client(url=server.url, timeout=LIMIT), "sync": get_sync_client(url=server.url, timeout=LIMIT)}
            if store == "postgres":
                del python["sync"]
            await of(sdk, server, total, store, python)
            await of(remote, server, total, store, {"remote": python["async"]})
            await of(thread_streams, server, total, store, {"python": python["async"]})
            await of(javascript, server, total, store, {"js": None})
            if store == "sqlite":
                await of(front_ends, server, total, store, {"js": None})
            await of(reconnect, server, total, store, {"readers": None})
            assert server.process.poll() is None, "the server ended"
        await of(faults, place, total, store, {"faults": None})
        if store == "sqlite":
            await of(unreadable, None, total, store, {"all": None})
        if store == "sqlite" and total.wants(definitions):
            with Definitions(definitions.AGENT) as server:
                python = {"async": get_client(url=server.url, timeout=LIMIT), "sync": get_sync_client(url=server.url, timeout=LIMIT)}
                await of(definitions, server, total, store, {**python, "js": None})
        if store == "sqlite" and total.wants(openai_sdk):
            with openai_sdk.Exposed() as server:
                await of(openai_sdk, server, total, store, {"exposed": None})
        if store == "sqlite" and total.wants(ag_ui_agents):
            with ag_ui_agents.Agents() as server:
                await of(ag_ui_agents, server, total, store, {"exposed": None})
        if dev.wanted(store, total.words):
            with Dev() as other:
                await of(dev, other, total, store, {"dev": place})
    return end(total)


def end(total):
    """Prints the numbers of tests; returns the exit status."""
    word = "ok" if total.failed == 0 else "FAILED"
    print(f"test result: {word}. {total.passed} passed; {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
