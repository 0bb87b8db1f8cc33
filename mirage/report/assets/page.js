// What all pages have: elements, colours, tables that sort and filter. Text enters a page through
// textContent only; its policy forbids innerHTML and its like altogether.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);
const overview = document.getElementById("overview");
const page = document.getElementById("page");
const title = document.title;

function h(name, attributes, ...children) {
  const element = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const number = (value, digits = 2) =>
  value === null || value === undefined ? "—" : value.toFixed(digits).replace("-", "−");
// A name, with places where a line of it may end.
const breakable = (name) => h("bdi", {}, name.split(/(?<=[/_@:-])(?=.)/u)
  .flatMap((part, i) => i ? [h("wbr"), part] : [part]));
const say = (words) => { document.getElementById("said").textContent = words; };

// Colours -----------------------------------------------------------------------------------------

const theme = document.getElementById("theme");
const root = document.documentElement;

function setTheme(dark) {
  root.dataset.theme = dark ? "dark" : "light";
  theme.setAttribute("aria-pressed", dark);
}

function rememberedTheme() {
  try { return localStorage.getItem("mirage-theme"); } catch { return null; }
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
setTheme((rememberedTheme() || (prefersDark.matches ? "dark" : "light")) === "dark");
prefersDark.addEventListener("change", (event) => {
  if (!rememberedTheme()) setTheme(event.matches);
});
theme.addEventListener("click", () => {
  const dark = root.dataset.theme !== "dark";
  setTheme(dark);
  // A browser may keep a file from storing anything.
  try { localStorage.setItem("mirage-theme", dark ? "dark" : "light"); } catch { /* for now */ }
});

// Tables that are too wide -----------------------------------------------------------------------

// Says, and shows at its edges, that a table has columns which are out of sight.
function showEdges(region) {
  const hidden = region.scrollWidth - region.clientWidth;
  region.classList.toggle("overflows", hidden > 1);
  region.classList.toggle("more", hidden - region.scrollLeft > 1);
  region.classList.toggle("moved", region.scrollLeft > 1);
}

const sizes = new ResizeObserver((seen) => seen.forEach(({ target }) => showEdges(target)));

function watchEdges(region) {
  region.addEventListener("scroll", () => showEdges(region), { passive: true });
  sizes.observe(region);
}

document.querySelectorAll(".scroll").forEach(watchEdges);

// Tables ------------------------------------------------------------------------------------------

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const up = now ? now === "descending" : button.dataset.first === "up";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      sortRows(table.tBodies[0], column, up, head.classList.contains("number"));
      say(`Sorted by ${button.textContent}, ${up ? "ascending" : "descending"}`);
    });
  });
}

function sortRows(body, column, up, numeric) {
  const rows = [...body.rows].map((row) => [row.cells[column].dataset.v, row]);
  rows.sort(([a], [b]) => {
    // What has no value is last in either direction.
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    const order = numeric ? a - b : a.localeCompare(b);
    return up ? order : -order;
  });
  body.append(...rows.map(([, row]) => row));
}

function makeFilter(box) {
  const rows = [...document.getElementById(box.dataset.for).tBodies[0].rows];
  const search = box.querySelector("input[type=search]");
  const only = box.querySelector("input.only");
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const name = row.querySelector("th").dataset.v;
      row.hidden = !name.includes(wanted) || (only && only.checked && !row.classList.contains("new"));
      shown += !row.hidden;
    }
    box.querySelector("output").textContent =
      shown === rows.length ? `${shown} models` : `${shown} of ${rows.length} models`;
  };
  search.addEventListener("input", filter);
  if (only) only.addEventListener("change", filter);
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll(".filter").forEach(makeFilter);

root.classList.add("js");
