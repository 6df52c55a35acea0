// Places of nodes in layers from top to bottom: each below the nodes that lead to it, except for lines
// that lead back.
import type { Topology } from "../api/types";

interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
}

interface Line {
  key: string;
  path: string;
  isConditional: boolean;
}

interface Layout {
  width: number;
  height: number;
  boxes: Box[];
  lines: Line[];
}

type Edge = Topology["edges"][number];
type Side = "left" | "right";

const END = "__end__";
/** Words for the two ends of a graph, which have no box. */
export const ENDS: Record<string, string> = { __start__: "start", [END]: "end" };
export const BOX_HEIGHT = 32;
const ROW = 70;
const GAP = 18;
const MARGIN = 10;
/** Room for a line at a side. */
const LANE = 16;

/** Space between the word of an end and the place where a box would begin. */
const END_INSET = 7;

function insetOf({ id }: Box): number {
  return id in ENDS ? END_INSET : 0;
}

function widthOf(id: string): number {
  const end = ENDS[id];
  if (end !== undefined) return 8 + end.length * 7.4;
  return Math.min(190, Math.max(64, 34 + id.length * 7.4));
}

/** Returns the lines that lead back to a node on the way from the start. */
function backLines(nodes: string[], edges: Edge[]): Set<Edge> {
  const back = new Set<Edge>();
  const state = new Map<string, "open" | "done">();
  const visit = (node: string) => {
    state.set(node, "open");
    for (const edge of edges.filter(({ source }) => source === node)) {
      if (state.get(edge.target) === "open") back.add(edge);
      else if (!state.has(edge.target)) visit(edge.target);
    }
    state.set(node, "done");
  };
  for (const node of nodes) if (!state.has(node)) visit(node);
  return back;
}

function layersOf(nodes: string[], forward: Edge[]): Map<string, number> {
  const layers = new Map(nodes.map((node) => [node, 0]));
  // Lines lead down, so each round fixes at least one more layer.
  for (let round = 0; round < nodes.length; round += 1) {
    let isStable = true;
    for (const { source, target } of forward) {
      const below = (layers.get(source) ?? 0) + 1;
      if ((layers.get(target) ?? 0) < below) {
        layers.set(target, below);
        isStable = false;
      }
    }
    if (isStable) break;
  }
  // Lines at the sides would cross the end beside other nodes.
  const last = Math.max(0, ...nodes.filter((node) => node !== END).map((node) => layers.get(node) ?? 0));
  if (layers.has(END)) layers.set(END, last + 1);
  return layers;
}

/** Returns the boxes of a row side by side, in the order of the middles of the boxes that lead to them. */
function place(row: string[], y: number, above: Map<string, Box>, forward: Edge[]): Box[] {
  const middle = (id: string) => {
    const from = forward.filter(({ target }) => target === id).flatMap(({ source }) => above.get(source) ?? []);
    return from.reduce((sum, box) => sum + box.x + box.width / 2, 0) / (from.length || 1);
  };
  const ordered = [...row].sort((a, b) => middle(a) - middle(b));
  let x = 0;
  return ordered.map((id) => {
    const box = { id, x, y, width: widthOf(id) };
    x += box.width + GAP;
    return box;
  });
}

export function layoutOf({ nodes, edges }: Topology): Layout {
  const ids = nodes.map(({ id }) => id);
  const known = edges.filter(({ source, target }) => ids.includes(source) && ids.includes(target));
  const back = backLines(ids, known);
  const forward = known.filter((edge) => !back.has(edge));
  const layers = layersOf(ids, forward);
  const boxes = new Map<string, Box>();
  const rows: Box[][] = [];
  for (let layer = 0; layer <= Math.max(0, ...layers.values()); layer += 1) {
    const row = place(ids.filter((id) => layers.get(id) === layer), MARGIN + layer * ROW, boxes, forward);
    row.forEach((box) => boxes.set(box.id, box));
    rows.push(row);
  }
  const lengthOf = (row: Box[]) => row.reduce((sum, { width }) => sum + width + GAP, -GAP);
  const inner = Math.max(...rows.map(lengthOf));
  const isDirect = ({ source, target }: Edge) => layers.get(target)! - layers.get(source)! === 1;
  const sides = new Map(known.filter((edge) => !isDirect(edge)).map((edge) => [edge, sideOf(edge, rows)]));
  const lanes = { left: [...sides.values()].filter((side) => side === "left").length, right: sides.size };
  lanes.right -= lanes.left;
  const left = MARGIN + LANE * lanes.left;
  for (const row of rows) {
    const shift = left + (inner - lengthOf(row)) / 2;
    row.forEach((box) => (box.x += shift));
  }
  const next = { left, right: left + inner };
  // Lines that lead back are within those that pass layers.
  const ordered = [...known.filter((edge) => back.has(edge)), ...forward];
  const lines = ordered.map((edge): Line => {
    const from = boxes.get(edge.source)!;
    const to = boxes.get(edge.target)!;
    const side = sides.get(edge);
    if (side) next[side] += side === "left" ? -LANE : LANE;
    const path = side ? around(from, to, { side, x: next[side] }) : down(from, to);
    return { key: `${edge.source}>${edge.target}`, path, isConditional: edge.conditional === true };
  });
  const height = MARGIN * 2 + (rows.length - 1) * ROW + BOX_HEIGHT;
  return { width: left + inner + LANE * lanes.right + MARGIN, height, boxes: [...boxes.values()], lines };
}

/** Returns the side at which a line that leads back, or passes a layer, crosses fewer boxes. */
function sideOf({ source, target }: Edge, rows: Box[][]): Side {
  const crossed = { left: 0, right: 0 };
  for (const id of [source, target]) {
    const row = rows.find((row) => row.some((box) => box.id === id)) ?? [];
    const at = row.findIndex((box) => box.id === id);
    crossed.left += at;
    crossed.right += row.length - 1 - at;
  }
  return crossed.left < crossed.right ? "left" : "right";
}

function down(from: Box, to: Box): string {
  const [x1, y1] = [from.x + from.width / 2, from.y + BOX_HEIGHT - insetOf(from)];
  const [x2, y2] = [to.x + to.width / 2, to.y + insetOf(to)];
  const middle = (y1 + y2) / 2;
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2 - 5}`;
}

function around(from: Box, to: Box, { side, x }: { side: Side; x: number }): string {
  const out = side === "left" ? -1 : 1;
  const edge = (box: Box) => (side === "left" ? box.x : box.x + box.width);
  const y2 = to.y + BOX_HEIGHT / 2;
  // A line down begins below those that arrive.
  const y1 = from.y + BOX_HEIGHT * (to.y > from.y ? 0.78 : 0.5);
  const bend = y2 > y1 ? 8 : -8;
  const corner = x - 8 * out;
  return `M${edge(from)} ${y1}H${corner}Q${x} ${y1} ${x} ${y1 + bend}V${y2 - bend}Q${x} ${y2} ${corner} ${y2}H${edge(to) + 5 * out}`;
}
