// Pictures of every view, in both themes and on a phone, from the real page: to be looked at beside the design. In web/pictures.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContextOptions, Page } from "playwright-core";
import { beforeAll, describe, test } from "vitest";
import { PICTURES, answered, ask, harness } from "./harness";

const { open } = harness({ pace: 0.004, code: true });
const QUESTION = "Which warehouse runs out of pallets in December? Use the stock export, check the carrier’s holiday calendar, and order what is missing.";
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };

beforeAll(() => mkdirSync(PICTURES, { recursive: true }));

async function shoot(page: Page, name: string): Promise<void> {
  await page.waitForTimeout(400); // colours of code come when the page has time
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

describe.each(["light", "dark"] as const)("in the %s theme", (colorScheme) => {
  const context: BrowserContextOptions = { colorScheme, deviceScaleFactor: 2 };

  test("a new session, on a desk and on a phone", async () => {
    const page = await open("/ui", context);
    await page.waitForSelector(".ready");
    await shoot(page, `first-start-${colorScheme}`);
    await page.keyboard.press("Control+k");
    await shoot(page, `find-${colorScheme}`);
    const phone = await open("/ui", { ...context, ...PHONE });
    await phone.waitForSelector(".ready");
    await shoot(phone, `phone-first-start-${colorScheme}`);
  });

  test("a conversation with tools while an approval waits, edited, and after it", async () => {
    const page = await open("/ui", context);
    await ask(page, QUESTION);
    await page.waitForSelector("[data-ask]");
    await page.waitForSelector(".fig img");
    await shoot(page, `chat-${colorScheme}`);
    const phone = await open(new URL(page.url()).pathname, { ...context, ...PHONE });
    await phone.waitForSelector("[data-ask]");
    await shoot(phone, `phone-approval-${colorScheme}`);
    await page.click("[data-ask] >> text=Edit");
    await page.locator(".edit-row:has-text('quantity') input").fill("1200");
    await shoot(page, `approval-edit-${colorScheme}`);
    await page.keyboard.press("Control+Enter");
    await answered(page, "The order is placed");
    await shoot(page, `chat-end-${colorScheme}`);
    await phone.waitForSelector("[data-ask]", { state: "detached" });
    await answered(phone, "The order is placed");
    await shoot(phone, `phone-chat-${colorScheme}`);
  });

  test("the pictures of the documentation", async () => {
    const small = { ...context, deviceScaleFactor: 1.5, viewport: { width: 1280, height: 800 } };
    const page = await open("/ui", small);
    await ask(page, "prepare Python, please");
    await answered(page, "Ready.");
    await page.click("role=button[name='Rename the session']");
    await page.fill("role=textbox[name='Name of the session']", "December pallet shortage");
    await page.keyboard.press("Enter");
    await page.setInputFiles("input[type=file]", { name: "stock-2026.csv", mimeType: "text/csv", buffer: Buffer.from("site,day,moved\nnorth,1,96\n") });
    await page.waitForSelector(".chip:has-text('stock-2026.csv'):not(:has-text('%'))");
    await ask(page, "What is short in December? Use the stock export, check the carrier’s calendar, and order what is missing.");
    await page.waitForSelector("[data-ask]");
    await page.waitForSelector(".fig img");
    await shoot(page, `docs-chat-${colorScheme}`);
    await page.click("text=Open run");
    await page.waitForSelector(".span.on");
    await page.click(".s-model >> nth=1");
    await page.waitForSelector(".cachemark");
    await shoot(page, `docs-run-${colorScheme}`);
    const build = await open("/ui/build", small);
    await build.fill("#wish", "A page with the departures of a tram stop");
    await build.press("#wish", "Enter");
    await build.waitForSelector("text=Keep B");
    await build.frameLocator("iframe.built >> nth=1").locator("#script:has-text('awake')").waitFor();
    await shoot(build, `docs-build-${colorScheme}`);
    await build.goto(new URL("/ui/runs", build.url()).href);
    await build.waitForSelector(".run-row >> nth=3");
    await shoot(build, `docs-runs-${colorScheme}`);
    await build.goto(new URL("/ui/operate", build.url()).href);
    await build.waitForSelector(".ap");
    await shoot(build, `docs-operate-${colorScheme}`);
  });

  test("thinking beside the settings", async () => {
    const page = await open("/ui", context);
    await page.click("role=button[name=Settings]");
    await ask(page, "think about it");
    await page.waitForSelector(".thought.live");
    await page.screenshot({ path: join(PICTURES, `settings-${colorScheme}.png`) });
  });

  test("Markdown, a failure and a broken answer", async () => {
    const page = await open("/ui", context);
    await ask(page, "markdown please");
    await answered(page, "A quotation.");
    await shoot(page, `markdown-${colorScheme}`);
    await ask(page, "cut it off");
    await page.waitForSelector("text=Incomplete");
    await ask(page, "this will fail");
    await page.waitForSelector(".prob");
    await shoot(page, `states-${colorScheme}`);
  });

  test("runs: the list, one as a waterfall, played again, and two side by side", async () => {
    const page = await open("/ui", context);
    await ask(page, QUESTION);
    await page.waitForSelector("[data-ask]");
    await page.click("text=Open run");
    await page.waitForSelector(".span.on");
    await shoot(page, `run-${colorScheme}`);
    const phone = await open(new URL(page.url()).pathname, { ...context, ...PHONE });
    await phone.waitForSelector(".span.on");
    await shoot(phone, `phone-run-${colorScheme}`);
    await page.click("role=slider");
    await page.waitForSelector(".seen");
    await shoot(page, `replay-${colorScheme}`);
    for (const words of ["search for the calendar", "plan it, please"]) {
      const other = await open("/ui", context);
      await ask(other, words);
      await other.waitForSelector(words === "plan it, please" ? "[data-ask]" : ".ending");
    }
    await page.goto(new URL("/ui/runs", page.url()).href);
    await page.waitForSelector(".run-row >> nth=3");
    await page.click("role=checkbox >> nth=0"); // the plan, and the question above: both have the same first steps
    await page.click(".run-row:has-text('Which warehouse') >> nth=0 >> role=checkbox");
    await shoot(page, `runs-${colorScheme}`);
    await page.click("role=button[name=/^Compare/]");
    await page.waitForSelector(".ch >> nth=1");
    await shoot(page, `compare-${colorScheme}`);
    await phone.goto(new URL("/ui/runs", page.url()).href);
    await phone.waitForSelector(".run-row >> nth=2");
    await shoot(phone, `phone-runs-${colorScheme}`);
  });

  test("build: a new page, and two variants after a change", async () => {
    const page = await open("/ui/build", context);
    await shoot(page, `build-start-${colorScheme}`);
    await page.fill("#wish", "A page with the departures of a tram stop");
    await page.press("#wish", "Enter");
    await page.waitForSelector("text=Keep B");
    await page.fill("#wish", "Make delays visible at a glance");
    await page.press("#wish", "Enter");
    await page.waitForSelector(".ver >> nth=1");
    await page.waitForSelector("text=Keep B");
    await page.click("role=tab[name=Diff]");
    await page.waitForSelector(".dl.new");
    await shoot(page, `build-${colorScheme}`);
    const phone = await open(new URL(page.url()).pathname, { ...context, ...PHONE });
    await phone.waitForSelector("iframe.built");
    await shoot(phone, `phone-build-${colorScheme}`);
  });

  test("operate, on a desk and on a phone", async () => {
    const other = await open("/ui", context);
    await ask(other, "order it");
    await other.waitForSelector("[data-ask]");
    const page = await open("/ui/operate", context);
    await page.waitForSelector(".ap");
    await shoot(page, `operate-${colorScheme}`);
    const phone = await open("/ui/operate", { ...context, ...PHONE });
    await phone.waitForSelector(".ap");
    await shoot(phone, `phone-operate-${colorScheme}`);
  });
});
