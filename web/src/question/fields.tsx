// Forms made from JSON schemas: a field for each member with a simple type, JSON for the others.
import type { Json, JsonObject, Schema } from "../api/types";
import { digitsOf, parse, stringify } from "../shared/digits";

type Kind = "text" | "number" | "integer" | "boolean" | "choice" | "json";

/** Returns the values to choose from, with their labels; `undefined` if there is no list. */
export function choicesOf(schema: Schema | undefined): { value: Json; label: string }[] | undefined {
  if (schema?.type === "boolean") {
    return [
      { value: true, label: "Yes" },
      { value: false, label: "No" },
    ];
  }
  if (schema?.enum) return schema.enum.map((value) => ({ value, label: String(value) }));
  const forms = schema?.oneOf ?? schema?.anyOf;
  if (!forms?.length || !forms.every((form) => form.const !== undefined)) return undefined;
  return forms.map(({ const: value, title }) => ({ value: value!, label: title ?? String(value) }));
}

/** Returns a schema in which nothing is chosen for the person: no defaults, and `boolean` members without a value. */
export function withoutDefaults(schema: Schema | undefined): Schema | undefined {
  const members = Object.entries(schema?.properties ?? {}).map(([name, { default: _, ...member }]): [string, Schema] => [
    name,
    member.type === "boolean" ? { ...member, type: undefined, oneOf: BOOLEANS } : member,
  ]);
  return schema?.properties ? { ...schema, properties: Object.fromEntries(members) } : schema;
}

const BOOLEANS: Schema[] = [
  { const: true, title: "Yes" },
  { const: false, title: "No" },
];

function kindOf(schema: Schema | undefined): Kind {
  const types = [schema?.type].flat().filter((type) => type !== "null");
  if (types.length === 1 && types[0] === "boolean") return "boolean";
  if (choicesOf(schema)) return "choice";
  if (types.length !== 1) return "json";
  if (types[0] === "string") return "text";
  return types[0] === "number" || types[0] === "integer" ? types[0] : "json";
}

/** Returns the members that a form has: those of the schema, and those of the value beside it. */
function membersOf(schema: Schema | undefined, value: JsonObject): [string, Schema | undefined][] {
  const known = Object.entries(schema?.properties ?? {});
  const more = Object.keys(value).filter((name) => !(schema?.properties && name in schema.properties));
  return [...known, ...more.map((name): [string, Schema | undefined] => [name, guessed(value[name]!)])];
}

function guessed(value: Json): Schema | undefined {
  return digitsOf(value) !== undefined ? { type: "integer" } : ["string", "number", "boolean"].includes(typeof value) ? { type: typeof value } : undefined;
}

/** The fields of an object. */
export function Fields({ schema, value }: { schema: Schema | undefined; value: JsonObject }) {
  return membersOf(schema, value).map(([name, member]) => (
    <label key={name} className="field">
      <span>{member?.title ?? name}</span>
      <Field name={name} schema={member} value={value[name] ?? member?.default} required={schema?.required?.includes(name)} />
      {member?.description && <small>{member.description}</small>}
    </label>
  ));
}

interface FieldProps {
  name: string;
  schema: Schema | undefined;
  value: Json | undefined;
  required: boolean | undefined;
}

function Field({ name, schema, value, required }: FieldProps) {
  const kind = kindOf(schema);
  if (kind === "boolean") return <input type="checkbox" name={name} defaultChecked={value === true} />;
  if (kind === "choice") {
    return (
      <select name={name} defaultValue={value === undefined ? "" : JSON.stringify(value)} required={required}>
        {value === undefined && <option value="">Choose…</option>}
        {choicesOf(schema)?.map((choice) => (
          <option key={choice.label} value={JSON.stringify(choice.value)}>
            {choice.label}
          </option>
        ))}
      </select>
    );
  }
  if (kind === "number" || kind === "integer") {
    const step = kind === "integer" ? 1 : "any";
    const bounds = { min: schema?.minimum, max: schema?.maximum, step };
    return <input type="number" name={name} defaultValue={digitsOf(value) ?? (value as number | undefined)} required={required} {...bounds} />;
  }
  const shown = kind === "json" && value !== undefined ? stringify(value, 2) : ((value as string | undefined) ?? "");
  const long = kind === "json" || shown.length > 60;
  if (long) return <textarea name={name} rows={4} defaultValue={shown} required={required} />;
  return <input name={name} defaultValue={shown} required={required} maxLength={schema?.maxLength} />;
}

/** Returns the object that a form has; members that are empty and not required are left out. */
export function valueOfForm(form: HTMLFormElement, schema: Schema | undefined, before: JsonObject): JsonObject {
  const found: JsonObject = {};
  for (const [name, member] of membersOf(schema, before)) {
    const field = form.elements.namedItem(name);
    if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement || field instanceof HTMLSelectElement)) continue;
    const value = valueOfField(field, kindOf(member));
    if (value !== undefined && (value !== "" || schema?.required?.includes(name) || name in before)) found[name] = value;
  }
  return found;
}

function valueOfField(field: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement, kind: Kind): Json | undefined {
  if (kind === "boolean") return (field as HTMLInputElement).checked;
  if (kind === "text") return field.value;
  if (field.value.trim() === "") return undefined;
  try {
    const value = parse(field.value) as Json;
    field.setCustomValidity("");
    return value;
  } catch {
    // The browser shows this, and does not submit the form.
    field.setCustomValidity("This is no JSON.");
    return field.value;
  }
}
