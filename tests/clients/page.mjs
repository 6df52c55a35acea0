// A page of a browser in which React components are mounted and mounted again.
import assert from "node:assert/strict";
import { Window } from "happy-dom";

const window = new Window({ url: "http://localhost/" });
const own = { window, document: window.document, sessionStorage: window.sessionStorage, localStorage: window.localStorage };
for (const [name, value] of Object.entries(own)) {
  Object.defineProperty(globalThis, name, { value, configurable: true });
}
// React reads these globals when it is imported.
const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");

/**
 * Mounts a component that calls a hook; `now` of the result is what the hook returned last. `around`
 * makes the elements around the component.
 */
export function mount(hook, around = (element) => element) {
  const mounted = { now: undefined };
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  root.render(around(createElement(() => {
    mounted.now = hook();
    return null;
  })));
  mounted.unmount = () => root.unmount();
  return mounted;
}

/** Waits until a condition holds, and returns its value. */
export async function until(condition, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    const value = condition();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not within ${seconds} s: ${condition}`);
}

/** A reload while a run of `slow` streams: `open` mounts the page, and `submit` begins the run. */
export async function reload(open, submit) {
  const steps = 30;
  const first = open();
  await until(() => first.now);
  submit(first.now, { steps, delay: 0.2 });
  await until(() => first.now.values?.log?.length >= 3);
  const seen = first.now.values.log.length;
  assert.ok(seen < steps, `${seen} steps before the reload`);
  first.unmount();
  const second = open();
  await until(() => second.now?.isLoading);
  await until(() => second.now.values?.log?.length > seen && second.now.isLoading);
  await until(() => second.now.values?.log?.length === steps && !second.now.isLoading);
  assert.deepEqual(second.now.values.log, Array.from({ length: steps }, (_, n) => `step${n}`));
  second.unmount();
}
