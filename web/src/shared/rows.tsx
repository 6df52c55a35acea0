import type { ReactNode } from "react";

/** Facts as rows of a name and a value. A fact without a value is left out. */
export function Rows({ label, rows }: { label: string; rows: [name: string, value: ReactNode][] }) {
  return (
    <dl className="members" aria-label={label}>
      {rows
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
