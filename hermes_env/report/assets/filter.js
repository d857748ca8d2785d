// The filter: the shown events, their order, and the open ones.
const filter = { query: "", pattern: null, kinds: new Set(), failed: false, waited: false, run: null, sort: null };
const closed = new Set();
const shutAgain = new Set(); // with a filter all events are open, except those closed since

function asPattern(query) {
  return query ? new RegExp(query.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "giu") : null;
}

for (const node of nodes)
  if (node.kind === "tool_call" && node.children.every((child) => !child.failed)) closed.add(node);

function isFiltering() {
  return Boolean(filter.pattern || filter.kinds.size || filter.failed || filter.waited || !axis.whole);
}

// True if a pattern matches a text's pieces. `search`, unlike `test`, always starts at the beginning.
function isIn(pieces, pattern) {
  return pieces.some((piece) => typeof piece === "string" && piece.search(pattern) >= 0);
}

function contains(node, pattern) {
  if (isIn([node.name, node.hint ?? "", String(node.facts.batch_task ?? "")], pattern)) return true;
  const numbers = [node.texts, node.arguments ?? {}, node.result ?? {}].flatMap((shown) => Object.values(shown));
  return numbers.some((number) => isIn(texts()[number], pattern));
}

function matches(node, from, to) {
  if (isGroup(node)) return false;
  if (filter.failed && !node.failed) return false;
  if (filter.waited && !(node.waited >= LEAST_WAIT)) return false;
  if (filter.kinds.size && !filter.kinds.has(kindOf(node))) return false;
  if (node.t > to || node.end < from) return false;
  return !filter.pattern || contains(node, filter.pattern);
}

function topNodes() {
  return filter.run === null ? roots : filter.run.children;
}

// The rows to show: a flat list if sorted, otherwise the tree; a match keeps its parents.
function visibleRows() {
  const filtering = isFiltering();
  const [from, to] = axis.whole ? [-Infinity, Infinity] : [axis.time(axis.from), axis.time(axis.to)];
  const matching = new Set(
    nodes.filter((node) => (filter.run === null || node.run === filter.run.run) && matches(node, from, to)),
  );
  const rows = [];
  if (filter.sort) {
    const value = filter.sort === "took" ? (node) => node.end - node.t : (node) => node.waited;
    for (const node of [...matching].sort((one, other) => value(other) - value(one) || byTime(one, other))) {
      rows.push({ node, level: 1, children: false, open: false, context: false });
    }
    return { rows, count: matching.size };
  }
  const kept = new Set(matching);
  if (filtering)
    for (const node of matching) for (let up = node.parent; up && !kept.has(up); up = up.parent) kept.add(up);
  const stack = [...topNodes()].reverse().map((node) => [node, 1]);
  while (stack.length) {
    const [node, level] = stack.pop();
    if (filtering && !kept.has(node)) continue;
    const children = filtering ? node.children.filter((child) => kept.has(child)) : node.children;
    const open = children.length > 0 && !(filtering ? shutAgain : closed).has(node);
    rows.push({
      node,
      level,
      children: children.length > 0,
      open,
      context: filtering && !matching.has(node) && !isGroup(node),
    });
    if (open) for (let place = children.length - 1; place >= 0; place -= 1) stack.push([children[place], level + 1]);
  }
  return { rows, count: matching.size };
}

function setOpen(node, open) {
  const shut = isFiltering() ? shutAgain : closed;
  if (open) shut.delete(node);
  else shut.add(node);
}

function openTo(node) {
  for (let up = node.parent; up; up = up.parent) setOpen(up, true);
}
