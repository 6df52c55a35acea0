import { useEffect, useState, type ReactNode } from "react";
import { copyText } from "../shared/copy";
import type { CodeNode } from "./highlight";

/** Length above which code is drawn without highlighting, which takes time for each new word. */
const LONG = 40_000;

interface Props {
  language: string | undefined;
  code: string;
}

/** The head of a block of code: its language, and a button that copies it. */
export function CodeHead({ language, code }: Props) {
  return (
    <div className="code-head">
      <span>{language && language !== "unknown" ? language : "text"}</span>
      <button className="quiet" onClick={() => copyText(code)}>
        Copy code
      </button>
    </div>
  );
}

/** A block of code, highlighted once the grammars are loaded. Until then, and for other languages, it is plain. */
export function CodeBlock({ language, code }: Props) {
  const nodes = useHighlighted(code, language);
  // Regions that scroll are reached by keyboard.
  return (
    <pre tabIndex={0} role="group" aria-label="Code" data-highlighted={nodes !== undefined || undefined}>
      <code>{nodes ? nodes.map(drawn) : code}</code>
    </pre>
  );
}

type Highlight = (code: string, language: string) => CodeNode[] | undefined;
let loaded: Highlight | undefined;

function useHighlighted(code: string, language: string | undefined): CodeNode[] | undefined {
  const [highlight, setHighlight] = useState(() => loaded);
  useEffect(() => {
    if (loaded !== undefined || !language) return;
    let isGone = false;
    // Without the grammars, the code is plain.
    import("./highlight").then((module) => {
      loaded = module.highlight;
      if (!isGone) setHighlight(() => module.highlight);
    }, () => {});
    return () => void (isGone = true);
  }, [language]);
  if (!language || code.length > LONG) return undefined;
  return highlight?.(code, language);
}

function drawn(node: CodeNode, at: number): ReactNode {
  if (node.type === "text") return node.value;
  const names = node.properties?.className;
  return (
    <span key={at} className={Array.isArray(names) ? names.join(" ") : undefined}>
      {node.children?.map(drawn)}
    </span>
  );
}
