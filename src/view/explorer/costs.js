// The costs of algorithms: the question, a bar for each, curves with their switch points, the formula.

// The question: the ranks of the machine, and every algorithm's price as a function of M.
const machine = () => DATA.machines.find((m) => m.name === state.on);
function ranks() {
  if (state.on === OWN) return DATA.ranks;
  if (state.on === NODES) return DATA.two_tier_ranks;
  return Object.keys(machine().prices[state.c] || {}).map(Number);
}
// The expected time at M: [time, low, high], interpolated in logarithms between powers of four.
function expected(on, c, n, M) {
  const known = on && (on.expected[c] || {})[n];
  if (!known || M < 16) return null;
  const at = Math.min((Math.log2(M) - 4) / 2, known.length - 1), i = Math.min(Math.floor(at), known.length - 2), part = at - i;
  const [t, low, high] = known[i].map((v, k) => v * (known[i + 1][k] / v) ** part);
  return [t, t * low, t * high];
}
function entries() {
  const own = state.on === OWN ? DATA.flat : DATA.two_tier;
  if (machine()) {
    return machine().prices[state.c][state.n].map((line) => ({
      ...DATA.algorithms[line[0]], ships: line[1] === 1, price: (M) => Price.known(line, M),
    }));
  }
  const links = state.on === OWN ? [{ alpha: state.a, bw: state.bw }]
    : [{ alpha: state.a1, bw: state.bw1 }, { alpha: state.a2, bw: state.bw2 }];
  const i = ranks().indexOf(state.n);
  const ports = state.on === OWN ? DATA.ports.indexOf(state.p) : 0;
  const slow = state.on === NODES && state.bw1 < state.bw2;
  return own[state.c].filter((entry) => !(slow && entry.fast_inside)).map((entry) => {
    const about = DATA.algorithms[entry.algorithm];
    const at = { n: state.n, group: state.on === NODES ? DATA.two_tier_group : 1, links, tables: about.tables };
    return { ...about, at, price: (M) => Price.own(entry, ports, i, at, M) };
  }).filter((entry) => entry.price(1));
}

// The best algorithm from each size on; every change is exact to a fraction of a byte.
function winners(all) {
  const best = (M) => all.reduce((b, e) => { const t = e.price(M).time; return !b || t < b.t ? { e, t } : b; }, null).e;
  const found = [{ from: 1, entry: best(1) }];
  for (let k = 1; k <= 160; k++) {
    let low = 2 ** ((k - 1) / 4);
    const end = 2 ** (k / 4), there = best(end);
    while (found[found.length - 1].entry !== there) {
      let high = end;
      const before = found[found.length - 1].entry;
      for (let i = 0; i < 60; i++) { const mid = (low + high) / 2; if (best(mid) === before) low = mid; else high = mid; }
      found.push({ from: high, entry: best(high) });
      if (found.length > 60) return found;
      low = high;
    }
  }
  return found;
}

function drawQuestion() {
  const allowed = machine() ? DATA.collectives.filter((c) => machine().prices[c.id]) : DATA.collectives;
  // An address, or the question before, may ask for what the machine has no prices of here.
  const asked = { c: state.c, n: state.n };
  if (!allowed.some((c) => c.id === state.c)) state.c = allowed[0].id;
  options($("collective"), allowed.map((c) => [c.id, c.name]), state.c);
  state.n = nearest(ranks(), state.n);
  const without = [asked.c !== state.c && collective(asked.c).name, asked.n !== state.n && `${asked.n} ranks`].filter(Boolean);
  $("replaced").textContent = without.length ? `Of ${state.on === OWN || state.on === NODES ? "these links" : state.on} this page has no prices of ${without.join(" on ")}: this is ${collective(state.c).name} on ${state.n} ranks. The command has them.` : "";
  options($("ranks"), ranks().map((n) => [n, n]), state.n);
  $("ranks-slider").max = ranks().length - 1;
  $("ranks-slider").value = ranks().indexOf(state.n);
  $("ranks-slider").setAttribute("aria-valuetext", `${state.n} ranks`);
  options($("machine"), [[OWN, "own parameters, all links alike"], [NODES, `own parameters, nodes of ${DATA.two_tier_group}`],
    ...DATA.machines.map((m) => [m.name, m.name])], state.on);
  options($("ports"), DATA.ports.map((p) => [p, { unbounded: "unbounded", "1hd": "1, half duplex" }[p] || p]), state.p);
  $("ports-label").hidden = state.on !== OWN;
  if (document.activeElement !== $("size")) $("size").value = bytes(state.m);
  $("size-slider").value = state.m > 0 ? Math.round(Math.log2(state.m) * 4) : 0;
  $("size-slider").setAttribute("aria-valuetext", bytes(state.m));
  const does = collective(state.c);
  $("does").textContent = `${does.name}: ${does.state.what}. Before: ${does.state.before}. After: ${does.state.after}. ${does.used_by ? "Used by: " + does.used_by + "." : ""}`;
  for (const label of $("sliders").children) label.hidden = label.dataset.on !== state.on;
  for (const [key, , , , show] of SLIDERS) {
    const input = $("slider-" + key);
    input.value = Math.round(Math.log10(state[key]) * 100);
    input.setAttribute("aria-valuetext", show(state[key]));
    $("value-" + key).textContent = show(state[key]);
  }
}

function drawCosts() {
  const all = entries();
  const rows = all.map((e) => ({ e, p: e.price(state.m) })).sort((a, b) => a.p.time - b.p.time);
  if (!rows.some((r) => r.e.id === state.alg)) state.alg = rows[0].e.id;
  const chosen = rows.find((r) => r.e.id === state.alg);
  // Bars reach to five times the best. Longer ones are cut there, with their parts in proportion.
  const most = Math.min(rows[rows.length - 1].p.time, 5 * rows[0].p.time) || 1;
  $("costs").tBodies[0].replaceChildren(...rows.map(({ e, p }) => {
    const button = el("button", { type: "button" }, (e.ships ? "* " : "") + e.title + (p.segments > 1 ? `, P = ${p.segments}` : ""));
    button.onclick = () => change({ alg: e.id });
    const cut = p.time > most * (1 + 1e-9), bar = el("div", { class: cut ? "bar cut" : "bar", "aria-hidden": "true" });
    bar.style.width = `${100 * Math.min(1, p.time / most)}%`;
    for (const term of ["launch", "latency", "bandwidth", "compute"]) if (p[term] > 0) bar.append(el("span", { class: term, style: `flex:${p[term] / p.time} 0 0` }));
    return el("tr", { "data-id": e.id, "data-time": p.time, "data-latency": p.latency, "data-bandwidth": p.bandwidth, class: e.id === state.alg ? "chosen" : "" },
      el("td", {}, button), el("td", {}, seconds(p.time)), el("td", { class: "wide-only" }, seconds(p.latency)), el("td", { class: "wide-only" }, seconds(p.bandwidth)),
      el("td", {}, rows[0].p.time > 0 ? short(round3(p.time / rows[0].p.time)) : "1"), el("td", {}, bar));
  }));
  const best = rows[0], factor = collective(state.c).size_means;
  const share = best.p.time > 0 ? Math.round(100 * Math.max(best.p.latency, best.p.bandwidth) / best.p.time) : 0;
  const e = expected(machine(), state.c, state.n, state.m);
  const between = Number.isInteger(Math.log2(state.m) / 2) ? "" : ", interpolated between powers of four";
  const will = e ? ` Expected with the library${between}: ${seconds(e[0])} (8 of 10 runs: ${seconds(e[1])} to ${seconds(e[2])}).` : "";
  $("answer").textContent = `${bytes(state.m)} ${factor} ${state.n} ranks: ${best.e.title} has the lowest ideal time${state.on === NODES ? " of these" : ""}, ${seconds(best.p.time)}; ${share} % of it is ${best.p.latency > best.p.bandwidth ? "latency" : "bandwidth"}.${will}`;
  const picks = machine() && (machine().nccl[state.c] || {})[state.n];
  const pick = picks && picks.reduce((f, x) => (x[0] <= state.m ? x : f), picks[0]);
  $("nccl").textContent = pick ? `NCCL picks ${pick[1]} here.` : machine() ? "The choice of its library is not known here." : "";
  $("nccl").dataset.pick = pick ? pick[1] : "";
  drawCurves(all, chosen.e);
  drawFormula(chosen.e, chosen.p);
}

function drawCurves(all, chosen) {
  const wins = winners(all), svg = $("curves");
  $("crossings").textContent = wins.length === 1 ? `${wins[0].entry.title} is the fastest at every size.`
    : wins.map((w, i) => (i === 0 ? w.entry.title : `from ${bytes(w.from)} ${w.entry.title}`)).join("; ") + ".";
  $("crossings").dataset.from = JSON.stringify(wins.map((w) => [w.from, w.entry.id]));
  const shown = [...new Set([...wins.map((w) => w.entry), chosen])].slice(0, 8);
  const [from, to] = [1, 2 ** 40], points = 120;
  const at = (i) => from * (to / from) ** (i / points);
  const lines = shown.map((e) => Array.from({ length: points + 1 }, (_, i) => [at(i), e.price(at(i)).time]));
  const plot = new Plot(svg, [from, to], lines.flat().map((p) => p[1]));
  shown.forEach((e, i) => plot.line(lines[i], i, e === chosen));
  for (const w of wins.slice(1)) plot.dot(w.from, w.entry.price(w.from).time, "cross");
  if (state.m >= 1) plot.here(state.m);
  plot.done($("curves-key"), shown.map((e, i) => plot.named(i, e.title)));
}

function drawFormula(entry, price) {
  $("formula-title").textContent = `Formula: ${entry.title}`;
  $("about").textContent = `${entry.summary}. Source: ${entry.source}.`;
  if (price.form === undefined) {
    $("formula").textContent = `T = ${price.launch > 0 ? "launch + " : ""}latency + bandwidth`;
    $("numbers").textContent = `  = ${price.launch > 0 ? seconds(price.launch) + " + " : ""}${seconds(price.latency)} + ${seconds(price.bandwidth)} = ${seconds(price.time)}`;
    return;
  }
  const text = DATA.texts[price.form], last = entry.at.links.length - 1, links = entry.at.links;
  const values = { N: state.n, P: price.segments, G: entry.at.group, M: bytes(state.m), "α": seconds(links[last].alpha), BW: `(${rate(links[last].bw)})`,
    "α₁": seconds(links[0].alpha), "BW₁": `(${rate(links[0].bw)})`, "α₂": seconds(links[last].alpha), "BW₂": `(${rate(links[last].bw)})` };
  $("formula").textContent = "T = " + text;
  $("numbers").textContent = "  = " + text.replace(/α₁|α₂|BW₁|BW₂|α|BW|\b[NPGM]\b/g, (s) => values[s]) + " = " + seconds(price.time);
}

const SLIDERS = [
  ["a", "α, time of an empty message", 1e-7, 1e-3, seconds, OWN], ["bw", "BW, rate of a port", 1e8, 2e12, rate, OWN],
  ["a1", "α₁ inside a node", 1e-7, 1e-3, seconds, NODES], ["bw1", "BW₁ inside", 1e8, 2e12, rate, NODES],
  ["a2", "α₂ between nodes", 1e-7, 1e-3, seconds, NODES], ["bw2", "BW₂ between, per rank", 1e8, 2e12, rate, NODES],
];
