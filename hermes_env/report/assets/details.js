// The details of an event.
const panel = byId("details");
const TITLES = {
  error: "Error",
  command: "Command",
  script: "Script",
  arguments: "Arguments",
  output: "Output",
  stderr: "Standard error",
  result: "Result",
  note: "Note",
};
const FACTS = {
  exit_code: "Exit code",
  backend: "Backend",
  target: "Target",
  environment: "Environment",
  task: "Task",
  batch_task: "Batch's task",
  session: "Session",
  way: "Way",
  cwd: "Directory",
  user: "User",
  timeout: "Time limit",
  variables: "Variables",
  input_bytes: "Input",
  tool: "Tool",
  tools: "Tools",
  mode: "Mode",
  transport: "Transport",
  max_tool_calls: "Calls allowed",
  tool_calls: "Calls made",
  operation: "Operation",
  path: "Path",
  local: "Path here",
  bytes: "Size",
  output_bytes: "Output",
  omitted_bytes: "Omitted",
  error_type: "Error's class",
  survivors: "Not ended",
  pty: "Terminal",
  program: "Program",
  pid: "Process id",
  host: "Machine",
  arguments: "Arguments",
};
const CODE = new Set(["cwd", "path", "local", "arguments", "variables", "tools", "program"]);

function factText(key, value) {
  if (key === "timeout" && typeof value === "number") return duration(value);
  if (/(^|_)bytes$/.test(key) && typeof value === "number")
    return value < 1000 ? bytes(value) : `${bytes(value)} (${value.toLocaleString("en")} bytes)`;
  if (Array.isArray(value) && value.every((one) => typeof one !== "object"))
    return value.join(key === "arguments" ? " " : ", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// If the details cover the page, elements behind them are not reachable.
const COVERS = matchMedia("(max-width: 60rem)");
function coverOthers() {
  for (const other of document.querySelectorAll(".top, .summary, .overview, .toolbar, .events"))
    other.inert = COVERS.matches && !panel.hidden;
}
COVERS.addEventListener("change", coverOthers);

function openDetails(node) {
  const opened = panel.hidden;
  markSelected(node);
  panel.hidden = false;
  byId("work").classList.add("split");
  showDetails();
  history.replaceState(null, "", `#${node.key}`);
  coverOthers();
  if (opened) refresh();
  reveal(node);
  if (COVERS.matches) panel.querySelector(".close").focus();
}

// Redraws the details, and scrolls to the first match of the search.
function showDetails() {
  panel.replaceChildren(headOf(selected), ...sectionsOf(selected));
  panel.scrollTop = 0;
  const mark = panel.querySelector(".text mark");
  const block = mark?.closest(".text");
  if (block) block.scrollTop = mark.offsetTop - block.offsetTop - block.clientHeight / 3;
  if (mark) panel.scrollTop = Math.max(0, block.offsetTop + block.offsetHeight - panel.clientHeight + 16);
}

function closeDetails() {
  if (panel.hidden) return false;
  const node = selected;
  markSelected(null);
  panel.hidden = true;
  panel.replaceChildren();
  coverOthers();
  byId("work").classList.remove("split");
  history.replaceState(null, "", location.pathname + location.search);
  refresh();
  moveTo(node);
  return true;
}

function headOf(node) {
  const status = node.status === "success" ? "success" : statusText(node);
  const kicker = [
    element("span", { class: `kind-${kindOf(node)}` }, swatch(), kindLabel(node)),
    element("span", { class: `badge ${tone(node)}` }, status),
  ];
  kicker.push(element("span", {}, node.d === null ? "had not ended" : `took ${duration(node.d)}`));
  return element(
    "header",
    {},
    element(
      "div",
      {},
      element("p", { class: "kicker" }, ...kicker),
      element(
        "h2",
        { id: "details-title" },
        line(node.name, filter.pattern),
        node.hint ? element("span", { class: "hint" }, line(`  ${node.hint}`, filter.pattern)) : null,
      ),
    ),
    element(
      "button",
      { type: "button", class: "plain close", "aria-label": "Close the details", onclick: closeDetails },
      "✕",
    ),
  );
}

function sectionsOf(node) {
  const sections = [];
  if (node.texts.error !== undefined) sections.push(textSection("error", node));
  sections.push(timeSection(node));
  for (const key of ["command", "script"]) if (saysMore(key, node)) sections.push(textSection(key, node));
  if (node.arguments) sections.push(objectSection("arguments", node));
  if (node.result) sections.push(objectSection("result", node));
  for (const key of ["output", "stderr", "result", "note"])
    if (node.texts[key] !== undefined) sections.push(textSection(key, node));
  if (node.children.length) sections.push(callsSection(node));
  if (node.notes) sections.push(notesSection(node));
  sections.push(factsSection(node));
  return sections.filter(Boolean);
}

// The name of a command of one short line is the command.
function saysMore(key, node) {
  return node.texts[key] !== undefined && plainOf(texts()[node.texts[key]]).trim() !== node.name;
}

function section(title, ...children) {
  return element("section", {}, element("div", { class: "section-head" }, element("h3", {}, title)), ...children);
}

function timeSection(node) {
  const waited = node.waiter?.waited ?? node.waited;
  const inside = Math.max(0, node.end - node.t - node.self - waited);
  const parts = [
    ["kind-waiting", "Waited", waited],
    [`kind-${kindOf(node)}`, node.children.length ? "Itself" : "Worked", node.self],
    [`kind-${kindOf(node)} inside`, "In called events", node.children.length ? inside : 0],
  ];
  const shownParts = parts.filter(([, , seconds]) => seconds > 0);
  const bar = element("div", { class: "split-bar", "aria-hidden": "true" });
  const list = element("ul", { class: "split-list" });
  for (const [name, label, seconds] of shownParts) {
    bar.appendChild(element("i", { class: name })).style.flex = `${seconds / (node.end - node.t)} 0 0`;
    list.append(element("li", { class: name }, swatch(), `${label} `, element("b", {}, duration(seconds))));
  }
  const facts = element("dl", { class: "facts" });
  fact(facts, "Began", `${duration(node.t - begin)} after the beginning, at ${clock(data.base + node.t)}`);
  if (node.approval) fact(facts, "Approval", `somebody was asked for ${duration(node.approval)}`);
  if (node.parent && !isGroup(node.parent))
    facts.append(element("dt", {}, "Part of"), element("dd", {}, linkTo(node.parent)));
  const blockers = blockersOf(node.waiter ?? node);
  if (blockers.length)
    facts.append(
      element("dt", {}, "Waited behind"),
      element("dd", {}, ...blockers.flatMap((other, place) => [place ? "\n" : "", linkTo(other)])),
    );
  return isGroup(node)
    ? section("Time", facts)
    : section("Time", ...(shownParts.length > 1 ? [bar, list] : []), facts);
}

function fact(list, label, value, code = false) {
  list.append(element("dt", {}, line(label)), element("dd", { class: code ? "code" : null }, line(value)));
}

function factsSection(node) {
  const facts = element("dl", { class: "facts" });
  const all = node.kind === "run" ? { program: node.program, pid: node.pid, host: node.host } : node.facts;
  for (const key of new Set([...Object.keys(FACTS), ...Object.keys(all)])) {
    const value = all[key];
    if (value === undefined || value === null || (Array.isArray(value) && !value.length)) continue;
    fact(facts, FACTS[key] ?? key.replaceAll("_", " "), factText(key, value), CODE.has(key));
  }
  return facts.children.length ? section("Particulars", facts) : null;
}

function linkTo(node) {
  return element(
    "button",
    { type: "button", class: "link", onclick: () => visit(node) },
    isGroup(node) ? null : element("span", { class: "quiet" }, `${kindLabel(node)} `),
    line(node.name),
  );
}

function visit(node) {
  if (!places.has(node)) {
    if (isFiltering() || filter.sort) clearFilters();
    openTo(node);
    refresh();
  }
  moveTo(node);
  openDetails(node);
}

function textSection(key, node) {
  const pieces = texts()[node.texts[key]];
  const title = TITLES[key];
  const made = section(title);
  appendTextBlock(made, made.firstChild, pieces, { label: title, numbered: key === "script", bad: key === "error" });
  return made;
}

function objectSection(key, node) {
  const made = section(TITLES[key]);
  const facts = element("dl", { class: "facts" });
  const blocks = [];
  for (const [name, number] of Object.entries(node[key])) {
    const pieces = texts()[number];
    const length = pieces.reduce((sum, piece) => sum + (typeof piece === "number" ? 1000 : piece.length), 0);
    if (length <= 160 && !pieces.some((piece) => String(piece).includes("\n"))) {
      const value = element("dd", { class: "code" });
      appendPieces(value, pieces.length ? pieces : ["(empty)"], filter.pattern, FIRST);
      facts.append(element("dt", {}, line(name)), value);
    } else blocks.push([name, pieces]);
  }
  if (facts.children.length) made.append(facts);
  for (const [name, pieces] of blocks) {
    const head = element("div", { class: "section-head" }, element("h4", { class: "size" }, line(name)));
    made.append(head);
    appendTextBlock(made, head, pieces, { label: `${TITLES[key]}: ${name}` });
  }
  return made;
}

// The called events by name, the longest total first.
function callsSection(node) {
  const groups = new Map();
  for (const child of node.children) {
    const name = child.facts.tool ?? (node.children.length > 12 ? child.kind : child.name);
    const group = groups.get(name) ?? { name, count: 0, seconds: 0, longest: child };
    group.count += 1;
    group.seconds += child.end - child.t;
    if (child.end - child.t > group.longest.end - group.longest.t) group.longest = child;
    groups.set(name, group);
  }
  const sorted = [...groups.values()].sort((one, other) => other.seconds - one.seconds);
  const table = element("table", { class: "calls" });
  const headings = ["", "Times", "Together", "Longest"];
  table.append(
    element(
      "thead",
      {},
      element("tr", {}, ...headings.map((text, place) => element("th", { scope: "col" }, place ? text : "What"))),
    ),
  );
  const rows = element("tbody");
  for (const { name, count, seconds, longest } of sorted.slice(0, 30)) {
    const link = element(
      "button",
      {
        type: "button",
        class: "link",
        "aria-label": `${duration(longest.end - longest.t)}, the longest of ${name}`,
        onclick: () => visit(longest),
      },
      duration(longest.end - longest.t),
    );
    rows.append(
      element(
        "tr",
        {},
        element("td", {}, line(name)),
        element("td", {}, String(count)),
        element("td", {}, duration(seconds)),
        element("td", {}, link),
      ),
    );
  }
  table.append(rows);
  return section(node.kind === "script" ? "Calls" : "Steps", table);
}

function notesSection(node) {
  const list = element("ul", { class: "links" });
  for (const { t, text, done, total } of node.notes.slice(-200)) {
    const size =
      typeof done === "number" ? ` ${bytes(done)}${typeof total === "number" ? ` of ${bytes(total)}` : ""}` : "";
    list.append(
      element(
        "li",
        {},
        element("div", {}, line(`${text ?? ""}${size}`)),
        element("span", {}, `+${duration(Math.max(0, t - node.t))}`),
      ),
    );
  }
  return section("Progress", list);
}
