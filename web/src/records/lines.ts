// Differences of two texts by their lines.

export interface Line {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Largest number of pairs of lines that are compared; of more, all are different. */
const PAIRS_MAX = 4_000_000;

/** Returns the lines of two texts in one order, with the longest common part. */
export function linesOf(before: string, after: string): Line[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let start = 0;
  while (start < Math.min(old.length, now.length) && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const line = (kind: Line["kind"]) => (text: string) => ({ kind, text });
  return [
    ...old.slice(0, start).map(line("same")),
    ...middle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map(line("same")),
  ];
}

function middle(old: string[], now: string[]): Line[] {
  const width = now.length + 1;
  if (old.length * now.length > PAIRS_MAX) return [...old.map((text) => ({ kind: "removed" as const, text })), ...now.map((text) => ({ kind: "added" as const, text }))];
  // Length of the longest common part from each pair of lines on.
  const common = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number) => common[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      common[row * width + column] = old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: Line[] = [];
  let row = 0;
  let column = 0;
  while (row < old.length || column < now.length) {
    const [before, after] = [old[row], now[column]];
    if (before !== undefined && before === after) {
      lines.push({ kind: "same", text: before });
      row += 1;
      column += 1;
    } else if (before !== undefined && (after === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push({ kind: "removed", text: before });
      row += 1;
    } else {
      lines.push({ kind: "added", text: after ?? "" });
      column += 1;
    }
  }
  return lines;
}
