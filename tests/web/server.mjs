// `weft serve` over a SQLite store of its own, which is killed and started again: on the scripted model, or on
// one of the tests, with tools of the tests.
import { execFileSync, spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { appendFileSync, copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** Longest time for a server to start, in milliseconds. */
const START_MS = 90_000;

const REFUNDS = `
import json, sqlite3, sys
store = sqlite3.connect(sys.argv[1])
made = store.execute("SELECT 1 FROM sqlite_master WHERE name = 'refunds'").fetchone()
print(json.dumps(store.execute("SELECT order_id, amount_cents FROM refunds ORDER BY refund_id").fetchall() if made else []))
`;

const DAMAGE = `
import json, sqlite3, sys
with sqlite3.connect(sys.argv[1]) as store:
    for name, sql in json.loads(sys.argv[2]).items():
        assert store.execute(sql, {"id": name}).rowcount > 0, name
`;

export class Server {
  folder = mkdtempSync(join(tmpdir(), "web-"));
  address = "127.0.0.1:0";
  token = "token-of-the-web-tests";
  offers = [];
  /** Further arguments of `weft serve`. */
  flags = [];
  /** Sessions of the page by their tokens. */
  sessions = new Map();

  /** `model` is that of a laboratory, or the name of an own one; without it, the scripted model answers. */
  constructor(model) {
    this.model = model;
  }

  /** Names the tools of the laboratory, and allows them. */
  allowTools() {
    for (const name of ["tools_server.py", "clock_server.py"]) copyFileSync(join(import.meta.dirname, name), join(this.folder, name));
    const servers = { mcpServers: { lab: { command: "python3", args: ["tools_server.py"] } } };
    writeFileSync(join(this.folder, "mcp.json"), JSON.stringify(servers));
    const allow = (tools, shown, effect = "read-only", more = ["--idempotent"]) => {
      const args = ["mcp", "allow", ...tools, "--effect", effect, ...more, ...shown.flatMap((name) => ["--shown", name])];
      execFileSync(process.env.WEFT, [...this.options(), ...args], { cwd: this.folder, env: this.env(), stdio: "ignore" });
    };
    allow(["lab/slow", "lab/large", "lab/broken"], ["."]);
    allow(["lab/account"], ["number", "owner"]);
    allow(["lab/careful"], ["."], "state-change");
    allow(["lab/pay"], ["."], "external-side-effect", []);
    return this;
  }

  /** Offers a model with a price, in dollars per million tokens, beside the usual one. */
  offerModel(name, input, output) {
    writeFileSync(join(this.folder, "weft.toml"), `[providers.openai]\nprices = [{ name = "${name}", input = ${input}, output = ${output} }]\n`);
    return this.offer(name);
  }

  /** Offers a model at an address elsewhere, which the model of the tests answers as the proxy. */
  offerUnpriced(name) {
    const proxy = `[egress]\nproxy = "${new URL(this.model.url).origin}"\n`;
    const provider = `[providers.far]\nurl = "http://models.example/v1"\nkey_optional = true\n`;
    appendFileSync(join(this.folder, "weft.toml"), `${proxy}${provider}`);
    return this.offer(name, "far");
  }

  /** Offers a model beside the usual one. */
  offer(name, provider = "openai") {
    this.offers.push("--offer-model", `${provider}:${name}`);
    return this;
  }

  /** Accepts a further token, with these rights, and returns it. */
  addKey(subject, rights) {
    const args = ["keys", "add", join(this.folder, "keys"), "--subject", subject, "--rights", rights];
    if (!this.flags.includes("--keys")) this.flags.push("--keys", join(this.folder, "keys"));
    const options = { cwd: this.folder, env: this.env(), encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] };
    return execFileSync(process.env.WEFT, args, options).trim();
  }

  /** Signs the cards of agents. */
  signCards() {
    const { privateKey } = generateKeyPairSync("ed25519");
    const file = join(this.folder, "cards.pem");
    writeFileSync(file, privateKey.export({ type: "pkcs8", format: "pem" }));
    this.flags.push("--a2a-key", file);
    return this;
  }

  /** The rows of `weft usage`. */
  usage(...args) {
    const options = { cwd: this.folder, env: this.env(), encoding: "utf8" };
    const lines = execFileSync(process.env.WEFT, [...this.options(), "usage", "--json", ...args], options);
    return lines.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }

  env() {
    return { ...process.env, ...(this.model?.url && { OPENAI_BASE_URL: this.model.url, OPENAI_API_KEY: "none" }) };
  }

  options() {
    const store = `sqlite:${join(this.folder, "store.db")}`;
    const model = this.model?.url ? ["--model", "openai:test", "--mcp", join(this.folder, "mcp.json")] : ["--model", this.model ?? "scripted"];
    return [...model, "--store", store];
  }

  command() {
    const args = [...this.options(), "serve", "--listen", this.address, "--token", this.token, ...this.offers, ...this.flags];
    return { program: process.env.WEFT, args };
  }

  /** Starts the server, and waits for its address and the address of its page. */
  async start() {
    const { program, args } = this.command();
    this.process = spawn(program, args, { cwd: this.folder, env: this.env(), stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the server did not start: ${this.log}`)), START_MS);
      const read = (line) => {
        this.log += `${line}\n`;
        this.address = /^listening on http:\/\/(\S+)/.exec(line)?.[1] ?? this.address;
        this.page = /(http:\S+\/ui\/\S*)/.exec(line)?.[1] ?? this.page;
        if (/listening/.test(this.log) && this.page !== undefined) {
          clearTimeout(timer);
          resolve();
        }
      };
      for (const stream of [this.process.stdout, this.process.stderr]) createInterface({ input: stream }).on("line", read);
    });
    return this;
  }

  get url() {
    return `http://${this.address}`;
  }

  /** Ends the call of a slow tool. */
  release() {
    writeFileSync(join(this.folder, "release"), "");
  }

  /** Continues a thread in the terminal with lines, and returns what is written there. The model of the tests answers. */
  async chat(thread, lines) {
    const args = [...this.options(), "chat", "--thread", thread];
    const chat = spawn(process.env.WEFT, args, { cwd: this.folder, env: this.env(), stdio: ["pipe", "pipe", "pipe"] });
    let said = "";
    for (const stream of [chat.stdout, chat.stderr]) stream.on("data", (bytes) => (said += bytes));
    chat.stdin.end(lines.map((line) => `${line}\n`).join(""));
    await new Promise((resolve) => chat.once("close", resolve));
    return said;
  }

  /** The orders that were paid, once for each payment. */
  payments() {
    const file = join(this.folder, "payments");
    return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  }

  /** Stops the server without an end, so that it accepts connections and answers nothing. */
  freeze() {
    this.process.kill("SIGSTOP");
  }

  /** Lets a server go on that was stopped. */
  thaw() {
    this.process.kill("SIGCONT");
  }

  /** Kills the server as `kill -9` does. */
  async kill() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }

  async close() {
    if (this.process.exitCode === null && this.process.signalCode === null) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The cookie of a session of the page. */
  async cookie(token = this.token) {
    if (!this.sessions.has(token)) {
      const headers = { origin: this.url, "content-type": "application/json" };
      const response = await fetch(`${this.url}/ui/session`, { method: "POST", headers, body: JSON.stringify({ token }) });
      const [name, value] = response.headers.get("set-cookie").split(";")[0].split("=");
      this.sessions.set(token, { name, value, domain: "127.0.0.1", path: "/", httpOnly: true, sameSite: "Strict" });
    }
    return this.sessions.get(token);
  }

  /** Says something on a thread of the order desk, and waits for the end of the answer. */
  async say(thread, text) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const body = JSON.stringify({ threadId: thread, messages: [{ role: "user", content: [{ type: "text", text }] }] });
    await (await fetch(`${this.url}/chat/desk`, { method: "POST", headers, body })).text();
  }

  /** The stored messages of a thread of the order desk. */
  messages(thread, agent = "desk") {
    return this.json("GET", `/chat/${agent}/${thread}`);
  }

  /** Makes a request with the token of the server, and returns its JSON. */
  async json(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const response = await fetch(`${this.url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  /** Executes an SQL statement for each of these threads of a server that was killed. */
  damage(statements) {
    execFileSync("python3", ["-c", DAMAGE, join(this.folder, "store.db"), JSON.stringify(statements)]);
  }

  /** The refunds in the database of the order desk, which it creates on first use: order and amount in cents. */
  refunds() {
    return JSON.parse(execFileSync("python3", ["-c", REFUNDS, join(this.folder, "desk.db")], { encoding: "utf8" }));
  }
}

/** A program with graphs of its own, which serves the page without authentication. */
export class Program extends Server {
  command() {
    return { program: process.env.WEFT_REFERENCE_SERVER, args: ["--listen", this.address, "--store", `sqlite:${join(this.folder, "store.db")}`] };
  }

  get page() {
    return `${this.url}/ui/`;
  }

  set page(_) {}

  async cookie() {
    return { name: "none", value: "none", domain: "127.0.0.1", path: "/" };
  }
}
