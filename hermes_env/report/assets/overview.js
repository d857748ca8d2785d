// The overview strip: the kinds of work at each moment, and two handles around the shown range.
const strip = byId("overview");
const handles = { from: byId("handle-from"), to: byId("handle-to") };

// The share of each kind in each column of pixels; concurrent events are stacked.
function activity(columns) {
  const kinds = [...IN_ORDER, "waiting"];
  const sums = Object.fromEntries(kinds.map((kind) => [kind, new Float64Array(columns)]));
  const failures = new Uint8Array(columns);
  const column = (time) => (axis.place(time) / axis.length) * columns;
  for (const node of nodes) {
    if (node.failed && (!node.parent || !node.children.length))
      failures[Math.min(columns - 1, Math.max(0, Math.floor(column(node.end))))] = 1;
    for (const [since, until, waits] of node.leaves) {
      const sum = sums[waits ? "waiting" : kindOf(node)];
      const [left, right] = [column(since), column(until)];
      for (let at = Math.floor(left); at < Math.min(columns, Math.ceil(right)); at += 1)
        sum[at] += Math.min(right, at + 1) - Math.max(left, at);
    }
  }
  return { sums, failures };
}

function drawOverview() {
  const canvas = byId("activity");
  const { width, height } = strip.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  const [columns, rows] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  [canvas.width, canvas.height] = [columns, rows];
  const pen = canvas.getContext("2d");
  const { sums, failures } = activity(columns);
  let most = 1;
  for (let at = 0; at < columns; at += 1)
    most = Math.max(
      most,
      Object.values(sums).reduce((sum, kind) => sum + kind[at], 0),
    );
  const inner = rows - 14 * scale;
  const base = rows - 7 * scale;
  const heights = new Float64Array(columns);
  for (const [kind, sum] of Object.entries(sums)) {
    pen.fillStyle = colour(kind);
    pen.globalAlpha = kind === "waiting" ? 0.35 : 1;
    for (let at = 0; at < columns; at += 1) {
      if (sum[at] <= 0) continue;
      const tall = Math.max(scale, (sum[at] / most) * inner);
      pen.fillRect(at, base - heights[at] - tall, 1, tall);
      heights[at] += tall;
    }
  }
  pen.globalAlpha = 1;
  pen.fillStyle = colour("line-strong");
  for (const segment of axis.segments.filter((one) => one.gap)) {
    const middle = Math.round(((segment.p0 + segment.p1) / 2 / axis.length) * columns);
    for (let at = 3 * scale; at < rows - 3 * scale; at += 5 * scale) pen.fillRect(middle, at, scale, 2 * scale);
  }
  pen.fillStyle = colour("bad");
  for (let at = 0; at < columns; at += 1)
    if (failures[at]) pen.fillRect(at - scale, rows - 5 * scale, 3 * scale, 3 * scale);
}

function placeHandles() {
  const [from, to] = [axis.from / axis.length, axis.to / axis.length];
  handles.from.style.left = `${from * 100}%`;
  handles.to.style.left = `${to * 100}%`;
  byId("shade-before").style.cssText = `left:0;width:${from * 100}%`;
  byId("shade-after").style.cssText = `left:${to * 100}%;right:0`;
  strip.classList.toggle("whole", axis.whole);
  byId("unzoom").hidden = axis.whole;
  for (const [name, place] of [
    ["from", axis.from],
    ["to", axis.to],
  ]) {
    handles[name].setAttribute("aria-valuemin", "0");
    handles[name].setAttribute("aria-valuemax", "1000");
    handles[name].setAttribute("aria-valuenow", String(Math.round((place / axis.length) * 1000)));
    handles[name].setAttribute("aria-valuetext", `${duration(axis.time(place) - begin)} after the beginning`);
  }
}

function moveHandle(name, place) {
  if (name === "from") axis.show(Math.min(place, axis.to - axis.length * 0.001), axis.to);
  else axis.show(axis.from, Math.max(place, axis.from + axis.length * 0.001));
}

function startOverview() {
  const placeAt = (event) => {
    const { left, width } = strip.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - left) / width)) * axis.length;
  };
  strip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const handle = Object.keys(handles).find((name) => handles[name] === event.target);
    const first = placeAt(event);
    let dragged = false;
    strip.setPointerCapture(event.pointerId);
    const move = (moved) => {
      const place = placeAt(moved);
      if (Math.abs(moved.clientX - event.clientX) > 3) dragged = true;
      if (!dragged) return;
      if (handle) moveHandle(handle, place);
      else axis.show(Math.min(first, place), Math.max(first, place));
    };
    strip.addEventListener("pointermove", move);
    const stop = () => strip.removeEventListener("pointermove", move);
    strip.addEventListener("pointerup", stop, { once: true });
    strip.addEventListener("pointercancel", stop, { once: true });
  });
  strip.addEventListener("dblclick", () => axis.showAll());
  for (const [name, handle] of Object.entries(handles)) {
    handle.addEventListener("keydown", (event) => {
      const step = axis.length * (event.shiftKey ? 0.1 : 0.01);
      const place = axis[name];
      const places = {
        ArrowLeft: place - step,
        ArrowDown: place - step,
        ArrowRight: place + step,
        ArrowUp: place + step,
        PageDown: place - 10 * step,
        PageUp: place + 10 * step,
        Home: 0,
        End: axis.length,
      };
      if (!(event.key in places)) return;
      event.preventDefault();
      event.stopPropagation();
      moveHandle(name, places[event.key]);
    });
  }
  byId("unzoom").addEventListener("click", () => {
    axis.showAll();
    byId("handle-from").focus();
  });
  new ResizeObserver(onNextFrame(drawOverview)).observe(strip);
}
