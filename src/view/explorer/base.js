// Code that every part of the page uses: the state, numbers with their units, elements.
const $ = (id) => document.getElementById(id);
const OWN = "own", NODES = "nodes";
const state = {
  c: "allreduce", n: 64, m: 16 * 2 ** 20, on: OWN, p: "1", alg: "",
  a: 1e-6, bw: 100e9, a1: 1e-6, bw1: 450e9, a2: 5e-6, bw2: 50e9,
  sc: "allreduce", sa: "ring", sn: 4, k: 0,
  rn: 8, rm: 65536, rl: "alike", ra: 1e-6, rb: 100e9, rt: 0,
  mo: "dgx-h100", ms: "allreduce,8", t: "",
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
  const scale = found && !found[2].endsWith("b") ? UNITS[found[2].toUpperCase()] : undefined;
  if (scale === undefined) return null;
  // 1.1 MB are whole bytes, which the product misses by a rounding.
  const typed = found[1] * scale, size = Math.round(typed);
  return size <= 2 ** 43 && Math.abs(typed - size) <= 1e-9 * size ? size : null;
}
// Three digits, the precision of a slider.
const round3 = (v) => Number(v.toPrecision(3));
const nearest = (list, value) => list.reduce((best, x) => (Math.abs(x - value) < Math.abs(best - value) ? x : best), list[0]);
const unique = (list) => [...new Set(list)];

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
const logSlider = (id, value, text) => {
  $(id).value = Math.round(Math.log10(value) * 100);
  $(id).setAttribute("aria-valuetext", text);
};
const algorithm = (s) => DATA.algorithms[s.algorithm];
const collective = (id) => DATA.collectives.find((c) => c.id === id);

// The colour of a rank's data; with more than eight ranks, neighbours share one.
const hue = (rank, ranks) => `var(--c${ranks > 8 ? Math.floor(rank * 8 / ranks) : rank})`;
const hues = (from, ranks) => unique(from.map((r) => hue(r, ranks)));
const stripes = (colours) => colours.length === 1 ? colours[0]
  : `linear-gradient(90deg, ${colours.map((c, i) => `${c} ${100 * i / colours.length}% ${100 * (i + 1) / colours.length}%`).join(", ")})`;

// Animations: one at a time, and none if the reader prefers reduced motion.
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
let running = null;
function stop() {
  if (!running) return;
  cancelAnimationFrame(running.frame);
  running.button?.setAttribute("aria-pressed", "false");
  running = null;
}
// Calls `tick` with the milliseconds since the last frame until it returns false.
function animate(button, tick) {
  stop();
  button?.setAttribute("aria-pressed", "true");
  const mine = running = { button };
  let last = performance.now();
  const frame = (now) => {
    if (running !== mine) return;
    const on = tick(Math.min(100, now - last));
    last = now;
    if (!on && running === mine) stop();
    else if (running === mine) mine.frame = requestAnimationFrame(frame);
  };
  mine.frame = requestAnimationFrame(frame);
}
