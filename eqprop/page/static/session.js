// What the page is about, apart from how it looks: the state that an address holds, and what is asked of the backend.
import { Timeline } from "./timeline.js";

/**
 * @typedef {{relaxation: string, nudge: string, beta: number}} Side
 * @typedef {object} PageState
 * @property {{example: number}|{pixels: number[]}} input
 * @property {number|null} target
 * @property {Side[]} sides one, or two that are compared
 * @property {string} rule
 * @property {number} rate
 * @property {{layer: string, unit: number|null, value: number}[]} clamp what is held by hand
 * @property {number|null} dream the label that is held while the input moves
 * @property {number} seed
 * @property {object[]} did what was learned since the page opened, as "replay" takes it: {kind: "learn", input, target,
 *   times, side, rule, rate}, {kind: "train", updates, side, rule, rate} or {kind: "weights", to, seed}
 */

const LATE = 350; // milliseconds
const MOST_TIMES = 100; // that one message may ask to learn

/** What was done, and one thing more; the same thing again is counted, so that addresses stay short. */
export function alsoDid(did, thing) {
  const last = did[did.length - 1];
  const same = last && thing.kind === "learn" && JSON.stringify({ ...last, times: 0 }) === JSON.stringify({ ...thing, times: 0 });
  if (!same || last.times + thing.times > MOST_TIMES) return [...did, thing];
  return [...did.slice(0, -1), { ...last, times: last.times + thing.times }];
}

export function firstState(hello) {
  const blank = () => ({ pixels: Array(hello.input.shape.reduce((a, b) => a * b, 1)).fill(hello.input.low ?? 0) });
  return {
    input: hello.examples ? { example: 0 } : blank(),
    target: null,
    sides: [{ ...hello.side }],
    rule: hello.rule,
    rate: hello.rate,
    clamp: [],
    dream: null,
    seed: 0,
    did: [],
  };
}

export class Session {
  /** @param {object} events onsettled(how), onfail(sentence), onbusy(yes), onchange(): the state is another */
  constructor(backend, hello, { onsettled, onfail, onbusy, onchange, frameNow }) {
    Object.assign(this, { backend, hello, onsettled, onfail, onbusy, onchange, frameNow });
    this.waiting = 0;
    this.state = firstState(hello);
    this.reply = null;
    this.timeline = null;
    this.fromRest = true;
    this.flying = false;
    this.next = null;
  }

  /** Asks the backend; a refusal is told to the user, and the answer is then null. What takes long shows that it does. */
  async ask(kind, fields) {
    this.waiting++;
    const late = setTimeout(() => this.onbusy(true), LATE);
    try {
      return await this.backend.ask(kind, fields);
    } catch (error) {
      this.onfail(error.message);
      return null;
    } finally {
      clearTimeout(late);
      if (--this.waiting === 0) this.onbusy(false);
    }
  }

  /** Another state; `how` says whether and how to settle again (see `settle`), null: not at all. */
  change(changes, how = {}) {
    Object.assign(this.state, changes);
    this.onchange();
    if (how) this.settle(how);
  }

  /** The first side, whose nudge and relaxation learn. */
  get side() {
    return this.state.sides[0];
  }

  /** β = 0 is no nudge. */
  get nudged() {
    return this.state.target !== null && this.state.dream === null && this.state.sides.every((side) => side.beta !== 0);
  }

  /**
   * Settles again. One question is under way at a time, and of those that come meanwhile only the newest is asked.
   * @param {object} how here: go on from what is shown, not from rest; free: without the nudge, while a stroke is drawn;
   *   then: "play" | "nudge" (play from where the nudge begins) | "hold" (stay at the end of this phase) | a position
   */
  async settle(how = {}) {
    this.next = how;
    if (this.flying) return;
    this.flying = true;
    while (this.next) {
      const now = this.next;
      this.next = null;
      const { input, sides, clamp, dream, seed, target } = this.state;
      const reply = await this.ask("settle", {
        input, sides, clamp, dream, seed,
        target: now.free || !this.nudged ? null : target,
        start: now.here && this.reply ? { frame: this.frameNow() } : "rest",
      });
      if (!reply || reply.dropped) continue;
      this.fromRest = !now.here || !this.reply;
      this.reply = reply;
      this.settledFor = { dream, target }; // what the frames are of, whatever was chosen since
      this.timeline = new Timeline(reply.sides);
      this.onsettled(now);
    }
    this.flying = false;
  }

  /** One or more steps of learning on what is shown. */
  async learn(times) {
    const { input, target, rule, rate } = this.state;
    const asked = { input, target, times, side: { ...this.side }, rule, rate };
    const reply = await this.ask("learn", asked);
    if (reply) this.change({ did: alsoDid(this.state.did, { kind: "learn", ...asked }) }, { here: true, then: "play" });
    return reply;
  }

  async weights(to, seed) {
    const reply = await this.ask("weights", { to, seed });
    if (reply) this.change({ did: to === "opened" ? [] : [{ kind: "weights", to, seed }] }, {});
    return reply;
  }

  /** The weights of a shared address, or of before the server went away. */
  async replay() {
    return this.state.did.length ? this.ask("replay", { did: this.state.did }) : null;
  }
}
