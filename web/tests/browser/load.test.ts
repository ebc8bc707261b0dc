// What the first load brings, and whether anything moves while an answer comes.
import { expect, test } from "vitest";
import { harness } from "./harness";

const { open } = harness({ pace: 0 });

const FIRST_LOAD = 150_000; // bytes of JS and CSS, compressed

test("the first load is within its budget, and nothing moves until the answer is complete", async () => {
  const page = await open("/ui");
  await page.evaluate(() => {
    const kept = window as never as { shift: number };
    kept.shift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) kept.shift += (entry as never as { value: number; hadRecentInput: boolean }).hadRecentInput ? 0 : (entry as never as { value: number }).value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  const sizes = await page.evaluate(() =>
    performance.getEntriesByType("resource").filter((one) => /\.(js|css)$/.test(new URL(one.name).pathname)).map((one) => (one as PerformanceResourceTiming).encodedBodySize),
  );
  const sum = sizes.reduce((total, size) => total + size, 0);
  console.log(`first load: ${Math.round(sum / 1000)} kB of JS and CSS (budget ${FIRST_LOAD / 1000} kB)`);
  expect(sum).toBeGreaterThan(20_000);
  expect(sum).toBeLessThanOrEqual(FIRST_LOAD);
  await page.click(".sug >> nth=0");
  await page.waitForSelector(".ending");
  const shift = await page.evaluate(() => (window as never as { shift: number }).shift);
  console.log(`layout shift: ${shift.toFixed(4)}`);
  expect(shift).toBeLessThan(0.02);
});
