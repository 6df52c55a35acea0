import { json } from "../api/http";
import type { Model } from "../api/types";
import { usePolled } from "../shared/polled";

interface Props {
  /** Id of a model; empty for that of the agent. */
  chosen: string;
  onChoose: (model: string) => void;
}

/** The model of the answers. It is hidden if there is nothing to choose. */
export function ModelChoice({ chosen, onChoose }: Props) {
  const { data = [] } = usePolled("models", (signal) => json<Model[]>("GET /models", { signal }), 60_000);
  const [own, ...others] = data.map(({ id }) => id);
  // The server may have offered it once.
  const isGone = chosen !== "" && own !== undefined && !data.some(({ id }) => id === chosen);
  if (own === undefined || (others.length === 0 && !isGone)) return null;
  return (
    <select className="model" aria-label="Model" value={chosen === own ? "" : chosen} onChange={(event) => onChoose(event.target.value)}>
      <option value="">{own}</option>
      {others.map((id) => (
        <option key={id}>{id}</option>
      ))}
      {isGone && <option value={chosen}>{chosen} (not offered)</option>}
    </select>
  );
}
