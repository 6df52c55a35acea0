import { useState, type FormEvent } from "react";
import { logIn } from "../api/http";

/** Asks for the token of the server. The page does not store it: the server sets a cookie for it. */
export function Login({ onDone }: { onDone: () => void }) {
  const [problem, setProblem] = useState<string>();
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const token = new FormData(event.currentTarget).get("token");
    try {
      await logIn({ token: String(token).trim() });
      onDone();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <main className="login">
      <form onSubmit={submit} aria-labelledby="login-title">
        <h1 id="login-title">Weftwork</h1>
        <p>This server asks for a token. It printed one when it started, unless it was given its own.</p>
        <label htmlFor="token">Token</label>
        <input id="token" name="token" type="password" autoComplete="off" autoFocus required />
        {problem && (
          <p role="alert" className="problem">
            {problem}
          </p>
        )}
        <button className="primary">Open</button>
      </form>
    </main>
  );
}
