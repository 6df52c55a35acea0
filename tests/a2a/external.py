"""Agents that ask those of other servers: one of the Python SDK, and servers of this project that ask one
another."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from desk import TOKEN, WEFT, Model, free_port, serve, until
from play import play
from starlette.applications import Starlette

KILLS = 10
WORDS = [f"word{number} " for number in range(10)]


class Executor(AgentExecutor):
    """An agent that does as a text says, and counts the messages that it gets."""

    def __init__(self):
        self.messages, self.cancelled = [], []

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        self.messages.append(text)
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(message=said(updater, "I am on it"))
        if text == "ask":
            return await updater.requires_input(message=said(updater, "Which colour?"))
        if text == "fail":
            return await updater.failed(message=said(updater, "there are no clubs"))
        if text == "reject":
            return await updater.reject(message=said(updater, "not today"))
        if text == "hang":
            await asyncio.sleep(60)
        parts = WORDS if text == "slowly" else [f"done: {text}"]
        for number, part in enumerate(parts):
            await updater.add_artifact([Part(text=part)], artifact_id="a", append=number > 0)
            await asyncio.sleep(0.1 if len(parts) > 1 else 0)
        await updater.complete()

    async def cancel(self, context, event_queue):
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def said(updater, text):
    return updater.new_agent_message([Part(text=text)])


class Partner:
    """A server of the Python SDK."""

    def __init__(self, binding, streaming=True):
        self.executor = Executor()
        self.port = free_port()
        path = "/rpc" if binding == "JSONRPC" else ""
        url = f"http://127.0.0.1:{self.port}{path}"
        card = AgentCard(
            name="Partner", description="Does as it is told", version="1",
            supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain"], default_output_modes=["text/plain"],
            skills=[AgentSkill(id="do", name="do", description="Does", tags=["do"])],
        )
        handler = DefaultRequestHandler(self.executor, InMemoryTaskStore(), card)
        routes = create_agent_card_routes(card)
        routes += create_jsonrpc_routes(handler, "/rpc") if path else create_rest_routes(handler)
        config = uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=self.port, log_level="critical")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        self.server.force_exit = self.server.should_exit = True
        self.thread.join()


def external(endpoint, **more):
    """A definition of an agent of another server."""
    transport = {"kind": "external", "external": {"endpoint": endpoint, "retries": 0, **more}}
    return json.dumps({"weft": 1, "type": "external", "transport": transport})


class Home:
    """`weft serve` with definitions."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="a2a-")
        self.home = Path(self.folder.name)
        self.model = serve(Model)
        self.address = f"127.0.0.1:{free_port()}"
        self.process = None
        model = "http://{}:{}/v1".format(*self.model.server_address)
        (self.home / "weft.toml").write_text(
            f'model = "fake:m"\nagents = "agents"\n[egress]\nallow = ["127.0.0.1"]\n'
            f'[providers.fake]\nurl = "{model}"\n'
        )
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "WEFT_CONFIG": f"{self.home}/weft.toml",
            "WEFT_STORE": f"sqlite:{self.home}/store.db", "PEER_TOKEN": TOKEN,
        }

    @property
    def url(self):
        return f"http://{self.address}"

    def define(self, slug, text):
        (self.home / "agents" / slug).mkdir(parents=True, exist_ok=True)
        (self.home / "agents" / slug / "agent.yaml").write_text(text)

    def weft(self, *args):
        done = subprocess.run([WEFT, *args], cwd=self.home, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"weft {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *exposed):
        for slug in exposed:
            self.weft("agents", "expose", slug, "--a2a")
        with open(self.home / "log", "ab") as log:
            self.process = subprocess.Popen(
                [WEFT, "serve", "--listen", self.address, "--token", TOKEN],
                cwd=self.home, env=self.env, stdout=subprocess.PIPE, stderr=log, text=True,
            )
        line = next((line for line in self.process.stdout if line.startswith("listening on ")), None)
        assert line, f"weft serve did not start: {(self.home / 'log').read_text()}"
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def send(self, method, path, body=None, headers=()):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        request.add_header("authorization", f"Bearer {TOKEN}")
        request.add_header("content-type", "application/json")
        for name, value in headers:
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            return json.loads(error.read())

    def ask(self, slug, message, key=None, **more):
        headers = [("idempotency-key", key)] if key else []
        body = {"userMessage": message, "conversationId": "c", **more}
        return self.send("POST", f"/agents/{slug}/tasks", body, headers)

    def answer(self, asked, value):
        """Answers the only question of a request, and returns the answer of the agent."""
        thread = asked["metadata"]["thread"]
        question = asked["metadata"]["questions"][0]["id"]
        body = {"assistant_id": asked["metadata"]["assistant"], "command": {"resume": {question: value}}}
        return self.send("POST", f"/threads/{thread}/runs/wait", body)["answer"]

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        self.model.shutdown()
        self.model.server_close()
        if os.environ.get("WEFT_KEEP") and (self.home / "log").exists():
            print((self.home / "log").read_text(), file=sys.stderr)
        self.folder.cleanup()


class World:
    """Servers that end with the case."""

    def __init__(self):
        self.open = []

    def partner(self, *args, **more):
        self.open.append(Partner(*args, **more))
        return self.open[-1]

    def home(self):
        self.open.append(Home())
        return self.open[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in reversed(self.open):
            one.close()


def answered(answer, content):
    assert answer["success"] and answer["content"] == content, answer


def a_server_of_the_python_sdk_streams_asks_and_fails(binding):
    for streaming in [True, False]:
        with World() as world:
            partner, home = world.partner(binding, streaming), world.home()
            home.define("partner", external(partner.url, idempotent=False))
            home.start()
            first = home.ask("partner", "hello")
            answered(first, "done: hello")
            whole = home.ask("partner", "slowly")
            assert whole["content"].split() == "".join(WORDS).split(), whole
            context = [answer["metadata"]["external"]["context"] for answer in [first, whole]]
            assert context[0] == context[1], "the conversation goes on"
            for word, reason in [("fail", "failed: there are no clubs"), ("reject", "rejected the request: not today")]:
                failed = home.ask("partner", word)
                assert not failed["success"] and failed["metadata"]["code"] == "W1065", failed
                assert failed["error"].endswith(reason), failed
            asked = home.ask("partner", "ask")
            assert asked["metadata"]["status"] == "input_required", asked
            assert "Which colour?" in asked["content"], asked
            asked["metadata"]["assistant"] = "agents:partner"
            answered({**home.answer(asked, "green"), "success": True}, "done: green")
            assert partner.executor.messages[-2:] == ["ask", "green"], partner.executor.messages


def text_of_a_server_is_streamed_and_its_task_cancelled(binding):
    with World() as world:
        partner, home = world.partner(binding), world.home()
        home.define("partner", external(partner.url))
        home.start()
        begun = home.ask("partner", "slowly", payload={"stream": True})
        run = begun["metadata"]["run"]
        request = urllib.request.Request(f"{home.url}{begun['metadata']['stream']}?stream_mode=messages-tuple")
        request.add_header("authorization", f"Bearer {TOKEN}")
        with urllib.request.urlopen(request, timeout=60) as response:
            lines = response.read().decode()
        assert lines.count('"word') > 3 or lines.count("word") > 10, lines
        begun = home.ask("partner", "hang", conversationId="d", payload={"stream": True})
        until(lambda: partner.executor.messages[-1:] == ["hang"])
        time.sleep(0.3)
        thread, run = (begun["metadata"][name] for name in ["thread", "run"])
        home.send("POST", f"/threads/{thread}/runs/{run}/cancel?wait=true", {})
        until(lambda: partner.executor.cancelled, 20)


def a_killed_server_finds_the_task_again(binding):
    with World() as world:
        partner, home = world.partner(binding), world.home()
        home.define("partner", external(partner.url))
        home.start()
        for number in range(KILLS):
            key = str(uuid.uuid4())
            before = len(partner.executor.messages)
            asking = threading.Thread(target=swallow, args=[home, key, f"kill{number}"], daemon=True)
            asking.start()
            until(lambda: len(partner.executor.messages) > before)
            time.sleep(0.35)
            home.kill()
            asking.join()
            home.start()
            answer = home.ask("partner", "slowly", key, conversationId=f"kill{number}")
            assert answer["success"], answer
            assert answer["content"].split() == "".join(WORDS).split(), answer
            assert len(partner.executor.messages) == before + 1, "the message was sent once"


def swallow(home, key, conversation):
    """Asks, and ignores the end of the connection."""
    try:
        home.ask("partner", "slowly", key, conversationId=conversation)
    except OSError:
        pass


def two_servers_ask_one_another():
    talk = "weft: 1\ntype: context\nagent_card: {description: Talks}\ncontext: Answer in short words.\n"
    bearer = {"type": "bearer", "secret": "PEER_TOKEN"}
    words = "".join(WORDS).split()
    with World() as world:
        one, two = world.home(), world.home()
        for home, other in [(one, two), (two, one)]:
            tasks = f"{other.url}/agent-to-agent/tasks"
            health = {"endpoint": "/health", "interval": "1s"}
            home.define("talk", talk)
            home.define("by-task", external(tasks, agent="talk", authentication=bearer, healthCheck=health, idempotent=True))
            home.define("by-a2a", external(f"{other.url}/a2a/talk", authentication=bearer, idempotent=True))
            home.define("round", external(tasks, agent="round", authentication=bearer))
            home.define("around", external(f"{other.url}/a2a/around", authentication=bearer))
            home.start("talk", "around")
        for home in [one, two]:
            for slug in ["by-task", "by-a2a"]:
                answer = home.ask(slug, "Hello", conversationId=slug)
                assert answer["success"] and answer["content"].split() == words, answer
            # Each asks the other one, until the first is named again.
            for slug in ["round", "around"]:
                refused = home.ask(slug, "Go", conversationId=slug)
                assert not refused["success"] and "chain of agents" in refused["error"], refused
        assert one.send("GET", "/health") == {"status": "ok"}
        peers = [agent.get("peer") for agent in one.send("GET", "/agents")["agents"]]
        assert peers.count("closed") == 4, peers
        doctor = one.weft("doctor")
        assert f"by-task: {two.url} is healthy" in doctor, doctor
        two.kill()
        for _ in range(5):
            assert one.ask("by-task", "Hello", conversationId="down")["metadata"]["code"] in ["W1068", "W0803"]
        down = one.ask("by-task", "Hello", conversationId="down")
        assert down["metadata"]["code"] == "W1068" and down["metadata"]["retriable"], down
        two.start()
        time.sleep(1.1)
        answer = one.ask("by-task", "Hello", conversationId="up")
        assert answer["success"], answer


def an_approval_of_the_other_server_is_answered_here_or_there():
    bearer = {"type": "bearer", "secret": "PEER_TOKEN"}
    with World() as world:
        one, two = world.home(), world.home()
        api = {"endpoint": f"{two.url}/health", "method": "GET"}
        clerk = {
            "weft": 1, "type": "api", "requires_confirmation": ["api/clerk"],
            "transport": {"kind": "api", "api": api},
        }
        two.define("clerk", json.dumps(clerk))
        two.start("clerk")
        one.define("by-task", external(f"{two.url}/agent-to-agent/tasks", agent="clerk", authentication=bearer))
        one.define("by-a2a", external(f"{two.url}/a2a/clerk", authentication=bearer))
        one.start()
        for slug in ["by-task", "by-a2a"]:
            for approved_there in [False, True]:
                asked = one.ask(slug, "Go", conversationId=f"{slug} {approved_there}")
                assert asked["metadata"].get("status") == "input_required", asked
                call = asked["metadata"]["questions"][0]["ask"]["value"].get("call", {})
                assert call.get("tool") == "api/clerk", asked
                asked["metadata"]["assistant"] = f"agents:{slug}"
                if approved_there:
                    thread = two.send("POST", "/threads/search", {"status": "interrupted"})[0]["thread_id"]
                    two.weft("threads", "resume", thread, "--approve")
                answer = one.answer(asked, "reject" if approved_there else "approve")
                assert answer["content"] == {"status": "ok"}, answer
                assert ("warnings" in answer["metadata"]) == approved_there, answer


CASES = [
    a_server_of_the_python_sdk_streams_asks_and_fails, text_of_a_server_is_streamed_and_its_task_cancelled,
    a_killed_server_finds_the_task_again,
]
BINDINGS = ["JSONRPC", "HTTP+JSON"]


def main(words):
    # The SDK logs each request.
    logging.disable(logging.INFO)

    def named(case, binding):
        return f"{case.__name__} {binding}", lambda: case(binding)

    cases = [named(case, binding) for case in CASES for binding in BINDINGS]
    both = [two_servers_ask_one_another, an_approval_of_the_other_server_is_answered_here_or_there]
    return play([*cases, *((case.__name__, case) for case in both)], words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
