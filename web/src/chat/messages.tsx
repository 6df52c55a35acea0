import { ReadonlyThreadProvider, ThreadPrimitive } from "@assistant-ui/react";
import { memo, startTransition, useEffect, useMemo, useRef, useState } from "react";
import type { StoredMessage } from "../api/types";
import { readOnly } from "./assistant";
import { AssistantMessage, EarlierAssistantMessage, UserMessage } from "./message";

/** Number of earlier messages that are drawn when the first drawn one comes near. */
const STEP = 20;
const COMPONENTS = { UserMessage, AssistantMessage };
const EARLIER = { UserMessage, AssistantMessage: EarlierAssistantMessage };

/** The messages of a thread. The earlier ones of a long thread are drawn when somebody scrolls to them. */
export function Messages({ earlier }: { earlier: StoredMessage[] }) {
  const [steps, setSteps] = useState(0);
  const first = Math.max(0, earlier.length - steps * STEP);
  const starts = [];
  for (let start = earlier.length - STEP; start > first - STEP && start > -STEP; start -= STEP) starts.unshift(Math.max(0, start));
  return (
    <>
      {first > 0 && <Earlier count={first} onNear={() => startTransition(() => setSteps(steps + 1))} />}
      {starts.map((start) => (
        // A chunk is known by its end, which stays when earlier ones are added.
        <Chunk key={earlier.length - start} all={earlier} start={start} end={endOf(start, earlier.length)} />
      ))}
      <ThreadPrimitive.Messages components={COMPONENTS} />
    </>
  );
}

function endOf(start: number, length: number): number {
  return length - Math.floor((length - start - 1) / STEP) * STEP;
}

/** Messages that have ended, apart from those that can change, whose number stays small. */
const Chunk = memo(function Chunk({ all, start, end }: { all: StoredMessage[]; start: number; end: number }) {
  const messages = useMemo(() => readOnly(all.slice(start, end)), [all, start, end]);
  return (
    <ReadonlyThreadProvider messages={messages}>
      <ThreadPrimitive.Messages components={EARLIER} />
    </ReadonlyThreadProvider>
  );
});

/** Stands for messages that are not drawn, and calls `onNear` when the reader scrolls close to them. */
function Earlier({ count, onNear }: { count: number; onNear: () => void }) {
  const mark = useRef<HTMLButtonElement>(null);
  const near = useRef(onNear);
  near.current = onNear;
  useEffect(() => {
    const element = mark.current;
    const viewport = element?.closest(".viewport");
    if (!element || !viewport) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
        // Browsers keep what is seen in its place unless the scroll position is at the very top.
        if (viewport.scrollTop < 1) viewport.scrollTop = 1;
        near.current();
      },
      { root: viewport, rootMargin: "1200px 0px 0px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [count]);
  return (
    <button ref={mark} className="quiet earlier" onClick={onNear}>
      {count.toLocaleString("en")} earlier messages
    </button>
  );
}
