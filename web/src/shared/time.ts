import { useEffect, useState } from "react";

const UNITS: [limit: number, size: number, name: string][] = [
  [60, 1, "s"],
  [3600, 60, "min"],
  [86400, 3600, "h"],
  [Infinity, 86400, "d"],
];

/** Returns a length of time in one unit: `3 min`. */
export function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  const [, size, name] = UNITS.find(([limit]) => seconds < limit) ?? UNITS[0]!;
  return `${Math.floor(seconds / size)} ${name}`;
}

/** Returns a length of time for people who compare: `12 ms`, `3.4 s`, `2 min`. */
export function lengthOf(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms);
}

/** Returns the age of a time: `just now`, `3 min`. */
export function age(time: string, now: number): string {
  const ms = now - Date.parse(time);
  return ms < 10_000 ? "just now" : span(ms);
}

/** Returns a time of the day; with its date if it is not of today. */
export function clock(time: string): string {
  const at = new Date(time);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en-GB")} `;
  return `${day}${at.toLocaleTimeString("en-GB")}`;
}

/** Returns the present time, which moves on at an interval. */
export function useNow(interval: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), interval);
    return () => window.clearInterval(timer);
  }, [interval]);
  return now;
}
