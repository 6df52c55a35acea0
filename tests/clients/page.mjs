// A page of a browser in which React components are mounted and mounted again.
import { Window } from "happy-dom";

const window = new Window({ url: "http://localhost/" });
const own = { window, document: window.document, sessionStorage: window.sessionStorage, localStorage: window.localStorage };
for (const [name, value] of Object.entries(own)) {
  Object.defineProperty(globalThis, name, { value, configurable: true });
}
// React reads these globals when it is imported.
const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");

/** Mounts a component that calls a hook; `now` of the result is what the hook returned last. */
export function mount(hook) {
  const mounted = { now: undefined };
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  root.render(createElement(() => {
    mounted.now = hook();
    return null;
  }));
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
