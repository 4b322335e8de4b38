// The state in the address, without default values, and the effects of the controls.
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
  // An address may name things that do not exist.
  if (![OWN, NODES, ...DATA.machines.map((m) => m.name)].includes(state.on)) state.on = OWN;
  if (!collective(state.c)) state.c = defaults.c;
  if (!collective(state.sc)) state.sc = defaults.sc;
  if (!DATA.ports.includes(state.p)) state.p = defaults.p;
  for (const key of [...SLIDERS.map(([key]) => key), "ra", "rb"]) if (!(state[key] > 0)) state[key] = defaults[key];
  if (state.rl !== "nodes") state.rl = "alike";
  state.rm = Math.min(2 ** 34, Math.max(1, Math.round(state.rm)));
  state.rt = Math.min(1000, state.rt);
  state.k = Math.floor(state.k);
  state.m = Math.min(2 ** 43, Math.round(state.m));
}
const drawAsk = () => { drawQuestion(); drawCosts(); };
const PARTS = [["sc sa sn k", drawSchedule], ["rn rm rl ra rb", drawRace], ["rt", drawClock], ["alg", drawCosts], ["mo ms", drawMeasured], ["t", drawTraining]];
function draw() { for (const part of [drawAsk, drawSchedule, drawRace, drawMeasured, drawTraining]) part(); }
// Only the parts that an input changes are redrawn, so that sliders respond quickly.
function change(some) {
  Object.assign(state, some);
  const part = (key) => PARTS.find(([keys]) => keys.split(" ").includes(key))?.[1] || drawAsk;
  unique(Object.keys(some).map(part)).forEach((draw) => draw());
  write();
}
const on = (id, event, does) => { $(id)["on" + event] = (e) => does(e.target.value, e.target); };

$("sliders").append(...SLIDERS.map(([key, label, low, high, , of]) => {
  const input = el("input", { type: "range", id: "slider-" + key, min: Math.round(Math.log10(low) * 100), max: Math.round(Math.log10(high) * 100), step: 1 });
  input.oninput = () => change({ [key]: round3(10 ** (input.value / 100)) });
  return el("label", { class: "wide", "data-on": of }, el("span", {}, label + ": ", el("b", { id: "value-" + key })), input);
}));
$("gallery").append(...DATA.collectives.map((c) => {
  const button = el("button", { type: "button", "data-c": c.id, "aria-pressed": "false" }, c.name);
  button.onclick = () => { stop(); change({ sc: c.id, k: 0 }); };
  return button;
}));
$("needs").tBodies[0].append(...DATA.needs.map(([heard, id]) => el("tr", {}, el("td", {}, heard), el("td", {}, collective(id).name))));
$("summary").append(...DATA.summary.map((s) => el("li", {}, s)));
$("version").textContent = DATA.version;

on("collective", "change", (c) => change({ c, alg: "" }));
on("ranks", "change", (n) => change({ n: Number(n) }));
on("ranks-slider", "input", (i) => change({ n: ranks()[i] }));
on("machine", "change", (on) => change({ on, alg: "" }));
on("ports", "change", (p) => change({ p }));
on("size-slider", "input", (v) => change({ m: Math.round(2 ** (v / 4)) }));
on("size", "change", (text, field) => {
  const m = readSize(text);
  $("size-error").textContent = m === null ? `“${text}” is not a size: write 16MiB, 16MB or 4096, up to 8 TiB` : "";
  if (m !== null) { field.blur(); change({ m }); }
});
on("played", "change", (sa) => { stop(); change({ sa, k: 0 }); });
on("played-ranks", "change", (n) => { stop(); change({ sn: Number(n), k: 0 }); });
on("step-slider", "input", (k) => { stop(); change({ k: Number(k) }); });
on("first", "click", () => { stop(); change({ k: 0 }); });
on("back", "click", () => step(-1));
on("next", "click", () => step(1));
on("play", "click", playSteps);
on("race-ranks", "input", (i) => { stop(); change({ rn: races()[i].ranks, rt: 0 }); });
on("race-links", "change", (rl) => { stop(); change({ rl, rt: 0 }); });
on("race-size", "input", (v) => change({ rm: state.rl === "alike" ? Math.round(2 ** (v / 4)) : sizes()[v] }));
on("slider-ra", "input", (v) => change({ ra: round3(10 ** (v / 100)) }));
on("slider-rb", "input", (v) => change({ rb: round3(10 ** (v / 100)) }));
on("race-time", "input", (v) => { stop(); change({ rt: Number(v) }); });
on("race-play", "click", playRace);
on("measured-on", "change", (mo) => change({ mo, ms: "" }));
on("measured-what", "change", (ms) => change({ ms }));
on("training-step", "change", (t) => change({ t }));
for (const [id, error] of [["plan-file", "plan-error"], ["compare-file", "compare-error"]]) {
  $(id).onchange = async (e) => {
    const file = e.target.files[0];
    if (!file) return;
    $(error).textContent = openReport(file.name, await file.text()) || "";
    // The same file can be opened again after a change.
    e.target.value = "";
  };
}
addEventListener("hashchange", () => { if (location.hash.includes("=")) { read(); draw(); } });
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawCosts(); drawMeasured(); drawStrip(state.rl === "alike"); } });
read();
draw();
