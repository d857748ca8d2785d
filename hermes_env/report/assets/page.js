// The page: global keys, and the first rendering.
function nextFailed(step) {
  const failed = shown.rows.map((row, place) => [row, place]).filter(([row]) => row.node.failed);
  const here = places.get(current) ?? -1;
  const next =
    step > 0
      ? (failed.find(([, place]) => place > here) ?? failed[0])
      : (failed.findLast(([, place]) => place < here) ?? failed.at(-1));
  if (next) goTo(next[0].node);
  else announce("No shown event failed");
}

function zoomOnCurrent() {
  if (!axis.whole) axis.showAll();
  else if (current) axis.showTime(current.t, current.end);
}

function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const typing = event.target.matches("input[type=search]");
    if (event.key === "Escape") {
      if (!closeDetails() && (isFiltering() || filter.sort)) clearFilters();
      return;
    }
    if (typing || event.target.matches("select")) return;
    const keys = {
      "/": () => byId("query").focus(),
      n: () => nextFailed(1),
      p: () => nextFailed(-1),
      z: zoomOnCurrent,
      "?": () => byId("keys").showModal(),
    };
    if (event.key in keys) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  byId("keys-button").addEventListener("click", () => byId("keys").showModal());
}

function showTarget() {
  const node = byKey.get(location.hash.slice(1));
  if (!node) return;
  openTo(node);
  refresh();
  moveTo(node, { focus: false });
  openDetails(node);
}

axis.listeners.push(
  onNextFrame(() => {
    placeHandles();
    drawOverview();
    byId("fold").setAttribute("aria-pressed", String(axis.folded));
    refresh();
  }),
);
showSummary();
startToolbar();
startOverview();
startRows();
startKeys();
startThemes(drawOverview);
refresh();
axis.changed();
showTarget();
