import type { Json, JsonObject } from "../api/types";
import { plain } from "../shared/json";

export interface Change {
  name: string;
  before: Json | undefined;
  after: Json | undefined;
}

/** Returns the members in which two objects differ. */
export function changesOf(before: JsonObject, after: JsonObject): Change[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .map((name) => ({ name, before: before[name], after: after[name] }))
    .filter((change) => JSON.stringify(change.before) !== JSON.stringify(change.after));
}

/** Shows changes: the old value struck out, and the new one. */
export function Changes({ changes, none = "No changes yet." }: { changes: Change[]; none?: string }) {
  if (changes.length === 0) return <p className="none">{none}</p>;
  return (
    <ul className="changes" aria-label="Changes">
      {changes.map(({ name, before, after }) => (
        <li key={name}>
          <span>{name}</span> {before !== undefined && <del>{plain(before)}</del>}{" "}
          {after !== undefined && <ins>{plain(after)}</ins>}
        </li>
      ))}
    </ul>
  );
}
