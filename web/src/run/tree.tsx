import { useState } from "react";
import type { Json } from "../api/types";
import { differences } from "../shared/diff";
import { parse } from "../shared/digits";
import { isObject, plain } from "../shared/json";

/** Length of a text above which its beginning is shown. */
const TEXT_MAX = 240;

type Container = Json[] | { [name: string]: Json };

function isContainer(value: Json | undefined): value is Container {
  return isObject(value) || Array.isArray(value);
}

/** Returns the value of a text of JSON, such as the result of a tool in a message; others as they are. */
function parsed(value: Json): Json {
  if (typeof value !== "string" || !/^\s*[{[]/.test(value)) return value;
  try {
    return parse(value) as Json;
  } catch {
    return value;
  }
}

/** Returns the members of a value that say something: messages have many that are empty. */
function membersOf(value: Container): [name: string, member: Json][] {
  if (Array.isArray(value)) return value.map((member, at) => [String(at + 1), member]);
  const isEmpty = (member: Json) => member === null || (isContainer(member) && Object.keys(member).length === 0);
  const full = Object.entries(value).filter(([, member]) => !isEmpty(member));
  return full.map(([name, member]) => [name, parsed(member)]);
}

function memberOf(value: Container, name: string): Json | undefined {
  const member = Array.isArray(value) ? value[Number(name) - 1] : value[name];
  return member === undefined ? undefined : parsed(member);
}

/** Returns what a value is about, for the line of a member that is closed. */
function gist(value: Container): string {
  if (Array.isArray(value)) return value.length === 1 ? "1 entry" : `${value.length} entries`;
  const { type, name, content } = value;
  const words = [type, name, content].filter((part): part is string => typeof part === "string" && part !== "" && !isContainer(parsed(part)));
  return words.length > 0 ? words.join(" · ").slice(0, 80) : Object.keys(value).slice(0, 4).join(", ");
}

function Text({ value, as: As = "span" }: { value: Json; as?: "span" | "ins" | "del" }) {
  const [isWhole, setIsWhole] = useState(false);
  const text = plain(value);
  if (text.length <= TEXT_MAX || isWhole) return <As className="value">{text}</As>;
  return (
    <>
      <As className="value">{text.slice(0, TEXT_MAX)}…</As>{" "}
      <button className="quiet" onClick={() => setIsWhole(true)}>
        All {text.length.toLocaleString("en")} characters
      </button>
    </>
  );
}

/** A value as a tree of its members, each with its name. Members of members open on request. */
export function ValueTree({ value, label }: { value: Json; label?: string }) {
  if (!isContainer(value)) return <Text value={value} />;
  return (
    <ul className="tree" aria-label={label}>
      {membersOf(value).map(([name, member]) => (
        <li key={name}>
          {isContainer(member) ? (
            <details>
              <summary>
                <code>{name}</code> <span className="gist">{gist(member)}</span>
              </summary>
              <ValueTree value={member} />
            </details>
          ) : (
            <>
              <code>{name}</code> <Text value={member} />
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

interface Compared {
  before: Json | undefined;
  after: Json | undefined;
}

/** The differences of two values as a tree by their path: what was added, removed and changed. */
export function DiffTree({ before, after, label }: Compared & { label?: string }) {
  if (!isContainer(before) || !isContainer(after)) return <Change before={before} after={after} />;
  const names = [...new Set([...membersOf(before), ...membersOf(after)].map(([name]) => name))];
  const changed = names
    .map((name) => ({ name, before: memberOf(before, name), after: memberOf(after, name) }))
    .filter((one) => differences(one.before, one.after).length > 0);
  return (
    <ul className="tree" aria-label={label}>
      {changed.map(({ name, before, after }) => (
        <li key={name}>
          <Difference name={name} before={before} after={after} />
        </li>
      ))}
    </ul>
  );
}

function Difference({ name, before, after }: Compared & { name: string }) {
  const whole = before === undefined ? after : after === undefined ? before : undefined;
  if (isContainer(whole)) {
    return (
      <details open>
        <summary>
          <code>{name}</code> {before === undefined ? <ins>added</ins> : <del>removed</del>} <span className="gist">{gist(whole)}</span>
        </summary>
        <ValueTree value={whole} />
      </details>
    );
  }
  if (isContainer(before) && isContainer(after)) {
    return (
      <details open>
        <summary>
          <code>{name}</code>
        </summary>
        <DiffTree before={before} after={after} />
      </details>
    );
  }
  return (
    <>
      <code>{name}</code> <Change before={before} after={after} />
    </>
  );
}

function Change({ before, after }: Compared) {
  return (
    <>
      {before !== undefined && <Text value={before} as="del" />} {after !== undefined && <Text value={after} as="ins" />}
    </>
  );
}
