import { describe, expect, test } from "vitest";
import { findings } from "./axe";
import { answered, ask, harness } from "./harness";

const { open } = harness({ pace: 0.004 });

describe.each(["light", "dark"] as const)("in the %s theme axe finds nothing serious", (colorScheme) => {
  test("in a new session", async () => {
    const page = await open("/ui", { colorScheme });
    await page.waitForSelector(".ready");
    expect(await findings(page)).toEqual([]);
  });

  test("in a conversation with tools, sources and settings", async () => {
    const page = await open("/ui", { colorScheme });
    await ask(page, "search for it");
    await answered(page);
    await ask(page, "markdown please");
    await answered(page, "A quotation.");
    expect(await findings(page)).toEqual([]);
    await page.click("role=button[name=Settings]");
    await page.waitForSelector("text=Settings of this session");
    expect(await findings(page)).toEqual([]);
  });

  test("while an approval waits, in its edit form, and after a failure", async () => {
    const page = await open("/ui", { colorScheme });
    await ask(page, "order it");
    await page.waitForSelector("[data-ask]");
    expect(await findings(page)).toEqual([]);
    await page.click("[data-ask] >> text=Edit");
    expect(await findings(page)).toEqual([]);
    await page.click("role=button[name='New session']");
    await ask(page, "this will fail");
    await page.waitForSelector(".prob");
    expect(await findings(page)).toEqual([]);
  });

  test("in menus, and on a phone", async () => {
    const page = await open("/ui", { colorScheme });
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog.finder");
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.click(".pick >> nth=1");
    await page.waitForSelector("dialog.picker");
    expect(await findings(page)).toEqual([]);
    const phone = await open("/ui", { colorScheme, viewport: { width: 390, height: 844 } });
    expect(await findings(phone)).toEqual([]);
  });
});

test("keys alone: ask, walk through the calls, open one, find, change views", async () => {
  const page = await open();
  await page.focus("#composer");
  await page.keyboard.type("calculate it");
  await page.keyboard.press("Enter");
  await answered(page, "391");
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  expect(await page.evaluate(() => document.activeElement?.className)).toContain("call");
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector(".body >> text=391");
  await page.keyboard.press("ArrowLeft");
  await page.waitForSelector(".body", { state: "detached" });
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForSelector("h1:has-text('Runs')");
  await page.goBack();
  await page.waitForSelector("text=391");
  await page.waitForFunction(() => document.activeElement?.id === "composer"); // where a view that opens puts the focus
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press("?");
  await page.waitForSelector("dialog >> text=All keys");
  await page.keyboard.press("Escape");
  await page.keyboard.press("n");
  await page.waitForSelector("text=What should it do?");
});

test("a screen reader hears each state of a round with an approval once", async () => {
  const page = await open();
  await page.evaluate(() => {
    const heard: string[] = ((window as never as { heard: string[] }).heard = []);
    for (const region of document.querySelectorAll("[aria-live=polite], [aria-live=assertive]")) {
      new MutationObserver(() => {
        const text = region.textContent ?? "";
        if (text !== "") heard.push(text);
      }).observe(region, { childList: true, characterData: true, subtree: true });
    }
  });
  await ask(page, "order it");
  await page.waitForSelector("[data-ask]");
  // What is there for a screen reader while it waits: landmarks, the round, the call with its state, and the question before the field.
  const tree = await page.locator("body").ariaSnapshot();
  for (const line of [
    '- navigation "Views"',
    '- navigation "Sessions"',
    "- main",
    '- log "Conversation"',
    '- region "Round 1"',
    /- button "place_order [^"]*waits for your decision"/,
    /- group "[^"]*place_order[^"]*"/,
    '- complementary "Details"',
  ]) {
    if (typeof line === "string") expect(tree).toContain(line);
    else expect(tree.slice(tree.indexOf("- log"))).toMatch(line);
  }
  expect(tree.search(/- button "Approve/)).toBeLessThan(tree.indexOf("Say something into the run"));
  await page.click("[data-ask] >> text=Approve");
  await answered(page, "Done");
  expect(await page.locator("[role=log]").ariaSnapshot()).toMatch(/- button "place_order [^"]*approved[^"]*"/);
  await page.waitForFunction(() => (window as never as { heard: string[] }).heard.some((one) => one.startsWith("Answer complete")));
  const heard = await page.evaluate(() => (window as never as { heard: string[] }).heard);
  expect(heard).toContain("place_order waits for your decision");
  expect(heard).toContain("Round 1 waits for you");
  expect(heard.at(-1)).toBe("Answer complete, 6 words");
  expect(new Set(heard).size).toBe(heard.length);
  const log = page.locator("[role=log]");
  expect(await log.getAttribute("aria-live")).toBe("off");
});

test.each([320, 390, 768, 1024])("at %d px nothing scrolls sideways", async (width) => {
  const page = await open("/ui", { viewport: { width, height: 800 } });
  const sideways = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(await sideways()).toBe(0);
  await ask(page, "markdown please");
  await answered(page, "A quotation.");
  expect(await sideways()).toBe(0);
  expect(await page.locator("[role=log]").evaluate((log) => log.scrollWidth - log.clientWidth)).toBe(0);
});

test("no view scrolls sideways where 1280 px are enlarged four times", async () => {
  const page = await open("/ui", { viewport: { width: 320, height: 640 } });
  await ask(page, "place them twice");
  await page.waitForSelector("[data-ask]");
  const sideways = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(await sideways()).toBe(0);
  const run = await page.evaluate(() => fetch("/v1/runs?limit=1").then((answer) => answer.json()).then((found: { data: { id: string }[] }) => found.data[0]?.id ?? ""));
  const seen: Record<string, number> = {};
  for (const view of ["runs", `runs/${run}`, `runs/compare?a=${run}&b=${run}`, "build", "operate"]) {
    await page.goto(new URL(`/ui/${view}`, page.url()).href);
    await page.waitForSelector(".main .bar");
    await page.waitForLoadState("networkidle");
    seen[view.replaceAll(run, "RUN")] = await sideways();
  }
  expect(seen).toEqual({ runs: 0, "runs/RUN": 0, "runs/compare?a=RUN&b=RUN": 0, build: 0, operate: 0 });
});

test("the theme follows the system, can be set, and is there before anything is drawn", async () => {
  const page = await open("/ui", { colorScheme: "dark" });
  const current = () => page.evaluate(() => document.documentElement.dataset["theme"]);
  expect(await current()).toBe("dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.waitForFunction(() => document.documentElement.dataset["theme"] === "light");
  await page.click("role=button[name='Use the dark theme']");
  expect(await current()).toBe("dark");
  await page.reload({ waitUntil: "commit" });
  await page.waitForFunction(() => document.body !== null);
  expect(await current()).toBe("dark");
});

test("without motion nothing turns", async () => {
  const page = await open();
  await ask(page, "please steer");
  await page.waitForSelector(".call.running .spin");
  const still = await page.locator(".call.running .spin").evaluate((spin) => getComputedStyle(spin).animationName);
  expect(still).toBe("none");
});

test("keys are called as the keyboard of a Mac has them, and work there", async () => {
  const page = await open("/ui");
  await page.waitForSelector(".find kbd >> text=Ctrl K");
  await page.addInitScript(() => Object.defineProperty(navigator, "platform", { value: "MacIntel" }));
  await page.reload();
  await page.waitForSelector(".find kbd >> text=⌘ K");
  await page.keyboard.press("Meta+k");
  await page.waitForSelector("dialog.finder");
});
