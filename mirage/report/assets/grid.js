// The report on a grid: what is behind each cell of its table.

const PAGE = 50;

// The places of a cell's queries in the order that is asked for: as they are, or by a metric.
function ordered(cell, by) {
  const rows = cell.rows.map((_, place) => place);
  if (by === null) return rows;
  const value = (place) => (cell.rows[place].features || [])[by];
  const there = rows.filter((place) => typeof value(place) === "number");
  return [...there.sort((a, b) => value(a) - value(b)),
    ...rows.filter((place) => typeof value(place) !== "number")];
}

function cellPage(place, wanted, by) {
  const cell = data.cells[place], own = data.datasets[cell.dataset];
  const order = ordered(cell, by);
  const at = Math.max(0, order.indexOf(cell.rows.findIndex((row) => row.query === wanted)));
  const start = at - at % PAGE, shown = order.slice(start, start + PAGE);
  const link = (first, words) => first >= 0 && first < order.length
    ? h("a", { href: addressOf(place, cell.rows[order[first]].query, by) }, words)
    : h("span", { class: "hint" }, words);
  const turn = () => order.length > PAGE ? h("p", { class: "turn" },
    link(start - PAGE, "← earlier"), `${start + 1} to ${start + shown.length} of ${order.length}`,
    link(start + PAGE, "later →")) : null;
  const choice = h("select", { id: "order" }, h("option", { value: "" }, "as in the dataset"),
    data.metrics.map((name, i) => h("option", { value: i, selected: i === by }, `${name}, lowest first`)));
  choice.addEventListener("change", () => {
    const chosen = choice.value === "" ? null : Number(choice.value);
    const first = cell.rows[ordered(cell, chosen)[0]].query;
    location.hash = addressOf(place, first, chosen);
  });
  return [
    h("p", {}, h("a", { href: "#table" }, "← All cells")),
    h("h2", { tabindex: "-1" }, breakable(cell.name)),
    h("dl", { class: "chips facts" }, cell.scores.map(([name, words]) =>
      h("div", {}, h("dt", {}, h("bdi", {}, name)), h("dd", {}, words)))),
    h("p", {}, h("label", {}, "Order ", choice)),
    turn(),
    h("div", { class: "cards" }, shown.map((row) =>
      responseCard(own, own.code, own.queries[cell.rows[row].query], cell.rows[row]))),
    turn(),
  ].filter(Boolean);
}

const addressOf = (place, n, by) => `#cell/${place}/${n}${by === null ? "" : `/${by}`}`;

function route() {
  const [, place, n, by] = location.hash.match(/^#cell\/(\d+)(?:\/(\d+))?(?:\/(\d+))?$/) || [];
  const cell = place === undefined ? null : data.cells[Number(place)];
  const there = Boolean(cell && cell.rows);
  overview.hidden = there;
  page.hidden = !there;
  page.replaceChildren();
  document.title = title;
  if (!there) return;
  const column = by === undefined || !data.metrics[Number(by)] ? null : Number(by);
  page.append(...cellPage(Number(place), n === undefined ? -1 : Number(n), column));
  document.title = `${cell.name} · ${title}`;
  scrollTo(0, 0);
  page.querySelector("h2").focus({ preventScroll: true });
}

addEventListener("hashchange", route);
route();
