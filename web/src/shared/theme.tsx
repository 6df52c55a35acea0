import { useEffect, useState } from "react";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

function stored(): Theme {
  const found = THEMES.find((theme) => theme === localStorage.getItem("theme"));
  return found ?? "system";
}

/** Chooses between the theme of the system, light and dark. */
export function ThemeChoice() {
  const [theme, setTheme] = useState(stored);
  useEffect(() => {
    localStorage.setItem("theme", theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return (
    <label className="theme">
      <span>Theme</span>
      <select value={theme} onChange={(event) => setTheme(event.target.value as Theme)}>
        {THEMES.map((theme) => (
          <option key={theme}>{theme}</option>
        ))}
      </select>
    </label>
  );
}
