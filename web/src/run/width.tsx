import { useState, type KeyboardEvent, type PointerEvent } from "react";

const STORED = "details-width";
/** Least and largest width of the details, in pixels. */
const LEAST = 280;
const LARGEST = 1100;
const STEP = 40;

function within(width: number): number {
  return Math.round(Math.min(LARGEST, Math.max(LEAST, width)));
}

/** Returns the width of the details, which stays over visits, and a function that sets it. */
export function useWidth(): { width: number; setWidth: (width: number) => void } {
  const [width, setState] = useState(() => within(Number(localStorage.getItem(STORED)) || 380));
  const setWidth = (next: number) => {
    setState(within(next));
    localStorage.setItem(STORED, String(within(next)));
  };
  return { width, setWidth };
}

/** The edge of the details, which is dragged, or moved by the arrow keys. */
export function WidthHandle({ width, setWidth }: ReturnType<typeof useWidth>) {
  const onPointerMove = ({ currentTarget, pointerId, clientX }: PointerEvent<HTMLDivElement>) => {
    if (!currentTarget.hasPointerCapture(pointerId)) return;
    const end = currentTarget.parentElement?.getBoundingClientRect().right ?? clientX;
    setWidth(end - clientX);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    setWidth(width + (event.key === "ArrowLeft" ? STEP : -STEP));
  };
  return (
    <div
      className="handle"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the details"
      aria-valuenow={width}
      aria-valuemin={LEAST}
      aria-valuemax={LARGEST}
      tabIndex={0}
      onPointerDown={({ currentTarget, pointerId }) => currentTarget.setPointerCapture(pointerId)}
      onPointerMove={onPointerMove}
      onKeyDown={onKeyDown}
    />
  );
}
