"""Servers that tests start, stop and kill, and helpers that hide whether a client is synchronous."""

import asyncio
import inspect
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

FULL = os.environ.get("WEFT_TIER") == "full"
SEED = int(os.environ.get("WEFT_SEED", random.SystemRandom().randrange(1 << 32)))


def randoms(name):
    """A generator of random numbers that a test has for itself."""
    return random.Random(f"{SEED}:{name}")


class Server:
    """A process of the reference server over a store, which can be started again at its address."""

    def __init__(self, store=None, graphs=None, remote=None):
        self.folder = tempfile.TemporaryDirectory(prefix="clients-")
        self.store = store or f"sqlite:{self.folder.name}/store.db"
        self.graphs = ["--graphs", graphs] if graphs else []
        self.remote = ["--remote", remote] if remote else []
        self.address = "127.0.0.1:0"
        self.process = None
        self.log = open(f"{self.folder.name}/log", "ab")

    @property
    def url(self):
        return f"http://{self.address}"

    def start(self):
        """Starts the server and waits until it accepts connections."""
        server = os.environ["WEFT_REFERENCE_SERVER"]
        command = [server, "--listen", self.address, "--store", self.store, *self.graphs, *self.remote]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on http://"):
                self.address = line.split("//")[1].strip()
                return self
        log = Path(self.log.name).read_text()
        raise RuntimeError(f"the server did not start: {log}")

    def kill(self):
        """Kills the server as `kill -9` does."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def terminate(self):
        """Asks the server to stop, and waits for it."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        assert code == 0, f"the server ended with {code}"

    def memory(self):
        """Resident memory in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.log.close()
        self.folder.cleanup()


class Definitions:
    """`weft serve` with an agent of the folder `agents` and the embedded model."""

    def __init__(self, slug):
        self.folder = tempfile.TemporaryDirectory(prefix="definitions-")
        agents = Path(__file__).resolve().parent.parent.parent / "agents"
        shutil.copytree(agents / slug, f"{self.folder.name}/agents/{slug}")
        self.log = open(f"{self.folder.name}/log", "ab")

    def __enter__(self):
        env = {**os.environ, "WEFT_MODEL": "local", "WEFT_STORE": f"sqlite:{self.folder.name}/store.db"}
        command = [os.environ["WEFT"], "serve", "--no-auth", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            command, cwd=self.folder.name, env=env, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        prefix = "listening on "
        line = next((line for line in self.process.stdout if line.startswith(prefix)), None)
        if line is None:
            raise RuntimeError(f"weft serve did not start: {Path(self.log.name).read_text()}")
        self.url = line.removeprefix(prefix).strip()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()


class Dev:
    """`langgraph dev` with the graphs of `dev_graphs.py`, in a process of its own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="dev-")
        self.log = open(f"{self.folder.name}/log", "ab")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        here = Path(__file__).resolve().parent
        shutil.copy(here / "dev_graphs.py", self.folder.name)
        names = ["parent", "inter", "slow"]
        graphs = {name: f"./dev_graphs.py:{name}" for name in names}
        config = Path(self.folder.name) / "langgraph.json"
        config.write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
        program = Path(sys.executable).parent / "langgraph"
        command = [program, "dev", "--no-browser", "--no-reload", "--port", str(self.port), "--n-jobs-per-worker", "4"]
        env = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}
        self.process = subprocess.Popen(
            command, cwd=self.folder.name, env=env, stdout=self.log, stderr=self.log, start_new_session=True,
        )
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/ok", timeout=1).close()
                return self
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"langgraph dev did not start: {Path(self.log.name).read_text()}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


class Proxy:
    """A proxy on loopback that cuts each connection a fixed time after its begin."""

    def __init__(self, target, seconds):
        self.target = target.split(":")
        self.seconds = seconds
        self.cuts = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*self.server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        back, forth = await asyncio.open_connection(*self.target)

        async def pump(source, sink):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()

        pumps = [asyncio.ensure_future(pump(reader, forth)), asyncio.ensure_future(pump(back, writer))]
        done, open_ = await asyncio.wait(pumps, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
        self.cuts += not done
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for sink in (forth, writer):
            sink.transport.abort() if open_ and not done else sink.close()


async def result(value):
    """The result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


async def items(stream):
    """All items of the stream of either client."""
    if hasattr(stream, "__aiter__"):
        return [item async for item in stream]
    return await asyncio.to_thread(list, stream)


async def until(condition, seconds=20):
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := await condition():
            return value
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {inspect.getsource(condition)}")


def equal(found, expected):
    """Fails with both values unless they are equal."""
    assert found == expected, f"\n  found:    {found!r}\n  expected: {expected!r}"


async def node(script, *args):
    """Runs a script with Node; returns its lines."""
    folder = os.environ["WEFT_CLIENTS"]
    process = await asyncio.create_subprocess_exec(
        f"{folder}/venv/bin/node", f"{folder}/{script}", *args,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
    )
    output, _ = await process.communicate()
    lines = output.decode().splitlines()
    assert process.returncode == 0, "\n".join([f"{script} ended with {process.returncode}", *lines[-30:]])
    return lines


class Cases:
    """Tests by name."""

    def __init__(self):
        self.all = {}

    def __call__(self, function):
        self.all[f"{function.__module__}.{function.__name__}"] = function
        return function


case = Cases()


def report(name, problem, seconds, said=""):
    """Prints the result of a test in the form that the suite reads."""
    if problem is None:
        print(f"        PASS [{seconds:8.3f}s] {name}{said}")
    else:
        print(f"        FAIL [{seconds:8.3f}s] {name}")
        last = str(problem).strip().replace("\n", " ") or type(problem).__name__
        print(f"client '{name}' panicked at {type(problem).__name__}:\n{last}")
    sys.stdout.flush()
