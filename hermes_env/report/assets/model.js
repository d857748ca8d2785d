// The model: the tree of events, and the time of each event by use.
const KINDS = {
  script: ["script", "Scripts"],
  tool_call: ["tool", "Tool calls"],
  command: ["command", "Commands"],
  process: ["process", "Processes"],
  transfer: ["transfer", "Transfers"],
  file: ["file", "Files"],
  start: ["start", "Starts"],
};
const IN_ORDER = [...Object.keys(KINDS), "other"];
const FINE = new Set(["success", "unfinished"]);
const LEAST_WAIT = 0.001; // seconds; shorter waits are noise
const UNSURE = new Set(["unfinished", "interrupted", "cancelled"]);

const data = JSON.parse(byId("events-data").textContent);
let parsedTexts = null;
function texts() {
  // parsed on first use: the texts are most of the page
  parsedTexts ??= JSON.parse(byId("texts-data").textContent);
  return parsedTexts;
}

// A run, or a task of a batch: a group of events.
function isGroup(node) {
  return node.kind === "run" || node.kind === "task";
}

function eventsOf(node) {
  return isGroup(node) ? node.children.flatMap(eventsOf) : [node];
}

function kindOf(node) {
  return node.kind in KINDS || isGroup(node) ? node.kind : "other";
}

function kindLabel(node) {
  return KINDS[node.kind]?.[0] ?? node.kind.replaceAll("_", " ");
}

function runName(run) {
  return `${run.program ?? "run"}`;
}

const nodes = data.events.map((event, index) => ({
  ...event,
  key: `e${index}`,
  children: [],
  self: 0,
  waiting: 0,
  leaves: [],
}));
function group(kind, key, run, name, more) {
  const empty = { d: 0, status: "success", texts: {}, facts: {}, children: [], self: 0, waiting: 0, leaves: [] };
  return { kind, key, run, name, ...empty, ...more };
}

const runs = data.runs.map((run, index) => {
  const began = CLOCK.format(new Date((data.base + run.t) * 1000));
  const hint = [began, run.pid && `process ${run.pid}`].filter(Boolean).join("  ");
  return group("run", `r${index}`, index, runName(run), { ...run, hint });
});
const roots = [];
for (const node of nodes) {
  const run = runs[node.run];
  node.parent = node.parent === null ? null : nodes[node.parent];
  node.failed = !FINE.has(node.status) && !UNSURE.has(node.status);
  node.end = node.t + (node.d ?? Math.max(0, run.last - node.t));
  node.waited = Math.min(node.waited ?? 0, node.end - node.t);
  run.t = Math.min(run.t, node.t);
  run.end = Math.max(run.end ?? run.last, node.end);
  if (node.parent) node.parent.children.push(node);
  else run.children.push(node);
}
for (const run of runs) {
  run.end ??= run.last;
  run.d = run.end - run.t;
}
// The tasks of a batch. The start of an environment belongs to the first task of the environment.
const tasks = new Map();
const placeOf = (node) => JSON.stringify([node.run, node.facts.environment]);
const firstTasks = new Map();
for (const node of nodes) {
  const task = node.facts.batch_task;
  if (task !== undefined && !firstTasks.has(placeOf(node))) firstTasks.set(placeOf(node), task);
}
for (const run of runs) {
  const children = [];
  for (const node of run.children) {
    const name = node.facts.batch_task ?? (node.kind === "start" ? firstTasks.get(placeOf(node)) : undefined);
    if (name === undefined) {
      children.push(node);
      continue;
    }
    const known = JSON.stringify([run.run, name]);
    if (!tasks.has(known)) {
      tasks.set(known, group("task", `t${tasks.size}`, run.run, String(name), { t: node.t, end: node.end }));
      children.push(tasks.get(known));
    }
    const task = tasks.get(known);
    task.t = Math.min(task.t, node.t);
    task.end = Math.max(task.end, node.end);
    task.children.push(node);
    node.parent = task;
  }
  run.children = children;
}
for (const task of tasks.values()) {
  const failures = task.children.filter((node) => node.failed).length;
  task.d = task.end - task.t;
  task.status = failures ? `${failures} failed` : "success";
}
const byTime = (one, other) => one.t - other.t;
const groups = [...runs, ...tasks.values()];
for (const node of [...nodes, ...groups]) node.children.sort(byTime);
if (runs.length > 1) {
  for (const run of runs) for (const child of run.children) child.parent = run;
  roots.push(...runs.sort(byTime));
} else roots.push(...runs[0].children);
// The event that waited for a lock: the event, or its only child.
for (const node of [...nodes].reverse()) {
  if (node.waited >= LEAST_WAIT) node.waiter = node;
  else if (node.children.length === 1) node.waiter = node.children[0].waiter;
  if (node.waiter) node.held = [node.waiter.t, node.waiter.t + node.waiter.waited];
}
const byKey = new Map([...nodes, ...groups].map((node) => [node.key, node]));
const begin = Math.min(...runs.map((run) => run.t));
const end = runs.reduce((latest, run) => Math.max(latest, run.end), begin);

for (const node of nodes) {
  // parents precede children
  node.depth = node.parent && !isGroup(node.parent) ? node.parent.depth + 1 : 0;
}
