// What the pages do beyond HTML: draw charts, and fetch the page again to replace the parts of it that change.
// The service renders everything; nothing here makes HTML of strings.
"use strict";

const LONGEST_WAIT_MS = 15000;
const GIVE_UP_MS = 10000;
const CHART_HEIGHT = 170;

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const charts = new Map();

// Charts

const two = (number) => String(number).padStart(2, "0");

// Times are UTC. Between marks of less than a day the hour says more than the date.
function marks(_, times, __, ___, step) {
  return times.map((time) => {
    const at = new Date(time * 1000);
    const date = `${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
    return step >= 86400 ? date : `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  });
}

function axes() {
  const common = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return [{ ...common, values: marks, space: 70, size: 30 }, { ...common, size: 46, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6] }];
}

function options(figure, series, step) {
  return {
    width: Math.max(200, figure.clientWidth), height: CHART_HEIGHT, tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
    series: [{ label: "UTC", value: (_, time) => (time == null ? "" : new Date(time * 1000).toISOString().slice(0, 16).replace("T", " ")) }, ...series],
    axes: axes(), cursor: { drag: { x: false, y: false }, points: { show: false } },
    // A bar begins at the beginning of its bucket, so the last one ends a step after it.
    scales: { x: { range: (_, first, last) => [first, last + step] }, y: { range: (_, low, high) => [0, Math.max(1, high) * 1.05] } }, padding: [8, 8, 0, 0],
  };
}

// A series of bars; those of several series stand on each other: each is drawn up to the sum of itself and the later ones.
function bars(label, role, counts) {
  const fill = style(role);
  const value = (_, __, ___, at) => (at == null ? "" : counts()[at].toLocaleString("en"));
  return { label, value, fill, stroke: fill, width: 0, points: { show: false }, paths: uPlot.paths.bars({ align: 1, size: [0.8, 40], gap: 0 }) };
}

function stacked(columns) {
  const sums = columns.map((column) => [...column]);
  for (let above = columns.length - 2; above >= 0; above--) sums[above].forEach((_, at) => (sums[above][at] += sums[above + 1][at]));
  return sums;
}

function drawGrowth(figure) {
  const data = JSON.parse(figure.dataset.chart);
  draw(figure, data, [["counts", figure.dataset.label, "--link"]]);
}

function drawHistory(figure) {
  const data = JSON.parse(figure.dataset.history);
  const names = JSON.parse(figure.dataset.names);
  const series = Object.keys(names).map((name) => [name, names[name], `--${name}`]);
  figure.hidden = series.every(([name]) => data[name].every((count) => count === 0));
  if (!figure.hidden) draw(figure, data, series);
}

function draw(figure, data, series) {
  const columns = series.map(([name]) => data[name]);
  const drawn = [data.times, ...stacked(columns)];
  const chart = charts.get(figure);
  figure.counts = columns;
  if (chart) {
    chart.setData(drawn);
    return;
  }
  const holder = document.createElement("div");
  figure.prepend(holder);
  const shown = series.map(([, label, role], at) => bars(label, role, () => figure.counts[at]));
  charts.set(figure, new uPlot(options(figure, shown, data.step), drawn, holder));
}

function drawAll() {
  for (const figure of document.querySelectorAll("[data-chart]")) drawGrowth(figure);
  for (const figure of document.querySelectorAll("[data-history]")) drawHistory(figure);
}

function redraw() {
  for (const chart of charts.values()) chart.root.parentElement.remove(), chart.destroy();
  charts.clear();
  drawAll();
}

function resize() {
  for (const [figure, chart] of charts) chart.setSize({ width: Math.max(200, figure.clientWidth), height: CHART_HEIGHT });
}

// Fetching the page again

const every = Number(document.body.dataset.every) * 1000;
const lost = document.getElementById("lost");
const pause = document.getElementById("pause");
let wait = every;
let lostAt = null;
let timer = null;

const paused = () => document.hidden || pause.getAttribute("aria-pressed") === "true";

// What the reader is using stays as it is until they leave it.
function inUse(part) {
  const selection = getSelection();
  const selected = !selection.isCollapsed && part.contains(selection.anchorNode);
  return selected || (part !== document.activeElement && part.contains(document.activeElement));
}

// A page that has other parts than before, because what it shows is known now, is taken whole.
function takeWhole(page) {
  const parts = (root) => [...root.querySelectorAll("[data-live]")].map((part) => part.id).join();
  const old = document.getElementById("page");
  if (parts(page) === parts(document) || inUse(old)) return;
  for (const chart of charts.values()) chart.destroy();
  charts.clear();
  old.replaceChildren(...document.adoptNode(page.getElementById("page").cloneNode(true)).childNodes);
}

function take(page) {
  takeWhole(page);
  const notices = document.getElementById("notices");
  const hadNotices = notices.textContent.trim() !== "";
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && !inUse(part) && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...document.adoptNode(fresh).childNodes);
  }
  for (const figure of document.querySelectorAll("[data-history]")) {
    const fresh = page.getElementById(figure.id);
    if (fresh) figure.dataset.history = fresh.dataset.history;
  }
  drawAll();
  // Notices that come are read out as they are; that they are gone is said by the state.
  const isWell = hadNotices && notices.textContent.trim() === "";
  if (isWell) document.getElementById("recovered").textContent = document.getElementById("state").textContent;
}

async function refresh() {
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(GIVE_UP_MS), cache: "no-store" });
    if (!answer.headers.get("content-type")?.startsWith("text/html")) throw new Error(`status ${answer.status}`);
    take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    wait = every;
    lostAt = null;
    lost.hidden = true;
  } catch {
    wait = Math.min(LONGEST_WAIT_MS, Math.max(1000, wait * 1.5));
    lostAt ??= new Date();
    lost.textContent = document.body.dataset.lost.replace("{time}", lostAt.toISOString().slice(11, 19));
    lost.hidden = false;
  }
}

async function tick() {
  clearTimeout(timer);
  if (!paused()) await refresh();
  timer = setTimeout(tick, wait);
}

// What readers do

pause.addEventListener("click", () => {
  const now = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(now));
  pause.textContent = now ? pause.dataset.resume : pause.dataset.pause;
});
pause.hidden = !every;

const form = document.querySelector("form.check");
form?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});

const choices = document.querySelector(".choices");
choices?.addEventListener("change", (event) => {
  // With a keyboard every arrow key changes a selection: the button is theirs.
  if (event.target.matches("select") && !event.target.dataset.keys) choices.requestSubmit();
});
choices?.addEventListener("keydown", (event) => {
  if (event.target.matches("select")) event.target.dataset.keys = "1";
});

drawAll();
addEventListener("resize", resize);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.addEventListener("visibilitychange", () => { if (every && !document.hidden) tick(); });
if (every) timer = setTimeout(tick, every);
