// Opens a report in Chromium and prints what it saw as JSON. Usage: node report_page.cjs CHROMIUM NODE_MODULES PAGE [SHOTS]
const [, , chromium, modules, page_path, shots] = process.argv;
const { chromium: browser_type } = require(modules + "/playwright-core");
const fs = require("fs");
const axe = fs.readFileSync(modules + "/axe-core/axe.min.js", "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

async function look(browser, name, options) {
  const context = await browser.newContext({ bypassCSP: true, offline: true, ...options });
  const page = await context.newPage();
  const complaints = [], requests = [];
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) complaints.push(m.text()); });
  page.on("pageerror", (e) => complaints.push(String(e)));
  page.on("request", (r) => { if (!r.url().startsWith("file:")) requests.push(r.url()); });
  await page.goto("file://" + page_path);
  const seen = await page.evaluate(() => {
    const shown = (e) => e.getClientRects().length > 0 && e.getBoundingClientRect().height > 0;
    const charts = [...document.querySelectorAll("[data-chart]")].map((f) => {
      const drawn = [...f.querySelectorAll("svg")].filter(shown);
      const box = drawn[0] ? drawn[0].getBoundingClientRect() : { width: 0, height: 0 };
      const marks = drawn[0] ? drawn[0].querySelectorAll("path[d]:not([d='']), line, text").length : 0;
      return { key: f.dataset.chart, drawn: drawn.length, width: box.width, height: box.height, marks,
               label: f.querySelector("[role=img]").getAttribute("aria-label"),
               table: !!f.parentElement.querySelector("details table tbody tr") };
    });
    const color = (e, k) => getComputedStyle(e)[k];
    const tick = document.querySelector("[data-chart] svg text");
    return { charts, scroll_width: document.documentElement.scrollWidth, width: document.documentElement.clientWidth,
             page: color(document.body, "backgroundColor"), ink: color(document.body, "color"), chart_ink: tick ? color(tick, "fill") : null,
             ids_twice: [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i) };
  });
  if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
  return { page, context, seen: { ...seen, complaints, requests } };
}

async function findings(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((v) => ({ id: v.id, impact: v.impact, nodes: v.nodes.length, first: v.nodes[0].html.slice(0, 200), why: v.nodes[0].failureSummary }));
}

async function keyboard(page) {
  // every summary, link and scrolling table must be reachable with Tab, and Enter must open a table
  const wanted = await page.evaluate(() => document.querySelectorAll("summary, a[href]").length);
  const reached = new Set();
  let opened = false;
  for (let i = 0; i < wanted * 3 + 10; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => { const e = document.activeElement; return { tag: e.tagName, text: e.textContent.trim().slice(0, 60), ring: getComputedStyle(e).outlineStyle }; });
    if (at.tag === "BODY") break;
    reached.add(at.tag + at.text + (at.ring === "none" ? " (no ring)" : ""));
    if (at.tag === "SUMMARY" && !opened) {
      await page.keyboard.press("Enter");
      opened = await page.evaluate(() => document.activeElement.parentElement.open);
    }
  }
  const names = [...reached];
  return { opened, links: names.filter((n) => n.startsWith("A")).length, summaries: await page.evaluate(() => document.querySelectorAll("summary").length),
           summaries_reached: names.filter((n) => n.startsWith("SUMMARY")).length, without_ring: names.filter((n) => n.endsWith("(no ring)")) };
}

(async () => {
  const browser = await browser_type.launch({ executablePath: chromium, args: FLAGS });
  const out = {};
  try {
    let one = await look(browser, "light", { viewport: { width: 1200, height: 900 }, colorScheme: "light" });
    out.light = one.seen;
    out.keyboard = await keyboard(one.page);
    out.light_axe = await findings(one.page);
    await one.context.close();
    one = await look(browser, "dark", { viewport: { width: 1200, height: 900 }, colorScheme: "dark" });
    out.dark = one.seen;
    out.dark_axe = await findings(one.page);
    await one.context.close();
    one = await look(browser, "narrow", { viewport: { width: 400, height: 800 }, colorScheme: "light" });
    out.narrow = one.seen;
    out.narrow_axe = await findings(one.page);
    out.narrow_open = await one.page.evaluate(() => document.documentElement.scrollWidth);
    await one.context.close();
    one = await look(browser, "print", { viewport: { width: 1200, height: 900 }, colorScheme: "dark" });
    const pdf = await one.page.pdf(shots ? { format: "A4", path: `${shots}/print.pdf` } : { format: "A4" });
    out.pdf_bytes = pdf.length;
    await one.page.emulateMedia({ media: "print" });
    out.print = await one.page.evaluate(() => ({ page: getComputedStyle(document.body).backgroundColor,
      chart_ink: getComputedStyle(document.querySelector("[data-chart] svg text")).fill }));
    await one.context.close();
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(out));
})().catch((e) => { console.error(e); process.exit(1); });
