import { ThreadPrimitive, useAuiState } from "@assistant-ui/react";
import { useEffect, useRef, useState } from "react";
import { AssistantMessage, UserMessage } from "./message";

/** Number of messages that are drawn at first, and that are added when the first one comes near. */
const STEP = 30;
const COMPONENTS = { UserMessage, AssistantMessage };

/** The messages of a thread. The beginning of a long thread is drawn when somebody scrolls to it. */
export function Messages() {
  const count = useAuiState((state) => state.thread.messages.length);
  const isLoading = useAuiState((state) => state.thread.isLoading);
  const [chosen, setChosen] = useState<number>();
  const first = Math.min(chosen ?? Infinity, Math.max(0, count - STEP));
  useEffect(() => {
    // Messages that are added later do not push drawn ones out.
    if (!isLoading && count > 0) setChosen((before) => before ?? Math.max(0, count - STEP));
  }, [isLoading, count]);
  return (
    <>
      {first > 0 && <Earlier count={first} onNear={() => setChosen(Math.max(0, first - STEP))} />}
      {Array.from({ length: count - first }, (_, at) => (
        <ThreadPrimitive.MessageByIndex key={first + at} index={first + at} components={COMPONENTS} />
      ))}
    </>
  );
}

/** Stands for messages that are not drawn, and calls `onNear` when it is nearly seen. */
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
      { root: viewport, rootMargin: "1500px 0px 0px" },
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
