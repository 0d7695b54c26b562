// Walks every page in a browser:
//
//     node pages.mjs DECKLOG SAMPLES [MESSAGES]
//
// What it checks is in the names of the tests. MESSAGES is the number of generated messages.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { HOSTILE, generated, hostile } from "./log.mjs";

const [decklog, samples, messages = "100000"] = process.argv.slice(2);
const LONG = 10_000;
const SHORT = 100;
const LIMIT = { timeout: 300_000 };
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const dir = mkdtempSync(join(tmpdir(), "decklog-page-"));
const servers = [];
let browser;
let logs;

function run(store, args, input) {
  return execFileSync(decklog, ["--store", store, ...args], { input, encoding: "utf8", maxBuffer: 1 << 28 });
}

function record(store, records) {
  run(store, ["record"], records.map((it) => JSON.stringify(it)).join("\n"));
}

function list(store, what, ...args) {
  return run(store, ["--json", what, ...args]).trim().split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

async function serve(store) {
  const server = spawn(decklog, ["--store", store, "serve", "--port", "0"], { stdio: ["ignore", "ignore", "pipe"] });
  servers.push(server);
  let said = "";
  for await (const part of server.stderr) {
    said += part;
    const address = said.match(/http:\/\/[\d.]+:\d+/);
    if (address) return address[0];
  }
  throw new Error(`the server ended: ${said}`);
}

before(async () => {
  const names = ["samples", "hostile", "large"];
  logs = Object.fromEntries(names.map((name) => [name, { store: join(dir, name) }]));
  run(logs.samples.store, ["import", samples]);
  record(logs.hostile.store, hostile());
  record(logs.large.store, generated(Math.max(1, Math.round((Number(messages) - LONG) / SHORT)), SHORT));
  record(logs.large.store, generated(1, LONG));
  for (const log of Object.values(logs)) log.url = await serve(log.store);
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
  });
});

after(async () => {
  await browser?.close();
  await Promise.all(servers.map((server) => new Promise((ended) => { server.once("exit", ended); server.kill(); })));
  rmSync(dir, { recursive: true, force: true });
});

/** A tab that notes everything that must not happen in it. */
async function tab(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (said) => { if (["error", "warning"].includes(said.type())) faults.push(`console: ${said.text()}`); });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { faults.push("a dialog"); dialog.dismiss(); });
  page.on("request", (request) => {
    const address = request.url();
    if (!address.startsWith(url) && !address.startsWith("data:")) faults.push(`external request: ${address}`);
  });
  // What a page still loads ends when another page is opened.
  page.on("requestfailed", (request) => {
    const why = request.failure()?.errorText;
    if (why !== "net::ERR_ABORTED") faults.push(`failed: ${request.url()}: ${why}`);
  });
  page.on("response", (response) => { if (response.status() >= 400) faults.push(`${response.status()}: ${response.url()}`); });
  await page.exposeFunction("hacked", (nth) => faults.push(`text ${nth} ran`));
  const open = (path) => page.goto(url + path, { waitUntil: "load" });
  const done = async () => {
    await context.close();
    assert.deepEqual(faults, []);
  };
  return { page, open, done, faults };
}

/** The addresses of all pages of a log. */
function pages(log) {
  const conversations = list(log.store, "conversations", "--limit", "40");
  const [first, second] = conversations;
  const of = conversations.flatMap(({ id }) => {
    const path = `/ui/conversations/${id}`;
    return [path, `${path}/run`, `${path}/run?colour=cost`, `${path}/requests`, `/ui/lines/conversations/${id}`];
  });
  const compared = second ? [`/ui/compare?a=${first.id}`, `/ui/compare?a=${first.id}&b=${second.id}`] : [];
  const events = list(log.store, "events", "--roots", "--limit", "3").map(({ id }) => `/ui/runs/${id}`);
  const tasks = list(log.store, "thoughts", "--limit", "40").map((it) => `/ui/thoughts?task=${encodeURIComponent(it.task_id)}`);
  const fixed = ["/", "/?range=all", "/ui/conversations", "/ui/runs", "/ui/calls", "/ui/edits", "/ui/thoughts", "/ui/inbox", "/ui/integrity", "/ui/search"];
  return [...fixed, ...of, ...compared, ...events, ...tasks];
}

test("every page of the samples opens, fits a phone, and passes axe", LIMIT, async () => {
  const { url } = logs.samples;
  const { page, open, done } = await tab(url);
  for (const path of [...pages(logs.samples), "/ui/search?text=python"]) {
    await open(path);
    assert.ok((await page.title()).endsWith("decklog"), path);
    assert.equal(await page.locator("h1").count(), 1, path);
    for (const [size, scheme] of [[1280, "light"], [390, "dark"]]) {
      await page.setViewportSize({ width: size, height: 844 });
      await page.emulateMedia({ colorScheme: scheme });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(over <= 0, `${path} is ${over} px too wide for ${size} px`);
      // The page's own policy keeps axe out: it is run in a world of its own.
      const session = await page.context().newCDPSession(page);
      const { frameTree } = await session.send("Page.getFrameTree");
      const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
      const evaluate = async (expression) => {
        const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression, contextId, awaitPromise: true, returnByValue: true });
        assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
        return result.value;
      };
      await evaluate(axe);
      const violations = await evaluate(`axe.run(document, { resultTypes: ["violations"] }).then((found) =>
        found.violations.filter((it) => ["serious", "critical"].includes(it.impact)).map((it) => it.id + ": " + it.nodes[0].html.slice(0, 200)))`);
      assert.deepEqual(violations, [], `${path} at ${size} px`);
      await session.detach();
    }
  }
  await done();
});

test("the content of the samples is shown as what it is", LIMIT, async () => {
  const { url, store } = logs.samples;
  const { page, open, done } = await tab(url);
  await open("/ui/conversations");
  const title = "add myapp directory and create myapp/hoge.py which shows result of print(1+1).";
  assert.equal(await page.getByRole("link", { name: title }).count(), 2);
  const claude = list(store, "conversations").find((it) => it.models_used[0]?.startsWith("claude") && !it.parent_id);
  await open(`/ui/conversations/${claude.id}`);
  for (const [what, count] of [["User", 4], ["Thinking", 6], ["Tool call", 4], ["Result", 4]]) {
    assert.equal(await page.locator(".message > header strong", { hasText: new RegExp(`^${what}$`) }).count(), count, what);
  }
  assert.equal(await page.locator("[data-failed]").count(), 1);
  assert.equal(await page.locator(".diff ins").first().textContent(), "+print(1+1)\n");
  assert.ok(await page.locator(".markdown code", { hasText: "hoge.py" }).count());
  await page.getByRole("link", { name: "JSONL" }).nth(1).click();
  await page.waitForURL(/\/ui\/lines\/messages\//);
  assert.ok((await page.locator("main").textContent()).includes("messages.0001.jsonl"));
  await page.goBack();
  assert.equal(new URL(page.url()).pathname, `/ui/conversations/${claude.id}`);
  await done();
});

test("filters are kept in the address, and the back button undoes them", LIMIT, async () => {
  const { url } = logs.large;
  const { page, open, done } = await tab(url);
  await open("/ui/conversations");
  await page.getByLabel("Project").fill("project-3");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/project=project-3/);
  await page.getByRole("link", { name: "completed" }).click();
  await page.waitForURL(/project=project-3.*status=completed/);
  const rows = await page.locator("tbody tr").count();
  assert.ok(rows > 0 && rows <= 50);
  assert.equal(await page.locator("tbody small", { hasText: "project-3" }).count(), rows);
  const next = page.getByRole("link", { name: "Next page" });
  if (await next.count()) {
    await next.click();
    await page.waitForURL(/offset=50/);
    assert.ok((await page.locator(".pager").textContent()).includes("51–"));
    await page.goBack();
  }
  await page.goBack();
  await page.waitForURL((address) => !address.search.includes("status"));
  await page.goBack();
  await page.waitForURL(/\/ui\/conversations$/);
  await open("/ui/conversations?text=" + encodeURIComponent("Question 96 of 5:"));
  assert.equal(await page.locator("tbody tr").count(), 1);
  await open("/ui/calls?status=failed");
  assert.equal(await page.getByRole("link", { name: "failed", exact: true }).getAttribute("aria-current"), "true");
  await done();
});

test("the keys move, jump between failures, search and help", LIMIT, async () => {
  const { url, store } = logs.samples;
  const { page, open, done } = await tab(url);
  const claude = list(store, "conversations").find((it) => it.models_used[0]?.startsWith("claude") && !it.parent_id);
  await open(`/ui/conversations/${claude.id}`);
  const current = () => page.locator(".current").getAttribute("data-sequence");
  await page.keyboard.press("j");
  assert.equal(await current(), "1");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  assert.equal(await current(), "2");
  await page.keyboard.press("]");
  assert.equal(await page.locator(".current").getAttribute("data-failed"), "");
  await page.keyboard.press("[");
  await page.keyboard.press("?");
  assert.ok(await page.getByRole("dialog").isVisible());
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("shim binary");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/ui\/search\?text=shim/);
  assert.ok((await page.locator("mark").count()) > 0);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL((address) => !address.pathname.includes("search"));
  await done();
});

test("new records appear without a reload, within 300 ms", LIMIT, async () => {
  const { url, store } = logs.samples;
  const { page, open, done } = await tab(url);
  const [{ id }] = list(store, "conversations");
  const post = (path, body) => fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const took = [];
  await open(`/ui/conversations/${id}`);
  await page.locator("[data-status]", { hasText: "Live" }).waitFor();
  await page.evaluate(() => { window.isSame = true; });
  for (let nth = 0; nth < 5; nth++) {
    const text = `a live message ${randomUUID()}`;
    const shown = page.evaluate((text) => new Promise((resolve) => {
      const look = () => document.body.textContent.includes(text) && resolve(Date.now());
      setTimeout(() => resolve(Infinity), 5000);
      new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
    }), text);
    const began = Date.now();
    assert.equal((await post(`/conversations/${id}/messages`, { role: "user", content: text })).status, 201);
    took.push((await shown) - began);
    // The page waits a moment between two updates.
    await page.waitForTimeout(900);
  }
  took.sort((a, b) => a - b);
  console.log(`live update: ${took.join(", ")} ms`);
  assert.ok(took[2] <= 300, `took ${took} ms`);
  assert.ok(await page.evaluate(() => window.isSame));
  await open("/ui/conversations");
  await page.locator("[data-status]", { hasText: "Live" }).waitFor();
  const title = `a live conversation ${randomUUID()}`;
  await post("/conversations", { client: "api", title });
  await page.getByRole("link", { name: title }).waitFor({ timeout: 3000 });
  await done();
});

test("a conversation of 10,000 messages is usable at once, and more comes on scrolling", LIMIT, async () => {
  const { url, store } = logs.large;
  const { page, open, done } = await tab(url);
  const conversations = list(store, "conversations", "--limit", "2000");
  const of = (length) => conversations.find((it) => it.message_count === length).id;
  const [id, short] = [of(LONG), of(SHORT)];
  let bytes = 0;
  page.on("requestfinished", async (request) => {
    try {
      bytes += (await request.sizes()).responseBodySize;
    } catch (error) {
      // The last requests may finish while the page is closed.
      if (!/has been closed/.test(error.message)) throw error;
    }
  });
  const opened = async (id, length) => {
    await open("/ui/runs");
    bytes = 0;
    const began = performance.now();
    await open(`/ui/conversations/${id}`);
    await page.locator(`[data-sequence="${length}"]`).waitFor();
    return performance.now() - began;
  };
  // It takes the time of a conversation of which all messages are shown at once.
  const took = { long: [], short: [] };
  for (let round = 0; round < 5; round++) {
    took.short.push(await opened(short, SHORT));
    took.long.push(await opened(id, LONG));
  }
  const first = Math.round(took.long[0]);
  const [ofShort, ofLong] = [took.short, took.long].map((all) => Math.round(all.sort((a, b) => a - b)[2]));
  console.log(`${LONG} messages: ${ofLong} ms, at first ${first} ms, ${bytes} bytes; ${SHORT} messages: ${ofShort} ms`);
  assert.ok(ofLong <= 1000, `took ${ofLong} ms`);
  assert.ok(ofLong <= 2 * ofShort, `${ofLong} ms, beside ${ofShort} ms for ${SHORT} messages`);
  assert.ok(bytes <= 2 << 20, `${bytes} bytes`);
  const count = () => page.locator("[data-sequence]").count();
  assert.equal(await count(), 100);
  await page.mouse.wheel(0, 200);
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.waitForFunction(() => document.querySelectorAll("[data-sequence]").length >= 200);
  const sequences = await page.$$eval("[data-sequence]", (all) => all.map((it) => Number(it.dataset.sequence)));
  assert.deepEqual(sequences, sequences.map((_, nth) => LONG - sequences.length + 1 + nth));
  await page.getByRole("link", { name: "First messages" }).click();
  await page.locator('[data-sequence="1"]').waitFor();
  await open(`/ui/conversations/${id}?failure_before=5000`);
  assert.ok(await page.locator("[data-failed]").count());
  await done();
});

test("every page of a large log opens in 3 s and has at most 2 MB", LIMIT, async () => {
  const { url } = logs.large;
  const { open, done, page } = await tab(url);
  await open("/");
  for (const path of pages(logs.large).filter((it) => !it.includes("/lines/")).slice(0, 60)) {
    const began = Date.now();
    await open(path);
    const took = Date.now() - began;
    assert.ok(took <= 3000, `${path} took ${took} ms`);
    const size = (await page.content()).length;
    assert.ok(size <= 2 << 20, `${path} has ${size} characters`);
  }
  await done();
});

test("hostile texts in every field run nothing, load nothing and break nothing", LIMIT, async () => {
  const { url } = logs.hostile;
  const { page, open, done } = await tab(url);
  const searches = HOSTILE.filter((it) => it.length < 200).map((it) => `/ui/search?text=${encodeURIComponent(it.replaceAll("\0", ""))}`);
  const filters = HOSTILE.filter((it) => it.length < 200).map((it) => `/ui/calls?tool=${encodeURIComponent(it)}`);
  for (const path of [...pages(logs.hostile), ...searches, ...filters]) {
    await open(path);
    assert.equal(await page.locator("h1").count(), 1, path);
    // What runs, runs soon: folds are opened, and everything is pointed at.
    await page.$$eval("details", (all) => all.forEach((it) => { it.open = true; }));
    const found = await page.evaluate(() => ({
      elements: [...document.querySelectorAll("main :is(script, iframe, img, link, style, base, meta, object, embed, video, audio, [style], [onload], [onerror], [onfocus], [ontoggle])")].map((it) => it.outerHTML.slice(0, 100)),
      links: [...document.querySelectorAll("a[href]")].map((it) => it.protocol).filter((it) => !["http:", "https:", "mailto:"].includes(it)),
      forms: [...document.forms].map((it) => it.action).filter((it) => !it.startsWith(location.origin)),
      over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      top: getComputedStyle(document.querySelector("header.top")).display,
    }));
    assert.deepEqual(found, { elements: [], links: [], forms: [], over: 0, top: "flex" }, path);
  }
  await done();
});

test("without script, every page shows its content", LIMIT, async () => {
  const { url, store } = logs.samples;
  const { page, open, done } = await tab(url, { javaScriptEnabled: false });
  const [{ id }] = list(store, "conversations");
  for (const path of ["/", "/ui/conversations", `/ui/conversations/${id}`, `/ui/conversations/${id}/run`, "/ui/calls", "/ui/search?text=python"]) {
    await open(path);
    assert.ok((await page.locator("main").innerText()).length > 100, path);
  }
  await done();
});

test("a report is one file that loads nothing and runs nothing of its content", LIMIT, async () => {
  for (const [log, what] of [["samples", "latest"], ["hostile", "latest"], ["hostile", "2000d"], ["samples", "2025-12-01..2025-12-31"]]) {
    const file = join(dir, `${log}.html`);
    run(logs[log].store, ["report", "--html", file, "--force", what]);
    const { page, done } = await tab(`file://${file}`);
    await page.goto(`file://${file}`, { waitUntil: "load" });
    assert.equal(await page.locator("h1").count(), what === "latest" ? 2 : 1);
    assert.ok((await page.locator("main").innerText()).length > 100);
    const styled = await page.evaluate(() => getComputedStyle(document.querySelector("header.top")).display);
    assert.equal(styled, "flex");
    const links = await page.$$eval("a[href]", (all) => all.map((it) => it.protocol).filter((it) => !["http:", "https:", "mailto:", "file:"].includes(it)));
    assert.deepEqual(links, []);
    await done();
  }
});

test("answers have the headers that keep content harmless", LIMIT, async () => {
  const { url } = logs.samples;
  for (const path of ["/", "/ui/conversations", "/ui/nothing", "/ui/style.css", "/ui/script.js", "/ui/icon.svg"]) {
    const answer = await fetch(url + path);
    assert.equal(answer.status, path === "/ui/nothing" ? 404 : 200);
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff", path);
    const policy = answer.headers.get("content-security-policy");
    if (answer.headers.get("content-type").startsWith("text/html")) {
      assert.ok(policy.includes("default-src 'none'") && !policy.includes("unsafe"), policy);
    }
  }
});
