// The toolbar: search, and the choice of shown events.
function filtersChanged() {
  shutAgain.clear();
  refresh();
  for (const chip of document.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", String(chip.isOn()));
  for (const name of ["took", "waited"])
    byId(`sort-${name}`).parentElement.setAttribute("aria-sort", filter.sort === name ? "descending" : "none");
  byId("open-all").disabled = Boolean(filter.sort);
  announce(byId("count").textContent);
}

function clearFilters() {
  Object.assign(filter, { query: "", pattern: null, failed: false, waited: false, sort: null });
  filter.kinds.clear();
  byId("query").value = "";
  if (!axis.whole) axis.showAll();
  filtersChanged();
}

function makeChip(label, count, isOn, change, kind, extra = "") {
  const made = element(
    "button",
    { type: "button", class: `chip kind-${kind} ${extra}`, "aria-pressed": "false" },
    kind ? swatch() : null,
    label,
    element("b", {}, count.toLocaleString("en")),
  );
  made.isOn = isOn;
  made.addEventListener("click", () => {
    change();
    filtersChanged();
  });
  return made;
}

function makeChips() {
  const chips = [];
  for (const kind of IN_ORDER) {
    const count = nodes.filter((node) => kindOf(node) === kind).length;
    const change = () => (filter.kinds.has(kind) ? filter.kinds.delete(kind) : filter.kinds.add(kind));
    if (count) chips.push(makeChip(KINDS[kind]?.[1] ?? "Other", count, () => filter.kinds.has(kind), change, kind));
  }
  const waited = nodes.filter((node) => node.waited >= LEAST_WAIT).length;
  const failed = nodes.filter((node) => node.failed).length;
  const flip = (name) => () => {
    filter[name] = !filter[name];
  };
  if (waited) chips.push(makeChip("Waited", waited, () => filter.waited, flip("waited"), "waiting"));
  if (failed) chips.push(makeChip("Failed", failed, () => filter.failed, flip("failed"), "other", "bad"));
  byId("chips").replaceChildren(...chips);
}

function startToolbar() {
  makeChips();
  let typing = 0;
  byId("query").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(
      () => {
        filter.query = byId("query").value.trim();
        filter.pattern = asPattern(filter.query);
        filtersChanged();
        if (selected) showDetails();
      },
      nodes.length > 2000 ? 150 : 40,
    );
  });
  byId("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      moveTo(current);
    }
  });
  for (const name of ["took", "waited"]) {
    byId(`sort-${name}`).addEventListener("click", () => {
      filter.sort = filter.sort === name ? null : name;
      scroller.scrollTop = 0;
      filtersChanged();
    });
  }
  byId("clear").addEventListener("click", clearFilters);
  byId("fold").hidden = axis.gaps.length === 0;
  byId("fold").addEventListener("click", () => axis.fold(!axis.folded));
  byId("open-all").addEventListener("click", openOrCloseAll);
  startRuns();
}

function openOrCloseAll() {
  const shut = isFiltering() ? shutAgain : closed;
  const opens = shut.size > 0;
  shut.clear();
  if (!opens) for (const node of [...nodes, ...groups]) if (node.children.length) shut.add(node);
  refresh();
  byId("open-all").textContent = opens ? "Close all" : "Open all";
}

function startRuns() {
  if (runs.length < 2) return;
  const select = byId("run");
  select.hidden = false;
  select.append(element("option", { value: "" }, `All ${plural(runs.length, "run")}`));
  for (const run of runs)
    select.append(
      element("option", { value: run.key }, `${CLOCK.format(new Date((data.base + run.t) * 1000))}  ${run.name}`),
    );
  select.addEventListener("change", () => {
    filter.run = byKey.get(select.value) ?? null;
    if (filter.run) axis.showTime(filter.run.t, filter.run.end);
    else axis.showAll();
    filtersChanged();
  });
}
