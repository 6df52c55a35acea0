import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The server of `npm run dev`: requests other than those of the page go to a running `weft serve`.
const server = process.env.WEFT_URL ?? "http://127.0.0.1:8123";
const routes = ["/assistants", "/threads", "/chat", "/interrupts", "/artifacts", "/runs", "/ok", "/info", "/models", "/setup", "/errors", "/agents", "/plans", "/deliverables"];

export default defineConfig({
  base: "./",
  plugins: [react()],
  build: { outDir: "dist", target: "es2023", modulePreload: { polyfill: false }, chunkSizeWarningLimit: 1500 },
  server: { proxy: Object.fromEntries([...routes, "/ui/session"].map((route) => [route, server])) },
});
