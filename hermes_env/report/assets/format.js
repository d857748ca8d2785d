// Formats numbers, durations and sizes.
function duration(seconds) {
  if (seconds === null) return "…";
  if (seconds < 0.00095) return seconds > 0 ? `${Math.max(1, Math.round(seconds * 1e6))} µs` : "0 ms";
  if (seconds < 0.9995) return `${seconds < 0.00995 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(seconds < 9.995 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor(whole / 60) % 60).padStart(2, "0")} min`;
}

// A time since the beginning, with the precision of the step between ticks.
function offset(seconds, step) {
  if (seconds < 1e-9) return "0";
  if (step >= 1)
    return duration(seconds)
      .replace(/\.0+ s$/, " s")
      .replace(/\.\d+ s$/, (found) => (step % 1 ? found : " s"));
  if (seconds < 1 && step < 0.1) return `${Number((seconds * 1000).toFixed(step < 0.001 ? 1 : 0))} ms`;
  return `${seconds.toFixed(Math.max(0, Math.min(4, Math.ceil(-Math.log10(step) - 1e-9))))} s`;
}

function bytes(count) {
  if (count < 1000) return `${count} B`;
  const power = Math.min(4, Math.floor(Math.log10(count) / 3));
  const scaled = count / 1000 ** power;
  return `${scaled.toFixed(scaled < 9.95 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "long" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const ZONED = new Intl.DateTimeFormat("en-GB", { timeStyle: "long" });

function clock(unix) {
  const date = new Date(unix * 1000);
  return `${CLOCK.format(date)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function day(unix) {
  const date = new Date(unix * 1000);
  return Number.isNaN(date.getTime()) ? "" : `${DAY.format(date)}, ${ZONED.format(date)}`;
}
