// A text of an event, such as the output: the beginning at once, the rest on request.
const FIRST = 20000; // characters

function appendTextBlock(parent, head, pieces, { label, numbered = false, bad = false }) {
  const length = pieces.reduce((sum, piece) => sum + (typeof piece === "string" ? piece.length : 0), 0);
  const wraps = !numbered;
  const block = element("pre", {
    class: `text${numbered ? " numbered" : ""}${bad ? " bad" : ""}${wraps ? " wrap" : ""}`,
    tabindex: 0,
    role: "region",
    "aria-label": label,
  });
  const fill = (limit) => {
    block.replaceChildren();
    return numbered ? appendLines(block, pieces, limit) : appendPieces(block, pieces, filter.pattern, limit);
  };
  const wrap = element("button", { type: "button", class: "plain", "aria-pressed": String(wraps) }, "Wrap");
  wrap.addEventListener("click", () => wrap.setAttribute("aria-pressed", String(block.classList.toggle("wrap"))));
  head.append(element("span", { class: "size" }, plural(length, "character")), wrap);
  if (navigator.clipboard) {
    const copy = element("button", { type: "button", class: "plain" }, "Copy");
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(plainOf(pieces)).then(
        () => announce(`${label} copied`),
        () => announce("The browser does not allow copying"),
      );
    });
    head.append(copy);
  }
  parent.append(block);
  if (!fill(isFurtherOn(pieces, FIRST) ? Infinity : FIRST)) {
    const more = element("button", { type: "button", class: "plain more" }, `Show all ${plural(length, "character")}`);
    more.addEventListener("click", () => {
      fill(Infinity);
      block.focus();
      more.remove();
    });
    parent.append(more);
  }
}

// True if the first match of the search is behind the given number of characters.
function isFurtherOn(pieces, limit) {
  const at = filter.pattern ? plainOf(pieces).search(filter.pattern) : -1;
  return at > limit - filter.query.length;
}

function appendLines(block, pieces, limit) {
  let left = limit;
  for (const piece of pieces) {
    if (typeof piece === "number") block.append(gap(piece));
    else {
      for (const text of piece.replace(/\n$/, "").split("\n")) {
        if (left <= 0) return false;
        const row = element("span", { class: "numbered-line" });
        appendText(row, text, [], filter.pattern);
        block.append(row, "\n");
        left -= text.length + 1;
      }
    }
  }
  return true;
}
