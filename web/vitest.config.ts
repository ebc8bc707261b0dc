// Tests: those of functions, and those in a browser, which start servers and must not share the machine with each other.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: "unit", include: ["tests/unit/**/*.test.ts"] } },
      {
        extends: true,
        test: {
          name: "browser",
          include: ["tests/browser/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          fileParallelism: false,
          retry: 1, // they share the machine with all other tests: a browser that was starved once is asked again
        },
      },
      { extends: true, test: { name: "bench", include: ["tests/bench/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 } },
    ],
  },
});
