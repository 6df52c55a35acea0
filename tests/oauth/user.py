"""A person with `weft`, a browser and a home folder of their own."""

import html
import http.cookiejar
import json
import os
import re
import subprocess
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

NEEDS_LOGIN = "W0915"


class Browser:
    """Follows redirects, keeps cookies, and fills in each form that it is shown."""

    FIELDS = {"login": "person", "password": "anything"}

    def __init__(self):
        cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))

    def visit(self, url, **fields):
        """Opens a page, and those that its forms lead to, until one has no form."""
        data = None
        for _ in range(20):
            with self.opener.open(url, data, timeout=30) as response:
                url, page = response.geturl(), response.read().decode("utf-8", "replace")
            form = re.search(r"<form[^>]*>.*?</form>", page, re.S)
            if not form:
                return page
            form = form.group()
            action = re.search(r'<form[^>]*\saction="([^"]*)"', form)
            url = urllib.parse.urljoin(url, html.unescape(action.group(1)) if action else url)
            data = urllib.parse.urlencode(self.values(form, fields)).encode()
        raise AssertionError(f"too many forms, at last {url}: {page}")

    def values(self, form, fields):
        values = {}
        for element in re.findall(r"<input[^>]*>", form):
            of = dict(re.findall(r'(\w+)="([^"]*)"', element))
            name = of.get("name")
            if name:
                known = {**self.FIELDS, **fields}
                values[name] = known.get(name, html.unescape(of.get("value", "")))
        return values


class User:
    """Runs `weft` with a file of one server, `web`, in a folder of its own."""

    def __init__(self, url, oauth=None):
        self.folder = tempfile.TemporaryDirectory(prefix="oauth-")
        self.home = Path(self.folder.name)
        entry = {"url": url, **({"oauth": oauth} if oauth else {})}
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": {"web": entry}}))
        # Authorization servers of tests are on other ports of this machine.
        (self.home / "weft.toml").write_text('[egress]\nallow = ["localhost", "127.0.0.1"]\n')
        self.browser = Browser()

    def start(self, *args):
        weft = os.environ["WEFT"]
        env = {"HOME": self.folder.name, "PATH": os.environ["PATH"], "WEFT_STORE": "memory", "WEFT_MODEL": "scripted"}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [weft, "--mcp", "mcp.json", "mcp", *args]
        return subprocess.Popen(command, cwd=self.home, env=env, text=True, **pipes)

    def weft(self, *args):
        """Runs a command; returns its status and all of its output."""
        process = self.start(*args)
        out, errors = process.communicate(timeout=120)
        return process.returncode, out + errors

    def log_in(self, *args):
        """Logs in with the browser; returns the status and what was printed."""
        process = self.start("login", "web", "--no-open", *args)
        said = []
        for line in process.stderr:
            said.append(line)
            code = re.search(r"open (http\S+) and type the code (\S+)", line)
            if code:
                self.browser.visit(code.group(1), user_code=code.group(2))
            elif line.startswith("http"):
                self.browser.visit(line.strip())
        said.append(process.stdout.read())
        return process.wait(timeout=60), "".join(said)

    def call(self, tool):
        return self.weft("call", f"web/{tool}")

    def allow(self, tool):
        return self.weft("allow", f"web/{tool}", "--effect", "read-only", "--shown", ".")

    def login_files(self):
        return sorted((self.home / ".local/share/weftwork/mcp-logins").glob("*"))
