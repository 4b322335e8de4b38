// Measured times with the expected ones, their band, and the ideal times of algorithms.
let opened = [];

// What can be shown for a machine: collective and ranks with all measurements, and opened files.
function seriesOf(on) {
  const found = new Map();
  for (const m of on?.measured || []) {
    const key = `${m.collective},${m.ranks}`;
    if (!found.has(key)) found.set(key, { key, c: m.collective, n: m.ranks, all: [] });
    found.get(key).all.push(m);
  }
  return [...found.values()];
}
function drawMeasured() {
  const machines = DATA.machines.filter((m) => m.measured.length);
  const known = [...machines.map((m) => m.name), ...opened.map((o) => o.name)];
  if (!known.includes(state.mo)) state.mo = known[0];
  options($("measured-on"), [...machines.map((m) => [m.name, m.name]), ...opened.map((o) => [o.name, o.name])], state.mo);
  const file = opened.find((o) => o.name === state.mo), on = file ? null : machines.find((m) => m.name === state.mo);
  const series = file ? file.series : seriesOf(on);
  const one = series.find((s) => s.key === state.ms) || series[0];
  state.ms = one.key;
  options($("measured-what"), series.map((s) => [s.key, `${collective(s.c)?.name || s.c}, ${s.n} ranks`]), state.ms);
  const points = one.all.flatMap((m) => m.points.map(([size, time, told]) => ({ m, size, time, told: told || expected(on, one.c, one.n, size) })));
  const inside = points.filter((p) => p.told && p.time >= p.told[1] && p.time <= p.told[2]).length;
  const lowest = Math.min(...points.map((p) => p.size)), highest = Math.max(...points.map((p) => p.size));
  const [from, to] = [lowest / 2, highest * 2];
  const span = Array.from({ length: 97 }, (_, i) => from * (to / from) ** (i / 96));
  const told = on ? span.filter((M) => M >= 16).map((M) => [M, expected(on, one.c, one.n, M)]) : points.map((p) => [p.size, p.told]).sort((a, b) => a[0] - b[0]);
  const prices = on ? on.prices[one.c][one.n].filter((line) => line[1] === 1 || ["ring", "tree"].includes(DATA.algorithms[line[0]].id)).slice(0, 5) : [];
  const ideal = prices.map((line) => span.map((M) => [M, Price.known(line, M).time]));
  // Once as times, once relative to the expected time: a band of a few percent is hard to see over nine decades.
  const draw = (id, over, how) => {
    const lines = ideal.map((line) => line.map(([m, t]) => [m, over(m, t)]).filter((p) => p[1] !== null));
    const [mid, low, high] = [0, 1, 2].map((i) => told.map(([m, t]) => [m, over(m, t[i])]));
    const marks = points.map((p) => ({ ...p, at: over(p.size, p.time, p.told) })).filter((p) => p.at !== null);
    const plot = new Plot($(id), [from, to], [...lines.flat(), ...low, ...high].map((p) => p[1]).concat(marks.map((p) => p.at)), how);
    plot.band(low, high);
    plot.parts.push(mark("polyline", { class: "told", points: plot.points(mid) }));
    lines.forEach((line, i) => plot.line(line, i));
    for (const p of marks) plot.point(p.size, p.at, one.all.indexOf(p.m), `${bytes(p.size)}: ${seconds(p.time)}` + (p.told ? `, ${short(round3(p.time / p.told[0]))} of the expected time` : ""));
    return plot;
  };
  const toldAt = (m) => (on ? expected(on, one.c, one.n, m) : told.find(([size]) => size === m)[1]);
  const plot = draw("measured", (m, t) => t);
  const over = draw("measured-over", (m, t) => { const e = toldAt(m); return e && t / e[0]; }, { height: 240, ratio: true });
  over.done(el("ul"), []);
  const signs = ["●", "■", "◆", "▲"];
  plot.done($("measured-key"), [el("li", {}, el("span", { class: "swatch told" }), "expected, and the band of 8 of 10 runs"),
    ...prices.map((line, i) => plot.named(i, DATA.algorithms[line[0]].title + ", ideal")),
    ...one.all.map((m, i) => el("li", {}, el("span", { class: "sign", "aria-hidden": "true" }, signs[i % 4]), `measured: ${m.library}; ${m.source}${m.published ? ", " + m.published : ""}`))]);
  const ratios = points.filter((p) => p.told).map((p) => p.time / p.told[0]).sort((a, b) => a - b);
  $("measured-says").textContent = `${points.length} points; ${inside} ${inside === 1 ? "is" : "are"} in the band; the median is ${short(round3(ratios[Math.floor(ratios.length / 2)]))} of the expected time.` +
    (on ? " The expectation was learned from these machines among others, so this is not a test of it; collcost accuracy measures its error on machines that it has not seen." : "");
  Object.assign($("measured-says").dataset, { points: points.length, inside });
}

// A report of `collcost compare LOG --format json`.
function openCompare(name, report) {
  const series = report.runs.map((r, i) => ({ key: `${r.collective},${r.ranks},${i}`, c: r.collective, n: r.ranks,
    all: [{ library: report.machine, source: r.file || name, points: r.points.map((p) => [p.size_bytes, p.measured_s, [p.expected_s, p.low_s, p.high_s]]) }] }));
  opened = [...opened.filter((o) => o.name !== name), { name, series }];
  change({ mo: name, ms: series[0].key });
}
