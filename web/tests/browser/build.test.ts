// Build: variants side by side while they are written, an element chosen and asked about, versions, code, and what a preview may not do.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { findings } from "./axe";
import { harness } from "./harness";

const { server, open, expectTrouble } = harness({ pace: 0.02 });

async function wish(page: Page, text: string): Promise<void> {
  await page.fill("#wish", text);
  await page.press("#wish", "Enter");
}

async function built(page: Page): Promise<void> {
  await page.waitForSelector("text=Keep B");
  await page.waitForSelector(".ver-facts.accent", { state: "detached" });
}

const preview = (page: Page, at: number) => page.frameLocator(`iframe.built >> nth=${at}`);

test("two previews grow while their code arrives, scripts asleep until it is whole; a change, a diff, a way back, a download", async () => {
  const page = await open("/ui/build");
  await wish(page, "A page with the departures of a tram stop");
  await page.waitForSelector("text=Variants A and B are being written");
  for (const at of [0, 1]) {
    await preview(page, at).locator("h1:has-text('Market Square')").waitFor();
    await preview(page, at).locator("#script:has-text('awake')").waitFor();
  }
  await built(page);
  const first = new URL(page.url()).pathname;

  await page.click("role=button[name='Choose an element of variant B']");
  await preview(page, 1).locator("li.departure >> nth=1").click();
  await page.waitForSelector(".picked:has-text('li.departure:nth-child(2)')");
  await wish(page, "Make delays visible at a glance");
  await page.waitForSelector(".ver >> nth=1");
  await built(page);
  await preview(page, 0).locator(".delay").waitFor();
  expect(await page.locator(".ver >> nth=0").innerText()).toContain("kept B");
  expect(new URL(page.url()).pathname).not.toBe(first);
  const [run] = (await (await fetch(`${server.url}/v1/runs?group=${new URL(page.url()).pathname.split("/").at(-1)}`)).json() as { data: { id: string }[] }).data;
  const begun = await (await fetch(`${server.url}/v1/runs/${run?.id}/events`)).text();
  expect(begun).toContain("li.departure:nth-child(2)"); // what was chosen went with the words
  await page.click("role=tab[name=Diff]");
  await page.waitForSelector(".dl.new mark:has-text('delay')");
  await page.click("role=tab[name=Steps]");
  await page.waitForSelector(".steps >> text=edit_file");

  await page.reload();
  await page.waitForSelector(".ver >> nth=1");
  await preview(page, 0).locator(".delay").waitFor();
  await page.click(".ver >> nth=0 >> role=link");
  await preview(page, 0).locator(".minutes >> nth=2").waitFor();
  expect(new URL(page.url()).search).toBe("?v=1");

  await page.click("role=button[name='390 px wide']");
  expect(await page.locator("iframe.built >> nth=0").evaluate((frame) => frame.clientWidth)).toBeLessThanOrEqual(390);
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("role=button[name=Download]")]);
  expect(file.suggestedFilename()).toBe("page.zip");
});

test("a picture goes along with the words, and stands beside its version; what is no picture is refused", async () => {
  const page = await open("/ui/build");
  const picture = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.setInputFiles("input[type=file]", { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("x") });
  await page.waitForSelector("role=alert >> text=notes.txt is no picture");
  await page.setInputFiles("input[type=file]", { name: "sketch.png", mimeType: "image/png", buffer: picture });
  await page.waitForSelector(".chip:has-text('sketch.png')");
  await wish(page, "A page with the departures, like this");
  await page.waitForSelector(".ver-pictures img");
  await built(page);
  const [run] = (await (await fetch(`${server.url}/v1/runs?group=${new URL(page.url()).pathname.split("/").at(-1)}`)).json() as { data: { id: string }[] }).data;
  const begun = await (await fetch(`${server.url}/v1/runs/${run?.id}/events`)).text();
  expect(begun).toContain(picture.toString("base64"));
});

test("keys alone choose an element; Escape leaves", async () => {
  const page = await open("/ui/build");
  await wish(page, "departures please");
  await built(page);
  await preview(page, 0).locator("#script:has-text('awake')").waitFor();
  const choose = page.locator("role=button[name='Choose an element of variant A']");
  await choose.focus();
  await page.keyboard.press("Enter");
  const outline = preview(page, 0).locator("html > div"); // the frame has heard that an element is being chosen
  await outline.waitFor({ state: "attached" });
  for (const key of ["ArrowDown", "ArrowRight", "ArrowDown", "Enter"]) await preview(page, 0).locator("body").press(key);
  await page.waitForSelector(".picked:has-text('li.departure:nth-child(1)')");
  await page.click("role=button[name='Not about this element']");
  await choose.click();
  await outline.waitFor({ state: "attached" });
  await preview(page, 0).locator("body").press("Escape");
  await page.waitForSelector("role=button[name='Choose an element of variant A'][pressed=false]");
});

test("a variant that fails leaves the other alone; one can be stopped", async () => {
  const page = await open("/ui/build");
  await wish(page, "uneven please");
  await page.waitForSelector(".var .pill:has-text('Failed')");
  await page.frameLocator("iframe.built").locator("#script:has-text('awake')").waitFor();
  expect(await page.locator(".pill:has-text('Failed')").count()).toBe(1);
  await page.goto(`${server.url}/ui/build`);
  await wish(page, "departures again");
  await page.click(".var >> nth=1 >> text=Stop");
  await page.waitForSelector(".var >> nth=1 >> text=Stopped");
  await page.waitForSelector(".var >> nth=0 >> text=Kept");
});

test("a preview that tries the page around it, cookies, storage, the network or another host gets nothing", async () => {
  expectTrouble(); // a browser tells of what its policy refused
  const page = await open("/ui/build");
  await wish(page, "spy page");
  const found = preview(page, 0).locator("#found");
  await found.locator("text=fetch").waitFor();
  expect(await found.innerText()).toBe("parent:refused cookie:refused storage:refused top:refused fetch:refused");
  expect(new URL(page.url()).origin).toBe(server.url);
});

test("what is not there says so; an empty place says what to do", async () => {
  const page = await open("/ui/build");
  await page.click("text=Try: a tram stop’s departures");
  expect(await page.inputValue("#wish")).toContain("tram stop");
  expectTrouble();
  await page.goto(`${server.url}/ui/build/grp_nowhere`);
  await page.waitForSelector("text=There is no such page");
});

describe.each(["light", "dark"] as const)("in the %s theme", (colorScheme) => {
  test("axe finds nothing serious in Build", async () => {
    const page = await open("/ui/build", { colorScheme });
    expect(await findings(page)).toEqual([]);
    await wish(page, "departures please");
    await built(page);
    expect(await findings(page)).toEqual([]);
  });
});

test.each([320, 390, 768])("at %d px nothing scrolls sideways", async (width) => {
  const page = await open("/ui/build", { viewport: { width, height: 800 } });
  await wish(page, "departures please");
  await page.waitForSelector("iframe.built");
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
});

test("a page gets the copies of libraries that the server keeps, and is shown without the others", async () => {
  const page = await open("/ui/build");
  await page.fill("#wish", "A page with a library");
  await page.press("#wish", "Enter");
  await page.frameLocator("iframe.built >> nth=0").locator("#found:has-text('with its library')").waitFor();
});

test("the variant that was kept is kept in every browser of the owner", async () => {
  const page = await open("/ui/build");
  await page.fill("#wish", "The departures of a stop");
  await page.press("#wish", "Enter");
  const [answer] = await Promise.all([page.waitForResponse((one) => one.request().method() === "PATCH"), page.click("text=Keep B")]);
  expect(answer.status()).toBe(200);
  const other = await open(new URL(page.url()).pathname);
  await other.waitForSelector("section[aria-label='Variant B'] >> role=button[name=Kept]");
});
