// What previews are shown in → frame.html beside the page: one file, since a page without an origin loads none. It has its library
// and its script inside; the page's own policy does not reach into it, the server gives it one of its own.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../src/frame/", import.meta.url));

export function frame() {
  return {
    name: "frame",
    apply: "build",
    generateBundle() {
      const library = createRequire(import.meta.url).resolve("idiomorph/dist/idiomorph.min.js");
      const scripts = [library, `${folder}frame.js`].map((path) => `<script>\n${readFileSync(path, "utf8").trim()}\n</script>`);
      const page = readFileSync(`${folder}frame.html`, "utf8");
      this.emitFile({ type: "asset", fileName: "frame.html", source: page.replace("<!-- scripts -->", () => scripts.join("\n")) });
    },
  };
}
