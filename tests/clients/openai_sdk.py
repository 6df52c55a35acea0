"""OpenAI's SDKs against agents that are exposed by its API."""

import asyncio
import http.server
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import openai

from harness import case, equal, node

TOKEN = "a-token-of-the-operator"


class Shop(http.server.BaseHTTPRequestHandler):
    """A service that counts its orders."""

    orders = 0

    def do_POST(self):
        Shop.orders += 1
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.dumps({"order": Shop.orders}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Exposed:
    """`weft serve` with three agents that are exposed, and one that is not, with the scripted model."""

    def __enter__(self):
        self.shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
        threading.Thread(target=self.shop.serve_forever, daemon=True).start()
        self.folder = tempfile.TemporaryDirectory(prefix="exposed-")
        home = Path(self.folder.name)
        self.log = open(home / "log", "ab")
        endpoint = "http://{}:{}/orders".format(*self.shop.server_address)
        agents = {
            "golf": "type: context\ncontext: Answer in short words.\n",
            "shop": f"type: api\ntransport:\n  kind: api\n  api: {{endpoint: '{endpoint}'}}\n",
            "poor": "type: context\nbudget: {tokens: 1}\n",
            "hidden": "type: context\n",
        }
        for slug, text in agents.items():
            (home / "agents" / slug).mkdir(parents=True)
            (home / "agents" / slug / "agent.yaml").write_text(text)
        (home / "weft.toml").write_text('model = "scripted"\nagents = "agents"\n[egress]\nallow = ["127.0.0.1"]\n')
        env = {**os.environ, "WEFT_CONFIG": f"{home}/weft.toml", "WEFT_STORE": f"sqlite:{home}/store.db"}
        for name in ["WEFT_MODEL", "WEFT_POLICY"]:
            env.pop(name, None)
        for slug in ["golf", "shop", "poor"]:
            command = [os.environ["WEFT"], "agents", "expose", slug, "--openai"]
            subprocess.run(command, cwd=home, env=env, check=True, stdout=self.log, stderr=self.log)
        command = [os.environ["WEFT"], "serve", "--token", TOKEN, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, cwd=home, env=env, stdout=subprocess.PIPE, stderr=self.log, text=True)
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
        self.shop.shutdown()
        self.log.close()
        self.folder.cleanup()


def client(server, **options):
    return openai.OpenAI(base_url=f"{server.url}/v1", **{"api_key": TOKEN, "max_retries": 0, **options})


def raised(kind, call):
    """The error of a call, which must be of a class of the SDK."""
    try:
        call()
    except openai.APIError as error:
        assert type(error) is kind, f"{type(error).__name__}: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


SAID = [{"role": "user", "content": "Hello"}]


def models_are_the_exposed_agents(of):
    ids = [model.id for model in of.models.list()]
    equal(ids, ["golf", "golf:plan", "golf:build", "poor", "poor:plan", "poor:build", "shop"])
    equal(of.models.retrieve("golf").object, "model")


def chats(of):
    whole = of.chat.completions.create(model="golf", messages=SAID)
    text = whole.choices[0].message.content
    assert text and whole.choices[0].finish_reason == "stop" and whole.usage.total_tokens > 0, whole
    stream = of.chat.completions.create(
        model="golf", messages=SAID, stream=True, stream_options={"include_usage": True},
    )
    chunks = list(stream)
    equal("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), text)
    equal(chunks[-1].usage.total_tokens, whole.usage.total_tokens)
    with of.chat.completions.stream(model="golf", messages=SAID) as events:
        equal(events.get_final_completion().choices[0].message.content, text)
    history = [*SAID, {"role": "assistant", "content": text}, *SAID]
    thread = {"x-thread-id": "talk"}
    for said in [SAID, history]:
        assert of.chat.completions.create(model="golf", messages=said, extra_headers=thread).choices[0].message.content


def responses(of):
    whole = of.responses.create(model="golf", input="Hello", metadata={"topic": "golf"})
    assert whole.output_text and whole.status == "completed", whole
    equal(of.responses.retrieve(whole.id), whole)
    with of.responses.stream(model="golf", input="Hello") as events:
        types = [event.type for event in events]
        final = events.get_final_response()
    equal(final.output_text, whole.output_text)
    equal((types[0], types[-1]), ("response.created", "response.completed"))
    more = of.responses.create(model="golf", input="More", previous_response_id=final.id)
    equal(more.previous_response_id, final.id)
    later = of.responses.create(model="golf", input="Hello", background=True)
    while later.status in ("queued", "in_progress"):
        later = of.responses.retrieve(later.id)
    equal(later.output_text, whole.output_text)
    equal(of.responses.cancel(later.id).status, "completed")
    of.responses.delete(whole.id)
    raised(openai.NotFoundError, lambda: of.responses.retrieve(whole.id))


def an_approval_is_answered(of):
    before = Shop.orders
    for approve in [True, False]:
        waiting = of.responses.create(model="shop", input="Order.")
        request = next(item for item in waiting.output if item.type == "mcp_approval_request")
        json.loads(request.arguments)
        equal(Shop.orders, before + (not approve))
        answer = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
        ask = lambda: of.responses.create(model="shop", previous_response_id=waiting.id, input=[answer])
        done = ask()
        equal(Shop.orders, before + 1)
        equal(done.status, "completed" if approve else "failed")
        raised(openai.ConflictError, ask)
    said = of.chat.completions.create(model="shop", messages=SAID).choices[0]
    assert "/ui/#/thread/" in said.message.content and said.finish_reason == "stop", said
    equal(Shop.orders, before + 1)


def errors_are_those_of_the_sdk(of, server):
    stranger = client(server, api_key="a-token-of-nobody-at-all")
    raised(openai.AuthenticationError, stranger.models.list)
    for model in ["hidden", "nothing"]:
        error = raised(openai.NotFoundError, lambda: of.responses.create(model=model, input="Hello"))
        equal(error.code, "model_not_found")
    bad = raised(openai.BadRequestError, lambda: of.chat.completions.create(model="golf", messages=[]))
    equal(bad.param, "messages")
    # The header tells the SDK not to repeat a run that failed.
    eager = client(server, max_retries=2)
    used = raised(openai.RateLimitError, lambda: eager.chat.completions.create(model="poor", messages=SAID))
    equal(used.code, "W0601")
    stream = of.chat.completions.create(model="poor", messages=SAID, stream=True)
    equal(raised(openai.APIError, lambda: list(stream)).code, "W0601")
    equal(of.responses.create(model="poor", input="Hello").error.code, "W0601")


@case
async def the_python_sdk_lists_asks_streams_and_answers(_, server):
    of = client(server)
    for test in [models_are_the_exposed_agents, chats, responses, an_approval_is_answered]:
        await asyncio.to_thread(test, of)
    await asyncio.to_thread(errors_are_those_of_the_sdk, of, server)


@case
async def the_javascript_sdk_lists_asks_streams_and_answers(_, server):
    await node("openai_sdk.mjs", server.url, TOKEN)
