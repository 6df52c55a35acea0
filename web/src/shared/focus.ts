// The focus. When what has it leaves the page, a browser gives it to nothing: keys mean nothing there, and who
// listens to the page is at its beginning again.
import type { KeyboardEvent } from "react";

/** What had the focus last, and what was around it, from the inside. */
let before: Element[] = [];
/** `true` if it cannot have the focus for now, such as a button of an answer that is being sent. */
let isWaiting = false;
let frame = 0;

/**
 * Returns the place for the focus after what had it is gone: within the nearest element around it with `data-home`,
 * a selector, or that element.
 */
function homeOf(around: Element[]): HTMLElement | null {
  for (const element of around) {
    if (!(element instanceof HTMLElement) || !element.isConnected || element.dataset.home === undefined) continue;
    const { home } = element.dataset;
    return (home !== "" && element.querySelector<HTMLElement>(home)) || element;
  }
  return document.getElementById("content");
}

function restore(): void {
  if (document.activeElement !== null && document.activeElement !== document.body) return;
  const [last, ...around] = before;
  if (!(last instanceof HTMLElement)) return;
  if (!last.isConnected) homeOf(around)?.focus({ preventScroll: true });
  else if (last.matches(":disabled")) isWaiting = true;
  else if (isWaiting) last.focus({ preventScroll: true });
}

/** Gives the focus a place whenever what has it leaves the page, or is disabled for a time. */
export function keepFocus(): void {
  document.addEventListener("focusin", ({ target }) => {
    isWaiting = false;
    before = [];
    for (let element = target as Element | null; element; element = element.parentElement) before.push(element);
  });
  const observer = new MutationObserver(() => {
    window.cancelAnimationFrame(frame);
    frame = window.requestAnimationFrame(restore);
  });
  observer.observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["disabled"] });
}

/** Gives the focus to the first field of a form, unless one of its fields has it. */
export function focusFirst(form: HTMLElement | null): void {
  if (form?.contains(document.activeElement)) return;
  form?.querySelector<HTMLElement>("input, textarea, select")?.focus();
}

/** Returns a listener that leaves a form with Escape. Input methods use that key too. */
export function onEscape(leave: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== "Escape" || event.nativeEvent.isComposing) return;
    event.stopPropagation();
    leave();
  };
}
