// The icons of the page → one SVG file of symbols, made at build time.
import { ICONS } from "./icons.js";

export function symbols() {
  const parts = Object.entries(ICONS).map(([name, inside]) => `<symbol id="${name}" viewBox="0 0 16 16">${inside}</symbol>`);
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
