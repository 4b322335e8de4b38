// Several algorithms on one clock, with every message at its simulated position.
let lanes = [];

const races = () => DATA.races.filter((r) => (r.group === null) === (state.rl === "alike"));
const race = () => races().find((r) => r.ranks === state.rn);
// The units of all instants of a race: α and M/BW; if each size is simulated separately, a second.
const unit = (runner) => (runner.size_bytes === null ? [state.ra, state.rm / state.rb] : [1, 0]);
const ends = (runner, [a, x] = unit(runner)) => runner.makespan[0] * a + runner.makespan[1] * x;
const sizes = () => unique(race().runners.map((r) => r.size_bytes)).filter((s) => s !== null);
// The fastest runner of each algorithm: the one with the best number of segments.
function runners() {
  const found = new Map();
  for (const runner of race().runners) {
    if (runner.size_bytes !== null && runner.size_bytes !== state.rm) continue;
    const known = found.get(runner.id);
    if (!known || ends(runner) < ends(known)) found.set(runner.id, runner);
  }
  return [...found.values()];
}
const named = (runner) => runner.name + (runner.segments > 1 ? ` in ${runner.segments} segments` : "");

class Lane {
  constructor(runner) {
    this.runner = runner;
    runner.group = race().group;
    const count = runner.holds.length, dot = count > 16 ? 4 : count > 8 ? 6 : 9;
    const layout = { tree: "tree", "double-binary-tree": "row" }[runner.id] || "circle";
    this.svg = mark("svg", { role: "img", "aria-label": `Messages of the ${runner.name.toLowerCase()} on their links`, class: "net" });
    this.network = new Network(this.svg, runner, { dot: layout === "row" && count > 16 ? 2.6 : layout !== "circle" && count > 8 ? Math.min(dot, 4.5) : dot, layout });
    const carried = carriedBy(runner);
    this.messages = runner.rounds.flatMap((round, r) => round.map((m, i) => [r + "." + i, m, carried[r][i]]));
    this.says = el("p", { class: "lane-says" });
    this.bar = el("div", { class: "done" });
    this.root = el("div", { class: "lane", "data-id": runner.id }, el("h3", {}, runner.name), this.svg, el("div", { class: "track", "aria-hidden": "true" }, this.bar), this.says);
  }
  // With another α, BW or M, the same messages are sent at other times.
  time() {
    const [a, x] = unit(this.runner), by = this.runner.times.map(([b, c, d, e]) => [a * b + x * c, a * d + x * e]);
    this.spans = this.messages.map(([, m]) => by[m[4]]);
    this.end = ends(this.runner);
    this.whole = Array(this.runner.holds.length).fill(0);
    this.messages.forEach(([, m], i) => { if (m[1] < this.whole.length) this.whole[m[1]] = Math.max(this.whole[m[1]], this.spans[i][1]); });
    this.root.dataset.makespan = this.end;
    this.root.dataset.segments = this.runner.segments || "";
  }
  draw(now) {
    const late = now * (1 + 1e-9);
    let done = 0;
    const flying = [];
    this.messages.forEach(([key, m, from], i) => {
      const [start, end] = this.spans[i];
      if (end <= late) done++;
      else if (start <= now) flying.push([key, m, from, (now - start) / (end - start)]);
    });
    this.network.fly(flying);
    const dots = this.svg.querySelectorAll(".rank");
    this.whole.forEach((t, i) => dots[i].classList.toggle("whole", t <= late));
    this.root.dataset.done = done;
    this.bar.style.width = `${100 * done / this.messages.length}%`;
    const p = this.runner.segments > 1 ? `, P = ${this.runner.segments}` : "";
    this.says.textContent = `${done} of ${this.messages.length} messages; ends at ${seconds(this.end)}${p}`;
  }
}

function drawRace() {
  if (!races().some((r) => r.ranks === state.rn)) state.rn = nearest(races().map((r) => r.ranks), state.rn);
  const alike = state.rl === "alike";
  if (!alike) state.rm = sizes().reduce((b, s) => (Math.abs(Math.log(s / state.rm)) < Math.abs(Math.log(b / state.rm)) ? s : b));
  const here = runners();
  if (here.length !== lanes.length || here.some((r, i) => lanes[i].runner !== r)) {
    const known = new Map(lanes.map((l) => [l.runner, l]));
    lanes = here.map((r) => known.get(r) || new Lane(r));
    $("lanes").replaceChildren(...lanes.map((l) => l.root));
  }
  lanes.forEach((lane) => lane.time());
  drawClock();
  const counts = races().map((r) => r.ranks);
  $("race-ranks").max = counts.length - 1;
  $("race-ranks").value = counts.indexOf(state.rn);
  $("race-ranks").setAttribute("aria-valuetext", `${state.rn} ranks`);
  $("race-ranks-value").textContent = state.rn;
  $("race-links").value = state.rl;
  const size = $("race-size");
  [size.min, size.max] = alike ? [0, 136] : [0, sizes().length - 1];
  size.value = alike ? Math.round(Math.log2(state.rm) * 4) : sizes().indexOf(state.rm);
  size.setAttribute("aria-valuetext", bytes(state.rm));
  $("race-size-value").textContent = bytes(state.rm);
  for (const id of ["ra", "rb"]) {
    $("slider-" + id).closest("label").hidden = !alike;
    logSlider("slider-" + id, state[id], (id === "ra" ? seconds : rate)(state[id]));
    $("value-" + id).textContent = (id === "ra" ? seconds : rate)(state[id]);
  }
  const first = lanes.reduce((b, l) => (l.end < b.end ? l : b));
  $("race-says").textContent = `${bytes(state.rm)} on each of ${state.rn} ranks: ${named(first.runner)} ends first, at ${seconds(first.end)}` +
    (alike ? "; without a switch that adds, " + (() => { const b = lanes.filter((l) => l.runner.id !== "inc").reduce((b, l) => (l.end < b.end ? l : b)); return `${named(b.runner)} at ${seconds(b.end)}.`; })() : ".");
  $("race-says").dataset.winner = first.runner.id;
  const r = race();
  $("race-machine").textContent = alike ? "Simulated by the command: each instant is a sum of latencies and data times, so sliders move it exactly. A hop through the switch takes α. The double tree uses the best of " + list(unique(r.runners.map((x) => x.segments).filter((p) => p))) + " segments."
    : `Simulated by the command: nodes of ${r.group}; inside a node, α is ${seconds(r.alpha_s[0])} and the rate ${rate(r.bandwidth_Bps[0])}; between nodes, ${seconds(r.alpha_s[1])} and ${rate(r.bandwidth_Bps[1])} per rank.`;
  drawStrip(alike);
}
const longest = () => Math.max(...lanes.map((l) => l.end));
function drawClock() {
  const now = longest() * state.rt / 1000;
  $("race-time").value = state.rt;
  $("race-time").setAttribute("aria-valuetext", seconds(now));
  $("race-now").textContent = seconds(now);
  lanes.forEach((lane) => lane.draw(now));
}

const list = (all) => all.slice(0, -1).join(", ") + " or " + all[all.length - 1];

// Which algorithm ends first by size, without the switch: lines a·α + b·M/BW, and where they cross.
function firstBySize() {
  const lines = race().runners.filter((r) => r.id !== "inc").map((r) => ({ r, at: r.makespan[0] * state.ra, by: r.makespan[1] / state.rb }));
  const best = (M) => lines.reduce((b, l) => (l.at + l.by * M < b.at + b.by * M ? l : b));
  const found = [{ from: 1, line: best(1) }];
  for (;;) {
    const { from, line } = found[found.length - 1];
    // The next one is the first to cross among those that rise more slowly.
    const next = lines.filter((l) => l.by < line.by).map((l) => ({ from: (l.at - line.at) / (line.by - l.by), line: l })).filter((c) => c.from > from)
      .reduce((b, c) => (!b || c.from < b.from ? c : b), null);
    if (!next) return found;
    found.push(next);
  }
}
function drawStrip(alike) {
  $("strip-part").hidden = !alike;
  if (!alike) return;
  const found = firstBySize(), svg = $("strip"), width = Math.max(280, svg.clientWidth || 600), top = 34;
  const x = (M) => Math.min(width, Math.max(0, width * Math.log2(M) / 34));
  svg.setAttribute("viewBox", `0 0 ${width} 80`);
  const parts = [], order = ["tree", "double-binary-tree", "ring"];
  found.forEach(({ from, line: { r } }, i) => {
    const to = i + 1 < found.length ? found[i + 1].from : 2 ** 34, [x0, x1] = [x(from), x(to)];
    parts.push(mark("rect", { x: x0, y: top, width: Math.max(0, x1 - x0), height: 18, style: `fill:var(--c${order.indexOf(r.id)})`, class: "span" }));
    const text = r.name + (r.segments > 1 ? ` (${r.segments})` : "");
    if (x1 - x0 > 7.5 * text.length) parts.push(mark("text", { class: "name", x: (x0 + x1) / 2, y: top - 6, "text-anchor": "middle" }, text));
    if (i > 0 && from < 2 ** 34) parts.push(mark("line", { class: "cross-line", x1: x0, x2: x0, y1: top - 4, y2: top + 22 }));
  });
  for (let e = 0; e <= 30; e += 10) parts.push(mark("text", { x: x(2 ** e), y: 77, "text-anchor": e ? "middle" : "start" }, bytes(2 ** e)));
  parts.push(mark("path", { class: "pointer", d: `M${x(state.rm)} ${top + 19}l-6 9h12z` }));
  svg.replaceChildren(...parts);
  $("strip-says").textContent = "Without a switch that adds: " + found.map(({ from, line: { r } }, i) => (i ? `from ${bytes(from)}: ` : "") + named(r)).join("; ") + ".";
  $("strip-says").dataset.from = JSON.stringify(found.map(({ from, line: { r } }) => [from, r.id, r.segments]));
}
function playRace() {
  if (running?.button === $("race-play")) return stop();
  if (state.rt >= 1000) change({ rt: 0 });
  let now = state.rt;
  animate($("race-play"), (passed) => {
    // The longest animation takes ten seconds; the address is updated at the end.
    now = Math.min(1000, now + passed / 10);
    state.rt = Math.round(now);
    const exact = longest() * now / 1000;
    $("race-time").value = state.rt;
    $("race-now").textContent = seconds(exact);
    lanes.forEach((lane) => lane.draw(exact));
    if (now >= 1000) write();
    return now < 1000;
  });
}
