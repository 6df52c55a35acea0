import { useEffect, useRef, type RefObject } from "react";

const DECISIONS: Record<string, string> = { a: "approve", e: "edit", r: "reject" };

/** Takes the keys of the inbox: `j` and `k` choose, `a`, `e` and `r` press the buttons of the decisions. */
export function useKeys(detail: RefObject<HTMLElement | null>, onStep: (step: 1 | -1) => void): void {
  const step = useRef(onStep);
  step.current = onStep;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { target, key } = event;
      const writes = target instanceof HTMLElement && target.matches("input, textarea, select");
      if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
      if (key === "j" || key === "k") step.current(key === "j" ? 1 : -1);
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
