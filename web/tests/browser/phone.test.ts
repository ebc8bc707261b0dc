// On a phone everything can be done that can be done on a desk.
import { expect, test } from "vitest";
import { answered, ask, harness } from "./harness";

const { server, open } = harness({ pace: 0.004 });
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

test("a message is edited, and a session renamed and deleted, with a finger", async () => {
  const page = await open("/ui", PHONE);
  await ask(page, "tell me of lakes");
  await answered(page, "an answer to that");
  await page.tap("role=button[name='Edit this message']");
  await page.fill("[aria-label='Edit your message']", "calculate it");
  await page.tap(".said.editing >> text=Ask");
  await answered(page, "391");
  await page.tap("role=button[name='Sessions and views']");
  await page.tap("dialog >> role=button[name=/^Rename /]");
  await page.fill("[aria-label='Name of the session']", "Sums");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .list-item a:has-text('Sums')");
  await page.tap("dialog >> role=button[name='Delete Sums']");
  await page.waitForSelector("dialog .list-item a:has-text('Sums')", { state: "detached" });
});

test("the line under an answer is one line of figures, however many branches there are", async () => {
  const page = await open("/ui", { ...PHONE, viewport: { width: 320, height: 640 } });
  await ask(page, "tell me of lakes");
  await answered(page, "an answer to that");
  await page.tap("role=button[name='Ask again']");
  await page.waitForSelector(".walk >> text=2 of 2");
  const heights = await page.locator(".acts-of.answer .num").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
  expect(Math.max(...heights)).toBeLessThan(24);
  const [row, walk] = await Promise.all([page.locator(".acts-of.answer").boundingBox(), page.locator(".walk").boundingBox()]);
  expect((walk?.x ?? 0) + (walk?.width ?? 0)).toBeLessThanOrEqual((row?.x ?? 0) + (row?.width ?? 0) + 1);
  await page.tap("role=link[name='Open run']"); // in the bar: also while the run is under way
  await page.waitForSelector("text=Model call");
});

test("a reason for a no, and other arguments, have room in the sheet", async () => {
  const page = await open("/ui", PHONE);
  await ask(page, "order it");
  await page.tap("[data-ask] >> text=Deny");
  const width = async (selector: string) => (await page.locator(selector).first().boundingBox())?.width ?? 0;
  expect(await width("[data-ask] form input")).toBeGreaterThan(320);
  await page.tap("[data-ask] >> text=Back");
  await page.tap("[data-ask] >> text=Edit");
  expect(await width("[data-ask] form input")).toBeGreaterThan(320);
  await page.tap("[data-ask] >> text=Run with these");
  await answered(page, "Done");
});

test("a replay shows the round while it plays, and a comparison says whose each step is", async () => {
  const page = await open("/ui", PHONE);
  await ask(page, "search for it");
  await answered(page, "The last delivery");
  await page.tap("role=link[name='Open run']");
  await page.tap("role=button[name=Replay] >> nth=0");
  const seen = await page.locator(".seen-body").boundingBox();
  expect([(seen?.y ?? 999) + (seen?.height ?? 999) < 844, (seen?.height ?? 0) > 100]).toEqual([true, true]);
  const first = new URL(page.url()).pathname.split("/").at(-1);
  await page.goto(`${server.url}/ui`);
  await ask(page, "calculate it");
  await answered(page, "391");
  const { data } = (await (await fetch(`${server.url}/v1/runs?limit=1`)).json()) as { data: { id: string }[] };
  await page.goto(`${server.url}/ui/runs/compare?a=${first}&b=${data[0]?.id}`);
  await page.waitForSelector(".rw .let >> nth=1");
  const steps = await page.locator(".rw:visible").evaluateAll((rows) => rows.map((row) => [row.querySelector(".let")?.textContent, row.querySelector(".mono-name")?.textContent]));
  expect(steps).toEqual([["A", "web_search"], ["B", "calculate"]]);
});

test("in Build the preview has the room; the code can be opened, and folded again", async () => {
  const page = await open("/ui/build", PHONE);
  await page.fill("#wish", "A page with the departures of a tram stop");
  await page.tap("role=button[name='Build it']");
  await page.waitForSelector("iframe.built");
  await page.waitForSelector("role=tab[name=Code]");
  expect(await page.locator("#drawer-body").count()).toBe(0);
  await page.tap("role=tab[name=Code]");
  await page.waitForSelector("#drawer-body");
  await page.tap("role=button[name='Fold the code']");
  await page.waitForSelector("#drawer-body", { state: "detached" });
});

test("what a failure offers is within its card", async () => {
  const page = await open("/ui", PHONE);
  await ask(page, "this will fail");
  await page.waitForSelector(".prob");
  const [card, last] = await Promise.all([page.locator(".prob").boundingBox(), page.locator(".prob .do > :last-child").boundingBox()]);
  expect((last?.x ?? 0) + (last?.width ?? 0)).toBeLessThanOrEqual((card?.x ?? 0) + (card?.width ?? 0));
});
