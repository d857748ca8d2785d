// The summary of the whole record.
function figure(label, value, extra = "") {
  return element("div", { class: extra }, element("dt", {}, label), element("dd", {}, value));
}

function wordsFor(count, kind) {
  const words = {
    script: ["Script", "Scripts"],
    tool_call: ["Tool call", "Tool calls"],
    command: ["Command", "Commands"],
  }[kind];
  return words[count === 1 ? 0 : 1];
}

function showSummary() {
  const count = (test) => nodes.filter(test).length;
  const failed = count((node) => node.failed);
  const output = nodes.reduce((sum, node) => sum + (Number(node.facts.output_bytes) || 0), 0);
  const figures = [figure("Took", duration(end - begin))];
  for (const kind of ["script", "tool_call", "command"]) {
    const many = count((node) => node.kind === kind);
    if (many) figures.push(figure(wordsFor(many, kind), many.toLocaleString("en")));
  }
  figures.push(figure("Failed", failed.toLocaleString("en"), failed ? "bad" : ""));
  if (output) figures.push(figure("Output", bytes(output)));
  byId("totals").replaceChildren(...figures);
  showAbout();
  showShares();
  showNotices();
}

function showAbout() {
  const many = data.runs.length > 1;
  const programs = [...new Set(data.runs.map(runName))];
  const hosts = [...new Set(data.runs.map((run) => run.host).filter(Boolean))];
  const places = [...new Set(nodes.map((node) => node.facts.backend).filter(Boolean))];
  const parts = [
    many ? plural(data.runs.length, "run") : null,
    tasks.size ? plural(tasks.size, "task") : null,
    programs.slice(0, 3).join(", ") + (programs.length > 3 ? "…" : ""),
    places.length ? `on ${places.join(", ")}` : null,
    hosts.length === 1 ? `from ${hosts[0]}` : null,
    day(data.base),
  ];
  byId("about").replaceChildren(line(parts.filter(Boolean).join(" · ")));
}

const SHARE_LABELS = {
  ...Object.fromEntries(Object.entries(KINDS).map(([kind, [, many]]) => [kind, many])),
  script: "Scripts themselves",
  tool_call: "Tools themselves",
  other: "Other",
  waiting: "Waiting",
  idle: "Idle",
};

function showShares() {
  const all = Object.values(shares).reduce((sum, share) => sum + share, 0);
  const shown = Object.entries(shares).filter(([, share]) => share > all * 0.0005);
  if (!shown.length) return;
  const bar = element("div", { class: "bar", "aria-hidden": "true" });
  const list = element("ul", { "aria-label": "Where the time went", tabindex: 0 });
  for (const [kind, share] of shown) {
    const part = bar.appendChild(element("i", { class: `kind-${kind}` }));
    part.style.flex = `${share / all} 0 0`;
    list.append(
      element("li", { class: `kind-${kind}` }, swatch(), `${SHARE_LABELS[kind]} `, element("b", {}, duration(share))),
    );
  }
  byId("shares").replaceChildren(bar, list);
}

function showNotices() {
  const notices = [];
  const unfinished = nodes.filter((node) => node.status === "unfinished").length;
  if (unfinished) notices.push(`${plural(unfinished, "event")} had not ended when the record was read.`);
  if (data.damaged) {
    const named = data.damages.slice(0, 3).map(([number, what]) => `line ${number} is ${what}`);
    notices.push(
      `${plural(data.damaged, "line")} could not be read: ${named.join("; ")}${data.damaged > 3 ? "; …" : ""}.`,
    );
  }
  byId("notices").replaceChildren(...notices.map((text) => element("p", { class: "notice" }, line(text))));
}
