// What was measured, and steps of models: built in, and read from the command's reports.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const TESTS = new URL("..", import.meta.url).pathname;

export async function measured({ page, address, ask, near, rest, folder }) {
  await page.goto("about:blank");
  await page.goto(address);
  let shown = 0;
  for (const machine of await page.$$eval("#measured-on option", (all) => all.map((o) => o.value))) {
    await page.selectOption("#measured-on", machine);
    for (const series of await page.$$eval("#measured-what option", (all) => all.map((o) => o.value))) {
      await page.selectOption("#measured-what", series);
      const points = await page.$$eval("#measured .measured", (all) => all.length);
      assert.equal(points, Number((await rest("measured-says")).points), `${machine} ${series}`);
      assert.equal(await page.$$eval("#measured .band, #measured .told", (all) => all.length), 2);
      shown += points;
    }
  }
  assert.ok(shown > 150, `${shown} points`);
  // A log of one's own, as the command compares it: each point where the report has it.
  const report = ask("compare", join(TESTS, "data/logs/measured.csv"));
  const file = join(folder, "compare.json");
  writeFileSync(file, JSON.stringify(report));
  await page.setInputFiles("#compare-file", file);
  await page.waitForFunction(() => document.getElementById("measured-on").value === "compare.json");
  for (const [i, run] of report.runs.entries()) {
    await page.selectOption("#measured-what", `${run.collective},${run.ranks},${i}`);
    const drawn = await page.$$eval("#measured .measured", (all) => all.map((p) => [Number(p.dataset.size), Number(p.dataset.time)]));
    assert.deepEqual(drawn, run.points.map((p) => [p.size_bytes, p.measured_s]));
    const inside = run.points.filter((p) => p.measured_s >= p.low_s && p.measured_s <= p.high_s).length;
    assert.equal(Number((await rest("measured-says")).inside), inside);
  }
  writeFileSync(file, "no report");
  await page.setInputFiles("#compare-file", file);
  await page.waitForFunction(() => document.getElementById("compare-error").textContent.includes("contains neither a step"));
}

export async function training({ page, ask, near, rest, folder }) {
  const presets = await page.$$eval("#training-step option", (all) => all.map((o) => o.value));
  assert.ok(presets.length >= 10, `${presets}`);
  const parts = () => page.$$eval("#training-parts tbody tr", (rows) => rows.map((r) => ({ ...r.dataset })));
  async function held(step, what) {
    const said = await rest("training-says");
    near(Number(said.total), step.step_s, `${what}: the step`);
    near(Number(said.exposed), step.step_s, `${what}: what it waits for`);
    const calls = (await parts()).slice(-step.calls.length);
    step.calls.forEach((call, i) => {
      assert.equal(calls[i].what, `${call.axis}: ${call.name}`);
      near(Number(calls[i].exposed) + Number(calls[i].hidden), call.total_s, `${what}: ${call.name}`);
      near(Number(calls[i].exposed), call.exposed_s, `${what}: ${call.name}`);
    });
    // The upper bar is as long as the step, over what goes on beside it.
    const most = Math.max(step.step_s, Number(said.hidden));
    const [bar, blocks] = await page.$eval("#timeline .time", (e) => [e.getBoundingClientRect().width, [...e.children].reduce((w, b) => w + b.getBoundingClientRect().width, 0)]);
    assert.ok(Math.abs(blocks / bar - step.step_s / most) < 0.02, `${what}: ${blocks} of ${bar} px`);
  }
  for (const name of presets) {
    await page.selectOption("#training-step", name);
    await held(ask("plan", "--preset", name).steps[0], name);
  }
  // Any plan, and any job.
  const file = join(folder, "plan.json");
  const plan = ask("plan", join(TESTS, "data/plans/own.toml"));
  writeFileSync(file, JSON.stringify(plan));
  await page.setInputFiles("#plan-file", file);
  for (const step of plan.steps) {
    await page.waitForFunction((name) => [...document.querySelectorAll("#training-step option")].some((o) => o.value === name), step.name);
    await page.selectOption("#training-step", step.name);
    await held(step, step.name);
  }
  const job = ask("plan", join(TESTS, "data/jobs/llama3-70b.toml"));
  writeFileSync(file, JSON.stringify(job));
  await page.setInputFiles("#plan-file", file);
  await page.waitForFunction((name) => document.getElementById("training-step").value === name, job.name);
  near(Number((await rest("training-says")).total), job.step_s, "a job's step");
  (await parts()).forEach((part, i) => assert.deepEqual([part.what, Number(part.exposed), Number(part.hidden)], [job.parts[i].what, job.parts[i].exposed_s, job.parts[i].hidden_s]));
}
