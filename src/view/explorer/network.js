// A picture of ranks with links, and messages that move along them, coloured by the origin of their data.

const chunksOf = ([, , , runs]) => runs.flatMap((start, i) => (i % 2 ? [] : Array.from({ length: runs[i + 1] }, (_, j) => start + j)));

// A schedule round by round: what each rank or switch holds (whose contributions, chunk by chunk), which cells
// were written, and whose data each message carries.
function contents(s, steps = s.rounds.length, carried = null) {
  const chunks = s.parts * (s.own ? s.holds.length : 1);
  const places = Array.from({ length: s.holds.length + s.switches }, () => Array(chunks).fill(null));
  s.holds.forEach((held, rank) => held.forEach((c) => { places[rank][c] = [rank]; }));
  let written = new Set();
  for (const messages of s.rounds.slice(0, steps)) {
    // All messages of a step read the state before it.
    const arriving = messages.flatMap((m) => chunksOf(m).map((c) => [m[1], c, m[2], places[m[0]][c] || []]));
    carried?.push(messages.map((m) => unique(chunksOf(m).flatMap((c) => places[m[0]][c] || [])).sort((a, b) => a - b)));
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
function carriedBy(s) {
  if (!s.carried) { s.carried = []; contents(s, s.rounds.length, s.carried); }
  return s.carried;
}

// The positions of ranks: around a circle with switches inside, nodes apart from each other.
function circle(s, size, radius) {
  const n = s.holds.length, group = s.group || 0, gap = group ? 0.9 : 0;
  const turns = n + (group ? gap * n / group : 0);
  const on = (at, of, r) => { const t = 2 * Math.PI * at / of - Math.PI / 2; return [size / 2 + r * Math.cos(t), size / 2 + r * Math.sin(t)]; };
  const ranks = Array.from({ length: n }, (_, i) => on(i + (group ? gap * Math.floor(i / group) : 0), turns, radius));
  const inner = s.switches > 1 ? radius * 0.42 : 0;
  return [...ranks, ...Array.from({ length: s.switches }, (_, i) => on(i, s.switches, inner))];
}
// A tree from its root down, built from the messages that only store.
function levels(s, size, margin) {
  const below = new Map(), seen = new Set([0]);
  for (const [from, to, op] of s.rounds.flat()) if (op === 0 && !seen.has(to)) { seen.add(to); below.set(from, [...(below.get(from) || []), to]); }
  const at = [];
  let leaves = 0, deepest = 0;
  const place = (rank, depth) => {
    deepest = Math.max(deepest, depth);
    const own = (below.get(rank) || []).map((child) => place(child, depth + 1));
    const x = own.length ? own.reduce((a, b) => a + b) / own.length : leaves++;
    at[rank] = [x, depth];
    return x;
  };
  place(0, 0);
  return at.map(([x, depth]) => [margin + (size - 2 * margin) * (leaves > 1 ? x / (leaves - 1) : 0.5), margin + (size - 2 * margin) * depth / Math.max(1, deepest)]);
}
// Ranks in a row: one tree's links above it, the other's below.
function row(s, size, margin) {
  const n = s.holds.length;
  return s.holds.map((_, i) => [margin + (size - 2 * margin) * i / (n - 1), size / 2]);
}
function sides(s) {
  const edges = new Map();
  for (const m of s.rounds.flat()) for (const c of chunksOf(m)) edges.set(c, (edges.get(c) || new Set()).add(Math.min(m[0], m[1]) + "-" + Math.max(m[0], m[1])));
  const first = edges.get(0);
  return (m) => { const own = edges.get(chunksOf(m)[0]); return own === first || [...own].every((e) => first.has(e)) ? -1 : 1; };
}

// A network that is drawn once; after that only its messages move.
class Network {
  constructor(svg, s, { size = 200, dot = 9, layout = "circle", label = true } = {}) {
    Object.assign(this, { svg, s, dot, chips: new Map(), shown: "" });
    const margin = dot + 4;
    this.at = { circle: () => circle(s, size, size / 2 - margin), tree: () => levels(s, size, margin), row: () => row(s, size, margin) }[layout]();
    this.side = layout === "row" ? sides(s) : null;
    svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
    const links = mark("g"), seen = new Set();
    for (const m of s.rounds.flat()) {
      const key = Math.min(m[0], m[1]) + "-" + Math.max(m[0], m[1]) + (this.side ? this.side(m) : "");
      if (seen.has(key)) continue;
      seen.add(key);
      const points = Array.from({ length: this.side ? 13 : 2 }, (_, i, of = this.side ? 12 : 1) => this.way(m, i / of, false));
      links.append(mark("polyline", { class: "link", points: points.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" ") }));
    }
    this.arrows = mark("g");
    this.dots = mark("g");
    this.dots.append(...this.at.flatMap(([x, y], i) => {
      const rank = i < s.holds.length;
      const shape = rank ? mark("circle", { cx: x, cy: y, r: dot, class: "rank", style: `stroke:${hue(i, s.holds.length)}` })
        : mark("rect", { x: x - dot * 1.2, y: y - dot, width: 2.4 * dot, height: 2 * dot, rx: 3, class: "switch" });
      const text = label && dot >= 8 ? [mark("text", { class: "name", x, y: y + 4, "text-anchor": "middle" }, rank ? i : "sw")] : [];
      return [shape, ...text];
    }));
    this.layer = mark("g");
    svg.replaceChildren(links, this.arrows, this.dots, this.layer);
  }
  // The position of a message at a fraction of its path.
  way(m, part, beside = true) {
    const [[x0, y0], [x1, y1]] = [this.at[m[0]], this.at[m[1]]], length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
    if (this.side) {
      const high = Math.min(this.at[0][1] - this.dot - 6, Math.max(this.dot + 6, length * 0.8));
      return [x0 + (x1 - x0) * part, y0 + this.side(m) * high * 4 * part * (1 - part)];
    }
    // The two directions between a pair are side by side.
    const off = beside ? Math.min(4, this.dot / 2) : 0, cut = Math.min(this.dot + (beside ? 3 : 0), length / 2.5), on = cut + (length - 2 * cut) * part;
    return [x0 + dx * on - dy * off, y0 + dy * on + dx * off];
  }
  chip(key, m, from) {
    let made = this.chips.get(key);
    if (made) return made;
    const colours = hues(from, this.s.holds.length), wide = Math.max(7, Math.min(22, this.dot * 2)), high = wide * 0.6;
    made = mark("g", { class: "chip", "data-from": m[0], "data-to": m[1], "data-origins": from.join(",") });
    // A barrier's message carries no data.
    const parts = colours.length ? colours : ["var(--soft)"];
    parts.forEach((c, i) => made.append(mark("rect", { x: -wide / 2 + wide * i / parts.length, y: -high / 2, width: wide / parts.length, height: high, style: `fill:${c}` })));
    made.append(mark("rect", { class: "edge", x: -wide / 2, y: -high / 2, width: wide, height: high, rx: 1 }));
    this.chips.set(key, made);
    return made;
  }
  // Messages in flight: [key, message, origins of the data, fraction of the path].
  fly(flying) {
    const keys = flying.map((f) => f[0]).join();
    const chips = flying.map(([key, m, from]) => this.chip(key, m, from));
    flying.forEach(([, m, , part], i) => {
      const [x, y] = this.way(m, part);
      chips[i].setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)})`);
      chips[i].dataset.part = part.toFixed(3);
    });
    if (keys !== this.shown) { this.layer.replaceChildren(...chips); this.shown = keys; }
  }
}
