// `weft serve` on the scripted model, over a SQLite store of its own, which is killed and started again.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** Longest time for a server to start, in milliseconds. */
const START_MS = 20_000;

const REFUNDS = `
import json, sqlite3, sys
store = sqlite3.connect(sys.argv[1])
made = store.execute("SELECT 1 FROM sqlite_master WHERE name = 'refunds'").fetchone()
print(json.dumps(store.execute("SELECT order_id, amount_cents FROM refunds ORDER BY refund_id").fetchall() if made else []))
`;

export class Server {
  folder = mkdtempSync(join(tmpdir(), "web-"));
  address = "127.0.0.1:0";
  token = "token-of-the-web-tests";

  /** Starts the server, and waits for its address and the address of its page. */
  async start() {
    const store = `sqlite:${join(this.folder, "store.db")}`;
    const args = ["--model", "scripted", "--store", store, "serve", "--listen", this.address, "--token", this.token];
    this.process = spawn(process.env.WEFT, args, { cwd: this.folder, stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the server did not start: ${this.log}`)), START_MS);
      const read = (line) => {
        this.log += `${line}\n`;
        this.address = /^listening on http:\/\/(\S+)/.exec(line)?.[1] ?? this.address;
        this.page = /(http:\S+\/ui\/\S*)/.exec(line)?.[1] ?? this.page;
        if (/listening/.test(this.log) && /\/ui\//.test(this.log)) {
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

  /** Makes a request with the token of the server, and returns its JSON. */
  async json(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const response = await fetch(`${this.url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  /** The refunds in the database of the order desk, which it creates on first use: order and amount in cents. */
  refunds() {
    return JSON.parse(execFileSync("python3", ["-c", REFUNDS, join(this.folder, "desk.db")], { encoding: "utf8" }));
  }
}
