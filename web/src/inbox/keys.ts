import { useEffect, useRef, type RefObject } from "react";
import { isTyped } from "../shared/help";

const DECISIONS: Record<string, string> = { a: "approve", e: "edit", r: "reject" };

interface InboxKeys {
  onStep: (step: 1 | -1) => void;
  onSelect: () => void;
}

/** Takes the keys of the inbox: `j` and `k` choose, `x` selects, `a`, `e` and `r` press the buttons of the decisions. */
export function useKeys(detail: RefObject<HTMLElement | null>, keys: InboxKeys): void {
  const handlers = useRef(keys);
  handlers.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { key } = event;
      if (isTyped(event) || document.querySelector("dialog[open]")) return;
      if (key === "j" || key === "k") handlers.current.onStep(key === "j" ? 1 : -1);
      if (key === "x") handlers.current.onSelect();
      const decision = DECISIONS[key];
      const button = decision && detail.current?.querySelector<HTMLElement>(`[data-decision="${decision}"]`);
      if (button) {
        event.preventDefault();
        button.click();
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [detail]);
}
