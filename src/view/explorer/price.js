// Prices by the engine's closed forms: the same as Rust's `Prepared`, over the forms printed here.
const Price = (() => {
  "use strict";
  // Integer functions that the forms use.
  const ceilLg = (n) => (n <= 1 ? 0 : 32 - Math.clz32(n - 1));
  const floorLg = (n) => 31 - Math.clz32(Math.max(1, n));

  // The load of a form at one P: latency, and seconds per byte.
  function load(form, at, P) {
    let latency = 0, transfer = 0, compute = 0;
    for (const [level, a, b, g] of FORMS[form](at.n, P, at.group || 1, at.tables)) {
      const link = at.links[level === 1 ? 0 : at.links.length - 1];
      latency += a * link.alpha;
      transfer += b / link.bw;
      compute += g * (at.gamma || 0);
    }
    return [latency, transfer, compute];
  }

  // The cheapest of P = 1 and the integer neighbours of P*.
  function best(first, fixed, varying, M) {
    const time = (l) => l[0] + (l[1] + l[2]) * M;
    const split = (varying[1] + varying[2]) * M;
    let winner = { segments: 1, load: first };
    if (split <= 0) return winner;
    const star = Math.min(Math.sqrt(split / varying[0]), Math.min(Math.max(M, 1), 1e9));
    for (const p of [Math.floor(star), Math.ceil(star)]) {
      if (p < 2) continue;
      const l = [fixed[0] + varying[0] * p, fixed[1] + varying[1] / p, fixed[2] + varying[2] / p];
      if (time(l) < time(winner.load)) winner = { segments: p, load: l };
    }
    return winner;
  }

  // The best P if stages overlap: the first segment, followed by the slowest kind of port.
  function staged(n, M) {
    const [first, fill, ...ports] = [0, 3, 6, 9, 12].map((i) => n.slice(i, i + 3));
    const bytes = (l) => (l[1] + l[2]) * M, time = (l) => l[0] + bytes(l);
    const most = Math.min(Math.max(M, 1), 1e9);
    let winner = { segments: 1, load: first };
    const attempt = (star) => {
      for (const p of [Math.floor(star), Math.ceil(star)]) {
        if (!(p >= 2 && p <= most)) continue;
        const slowest = ports.reduce((a, b) => (b[0] + bytes(b) / p > a[0] + bytes(a) / p ? b : a));
        const l = [0, 1, 2].map((i) => (fill[i] + (p - 1) * slowest[i]) / (i ? p : 1));
        if (time(l) < time(winner.load)) winner = { segments: p, load: l };
      }
    };
    attempt(2);
    attempt(most);
    ports.forEach((one, i) => {
      attempt(Math.sqrt((bytes(fill) - bytes(one)) / one[0]));
      for (const other of ports.slice(i + 1)) attempt((bytes(other) - bytes(one)) / (one[0] - other[0]));
    });
    return winner;
  }

  function priced(launch, { segments, load }, M) {
    const [latency, transfer, compute] = load;
    const parts = { launch, latency, bandwidth: transfer * M, compute: compute * M };
    return { segments, ...parts, time: launch + latency + parts.bandwidth + parts.compute };
  }

  // The forms of an algorithm for the rank at index i: one for P = 1, one for larger P.
  function formsAt(runs, i) {
    let found = [-1, -1];
    for (const [from, one, more] of runs) if (from <= i) found = [one, more];
    return found;
  }

  // Latency, bandwidth and time of M bytes with own parameters; nothing if it does not apply.
  // `links` are those inside a node and between nodes, or the only ones.
  function own(entry, ports, i, at, M) {
    const [one, more] = formsAt(entry.by_ports[ports], i);
    if (one < 0) return null;
    const first = load(one, at, 1);
    const form = { one, more };
    if (!entry.pipelined) return { ...priced(0, { segments: 1, load: first }, M), form: one };
    const [two, three] = [load(more, at, 2), load(more, at, 3)];
    const varying = [three[0] - two[0], 6 * (two[1] - three[1]), 6 * (two[2] - three[2])];
    const fixed = [two[0] - 2 * varying[0], two[1] - varying[1] / 2, two[2] - varying[2] / 2];
    const found = priced(0, best(first, fixed, varying, M), M);
    return { ...found, form: found.segments > 1 ? form.more : form.one };
  }

  // The same on a built-in machine, from the engine's numbers.
  function known([, , launch, segments, n], M) {
    if (segments > 0) return priced(launch, { segments, load: n }, M);
    if (n.length > 9) return priced(launch, staged(n, M), M);
    return priced(launch, best(n.slice(0, 3), n.slice(3, 6), n.slice(6, 9), M), M);
  }

  return { ceilLg, floorLg, own, known, formsAt };
})();
// Functions that forms call.
const { ceilLg, floorLg } = Price;
const powerBelow = (n) => 2 ** floorLg(n);
const floor = (x) => Math.floor(x + 1e-9);
const ceil = (x) => Math.ceil(x - 1e-9);
