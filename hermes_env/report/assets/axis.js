// The time axis: maps times to positions, with folded idle times and a zoomed range.
const FOLD_WIDTH = 0.015;

class Axis {
  constructor() {
    this.gaps = this.findGaps();
    this.folded = false;
    this.listeners = [];
    this.fold(this.gaps.reduce((sum, [from, to]) => sum + to - from, 0) > 0.35 * (end - begin));
  }

  // Idle times long enough to fold, between top-level events.
  findGaps() {
    const busy = roots.flatMap((root) => eventsOf(root)).sort(byTime);
    const gaps = [];
    let until = begin;
    for (const node of busy) {
      if (node.t > until) gaps.push([until, node.t]);
      until = Math.max(until, node.end);
    }
    const idle = gaps.reduce((sum, [from, to]) => sum + to - from, 0);
    const least = Math.max(0.02, 0.04 * (end - begin - idle));
    return gaps.filter(([from, to]) => to - from > least && from > begin);
  }

  fold(folded) {
    const [from, to] = this.segments ? [this.time(this.from), this.time(this.to)] : [begin, end];
    this.folded = folded && this.gaps.length > 0;
    const gaps = this.folded ? this.gaps : [];
    const idle = gaps.reduce((sum, gapHere) => sum + gapHere[1] - gapHere[0], 0);
    const width = Math.max((end - begin - idle) * Math.min(FOLD_WIDTH, 0.3 / Math.max(1, gaps.length)), 1e-6);
    this.segments = [];
    let [time, place] = [begin, 0];
    const add = (until, length, isGap) => {
      this.segments.push({ t0: time, t1: until, p0: place, p1: place + length, gap: isGap });
      [time, place] = [until, place + length];
    };
    for (const [gapFrom, gapTo] of gaps) {
      if (gapFrom > time) add(gapFrom, gapFrom - time, false);
      add(gapTo, width, true);
    }
    if (end > time || !this.segments.length) add(Math.max(end, time), Math.max(end - time, 1e-6), false);
    this.length = place;
    this.from = this.whole || this.whole === undefined ? 0 : this.place(from);
    this.to = this.whole || this.whole === undefined ? this.length : this.place(to);
    this.whole = this.from <= 0 && this.to >= this.length;
    this.changed();
  }

  segment(value, key) {
    let [low, high] = [0, this.segments.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.segments[middle][key] < value) low = middle + 1;
      else high = middle;
    }
    return this.segments[low];
  }

  place(time) {
    const { t0, t1, p0, p1 } = this.segment(time, "t1");
    return t1 > t0 ? p0 + Math.max(0, Math.min(1, (time - t0) / (t1 - t0))) * (p1 - p0) : p0;
  }

  time(place) {
    const { t0, t1, p0, p1 } = this.segment(place, "p1");
    return p1 > p0 ? t0 + Math.max(0, Math.min(1, (place - p0) / (p1 - p0))) * (t1 - t0) : t0;
  }

  // The position of a time in the shown range: 0 is the beginning, 1 the end.
  x(time) {
    return (this.place(time) - this.from) / (this.to - this.from);
  }

  show(from, to) {
    const least = Math.max(this.length * 1e-5, 1e-6);
    const middle = (from + to) / 2;
    const [low, high] = to - from < least ? [middle - least / 2, middle + least / 2] : [from, to];
    this.from = Math.max(0, Math.min(low, this.length - least));
    this.to = Math.min(this.length, Math.max(high, least));
    this.whole = this.from <= this.length * 1e-6 && this.to >= this.length * (1 - 1e-6);
    this.changed();
  }

  showTime(from, to) {
    const [low, high] = [this.place(from), this.place(to)];
    const margin = (high - low) * 0.03;
    this.show(low - margin, high + margin);
  }

  showAll() {
    this.show(0, this.length);
  }

  changed() {
    for (const listener of this.listeners) listener();
  }

  // Labels at round times, at least `apart` pixels apart.
  ticks(width, apart = 74) {
    if (width < 1) return [];
    const step = roundUp(((this.to - this.from) * apart) / width);
    const found = [];
    const inView = this.segments.filter(({ p0, p1, gap: isGap }) => isGap && p1 > this.from && p0 < this.to).length;
    if (inView > 3) return this.evenTicks(width, apart * 1.3, inView < 30);
    for (const { t0, t1, p0, p1, gap: isGap } of this.segments) {
      if (p1 <= this.from || p0 >= this.to) continue;
      if (isGap) {
        found.push({ x: this.x((t0 + t1) / 2), fold: true });
        continue;
      }
      const first = Math.max(t0, this.time(Math.max(p0, this.from)));
      const last = Math.min(t1, this.time(Math.min(p1, this.to)));
      for (
        let count = Math.ceil((first - begin) / step - 1e-6);
        begin + count * step <= last + step * 1e-6;
        count += 1
      ) {
        const x = this.x(begin + count * step);
        const before = found.findLast((tick) => !tick.fold);
        if (!before || (x - before.x) * width >= apart * 0.95) found.push({ x, text: offset(count * step, step) });
      }
    }
    return found;
  }

  // With much folded time, most round times are inside the folds.
  evenTicks(width, apart, withFolds) {
    const found = withFolds
      ? this.segments.filter((one) => one.gap).map(({ t0, t1 }) => ({ x: this.x((t0 + t1) / 2), fold: true }))
      : [];
    const count = Math.max(1, Math.floor(width / apart));
    for (let at = 0; at < count; at += 1) {
      const since = this.time(this.from + (at / count) * (this.to - this.from)) - begin;
      found.push({ x: at / count, text: since < 1e-6 ? "0" : duration(since) });
    }
    return found.filter(({ x }) => x >= 0 && x <= 1);
  }
}

function roundUp(value) {
  for (const step of [60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400]) {
    if (value > 30 && value <= step) return step;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= value * (1 - 1e-9)) ?? value;
}

const axis = new Axis();
