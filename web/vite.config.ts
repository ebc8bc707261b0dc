// The page: src/ → one folder of static files. Names carry a hash of the content; nothing in a file depends on when or where it
// was built, so two builds of one commit are the same.
import { defineConfig } from "vite";
import { frame } from "./scripts/frame.js";
import { licenses } from "./scripts/licenses.js";
import { rem } from "./scripts/rem.js";
import { sprite } from "./scripts/sprite.js";

export default defineConfig({
  base: "/ui/",
  plugins: [sprite(), rem(), frame(), licenses()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/ronda/server/doors/page/build",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // a data: address would need a wider policy
    modulePreload: { polyfill: false },
    cssMinify: true,
    reportCompressedSize: false,
  },
  // A server that is mounted in another app has longer addresses: files find each other by where they are.
  experimental: {
    renderBuiltUrl: (_name, { hostType }) => (hostType === "html" ? undefined : { relative: true }),
  },
});
