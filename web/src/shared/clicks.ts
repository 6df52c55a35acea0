// Double clicks: what was clicked may be gone when the second click comes, and another control in its place.

/** Longest time and distance between the two clicks of a double click. */
const DOUBLE_MS = 350;
const DOUBLE_PIXELS = 10;

/** What a click is about. */
const CONTROLS = "button, a, summary, label, input, select, textarea";

/**
 * Ignores the second click of a double click if it hits another control than the first: one that took its
 * place, such as Stop that of Send, or the card of another call that of a decided one.
 */
export function guardDoubleClicks(): void {
  let before: { control: Element | null; name: string | null | undefined; time: number; x: number; y: number } | undefined;
  const guard = (event: MouseEvent) => {
    // Clicks by keyboard have no place.
    if (event.detail === 0 || !(event.target instanceof Element)) return;
    const { timeStamp: time, clientX: x, clientY: y } = event;
    const control = event.target.closest(CONTROLS);
    const isSecond = before !== undefined && time - before.time < DOUBLE_MS && Math.hypot(x - before.x, y - before.y) < DOUBLE_PIXELS;
    // An element may be drawn again for another purpose.
    const name = control?.textContent;
    if (isSecond && (control !== before?.control || name !== before?.name)) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    before = { control, name, time, x, y };
  };
  window.addEventListener("click", guard, { capture: true });
}
