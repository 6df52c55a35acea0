import type { Polled } from "./polled";

/** In place of what was not read yet: that it is read, or why it cannot be, with a retry. */
export function Absent({ of, polled: { error, refresh } }: { of: string; polled: Pick<Polled<unknown>, "error" | "refresh"> }) {
  if (!error) return <p className="empty">Loading the {of}…</p>;
  return (
    <div className="empty" role="alert">
      <p className="problem">
        The {of} cannot be read. {error.message}
      </p>
      <button onClick={refresh}>Try again</button>
    </div>
  );
}
