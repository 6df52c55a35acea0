// Facts that a stream reports about its run: nodes that started and ended, and stored checkpoints.
import { keyOf, stepOfEvent, type Step } from "../orchestration/data";
import { Store } from "../shared/store";

export type Live = "running" | "done";

export interface RunState {
  /** Nodes of the outermost graph that were reported since the run began. */
  nodes: ReadonlyMap<string, Live>;
  /** Number of checkpoints that were reported. */
  checkpoints: number;
  /** Steps of orchestrations that were reported, by their paths. */
  steps: ReadonlyMap<string, Step>;
}

interface NodeFact {
  node: string;
  ns: string;
  status: "started" | "ended";
}

/** Collects facts. */
export class RunFacts extends Store<RunState> {
  constructor() {
    super({ nodes: new Map(), checkpoints: 0, steps: new Map() });
  }

  /** Removes the nodes of the run before. */
  begin(): void {
    this.set({ ...this.read(), nodes: new Map() });
  }

  add({ name, data }: { name: string; data: unknown }): void {
    const state = this.read();
    if (name === "checkpoint") this.set({ ...state, checkpoints: state.checkpoints + 1 });
    const step = name === "custom" ? stepOfEvent(data) : undefined;
    if (step) this.set({ ...state, steps: new Map(state.steps).set(keyOf(step), step) });
    if (name !== "node") return;
    const { node, ns, status } = data as NodeFact;
    // Nodes of subgraphs are not drawn.
    if (ns !== "") return;
    const nodes = new Map(state.nodes).set(node, status === "started" ? "running" : "done");
    this.set({ ...state, nodes });
  }
}
