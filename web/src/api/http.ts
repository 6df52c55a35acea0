// Requests to the server that serves this page.
import { noteLoss, untilLost } from "./connection";
import type { Route } from "./routes";
import { parse, stringify } from "../shared/digits";

/** The names in the path of a route: `"GET /threads/{thread_id}"` has `thread_id`. */
type Names<R extends string> = R extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;
type Path<R extends string> = [Names<R>] extends [never] ? { path?: undefined } : { path: Record<Names<R>, string> };
/** `key` is the idempotency key of a request that may be made again. */
type Options<R extends string> = Path<R> & { body?: unknown; query?: Record<string, string | number>; signal?: AbortSignal; keepalive?: boolean; key?: string };

/** A response with an error status, or no response (status 0). */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly body?: unknown,
  ) {
    super(message);
  }
}

/** The root of the server: the page is in a folder of it. */
const ROOT = new URL("../", document.baseURI);

/** Returns the address of a route. */
function address<R extends Route>(route: R, { path, query }: Options<R>): URL {
  const [, template = ""] = route.split(" ");
  const names = path as Record<string, string> | undefined;
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names?.[name] ?? ""));
  const url = new URL(filled.slice(1), ROOT);
  for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, String(value));
  return url;
}

const locked = new Set<() => void>();

/** Calls a function when the server asks for a token. Returns the end of it. */
export function onLocked(listener: () => void): () => void {
  locked.add(listener);
  return () => void locked.delete(listener);
}

/** Returns the response if its status is a success. */
async function accepted(response: Response): Promise<Response> {
  if (response.ok) return response;
  if (response.status === 401) locked.forEach((listener) => listener());
  const text = await response.text();
  let body: unknown = text;
  try {
    body = parse(text);
  } catch {
    // The text is shown as it is.
  }
  const { detail: said, error } = (body ?? {}) as { detail?: unknown; error?: unknown };
  const detail = said ?? error;
  const reason = typeof detail === "string" ? detail : text || response.statusText;
  throw new HttpError(response.status, reason, body);
}

async function send(url: URL, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { ...init, signal: untilLost(init.signal ?? undefined) });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    noteLoss();
    throw new HttpError(0, "The server did not answer.");
  }
}

/** Makes a request, and returns its response. */
export async function request<R extends Route>(route: R, options: Options<R>): Promise<Response> {
  const { body, signal, keepalive, key } = options;
  const headers: Record<string, string> = {};
  const init: RequestInit = { method: route.split(" ")[0], signal, keepalive, headers };
  if (key !== undefined) headers["idempotency-key"] = key;
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = stringify(body);
  }
  return accepted(await send(address(route, options), init));
}

/** Makes a request, and returns the JSON of its response; `undefined` if it has none. */
export async function json<T>(route: Route, options: { path?: Record<string, string> } & Omit<Options<"GET /ok">, "path">): Promise<T> {
  const response = await request(route, options as Options<Route>);
  const text = await response.text();
  return (text === "" ? undefined : parse(text)) as T;
}

/** Reads the JSON at a path that the server named, from the server and not from a cache. */
export async function jsonAt<T>(path: string, signal: AbortSignal): Promise<T> {
  const url = new URL(path.replace(/^\/+/, ""), ROOT);
  const response = await accepted(await send(url, { signal, cache: "no-cache" }));
  return parse(await response.text()) as T;
}

/** Exchanges a token or a ticket for a cookie that scripts cannot read. */
export async function logIn(secret: { token: string } | { ticket: string }): Promise<void> {
  const headers = { "content-type": "application/json" };
  await accepted(await send(new URL("ui/session", ROOT), { method: "POST", headers, body: JSON.stringify(secret) }));
}
