import { useEffect, useRef } from "react";
import { go } from "./route";

const KEYS: [keys: string[], effect: string][] = [
  [["j", "k"], "Choose the next or the previous question of the inbox"],
  [["a"], "Approve the chosen call"],
  [["e"], "Edit its arguments"],
  [["r"], "Reject it"],
  [["x"], "Select it, to decide about several that are alike"],
  [["g", "i"], "Open the inbox"],
  [["g", "n"], "Begin a chat"],
  [["g", "u"], "Open the usage"],
  [["/"], "Search threads"],
  [["Enter"], "Send; with Shift, begin a line"],
  [["Esc"], "Leave a form"],
  [["?"], "Show these keys"],
];

/** Returns `true` for an event that is part of a text that is typed, or of a key of the browser. */
export function isTyped(event: KeyboardEvent): boolean {
  const { target } = event;
  const writes = target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select");
  return writes || event.ctrlKey || event.metaKey || event.altKey;
}

/** The keys of the page, in a dialog that `?` opens, and those that lead from view to view. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    let before = "";
    const onKey = (event: KeyboardEvent) => {
      if (isTyped(event)) return;
      const keys = before + event.key;
      before = event.key === "g" ? "g" : "";
      if (keys === "gi") go({ view: "inbox", tab: "open" });
      else if (keys === "gn") go({ view: "new" });
      else if (keys === "gu") go({ view: "usage" });
      else if (event.key === "?") dialog.current?.showModal();
      else if (event.key === "/") document.getElementById("search")?.focus();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <dialog ref={dialog} className="help" aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl>
        {KEYS.map(([keys, effect]) => (
          <div key={effect}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{effect}</dd>
          </div>
        ))}
      </dl>
      <div className="actions">
        <button onClick={() => dialog.current?.close()}>Close</button>
      </div>
    </dialog>
  );
}
