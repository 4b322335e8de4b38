// A step of training or decoding over time: what it waits for, and what computation hides.
let steps = DATA.steps.map(fromPlan);

// The same form for both reports: parts with their exposed and hidden time.
function fromPlan(step) {
  const parts = [];
  if (step.compute_s !== null) parts.push({ what: "compute", how: "", exposed: step.compute_s, hidden: 0 });
  if (step.bubble_s) parts.push({ what: "waiting for other stages", how: "", exposed: step.bubble_s, hidden: 0 });
  for (const c of step.calls) parts.push({ what: `${c.axis}: ${c.name}`, how: `${short(round3(c.calls))} × ${collective(c.collective)?.name || c.collective}, ${bytes(c.size_bytes)}, ${c.ranks} ranks, ${c.algorithm}`,
    exposed: c.exposed_s, hidden: c.total_s - c.exposed_s });
  return { name: step.name, about: `${step.mode} on ${step.ranks} ranks of ${step.machine}${step.layout.length ? ", " + step.layout.join(", ") : ""}`,
    total: step.step_s, low: step.step_low_s, high: step.step_high_s, parts, notes: step.notes, beside: "hidden by computing" };
}
function fromJob(job) {
  return { name: job.name, about: `training on ${job.gpus} GPUs of ${job.machine}${job.layout.length ? ", " + job.layout.join(", ") : ""}`, total: job.step_s, low: job.low_s, high: job.high_s, notes: [], beside: "hidden by computing",
    parts: job.parts.map((p) => ({ what: p.what, how: "", exposed: p.exposed_s, hidden: p.hidden_s })) };
}
function drawTraining() {
  const one = steps.find((s) => s.name === state.t) || steps[0];
  state.t = one.name;
  options($("training-step"), steps.map((s) => [s.name, s.name]), state.t);
  const sum = (key) => one.parts.reduce((total, p) => total + p[key], 0);
  const most = Math.max(one.total, sum("hidden"));
  $("training-says").textContent = `${one.about}: ${seconds(one.total)}` + (one.low === null || one.low === undefined || one.low === one.high ? "." : ` (8 of 10 runs: ${seconds(one.low)} to ${seconds(one.high)}).`);
  Object.assign($("training-says").dataset, { total: one.total, exposed: sum("exposed"), hidden: sum("hidden") });
  // If there are more parts than colours, the second eight are striped.
  const paint = (i) => (i < 8 ? `background:var(--c${i})` : `background:repeating-linear-gradient(45deg, var(--c${i % 8}) 0 4px, var(--card) 4px 6px)`);
  const lane = (name, key) => {
    const bar = el("div", { class: "time" });
    one.parts.forEach((p, i) => {
      if (p[key] <= 0) return;
      const block = el("span", { title: `${p.what}: ${seconds(p[key])}${key === "hidden" ? " " + one.beside : ""}` });
      block.style.cssText = `width:${100 * p[key] / most}%;${paint(i)}`;
      bar.append(block);
    });
    return el("div", { class: "row" }, el("span", { class: "row-name" }, `${name}, ${seconds(key === "exposed" ? one.total : sum(key))}`), bar);
  };
  $("timeline").replaceChildren(lane("the step", "exposed"), ...(sum("hidden") > 0 ? [lane(one.beside, "hidden")] : []));
  $("training-notes").replaceChildren(...one.notes.map((note) => el("li", {}, note)));
  $("training-parts").tBodies[0].replaceChildren(...one.parts.map((p, i) => {
    const box = el("span", { class: "box", "aria-hidden": "true" });
    box.style.cssText = paint(i);
    const cell = el("td", {}, box, p.what);
    if (p.how) cell.append(el("span", { class: "how" }, p.how));
    return el("tr", { "data-what": p.what, "data-exposed": p.exposed, "data-hidden": p.hidden }, cell, el("td", {}, seconds(p.exposed)), el("td", {}, p.hidden > 0 ? seconds(p.hidden) : "–"));
  }));
}

// A report that the command wrote, read by the browser; no data are sent.
function openReport(name, text) {
  let report;
  try { report = JSON.parse(text); } catch { report = null; }
  const of = { "collcost/plan/1": (r) => r.steps.map(fromPlan), "collcost/job/1": (r) => [fromJob(r)], "collcost/jobs/1": (r) => r.jobs.map(fromJob) }[report?.schema];
  const said = (what) => { for (const id of ["plan-error", "compare-error"]) $(id).textContent = ""; return what; };
  try {
    if (report?.schema === "collcost/compare/1" && report.runs.length) { openCompare(name, report); said(); return; }
    const found = of(report).filter((s) => typeof s.total === "number");
    // A name that exists already now refers to this file.
    steps = [...steps.filter((s) => !found.some((f) => f.name === s.name)), ...found];
    change({ t: found[0].name });
    said();
  } catch {
    return `${name} contains neither a step nor a comparison: write it with collcost plan FILE --format json, or collcost compare LOG --format json`;
  }
}
