// Curves over sizes, both axes logarithmic, of times or of their ratios; names are below the picture, where there is room.
const DASHES = ["none", "8 3", "2 3", "8 3 2 3"];

class Plot {
  constructor(svg, [from, to], times, { height = 320, ratio = false } = {}) {
    const width = Math.max(260, svg.clientWidth || 600), left = 58, right = 14, top = 10, bottom = 28;
    const known = times.filter((t) => t > 0), [low, high] = [Math.min(...known) / 1.5, Math.max(...known) * 1.5];
    Object.assign(this, { svg, low, top, foot: height - bottom });
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.x = (v) => left + Math.log(v / from) / Math.log(to / from) * (width - left - right);
    this.y = (v) => this.foot - Math.log(Math.max(v, low) / low) / Math.log(high / low) * (this.foot - top);
    this.parts = [];
    // As many sizes as there is room for their names.
    const octaves = Math.log2(to / from), every = [1, 2, 5, 10, 20].find((e) => octaves / e <= width / 90) || 20;
    for (let e = Math.ceil(Math.log2(from) / every) * every; 2 ** e <= to; e += every) {
      const x = this.x(2 ** e);
      this.parts.push(mark("line", { class: "grid", x1: x, x2: x, y1: top, y2: this.foot }),
        mark("text", { x, y: this.foot + 18, "text-anchor": x > width - 40 ? "end" : "middle" }, bytes(2 ** e)));
    }
    const base = ratio ? 2 : 10, of = (v) => Math.log(v) / Math.log(base), every_tick = Math.ceil((of(high) - of(low)) / 10);
    for (let d = Math.ceil(of(low)); d <= of(high); d += every_tick) {
      const y = this.y(base ** d), value = Number((base ** d).toPrecision(6));
      this.parts.push(mark("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }), mark("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, ratio ? short(value) : seconds(value)));
    }
    this.parts.push(mark("path", { class: "axis", d: `M${left} ${top}V${this.foot}H${width - right}` }));
  }
  points(line) { return line.map(([m, t]) => `${this.x(m).toFixed(1)},${this.y(t).toFixed(1)}`).join(" "); }
  line(line, i, strong) {
    this.parts.push(mark("polyline", { fill: "none", style: `stroke:var(--c${i % 8})`, "stroke-width": strong ? 3.5 : 2, "stroke-dasharray": DASHES[i % 4], points: this.points(line) }));
  }
  band(low, high) { this.parts.push(mark("polygon", { class: "band", points: this.points([...low, ...high.slice().reverse()]) })); }
  dot(m, t, how, title) {
    const made = mark("circle", { class: how, cx: this.x(m), cy: this.y(t), r: 4 });
    if (title) made.append(mark("title", {}, title));
    this.parts.push(made);
  }
  // A point of a measured series: circles, squares, diamonds, triangles.
  point(m, t, i, title) {
    const [x, y] = [this.x(m), this.y(t)];
    const made = mark("path", { class: "measured", d: [`M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0`, `M${x - 4} ${y - 4}h8v8h-8z`, `M${x} ${y - 5}l5 5l-5 5l-5-5z`, `M${x} ${y - 5}l5 9h-10z`][i % 4], "data-size": m, "data-time": t });
    made.append(mark("title", {}, title));
    this.parts.push(made);
  }
  here(m) { this.parts.push(mark("line", { class: "here", x1: this.x(m), x2: this.x(m), y1: this.top, y2: this.foot })); }
  // An entry of the key.
  named(i, text) {
    const sample = mark("svg", { class: "sample", viewBox: "0 0 30 10", "aria-hidden": "true" });
    sample.append(mark("line", { x1: 1, x2: 29, y1: 5, y2: 5, "stroke-width": 3, style: `stroke:var(--c${i % 8})`, "stroke-dasharray": DASHES[i % 4] }));
    return el("li", {}, sample, text);
  }
  done(key, entries) { this.svg.replaceChildren(...this.parts); key.replaceChildren(...entries); }
}
