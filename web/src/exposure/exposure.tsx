import { useEffect, useId, useState } from "react";
import { reasonOf } from "../question/first";
import { Absent } from "../shared/absent";
import { copyText } from "../shared/copy";
import { Explained } from "../shared/explained";
import { Rows } from "../shared/rows";
import { CardPreview } from "./card";
import { expose, useExposure, type Access, type Copied, type Exposure, type Protocol } from "./data";

/** The protocols of other programs by which an agent is reached, with a switch for each. */
export function ExposureSection({ slug }: { slug: string }) {
  const exposure = useExposure(slug);
  const { data, error, replace, refresh } = exposure;
  const confirm = (confirmed: Exposure | undefined) => (confirmed ? replace(confirmed) : refresh());
  return (
    <section className="exposure" aria-labelledby="exposure-title">
      <h2 id="exposure-title">Reach this agent from outside</h2>
      <p>
        Other programs reach this agent, in all its versions, by the protocols that are on. They need a token of this server, for
        which <code>TOKEN</code> stands in the examples.
      </p>
      {data && error && (
        <p className="problem" role="alert">
          This may be old: it cannot be read again. {error.message}
        </p>
      )}
      {!data && <Absent of="protocols" polled={exposure} />}
      {data?.protocols.length === 0 && <p className="none">This server speaks no protocol of other programs.</p>}
      {data && !data.mayChange && <p className="none">You can see this and not change it: that is for those who administer the agent.</p>}
      <ul aria-label="Protocols">
        {data?.protocols.map((protocol) => (
          <li key={protocol.protocol} aria-label={protocol.label}>
            {data.mayChange ? <Switch slug={slug} protocol={protocol} onConfirmed={confirm} /> : <State protocol={protocol} />}
            {protocol.access && <AccessTexts access={protocol.access} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A protocol with its state, for those who may not change it. */
function State({ protocol: { label, about, access } }: { protocol: Protocol }) {
  return (
    <>
      <p className="protocol">
        <strong>{label}</strong>
        <span className="facts">{access ? "On" : "Off"}</span>
      </p>
      <p className="none">{about}</p>
    </>
  );
}

interface SwitchProps {
  slug: string;
  protocol: Protocol;
  onConfirmed: (confirmed: Exposure | undefined) => void;
}

/** The switch of a protocol. It has the state that the server confirmed. */
function Switch({ slug, protocol: { protocol, label, about, access }, onConfirmed }: SwitchProps) {
  const isOn = access !== undefined;
  const [isSending, setIsSending] = useState(false);
  const [problem, setProblem] = useState<string>();
  const id = useId();
  // What could not be changed may be changed elsewhere.
  useEffect(() => setProblem(undefined), [isOn]);
  const change = async () => {
    if (isSending) return;
    setIsSending(true);
    setProblem(undefined);
    try {
      onConfirmed(await expose(slug, protocol, !isOn));
    } catch (error) {
      setProblem(reasonOf(error as Error));
    }
    setIsSending(false);
  };
  return (
    <>
      <p className="protocol">
        <label>
          <input
            type="checkbox"
            role="switch"
            checked={isOn}
            aria-disabled={isSending || undefined}
            aria-describedby={id}
            onChange={() => void change()}
          />
          <strong>{label}</strong>
        </label>
        <span className="facts" role="status">
          {isSending ? "Changing…" : isOn ? "On" : "Off"}
        </span>
      </p>
      <p className="none" id={id}>
        {about}
      </p>
      {problem && (
        <p className="problem" role="alert">
          <Explained text={problem} />
        </p>
      )}
    </>
  );
}

/** The address and other settings, examples, and the card. */
function AccessTexts({ access: { settings, examples, card } }: { access: Access }) {
  return (
    <>
      <Rows label="Settings" rows={settings.map((setting) => [setting.name, <Setting key={setting.name} setting={setting} />])} />
      {examples.map(({ name, text }) => (
        <div key={name} className="snippet">
          <div className="code-head">
            <span>{name}</span>
            <CopyButton name={name} text={text} />
          </div>
          {/* Regions that scroll are reached by keyboard. */}
          <pre tabIndex={0} role="group" aria-label={`Example for ${name}`}>
            <code>{text}</code>
          </pre>
        </div>
      ))}
      {card !== undefined && <CardPreview path={card} />}
    </>
  );
}

function Setting({ setting: { name, text } }: { setting: Copied }) {
  return (
    <span className="setting">
      <code>{text}</code>
      <CopyButton name={name} text={text} />
    </span>
  );
}

function CopyButton({ name, text }: Copied) {
  return (
    <button className="quiet" aria-label={`Copy ${name}`} onClick={() => copyText(text)}>
      Copy
    </button>
  );
}
