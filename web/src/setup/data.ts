import { useEffect, useRef, useState } from "react";
import { json, request } from "../api/http";
import { usePolled, type Polled } from "../shared/polled";
import { Store } from "../shared/store";
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

/** Number of times that the server was seen to have another model. */
export const modelChanges = new Store(0);

/** Pause between two reads: with an offer, whose download is shown, and without one. */
const PAUSE_MS = 1_000;
const IDLE_MS = 60_000;

/** Reads the model that is offered; `null` if the server needs none. It says when the model answers. */
export function useOffer(): Polled<ModelOffer | null> {
  const [pause, setPause] = useState(PAUSE_MS);
  const polled = usePolled("setup", async (signal) => (await json<{ download: ModelOffer | null }>("GET /setup", { signal })).download, pause);
  const before = useRef<ModelOffer>(undefined);
  const { data } = polled;
  useEffect(() => {
    setPause(data === null ? IDLE_MS : PAUSE_MS);
    if (data === null && before.current) {
      toast({ text: `${before.current.model} answers from now on.` });
      modelChanges.set(modelChanges.read() + 1);
    }
    before.current = data ?? (data === null ? undefined : before.current);
  }, [data]);
  return polled;
}

export async function beginDownload(): Promise<void> {
  await request("POST /setup/download", {});
}
