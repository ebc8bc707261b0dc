// Operate: what runs, what waits, what failed; and what is said where the server, or the key, has no more.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { findings } from "./axe";
import { harness } from "./harness";

const { server, open, expectTrouble } = harness({ pace: 0.004 });

async function start(scene: string): Promise<void> {
  const body = { model: "default", background: true, messages: [{ role: "user", content: scene }] };
  const answer = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  expect(answer.status).toBe(202);
}

/** What the figures of a server with more than this one has look like: answered by the browser, in the server's place. */
async function withFigures(page: Page, answer: { status: number; body: unknown }): Promise<void> {
  await page.route("**/ui/server", async (route) => {
    const found = await route.fetch();
    const told = (await found.json()) as { features: object };
    await route.fulfill({ response: found, json: { ...told, features: { ...told.features, operate: true } } });
  });
  await page.route("**/v1/operate?*", (route) => route.fulfill({ status: answer.status, json: answer.body }));
}

test("a decision is made here, its run goes on, and what failed is counted", async () => {
  await start("this will fail");
  await start("order it");
  const page = await open("/ui/operate");
  await page.waitForSelector(".ap:has-text('place_order'):has-text('quantity 1450')"); // what would run is shown
  await page.waitForSelector(".op-box:has-text('Errors of the last hour') >> text=the model is overloaded");
  await page.waitForSelector(".tile:has-text('Wait for people') >> text=1");
  expect(await page.title()).toMatch(/^\(1\) /);
  await page.click("role=button[name='Approve place_order']");
  await page.waitForSelector("text=Nothing waits for you.");
  await page.waitForSelector("role=link[name=Operate]");
  await page.waitForFunction(() => !document.title.startsWith("("));
});

test("a run under way is shown, and is stopped here", async () => {
  await start("slow please");
  const page = await open("/ui/operate");
  await page.waitForSelector(".op-box tr:has-text('slow please') .mono-s:text-is('wait')");
  await page.click("role=button[name='Stop slow please']");
  await page.waitForSelector("text=Nothing runs.");
});

test("what this server does not measure is said, not shown as nothing", async () => {
  const page = await open("/ui/operate");
  await page.waitForSelector(".tile:has-text('Cost today') >> text=not measured yet");
  await page.waitForSelector("text=This server has no keys");
  await page.waitForSelector(".tile:has-text('First token') >> text=median");
  await page.waitForSelector(".op-box:has-text('Models') td:text-is('unknown')"); // of a script no price is known
});

test("figures over all owners are shown where the server has them", async () => {
  const page = await open();
  await withFigures(page, {
    status: 200,
    body: {
      running: 3, queued: 1, waiting: 2, first_token_95: 1.9, first_token_median: 0.6, tokens_a_minute: 41_000, cost_today: 8.72,
      oldest_queued: 12, oldest_waiting: 240, cached_share: 0.74,
      series: { open: [1, 2, 3, 2], queued: [null, 0, 2, 1], waiting: [null, null, null, 2], cost: [1, 2, 3, 4], first_token: [0.6, 1.9, 0.4] },
      owners: [{ owner: "finance", running: 1, waiting: 0, runs: 412, spent: 92.9, reserved: 3, budget: 100 }],
      models: [{ name: "gemini-3-pro", calls: 12, failed: 5, first_token: 3.8, cost: 0.31, cools_for: 39.2 }],
      runs: [
        { id: "run_1", owner: "finance", state: "running", agent: null, model: "gpt-5.5", rounds: 14, tool_calls: 20, cost: 0.87, tools: [], doing: "tools", calls: ["fetch_rates"], created_at: 1 },
        { id: "run_2", owner: "web", state: "queued", agent: null, model: "gpt-5.5", rounds: null, tool_calls: null, cost: null, tools: [], doing: "next", calls: [], created_at: 1 },
      ],
      journal: { bytes: 640_000_000 },
      files: { count: 2, bytes: 41_000 },
    },
  });
  await page.goto(`${server.url}/ui/operate`);
  await page.waitForSelector(".tile:has-text('Running') >> text=of all owners");
  await page.waitForSelector(".tile:has-text('Cost today') >> text=$8.72");
  expect(await page.locator("role=meter[name='Budget of finance']").getAttribute("aria-valuetext")).toBe("$92.90 of $100");
  await page.waitForSelector(".tile:has-text('First token') >> text=median 0.6 s");
  await page.waitForSelector(".tile:has-text('Queued') >> text=oldest 12 s");
  await page.waitForSelector(".tile:has-text('Wait for people') >> text=oldest 4 min");
  await page.waitForSelector(".tile:has-text('Tokens a minute') >> text=74 % cached");
  await page.waitForSelector("tr:has-text('gemini-3-pro') >> text=3.8 s");
  await page.waitForSelector("tr:has-text('gemini-3-pro') >> text=cools down 40 s");
  await page.waitForSelector(".op-box:has-text('Runs of other owners') tr:has-text('finance') >> text=fetch_rates");
  await page.waitForSelector(".op-kept >> text=2 files");
  expect(await page.locator(".spark").count()).toBe(5);
  const queued = await page.locator(".tile:has-text('Queued') .spark polyline").getAttribute("points");
  expect(queued?.split(" ").map((point) => Number(point.split(",")[0]))).toEqual([33.33, 66.67, 100]); // it begins where it is known
  expect((await page.locator(".tile:has-text('Wait for people') .spark polyline").getAttribute("points"))?.split(" ").length).toBe(2);
});

test("errors, models and series are those of the span that is chosen", async () => {
  await start("this will fail");
  const page = await open("/ui/operate");
  await page.waitForSelector("role=heading[name=/Errors of the last hour/]");
  const [series] = await Promise.all([page.waitForRequest(/operate\/series\?span=7d/), page.waitForRequest(/operate\?span=7d/), page.click("role=button[name=/the last 7 days/]")]);
  expect(new URL(series.url()).searchParams.get("step")).toBe("20160");
  await page.waitForSelector("text=last 7 days");
  expect(await page.getAttribute("role=button[name=/the last 7 days/]", "aria-pressed")).toBe("true");
});

test("a key without the scope sees why", async () => {
  expectTrouble();
  const page = await open();
  await withFigures(page, { status: 403, body: { error: { message: "this key lacks the scope 'operate'", code: "missing_scope" } } });
  await page.goto(`${server.url}/ui/operate`);
  await page.waitForSelector("text=This key may not operate the server");
});

describe.each(["light", "dark"] as const)("in the %s theme", (colorScheme) => {
  test("axe finds nothing serious in Operate, on a desk and on a phone", async () => {
    await start("this will fail");
    await start("order it");
    for (const context of [{ colorScheme }, { colorScheme, viewport: { width: 390, height: 844 } }]) {
      const page = await open("/ui/operate", context);
      await page.waitForSelector(".ap");
      expect(await findings(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
    }
  });
});
