import { useState } from "react";
import { json } from "../api/http";
import type { Json } from "../api/types";
import { isObject, JsonView } from "../shared/json";

/** The beginning of a value that was too large for a stream. */
interface Cut {
  cut: { bytes: number; of: number; reference: string };
  beginning: string;
}

function isCut(value: Json): boolean {
  return typeof value === "object" && value !== null && "cut" in value && "beginning" in value;
}

/** The result of a call. One that was cut is read whole on request. */
export function Result({ value }: { value: Json }) {
  const [whole, setWhole] = useState<{ value: Json } | { problem: string }>();
  if (isObject(value) && typeof value.safe_message === "string") return <p className="problem">{value.safe_message}</p>;
  if (!isCut(value)) return <JsonView value={value} label="Result" />;
  const { cut, beginning } = value as unknown as Cut;
  const open = () =>
    json<{ result?: Json; value?: Json }>("GET /artifacts/{artifact_id}", { path: { artifact_id: cut.reference } }).then(
      (found) => setWhole({ value: found.result ?? found.value ?? null }),
      (error: Error) => setWhole({ problem: error.message }),
    );
  if (whole && "value" in whole) return <JsonView value={whole.value} label="Result" />;
  return (
    <>
      <JsonView value={`${beginning}…`} label="Beginning of the result" />
      <p>
        {cut.bytes.toLocaleString("en")} of {cut.of.toLocaleString("en")} bytes.{" "}
        <button className="quiet" onClick={open}>
          Show all
        </button>
      </p>
      {whole && (
        <p role="alert" className="problem">
          {whole.problem}
        </p>
      )}
    </>
  );
}
