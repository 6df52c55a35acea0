import { MarkdownTextPrimitive } from "@assistant-ui/react-markdown";
import type { AnchorHTMLAttributes, ImgHTMLAttributes } from "react";
import remarkGfm from "remark-gfm";

const PLUGINS = [remarkGfm];
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

/** Text of an agent. Its HTML is shown as text. */
export function Markdown() {
  return (
    <MarkdownTextPrimitive
      className="markdown"
      remarkPlugins={PLUGINS}
      components={{ a: Link, img: Image }}
      smooth={false}
      defer
    />
  );
}
