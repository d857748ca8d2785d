// The events in the same environment during a wait, the last to end first: most often the holder of the lock.
function blockersOf(node) {
  if (!node.waited) return [];
  const until = node.t + node.waited;
  const above = new Set();
  for (let up = node; up; up = up.parent) above.add(up);
  const found = nodes.filter(
    (other) =>
      !above.has(other) &&
      other.run === node.run &&
      other.facts.environment === node.facts.environment &&
      other.facts.session === node.facts.session &&
      ["command", "start"].includes(other.kind) &&
      other.facts.way !== "oneshot" &&
      other.t + other.waited < until &&
      other.end > node.t &&
      other.end <= until + 0.05 &&
      !within(other, node),
  );
  return found.sort((one, other) => other.end - one.end).slice(0, 5);
}

function within(node, ancestor) {
  for (let up = node.parent; up; up = up.parent) if (up === ancestor) return true;
  return false;
}
