import type { Json, JsonObject } from "../api/types";
import { digitsOf, stringify } from "./digits";

/** Returns a value as short text: texts as they are, others as JSON. */
export function plain(value: Json): string {
  return typeof value === "string" ? value : stringify(value);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && digitsOf(value) === undefined;
}

/** Shows a value: the members of an object as a list of names and values, others as JSON. */
export function JsonView({ value, label }: { value: Json; label: string }) {
  if (isObject(value) && Object.keys(value).length > 0) {
    return (
      <dl className="members" aria-label={label}>
        {Object.entries(value).map(([name, member]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{isObject(member) || Array.isArray(member) ? <Text value={member} /> : plain(member)}</dd>
          </div>
        ))}
      </dl>
    );
  }
  return <Text value={value} label={label} />;
}

function Text({ value, label }: { value: Json; label?: string }) {
  const text = typeof value === "string" ? value : stringify(value, 2);
  // Regions that scroll are reached by keyboard.
  return (
    <pre className="json" tabIndex={0} role="group" aria-label={label ?? "value"}>
      {text}
    </pre>
  );
}
