// A server with a week of work: what its settings and Operate do, and pictures of the views, to be looked at next to those of the
// design (in web/pictures).
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContextOptions, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { findings } from "./axe";
import { PICTURES, answered, ask, harness } from "./harness";

const { server, open, expectTrouble } = harness({ pace: 0.006, gallery: true });
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };
const SESSION = "/ui/chat/chat-pallets";

beforeAll(() => mkdirSync(PICTURES, { recursive: true }));

async function shoot(page: Page, name: string): Promise<void> {
  await page.waitForTimeout(400); // colours of code come when the page has time
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

describe.each(["light", "dark"] as const)("in the %s theme", (colorScheme) => {
  const context: BrowserContextOptions = { colorScheme, deviceScaleFactor: 2, reducedMotion: "no-preference" };

  test("a conversation with tools while an approval waits, its settings, and its run", async () => {
    const page = await open(SESSION, context);
    await page.waitForSelector("[data-ask]");
    await page.waitForSelector(".fig img");
    await shoot(page, `chat-${colorScheme}`);
    await page.click("role=button[name=Settings]");
    await page.waitForSelector("text=Settings of this session");
    await shoot(page, `settings-${colorScheme}`);
    await page.click("text=Open run");
    await page.waitForSelector(".span.on");
    await page.click(".s-model >> nth=1");
    await page.waitForSelector(".cachemark");
    await page.locator("role=slider").click({ position: { x: 330, y: 6 } });
    await page.waitForSelector(".seen");
    await shoot(page, `run-${colorScheme}`);
    const phone = await open(new URL(page.url()).pathname, { ...context, ...PHONE });
    await phone.waitForSelector(".span.on");
    await shoot(phone, `phone-run-${colorScheme}`);
    await phone.goto(new URL(SESSION, page.url()).href);
    await phone.waitForSelector("[data-ask]");
    await shoot(phone, `phone-approval-${colorScheme}`);
  });

  test("an agent with its form, and the request that is not sent yet", async () => {
    const page = await open("/ui", context);
    await page.click("role=button[name=/^Model:/]");
    await page.click("role=button[name=weather]");
    await page.fill(".agent-form input", "Lisbon");
    await page.click(".agent-form >> text=celsius");
    await shoot(page, `picker-${colorScheme}`);
    await page.keyboard.press("Escape");
    await page.click("role=button[name=/^Model:/]");
    await page.click("role=button[name='anthropic:claude-opus-4-8']");
    await page.fill("#composer", "How many pallets are in the harbour?");
    await page.click("role=button[name=Settings]");
    await page.click("text=What will be sent");
    await page.waitForSelector("dialog >> text=api.anthropic.com");
    await shoot(page, `will-be-sent-${colorScheme}`);
  });

  test("the list of runs, and two of them side by side", async () => {
    const page = await open("/ui/runs?children=false", context);
    await page.waitForSelector(".run-row >> nth=6");
    for (const at of [0, 1]) await page.locator(".run-row:has-text('nightly import') >> role=checkbox").nth(at).click();
    await shoot(page, `runs-${colorScheme}`);
    await page.click("role=button[name=/^Compare/]");
    await page.waitForSelector(".ans ins >> nth=0");
    await shoot(page, `compare-${colorScheme}`);
    const phone = await open("/ui/runs", { ...context, ...PHONE });
    await phone.waitForSelector(".run-row >> nth=6");
    await shoot(phone, `phone-runs-${colorScheme}`);
  });

  test("build: a variant is done and asked about while the other is being written", async () => {
    const page = await open("/ui/build", context);
    await page.click(".menu-box summary");
    await page.check("role=checkbox[name='gpt-5.5']");
    await page.fill("#wish", "A page with the departures of a tram stop");
    await page.press("#wish", "Enter");
    await page.waitForSelector("text=Keep B");
    await page.fill("#wish", "Larger type. It hangs four metres away.");
    await page.press("#wish", "Enter");
    await page.waitForSelector(".ver >> nth=1");
    await page.waitForSelector("text=Keep B");
    await page.waitForSelector(".menu-box >> text=2 models"); // as the version before
    await page.fill("#wish", "Make delays visible at a glance");
    await page.press("#wish", "Enter");
    await page.waitForSelector(".ver >> nth=2");
    await page.waitForSelector("text=B is at round");
    await page.waitForSelector("role=button[name='Kept']");
    await page.frameLocator("iframe.built >> nth=0").locator("text=+6 min").waitFor();
    await page.frameLocator("iframe.built >> nth=1").locator("text=Harbour").waitFor();
    await page.click("role=button[name='Choose an element of variant A']");
    await page.frameLocator("iframe.built >> nth=0").locator(".departure >> nth=1").click({ position: { x: 160, y: 20 } });
    await page.waitForSelector(".picked >> text=li.departure:nth-child(2)");
    await page.click("role=tab[name=Diff]");
    await page.waitForSelector(".dl.new");
    await page.fill("#wish", "Strike the old time through");
    await shoot(page, `build-${colorScheme}`);
    const phone = await open(new URL(page.url()).pathname, { ...context, ...PHONE });
    await phone.waitForSelector("iframe.built");
    await shoot(phone, `phone-build-${colorScheme}`);
  });

  test("operate, on a desk and on a phone", async () => {
    await ask(await open("/ui", context), "Read the 40 invoices in the folder and list those without a date");
    const page = await open("/ui/operate", context);
    await page.waitForSelector(".ap");
    await page.waitForSelector("text=NOTES_DIR is not set");
    await page.waitForSelector("role=button[name=/^Doctor/]");
    await page.waitForSelector("td >> text=Read the 40 invoices");
    await shoot(page, `operate-${colorScheme}`);
    const phone = await open("/ui/operate", { ...context, ...PHONE });
    await phone.waitForSelector(".ap");
    await shoot(phone, `phone-operate-${colorScheme}`);
  });
});

describe.each(["light", "dark"] as const)("in the %s theme axe finds nothing serious", (colorScheme) => {
  test("in what lies over a page", async () => {
    const page = await open("/ui", { colorScheme });
    await page.click("role=button[name=/^Model:/]");
    await page.click("role=button[name=weather]");
    await page.waitForSelector(".agent-form");
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.click("role=button[name=/^Model:/]");
    await page.click("role=button[name='anthropic:claude-opus-4-8']");
    await page.click("role=button[name=Settings]");
    await page.click("text=What will be sent");
    await page.waitForSelector("dialog >> text=api.anthropic.com");
    expect(await findings(page)).toEqual([]);
    await page.goto(new URL(SESSION, page.url()).href);
    await page.click("role=button[name='Preview reorder-plan.csv'] >> nth=0");
    await page.waitForSelector("dialog td >> text=harbour");
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.locator("h1").click();
    await page.keyboard.press("?");
    await page.waitForSelector("dialog >> text=All keys");
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.click("text=Open run");
    await page.waitForSelector(".cachemark");
    await page.keyboard.press("b");
    await page.waitForSelector("dialog >> text=Branch from a round");
    expect(await findings(page)).toEqual([]);
    await page.goto(new URL("/ui/operate", page.url()).href);
    await page.waitForSelector(".ap");
    await page.click("text=New key");
    await page.click("role=button[name=/^Doctor/]");
    await page.waitForSelector(".doctor-list");
    expect(await findings(page)).toEqual([]);
  });

  test("in the sheets of a phone", async () => {
    const phone = await open(SESSION, { colorScheme, ...PHONE });
    await phone.waitForSelector("[data-ask]");
    expect(await findings(phone)).toEqual([]);
    await phone.tap("[data-ask] >> text=Edit");
    expect(await findings(phone)).toEqual([]);
    await phone.goto(new URL("/ui/runs?q=warehouse", phone.url()).href);
    await phone.tap(".run-row:has-text('Which warehouse')");
    await phone.tap(".span:has-text('python')");
    await phone.waitForSelector(".det.shown");
    expect(await findings(phone)).toEqual([]);
    await phone.goto(new URL("/ui", phone.url()).href);
    await phone.tap("role=button[name='Sessions and views']");
    await phone.waitForSelector("dialog.side-sheet");
    expect(await findings(phone)).toEqual([]);
  });
});

/** What the run was offered, as its first event says. */
async function offered(): Promise<string[]> {
  const read = (path: string) => fetch(server.url + path, { headers: { authorization: `Bearer ${server.keys["ops"]}` } });
  const { data } = (await (await read("/v1/runs?limit=1")).json()) as { data: { id: string }[] };
  const events = await (await read(`/v1/runs/${data[0]?.id}/events`)).text();
  const begun = events.split("\n").find((line) => line.startsWith("data: ") && line.includes('"run_started"')) ?? "data: {}";
  return (JSON.parse(begun.slice("data: ".length)) as { tools?: string[] }).tools ?? [];
}

test("tools and MCP servers that are switched off are not offered, and the settings count them", async () => {
  const page = await open("/ui");
  await ask(page, "Tell me something");
  await answered(page, "an answer to that");
  expect(await offered()).toEqual(expect.arrayContaining(["sql", "fetch", "calendar_pid"]));
  await page.click("role=button[name=Settings]");
  const before = await page.locator(".pane h2:has-text('Tools') .num").innerText();
  await page.click("role=switch[name=sql]");
  await page.click("role=switch[name=calendar]");
  expect(await page.isDisabled("role=switch[name=maps]")).toBe(true);
  const after = await page.locator(".pane h2:has-text('Tools') .num").innerText();
  expect([Number.parseInt(before, 10) - Number.parseInt(after, 10), await page.locator(".pane h2:has-text('MCP') .num").innerText()]).toEqual([3, "0 of 4"]);
  await ask(page, "Tell me more");
  await page.waitForSelector(".turn >> nth=1 >> .ending");
  const tools = await offered();
  expect(tools).toContain("fetch");
  expect(tools).not.toContain("sql");
  expect(tools.filter((name) => name.startsWith("calendar"))).toEqual([]);
});

test("what will be sent is shown before it is: the provider’s own words, with the draft in them", async () => {
  const page = await open("/ui");
  await page.fill("#composer", "How many pallets are in the harbour?");
  await page.click("role=button[name=Settings]");
  await page.fill("role=textbox[name=Instructions]", "Answer in one word.");
  await page.click("text=What will be sent");
  const dialog = page.locator("dialog[aria-label='What will be sent']");
  await dialog.locator("text=api.anthropic.com/v1/messages").waitFor();
  expect(await dialog.innerText()).toContain("How many pallets are in the harbour?");
  expect(await dialog.innerText()).toContain("Answer in one word.");
  await dialog.locator("role=button[name=/^Unfold .*tools/]").click();
  expect(await dialog.innerText()).toContain("Ask the database. It can only be read.");
  await page.keyboard.press("Escape");
  expect(await page.inputValue("#composer")).toBe("How many pallets are in the harbour?");
});

test("an operator makes a key, which works and is shown once, and revokes it", async () => {
  expectTrouble(); // the revoked key’s answer is 401
  const page = await open("/ui/operate");
  await page.click("role=button[name='New key']");
  await page.fill("role=textbox[name=Owner]", "night-shift");
  await page.selectOption("role=combobox[name=May]", "operate");
  await page.selectOption("role=combobox[name=Ends]", "7");
  await page.click("text=Make the key");
  const key = await page.inputValue("role=textbox[name='The new key']");
  expect(key).toMatch(/^rk_/);
  const me = () => fetch(`${server.url}/v1/me`, { headers: { authorization: `Bearer ${key}` } });
  expect(((await (await me()).json()) as { owner: string }).owner).toBe("night-shift");
  await page.click(".new-key >> text=Done");
  expect(await page.content()).not.toContain(key);
  const row = page.locator("tr:has-text('night-shift')");
  expect(await row.innerText()).toContain("operate");
  await row.locator("text=Revoke").click();
  await row.locator("text=Revoke for good").click();
  await row.waitFor({ state: "detached" });
  await expect.poll(async () => (await me()).status).toBe(401);
});

test("an operator tries an MCP server again, and reads what the doctor found", async () => {
  const page = await open("/ui/operate");
  const notes = page.locator("li:has-text('notes')");
  await notes.locator("text=NOTES_DIR is not set").waitFor();
  const [answer] = await Promise.all([page.waitForResponse(/\/v1\/mcp\/notes\/retry$/), notes.locator("text=Retry").click()]);
  expect(answer.status()).toBe(202);
  expect(await page.locator("li:has-text('calendar') >> text=Retry").count()).toBe(0);
  await page.click("role=button[name=/^Doctor/]");
  await page.waitForSelector(".doctor-list >> text=notes");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".doctor-list", { state: "detached" });
  await page.click("role=button[name=/^Doctor/]");
  await page.waitForSelector(".doctor-list");
  await page.click(".tiles", { position: { x: 10, y: 10 } });
  await page.waitForSelector(".doctor-list", { state: "detached" });
});
