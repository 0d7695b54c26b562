// Live updates, keys, folding and local times. Every page works without it.
"use strict";
(() => {
  const body = document.body;
  const main = document.getElementById("main");
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Times: the page has them in UTC.
  const form = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const localTimes = (from) => {
    for (const time of all("time[datetime]", from)) {
      if (time.dataset.local) continue;
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = time.dateTime;
      time.textContent = form.format(at);
      time.dataset.local = "1";
    }
  };
  localTimes(document);

  // Pages that continue this one: loaded when the reader comes near.
  const load = async (address) => {
    const answer = await fetch(address, { credentials: "same-origin", headers: { accept: "text/html" } });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    localTimes(page);
    return page;
  };
  const near = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (isIntersecting) { near.unobserve(target); more(target); }
    }
  }, { rootMargin: "600px" });
  const watch = () => all("a[data-earlier], a[data-later]").forEach((link) => near.observe(link));
  const more = async (link) => {
    const list = one("[data-messages]");
    if (!list) return;
    const isEarlier = "earlier" in link.dataset;
    const kind = isEarlier ? "a[data-earlier]" : "a[data-later]";
    try {
      const page = await load(link.href);
      const items = all("[data-messages] > *", page).filter((item) => !document.getElementById(item.id));
      const height = document.documentElement.scrollHeight;
      if (isEarlier) list.prepend(...items); else list.append(...items);
      if (isEarlier) window.scrollBy({ top: document.documentElement.scrollHeight - height, behavior: "instant" });
      const next = one(kind, page);
      const holder = link.parentElement;
      if (next && items.length) { link.replaceWith(document.adoptNode(next)); watch(); } else { holder.hidden = true; }
    } catch { /* The link stays and can be followed. */ }
  };
  // Only after the reader has scrolled: a short page would load everything at once.
  window.addEventListener("scroll", watch, { once: true, passive: true });

  // Live updates: new records come over /stream; then the page is asked for again.
  const status = one("[data-status]");
  const say = (text) => { if (status && status.textContent !== text) status.textContent = text; };
  const renew = async () => {
    if (body.dataset.appends) {
      const list = one("[data-messages]");
      const last = list && all(":scope > [data-sequence]", list).at(-1);
      if (!list || !("end" in list.dataset)) return;
      const address = new URL(location.pathname, location.href);
      if (last) address.searchParams.set("from", String(Number(last.dataset.sequence) + 1));
      const page = await load(address);
      const isAtEnd = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 120;
      const items = all("[data-messages] > *", page).filter((item) => !document.getElementById(item.id));
      list.append(...items);
      const totals = one("[data-part=totals]", page);
      if (totals) one("[data-part=totals]")?.replaceWith(totals);
      if (items.length && isAtEnd) window.scrollTo({ top: document.documentElement.scrollHeight });
      return;
    }
    const page = await load(location.href);
    for (const part of all("[data-part]")) {
      const fresh = one(`[data-part="${CSS.escape(part.dataset.part)}"]`, page);
      if (!fresh || fresh.outerHTML === part.outerHTML || part.contains(document.activeElement)) continue;
      const open = new Set(all("details[open][id]", part).map((fold) => fold.id));
      part.replaceWith(fresh);
      all("details[id]", fresh).forEach((fold) => { fold.open ||= open.has(fold.id); });
    }
  };
  let isBusy = false, isDue = false;
  const due = async () => {
    if (isBusy) { isDue = true; return; }
    isBusy = true;
    try { await renew(); } catch { /* The next event tries again. */ }
    // A busy log does not keep the page busy.
    setTimeout(() => { isBusy = false; if (isDue) { isDue = false; due(); } }, 700);
  };
  let stream;
  const listen = () => {
    if (!body.dataset.live || stream || document.hidden) return;
    const query = new URLSearchParams({ kind: body.dataset.live });
    if (body.dataset.appends) query.set("conversation_id", body.dataset.appends);
    stream = new EventSource(`/stream?${query}`);
    stream.addEventListener("open", () => say("Live"));
    stream.addEventListener("error", () => say("Not connected"));
    for (const kind of body.dataset.live.split(",")) stream.addEventListener(kind, due);
  };
  // A browser allows few connections: a hidden page holds none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stream?.close(); stream = undefined; } else if (!stream && body.dataset.live) { listen(); due(); }
  });
  window.addEventListener("pagehide", () => { stream?.close(); stream = undefined; });
  window.addEventListener("pageshow", (shown) => { if (shown.persisted) { listen(); due(); } });
  listen();

  // Keys.
  const keys = one("[data-keys]");
  const showKeys = () => { if (keys && !keys.open) keys.showModal(); };
  const helper = one("[data-help]");
  if (helper) { helper.hidden = false; helper.addEventListener("click", showKeys); }
  const go = (selector, step) => {
    const items = all(selector, main).filter((item) => item.checkVisibility?.() ?? true);
    if (!items.length) return;
    const current = one(".current", main);
    let at;
    if (current && items.includes(current)) {
      at = items.indexOf(current) + step;
    } else {
      const from = current ? current.getBoundingClientRect().top : 80;
      const after = items.findIndex((item) => item.getBoundingClientRect().top > from + 1);
      at = step > 0 ? (current || after > 0 ? after : 0) : (after < 0 ? items.length : after) - 1;
      if (step > 0 && after < 0) at = items.length - 1;
    }
    const item = items[Math.max(0, Math.min(items.length - 1, at))];
    current?.classList.remove("current");
    item.classList.add("current");
    if (!item.hasAttribute("tabindex")) item.tabIndex = -1;
    item.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
    const place = item.getBoundingClientRect();
    if (place.top < 70) window.scrollBy(0, place.top - 70);
  };
  document.addEventListener("keydown", (press) => {
    if (press.ctrlKey || press.altKey || press.metaKey || keys?.open) return;
    const field = press.target.closest?.("input, select, textarea");
    if (field) { if (press.key === "Escape") field.blur(); return; }
    const current = one(".current", main);
    const action = {
      j: () => go("[data-item]", 1),
      k: () => go("[data-item]", -1),
      "]": () => go("[data-failed]", 1),
      "[": () => go("[data-failed]", -1),
      "/": () => (one("[data-search]", main) ?? one(".find input"))?.focus(),
      "?": showKeys,
      g: () => window.scrollTo({ top: 0 }),
      G: () => window.scrollTo({ top: document.documentElement.scrollHeight }),
      f: () => current && all("details", current).forEach((fold, nth, folds) => { fold.open = nth ? folds[0].open : !fold.open; }),
      Enter: () => current === press.target && one("a[href]", current)?.click(),
    }[press.key];
    if (!action || (press.key === "Enter" && current !== press.target)) return;
    press.preventDefault();
    action();
  });
})();
