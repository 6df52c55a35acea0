"""AG-UI's own client against agents that are exposed by it."""

import http.server
import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from harness import case, equal, node

TOKEN = "a-token-of-the-operator"


class Handler(http.server.BaseHTTPRequestHandler):
    """A handler of JSON."""

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "null")

    def log_message(self, *_):
        pass


class Shop(Handler):
    """A service that counts its orders."""

    orders = 0

    def do_POST(self):
        self.body()
        Shop.orders += 1
        body = json.dumps({"order": Shop.orders}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Model(Handler):
    """A model in the form of OpenAI's API, which reasons and says five words, slowly if it is asked to."""

    calls = 0

    def do_POST(self):
        Model.calls += 1
        said = [message["content"] for message in self.body()["messages"] if message["role"] == "user"][-1]
        pause = 0.2 if said.startswith("slowly") else 0
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()

        def chunk(delta, end=None):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            data = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

        try:
            chunk({"role": "assistant", "reasoning_content": "Five words."})
            for number in range(5):
                chunk({"content": f"word{number} "})
                time.sleep(pause)
            chunk({}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass
        self.close_connection = True


class Agents:
    """`weft serve` with two agents that are exposed by AG-UI, and one that is not."""

    def __enter__(self):
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), of) for of in (Shop, Model)]
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        shop, model = ("http://{}:{}".format(*server.server_address) for server in self.servers)
        self.folder = tempfile.TemporaryDirectory(prefix="ag-ui-")
        home = Path(self.folder.name)
        self.log = open(home / "log", "ab")
        agents = {
            "golf": "type: context\ncontext: Answer in short words.\n",
            "shop": f"type: api\ntransport:\n  kind: api\n  api: {{endpoint: '{shop}/orders'}}\n",
            "hidden": "type: context\n",
        }
        for slug, text in agents.items():
            (home / "agents" / slug).mkdir(parents=True)
            (home / "agents" / slug / "agent.yaml").write_text(text)
        (home / "weft.toml").write_text(
            f'model = "fake:m"\nagents = "agents"\n[egress]\nallow = ["127.0.0.1"]\n'
            f'[providers.fake]\nurl = "{model}/v1"\n'
        )
        env = {**os.environ, "WEFT_CONFIG": f"{home}/weft.toml", "WEFT_STORE": f"sqlite:{home}/store.db"}
        for name in ["WEFT_MODEL", "WEFT_POLICY"]:
            env.pop(name, None)
        for slug in ["golf", "shop"]:
            command = [os.environ["WEFT"], "agents", "expose", slug, "--agui"]
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
        for server in self.servers:
            server.shutdown()
        self.log.close()
        self.folder.cleanup()


@case
async def its_own_client_runs_answers_and_reloads(_, server):
    orders, calls = Shop.orders, Model.calls
    lines = await node("ag_ui_agents.mjs", server.url, TOKEN)
    equal(Shop.orders - orders, 1)
    equal(Model.calls - calls, 5)
    return f"{len(lines)} tests"
