#!/usr/bin/env python3
"""Asks API agents of services that others wrote, and looks at the services for what was done.

    run.py [WORD...]   all tests, or those whose names contain one of the words

Kinto, devpi, localstripe and httpbin are installed below the target folder in the versions that this
file pins, and start on free ports of 127.0.0.1. Debian's `docker-registry` is one more in the full
tier, where `scripts/bootstrap.sh --full` installs it. The definitions are in `agents`; the names of the
services in them stand for their addresses. Needs `weft` in WEFT_TARGET_DIR.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WEFT = Path(os.environ.get("WEFT_TARGET_DIR", TARGET)) / "debug" / "weft"
IS_FULL = os.environ.get("WEFT_TIER") == "full"
PACKAGES = ["devpi-server==6.20.3", "httpbin==0.10.4", "kinto==26.5.0", "localstripe==1.15.10"]
LOGIN = "clerk:pass word"
REGISTRY = "docker-registry"
# Numbers of test cards. The second one is declined.
CARDS = ["4242424242424242", "4000000000000341"]
REGISTRY_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
SERVICE_SECONDS = 60
# Without a rule, a person approves what changes something.
ALLOWED = {"tool": "api/*", "decision": "allow"}


def install():
    """Installs the pinned packages unless they are there; returns the folder of their programs."""
    digest = hashlib.sha256(str(PACKAGES).encode()).hexdigest()
    folder = TARGET / "services" / digest[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        (folder / "done").touch()
    return folder / "bin"


class Service:
    """A service in a process of its own, which prints its address."""

    def __init__(self, name, command, place, address=r"(?:Running|Serving) on (http://127\.0\.0\.1:\d+)"):
        self.name = name
        self.log = []
        self.found = threading.Event()
        self.url = None
        env = {"PATH": os.environ["PATH"], "HOME": str(place), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.reader = threading.Thread(target=self.read, args=(re.compile(address),), daemon=True)
        self.reader.start()

    def read(self, address):
        for line in self.process.stdout:
            self.log.append(line)
            match = address.search(line)
            if match and not self.url:
                self.url = match[1] if match[1].startswith("http") else f"http://{match[1]}"
                self.found.set()
        self.found.set()

    def wait(self):
        self.found.wait(SERVICE_SECONDS)
        assert self.url, f"{self.name} did not start: {''.join(self.log[-20:])}"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def ask(self, path, method="GET", body=None, **headers):
        """Status, headers and JSON or bytes of an answer."""
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, (dict, list)):
            headers.setdefault("content-type", "application/json")
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, found, text = response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            status, found, text = error.code, error.headers, error.read()
        is_json = "json" in found.get("content-type", "")
        return status, found, json.loads(text) if is_json and text else text


def basic(login):
    return "Basic " + base64.b64encode(login.encode()).decode()


class Desk:
    """The services, and a home with the agents that ask them."""

    def __init__(self, place, programs):
        self.place = place
        self.services = {}
        python = programs / "python"

        def start(name, *command, **more):
            (place / name).mkdir()
            self.services[name] = Service(name, command, place / name, **more)

        start("kinto", python, HERE / "serve.py", "kinto", HERE / "kinto.ini")
        start("stripe", python, HERE / "serve.py", "localstripe")
        start("httpbin", python, HERE / "serve.py", "httpbin")
        server = ["--serverdir", place / "devpi-data"]
        init = [programs / "devpi-init", *server, "--no-root-pypi", "--root-passwd", "pass word"]
        subprocess.run(init, check=True, capture_output=True)
        start("devpi", programs / "devpi-server", *server, "--host", "127.0.0.1", "--port", "0")
        if IS_FULL:
            file = self.registry_file(python)
            start("registry", REGISTRY, "serve", file, address=r"listening on (127\.0\.0\.1:\d+)")

    def registry_file(self, python):
        # A package that devpi uses.
        hashing = "import bcrypt, sys; print(bcrypt.hashpw(sys.argv[1].encode(), bcrypt.gensalt(4)).decode())"
        user, _, password = LOGIN.partition(":")
        hashed = subprocess.run([python, "-c", hashing, password], check=True, capture_output=True, text=True)
        (self.place / "htpasswd").write_text(f"{user}:{hashed.stdout}")
        file = self.place / "registry.json"
        file.write_text(json.dumps({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": str(self.place / "images")}, "delete": {"enabled": True}},
            "http": {"addr": "127.0.0.1:0"},
            "auth": {"htpasswd": {"realm": "desk", "path": str(self.place / "htpasswd")}},
        }))
        return file

    def __getattr__(self, name):
        return self.services[name]

    def set_up(self):
        """Writes the definitions, and what the services have before the tests."""
        for service in self.services.values():
            service.wait()
        agents = self.place / "agents"
        for file in sorted((HERE / "agents").glob("*/*")):
            text = file.read_text()
            for name, service in self.services.items():
                text = text.replace(name.upper() + "/", service.url + "/")
            if "REGISTRY/" in text:
                continue
            place = agents / file.parent.name / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (self.place / "weft.toml").write_text('[egress]\nallow = ["127.0.0.1"]\n')
        self.rules(ALLOWED)
        user, _, password = LOGIN.partition(":")
        assert self.devpi.ask(f"/{user}", "PUT", {"password": password})[0] == 201
        token = self.devpi.ask("/+login", "POST", {"user": user, "password": password})[2]["result"]["password"]
        assert self.kinto.ask(f"/v1/accounts/{user}", "PUT", {"data": {"password": password}})[0] == 201
        self.login = {"authorization": basic(LOGIN)}
        for path in ["buckets/desk", "buckets/desk/collections/notes"]:
            assert self.kinto.ask(f"/v1/{path}", "PUT", {}, **self.login)[0] == 201
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.place),
            "WEFT_MODEL": "scripted", "WEFT_AGENTS": str(agents), "WEFT_POLICY": str(self.place / "rules.json"),
            "KINTO_LOGIN": LOGIN, "HTTPBIN_LOGIN": LOGIN, "REGISTRY_LOGIN": LOGIN,
            "DEVPI_LOGIN": base64.b64encode(f"{user}:{token}".encode()).decode(),
            "STRIPE_KEY": "sk_test_12345", "HTTPBIN_TOKEN": "token-12345", "HOOK_KEY": "key-12345",
        }

    def rules(self, *rules):
        (self.place / "rules.json").write_text(json.dumps({"version": 1, "rules": rules}))

    def weft(self, *args, **env):
        command = [WEFT, *map(str, args)]
        env = {**self.env, **env}
        return subprocess.run(command, cwd=self.place, env=env, capture_output=True, text=True, timeout=300)

    def run(self, slug, message="Go.", value=None, payload=None, **env):
        """The answer of `weft agents run`, in which no secret is."""
        args = ["agents", "run", slug, message, "--json"]
        args += [] if value is None else ["--input", json.dumps(value)]
        args += [] if payload is None else ["--payload", json.dumps(payload)]
        done = self.weft(*args, **{"WEFT_STORE": f"sqlite:{self.place / slug}.db", **env})
        assert done.stdout, f"no answer: {done.stderr[-500:]}"
        secrets = [value for name, value in {**self.env, **env}.items() if name.endswith(("LOGIN", "KEY", "TOKEN"))]
        shown = [secret for secret in secrets if secret and secret in done.stdout + done.stderr]
        assert not shown, done.stdout + done.stderr
        return json.loads(done.stdout)

    def call(self, operation, arguments):
        return self.run("notes", payload={"tool": f"api/notes/{operation}", "arguments": arguments})


def expect(answer, content):
    assert answer["success"], answer
    assert answer["content"] == content, answer
    return answer


def refused(answer, code, *words):
    assert not answer["success"] and answer["metadata"]["code"] == code, answer
    missing = [word for word in words if word not in answer["error"]]
    assert not missing, f"{missing} are not in {answer['error']}"


def notes_of(desk):
    path = "/v1/buckets/desk/collections/notes/records?_sort=-stars"
    return [(note["text"], note["stars"]) for note in desk.kinto.ask(path, **desk.login)[2]["data"]]


def kinto_stores_notes_of_its_user_only(desk):
    expect(desk.run("take-note", "Tea \"with\"\nmilk", {"stars": 2}), {"text": "Tea \"with\"\nmilk", "stars": 2})
    expect(desk.run("take-note", "Ümläute", {"stars": 5}), {"text": "Ümläute", "stars": 5})
    expected = [("Ümläute", 5), ("Tea \"with\"\nmilk", 2)]
    assert notes_of(desk) == expected
    expect(desk.run("read-notes"), [text for text, _ in expected])
    refused(desk.run("take-note", "No.", {"stars": 1}, KINTO_LOGIN="clerk:wrong word"), "W1060", "status 401")
    refused(desk.run("take-note", "No.", {"stars": 1}, KINTO_LOGIN=""), "W1061", "KINTO_LOGIN")
    assert notes_of(desk) == expected


def kinto_has_operations_as_tools(desk):
    desk.kinto.ask("/v1/buckets/desk/collections/notes/records/n1", "DELETE", **desk.login)
    put = {"id": "n1", "body": {"data": {"text": "one", "stars": 0}}, "If-None-Match": "*"}
    answer = desk.call("put_note", put)
    assert answer["content"]["data"]["text"] == "one", answer
    # The header says that there must be none yet.
    refused(desk.call("put_note", put), "W1060", "status 412")
    assert desk.call("get_note", {"id": "n1"})["content"]["data"]["stars"] == 0
    refused(desk.call("get_note", {"id": "n 2/../n1"}), "W0402")
    refused(desk.call("get_note", {"id": "absent"}), "W1060", "status 404")
    assert desk.call("delete_note", {"id": "n1"})["content"]["data"]["deleted"] is True
    path = "/v1/buckets/desk/collections/notes/records/n1"
    assert desk.kinto.ask(path, **desk.login)[0] == 404


def devpi_makes_an_index_once_a_person_approves_it(desk):
    desk.rules()
    try:
        asked = desk.run("new-index", "Packages of the desk")
    finally:
        desk.rules(ALLOWED)
    assert asked["metadata"]["status"] == "input_required", asked
    wrong = base64.b64encode(b"clerk:wrong-token").decode()
    refused(desk.run("new-index", "Mine", DEVPI_LOGIN=wrong), "W1060", "status 403", "no permission")
    assert desk.devpi.ask("/clerk/desk")[0] == 404
    store = {"WEFT_STORE": f"sqlite:{desk.place / 'new-index'}.db"}
    done = desk.weft("threads", "resume", asked["metadata"]["thread"], "--approve", **store)
    assert done.returncode == 0, done.stdout + done.stderr
    status, _, found = desk.devpi.ask("/clerk/desk", accept="application/json")
    assert (status, found["result"]["title"]) == (200, "Packages of the desk"), found
    refused(desk.run("new-index", "Again"), "W1060", "status 409", "exists")


def stripe_takes_forms_with_nested_names(desk):
    for number, name in enumerate(["Ada", "Grace & Co", "Linus"]):
        answer = desk.run("add-customer", value={"name": name, "order": number})
        found = desk.stripe.ask(f"/v1/customers/{answer['content']['id']}", authorization="Bearer sk_test_12345")[2]
        metadata = {"order": str(number), "conversation": answer["metadata"]["thread"]}
        assert (found["name"], found["metadata"]) == (name, metadata), found
    expect(desk.run("list-customers"), ["Ada", "Grace & Co", "Linus"])
    refused(desk.run("add-customer", value={"name": "Eve"}, STRIPE_KEY="other_key"), "W1060", "status 401")
    login = {"authorization": "Bearer sk_test_12345"}
    cards = [{"number": number, "exp_month": 12, "exp_year": 2050, "cvc": "123"} for number in CARDS]
    methods = [{"type": "card", "card": card} for card in cards]
    tokens = [desk.stripe.ask("/v1/payment_methods", "POST", method, **login)[2]["id"] for method in methods]
    expect(desk.run("charge-card", value={"cents": 700, "card": tokens[0]}), {"paid": True, "amount": 700})
    refused(desk.run("charge-card", value={"cents": 900, "card": tokens[1]}), "W1060", "status 402", "declined")
    charges = desk.stripe.ask("/v1/charges", **login)[2]["data"]
    assert [charge["amount"] for charge in charges if charge["paid"]] == [700], charges


def httpbin_repeats_what_it_was_sent(desk):
    parts = {"name": "Ada \"A\"", "tags": ["x", "y"], "at": {"day": 7}}
    answer = desk.run("send-parts", value=parts)
    assert answer["content"]["form"] == {"name": "Ada \"A\"", "tags[0]": "x", "tags[1]": "y", "at[day]": "7"}, answer
    assert answer["content"]["desk"] == "front", answer
    assert re.fullmatch("sha256=[0-9a-f]{64}", answer["content"]["signature"]), answer
    expect(desk.run("who-am-i"), {"authenticated": True, "user": "[secret]"})
    refused(desk.run("who-am-i", HTTPBIN_LOGIN="clerk:wrong word"), "W1060", "status 401")


def httpbin_fails_and_answers_oddly(desk):
    def ask(path, **env):
        return desk.run("answer", value={"url": f"{desk.httpbin.url}/{path}"}, **env)

    answer = ask("bearer")
    assert answer["content"] == {"authenticated": True, "token": "[secret]"}, answer
    refused(ask("bearer", HTTPBIN_TOKEN=""), "W1061")
    refused(ask("status/503"), "W1060", "status 503")
    refused(ask("redirect/1"), "W1060", "is not followed")
    for path, media_type in [("image/png", "image/png"), ("gzip", "application/json")]:
        content = ask(path)["content"]
        assert content["media_type"] == media_type and content["bytes"] > 100, content
    assert "∮ E⋅da = Q" in ask("encoding/utf8")["content"]
    assert ask("stream/3")["content"].count("\n") == 3
    refused(desk.run("answer", value={"url": f"{desk.kinto.url}/v1/"}), "W1064")


def push_image(registry, name, login):
    """Stores an image without layers; returns its digest."""
    config = json.dumps({"name": name}).encode()
    digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    _, headers, _ = registry.ask(f"/v2/{name}/blobs/uploads/", "POST", b"", **login)
    place = headers["location"].removeprefix(registry.url)
    status, _, text = registry.ask(f"{place}&digest={digest}", "PUT", config, content_type="application/octet-stream", **login)
    assert status == 201, text
    kind = "application/vnd.docker.container.image.v1+json"
    manifest = {
        "schemaVersion": 2, "mediaType": REGISTRY_MANIFEST, "layers": [],
        "config": {"mediaType": kind, "size": len(config), "digest": digest},
    }
    path = f"/v2/{name}/manifests/latest"
    status, headers, text = registry.ask(path, "PUT", manifest, content_type=REGISTRY_MANIFEST, **login)
    assert status == 201, text
    return headers["docker-content-digest"]


def a_registry_lists_its_images_in_pages(desk):
    digests = {name: push_image(desk.registry, name, desk.login) for name in ["desk/a", "desk/b", "desk/c"]}
    expect(desk.run("list-images"), list(digests))
    refused(desk.run("list-images", REGISTRY_LOGIN="clerk:wrong word"), "W1060", "status 401")
    expect(desk.run("remove-image", value={"digest": digests["desk/b"]}), {"status": 202})
    path, accept = f"/v2/desk/b/manifests/{digests['desk/b']}", {"accept": REGISTRY_MANIFEST}
    assert desk.registry.ask(path, **accept, **desk.login)[0] == 404
    refused(desk.run("remove-image", value={"digest": digests["desk/b"]}), "W1060", "status 404")
    refused(desk.run("remove-image", value={"digest": "../../a/manifests/" + digests["desk/a"]}), "W1064")


CHECKS = [
    kinto_stores_notes_of_its_user_only,
    kinto_has_operations_as_tools,
    devpi_makes_an_index_once_a_person_approves_it,
    stripe_takes_forms_with_nested_names,
    httpbin_repeats_what_it_was_sent,
    httpbin_fails_and_answers_oddly,
]


def run_check(check, desk):
    begin = time.monotonic()
    try:
        check(desk)
        problem = None
    except Exception:
        problem = traceback.format_exc()
    return check.__name__, problem, time.monotonic() - begin


def main():
    if not WEFT.exists():
        print(f"no program {WEFT}; build it: cargo build -p weftwork-cli --bin weft")
        return 2
    checks = [*CHECKS, *([a_registry_lists_its_images_in_pages] if IS_FULL else [])]
    checks = [check for check in checks if not sys.argv[1:] or any(word in check.__name__ for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as end:
        desk = Desk(Path(folder).resolve(), install())
        for service in desk.services.values():
            end.callback(service.close)
        desk.set_up()
        checked = desk.weft("agents", "check")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        results = [run_check(check, desk) for check in checks]
    failed = [name for name, problem, _ in results if problem]
    for name, problem, seconds in results:
        print(f"        {'FAIL' if problem else 'PASS'} [{seconds:8.3f}s] {name}")
        if problem:
            print(f"services '{name}' panicked at:", problem, sep="\n  ")
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(results) - len(failed)} passed; {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
