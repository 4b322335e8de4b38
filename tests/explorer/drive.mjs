// Drives the page in headless Chromium and holds its numbers against the command's.
// node drive.mjs PAGE COLLCOST CHROMIUM
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [, , page_file, collcost, executablePath] = process.argv;
const address = pathToFileURL(page_file).href;

const ask = (...words) => JSON.parse(execFileSync(collcost, [...words, "--format", "json"], { encoding: "utf8", env: {} }));
const near = (a, b, what) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.abs(b), `${what}: ${a} is not ${b}`);

const profile = mkdtempSync(join(tmpdir(), "collcost-chromium-"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath, headless: true, viewport: { width: 1000, height: 900 },
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  // A busy machine takes its time.
  context.setDefaultTimeout(240_000);
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
  // Rows of the page against those of a report that apply; the page may leave some out.
  async function compare(report, all, what) {
    const rows = await costs(), said = new Map(report.algorithms.filter((a) => a.applies).map((a) => [a.id, a]));
    assert.ok(rows.length >= 2, what);
    for (const row of rows) {
      const own = said.get(row.id);
      assert.ok(own, `${what}: ${row.id} is not in the report`);
      near(Number(row.time), own.time_s, `${what}: ${row.id}`);
      near(Number(row.latency), own.latency_s, `${what}: latency of ${row.id}`);
      near(Number(row.bandwidth), own.bandwidth_s, `${what}: bandwidth of ${row.id}`);
    }
    if (all) assert.equal(rows.length, [...said.values()].filter((a) => a.id !== "inc").length, what);
    // On two tiers some have no formula that is the price, and are not offered.
    if (what !== "two tiers") assert.equal(rows[0].id === report.fastest || Math.abs(rows[0].time / said.get(report.fastest).time_s - 1) < 1e-9, true, `${what}: the fastest`);
  }

  // Own figures: every slider and list, against the command with the same figures.
  await compare(ask("allreduce", "16MiB", "-n", "64", "--alpha", "1us", "--bw", "100GB/s", "--all"), true, "at first");
  await page.selectOption("#collective", "broadcast");
  await page.selectOption("#ranks", "20");
  await page.fill("#size", "3MB");
  await page.press("#size", "Enter");
  await slide("slider-a", -530);
  await slide("slider-bw", 1035);
  await page.selectOption("#ports", "2");
  const own = await state();
  assert.deepEqual([own.c, own.n, own.m, own.p], ["broadcast", "20", "3000000", "2"]);
  const figures = ["--alpha", `${own.a}s`, "--bw", `${Number(own.bw) / 1e9}GB/s`];
  await compare(ask("broadcast", "3MB", "-n", "20", ...figures, "--ports", "2", "--all"), true, "broadcast");
  await page.selectOption("#collective", "alltoall");
  await page.selectOption("#ports", "1hd");
  await compare(ask("alltoall", "3MB", "-n", "20", ...figures, "--ports", "1hd", "--all"), true, "alltoall");
  await slide("size-slider", 120);
  assert.equal((await state()).m, String(2 ** 30));
  await compare(ask("alltoall", "1GiB", "-n", "20", ...figures, "--ports", "1hd", "--all"), true, "a gibibyte");

  // What is no size is said so, and changes nothing.
  await page.fill("#size", "16Mb");
  await page.press("#size", "Enter");
  assert.match((await rest("size-error")).text, /no size/);
  assert.equal((await state()).m, String(2 ** 30));
  await page.fill("#size", "4096");
  await page.press("#size", "Enter");
  assert.equal((await rest("size-error")).text, "");

  // The crossing, to the byte: the chapter's example.
  await page.goto(address + "#c=allreduce&n=64&m=1048576&a=0.000001&bw=100000000000");
  const crossings = JSON.parse((await rest("crossings")).from);
  const intervals = ask("crossover", "allreduce", "-n", "64", "--alpha", "1us", "--bw", "100GB/s").intervals;
  assert.deepEqual(crossings.map((c) => c[1]), intervals.map((i) => i.id));
  crossings.slice(1).forEach((c, i) => near(c[0], intervals[i + 1].from, "crossing"));

  // An algorithm chosen: its formula with the numbers beside it, as the command derives it.
  await page.click("#costs tr[data-id=ring] button");
  assert.equal((await rest("formula")).text, "T = 2·(N − 1)·α + 2·(N − 1)/N·M/BW");
  assert.match((await rest("numbers")).text, /2·\(64 − 1\)·1 µs \+ 2·\(64 − 1\)\/64·1 MiB\/\(100 GB\/s\) = 146\.6 µs/);
  assert.equal((await state()).alg, "ring");

  // Two tiers: the lesson's 512 ranks and 14 GB.
  await page.goto(address + "#on=nodes&c=allreduce&n=512&m=14000000000&a1=0.000001&bw1=900000000000&a2=0.000001&bw2=100000000000");
  await compare(ask("allreduce", "14GB", "-n", "512", "--gpus-per-node", "8", "--nics-per-node", "8", "--alpha", "1us", "--bw", "900GB/s", "--alpha-inter", "1us", "--bw-inter", "100GB/s", "--all"), false, "two tiers");
  const lesson = new Map((await costs()).map((r) => [r.id, Number(r.time)]));
  assert.equal((lesson.get("ring") * 1e3).toFixed(1), "280.5");
  assert.equal((lesson.get("2d-ring") * 1e3).toFixed(1), "61.8");
  for (const id of ["a1", "bw1", "a2", "bw2"]) {
    const before = (await costs())[0].time;
    await slide("slider-" + id, { a1: -420, bw1: 1180, a2: -420, bw2: 1000 }[id]);
    assert.notEqual((await costs())[0].time, before, id);
  }
  // Slower links inside: what no formula prices then is left out.
  await slide("slider-bw1", 950);
  assert.ok(!(await costs()).some((r) => r.id === "ring"));

  // Built-in machines, and what NCCL picks there.
  for (const [name, collective, n, size] of [["dgx-h100", "allreduce", 64, "16MiB"], ["dgx-a100", "allgather", 32, "1GiB"], ["gb200-nvl72", "allreduce", 72, "64KiB"]]) {
    await page.selectOption("#machine", name);
    await page.selectOption("#collective", collective);
    await page.selectOption("#ranks", String(n));
    await page.fill("#size", size);
    await page.press("#size", "Enter");
    await compare(ask(collective, size, "-n", String(n), "--on", name, "--all"), false, name);
    // Of the last one NCCL's graphs are not known, and the page says so.
    const known = name !== "gb200-nvl72";
    const pick = known ? ask("select", "nccl", collective, size, "-n", String(n), "--on", name).intervals[0].choice.name : "";
    assert.equal((await rest("nccl")).pick, pick, name);
    assert.match((await rest("nccl")).text, known ? /^NCCL picks / : /not known/, name);
  }

  // The gallery: every operation, stepped through; contents and shares as `trace` has them.
  const table = () => page.$$eval("#contents tbody tr", (rows) => rows.map((r) => [...r.querySelectorAll("td")].map((d) => d.textContent)));
  const cells = (rows) => rows.map((row) => row.map((cell) => cell ?? ""));
  for (const button of await page.$$("#gallery button")) {
    const collective = await button.getAttribute("data-c");
    await button.click();
    const algorithm = await page.inputValue("#played"), n = await page.inputValue("#played-ranks");
    const trace = ask("trace", collective, algorithm, "-n", n, "--alpha", "1us", "--bw", "100GB/s", "--segments", "4");
    assert.deepEqual(await table(), cells(trace.start), `${collective} at the start`);
    for (const [i, step] of trace.steps.entries()) {
      await page.click("#next");
      assert.deepEqual(await table(), cells(step.state), `${collective} ${algorithm} after step ${i + 1}`);
      const written = await page.$$eval("#contents td.written", (all) => all.length);
      assert.equal(written, step.written.length, collective);
    }
    assert.match((await rest("step-says")).text, new RegExp(`^Step ${trace.steps.length} of ${trace.steps.length}`));
  }
  // The ring's time line: six steps for four ranks, half of the bytes after three.
  await page.click("#gallery button[data-c=allreduce]");
  await page.selectOption("#played", "ring");
  await page.selectOption("#played-ranks", "4");
  await slide("step-slider", 3);
  assert.equal((await rest("step-says")).share, "0.5");
  assert.match((await rest("step-says")).text, /^Step 3 of 6: add\. The busiest rank has sent 0\.75 M of 1\.5 M, 50 %/);
  assert.equal(await page.$$eval("#contents td.whole", (all) => all.length), 4);
  await page.click("#back");
  assert.equal((await state()).k, "2");
  await page.click("#first");
  assert.match((await rest("step-says")).text, /^Step 0 of 6/);
  await page.click("#play");
  await page.waitForFunction(() => document.getElementById("step-says").textContent.startsWith("Step 2"));
  await page.click("#play");
  // The three phases: reduce in the node, all-reduce of the leaders, broadcast in the node.
  await page.selectOption("#played", "leader");
  await page.selectOption("#played-ranks", "8");
  assert.match((await rest("step-says")).text, /nodes of 4/);
  await page.selectOption("#played-ranks", "4");

  // The race: makespans as simulated, and the winner turns with the payload.
  const winners = [];
  for (const [links, ranks, size, group] of [["nodes", 8, 1024, 4], ["nodes", 16, 65536, 8], ["nodes", 32, 2 ** 26, 8], ["alike", 32, 1024, 8], ["alike", 32, 2 ** 26, 8]]) {
    await page.selectOption("#race-links", links);
    await page.selectOption("#race-ranks", String(ranks));
    await page.selectOption("#race-size", String(size));
    await slide("race-time", 1000);
    const lanes = await page.$$eval("#lanes .lane", (all) => all.map((l) => ({ ...l.dataset })));
    assert.deepEqual(lanes.map((l) => l.id), ["ring", "tree", "leader"]);
    const inside = links === "alike" ? ["5us", "50GB/s"] : ["1us", "900GB/s"];
    for (const lane of lanes) {
      const simulated = ask("simulate", "allreduce", lane.id, String(size), "-n", String(ranks), "--gpus-per-node", String(group), "--nics-per-node", String(group),
        "--alpha", inside[0], "--bw", inside[1], "--alpha-inter", "5us", "--bw-inter", "50GB/s", "--mode", "flow");
      near(Number(lane.makespan), simulated.modes[0].makespan_s, `race of ${lane.id}`);
      assert.equal(Number(lane.done), simulated.schedule.messages, `race of ${lane.id}`);
    }
    winners.push((await rest("race-says")).winner);
  }
  // Nodes pay for every payload; where links are alike, the tree wins small ones and the ring large ones.
  assert.deepEqual(winners, ["leader", "leader", "leader", "tree", "ring"]);
  await slide("race-time", 0);
  await page.click("#race-play");
  await page.waitForFunction(() => Number(document.getElementById("race-time").value) > 50);
  await page.click("#race-play");

  // A link carries the state.
  const hash = await page.evaluate(() => location.hash);
  const shown = [await costs(), await table(), (await rest("race-says")).text];
  const second = await context.newPage();
  await second.goto(address + hash);
  const again = await second.$$eval("#costs tbody tr", (rows) => rows.map((r) => ({ ...r.dataset })));
  assert.deepEqual(again, shown[0]);
  assert.equal(await second.$eval("#race-says", (e) => e.textContent), shown[2]);
  // A link with nonsense is as good as none.
  await second.goto(address + "#c=nothing&n=-3&m=x&on=nowhere&sa=%E0%A4%A&k=99999&p=7&rt=5e9&__proto__=1");
  assert.ok((await second.$$("#costs tbody tr")).length > 5);
  await second.close();

  // Keyboard only: every control is reached by Tab and works.
  await page.goto(address + "#n=64");
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const reached = new Set();
  for (let i = 0; i < 150; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => { const e = document.activeElement; return e === document.body ? null : e.id || e.dataset.c || e.closest("tr")?.dataset.id || e.className; });
    if (at === null && reached.size) break;
    reached.add(at);
  }
  for (const id of ["collective", "ranks", "size", "size-slider", "machine", "ports", "slider-a", "slider-bw", "ring", "allgather", "played", "played-ranks", "step-slider", "first", "back", "next", "play", "race-ranks", "race-size", "race-links", "race-time", "race-play"]) {
    assert.ok(reached.has(id), `Tab does not reach ${id}: ${[...reached]}`);
  }
  const key = async (id, ...keys) => { await page.focus("#" + id); for (const k of keys) await page.keyboard.press(k); };
  await key("slider-a", "ArrowRight");
  assert.ok((await state()).a);
  await key("size-slider", "Home");
  assert.equal((await state()).m, "1");
  await page.focus("#costs tr[data-id=tree] button");
  await page.keyboard.press("Enter");
  assert.equal((await state()).alg, "tree");
  await key("next", "Enter", "Space");
  assert.equal((await state()).k, "2");
  await key("race-time", "ArrowRight");
  assert.equal((await state()).rt, "1");

  // Narrow: nothing sticks out at 360 pixels, and controls are large enough to touch.
  await page.setViewportSize({ width: 360, height: 740 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  const small = await page.$$eval("main select, main .buttons button", (all) => all.filter((e) => e.offsetParent && e.getBoundingClientRect().height < 24).length);
  assert.equal(small, 0);
  await page.click("#next");
  await page.selectOption("#ranks", "8");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);

  // axe, light and dark, narrow and wide.
  for (const [colorScheme, width] of [["light", 360], ["dark", 1000]]) {
    await page.setViewportSize({ width, height: 740 });
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run());
    const bad = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
    assert.deepEqual(bad.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html)]), []);
    console.log(`axe, ${colorScheme}, ${width} px: ${found.passes.length} rules pass, ${found.violations.length} fail, none serious`);
  }

  // Times, for the documents.
  await page.setViewportSize({ width: 1000, height: 900 });
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

  assert.deepEqual(errors, []);
  assert.deepEqual(requests, []);
} finally {
  await context.close();
  rmSync(profile, { recursive: true, force: true });
}
