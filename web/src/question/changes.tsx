import type { Difference } from "../shared/diff";
import { plain } from "../shared/json";

/** Shows changes: the old value struck out, and the new one. */
export function Changes({ changes, none = "No changes yet." }: { changes: Difference[]; none?: string }) {
  if (changes.length === 0) return <p className="none">{none}</p>;
  return (
    <ul className="changes" aria-label="Changes">
      {changes.map(({ path, before, after }) => (
        <li key={path}>
          <span>{path}</span> {before !== undefined && <del>{plain(before)}</del>}{" "}
          {after !== undefined && <ins>{plain(after)}</ins>}
        </li>
      ))}
    </ul>
  );
}
