"""The programs of `docs/guide/clients.md`, against the reference server instead of the address that
they name. Each has at most 15 lines."""

import asyncio
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import httpx

from harness import case, equal, node

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "clients.md"
ADDRESS = "http://127.0.0.1:8123"
LINES_MAX = 15


def programs(server):
    """The programs with the address of the server, by the number of their kind: `ts` includes `tsx`."""
    found = {}
    for kind, program in re.findall(r"^```(\w+) run\n(.*?)^```$", GUIDE.read_text(), re.M | re.S):
        assert len(program.splitlines()) <= LINES_MAX, program
        assert ADDRESS in program, program
        found.setdefault(kind[:2], []).append(program.replace(ADDRESS, server.url))
    return found


@case
async def programs_of_the_guide_for_front_ends_run(_, server):
    found = programs(server)
    ui, sdk, stream = found["ts"]
    [adapter] = found["js"]
    folder = Path(os.environ["WEFT_CLIENTS"])
    for name, program in [("ui", ui), ("sdk", sdk), ("stream", stream), ("adapter", adapter)]:
        esbuild = [folder / "node_modules/@esbuild/linux-x64/bin/esbuild", "--loader=tsx", "--jsx=automatic"]
        built = subprocess.run(esbuild, input=program, check=True, capture_output=True, text=True)
        (folder / f"guide_{name}.built.mjs").write_text(built.stdout)
    await node("guide.mjs", server.url)


async def output(command, **env):
    """Runs a command that succeeds; returns what it prints."""
    env = {**os.environ, **env}
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=subprocess.PIPE)
    printed, _ = await process.communicate()
    equal(process.returncode, 0)
    return printed.decode()


@case
async def programs_of_the_guide_for_python_and_the_shell_run(_, server):
    found = programs(server)
    [python], [shell] = found["py"], found["sh"]
    assert "wall lamp" in await output([sys.executable, "-c", python])
    async with httpx.AsyncClient(base_url=server.url) as http:
        thread = str(uuid.uuid4())
        said = [{"role": "user", "content": "Refund order A1002, amount 40."}]
        await http.post("/chat/desk", json={"threadId": thread, "messages": said})
        asked = next(one for one in (await http.get("/interrupts")).json() if one["thread_id"] == thread)
        printed = await output(["bash", "-euo", "pipefail", "-c", shell], ID=asked["id"])
        assert f'"id":"{asked["id"]}"' in printed, printed
        run = re.findall(r'"run_id":"([^"]+)"', printed)[-1]
        values = (await http.get(f"/threads/{thread}/runs/{run}/join")).json()
        assert "refunded 5" in json.dumps(values), values
