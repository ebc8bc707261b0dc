// Runs: the list with its filters, a run as a waterfall, followed and played again, branched, and compared with another.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { findings } from "./axe";
import { answered, ask, harness } from "./harness";

const { server, open, expectTrouble } = harness({ pace: 0.004 });

interface Frame {
  id: string;
  event: { type: string; at?: number; text?: string; [more: string]: unknown };
}

async function events(run: string): Promise<Frame[]> {
  const text = await (await fetch(`${server.url}/v1/runs/${run}/events`)).text();
  return text.split("\n\n").filter((block) => block.includes("data: ")).map((block) => {
    const lines = block.split("\n");
    const field = (name: string) => lines.find((line) => line.startsWith(name))?.slice(name.length) ?? "";
    return { id: field("id: "), event: JSON.parse(field("data: ")) as Frame["event"] };
  });
}

async function start(scene: string, session = ""): Promise<string> {
  const body = { model: "default", background: true, ...(session === "" ? {} : { session_id: session }), messages: [{ role: "user", content: scene }] };
  const answer = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  expect(answer.status).toBe(202);
  return `run_${((await answer.json()) as { id: string }).id.replace("chatcmpl-", "")}`;
}

async function ended(run: string): Promise<string> {
  await events(run); // the stream ends with the run
  return run;
}

function idOf(page: Page): string {
  return new URL(page.url()).pathname.split("/").at(-1) ?? "";
}

test("a session leads to its run, whose bars agree with the events to 10 ms", async () => {
  const page = await open();
  await ask(page, "search for it");
  await answered(page);
  await page.click("text=Open run");
  await page.waitForSelector(".pill:has-text('Finished')");
  const found = await events(idOf(page));
  const times = found.map(({ event }) => event.at ?? 0).filter((at) => at > 0);
  const [begin, end] = [Math.min(...times), Math.max(...times)];
  const share = (at: number) => (at - begin) / Math.max(0.05, end - begin);
  const wanted = found.filter(({ event }) => ["model_started", "tool_started"].includes(event.type)).map(({ event }) => share(event.at ?? 0));
  const drawn = await page.locator(".s-model .bars i:first-child, .s-tool .bars i:first-child").evaluateAll((bars) => bars.map((bar) => Number.parseFloat((bar as HTMLElement).style.left) / 100));
  expect(drawn.length).toBe(wanted.length);
  wanted.forEach((at, index) => expect(Math.abs(at - (drawn[index] ?? -1)) * (end - begin)).toBeLessThan(0.01));
  expect(await page.locator("[role=row].span").count()).toBe(6); // the run, two rounds, two model calls, one search
});

test("a row opens its details: figures, the request, the response, and events", async () => {
  const run = await ended(await start("calculate it"));
  const page = await open(`/ui/runs/${run}`);
  await page.click(".s-model >> nth=0");
  await page.waitForSelector(".det >> text=This model is not called over HTTP");
  await page.waitForSelector(".det .code:has-text('calculate it')");
  await page.click("role=tab[name=Response]");
  await page.waitForSelector(".det-call:has-text('calculate')");
  await page.click(".s-model >> nth=1");
  await page.click("role=tab[name=Request]");
  await page.waitForSelector(".cachemark"); // what the second request has in common with the first
  await page.waitForSelector(".det .code >> nth=1 >> text=391");
  await page.click(".s-tool");
  await page.waitForSelector(".det .code:has-text('17 * 23')");
  await page.click("role=tab[name=Result]");
  await page.waitForSelector(".det .code:has-text('391')");
  await page.click("role=tab[name=Events]");
  await page.click(".ev:has-text('tool_finished')");
  await page.waitForSelector(".ev-json:has-text('tool_finished')");
  await page.reload();
  await page.waitForSelector(".s-tool.on"); // the address says which row is chosen
});

test("words are found in a request, also where it is folded", async () => {
  const run = await ended(await start("search for it"));
  const page = await open(`/ui/runs/${run}`);
  await page.click(".s-model >> nth=1");
  await page.click("role=button[name='Find in the request']");
  await page.waitForSelector("[aria-label='Find in the request']:is(input):focus");
  await page.keyboard.type("RAILFREIGHT.example");
  await page.waitForSelector("role=status >> text=/^1 of [1-9]/");
  const marked = () => page.evaluate(() => [...(CSS.highlights.get("found-now")?.values() ?? [])].map(String));
  expect(await marked()).toEqual(["railfreight.example"]);
  await page.keyboard.press("Enter");
  await page.waitForSelector("role=status >> text=/^2 of /");
  await page.keyboard.press("Shift+Enter");
  await page.waitForSelector("role=status >> text=/^1 of /");
  await page.keyboard.type(" nowhere");
  await page.waitForSelector("role=status >> text=not found");
  await page.keyboard.press("Escape");
  await page.waitForSelector("[aria-label='Find in the request']:is(button):focus");
  expect(await marked()).toEqual([]);
});

test("a run under way is followed: its wait is answered here, and it goes on", async () => {
  const run = await start("order it");
  const page = await open(`/ui/runs/${run}`);
  await page.waitForSelector(".pill:has-text('Waiting')");
  await page.click(".s-wait");
  await page.waitForSelector(".det >> text=It would run with these arguments");
  await page.click(".det >> role=button[name=Approve]");
  await page.waitForSelector(".pill:has-text('Finished')");
  await page.waitForSelector(".s-wait:has-text('approved')");
  expect(await page.locator(".s-tool.span").count()).toBe(1);
});

test("an agent that was called is a child: its run opens inside the call, in the waterfall, and on its own page", async () => {
  const page = await open("/ui");
  await ask(page, "please ask the desk");
  await answered(page, "The desk says");
  await page.waitForSelector(".call:has-text('carrier-desk') .pill.child");
  await page.click(".call:has-text('carrier-desk')");
  await page.waitForSelector(".body >> text=The carrier rests from 24 to 27 December");
  await page.click("text=Open run");
  await page.click(".s-child");
  await page.waitForSelector(".det .pill.child");
  await page.keyboard.press("ArrowRight"); // which unfolds it
  await page.waitForSelector(".s-model >> nth=2");
  await page.click("role=tab[name=Result]");
  await page.click("text=Open the child’s own run");
  await page.waitForSelector(".s-model.span");
  await page.goto(`${server.url}/ui/runs?children=false`);
  await page.waitForSelector(".run-row:has-text('please ask the desk')");
  expect(await page.locator(".run-row:has-text('When are the last deliveries')").count()).toBe(0);
  await page.click("role=button[name='Not only no children']");
  await page.waitForSelector(".run-row:has-text('When are the last deliveries')");
});

test("a run is stopped from its page", async () => {
  const run = await start("slow please");
  const page = await open(`/ui/runs/${run}`);
  await page.waitForSelector(".s-tool");
  await page.click("text=Stop run >> visible=true");
  await page.waitForSelector(".pill:has-text('Cancelled')");
});

test("replay: what is shown at an event is the fold of the events up to it; keys step, play and pause", async () => {
  const run = await ended(await start("think about it"));
  const page = await open(`/ui/runs/${run}`);
  await page.waitForSelector(".span.on");
  const found = await events(run);
  const at = found.findIndex(({ event }) => event.type === "text_delta") + 2;
  const slider = page.locator("role=slider");
  await slider.focus();
  await page.keyboard.press("Home");
  for (let step = 0; step < at; step++) await page.keyboard.press("ArrowRight");
  const said = found.slice(0, at + 1).map(({ event }) => (event.type === "text_delta" ? event.text : "")).join("");
  await page.waitForFunction((text) => document.querySelector(".seen .say")?.textContent?.trim() === text.trim(), said);
  expect(await slider.getAttribute("aria-valuenow")).toBe(String(at));
  expect(await slider.getAttribute("aria-valuetext")).toContain(`event ${at + 1} of ${found.length}, text delta`);
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press("[");
  await page.keyboard.press("[");
  expect(await slider.getAttribute("aria-valuenow")).toBe(String(at - 2));
  await page.click("role=button[name='16×']");
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press(" ");
  await page.waitForFunction((last) => document.querySelector("[role=slider]")?.getAttribute("aria-valuenow") === String(last), found.length - 1);
  await page.waitForSelector(".seen >> text=I have thought about it.");
});

test("branch from a round: the conversation up to it is answered again, and both runs are compared", async () => {
  const first = await ended(await start("calculate it", "branches"));
  const page = await open(`/ui/runs/${first}`);
  await page.click(".s-round >> nth=1");
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press("b");
  await page.waitForSelector("dialog >> text=Branch from a round");
  await page.selectOption("dialog select >> nth=0", "1");
  await page.click("dialog >> role=button[name=Branch]");
  await page.waitForFunction((run) => !location.pathname.endsWith(run), first);
  await page.waitForSelector(".pill:has-text('Finished')");
  const second = idOf(page);
  expect(second).not.toBe(first);
  const [begun] = await events(second);
  expect((begun?.event["turns"] as { type: string }[]).map((turn) => turn.type)).toEqual(["user", "assistant", "tool"]);
  await page.goto(`${server.url}/ui/runs/compare?a=${first}&b=${second}`);
  await page.waitForSelector(".ch >> nth=1");
  await page.waitForSelector("text=no such step"); // the branch begins after the call
  await page.waitForSelector(".ans:has-text('391')");
});

test("compare: steps stand side by side, answers differ by their words, and what is the same can be hidden", async () => {
  const a = await ended(await start("calculate it"));
  const b = await ended(await start("search for it"));
  const page = await open(`/ui/runs/compare?a=${a}&b=${b}`);
  await page.waitForSelector(".rw.d >> text=calculate");
  await page.waitForSelector(".rw.d >> text=web_search");
  expect(await page.locator(".rw.gap").count()).toBe(2);
  await page.waitForSelector(".ans del");
  await page.waitForSelector(".ans ins");
  await page.goto(`${server.url}/ui/runs/compare?a=${a}&b=${a}`);
  await page.waitForSelector("text=Round 1 is the same");
  await page.waitForSelector("text=word for word the same");
  expectTrouble(); // a browser tells of every 404
  await page.goto(`${server.url}/ui/runs/compare?a=${a}&b=run_nowhere12`);
  await page.waitForSelector("text=There is no run “run_nowhere12”");
});

test("the list: states, words, agents in the address; two chosen runs are compared; back and reload work", async () => {
  await ended(await start("this will fail"));
  await ended(await start("markdown please"));
  const page = await open("/ui/runs");
  await page.waitForSelector(".run-row:has-text('markdown please')");
  await page.click("role=button[name=/^Failed/]");
  await page.waitForSelector(".run-row:has-text('model_failed')");
  expect(new URL(page.url()).search).toBe("?state=failed");
  await page.waitForFunction(() => [...document.querySelectorAll(".run-row .st")].every((cell) => cell.textContent?.includes("Failed")));
  await page.goBack();
  await page.waitForSelector(".run-row:has-text('markdown please')");
  await page.keyboard.press("/");
  await page.keyboard.type("markdown");
  await page.waitForFunction(() => document.querySelectorAll(".run-row:not(.head)").length === 1);
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll(".run-row:not(.head)").length === 1);
  await page.fill("role=searchbox", "nothing has this");
  await page.click("text=Show all runs");
  await page.waitForSelector(".run-row >> nth=3");
  await page.click("role=checkbox >> nth=0");
  await page.click("role=checkbox >> nth=1");
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press("c");
  await page.waitForSelector(".ch >> nth=1");
  await page.goBack();
  await page.click(".run-row:not(.head) >> nth=0");
  await page.waitForSelector(".span.on");
});

test("a run that is not there says so", async () => {
  expectTrouble();
  const page = await open("/ui/runs/run_nowhere12");
  await page.waitForSelector("text=There is no such run");
});

test("keys alone: the tree of a run can be walked, folded and left", async () => {
  const run = await ended(await start("search for it"));
  const page = await open(`/ui/runs/${run}`);
  await page.waitForSelector(".span.on");
  for (let step = 0; step < 9; step++) await page.keyboard.press("k");
  await page.waitForSelector(".s-run.on");
  await page.keyboard.press("j");
  await page.waitForSelector(".s-round.on[aria-expanded=true]");
  await page.keyboard.press("ArrowLeft");
  await page.waitForSelector(".s-round.on[aria-expanded=false]");
  expect(await page.locator("[role=row].span").count()).toBe(4);
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelectorAll("[role=row].span").length === 6);
  await page.keyboard.press("c");
  await page.waitForSelector("text=1 chosen: choose another to compare");
});

describe.each(["light", "dark"] as const)("in the %s theme axe finds nothing serious", (colorScheme) => {
  test("in the list, in a run that waits, in its replay, and in a comparison", async () => {
    const other = await ended(await start("search for it"));
    const run = await start("order it");
    const page = await open(`/ui/runs/${run}`, { colorScheme });
    await page.waitForSelector(".pill:has-text('Waiting')");
    expect(await findings(page)).toEqual([]);
    await page.click("role=slider");
    await page.waitForSelector(".seen");
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press("b");
    await page.waitForSelector("dialog.branch");
    expect(await findings(page)).toEqual([]);
    await page.goto(`${server.url}/ui/runs?with=${other}`);
    await page.waitForSelector(".run-row:has-text('place_order')");
    expect(await findings(page)).toEqual([]);
    await page.goto(`${server.url}/ui/runs/compare?a=${run}&b=${other}`);
    await page.waitForSelector(".ans");
    expect(await findings(page)).toEqual([]);
    const phone = await open(`/ui/runs/${run}`, { colorScheme, viewport: { width: 390, height: 844 } });
    await phone.waitForSelector(".span.on");
    expect(await findings(phone)).toEqual([]);
  });
});

test.each([320, 390, 768, 1024])("at %d px neither the list nor a run scrolls sideways", async (width) => {
  const run = await ended(await start("search for it"));
  const page = await open("/ui/runs", { viewport: { width, height: 800 } });
  const sideways = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  await page.waitForSelector(".run-row:not(.head)");
  expect(await sideways()).toBe(0);
  expect(await page.locator(".runs-box").evaluate((box) => box.scrollWidth - box.clientWidth)).toBeLessThanOrEqual(0);
  await page.goto(`${server.url}/ui/runs/${run}`);
  await page.waitForSelector(".span.on");
  expect(await sideways()).toBe(0);
});
