#!/usr/bin/env python3
"""Talks to an exposed agent in Open WebUI, by its page in Chromium.

Open WebUI is installed below the target folder in the version that this file pins, with the versions
that it pins itself, without the packages that run models or read documents. It starts without a
network on 127.0.0.1; embeddings are by OpenAI's protocol. Needs `weft` in WEFT_TARGET_DIR, and Chromium.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WEFT = Path(os.environ.get("WEFT_TARGET_DIR", TARGET)) / "debug" / "weft"
PROGRAM = "open-webui==0.12.4"
# It imports these when it runs models or reads documents: with PyTorch, which comes with them, they
# are six times as large as all others.
LEFT_OUT = {
    "accelerate", "azure-ai-documentintelligence", "docx2txt", "einops", "faster-whisper", "msoffcrypto-tool",
    "opencv-python-headless", "openpyxl", "opensearch-py", "pandas", "pyarrow", "pymysql", "pypandoc",
    "python-docx", "python-pptx", "pyxlsb", "rapidocr", "sentence-transformers", "sentencepiece", "soundfile",
    "transformers", "xlrd", "youtube-transcript-api",
}
TOKEN = "token-of-the-open-webui-tests"
QUESTION = "How many clubs may a player carry?"
START_SECONDS = 300
PAGE_SECONDS = 600


def load(path):
    """The script of another stage."""
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Service = load(ROOT / "tests/phoenix/run.py").Service
web = load(ROOT / "tests/web/run.py")


def needs_of(wheel):
    """The packages that the program needs, as it pins them, without those that are left out."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        lines = files.read(name).decode().splitlines()
    needs = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    name = lambda need: re.match(r"[\w.-]+", need)[0].lower()
    return [need for need in needs if "extra ==" not in need and name(need) not in LEFT_OUT]


def install():
    """Installs the pinned program unless it is there; returns the folder of its programs."""
    digest = hashlib.sha256(str([PROGRAM, sorted(LEFT_OUT)]).encode()).hexdigest()
    folder = TARGET / "openwebui" / digest[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        options = ["--quiet", "--disable-pip-version-check"]
        pip = folder / "bin" / "pip"
        subprocess.run([pip, "download", *options, "--no-deps", "-d", folder, PROGRAM], check=True)
        (wheel,) = folder.glob("*.whl")
        subprocess.run([pip, "install", *options, *needs_of(wheel)], check=True)
        subprocess.run([pip, "install", *options, "--no-deps", wheel], check=True)
        wheel.unlink()
        (folder / "done").touch()
    return folder / "bin"


class Page:
    """Open WebUI for one person, with the exposed agents as models."""

    def __init__(self, programs, place, weft):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(place / "openwebui.log", "w+")
        off = ["ENABLE_" + name for name in (
            "OLLAMA_API", "TITLE_GENERATION", "TAGS_GENERATION", "FOLLOW_UP_GENERATION", "AUTOCOMPLETE_GENERATION",
            "PERSISTENT_CONFIG", "VERSION_UPDATE_CHECK",
        )]
        env = {
            "PATH": os.environ["PATH"], "HOME": str(place), "DATA_DIR": str(place / "openwebui"), "PYTHONUNBUFFERED": "1",
            "WEBUI_AUTH": "False", "WEBUI_SECRET_KEY": hashlib.sha256(TOKEN.encode()).hexdigest(),
            "OFFLINE_MODE": "True", "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False",
            "OPENAI_API_BASE_URLS": f"{weft.url}/v1", "OPENAI_API_KEYS": TOKEN,
            "RAG_EMBEDDING_ENGINE": "openai", "RAG_OPENAI_API_BASE_URL": f"{weft.url}/v1", "RAG_OPENAI_API_KEY": TOKEN,
            **dict.fromkeys(off, "False"),
        }
        command = [programs / "open-webui", "serve", "--host", "127.0.0.1", "--port", str(port)]
        self.process = subprocess.Popen(command, cwd=place, env=env, stdout=self.log, stderr=subprocess.STDOUT)
        self.await_start()

    def await_start(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        self.stop()
        raise AssertionError(f"Open WebUI did not start: {self.tail()}")

    def tail(self):
        self.log.flush()
        return Path(self.log.name).read_text()[-3000:]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_weft(place):
    """`weft serve` with an agent that is exposed, and one that is not."""
    for slug in ("golf", "hidden"):
        (place / "agents" / slug).mkdir(parents=True)
        (place / "agents" / slug / "agent.yaml").write_text("type: context\ncontext: Answer in short words.\n")
    settings = {"WEFT_MODEL": "scripted", "WEFT_STORE": f"sqlite:{place}/weft.db"}
    env = {"PATH": os.environ["PATH"], "HOME": str(place), **settings}
    subprocess.run([WEFT, "agents", "expose", "golf", "--openai"], cwd=place, env=env, check=True, stdout=subprocess.DEVNULL)
    command = [WEFT, "serve", "--token", TOKEN, "--listen", "127.0.0.1:0"]
    return Service(command, place, r"listening on (http://127\.0\.0\.1:\d+)", **settings)


def answer_of(weft):
    """The answer of the agent, which is the same each time."""
    body = {"model": "golf", "messages": [{"role": "user", "content": QUESTION}]}
    answer = weft.ask("/v1/chat/completions", body, authorization=f"Bearer {TOKEN}")
    return answer["choices"][0]["message"]["content"]


def check(programs, place, chromium):
    weft = start_weft(place)
    try:
        answer = answer_of(weft)
        page = Page(programs, place, weft)
        try:
            tools = web.install()
            for script in [HERE / "page.mjs", ROOT / "tests/web/browser.mjs"]:
                shutil.copy(script, tools)
            command = ["node", tools / "page.mjs", page.url, QUESTION, answer]
            env = {**os.environ, "CHROMIUM": chromium}
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PAGE_SECONDS)
            assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{page.tail()}"
        finally:
            page.stop()
        asked = weft.ask("/conversations?agent=golf", authorization=f"Bearer {TOKEN}")
        # That of the direct request, and those of the page.
        assert len(asked["conversations"]) >= 2, asked
    finally:
        weft.stop()


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    for found, need, fix in [
        (WEFT.exists(), WEFT, "cargo build -p weftwork-cli --bin weft"),
        (chromium, "Chromium", "scripts/bootstrap.sh"),
    ]:
        if not found:
            print(f"the test needs {need}; run: {fix}")
            return 2
    programs = install()
    begin = time.monotonic()
    problem = None
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(programs, Path(folder).resolve(), chromium)
        except Exception:
            problem = traceback.format_exc()
    seconds = time.monotonic() - begin
    name = "open_webui_lists_an_exposed_agent_and_talks_to_it"
    print(f"        {'FAIL' if problem else 'PASS'} [{seconds:8.3f}s] {name}")
    if problem:
        print(f"openwebui '{name}' panicked at:", problem, sep="\n  ")
    print(f"test result: {'FAILED' if problem else 'ok'}. {int(not problem)} passed; {int(bool(problem))} failed")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
