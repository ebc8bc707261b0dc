// The first minute with the small model that comes with Ronda: nothing is scripted.
import { expect, test } from "vitest";
import { harness } from "./harness";

const { open } = harness({ local: true });

test("the local model is named, its limits are said, and it answers a question word by word", { timeout: 120_000 }, async () => {
  const page = await open("/");
  await page.waitForSelector(".ready >> text=The small model is wrong about most things.");
  expect(await page.locator(".pick >> text=local:smollm2").count()).toBe(1);
  await page.click(".sug >> nth=0");
  await page.waitForSelector(".say.writing");
  const early = (await page.locator(".say").innerText()).length;
  await page.waitForSelector(".ending", { timeout: 100_000 });
  expect((await page.locator(".say").innerText()).length).toBeGreaterThan(early);
  expect(await page.locator(".kv >> text=/ in, .* out/").count()).toBe(1);
  expect(await page.locator("h1").innerText()).toBe("Why is the sky blue?");
});
