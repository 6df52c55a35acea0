import { useMemo } from "react";
import type { Topology } from "../api/types";
import { BOX_HEIGHT, ENDS, layoutOf } from "./layout";
import { NODE_STATES, type NodeState } from "./progress";

interface Props {
  topology: Topology;
  states: Map<string, NodeState>;
}

/** The graph of an agent, with the state of its nodes. A list says the same to screen readers. */
export function Graph({ topology, states }: Props) {
  const { width, height, boxes, lines } = useMemo(() => layoutOf(topology), [topology]);
  const stateOf = (id: string) => states.get(id) ?? "idle";
  const nodes = topology.nodes.filter(({ id }) => !(id in ENDS));
  return (
    <figure className="graph">
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true" focusable="false">
        <defs>
          <marker id="arrow" viewBox="0 0 6 6" refX="3" refY="3" markerWidth="6" markerHeight="6" orient="auto">
            <path d="M0 0L6 3L0 6z" />
          </marker>
        </defs>
        {lines.map(({ key, path, isConditional }) => (
          <path key={key} className="line" d={path} data-conditional={isConditional || undefined} markerEnd="url(#arrow)" />
        ))}
        {boxes.map(({ id, x, y, width }) => (
          <g key={id} className="node" data-node={id} data-state={id in ENDS ? "end" : stateOf(id)} transform={`translate(${x} ${y})`}>
            <rect width={width} height={BOX_HEIGHT} rx={id in ENDS ? BOX_HEIGHT / 2 : 8} />
            <text x={width / 2} y={BOX_HEIGHT / 2}>
              {short(ENDS[id] ?? id)}
            </text>
          </g>
        ))}
      </svg>
      <ul className="unseen" aria-label="Nodes">
        {nodes.map(({ id }) => (
          <li key={id}>
            {id}: {NODE_STATES[stateOf(id)]}
          </li>
        ))}
      </ul>
    </figure>
  );
}

function short(name: string): string {
  return name.length > 22 ? `${name.slice(0, 21)}…` : name;
}
