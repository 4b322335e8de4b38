import { chromium } from "playwright-core";
import { mkdtempSync } from "node:fs";
const [,, scheme, width, hash, out, sel, js] = process.argv;
const ctx = await chromium.launchPersistentContext(mkdtempSync("/tmp/chr-"), { executablePath: "/usr/bin/chromium", headless: true, viewport: { width: Number(width), height: 900 }, colorScheme: scheme, args: ["--no-sandbox","--disable-gpu"] });
const page = await ctx.newPage();
page.on("console", m => console.log(m.type(), m.text())); page.on("pageerror", e => console.log("ERR", e.stack));
await page.goto("file:///tmp/t/p.html" + (hash || ""));
await page.waitForTimeout(300);
if (js) { console.log(await page.evaluate(js)); await page.waitForTimeout(700); }
const e = sel ? await page.$(sel) : null;
await (e || page).screenshot({ path: out, ...(e ? {} : { fullPage: true }) });
await ctx.close();
