import { json } from "../api/http";
import type { Model } from "../api/types";
import { modelChanges } from "../setup/data";
import { useStore } from "../shared/store";
import { useKept, usePolled } from "../shared/polled";

/** Time after which the models are read again. A server has others when it was started again, which is noticed. */
const AGAIN_MS = 600_000;

interface Props {
  /** Id of a model; empty for that of the agent. */
  chosen: string;
  onChoose: (model: string) => void;
}

/** Returns a model as it is shown. Answers of the scripted one are prepared, which looks like a model that works. */
function nameOf(id: string): string {
  return id === "scripted" || id.startsWith("scripted:") ? "scripted (prepared answers, no model)" : id;
}

/** The model of the answers. There is a choice if the server offers several. */
export function ModelChoice({ chosen, onChoose }: Props) {
  const at = useStore(modelChanges);
  const { data = [] } = useKept(usePolled(`models ${at}`, (signal) => json<Model[]>("GET /models", { signal }), AGAIN_MS));
  const [own, ...others] = data.map(({ id }) => id);
  // The server may have offered it once.
  const isGone = chosen !== "" && own !== undefined && !data.some(({ id }) => id === chosen);
  if (own === undefined) return null;
  if (others.length === 0 && !isGone) {
    return (
      <span className="model" title="The model that answers">
        {nameOf(own)}
      </span>
    );
  }
  return (
    <select className="model" aria-label="Model" value={chosen === own ? "" : chosen} onChange={(event) => onChoose(event.target.value)}>
      <option value="">{nameOf(own)}</option>
      {others.map((id) => (
        <option key={id} value={id}>
          {nameOf(id)}
        </option>
      ))}
      {isGone && <option value={chosen}>{chosen} (not offered)</option>}
    </select>
  );
}
