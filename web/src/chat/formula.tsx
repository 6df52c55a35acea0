import { useEffect, useRef, useState } from "react";

interface Props {
  formula: string;
  isDisplay: boolean;
}

/** A formula. It is shown as it is written until it is drawn, and if it cannot be read. */
export function Formula({ formula, isDisplay }: Props) {
  const place = useRef<HTMLSpanElement>(null);
  const [isDrawn, setIsDrawn] = useState(false);
  useEffect(() => {
    let isGone = false;
    import("./typeset").then(({ typeset }) => {
      if (!isGone && place.current) setIsDrawn(typeset(formula, isDisplay, place.current));
    }, () => {});
    return () => void (isGone = true);
  }, [formula, isDisplay]);
  return (
    <span className={isDisplay ? "formula display" : "formula"} {...(isDisplay && { tabIndex: 0, role: "group", "aria-label": "Formula" })}>
      <span ref={place} hidden={!isDrawn} />
      {!isDrawn && <code>{formula}</code>}
    </span>
  );
}
