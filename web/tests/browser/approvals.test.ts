import { describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { answered, ask, harness, talkText } from "./harness";

const { server, open, tab, expectTrouble } = harness({ pace: 0.004 });

async function waiting(page: Page, words = "order it"): Promise<void> {
  await ask(page, words);
  await page.waitForSelector("[data-ask]");
  await page.waitForTimeout(1000); // a card answers to letters 400 ms after it was drawn
}

/** Away from the text field: letters are keys there. */
async function leaveField(page: Page): Promise<void> {
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
}

describe("a call that needs a person", () => {
  test("stands in the dock, the tab, the list and Operate; A runs it, and the row says so", async () => {
    const page = await open();
    await waiting(page);
    await page.waitForFunction(() => document.title.startsWith("(1) "));
    await page.waitForSelector('.sessions .dot.wait');
    await page.waitForSelector('.nav .count.wait');
    expect(await page.locator("[data-ask]").innerText()).toContain('"2026-12-14"');
    await leaveField(page);
    await page.keyboard.press("a");
    await answered(page, "Done: what was decided is known.");
    expect(await page.locator(".call").innerText()).toContain("approved");
    expect(await page.locator("[data-ask]").count()).toBe(0);
    await page.waitForFunction(() => !document.title.startsWith("("));
  });

  test("E with a value of the wrong type is refused and the field named; with a right one old and new are shown", async () => {
    expectTrouble(); // the server's no is a line in the console
    const page = await open();
    await waiting(page);
    await leaveField(page);
    await page.keyboard.press("e");
    const field = page.locator(".edit-row:has-text('quantity') input");
    await field.fill("many");
    await page.keyboard.press("Control+Enter");
    await page.waitForSelector(".field.wrong input[aria-invalid=true]");
    expect(await page.locator("[role=alert] >> text=quantity").innerText()).toContain("not of type");
    await field.fill("1200");
    await page.keyboard.press("Control+Enter");
    await answered(page, "Done");
    const row = await page.locator(".call").innerText();
    expect(row).toContain("quantity 1450 1200");
    expect(await page.locator(".call s").innerText()).toBe("1450");
  });

  test("E shows what else the tool takes, by its schema; what is left empty stays left out", async () => {
    const page = await open();
    await waiting(page);
    await leaveField(page);
    await page.keyboard.press("e");
    const row = page.locator(".edit-row:has-text('carrier')");
    expect(await row.innerText()).toContain("not given");
    expect(await row.locator("option").allInnerTexts()).toEqual(["", "rail", "road"]);
    await row.locator("select").selectOption("rail");
    await page.locator(".edit-row:has-text('quantity') input").focus();
    await page.keyboard.press("Control+Enter");
    await answered(page, "Done");
    expect(await page.locator(".call").innerText()).toMatch(/approved with carrier\s+rail/);
  });

  test("S: the same tool asks no more in this session", async () => {
    const page = await open();
    await waiting(page, "place them twice");
    await leaveField(page);
    await page.keyboard.press("s");
    await answered(page, "Both are placed.");
    expect(await page.locator(".call >> nth=0").innerText()).toContain("approved for this session");
    expect(await page.locator("[data-ask]").count()).toBe(0);
    await page.click("role=button[name=Settings]");
    await page.click("role=button[name='Take back the approval of place_order']");
    await page.waitForSelector("text=Approved in this session", { state: "detached" });
    await ask(page, "order it");
    await page.waitForSelector("[data-ask]"); // it is asked about again
  });

  test("D with a reason: the model reads it", async () => {
    const page = await open();
    await waiting(page);
    await leaveField(page);
    await page.keyboard.press("d");
    await page.keyboard.type("Not before Friday.");
    await page.keyboard.press("Enter");
    await answered(page, "Done");
    expect(await page.locator(".call").innerText()).toContain("denied: “Not before Friday.”");
    const told = (await (await fetch(`${server.url}/v1/sessions/${new URL(page.url()).pathname.split("/").at(-1)}`)).json()) as { messages: { role: string; content: string }[] };
    const read = told.messages.find((message) => message.role === "tool")?.content ?? "";
    expect(read).toContain("Not before Friday");
    await page.click("text=Open run");
    await page.click(".s-tool:has-text('place_order')");
    await page.click("role=tab[name=Result]");
    await page.waitForSelector(`.det .code:has-text("${read}")`); // the very words that the model has read
  });

  test("letters typed in the composer answer nothing", async () => {
    const page = await open();
    await waiting(page);
    await page.focus("#composer");
    await page.keyboard.type("a sad deed");
    await page.waitForTimeout(300);
    expect(await page.locator("[data-ask]").count()).toBe(1);
    await page.keyboard.press("Control+j");
    expect(await page.evaluate(() => document.activeElement?.hasAttribute("data-ask"))).toBe(true);
  });

  test("letters within 400 ms of its appearing answer nothing", async () => {
    const page = await open();
    await ask(page, "order it");
    await leaveField(page);
    await page.waitForSelector("[data-ask]");
    await page.keyboard.press("a");
    await page.waitForTimeout(600);
    expect(await page.locator("[data-ask]").count()).toBe(1);
  });

  test("an answer in one tab closes the card in the other within a second", async () => {
    const page = await open();
    await waiting(page);
    const other = await tab(page, new URL(page.url()).pathname);
    await other.waitForSelector("[data-ask]");
    await page.click("text=Approve");
    await other.waitForSelector("[data-ask]", { state: "detached", timeout: 1500 });
    await answered(other, "Done");
    await answered(page, "Done");
    expect(await other.locator(".call").innerText()).toContain("approved");
    expect(await talkText(other)).toBe(await talkText(page));
  });

  test("words for a run that waits are kept, and go out after the decision", async () => {
    const page = await open();
    await waiting(page);
    await ask(page, "and hurry");
    await page.waitForSelector(".held >> text=and hurry");
    await page.click("text=Approve");
    await answered(page);
    await page.waitForSelector('.said p:has-text("and hurry")');
    await page.waitForSelector(".held", { state: "detached" });
  });

  test("words that reach a run when it is over are asked once, as the next question", async () => {
    const page = await open();
    await waiting(page);
    await ask(page, "and hurry");
    await page.waitForSelector(".held >> text=and hurry");
    // The words are on their way until the run is over: then the server has no run to say them to.
    await page.route("**/steer", async (route) => {
      await page.waitForSelector('.say:has-text("Done: what was decided is known.")');
      const run = /runs\/([^/]+)\/steer/.exec(route.request().url())?.[1] ?? "";
      await page.waitForFunction(async (id) => {
        const answer = await fetch(`/v1/runs/${id}`);
        return ((await answer.json()) as { state: string }).state === "finished";
      }, run);
      await route.continue();
    });
    const refused = page.waitForResponse((answer) => answer.url().endsWith("/steer"));
    await page.click("text=Approve");
    expect((await refused).status()).toBe(409);
    await page.waitForSelector('.said p:has-text("and hurry")');
    await page.waitForSelector(".held", { state: "detached" });
    await page.waitForSelector('[role=log][aria-busy="false"]');
    expect(await page.locator('.said p:has-text("and hurry")').count()).toBe(1);
  });

  test("on a phone it is a sheet that is a dialog", async () => {
    const page = await open("/ui", { viewport: { width: 390, height: 844 }, hasTouch: true });
    await ask(page, "order it");
    const sheet = page.locator("[data-ask][role=dialog][aria-modal=true]");
    await sheet.waitFor();
    for (const button of await sheet.locator("button").all()) {
      expect((await button.boundingBox())?.height).toBeGreaterThanOrEqual(44);
    }
    await sheet.locator("text=Approve").click();
    await answered(page, "Done");
  });
});
