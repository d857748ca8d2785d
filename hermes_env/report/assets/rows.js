// The tree's rows. Only rows in view are elements.
const scroller = byId("scroller");
const body = byId("body");
let shown = { rows: [], count: 0 };
let places = new Map();
const rowElements = new Map();
let current = null; // the row with the keyboard's focus, or the next to get it
let selected = null; // the event with open details

function rowHeight() {
  return (
    Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) *
    Number.parseFloat(getComputedStyle(document.documentElement).fontSize)
  );
}

function statusText(node) {
  if (node.status === "error" && node.facts.exit_code !== undefined) return `exit ${node.facts.exit_code}`;
  return node.status === "success" ? "" : node.status;
}

function tone(node) {
  if (node.status === "success") return "";
  return UNSURE.has(node.status) ? "unsure" : "bad";
}

function spoken(node) {
  const parts = [
    `began after ${duration(node.t - begin)}`,
    node.d === null ? "had not ended" : `took ${duration(node.d)}`,
  ];
  if (node.waited > 0) parts.push(`of which it waited ${duration(node.waited)}`);
  return parts.join(", ");
}

function waitedText({ node, open }) {
  const held = open && node.waited < LEAST_WAIT ? null : node.held;
  return held ? duration(held[1] - held[0]) : "";
}

function cell(name, ...children) {
  return element("div", { class: `cell-${name}`, role: "gridcell" }, ...children);
}

function makeRow(row, place, width) {
  const { node } = row;
  const task = filter.sort ? node.facts.batch_task : undefined; // in the tree the row above names the task
  const twisty = element("span", { class: `twisty${row.children ? " any" : ""}`, "aria-hidden": "true" });
  const indent = element("span", { class: "indent", "aria-hidden": "true" });
  indent.style.width = `${Math.min(row.level - 1, 12) * (matchMedia("(max-width: 45rem)").matches ? 10 : 16)}px`;
  const name = element(
    "span",
    { class: "name" },
    line(node.name, filter.pattern),
    node.hint ? element("span", { class: "hint" }, line(`  ${node.hint}`, filter.pattern)) : null,
    task === undefined ? null : element("span", { class: "hint" }, line(`  ${task}`, filter.pattern)),
  );
  const kind =
    node.kind === "run" ? null : element("span", { class: "kind" }, swatch(), element("span", {}, kindLabel(node)));
  const many =
    row.children && !row.open && node.children.length > 1
      ? element("span", { class: "count" }, String(node.children.length))
      : null;
  const status = statusText(node);
  const statusCell = cell(
    "status",
    status ? element("span", { class: tone(node) }, status) : element("span", { class: "quiet" }, "success"),
  );
  const track = element("div", { class: "track", "aria-hidden": "true" });
  appendBars(track, row, width);
  const made = element(
    "div",
    {
      role: "row",
      id: `row-${node.key}`,
      class: `row kind-${kindOf(node)}${node.failed ? " failed" : ""}${row.context ? " context" : ""}`,
      "aria-rowindex": place + 2,
      "aria-level": row.level,
      "aria-expanded": row.children ? String(row.open) : null,
      "aria-selected": String(node === selected),
      tabindex: node === current ? 0 : -1,
    },
    cell("name", indent, twisty, kind, name, many),
    statusCell,
    cell("waited", waitedText(row)),
    cell("took", duration(node.d)),
    cell("time", element("span", { class: "quiet" }, spoken(node)), track),
  );
  made.style.transform = `translateY(${place * rowHeight()}px)`;
  return made;
}

// Makes the rows in view, and removes the others. The focused row always stays.
function renderRows() {
  const height = rowHeight();
  const width = byId("ticks").getBoundingClientRect().width;
  const first = Math.max(0, Math.floor(scroller.scrollTop / height) - 8);
  const last = Math.min(shown.rows.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / height) + 8);
  const wanted = new Set();
  for (let place = first; place < last; place += 1) wanted.add(shown.rows[place].node);
  if (current && places.has(current)) wanted.add(current);
  for (const [node, row] of rowElements) {
    if (!wanted.has(node)) {
      row.remove();
      rowElements.delete(node);
    }
  }
  let before = null;
  for (const node of [...wanted].sort((one, other) => places.get(one) - places.get(other))) {
    let row = rowElements.get(node);
    if (!row) {
      row = makeRow(shown.rows[places.get(node)], places.get(node), width);
      rowElements.set(node, row);
      if (before) before.after(row);
      else body.prepend(row);
    }
    before = row;
  }
}
const renderSoon = onNextFrame(renderRows);

// Applies the filter and redraws. The focus stays on the same event if the event is still shown.
function refresh() {
  const focused = current && rowElements.get(current) === document.activeElement;
  shown = visibleRows();
  places = new Map(shown.rows.map((row, place) => [row.node, place]));
  if (!places.has(current)) current = shown.rows[0]?.node ?? null;
  for (const row of rowElements.values()) row.remove();
  rowElements.clear();
  body.style.height = `${shown.rows.length * rowHeight()}px`;
  byId("tree").setAttribute("aria-rowcount", String(shown.rows.length + 1));
  byId("empty").hidden = shown.rows.length > 0;
  byId("count").textContent = isFiltering()
    ? `${shown.count.toLocaleString("en")} of ${plural(nodes.length, "event")}`
    : plural(nodes.length, "event");
  renderRows();
  drawTicks();
  if (focused && current) rowElements.get(current)?.focus({ preventScroll: true });
}
const refreshSoon = onNextFrame(refresh);

function drawTicks() {
  const ticks = byId("ticks");
  const { left, width } = ticks.getBoundingClientRect();
  const found = axis.ticks(width);
  const edge = 20 / Math.max(1, width);
  ticks.replaceChildren(
    ...found
      .filter((tick) => !tick.fold)
      .map(({ x, text }) => {
        const label = element("span", { class: x < edge ? "first" : x > 1 - edge ? "last" : null }, text);
        label.style.left = percent(x);
        return label;
      }),
  );
  const grid = byId("grid");
  const start = left - scroller.getBoundingClientRect().left;
  grid.replaceChildren(
    ...found.map(({ x, fold }) => {
      const rule = element("i", { class: fold ? "fold" : null });
      rule.style.left = `${start + x * width}px`;
      rule.style.height = `${scroller.clientHeight}px`;
      return rule;
    }),
  );
}

function reveal(node) {
  const place = places.get(node);
  if (place === undefined) return;
  const height = rowHeight();
  const top = place * height;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + height > scroller.scrollTop + scroller.clientHeight)
    scroller.scrollTop = top + height - scroller.clientHeight;
  renderRows();
}

function moveTo(node, { focus = true } = {}) {
  if (!node || !places.has(node)) return;
  rowElements.get(current)?.setAttribute("tabindex", "-1");
  current = node;
  reveal(node);
  const row = rowElements.get(node);
  row.setAttribute("tabindex", "0");
  if (focus) row.focus({ preventScroll: true });
}

function markSelected(node) {
  rowElements.get(selected)?.setAttribute("aria-selected", "false");
  selected = node;
  rowElements.get(selected)?.setAttribute("aria-selected", "true");
}

function toggle(node, open) {
  setOpen(node, open);
  refresh();
  reveal(node);
}

// Handles keys in the tree. Returns true for a known key.
function treeKey(event) {
  const place = places.get(current);
  if (place === undefined) return false;
  const { node, children, open } = shown.rows[place];
  const page = Math.max(1, Math.floor(scroller.clientHeight / rowHeight()) - 1);
  const steps = {
    ArrowDown: place + 1,
    ArrowUp: place - 1,
    PageDown: place + page,
    PageUp: place - page,
    Home: 0,
    End: shown.rows.length - 1,
  };
  if (event.key in steps) goTo(shown.rows[Math.max(0, Math.min(shown.rows.length - 1, steps[event.key]))].node);
  else if (event.key === "ArrowRight" && children && !open) toggle(node, true);
  else if (event.key === "ArrowRight" && children) goTo(shown.rows[place + 1].node);
  else if (event.key === "ArrowLeft" && open) toggle(node, false);
  else if (event.key === "ArrowLeft") goTo(places.has(node.parent) ? node.parent : node);
  else if (event.key === "Enter" || event.key === " ") openDetails(node);
  else return false;
  return true;
}

function goTo(node) {
  moveTo(node);
  if (selected) openDetails(node);
}

function startRows() {
  scroller.addEventListener("scroll", renderSoon, { passive: true });
  body.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    const node = row && byKey.get(row.id.slice("row-".length));
    if (!node) return;
    moveTo(node);
    if (event.target.closest(".twisty.any")) toggle(node, row.getAttribute("aria-expanded") !== "true");
    else openDetails(node);
  });
  byId("tree").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest(".row")) return;
    if (treeKey(event)) event.preventDefault();
  });
  scroller.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const { left, width } = byId("ticks").getBoundingClientRect();
      const at = axis.from + Math.max(0, Math.min(1, (event.clientX - left) / width)) * (axis.to - axis.from);
      const factor = Math.exp(event.deltaY * 0.003);
      axis.show(at - (at - axis.from) * factor, at + (axis.to - at) * factor);
    },
    { passive: false },
  );
  new ResizeObserver(refreshSoon).observe(scroller);
}
