// The icons that the page names → one SVG file of symbols, made from lucide-static at build time.
// A name that is not in the list below is not shipped; a name that lucide does not have fails the build.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const ICONS = {
  activity: "activity", alert: "triangle-alert", "arrow-down": "arrow-down", "arrow-up": "arrow-up", ban: "ban", bot: "user-round",
  branch: "git-branch", calendar: "calendar", check: "check", "chevron-down": "chevron-down", "chevron-left": "chevron-left",
  "chevron-right": "chevron-right", clock: "clock-3", code: "code", copy: "copy", cpu: "cpu", download: "download", edit: "pencil",
  ellipsis: "ellipsis", eye: "eye", file: "file", globe: "globe", image: "image", keyboard: "keyboard", layout: "panels-top-left",
  list: "list", lock: "lock", menu: "menu", message: "message-square", moon: "moon", "new": "square-pen", panel: "panel-right",
  plug: "unplug", plus: "plus", python: "chevrons-right", retry: "rotate-cw", runs: "chart-no-axes-gantt", search: "search",
  send: "send", settings: "settings-2", shield: "shield-alert", sidebar: "panel-left", sliders: "sliders-horizontal", stop: "square",
  sun: "sun", system: "sun-moon", table: "table-2", terminal: "square-terminal", trash: "trash-2", wrench: "wrench", x: "x",
  prompt: "terminal", columns: "columns-2", play: "play", pause: "pause", monitor: "monitor", tablet: "tablet", phone: "smartphone", pointer: "mouse-pointer-2",
  diff: "diff", history: "history", external: "external-link",
};

export function symbols() {
  const folder = join(dirname(createRequire(import.meta.url).resolve("lucide-static/package.json")), "icons");
  const parts = Object.entries(ICONS).map(([name, file]) => {
    const text = readFileSync(join(folder, `${file}.svg`), "utf8");
    const inside = text.replace(/<!--.*?-->/gs, "").replace(/^[\s\S]*?<svg[^>]*>/, "").replace(/<\/svg>\s*$/, "");
    return `<symbol id="${name}" viewBox="0 0 24 24">${inside.replace(/\s+/g, " ").trim()}</symbol>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg">${parts.join("")}</svg>\n`;
}

const ADDRESS = "virtual:sprite";

export function sprite() {
  let building = false;
  return {
    name: "sprite",
    configResolved(config) {
      building = config.command === "build";
    },
    resolveId(id) {
      return id === ADDRESS ? `\0${ADDRESS}` : undefined;
    },
    load(id) {
      if (id !== `\0${ADDRESS}`) return undefined;
      if (!building) return `export default "";`;
      const file = this.emitFile({ type: "asset", name: "icons.svg", source: symbols() });
      return `export default import.meta.ROLLUP_FILE_URL_${file};`;
    },
  };
}
