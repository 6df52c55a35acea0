import { TextMessagePartProvider } from "@assistant-ui/react";
import { MarkdownTextPrimitive } from "@assistant-ui/react-markdown";
import type { AnchorHTMLAttributes, HTMLAttributes, ImgHTMLAttributes, TableHTMLAttributes } from "react";
import remarkGfm from "remark-gfm";
import remarkMath, { type Options } from "remark-math";
import { CodeBlock, CodeHead } from "./code";
import { Formula } from "./formula";
import { withFormulas } from "./formulas";

// A single dollar is money unless `withFormulas` found a formula.
const MATH: Options = { singleDollarTextMath: false };
const PLUGINS: [typeof remarkGfm, [typeof remarkMath, Options]] = [remarkGfm, [remarkMath, MATH]];
const SCHEMES = ["http:", "https:", "mailto:"];

/** Returns the address of a link that may be followed. */
function followed(href: string | undefined): string | undefined {
  const url = href === undefined ? null : URL.parse(href);
  return url && SCHEMES.includes(url.protocol) ? url.href : undefined;
}

/** A link to another site, which learns nothing of this page. Other links are text. */
function Link({ href, children }: AnchorHTMLAttributes<HTMLAnchorElement>) {
  const url = followed(href);
  if (url === undefined) return <span>{children}</span>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

/** An image is named, and not loaded: its request would tell its server who reads. */
function Image({ alt, src }: ImgHTMLAttributes<HTMLImageElement>) {
  return <Link href={typeof src === "string" ? src : undefined}>[image: {alt || "without a name"}]</Link>;
}

/** A table that scrolls within its message. */
function Table({ children }: TableHTMLAttributes<HTMLTableElement>) {
  return (
    <div className="wide" tabIndex={0} role="group" aria-label="Table">
      <table>{children}</table>
    </div>
  );
}

/** Code within a line, or a formula. */
function Inline({ className, children }: HTMLAttributes<HTMLElement>) {
  if (className?.includes("math-inline")) return <Formula formula={String(children)} isDisplay={false} />;
  return <code>{children}</code>;
}

function DisplayFormula({ code }: { code: string }) {
  return <Formula formula={code.trim()} isDisplay />;
}

const COMPONENTS = { a: Link, img: Image, table: Table, code: Inline, SyntaxHighlighter: CodeBlock, CodeHeader: CodeHead };
const BY_LANGUAGE = { math: { SyntaxHighlighter: DisplayFormula, CodeHeader: () => null } };

/** A text that is no part of a message. */
export function MarkdownText({ text }: { text: string }) {
  return (
    <TextMessagePartProvider text={text}>
      <Markdown />
    </TextMessagePartProvider>
  );
}

/** Text of an agent. Its HTML is shown as text. */
export function Markdown() {
  return (
    <MarkdownTextPrimitive
      className="markdown"
      remarkPlugins={PLUGINS}
      components={COMPONENTS}
      componentsByLanguage={BY_LANGUAGE}
      preprocess={withFormulas}
      smooth={false}
      defer
    />
  );
}
