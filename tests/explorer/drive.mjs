// Drives the page in headless Chromium and holds its numbers against the command's.
// node drive.mjs PAGE COLLCOST CHROMIUM
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { costs as costsPart } from "./costs.mjs";
import { keyboard, looks } from "./looks.mjs";
import { frames, gallery, race } from "./moves.mjs";
import { measured, training } from "./reports.mjs";

const [, , page_file, collcost, executablePath] = process.argv;
const address = pathToFileURL(page_file).href;

const ask = (...words) => JSON.parse(execFileSync(collcost, [...words, "--format", "json"], { encoding: "utf8", env: {}, maxBuffer: 2 ** 28 }));
const near = (a, b, what) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.abs(b), `${what}: ${a} is not ${b}`);

const profile = mkdtempSync(join(tmpdir(), "collcost-chromium-"));
const context = await chromium.launchPersistentContext(profile, {
  // A busy machine takes its time.
  executablePath, headless: true, timeout: 120_000, viewport: { width: 1000, height: 900 },
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const [errors, requests] = [[], []];
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) errors.push(m.text()); });
  page.on("pageerror", (e) => errors.push(e.message));
  page.on("request", (r) => { if (!r.url().startsWith(address)) requests.push(r.url()); });
  await page.goto(address);

  const costs = () => page.$$eval("#costs tbody tr", (rows) => rows.map((r) => ({ ...r.dataset })));
  const rest = (id) => page.$eval("#" + id, (e) => ({ text: e.textContent, ...e.dataset }));
  const slide = (id, value) => page.$eval("#" + id, (e, v) => { e.value = v; e.dispatchEvent(new Event("input", { bubbles: true })); }, String(value));
  const state = () => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  const table = () => page.$$eval("#contents tbody tr", (rows) => rows.map((r) => [...r.querySelectorAll("[data-text]")].map((d) => [d.dataset.chunk, d.dataset.text])));
  const tools = { page, address, ask, near, costs, rest, slide, state, table, folder: profile };

  // Times, for the documents: by the browser's own clock.
  await page.goto("about:blank");
  await page.goto(address);
  // The first paint may come after the page is loaded.
  await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length);
  const paint = await page.evaluate(() => performance.getEntriesByType("paint").map((p) => `${p.name} ${p.startTime.toFixed(0)} ms`).join(", "));
  const slider = await page.evaluate(() => {
    const input = document.getElementById("size-slider"), times = [];
    for (let v = 0; v <= 160; v++) {
      input.value = v;
      const from = performance.now();
      input.dispatchEvent(new Event("input", { bubbles: true }));
      times.push(performance.now() - from);
    }
    times.sort((a, b) => a - b);
    return `median ${times[80].toFixed(1)} ms, worst ${times[160].toFixed(1)} ms of 161`;
  });
  console.log(`paint: ${paint}; a move of the size slider: ${slider}`);
  await page.clock.install();
  await page.goto("about:blank");
  await page.goto(address);

  await costsPart(tools);
  await gallery(tools);
  await race(tools);

  // A link carries the state.
  const hash = await page.evaluate(() => location.hash);
  const shown = [await costs(), (await rest("race-says")).text];
  const second = await context.newPage();
  await second.goto(address + hash);
  const again = await second.$$eval("#costs tbody tr", (rows) => rows.map((r) => ({ ...r.dataset })));
  assert.deepEqual(again, shown[0]);
  assert.equal(await second.$eval("#race-says", (e) => e.textContent), shown[1]);
  // A link with nonsense is as good as none.
  await second.goto(address + "#c=nothing&n=-3&m=x&on=nowhere&sa=%E0%A4%A&k=99999&p=7&rt=5e9&rn=0&rm=0&rl=x&mo=x&ms=x&t=x&__proto__=1");
  assert.ok((await second.$$("#costs tbody tr")).length > 5);
  await second.close();

  for (const [colorScheme, width] of [["light", 360], ["dark", 1280], ["light", 1000]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    await frames(tools, `${colorScheme}, ${width} px`);
  }
  await measured(tools);
  await training(tools);
  await looks(tools);
  await keyboard(tools);

  assert.deepEqual(errors, []);
  assert.deepEqual(requests, []);
} finally {
  await context.close();
  rmSync(profile, { recursive: true, force: true });
}
