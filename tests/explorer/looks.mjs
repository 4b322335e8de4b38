// How it looks: nothing sticks out or is clipped, measured from the DOM; axe; the keyboard.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Everything that does not fit, in words: on the whole page, or in the section of one control.
function misfits(control) {
  const bad = [], say = (e, what) => bad.push(`${what}: ${e.tagName} ${e.id || e.getAttribute("class") || ""} ${(e.textContent || "").trim().slice(0, 40)}`);
  const page = document.documentElement;
  if (page.scrollWidth > innerWidth) bad.push(`the page is ${page.scrollWidth} px wide`);
  const canvas = document.createElement("canvas").getContext("2d");
  const among = control ? document.querySelector(control).closest("section") : document.body;
  for (const e of among.querySelectorAll("*")) {
    if (e.closest(".sr, script, [hidden], option") || !e.getClientRects().length) continue;
    const box = e.getBoundingClientRect();
    if (box.left < -0.5 || box.right > innerWidth + 0.5) say(e, "beside the page");
    const picture = e.ownerSVGElement;
    if (picture) {
      // A picture clips what leaves it.
      const frame = picture.getBoundingClientRect();
      if (e.tagName !== "title" && (box.left < frame.left - 1.5 || box.right > frame.right + 1.5 || box.top < frame.top - 1.5 || box.bottom > frame.bottom + 1.5)) say(e, "outside its picture");
      continue;
    }
    const style = getComputedStyle(e);
    if (style.display !== "inline" && !["SELECT", "INPUT"].includes(e.tagName) && (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)) say(e, "wider inside than outside");
    if (["hidden", "clip", "auto", "scroll"].includes(style.overflowX) && e.tagName !== "INPUT" && e.tagName !== "SELECT" && e.tagName !== "svg") say(e, "may clip");
    if (e.tagName === "SELECT" && e.selectedOptions[0]) {
      canvas.font = style.font;
      // The arrow takes some of it.
      if (canvas.measureText(e.selectedOptions[0].text).width + 30 > e.clientWidth) say(e, `cut: ${e.selectedOptions[0].text}`);
    }
    // Every line of text lies in the box that it is in.
    const block = style.display === "inline" ? e.parentElement.getBoundingClientRect() : box;
    for (const node of e.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || !node.data.trim() || e.tagName === "SELECT") continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const r of range.getClientRects()) if (r.width > 0 && (r.left < block.left - 1 || r.right > block.right + 1)) say(e, "text outside its box");
    }
  }
  const small = [...among.querySelectorAll("main select, main button, main input, nav a")].filter((e) => e.offsetParent && e.getBoundingClientRect().height < 24);
  small.forEach((e) => say(e, "too small to touch"));
  return [...new Set(bad)];
}

// Of states at both widths some each, all where COLLCOST_FULL is set.
const some = (all, width, part) => (process.env.COLLCOST_FULL ? all : all.filter((_, i) => i % part === (width === 360 ? 0 : Math.floor(part / 2))));

// What the page is asked to show, by its address.
const STATES = ["", "#sc=alltoall&sa=bruck&sn=8&k=2", "#sc=allreduce&sa=ring&sn=8&k=9", "#sc=allreduce&sa=nvlstree&sn=8&k=6", "#sc=barrier&sn=8&k=1", "#rn=32&rm=1048576&rt=400", "#rn=16&rl=nodes&rm=67108864&rt=300",
  "#c=allreduce&n=2048&m=1024", "#on=dgx-h100&c=allreduce&n=64", "#on=nodes&n=512&m=14000000000", "#on=mi300x&c=alltoall", "#mo=dgx-b200&ms=allreduce,8", "#mo=p5.48xlarge&ms=allgather,128"];

export async function looks({ page, address }) {
  // What does not fit is found: text wider than its cell, and a picture whose marks leave it.
  await page.setViewportSize({ width: 360, height: 800 });
  for (const [content, found] of [[".few { min-width: 90px }", /text outside its box|wider inside/], ["svg text { font-size: 60px }", /outside its picture/], [".bar { width: 500px !important }", /beside the page|wider inside/]]) {
    await page.goto("about:blank");
    await page.goto(address + "#sn=8");
    await page.addStyleTag({ content });
    assert.match((await page.evaluate(misfits)).join("; "), found, content);
  }
  let states = 0;
  for (const width of [360, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    for (const hash of some(STATES, width, 2)) {
      await page.goto("about:blank");
      await page.goto(address + hash);
      assert.deepEqual(await page.evaluate(misfits), [], `${width} px, ${hash}`);
      states++;
    }
    // Every operation, every schedule of eight ranks half way, every step of a model.
    for (const button of await page.$$("#gallery button")) {
      await button.click();
      await page.selectOption("#played-ranks", await page.$$eval("#played-ranks option", (all) => all.at(-1).value));
      await page.click("#next");
      assert.deepEqual(await page.evaluate(misfits), [], `${width} px, ${await button.textContent()}`);
      states++;
    }
    await page.click("#gallery button[data-c=allreduce]");
    for (const [select, also] of [["#played", "#played-ranks"], ["#training-step"]]) {
      for (const value of some(await page.$$eval(select + " option", (all) => all.map((o) => o.value)), width, 4)) {
        await page.selectOption(select, value);
        if (also) await page.selectOption(also, await page.$$eval(also + " option", (all) => all.at(-1).value));
        if (also) await page.$eval("#step-slider", (e) => { e.value = Math.ceil(e.max / 2); e.dispatchEvent(new Event("input")); });
        assert.deepEqual(await page.evaluate(misfits, select), [], `${width} px, ${select} ${value}`);
        states++;
      }
    }
    // Each state in both schemes, and at both widths.
    const shown = ["#n=64&k=3&rt=300", "#sc=alltoall&sn=8&k=1&on=dgx-h100&rl=nodes&t=llama3-405b"];
    for (const colorScheme of some(["light", "dark"], width, 2)) {
      const i = ["light", "dark"].indexOf(colorScheme);
      await page.emulateMedia({ colorScheme });
      await page.goto("about:blank");
      await page.goto(address + shown[width === 360 ? i : 1 - i]);
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run());
      assert.deepEqual(found.violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html)]), []);
      console.log(`axe, ${colorScheme}, ${width} px: ${found.passes.length} rules pass, none fails, ${found.incomplete.length} cannot tell`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  console.log(`layout: ${states} states at 360 and 1280 px, nothing outside or clipped`);
}

// Keyboard only: every control is reached by Tab and works.
export async function keyboard({ page, address, state }) {
  await page.setViewportSize({ width: 1000, height: 900 });
  await page.goto("about:blank");
  await page.goto(address + "#n=64");
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const reached = new Set();
  for (let i = 0; i < 150; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => { const e = document.activeElement; return e === document.body ? null : e.id || e.dataset.c || e.closest("tr")?.dataset.id || e.className; });
    if (at === null && reached.size) break;
    reached.add(at);
  }
  for (const id of ["collective", "ranks", "ranks-slider", "size", "size-slider", "machine", "ports", "slider-a", "slider-bw", "ring", "allgather", "played", "played-ranks", "step-slider", "first", "back", "next", "play",
    "race-ranks", "race-size", "race-links", "slider-ra", "slider-rb", "race-time", "race-play", "measured-on", "measured-what", "compare-file", "training-step", "plan-file"]) {
    assert.ok(reached.has(id), `Tab does not reach ${id}: ${[...reached]}`);
  }
  const key = async (id, ...keys) => { await page.focus("#" + id); for (const k of keys) await page.keyboard.press(k); };
  await key("slider-a", "ArrowRight");
  assert.ok((await state()).a);
  await key("size-slider", "Home");
  assert.equal((await state()).m, "1");
  await key("ranks-slider", "ArrowLeft");
  assert.notEqual((await state()).n, "64");
  await page.focus("#costs tr[data-id=tree] button");
  await page.keyboard.press("Enter");
  assert.equal((await state()).alg, "tree");
  await key("next", "Enter", "Space");
  assert.equal((await state()).k, "2");
  await key("race-time", "ArrowRight");
  assert.equal((await state()).rt, "1");
  await key("slider-ra", "ArrowRight");
  assert.ok((await state()).ra);
}
