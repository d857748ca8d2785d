// A sweep over all begins and ends. At each moment the events without running children are working (or waiting for a
// lock). The sum of this own time, by kind, is the summary's "Where the time went".
const [ENDS, BEGINS, STARTS_TO_WORK] = [0, 1, 2];

class Sweep {
  constructor() {
    this.shares = Object.fromEntries([...IN_ORDER, "waiting", "idle"].map((kind) => [kind, 0]));
    this.working = Object.fromEntries(IN_ORDER.map((kind) => [kind, 0]));
    this.busy = 0;
    this.waiting = 0;
    this.now = begin;
    this.active = new Set();
    this.inner = new Map(); // the number of running children of each event
    this.leaves = new Map(); // the events without running children: since when, and true if waiting for a lock
  }

  run() {
    for (const [time, what, , node] of this.edges()) {
      this.passTo(time);
      if (what === BEGINS) this.begins(node);
      else if (what === ENDS) this.ends(node);
      else if (this.leaves.has(node)) {
        this.leave(node);
        this.enter(node);
      }
    }
    this.shares.idle += Math.max(0, end - this.now);
    return this.shares;
  }

  edges() {
    const edges = [];
    nodes.forEach((node, order) => {
      if (node.end <= node.t) return;
      edges.push([node.t, BEGINS, order, node], [node.end, ENDS, -order, node]);
      const turn = node.t + node.waited;
      if (node.waited > 0 && turn < node.end) edges.push([turn, STARTS_TO_WORK, order, node]);
    });
    return edges.sort((one, other) => one[0] - other[0] || one[1] - other[1] || one[2] - other[2]);
  }

  passTo(time) {
    const passed = time - this.now;
    if (passed > 0 && this.busy) {
      for (const kind of IN_ORDER) this.shares[kind] += (passed * this.working[kind]) / this.busy;
    } else if (passed > 0) this.shares[this.waiting ? "waiting" : "idle"] += passed;
    this.now = time;
  }

  begins(node) {
    if (node.parent) {
      this.inner.set(node.parent, (this.inner.get(node.parent) ?? 0) + 1);
      this.leave(node.parent);
    }
    this.active.add(node);
    this.enter(node);
  }

  ends(node) {
    this.leave(node);
    this.active.delete(node);
    if (!node.parent) return;
    this.inner.set(node.parent, this.inner.get(node.parent) - 1);
    if (this.active.has(node.parent)) this.enter(node.parent);
  }

  enter(node) {
    if ((this.inner.get(node) ?? 0) > 0 || this.leaves.has(node)) return;
    const waits = this.now < node.t + node.waited - 1e-9;
    this.leaves.set(node, { since: this.now, waits });
    this.count(node, waits, 1);
  }

  leave(node) {
    const left = this.leaves.get(node);
    if (!left) return;
    this.leaves.delete(node);
    this.count(node, left.waits, -1);
    if (this.now <= left.since) return;
    node.leaves.push([left.since, this.now, left.waits]);
    node[left.waits ? "waiting" : "self"] += this.now - left.since;
  }

  count(node, waits, change) {
    if (waits) this.waiting += change;
    else {
      this.working[kindOf(node)] += change;
      this.busy += change;
    }
  }
}

const shares = new Sweep().run();
