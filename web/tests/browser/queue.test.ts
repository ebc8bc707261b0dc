// A server that drives one run at a time: the others say how many are before them, until they begin.
import { expect, test } from "vitest";
import { answered, ask, harness } from "./harness";

const { server, open, tab } = harness({ pace: 0.004, runs: 1 });

async function post(path: string, body: unknown): Promise<{ id: string }> {
  const answer = await fetch(`${server.url}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  expect(answer.ok).toBe(true);
  return (await answer.json()) as { id: string };
}

async function start(scene: string): Promise<string> {
  const { id } = await post("/v1/responses", { model: "default", background: true, input: scene });
  return id.replace("resp_", "run_");
}

test("a run in the queue says how many are before it, in its conversation and on its own page", async () => {
  const first = await start("slow please");
  const driven = await open(`/ui/runs/${first}`);
  await driven.waitForSelector(".pill:has-text('Running')");
  await driven.waitForSelector(".s-tool");
  await start("calculate it");
  const page = await open();
  await ask(page, "calculate it, too");
  await page.waitForSelector(".pill:text-is('In the queue · 1 before it')");
  const run = await tab(page, (await page.getAttribute("a:has-text('Open run')", "href")) ?? "");
  await run.waitForSelector(".pill:text-is('Queued · 1 before it')");
  expect(await driven.locator(".pill:has-text('before it')").count()).toBe(0);
  await post(`/v1/runs/${first}/cancel`, {});
  await answered(page, "391");
  await run.waitForSelector(".pill:text-is('Finished')");
});
