// Widgets over DATA and Price. One state, kept in the address; one `draw` a part.
(() => {
  const $ = (id) => document.getElementById(id);
  const OWN = "own", NODES = "nodes";
  const state = {
    c: "allreduce", n: 64, m: 16 * 2 ** 20, on: OWN, p: "1", alg: "",
    a: 1e-6, bw: 100e9, a1: 1e-6, bw1: 450e9, a2: 5e-6, bw2: 50e9,
    sc: "allreduce", sa: "ring", sn: 4, k: 0, rn: 8, rm: 1024, rl: "nodes", rt: 0,
  };
  const defaults = { ...state };

  // Numbers with their units, as the command prints them.
  const short = (v) => {
    if (v === Math.round(v) && Math.abs(v) < 1e15) return String(v);
    const d = v >= 1000 ? 0 : v >= 100 ? 1 : v >= 10 ? 2 : 3;
    return String(parseFloat(v.toFixed(d)));
  };
  const seconds = (s) => s >= 1 ? short(s) + " s" : s >= 1e-3 ? short(s * 1e3) + " ms" : s >= 1e-6 || s === 0 ? short(s * 1e6) + " µs" : short(s * 1e9) + " ns";
  const BYTES = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["B", 1]];
  const bytes = (b) => { const [u, s] = BYTES.find(([, s]) => b >= s) || BYTES[4]; return short(b / s) + " " + u; };
  const rate = (r) => short(r / 1e9) + " GB/s";
  const UNITS = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40, KIB: 2 ** 10, MIB: 2 ** 20, GIB: 2 ** 30, TIB: 2 ** 40, "": 1 };
  function readSize(text) {
    const found = /^\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([a-z]*)\s*$/i.exec(text);
    const scale = found && UNITS[found[2].toUpperCase()];
    const size = scale && Math.round(found[1] * scale);
    return size >= 0 && size <= 2 ** 43 && !(found[2].endsWith("b")) ? size : null;
  }

  const el = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const mark = (name, attributes = {}, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const options = (select, pairs, chosen) => {
    select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value, false, String(value) === String(chosen))));
  };
  const nearest = (list, value) => list.reduce((best, x) => (Math.abs(x - value) < Math.abs(best - value) ? x : best), list[0]);

  // The question: ranks that the machine has, and every algorithm's price as a function of M.
  const machine = () => DATA.machines.find((m) => m.name === state.on);
  function ranks() {
    if (state.on === OWN) return DATA.ranks;
    if (state.on === NODES) return DATA.two_tier_ranks;
    return Object.keys(machine().prices[state.c] || {}).map(Number);
  }
  // What is expected at M: [time, low, high], straight in logarithms between powers of four.
  function expected(M) {
    const known = machine() && (machine().expected[state.c] || {})[state.n];
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

  // Who is the best from which size on, each change to the last bit of a byte's fraction.
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
    if (!allowed.some((c) => c.id === state.c)) state.c = allowed[0].id;
    options($("collective"), allowed.map((c) => [c.id, c.name]), state.c);
    state.n = nearest(ranks(), state.n);
    options($("ranks"), ranks().map((n) => [n, n]), state.n);
    options($("machine"), [[OWN, "own figures, all links alike"], [NODES, `own figures, nodes of ${DATA.two_tier_group}`],
      ...DATA.machines.map((m) => [m.name, m.name])], state.on);
    options($("ports"), DATA.ports.map((p) => [p, { unbounded: "unbounded", "1hd": "1, half duplex" }[p] || p]), state.p);
    $("ports-label").hidden = state.on !== OWN;
    if (document.activeElement !== $("size")) $("size").value = bytes(state.m);
    $("size-slider").value = state.m > 0 ? Math.round(Math.log2(state.m) * 4) : 0;
    $("size-slider").setAttribute("aria-valuetext", bytes(state.m));
    const does = DATA.collectives.find((c) => c.id === state.c);
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
    // Bars reach to five times the best; longer ones are cut, and say so.
    const most = Math.min(rows[rows.length - 1].p.time, 5 * rows[0].p.time) || 1;
    $("costs").tBodies[0].replaceChildren(...rows.map(({ e, p }) => {
      const button = el("button", { type: "button" }, (e.ships ? "* " : "") + e.title + (p.segments > 1 ? `, P = ${p.segments}` : ""));
      button.onclick = () => change({ alg: e.id });
      const bar = el("div", { class: p.time > most ? "bar cut" : "bar", "aria-hidden": "true" });
      let room = most;
      for (const term of ["launch", "latency", "bandwidth", "compute"]) {
        const part = Math.min(room, p[term]);
        room -= part;
        bar.append(el("span", { class: term, style: `width:${100 * part / most}%` }));
      }
      return el("tr", { "data-id": e.id, "data-time": p.time, "data-latency": p.latency, "data-bandwidth": p.bandwidth, class: e.id === state.alg ? "chosen" : "" },
        el("td", {}, button), el("td", {}, seconds(p.time)), el("td", {}, seconds(p.latency)), el("td", {}, seconds(p.bandwidth)), el("td", {}, bar));
    }));
    const best = rows[0], factor = DATA.collectives.find((c) => c.id === state.c).size_means;
    const share = best.p.time > 0 ? Math.round(100 * Math.max(best.p.latency, best.p.bandwidth) / best.p.time) : 0;
    const e = expected(state.m);
    const will = e ? ` Expected of the library: ${seconds(e[0])} (8 of 10 runs: ${seconds(e[1])} to ${seconds(e[2])}).` : "";
    $("answer").textContent = `${bytes(state.m)} ${factor} ${state.n} ranks: ${best.e.title} has the lowest ideal time${state.on === NODES ? " of these" : ""}, ${seconds(best.p.time)}; ${share} % of it is ${best.p.latency > best.p.bandwidth ? "latency" : "bandwidth"}.${will}`;
    const picks = machine() && (machine().nccl[state.c] || {})[state.n];
    const pick = picks && picks.reduce((f, x) => (x[0] <= state.m ? x : f), picks[0]);
    $("nccl").textContent = pick ? `NCCL picks ${pick[1]} here.` : machine() ? "What its library picks is not known here." : "";
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
    const width = Math.max(280, svg.clientWidth || 600), height = 320, left = 62, right = 12, top = 10, bottom = 40;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const [from, to] = [1, 2 ** 40], points = 120;
    const at = (i) => from * (to / from) ** (i / points);
    const lines = shown.map((e) => Array.from({ length: points + 1 }, (_, i) => [at(i), e.price(at(i)).time]));
    const times = lines.flat().map((p) => p[1]).filter((t) => t > 0);
    const [low, high] = [Math.min(...times) / 1.5, Math.max(...times) * 1.5];
    const x = (v) => left + Math.log(v / from) / Math.log(to / from) * (width - left - right);
    const y = (v) => height - bottom - Math.log(v / low) / Math.log(high / low) * (height - top - bottom);
    const parts = [];
    for (let e = 0; e <= 40; e += width < 500 ? 20 : 10) parts.push(mark("line", { class: "grid", x1: x(2 ** e), x2: x(2 ** e), y1: top, y2: height - bottom }),
      mark("text", { x: x(2 ** e), y: height - bottom + 16, "text-anchor": e === 40 ? "end" : "middle" }, bytes(2 ** e)));
    for (let d = Math.ceil(Math.log10(low)); d <= Math.log10(high); d++) parts.push(mark("line", { class: "grid", x1: left, x2: width - right, y1: y(10 ** d), y2: y(10 ** d) }),
      mark("text", { x: left - 6, y: y(10 ** d) + 4, "text-anchor": "end" }, seconds(Number("1e" + d))));
    parts.push(mark("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
    shown.forEach((e, i) => parts.push(mark("polyline", { fill: "none", stroke: `var(--c${i})`, "stroke-width": e === chosen ? 3.5 : 2, "stroke-dasharray": ["none", "8 3", "2 3", "8 3 2 3"][i % 4],
      points: lines[i].map(([m, t]) => `${x(m).toFixed(1)},${y(Math.max(t, low)).toFixed(1)}`).join(" ") })));
    for (const w of wins.slice(1)) parts.push(mark("circle", { class: "cross", cx: x(w.from), cy: y(w.entry.price(w.from).time), r: 4 }));
    if (state.m >= 1) parts.push(mark("line", { class: "here", x1: x(state.m), x2: x(state.m), y1: top, y2: height - bottom }));
    // Names where there is room: a list in the upper left, in the order of their lines at the end.
    shown.forEach((e, i) => parts.push(mark("line", { x1: left + 8, x2: left + 30, y1: top + 12 + 16 * i, y2: top + 12 + 16 * i, stroke: `var(--c${i})`, "stroke-width": 3, "stroke-dasharray": ["none", "8 3", "2 3", "8 3 2 3"][i % 4] }),
      mark("text", { class: "name", x: left + 36, y: top + 16 + 16 * i }, e.title)));
    svg.replaceChildren(...parts);
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

  // A schedule: contents before the first step and after each, from the messages alone.
  const playable = () => DATA.schedules.filter((s) => s.collective === state.sc);
  const schedule = () => playable().find((s) => DATA.algorithms[s.algorithm].id === state.sa && s.ranks === state.sn);
  const chunksOf = ([, , , runs]) => runs.flatMap((start, i) => (i % 2 ? [] : Array.from({ length: runs[i + 1] }, (_, j) => start + j)));
  function contents(s, steps) {
    const chunks = s.parts * (s.own ? s.ranks : 1);
    const places = Array.from({ length: s.ranks + s.switches }, () => Array(chunks).fill(null));
    s.holds.forEach((held, rank) => held.forEach((c) => { places[rank][c] = [rank]; }));
    let written = new Set();
    for (const messages of s.rounds.slice(0, steps)) {
      // All of a step read what was there before it.
      const arriving = messages.flatMap((m) => chunksOf(m).map((c) => [m[1], c, m[2], places[m[0]][c]]));
      written = new Set();
      for (const [to, c, op, what] of arriving) {
        const here = places[to][c];
        if (op === 0 || !here) places[to][c] = [...what];
        else places[to][c] = [...here, ...what.filter((r) => op === 1 || !here.includes(r))];
        written.add(to + "," + c);
      }
    }
    return { places, written };
  }
  function cellName(s, ranks, chunk) {
    const part = s.own ? chunk % s.parts : chunk, pointed = s.ranks > 10 || s.parts > 10;
    return ranks.map((r) => "v" + r + (s.parts > 1 ? (pointed ? "." : "") + part : "")).join(s.collective === "barrier" ? "|" : "+");
  }
  function drawSchedule() {
    if (!playable().some((s) => DATA.algorithms[s.algorithm].id === state.sa)) {
      const ring = playable().find((s) => DATA.algorithms[s.algorithm].id === "ring") || playable()[0];
      state.sa = DATA.algorithms[ring.algorithm].id;
    }
    const counts = playable().filter((s) => DATA.algorithms[s.algorithm].id === state.sa).map((s) => s.ranks);
    state.sn = nearest(counts, state.sn);
    const s = schedule();
    state.k = Math.min(Math.max(0, state.k), s.rounds.length);
    for (const button of $("gallery").children) button.setAttribute("aria-pressed", String(button.dataset.c === state.sc));
    const names = [...new Set(playable().map((p) => p.algorithm))].map((i) => [DATA.algorithms[i].id, DATA.algorithms[i].title]);
    options($("played"), names, state.sa);
    options($("played-ranks"), counts.map((n) => [n, n]), state.sn);
    $("step-slider").max = s.rounds.length;
    $("step-slider").value = state.k;
    const { places, written } = contents(s, state.k);
    const reduces = s.rounds.some((r) => r.some((m) => m[2] > 0));
    const head = el("tr", {}, el("th", { scope: "col" }, "rank"), ...places[0].map((_, c) => el("th", { scope: "col" }, s.own ? (s.parts > 1 ? `v${Math.floor(c / s.parts)}${c % s.parts}` : `v${c}`) : "c" + c)));
    $("contents").replaceChildren(el("thead", {}, head), el("tbody", {}, ...places.map((row, place) => el("tr", {},
      el("th", { scope: "row" }, place < s.ranks ? String(place) : "switch" + (place - s.ranks)),
      ...row.map((held, c) => {
        const whole = held && reduces && held.length === s.ranks;
        const kinds = [held && (whole ? "whole" : held.length > 1 ? "part" : ""), written.has(place + "," + c) ? "written" : ""];
        return el("td", { class: kinds.filter(Boolean).join(" ") }, held ? cellName(s, held, c) : "");
      })))));
    const sent = s.rounds.map((messages) => { const by = {}; for (const m of messages) by[m[0]] = (by[m[0]] || 0) + chunksOf(m).length; return by; });
    const upTo = (k) => { const total = {}; for (const by of sent.slice(0, k)) for (const r in by) total[r] = (total[r] || 0) + by[r]; return Math.max(0, ...Object.entries(total).filter(([r]) => r < s.ranks).map(([, v]) => v)); };
    const [now, all] = [upTo(state.k) / s.parts, upTo(s.rounds.length) / s.parts];
    const here = state.k > 0 ? s.rounds[state.k - 1] : [];
    const does = { 0: "store", 1: "add", 2: "join" };
    const phase = here.length ? [...new Set(here.map((m) => does[m[2]]))].join(", ") : "start";
    const dataless = s.collective === "barrier";
    $("step-says").textContent = `Step ${state.k} of ${s.rounds.length}: ${phase}` + (s.group ? `, nodes of ${s.group}` : "") + (s.segments ? `, P = ${s.segments}` : "") +
      (dataless ? "" : `. The busiest rank has sent ${short(now)} M of ${short(all)} M, ${all > 0 ? short(100 * now / all) : 0} %.`);
    $("step-says").dataset.share = all > 0 ? now / all : 0;
    $("messages").textContent = here.map((m) => `${m[0]} → ${m[1]}${s.parts > 1 || s.own ? " c" + chunksOf(m).join(",") : ""}`).join("; ");
    drawRing(s, here);
  }
  function drawRing(s, messages) {
    const count = s.ranks + s.switches, size = 280, middle = size / 2, radius = 105;
    const place = (i) => { const turn = 2 * Math.PI * i / count - Math.PI / 2; return [middle + radius * Math.cos(turn), middle + radius * Math.sin(turn)]; };
    const parts = [mark("defs")];
    const head = mark("marker", { id: "arrow", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" });
    head.append(mark("path", { d: "M0 0L10 5L0 10z", fill: "var(--latency)" }));
    parts[0].append(head);
    for (const [from, to] of messages) {
      const [[x0, y0], [x1, y1]] = [place(from), place(to)], length = Math.hypot(x1 - x0, y1 - y0) || 1, [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
      // Two ways between a pair lie beside each other.
      const [ox, oy] = [-dy * 4, dx * 4];
      parts.push(mark("line", { x1: x0 + dx * 17 + ox, y1: y0 + dy * 17 + oy, x2: x1 - dx * 18 + ox, y2: y1 - dy * 18 + oy, stroke: "var(--latency)", "stroke-width": 2, "marker-end": "url(#arrow)" }));
    }
    for (let i = 0; i < count; i++) {
      const [px, py] = place(i), node = s.group ? Math.floor(i / s.group) : 0;
      parts.push(mark("circle", { cx: px, cy: py, r: 15, fill: "var(--paper)", stroke: `var(--c${node % 8})`, "stroke-width": 2.5 }), mark("text", { class: "name", x: px, y: py + 4, "text-anchor": "middle" }, i < s.ranks ? i : "sw"));
    }
    $("ring").setAttribute("viewBox", `0 0 ${size} ${size}`);
    $("ring").replaceChildren(...parts);
  }

  function drawRace() {
    const race = DATA.races.find((r) => r.ranks === state.rn && r.size_bytes === state.rm && (r.bandwidth_Bps[0] === r.bandwidth_Bps[1]) === (state.rl === "alike"));
    $("race-links").value = state.rl;
    const longest = Math.max(...race.runners.map((r) => r.makespan_s)), now = longest * state.rt / 1000;
    $("race-time").value = state.rt;
    $("race-time").setAttribute("aria-valuetext", seconds(now));
    $("lanes").replaceChildren(...race.runners.map((runner, i) => {
      const done = runner.done.reduce((d, [t, c]) => (t <= now * (1 + 1e-12) ? c : d), 0);
      const track = el("div", { class: "track" }, el("div", { style: `width:${100 * done / runner.messages}%;background:var(--c${i})` }));
      return el("div", { class: "lane", "data-id": runner.id, "data-done": done, "data-makespan": runner.makespan_s },
        `${runner.name}: ${done} of ${runner.messages} messages, ends at ${seconds(runner.makespan_s)}`, track);
    }));
    const first = race.runners.reduce((b, r) => (r.makespan_s < b.makespan_s ? r : b));
    $("race-says").textContent = `At ${seconds(now)}. Of ${bytes(race.size_bytes)} over ${race.ranks} ranks the ${first.name} ends first.`;
    $("race-says").dataset.winner = first.id;
    $("race-machine").textContent = `Simulated: nodes of ${race.group}, inside α is ${seconds(race.alpha_s[0])} and the rate ${rate(race.bandwidth_Bps[0])}, between ${seconds(race.alpha_s[1])} and ${rate(race.bandwidth_Bps[1])} for each rank.`;
  }

  // The state in the address, without what is as it was at first.
  function write() {
    const kept = Object.entries(state).filter(([k, v]) => v !== defaults[k]).map(([k, v]) => `${k}=${encodeURIComponent(v)}`);
    history.replaceState(null, "", kept.length ? "#" + kept.join("&") : location.pathname + location.search);
  }
  function read() {
    if (!location.hash.includes("=")) return;
    Object.assign(state, defaults);
    for (const pair of location.hash.slice(1).split("&")) {
      const [key, text = ""] = pair.split("=");
      if (!Object.hasOwn(defaults, key)) continue;
      let value;
      try { value = decodeURIComponent(text); } catch { continue; }
      if (typeof defaults[key] !== "number") state[key] = value;
      else if (Number.isFinite(Number(value)) && Number(value) >= 0) state[key] = Number(value);
    }
    // An address may say what there is not.
    if (![OWN, NODES, ...DATA.machines.map((m) => m.name)].includes(state.on)) state.on = OWN;
    if (!DATA.collectives.some((c) => c.id === state.c)) state.c = defaults.c;
    if (!DATA.collectives.some((c) => c.id === state.sc)) state.sc = defaults.sc;
    if (!DATA.ports.includes(state.p)) state.p = defaults.p;
    for (const [key] of SLIDERS) if (!(state[key] > 0)) state[key] = defaults[key];
    state.rn = nearest([...new Set(DATA.races.map((r) => r.ranks))], state.rn);
    state.rm = nearest([...new Set(DATA.races.map((r) => r.size_bytes))], state.rm);
    if (state.rl !== "alike") state.rl = "nodes";
    state.rt = Math.min(1000, state.rt);
    state.k = Math.floor(state.k);
    state.m = Math.min(2 ** 43, Math.round(state.m));
  }
  function draw() {
    drawQuestion(); drawCosts(); drawSchedule(); drawRace();
    options($("race-ranks"), [...new Set(DATA.races.map((r) => r.ranks))].map((n) => [n, n]), state.rn);
    options($("race-size"), [...new Set(DATA.races.map((r) => r.size_bytes))].map((m) => [m, bytes(m)]), state.rm);
  }
  // Only what an input changes is drawn again, so that sliders keep up.
  const PARTS = { k: drawSchedule, sc: drawSchedule, sa: drawSchedule, sn: drawSchedule, rn: drawRace, rm: drawRace, rl: drawRace, rt: drawRace, alg: drawCosts };
  function change(some) {
    Object.assign(state, some);
    const parts = new Set(Object.keys(some).map((k) => PARTS[k]));
    if (parts.has(undefined)) { drawQuestion(); drawCosts(); } else parts.forEach((part) => part());
    write();
  }

  const us = (s) => seconds(s);
  const SLIDERS = [
    ["a", "α, time of an empty message", 1e-7, 1e-3, us, OWN], ["bw", "BW, rate of a port", 1e8, 2e12, rate, OWN],
    ["a1", "α₁ inside a node", 1e-7, 1e-3, us, NODES], ["bw1", "BW₁ inside", 1e8, 2e12, rate, NODES],
    ["a2", "α₂ between nodes", 1e-7, 1e-3, us, NODES], ["bw2", "BW₂ between, a rank", 1e8, 2e12, rate, NODES],
  ];
  // Three digits, as a slider can be set.
  const round3 = (v) => Number(v.toPrecision(3));
  $("sliders").append(...SLIDERS.map(([key, label, low, high, , on]) => {
    const input = el("input", { type: "range", id: "slider-" + key, min: Math.round(Math.log10(low) * 100), max: Math.round(Math.log10(high) * 100), step: 1 });
    input.oninput = () => change({ [key]: round3(10 ** (input.value / 100)) });
    const made = el("label", { class: "wide", "data-on": on }, el("span", {}, label + ": ", el("b", { id: "value-" + key })), input);
    return made;
  }));
  $("gallery").append(...DATA.collectives.map((c) => {
    const button = el("button", { type: "button", "data-c": c.id, "aria-pressed": "false" }, c.name);
    button.onclick = () => { stop(); change({ sc: c.id, k: 0 }); };
    return button;
  }));
  $("summary").append(...DATA.summary.map((s) => el("li", {}, s)));
  $("version").textContent = DATA.version;

  const timers = {};
  function stop() { for (const [id, timer] of Object.entries(timers)) { clearInterval(timer); $(id).setAttribute("aria-pressed", "false"); delete timers[id]; } }
  function toggle(id, every, tick) {
    const running = timers[id];
    stop();
    if (running) return;
    $(id).setAttribute("aria-pressed", "true");
    timers[id] = setInterval(() => { if (!tick()) stop(); }, every);
  }
  $("collective").onchange = (e) => change({ c: e.target.value, alg: "" });
  $("ranks").onchange = (e) => change({ n: Number(e.target.value) });
  $("machine").onchange = (e) => change({ on: e.target.value, alg: "" });
  $("ports").onchange = (e) => change({ p: e.target.value });
  $("size-slider").oninput = (e) => change({ m: Math.round(2 ** (e.target.value / 4)) });
  $("size").onchange = (e) => {
    const size = readSize(e.target.value);
    $("size-error").textContent = size === null ? `“${e.target.value}” is no size: write 16MiB, 16MB or 4096, up to 8 TiB` : "";
    if (size !== null) { e.target.blur(); change({ m: size }); }
  };
  $("played").onchange = (e) => { stop(); change({ sa: e.target.value, k: 0 }); };
  $("played-ranks").onchange = (e) => { stop(); change({ sn: Number(e.target.value), k: 0 }); };
  $("step-slider").oninput = (e) => { stop(); change({ k: Number(e.target.value) }); };
  $("first").onclick = () => { stop(); change({ k: 0 }); };
  $("back").onclick = () => { stop(); change({ k: state.k - 1 }); };
  $("next").onclick = () => { stop(); change({ k: state.k + 1 }); };
  $("play").onclick = () => {
    if (state.k >= schedule().rounds.length) change({ k: 0 });
    toggle("play", 700, () => { change({ k: state.k + 1 }); return state.k < schedule().rounds.length; });
  };
  $("race-ranks").onchange = (e) => { stop(); change({ rn: Number(e.target.value), rt: 0 }); };
  $("race-size").onchange = (e) => { stop(); change({ rm: Number(e.target.value), rt: 0 }); };
  $("race-links").onchange = (e) => { stop(); change({ rl: e.target.value, rt: 0 }); };
  $("race-time").oninput = (e) => { stop(); change({ rt: Number(e.target.value) }); };
  $("race-play").onclick = () => {
    if (state.rt >= 1000) change({ rt: 0 });
    toggle("race-play", 40, () => { change({ rt: Math.min(1000, state.rt + 10) }); return state.rt < 1000; });
  };
  addEventListener("hashchange", () => { if (location.hash.includes("=")) { read(); draw(); } });
  addEventListener("resize", () => drawCosts());
  read();
  draw();
})();
