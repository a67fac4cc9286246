// The steps of all phases in a row, and of two sides in step with each other.

/**
 * @param {{phases: {name: string, beta: number, first: number, last: number}[]}[]} sides as "settle" answers
 * Each phase lasts as long as on the side where it takes longest; the other one waits at its end.
 */
export class Timeline {
  constructor(sides) {
    this.sides = sides;
    const most = Math.max(...sides.map((side) => side.phases.length));
    this.phases = [];
    let first = 0;
    for (let p = 0; p < most; p++) {
      const having = sides.filter((side) => p < side.phases.length);
      const length = Math.max(...having.map(({ phases }) => phases[p].last - phases[p].first + 1));
      this.phases.push({ ...having[0].phases[p], first, last: first + length - 1 });
      first += length;
    }
    this.length = first;
  }

  /** The index of the phase at position k. */
  phaseAt(k) {
    const p = this.phases.findIndex((phase) => k <= phase.last);
    return p < 0 ? this.phases.length - 1 : p;
  }

  /** The frame of a side's arrays at position k. */
  frame(side, k) {
    const p = this.phaseAt(k);
    const { phases } = this.sides[side];
    if (p >= phases.length) return phases[phases.length - 1].last;
    return Math.min(phases[p].first + k - this.phases[p].first, phases[p].last);
  }

  /** Whether the state goes on from position k to the next without a jump: a second nudge begins anew. */
  joins(k) {
    return k + 1 < this.length && (this.phaseAt(k) === this.phaseAt(k + 1) || this.phaseAt(k) === 0);
  }

  /** The last frame of a side's free phase. */
  freeEnd(side) {
    return this.sides[side].phases[0].last;
  }
}
