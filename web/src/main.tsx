import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { watchConnection } from "./api/connection";
import { App } from "./app";
import { guardDoubleClicks } from "./shared/clicks";
import { keepFocus } from "./shared/focus";
import "./style/base.css";
import "./style/shell.css";
import "./style/chat.css";
import "./style/cards.css";
import "./style/run.css";
import "./style/steps.css";
import "./style/agent.css";

watchConnection();
guardDoubleClicks();
keepFocus();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
