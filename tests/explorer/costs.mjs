// Costs by own parameters and on built-in machines, held against the command.
import assert from "node:assert/strict";

export async function costs({ page, address, ask, near, costs, rest, slide, state }) {
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
  for (const wrong of ["16Mb", "7B@bf16", "1,000", "-1", "", "1.5"]) {
    await page.fill("#size", wrong);
    await page.press("#size", "Enter");
    assert.match((await rest("size-error")).text, /not a size/, wrong);
    assert.equal((await state()).m, String(2 ** 30), wrong);
  }
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
  for (const [name, collective, n, size] of [["dgx-h100", "allreduce", 64, "16MiB"], ["dgx-a100", "allgather", 32, "1GiB"], ["gb200-nvl72", "allreduce", 72, "64KiB"], ["p5.48xlarge", "allreduce", 64, "64KiB"], ["p5.48xlarge", "allreduce", 16, "64KiB"]]) {
    await page.selectOption("#machine", name);
    await page.selectOption("#collective", collective);
    await page.selectOption("#ranks", String(n));
    await page.fill("#size", size);
    await page.press("#size", "Enter");
    await compare(ask(collective, size, "-n", String(n), "--on", name, "--all"), false, name);
    // Of the last one NCCL's graphs are not known, and its tuner leaves two nodes to NCCL: the page says so.
    const known = name !== "p5.48xlarge" || n > 16;
    const pick = known ? ask("select", "nccl", collective, size, "-n", String(n), "--on", name).intervals[0].choice.name : "";
    assert.equal((await rest("nccl")).pick, pick, name);
    assert.match((await rest("nccl")).text, known ? /^NCCL picks / : /not known/, name);
  }

  // What an address asks for and the page has no prices of is said, and not silently something else.
  await page.goto(address + "#c=scatter&n=64&m=16777216&on=dgx-h100");
  assert.match((await rest("replaced")).text, /no prices of Scatter: this is All-reduce on 64 ranks/i);
  await page.goto(address + "#c=allreduce&n=63&m=16777216&on=dgx-h100");
  assert.match((await rest("replaced")).text, /no prices of 63 ranks: this is/);
  await page.selectOption("#collective", "allgather");
  assert.equal((await rest("replaced")).text, "");

  // A bar is as long as the time, to five times the fastest, and has all its parts in proportion.
  await page.goto(address + "#n=64&m=1048576");
  const bars = await page.$$eval("#costs tbody tr", (rows) => rows.map((row) => {
    const bar = row.querySelector(".bar"), width = (e) => e?.getBoundingClientRect().width ?? 0;
    return { ...row.dataset, room: width(bar.parentElement) - 2 * parseFloat(getComputedStyle(bar.parentElement).paddingLeft), width: width(bar),
      parts: width(bar.querySelector(".latency")) / width(bar), bandwidth: width(bar.querySelector(".bandwidth")), cut: bar.classList.contains("cut") };
  }));
  const fastest = Number(bars[0].time), most = Math.min(5 * fastest, Math.max(...bars.map((b) => Number(b.time))));
  assert.ok(bars.some((b) => b.cut), "no bar is cut");
  for (const bar of bars) {
    assert.ok(Math.abs(bar.width - bar.room * Math.min(1, bar.time / most)) < 1, `bar of ${bar.id}: ${bar.width} of ${bar.room}`);
    assert.ok(Math.abs(bar.parts - bar.latency / bar.time) < 0.02, `latency in the bar of ${bar.id}`);
    assert.ok(bar.bandwidth > 0, `bandwidth in the bar of ${bar.id}`);
  }
}
