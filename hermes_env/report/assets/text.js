// Texts of the record as elements: with colours, marks of missing text, and without bidirectional or hidden characters.
const SPECIAL =
  /\x1b\[([0-9;:]*)m|\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;
const STYLES = { 1: "sgr-bold", 2: "sgr-dim", 3: "sgr-italic", 4: "sgr-underline" };

function controlName(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function restyled(styles, codes) {
  let kept = styles;
  const numbers = (codes || "0").split(/[;:]/).map(Number);
  for (let place = 0; place < numbers.length; place += 1) {
    const code = numbers[place];
    if (code === 0) kept = [];
    else if (STYLES[code]) kept = [...kept.filter((style) => style !== STYLES[code]), STYLES[code]];
    else if (code === 22) kept = kept.filter((style) => style !== "sgr-bold" && style !== "sgr-dim");
    else if (code === 23) kept = kept.filter((style) => style !== "sgr-italic");
    else if (code === 24) kept = kept.filter((style) => style !== "sgr-underline");
    else if (code === 39) kept = kept.filter((style) => !/^sgr-\d/.test(style));
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97))
      kept = [...kept.filter((style) => !/^sgr-\d/.test(style)), `sgr-${code}`];
    else if (code === 38 || code === 48) place += numbers[place + 1] === 5 ? 2 : 4;
  }
  return kept;
}

// A text for a single line: controls by name, matches of the search marked.
function line(text, pattern = null) {
  const made = document.createDocumentFragment();
  appendText(made, text, [], pattern);
  return made;
}

function appendText(parent, given, styles, pattern) {
  const text = String(given); // a foreign record may have any type here
  let begin = 0;
  let now = styles;
  const plain = (part) => {
    if (!part) return;
    const into = now.length ? parent.appendChild(element("span", { class: now.join(" ") })) : parent;
    appendMarked(into, part, pattern);
  };
  for (const found of text.matchAll(SPECIAL)) {
    plain(text.slice(begin, found.index));
    begin = found.index + found[0].length;
    if (found[1] !== undefined) now = restyled(now, found[1]);
    else if (found[0] === "\r\n") parent.append("\n");
    else parent.append(element("span", { class: "ctl" }, controlName(found[0])));
  }
  plain(text.slice(begin));
  return now;
}

function appendMarked(parent, text, pattern) {
  if (!pattern) {
    parent.append(text);
    return;
  }
  let begin = 0;
  for (const found of text.matchAll(pattern)) {
    parent.append(text.slice(begin, found.index), element("mark", {}, found[0]));
    begin = found.index + found[0].length;
  }
  parent.append(text.slice(begin));
}

function gap(missing) {
  return element("span", { class: "gap" }, `${bytes(missing)} missing here`);
}

// The first `limit` characters of a text; `whole` is true if the text is complete.
function appendPieces(parent, pieces, pattern, limit) {
  let left = limit;
  let styles = [];
  for (const piece of pieces) {
    if (left <= 0) return false;
    if (typeof piece === "number") parent.append(gap(piece));
    else {
      const shown = piece.length > left ? piece.slice(0, left) : piece;
      styles = appendText(parent, shown, styles, pattern);
      left -= shown.length;
      if (shown.length < piece.length) return false;
    }
  }
  return true;
}

function plainOf(pieces) {
  return pieces.map((piece) => (typeof piece === "number" ? `\n[${bytes(piece)} missing here]\n` : piece)).join("");
}
