// Schedules step by step, and the race: what moves, held against the command's traces and simulations.
import assert from "node:assert/strict";

export async function gallery({ page, ask, rest, slide, state, table }) {
  // The gallery: every operation, stepped through; contents and shares as `trace` has them.
  const cells = (rows) => rows.map((row) => row.flatMap((cell, i) => (cell ? [[String(i), cell]] : [])));
  for (const button of await page.$$("#gallery button")) {
    const collective = await button.getAttribute("data-c");
    await button.click();
    const algorithm = await page.inputValue("#played"), n = await page.inputValue("#played-ranks");
    const trace = ask("trace", collective, algorithm, "-n", n, "--alpha", "1us", "--bw", "100GB/s", "--segments", "4");
    assert.deepEqual(await table(), cells(trace.start), `${collective} at the start`);
    for (const [i, step] of trace.steps.entries()) {
      await page.click("#next");
      assert.deepEqual(await table(), cells(step.state), `${collective} ${algorithm} after step ${i + 1}`);
      const written = await page.$$eval("#contents .written", (all) => all.length);
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
  assert.equal(await page.$$eval("#contents .whole", (all) => all.length), 4);
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

  // Whose data it is: a cell and a message have as many colours as contributions, of those ranks.
  await page.selectOption("#played", "ring");
  await slide("step-slider", 2);
  const colours = await page.$$eval("#contents td[data-text]", (all) => all.map((td) => [td.dataset.text.split("+").map((v) => v[1]), td.querySelector(".block").style.background.match(/--c\d/g)]));
  for (const [ranks, used] of colours) assert.deepEqual([...new Set(used.map((c) => c[3]))], ranks);
  const chips = await page.$$eval("#ring .chip", (all) => all.map((c) => [c.dataset.origins.split(","), [...c.querySelectorAll("rect[style]")].map((r) => r.style.fill.match(/--c(\d)/)[1])]));
  assert.equal(chips.length, 4);
  for (const [origins, used] of chips) assert.deepEqual(used, origins);
  assert.ok(chips.every(([origins]) => origins.length === 2));
}

export async function race({ page, address, ask, near, rest, slide }) {
  const lanes = () => page.$$eval("#lanes .lane", (all) => all.map((l) => ({ ...l.dataset })));
  const words = (lane, ranks, size, machine) => ["allreduce", lane.id, String(size), "-n", String(ranks), ...machine, ...(lane.segments ? ["--segments", lane.segments] : []), "--mode", "flow"];
  // Links alike: sliders move every message exactly.
  for (const [ranks, size, alpha, bw] of [[8, 1024, "0.000001", "100000000000"], [16, 2 ** 20, "0.00000501", "47000000000"], [32, 2 ** 26, "0.0000021", "310000000000"]]) {
    await page.goto("about:blank");
    await page.goto(`${address}#rn=${ranks}&rm=${size}&ra=${alpha}&rb=${bw}`);
    await slide("race-time", 370);
    const machine = ["--alpha", `${alpha}s`, "--bw", `${bw / 1e9}GB/s`, "--alpha-switch", `${alpha}s`];
    const found = await lanes();
    assert.deepEqual(found.map((l) => l.id), ["ring", "tree", "double-binary-tree", "inc"]);
    const now = 0.37 * Math.max(...found.map((l) => Number(l.makespan)));
    for (const lane of found) {
      near(Number(lane.makespan), ask("simulate", ...words(lane, ranks, size, machine)).modes[0].makespan_s, `race of ${lane.id}`);
      // Every message that flies is where the trace has it.
      const transfers = ask("trace", ...words(lane, ranks, size, machine)).steps.flatMap((s) => s.transfers);
      assert.equal(Number(lane.done), transfers.filter((t) => t.end_s <= now * (1 + 1e-9)).length, `${lane.id}: arrived`);
      const there = transfers.filter((t) => t.start_s <= now && t.end_s > now * (1 + 1e-9)).map((t) => ((now - t.start_s) / (t.end_s - t.start_s)).toFixed(2)).sort();
      const shown = await page.$$eval(`#lanes [data-id="${lane.id}"] .chip`, (all) => all.map((c) => Number(c.dataset.part).toFixed(2)).sort());
      assert.equal(shown.length, there.length, `${lane.id}: messages on links`);
      shown.forEach((part, i) => assert.ok(Math.abs(part - there[i]) <= 0.011, `${lane.id}: ${part} is not ${there[i]}`));
    }
    // Where the winner turns, both take the same.
    const borders = JSON.parse((await rest("strip-says")).from);
    assert.ok(borders.length >= 2, `${borders}`);
    borders.slice(1).forEach(([from, ...lane], i) => {
      const [a, b] = [borders[i].slice(1), lane].map(([id, segments]) => ask("simulate", ...words({ id, segments: segments && String(segments) }, ranks, Math.round(from), machine)).modes[0].makespan_s);
      assert.ok(Math.abs(a / b - 1) < 1e-4, `border at ${from}: ${a} and ${b}`);
    });
  }
  // Sliders move the border: it is proportional to α and to BW.
  const border = async () => JSON.parse((await rest("strip-says")).from)[1][0];
  const before = await border();
  await slide("slider-ra", -500);
  near(await border(), before * 1e-5 / 2.1e-6, "the border by α");
  await slide("slider-rb", 1100);
  near(await border(), before * 1e-5 / 2.1e-6 * 1e11 / 3.1e11, "the border by BW");
  // More ranks: the ring's latency grows, the tree's hardly.
  const few = await border();
  await slide("race-ranks", 0);
  assert.ok(await border() < few, "the border by N");
  await slide("race-size", 44);
  assert.equal((await rest("race-size-value")).text, "2 KiB");
  // Nodes pay for small and middling payloads; on two nodes the double tree's segments gain large ones.
  const winners = [];
  await page.selectOption("#race-links", "nodes");
  for (const [ranks, group, at, size] of [[8, 4, 0, 1024], [16, 8, 1, 2 ** 20], [16, 8, 2, 2 ** 26]]) {
    await slide("race-ranks", ranks / 8 - 1);
    await slide("race-size", at);
    await slide("race-time", 1000);
    for (const lane of await lanes()) {
      const machine = ["--gpus-per-node", String(group), "--nics-per-node", String(group), "--alpha", "1us", "--bw", "900GB/s", "--alpha-inter", "5us", "--bw-inter", "50GB/s"];
      const simulated = ask("simulate", ...words(lane, ranks, size, machine));
      near(Number(lane.makespan), simulated.modes[0].makespan_s, `race of ${lane.id} on nodes`);
      assert.equal(Number(lane.done), simulated.schedule.messages, `race of ${lane.id} on nodes`);
    }
    winners.push((await rest("race-says")).winner);
  }
  assert.deepEqual(winners, ["leader", "leader", "double-binary-tree"]);
  await slide("race-time", 0);
}

// Frames while it plays: they differ, and every message lies on its link. The page's clock goes on only when it is told
// to: how fast the machine is plays no part.
export async function frames({ page, address, slide }, how) {
  await page.goto("about:blank");
  await page.goto(address + "#rn=8&rm=1048576");
  await page.clock.pauseAt(await page.evaluate(() => Date.now() + 1000));
  const chips = () => page.evaluate(() => [...document.querySelectorAll("#lanes .lane")].flatMap((lane) => {
    const middle = (e) => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };
    const ends = [...lane.querySelectorAll(".rank, .switch")];
    return [...lane.querySelectorAll(".chip")].map((c) => ({ lane: lane.dataset.id, at: middle(c), from: middle(ends[c.dataset.from]), to: middle(ends[c.dataset.to]), size: ends[0].getBoundingClientRect().width }));
  }));
  // Early on all have messages on their links.
  await slide("race-time", 30);
  const first = await chips();
  assert.deepEqual([...new Set(first.map((c) => c.lane))].sort(), ["double-binary-tree", "inc", "ring", "tree"]);
  await page.click("#race-play");
  const seen = [], pictures = [];
  for (let i = 0; i < 5; i++) {
    await page.clock.runFor(250);
    seen.push(await chips());
    pictures.push((await page.locator("#lanes").screenshot()).toString("base64"));
  }
  assert.equal(new Set(pictures).size, pictures.length, "frames are the same");
  assert.equal(new Set(seen.map((s) => JSON.stringify(s))).size, seen.length, "messages do not move");
  for (const { lane, at, from, to, size } of [first, ...seen].flat()) {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]], length = Math.hypot(dx, dy);
    const along = ((at[0] - from[0]) * dx + (at[1] - from[1]) * dy) / length / length, beside = Math.abs((at[0] - from[0]) * dy - (at[1] - from[1]) * dx) / length;
    assert.ok(along > 0 && along < 1, `${lane}: a message at ${along} of its link`);
    // Links of the double tree are arcs over the row of ranks.
    if (lane !== "double-binary-tree") assert.ok(beside <= size / 2, `${lane}: a message ${beside} px beside its link`);
  }
  await page.click("#race-play");
  console.log(`frames, ${how}: ${seen.map((s) => s.length).join(", ")} messages on links in five frames, all of them different`);
  // A step by step flight, and none where the reader wants no motion.
  await page.click("#next");
  const parts = [];
  for (let i = 0; i < 4; i++) { parts.push(await page.$eval("#ring .chip", (c) => Number(c.dataset.part))); await page.clock.runFor(120); }
  assert.equal(new Set(parts).size, parts.length, `a step does not fly: ${parts}`);
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.click("#next");
  assert.equal(await page.$eval("#ring .chip", (c) => Number(c.dataset.part)), 1);
  await page.emulateMedia({ reducedMotion: "no-preference" });
  await page.clock.resume();
}
