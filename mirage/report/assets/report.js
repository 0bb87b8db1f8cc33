// The page without this script is complete but for sorting, filtering, win probabilities and the
// pages of models. Text enters the page through textContent only; the page's policy forbids
// innerHTML and its like altogether.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);
const codes = Object.keys(data.languages);
const overview = document.getElementById("overview");
const page = document.getElementById("page");
const title = document.title;
let language = codes[0];

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
const percent = (thousandths) =>
  thousandths === null ? "—" : thousandths === 1000 ? ">99.9" : thousandths === 0 ? "<0.1"
    : (thousandths / 10).toFixed(1);
// A name, with places where a line of it may end.
const breakable = (name) => h("bdi", {}, name.split(/(?<=[/_@:-])(?=.)/u)
  .flatMap((part, i) => i ? [h("wbr"), part] : [part]));
const modelName = (entry) => data.models[entry.model];
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

// Win probabilities -------------------------------------------------------------------------------

const shadeOf = (thousandths) =>
  thousandths === null ? "" : `p${Math.min(Math.floor(thousandths / 100), 9)}`;

function pairsTable(code) {
  const { entries, pairs } = data.languages[code];
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Better than →"),
    pairs.columns.map((place) => {
      const name = modelName(entries[place]);
      return h("th", { scope: "col", class: "number", title: name }, String(entries[place].rank),
        h("span", { class: "unseen" }, `, ${name}`));
    }));
  const rows = entries.map((entry, i) => h("tr", { class: entry.new ? "new" : null },
    h("th", { scope: "row", class: "name" }, `${entry.rank} `,
      h("a", { href: `#${code}/${entry.model}` }, breakable(modelName(entry)))),
    pairs.rows[i].map((value) => h("td", { class: `number ${shadeOf(value)}` },
      value === null ? "" : String(Math.round(value / 10))))));
  const words = "How sure it is, in percent, that the model of the row is better than the model of "
    + "the column. Columns are named by rank.";
  const name = `Pairwise win probabilities, ${data.languages[code].name}`;
  const table = h("table", { class: "matrix", "aria-label": name },
    h("thead", {}, head), h("tbody", {}, rows));
  const region = h("div", { class: "scroll", role: "region", "aria-label": name, tabindex: "0" },
    table);
  watchEdges(region);
  const sideways = document.querySelector(".sideways").textContent;
  return [h("p", { class: "hint" }, words), h("p", { class: "hint sideways" }, sideways), region];
}

function fillPairs(code) {
  const place = document.querySelector(`#${code} .pairs`);
  if (place && !place.hasChildNodes()) place.append(...pairsTable(code));
}

// Pages of models ---------------------------------------------------------------------------------

function modelPage(code, entry) {
  const own = data.languages[code];
  const ranks = entry.ranks ? ` (${own.level} % interval ${entry.ranks[0]} to ${entry.ranks[1]})` : "";
  const [lower, upper] = entry.interval;
  const ends = lower === null ? ""
    : ` (${own.level} % interval ${number(lower)} to ${number(upper)})`;
  const facts = [
    ["Rank", `${entry.rank} of ${own.entries.length}${ranks}`],
    ["Logit", entry.logit === null ? "not known" : number(entry.logit) + ends],
  ];
  if (entry.answered !== null) {
    facts.push(["Responses", `${entry.answered} answered, ${entry.failed} failed`]);
  }
  if (entry.unfamiliar) facts.push(["Unlike any system that this board knows", entry.unfamiliar]);
  return [
    h("p", {}, h("a", { href: `#${code}-leaderboard`, class: "back" }, "← Leaderboard")),
    h("h2", { tabindex: "-1" }, breakable(modelName(entry))),
    h("p", { class: "lead" }, own.name),
    h("dl", { class: "facts" }, facts.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])),
    otherLanguages(code, entry),
    h("div", { class: "sides" },
      h("div", {}, findingList(code, entry)),
      h("div", {}, own.features.length ? featureTable(own, entry) : null, opponents(code, entry))),
    responses(own, code, entry),
  ];
}

function otherLanguages(code, entry) {
  if (codes.length === 1) return null;
  const links = codes.map((other) => {
    const there = data.languages[other].entries.find((one) => one.model === entry.model);
    return there && h("li", {}, h("a", {
      href: `#${other}/${entry.model}`,
      "aria-current": other === code ? "true" : null,
      "aria-label": `${data.languages[other].name}: rank ${there.rank}`,
    }, h("b", {}, other), ` ${there.rank}`));
  });
  return [h("h3", {}, "Rank by language"), h("ul", { class: "chips" }, links)];
}

function findingList(code, entry) {
  if (entry.findings === null) return null;
  const items = entry.findings.map((one) => h("li", {}, `${one.words} on `,
    h("b", {}, String(one.count)), ` of ${one.of} queries: `,
    one.queries.map(([id, n], i) => [i ? ", " : null, n === null ? h("bdi", {}, id)
      : h("a", { href: `#${code}/${entry.model}/${n}` }, h("bdi", {}, id))]),
    one.count > one.queries.length ? ` and ${one.count - one.queries.length} more` : null));
  const none = "No fault was found by the features of its responses.";
  return [h("h3", {}, "Findings"),
    items.length ? h("ul", { class: "findings" }, items) : h("p", { class: "hint" }, none)];
}

function strip(values, own) {
  const finite = values.filter((value) => value !== null);
  const low = Math.min(...finite), span = Math.max(...finite) - low || 1;
  const at = (value) => `${4 + 92 * (value - low) / span}%`;
  const dot = (value, mark, r) => h("svg:circle", { cx: at(value), cy: "50%", r, class: mark });
  return h("svg:svg", { class: "interval", "aria-hidden": "true", focusable: "false" },
    h("svg:line", { x1: "4%", x2: "96%", y1: "50%", y2: "50%", class: "zero" }),
    finite.map((value) => dot(value, "other", 3)),
    own === null ? null : dot(own, "dot", 5));
}

function featureTable(own, entry) {
  const rows = own.features.map((name, i) => {
    const values = own.entries.map((one) => one.features[i]);
    const higher = values.filter((value) => value !== null && value > entry.features[i]).length;
    const place = entry.features[i] === null ? "—" : `${higher + 1}`;
    return h("tr", {}, h("th", { scope: "row", class: "name" }, breakable(name)),
      h("td", { class: "number" }, number(entry.features[i], 3)),
      h("td", { class: "drawn" }, strip(values, entry.features[i])),
      h("td", { class: "number" }, place));
  });
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Feature"),
    h("th", { scope: "col", class: "number" }, "Mean"),
    h("th", { scope: "col", class: "drawn" }, "Among all models"),
    h("th", { scope: "col", class: "number" }, "Place from the top"));
  return [h("h3", {}, "Features"),
    h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, rows))];
}

function opponents(code, entry) {
  const { entries, pairs } = data.languages[code];
  if (!pairs) return null;
  const row = pairs.rows[entries.indexOf(entry)];
  const rows = pairs.columns.map((place, i) => {
    const other = entries[place];
    if (other === entry) return null;
    return h("tr", {}, h("th", { scope: "row", class: "name" },
      `${other.rank} `, h("a", { href: `#${code}/${other.model}` }, breakable(modelName(other)))),
      h("td", { class: `number ${shadeOf(row[i])}` }, percent(row[i])));
  });
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Other model"),
    h("th", { scope: "col", class: "number" }, "This one is better, %"));
  return h("details", { class: "opponents" }, h("summary", {}, "Win probability against each model"),
    h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, rows)));
}

// Responses ---------------------------------------------------------------------------------------

const KINDS = {
  best: "Best responses", worst: "Worst responses", failed: "Failed",
  found: "Others that findings are about",
};
let passages = 0;

function responses(own, code, entry) {
  const kinds = own.pages[entry.model];
  if (!kinds) {
    const why = entry.answered === null || !own.evidence
      ? "The responses of this model are not at hand."
      : "The responses of this model are left out, for the file would have become too large.";
    return [h("h3", {}, "Responses"), h("p", { class: "hint" }, why)];
  }
  const parts = Object.entries(KINDS).filter(([kind]) => kinds[kind]).map(([kind, name]) => [
    h("h3", {}, name),
    h("div", { class: "cards" },
      kinds[kind].map((row) => responseCard(own, code, own.queries[row.query], row))),
  ]);
  const hint = own.judged
    ? "Responses are in order of the share of judgments that each won, a tie being half."
    : "Responses are in order of their features: how far each lies above or below those "
      + "that the surrogate learnt from, weighted by how it goes with the logit.";
  return [h("p", { class: "hint" }, hint), parts];
}

const cutMark = (shown, whole) => whole
  ? h("span", { class: "hint" }, ` … cut: ${shown.toLocaleString("en")} of `
    + `${whole.toLocaleString("en")} characters`)
  : null;

// The pieces of a response: text, the places of passages that it cites, and what is wrong there.
const pieces = (row) => (row.blocks || []).flatMap((block) => block.text)
  .map((piece) => typeof piece === "string" ? [piece, [], null]
    : [piece[0], piece[1] || [], piece[2] || null]);

const contents = (block, id) => block.text.map((piece) => {
  if (typeof piece === "string") return piece;
  const [text, places, type] = piece;
  const inside = places ? citation(id, text, places) : text;
  return type ? fault(inside, type) : inside;
});

const fault = (inside, type) => h("mark", { class: `fault ${type}`, title: data.marks[type] },
  inside, h("span", { class: "unseen" }, ` (${data.marks[type]})`));

function legend(row) {
  const types = Object.keys(data.marks).filter((type) => pieces(row).some((one) => one[2] === type));
  return types.length ? h("ul", { class: "legend" }, types.map((type) => h("li", {},
    h("mark", { class: `fault ${type}` }, type), ` ${data.marks[type]}`))) : null;
}

function responseCard(own, code, query, row) {
  const given = { lang: code, dir: own.direction };
  const id = `response-${passages++}`;
  const order = row.shown || query.passages.map((_, place) => place);
  const body = row.error !== undefined
    ? h("p", { class: "error" }, h("bdi", {}, row.error || "no reason given"),
      cutMark(row.error.length, row.cut))
    : h("div", { class: "response", tabindex: "0", role: "group", "aria-label": "Response" },
      row.blocks.map((block) => block.kind === "heading"
        ? h("p", { class: block.kind, dir: own.direction }, h("bdi", {}, contents(block, id)))
        : h("p", { class: block.kind, lang: code, dir: block.dir }, contents(block, id))),
      cutMark(pieces(row).map((piece) => piece[0]).join("").length, row.cut));
  return h("article", { class: "card", id: `query-${query.n}`, tabindex: "-1" },
    h("p", { class: "hint" }, "Query ", h("code", {}, h("bdi", {}, query.id))),
    h("h4", given, query.text, cutMark(query.text.length, query.cut)),
    row.faults ? h("ul", { class: "faults", "aria-label": "Findings" },
      row.faults.map((words) => h("li", {}, words))) : null,
    body,
    legend(row),
    row.features ? featureList(own, row) : null,
    order.length ? passageList(id, query, order, row, given) : null,
    query.reference === undefined ? null : h("details", {}, h("summary", {}, "Reference"),
      h("p", { class: "reference", ...given }, query.reference,
        cutMark(query.reference.length, query.referenceCut))));
}

function citation(id, text, places) {
  if (!places.length) {
    return h("span", { class: "cite wrong" }, h("bdi", {}, text),
      h("span", { class: "unseen" }, " (names no shown passage)"));
  }
  return h("button", {
    type: "button", class: "cite",
    onclick: () => showPassage(id, places[0]),
  }, h("bdi", {}, text), h("span", { class: "unseen" },
    ` cites passage ${places.map((place) => place + 1).join(", ")}`));
}

function showPassage(id, place) {
  const passage = document.getElementById(`${id}-${place}`);
  passage.closest("details").open = true;
  passage.focus();
  passage.scrollIntoView({ block: "nearest" });
}

function featureList(own, row) {
  return h("dl", { class: "chips" }, row.features.map((value, i) => h("div", {},
    h("dt", {}, h("bdi", {}, own.scored[i])),
    h("dd", {}, value === null ? h("bdi", {}, `not computed: ${row.missing[i]}`) : number(value, 3)))));
}

function passageList(id, query, order, row, given) {
  const cited = new Set(pieces(row).flatMap(([, places]) => places));
  const relevant = order.filter((place) => (query.passages[place] || {}).relevant).length;
  const items = order.map((place, i) => {
    const passage = query.passages[place] || { id: place };
    const text = passage.text === undefined
      ? h("p", { class: "hint" }, typeof place === "number" ? "The text is left out here."
        : "The query does not have this passage, so its text is not at hand.")
      : h("p", given, passage.text, cutMark(passage.text.length, passage.cut));
    return h("li", { id: `${id}-${i}`, tabindex: "-1", class: cited.has(i) ? "cited" : null },
      h("p", { class: "passage" }, `[${i + 1}] `, h("code", {}, h("bdi", {}, passage.id)), " ",
        passage.title ? h("b", given, passage.title) : null,
        row.scores && row.scores[i] !== null
          ? h("span", { class: "mark" }, `score ${number(row.scores[i], 3)}`) : null,
        cited.has(i) ? h("span", { class: "mark" }, "cited") : null,
        passage.relevant ? h("span", { class: "mark good" }, "relevant") : null),
      text);
  });
  const words = `${order.length} passages, ${cited.size} cited, ${relevant} relevant`;
  return h("details", { class: "passages" }, h("summary", {}, words), h("ol", {}, items));
}

// Where the reader is -----------------------------------------------------------------------------

function choose(code) {
  language = code;
  for (const other of codes) document.getElementById(other).hidden = other !== code;
  const select = document.getElementById("language");
  if (select) select.value = code;
  for (const link of document.querySelectorAll("header nav a")) {
    const part = link.hash.match(/^#\w+-(\w+)$/);
    if (part) link.hash = `#${code}-${part[1]}`;
  }
  fillPairs(code);
}

function route(moved) {
  const [, code, place, n] = location.hash.match(/^#(\w+)\/(\d+)(?:\/(\d+))?$/) || [];
  const own = Object.hasOwn(data.languages, code || "") ? data.languages[code] : null;
  const entry = own && own.entries.find((one) => one.model === Number(place));
  overview.hidden = Boolean(entry);
  page.hidden = !entry;
  if (entry) {
    choose(code);
    page.replaceChildren(...modelPage(code, entry).flat(Infinity).filter(Boolean));
    document.title = `${modelName(entry)} · ${own.name} · Mirage`;
    const card = n && document.getElementById(`query-${n}`);
    if (card) {
      for (const part of card.querySelectorAll("details.passages")) part.open = true;
      card.scrollIntoView({ behavior: "instant" });
      card.focus({ preventScroll: true });
      return;
    }
    scrollTo(0, 0);
    page.querySelector("h2").focus({ preventScroll: true });
    return;
  }
  page.replaceChildren();
  document.title = title;
  const named = location.hash.slice(1).split("-")[0];
  choose(codes.includes(named) ? named : language);
  const target = document.getElementById(location.hash.slice(1));
  if (moved && target) target.scrollIntoView();
}

const select = document.getElementById("language");
// The address says which language is shown, so that it opens again where it is opened or sent on.
if (select) select.addEventListener("change", () => {
  choose(select.value);
  history.replaceState(null, "", `#${select.value}`);
});
addEventListener("hashchange", () => route(true));
root.classList.add("js");
route(location.hash !== "");
