// An event's bar: hatched while waiting for a lock, full while working, and, in an open row, pale while waiting for
// called events.
function percent(part) {
  return `${(part * 100).toFixed(4)}%`;
}

function appendBars(track, { node, open }, width) {
  const [left, right] = [axis.x(node.t), axis.x(node.end)];
  if (right < 0 || left > 1) return;
  const ran = stretch(`ran${node.d === null ? " open" : ""}`, left, right);
  if (isGroup(node)) ran.classList.add("run");
  else if (open) paint(ran, node, left, right, width);
  else ran.classList.add("solid");
  track.append(ran);
  if (!node.held || (open && node.waited < LEAST_WAIT)) return;
  const [from, to] = node.held.map((time) => axis.x(time));
  if ((to - from) * width >= 1) track.append(stretch("waiting", from, to));
}

function stretch(name, from, to) {
  const made = element("i", { class: name });
  const low = Math.max(-0.02, from);
  made.style.left = percent(low);
  made.style.width = percent(Math.max(0, Math.min(1.02, to) - low));
  return made;
}

// Many short pieces become one background. Pieces closer than a pixel are joined.
function paint(bar, node, from, to, width) {
  const low = Math.max(-0.02, from);
  const whole = Math.min(1.02, to) - low;
  const pixels = Math.max(1, whole * width);
  const stops = [];
  let until = -2;
  let since = -2;
  const flush = () => {
    if (until > since)
      stops.push(
        `transparent ${since.toFixed(1)}px`,
        `var(--kind) ${since.toFixed(1)}px ${until.toFixed(1)}px`,
        `transparent ${until.toFixed(1)}px`,
      );
  };
  for (const [leafFrom, leafTo, waits] of node.leaves) {
    if (waits) continue;
    const left = ((axis.x(leafFrom) - low) / whole) * pixels;
    const right = ((axis.x(leafTo) - low) / whole) * pixels;
    if (right < 0 || left > pixels || right - left < 0.15) continue;
    if (left > until + 0.5) {
      flush();
      since = Math.max(0, left);
    }
    until = Math.max(until, right);
  }
  flush();
  if (stops.length) bar.style.backgroundImage = `linear-gradient(to right, ${stops.join(", ")})`;
}
