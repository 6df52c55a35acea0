// A network between a browser and a server, which is cut or loses everything at a word.
import { connect, createServer } from "node:net";

export class Proxy {
  pairs = new Set();
  isSilent = false;

  /** Begins to forward to the server, wherever it listens. */
  async start(server) {
    this.listener = createServer((inner) => {
      const [, port] = server.address.split(":");
      const outer = connect(Number(port), "127.0.0.1");
      const pair = [inner, outer];
      this.pairs.add(pair);
      const end = () => {
        this.pairs.delete(pair);
        for (const socket of pair) socket.destroy();
      };
      for (const [from, to] of [pair, [outer, inner]]) {
        from.on("data", (bytes) => this.isSilent || to.write(bytes));
        from.on("close", end);
        from.on("error", end);
      }
    });
    await new Promise((resolve) => this.listener.listen(0, "127.0.0.1", resolve));
    const address = `127.0.0.1:${this.listener.address().port}`;
    // The server as a page sees it, which needs sessions of its own: cookies belong to an address.
    this.server = Object.create(server, { address: { value: address }, sessions: { value: new Map() } });
    return this;
  }

  /** Ends all connections. */
  cut() {
    for (const pair of this.pairs) for (const socket of pair) socket.destroy();
  }

  /** Loses everything that is sent, as a network without a way does. */
  silence() {
    this.isSilent = true;
  }

  /** Forwards again; what was lost stays lost. */
  restore() {
    this.isSilent = false;
    this.cut();
  }

  close() {
    this.cut();
    this.listener.close();
  }
}
