import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { answered, ask, harness } from "./harness";

const { server, open, expectTrouble } = harness({ pace: 0.002, code: true });

describe("code", () => {
  test("a Python cell has its code, its output, a figure and a file; the download has the bytes of /v1/files", async () => {
    const page = await open();
    await ask(page, "a figure, please");
    await answered(page, "The figure is above");
    expect(await page.locator(".codearea").innerText()).toContain("plt.subplots");
    expect(await page.locator(".terminal").innerText()).toContain("Harbour       1,940       119     17 Dec");
    const figure = page.locator(".fig img");
    expect(await figure.evaluate((image: HTMLImageElement) => [image.complete, image.naturalWidth === image.width || image.naturalWidth > 100])).toEqual([true, true]);
    expect(await figure.getAttribute("alt")).toContain("Figure 1");
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator(".file a[download]").click()]);
    expect(download.suggestedFilename()).toBe("reorder-plan.csv");
    const stored = (await (await fetch(`${server.url}/v1/files`)).json()) as { data: { id: string; filename: string }[] };
    const id = stored.data.find((file) => file.filename === "reorder-plan.csv")?.id ?? "";
    const bytes = Buffer.from(await (await fetch(`${server.url}/v1/files/${id}/content`)).arrayBuffer());
    expect(readFileSync(await download.path())).toEqual(bytes);
    await page.click("role=button[name='Preview reorder-plan.csv']");
    await page.waitForSelector("dialog td:has-text('harbour')");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.reload();
    await page.waitForSelector(".fig img");
    await page.waitForSelector(".file >> text=reorder-plan.csv");
  });

  test("a file that is opened in a tab of its own is downloaded, and not shown", async () => {
    const page = await open();
    await ask(page, "a figure, please");
    await answered(page, "The figure is above");
    const address = await page.locator(".file a[download]").getAttribute("href");
    const [file] = await Promise.all([page.waitForEvent("download"), page.evaluate((to) => void location.assign(to ?? ""), address)]);
    expect(file.suggestedFilename()).toBe("reorder-plan.csv");
  });

  test("a session that is opened again has its figures, its files and the way to its run", async () => {
    const page = await open();
    await ask(page, "a figure, please");
    await answered(page, "The figure is above");
    const facts = () => page.locator(".bar-facts").innerText();
    const [before, files] = [await facts(), await page.locator(".frow").count()];
    expect([before.includes("Open run"), files]).toEqual([true, 1]);
    await page.click("role=button[name='New session']");
    await page.waitForSelector("text=What should it do?");
    await page.click(".sessions a >> nth=0");
    await page.waitForSelector(".bar-facts >> text=Open run");
    await page.waitForSelector(".frow");
    expect(await facts()).toBe(before);
  });

  test("shell output shows colours; nothing else of it acts; a long one is folded in the middle", async () => {
    const page = await open();
    await ask(page, "escapes, please");
    await answered(page, "That was the output.");
    const title = await page.title();
    await page.click(".call");
    await page.waitForSelector(".terminal .a-c-red >> text=red");
    await page.waitForSelector(".terminal .a-bold.a-c-green >> text=green");
    expect(await page.title()).toBe(title);
    expect(await page.locator(".terminal").innerText()).not.toContain("owned");
    expect(await page.locator(".terminal").innerText()).not.toContain("line 150");
    await page.click("text=show all");
    const box = page.locator(".tbl.lines");
    await box.evaluate((element) => element.scrollTo(0, element.scrollHeight / 2));
    await page.waitForSelector('.tbl.lines:has-text("line 150")');
  });
});

describe("a search", () => {
  test("its chips and the citations of the answer lead to the sources; in code [1] stays text", async () => {
    const page = await open();
    await ask(page, "search for it");
    await answered(page, "The last delivery");
    expect(await page.locator(".say .cite").allInnerTexts()).toEqual(["1", "2"]);
    expect(await page.locator(".say code").innerText()).toBe("[1]");
    const cite = page.locator(".cite").first();
    expect(await cite.getAttribute("aria-label")).toBe("Source 1, Delivery calendar 2026");
    await cite.click();
    await page.waitForFunction(() => document.activeElement?.id === "source-1");
    await page.click("#chip-2");
    await page.waitForFunction(() => document.activeElement?.id === "source-2");
    const link = page.locator("#source-2");
    expect(await link.getAttribute("rel")).toBe("noopener noreferrer nofollow");
    expect(await link.getAttribute("title")).toMatch(/^https:/);
  });
});

test("a preview of HTML has no origin, and reaches neither the page nor the network", async () => {
  expectTrouble(); // the browser says in its console what it has blocked
  const page = await open();
  const tries = await page.evaluate(async () => {
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    const nonce = crypto.randomUUID();
    frame.src = `/ui/frame#${nonce}`;
    const html = `<script>
      const found = {};
      const attempt = (name, what) => { try { found[name] = String(what()); } catch (error) { found[name] = "refused"; } };
      attempt("parent", () => parent.document.title);
      attempt("cookies", () => document.cookie);
      attempt("storage", () => localStorage.length);
      fetch("/health").then(() => "fetched", () => "refused").then((text) => { found.fetch = text; parent.postMessage({ found }, "*"); });
    </script>`;
    const result = new Promise((resolve) => {
      addEventListener("message", (event) => {
        if (event.source !== frame.contentWindow) return;
        const data = event.data as { ready?: boolean; found?: unknown };
        if (data.ready) frame.contentWindow?.postMessage({ nonce, html }, "*");
        else resolve({ origin: event.origin, ...(data.found as object) });
      });
    });
    document.body.append(frame);
    return result;
  });
  expect(tries).toEqual({ origin: "null", parent: "refused", cookies: "refused", storage: "refused", fetch: "refused" });
});
