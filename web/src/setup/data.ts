import { useEffect, useRef } from "react";
import { json, request } from "../api/http";
import { usePolled, type Polled } from "../shared/polled";
import { toast } from "../shared/toast";

export type DownloadState =
  | { state: "offered" }
  | { state: "loading"; source: string; done: number }
  | { state: "installing" }
  | { state: "failed"; reasons: string[] };

/** A model that the server downloads on request, and then answers with. */
export interface ModelOffer {
  model: string;
  label: string;
  bytes: number;
  licence: string;
  sources: string[];
  /** The command that imports a file. */
  import: string;
  state: DownloadState;
}

/** Reads the model that is offered; `null` if the server needs none. It says when the model answers. */
export function useOffer(): Polled<ModelOffer | null> {
  const polled = usePolled("setup", async (signal) => (await json<{ download: ModelOffer | null }>("GET /setup", { signal })).download, 1000);
  const before = useRef<ModelOffer>(undefined);
  const { data } = polled;
  useEffect(() => {
    if (data === null && before.current) toast({ text: `${before.current.model} answers from now on.` });
    before.current = data ?? (data === null ? undefined : before.current);
  }, [data]);
  return polled;
}

export async function beginDownload(): Promise<void> {
  await request("POST /setup/download", {});
}
