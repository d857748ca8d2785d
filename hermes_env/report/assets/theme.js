// The theme: light, dark, or the system's.
const THEME = "hermes-env report theme";

function remembered() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    // a browser may forbid storage to local files
    return null;
  }
}

function setTheme(theme, whenDone) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // the choice then holds only until reload
  }
  whenDone();
}

function startThemes(whenDone) {
  const radios = [...document.querySelectorAll("input[name=theme]")];
  for (const radio of radios) radio.addEventListener("change", () => setTheme(radio.value, whenDone));
  const before = radios.find((radio) => radio.value === remembered());
  if (before) {
    before.checked = true;
    setTheme(before.value, whenDone);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", whenDone);
}

// A colour by name, for a canvas.
function colour(name) {
  const probe = document.body.appendChild(element("i"));
  probe.style.color = `var(--${name})`;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
