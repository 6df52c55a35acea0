// Places of nodes in layers from top to bottom: each below the nodes that lead to it, except for lines
// that lead back.
import type { Topology } from "../api/types";

export interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
}

export interface Line {
  key: string;
  path: string;
  isConditional: boolean;
}

export interface Layout {
  width: number;
  height: number;
  boxes: Box[];
  lines: Line[];
}

export const BOX_HEIGHT = 32;
const ROW = 70;
const GAP = 18;
const MARGIN = 10;
/** Room for lines that lead back, at the right side. */
const LANE = 16;

function widthOf(id: string): number {
  return Math.min(190, Math.max(64, 34 + id.length * 7.4));
}

/** Returns the lines that lead back to a node on the way from the start. */
function backLines(nodes: string[], edges: Topology["edges"]): Set<Topology["edges"][number]> {
  const back = new Set<Topology["edges"][number]>();
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

function layersOf(nodes: string[], forward: Topology["edges"]): Map<string, number> {
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
  return layers;
}

/** Returns the boxes of a row side by side, in the order of the middles of the boxes that lead to them. */
function place(row: string[], y: number, above: Map<string, Box>, forward: Topology["edges"]): Box[] {
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
  for (const row of rows) {
    const shift = MARGIN + (inner - lengthOf(row)) / 2;
    row.forEach((box) => (box.x += shift));
  }
  // Lines that lead back, or pass a layer, are at the sides.
  let lane = 0;
  const right = MARGIN + inner;
  const lines = known.map((edge): Line => {
    const { source, target, conditional } = edge;
    const from = boxes.get(source)!;
    const to = boxes.get(target)!;
    const isDirect = layers.get(target)! - layers.get(source)! === 1;
    const path = isDirect ? down(from, to) : around(from, to, right + LANE * (lane += 1));
    return { key: `${source}>${target}`, path, isConditional: conditional === true };
  });
  return { width: right + LANE * lane + MARGIN, height: MARGIN * 2 + (rows.length - 1) * ROW + BOX_HEIGHT, boxes: [...boxes.values()], lines };
}

function down(from: Box, to: Box): string {
  const [x1, y1] = [from.x + from.width / 2, from.y + BOX_HEIGHT];
  const [x2, y2] = [to.x + to.width / 2, to.y];
  const middle = (y1 + y2) / 2;
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2 - 5}`;
}

function around(from: Box, to: Box, x: number): string {
  const [x1, y1] = [from.x + from.width, from.y + BOX_HEIGHT / 2];
  const [x2, y2] = [to.x + to.width, to.y + BOX_HEIGHT / 2];
  const bend = y2 > y1 ? 8 : -8;
  return `M${x1} ${y1}H${x - 8}Q${x} ${y1} ${x} ${y1 + bend}V${y2 - bend}Q${x} ${y2} ${x - 8} ${y2}H${x2 + 5}`;
}
