// Facts that a stream reports about its run: nodes that started and ended, and stored checkpoints.
import { useSyncExternalStore } from "react";

export type Live = "running" | "done";

export interface RunState {
  /** Nodes of the outermost graph that were reported since the run began. */
  nodes: ReadonlyMap<string, Live>;
  /** Number of checkpoints that were reported. */
  checkpoints: number;
}

interface NodeFact {
  node: string;
  ns: string;
  status: "started" | "ended";
}

/** Collects facts, and calls its listeners when one changes what is known. */
export class RunFacts {
  private state: RunState = { nodes: new Map(), checkpoints: 0 };
  private readonly listeners = new Set<() => void>();

  /** Forgets the nodes of the run before. */
  begin(): void {
    this.change({ ...this.state, nodes: new Map() });
  }

  add({ name, data }: { name: string; data: unknown }): void {
    if (name === "checkpoint") this.change({ ...this.state, checkpoints: this.state.checkpoints + 1 });
    if (name !== "node") return;
    const { node, ns, status } = data as NodeFact;
    // Nodes of subgraphs are not drawn.
    if (ns !== "") return;
    const nodes = new Map(this.state.nodes).set(node, status === "started" ? "running" : "done");
    this.change({ ...this.state, nodes });
  }

  private change(state: RunState): void {
    this.state = state;
    this.listeners.forEach((listener) => listener());
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  readonly read = (): RunState => this.state;
}

export function useRunFacts(facts: RunFacts): RunState {
  return useSyncExternalStore(facts.subscribe, facts.read);
}
