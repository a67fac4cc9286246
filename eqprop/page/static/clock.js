// What moves the page on: a position along the timeline that plays, pauses, steps and is scrubbed.
import { iconButton, icon, ICONS, make, select, setText } from "./dom.js";

export const SPEEDS = [1, 2, 4, 8, 15, 30, 60]; // steps a second

const RUSH = 30;

export class Clock {
  /** @param onmove (position, whole) is called in each frame in which the position, a number of steps, has changed. */
  constructor(onmove) {
    this.onmove = onmove;
    this.length = 1;
    this.until = 0;
    this.position = 0;
    this.speed = 8;
    this.playing = false;
    this.rush = false; // while a stroke is drawn the state keeps up with the hand, and a long way is not waited for
    this.shown = NaN;
    this.before = 0;
    this.request = 0;
    this.onstate = () => {};
  }

  /** A new timeline; `at` is where to go on. */
  reset(length, at) {
    this.length = length;
    this.until = length - 1;
    this.seek(at);
    this.shown = NaN;
    this.wake();
  }

  seek(at) {
    this.position = Math.min(Math.max(at, 0), this.length - 1);
    this.wake();
  }

  /** Plays to the end, or until an earlier position; or stops. */
  play(on = true, until = this.length - 1) {
    this.until = until;
    if (on && this.position >= this.length - 1) this.position = 0;
    this.playing = on;
    if (!on) this.position = Math.round(this.position); // what stands still is a state that the network was in
    this.before = performance.now();
    this.onstate();
    this.wake();
  }

  step(by) {
    const from = by > 0 ? Math.floor(this.position) : Math.ceil(this.position);
    if (this.playing) this.play(false);
    this.seek(from + by);
  }

  wake() {
    if (!this.request) this.request = requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    this.request = 0;
    if (this.playing) {
      const seconds = Math.min(Math.max(now - this.before, 0), 100) / 1000; // a tab that was hidden does not leap
      this.before = now;
      this.position = Math.min(this.position + seconds * (this.rush ? Math.max(this.speed, RUSH) : this.speed), this.until);
      if (this.position >= this.until) {
        this.playing = false;
        this.onstate();
      }
    }
    if (this.position !== this.shown) {
      this.shown = this.position;
      this.onmove(this.position);
    }
    if (this.playing) this.wake();
  }

  close() {
    cancelAnimationFrame(this.request);
    this.request = -1;
  }
}

/** The buttons, the scrubber and the speed. `show(timeline, position)` is called as the clock moves. */
export function clockDeck(clock, { onspeed, onrewind, onpause }) {
  const play = make("button", { type: "button", class: "play", onclick: () => clock.play(!clock.playing) });
  const scrub = make("input", {
    type: "range", class: "scrub", min: 0, step: 1, value: 0, "aria-label": "Step",
    oninput: () => {
      if (clock.playing) clock.play(false);
      clock.seek(Number(scrub.value));
    },
  });
  const track = make("div", { class: "track", "aria-hidden": "true" });
  const phase = make("span", { class: "phase" });
  const count = make("span", { class: "count" });
  const speeds = SPEEDS.map((speed) => [String(speed), speed === 1 ? "1 step / s" : `${speed} steps / s`]);
  const speed = select("Speed", speeds, String(clock.speed), (value) => onspeed(Number(value)));
  const element = make("section", { class: "deck", "aria-label": "Time" },
    make("div", { class: "buttons" },
      iconButton("first", "Rewind (R)", onrewind, true),
      iconButton("back", "One step back (left arrow)", () => clock.step(-1)),
      play,
      iconButton("next", "One step on (right arrow)", () => clock.step(1)),
      iconButton("last", "To the end (End)", () => { clock.play(false); clock.seek(clock.length - 1); }, true),
    ),
    make("div", { class: "time" }, make("div", { class: "where" }, phase, count), make("div", { class: "rail" }, track, scrub)),
    speed.element,
  );
  const showState = () => {
    if (!clock.playing) onpause();
    const label = clock.playing ? "Pause (space)" : "Play (space)";
    play.replaceChildren(icon(clock.playing ? ICONS.pause : ICONS.play, true));
    play.setAttribute("aria-label", label);
    play.title = label;
  };
  clock.onstate = showState;

  function setTimeline(timeline) {
    showState();
    scrub.max = timeline.length - 1;
    track.replaceChildren(...timeline.phases.map(({ first, last, beta }) => {
      const kind = beta === 0 ? "free" : beta > 0 ? "pulled" : "pushed";
      return make("i", { class: kind, style: `flex-grow: ${last - first + 1}` });
    }));
  }

  function show(timeline, k, text) {
    const { first, last } = timeline.phases[timeline.phaseAt(k)];
    if (Number(scrub.value) !== k) scrub.value = k;
    setText(phase, text);
    setText(count, `step ${k - first} of ${last - first}`);
    scrub.setAttribute("aria-valuetext", `${text}, step ${k - first} of ${last - first}`);
  }
  const setSpeed = (value) => (speed.input.value = String(value));
  return { element, setTimeline, show, setSpeed };
}
