// Step by step: what every rank holds, coloured by the origin of the data, and the messages between.
const playable = () => DATA.schedules.filter((s) => s.collective === state.sc);
const schedule = () => playable().find((s) => algorithm(s).id === state.sa && s.ranks === state.sn);
let network = null;

function cellName(s, ranks, chunk) {
  const part = s.own ? chunk % s.parts : chunk, pointed = s.ranks > 10 || s.parts > 10;
  return ranks.map((r) => "v" + r + (s.parts > 1 ? (pointed ? "." : "") + part : "")).join(s.collective === "barrier" ? "|" : "+");
}
// Ranks in few letters: runs around the ring of ranks, or their number.
function few(ranks, n) {
  if (ranks.length === n) return "all";
  const has = new Set(ranks), starts = [...has].filter((r) => !has.has((r + n - 1) % n)).sort((a, b) => a - b);
  const text = starts.map((from) => {
    let to = from;
    while (has.has((to + 1) % n)) to = (to + 1) % n;
    return from === to ? String(from) : `${from}–${to}`;
  }).join(",");
  return text.length <= 3 ? text : `${has.size}/${n}`;
}
function cell(s, ranks, chunk, wrote, reduces, roomy) {
  const made = el("td", { "data-chunk": chunk });
  if (!ranks) return made;
  const name = cellName(s, ranks, chunk), whole = reduces && unique(ranks).length === s.ranks;
  made.dataset.text = name;
  made.title = name;
  made.className = [wrote ? "written" : "", whole ? "whole" : ""].join(" ").trim();
  const block = el("span", { class: "block" });
  block.style.background = stripes(hues(ranks, s.ranks));
  made.append(block, el("span", { class: "sr" }, name));
  if (roomy) made.append(el("span", { class: "few", "aria-hidden": "true" }, s.own && s.parts > 1 ? `${ranks[0]}→${chunk % s.parts}` : few(ranks, s.ranks)));
  return made;
}

function drawSchedule() {
  if (!playable().some((s) => algorithm(s).id === state.sa)) {
    state.sa = algorithm(playable().find((s) => algorithm(s).id === "ring") || playable()[0]).id;
  }
  const counts = playable().filter((s) => algorithm(s).id === state.sa).map((s) => s.ranks);
  state.sn = nearest(counts, state.sn);
  const s = schedule();
  state.k = Math.min(Math.max(0, state.k), s.rounds.length);
  for (const button of $("gallery").children) button.setAttribute("aria-pressed", String(button.dataset.c === state.sc));
  options($("played"), unique(playable().map((p) => p.algorithm)).map((i) => [DATA.algorithms[i].id, DATA.algorithms[i].title]), state.sa);
  options($("played-ranks"), counts.map((n) => [n, n]), state.sn);
  $("step-slider").max = s.rounds.length;
  $("step-slider").value = state.k;
  const what = collective(s.collective);
  $("shape").textContent = `${what.name}: ${what.state.what}. Before: ${what.state.before}. After: ${what.state.after}.`;
  const { places, written } = contents(s, state.k);
  const reduces = s.rounds.some((r) => r.some((m) => m[2] > 0));
  const columns = places[0].length, listed = columns > 32;
  const table = $("contents");
  table.className = listed ? "listed" : "";
  const head = listed ? [el("th", { scope: "col" }, "holds, from → for")] : Array.from({ length: columns }, (_, c) => el("th", { scope: "col" }, columns > 8 ? "" : "c" + c));
  if (columns > 8) head.forEach((h, c) => h.append(el("span", { class: "sr" }, "c" + c)));
  table.replaceChildren(el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "who" }, el("span", { class: "sr" }, "rank")), ...head)),
    el("tbody", {}, ...places.slice(0, s.ranks).map((held, rank) => {
      const who = el("th", { scope: "row", class: "who" }, String(rank));
      who.style.borderLeftColor = hue(rank, s.ranks);
      const cells = held.map((ranks, c) => cell(s, ranks, c, written.has(rank + "," + c), reduces, columns <= 8 || listed));
      if (!listed) return el("tr", {}, who, ...cells);
      // Too many columns to show side by side: list what is held.
      const list = cells.filter((c) => c.dataset.text).map((c) => { const chip = el("span", { class: "held " + c.className, title: c.title, "data-chunk": c.dataset.chunk, "data-text": c.dataset.text }); chip.append(...c.childNodes); return chip; });
      return el("tr", {}, who, el("td", {}, ...list));
    })));
  const sent = s.rounds.map((messages) => { const by = {}; for (const m of messages) by[m[0]] = (by[m[0]] || 0) + chunksOf(m).length; return by; });
  const upTo = (k) => { const total = {}; for (const by of sent.slice(0, k)) for (const r in by) total[r] = (total[r] || 0) + by[r]; return Math.max(0, ...Object.entries(total).filter(([r]) => r < s.ranks).map(([, v]) => v)); };
  const [now, all] = [upTo(state.k) / s.parts, upTo(s.rounds.length) / s.parts];
  const here = state.k > 0 ? s.rounds[state.k - 1] : [];
  const does = { 0: "store", 1: "add", 2: "join" };
  const phase = here.length ? unique(here.map((m) => does[m[2]])).join(", ") : "start";
  $("step-says").textContent = `Step ${state.k} of ${s.rounds.length}: ${phase}` + (s.group ? `, nodes of ${s.group}` : "") + (s.segments ? `, P = ${s.segments}` : "") +
    (s.collective === "barrier" ? "" : `. The busiest rank has sent ${short(now)} M of ${short(all)} M, ${all > 0 ? short(100 * now / all) : 0} %.`);
  $("step-says").dataset.share = all > 0 ? now / all : 0;
  const place = (i) => (i < s.ranks ? i : "switch" + (s.switches > 1 ? ` ${i - s.ranks}` : ""));
  $("messages").textContent = here.map((m) => `${place(m[0])} → ${place(m[1])}${s.parts > 1 || s.own ? " c" + chunksOf(m).join(",") : ""}`).join("; ");
  $("about-played").textContent = `${algorithm(s).title}: ${algorithm(s).summary}. Source: ${algorithm(s).source}.`;
  if (network?.s !== s) network = new Network($("ring"), s, { size: 300, dot: 16 });
  drawFlight(1);
}
// The messages of this step at a fraction of their path.
function drawFlight(part) {
  const s = network.s, k = state.k - 1, here = s.rounds[k] || [], carried = carriedBy(s)[k];
  network.fly(here.map((m, i) => [k + "." + i, m, carried[i], part]));
}
const FLIGHT = 650, REST = 350;
const eased = (t) => t * t * (3 - 2 * t);
// One step forward: the table shows what is held after it while its messages are still in flight.
function step(by) {
  stop();
  change({ k: state.k + by });
  if (by < 0 || still() || state.k === 0) return;
  let time = 0;
  drawFlight(0);
  animate(null, (passed) => { time += passed; drawFlight(eased(Math.min(1, time / FLIGHT))); return time < FLIGHT; });
}
function playSteps() {
  if (running?.button === $("play")) return stop();
  stop();
  if (state.k >= schedule().rounds.length) change({ k: 0 });
  let time = FLIGHT + REST;
  animate($("play"), (passed) => {
    time += passed;
    if (time >= FLIGHT + REST) {
      if (state.k >= schedule().rounds.length) return false;
      change({ k: state.k + 1 });
      time = 0;
    }
    drawFlight(still() ? 1 : eased(Math.min(1, time / FLIGHT)));
    return true;
  });
}
