"use strict";
// Search, filters and sorting of the page. Without scripts the page is whole: what needs them is hidden until here.
(() => {
  const table = document.getElementById("cases");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const entries = [...document.querySelectorAll("[data-cases]")];
  const controls = document.getElementById("controls");
  const search = document.getElementById("search");
  const outcome = document.getElementById("outcome");
  const rule = document.getElementById("rule");
  const inside = document.getElementById("package");
  const origin = document.getElementById("origin");
  const chosen = document.getElementById("chosen");
  const count = document.getElementById("count");

  const words = (element, name) => (element.dataset[name] || "").split(" ").filter(Boolean);
  const shown = (row, only) =>
    (!only || only.has(row.dataset.case)) &&
    row.dataset.text.includes(search.value.trim().toLowerCase()) &&
    (!outcome.value || words(row, "outcomes").includes(outcome.value)) &&
    (!rule.value || words(row, "rules").includes(rule.value)) &&
    (!inside.value || words(row, "packages").includes(inside.value)) &&
    (!origin.value || row.dataset.origin === origin.value);

  // The address holds which case, or which line, is looked at, so that Back and a link do what they should.
  const only = () => {
    const match = /^#(case|line)-(\d+)$/.exec(location.hash);
    if (!match) return null;
    const source = document.getElementById(match[0].slice(1));
    if (!source) return null;
    return new Set(match[1] === "case" ? [source.dataset.case] : words(source, "cases"));
  };

  const update = () => {
    const picked = only();
    const visible = new Set();
    for (const row of rows) {
      row.hidden = !shown(row, picked);
      if (!row.hidden) visible.add(row.dataset.case);
    }
    for (const entry of entries) entry.hidden = !words(entry, "cases").some((name) => visible.has(name));
    // Of many cases at once, plots say nothing.
    for (const section of document.querySelectorAll("[data-section]"))
      section.hidden =
        visible.size > Number(section.dataset.most || Infinity) ||
        ![...section.querySelectorAll("[data-cases]")].some((entry) => !entry.hidden);
    count.textContent = `${visible.size} of ${rows.length} cases`;
    chosen.hidden = !picked;
  };

  const key = (row, column) => {
    const cell = row.cells[column];
    return column === 0 ? cell.textContent.trim().toLowerCase() : Number(cell.dataset.rank);
  };
  const sort = (column, down) => {
    const sign = down ? -1 : 1;
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      return x < y ? -sign : x > y ? sign : rows.indexOf(a) - rows.indexOf(b);
    });
    body.append(...sorted);
  };

  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(column, down);
    });
  });

  for (const control of [search, outcome, rule, inside, origin]) control.addEventListener("input", update);
  addEventListener("hashchange", () => {
    update();
    if (only()) controls.scrollIntoView();
  });
  addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && only()) {
      location.hash = "";
    }
  });
  controls.hidden = false;
  update();
})();
