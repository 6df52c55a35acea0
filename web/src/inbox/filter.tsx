import type { Waiting } from "../api/types";
import { toolOf } from "./subject";

/** What the listed questions have in common; nothing without a member. */
export interface Filter {
  agent?: string;
  tool?: string;
  /** Least age in milliseconds. */
  age?: number;
}

const HOUR = 3_600_000;
const AGES: [ms: number, words: string][] = [
  [10 * 60_000, "10 minutes and more"],
  [HOUR, "an hour and more"],
  [24 * HOUR, "a day and more"],
];

/** Returns the questions that a filter admits. */
export function filtered(waiting: Waiting[], { agent, tool, age }: Filter): Waiting[] {
  const now = Date.now();
  return waiting.filter(
    (one) =>
      (agent === undefined || one.agent === agent) &&
      (tool === undefined || toolOf(one) === tool) &&
      (age === undefined || now - Date.parse(one.created_at) >= age),
  );
}

interface Props {
  waiting: Waiting[];
  filter: Filter;
  onFilter: (filter: Filter) => void;
}

/** Selects questions by agent, tool and age. */
export function Filters({ waiting, filter, onFilter }: Props) {
  const agents = [...new Set(waiting.flatMap(({ agent }) => agent ?? []))].sort();
  const tools = [...new Set(waiting.map(toolOf))].sort();
  const set = (name: keyof Filter, value: string) =>
    onFilter({ ...filter, [name]: value === "" ? undefined : name === "age" ? Number(value) : value });
  return (
    <form className="filters" role="search" aria-label="Questions">
      <Choice label="Agent" value={filter.agent} options={agents.map((agent) => [agent, agent])} onChoose={(value) => set("agent", value)} />
      <Choice label="Tool" value={filter.tool} options={tools.map((tool) => [tool, tool])} onChoose={(value) => set("tool", value)} />
      <Choice label="Waits for" value={filter.age?.toString()} options={AGES.map(([ms, words]) => [String(ms), words])} onChoose={(value) => set("age", value)} />
    </form>
  );
}

interface ChoiceProps {
  label: string;
  value: string | undefined;
  options: [value: string, words: string][];
  onChoose: (value: string) => void;
}

function Choice({ label, value = "", options, onChoose }: ChoiceProps) {
  // A value that no question has any more stays, so that the list does not change by itself.
  const all = value === "" || options.some(([known]) => known === value) ? options : [...options, [value, value] as const];
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => onChoose(event.target.value)}>
        <option value="">any</option>
        {all.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
