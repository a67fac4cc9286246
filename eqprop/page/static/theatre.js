// What is seen of a settling: the input, one stage for each side, the curves and the clock that moves them.
import { make, setText } from "./dom.js";
import { largest } from "./hopfield.js";
import { sideTitle } from "./settings.js";
import { Stage } from "./stage.js";
import { phaseText, restText } from "./words.js";

const WIDTHS = { narrow: 640, aside: 1080, asideOfDeep: 1500, huge: 1600 }; // a deep network needs the whole width

const LINES = ["——", "– –"]; // as the curves of each side are drawn

const LONG = 150; // steps that nobody wants to wait for one by one

/** The part of a page that shows; `page.js` builds it and says what is done. */
export class Theatre {
  /** Whether the user's system asks for less motion: then it goes from step to step. */
  calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

  /** As many stages as sides were settled. */
  arrange() {
    const { sides } = this.session.state;
    const count = this.session.timeline?.sides.length ?? sides.length;
    if (this.stages.length !== count) {
      const onhover = (about, event) => this.tip.show(about, event, this.hello);
      const onpick = this.unitPanel ? (layer, unit) => this.pick(layer, unit) : null;
      this.stages = Array.from({ length: count }, () => new Stage(this.hello, { onhover, onpick }));
      this.stageRow.replaceChildren(...this.stages.map((stage) => stage.element));
      this.root.classList.toggle("comparing", count > 1);
      this.mark();
      this.fit();
    }
    this.stages.forEach((stage, i) => setText(stage.title, count > 1 && sides[i] ? `${LINES[i]} ${sideTitle(this.hello, sides[i])}` : ""));
  }

  fit() {
    const width = this.root.clientWidth;
    if (!width || !this.scene) return;
    const narrow = width < WIDTHS.narrow;
    this.root.classList.toggle("narrow", narrow);
    const deep = this.hello.layers.length > 3;
    this.root.classList.toggle("wide", width >= (deep ? WIDTHS.asideOfDeep : WIDTHS.aside));
    this.root.classList.toggle("huge", width >= WIDTHS.huge);
    const scale = width >= WIDTHS.huge ? 1.2 : 1;
    const main = this.scene.clientWidth;
    const many = this.stages.length > 1 || deep; // the layers need the room
    const input = narrow ? Math.min(main - 40, 260) : Math.min(Math.max(main * (many ? 0.19 : 0.25), 150), 300 * scale);
    this.pad.fit(input, 300 * scale);
    const rest = narrow ? main : (main - this.pad.element.offsetWidth - 24) / this.stages.length - (this.stages.length > 1 ? 9 : 0);
    this.stages.forEach((stage) => stage.fit(rest, narrow, this.view === "triple", scale));
    this.curves.fit(main, narrow, scale);
    this.redraw();
  }

  redraw() {
    this.whole = -1;
    if (this.stages[0]?.ready) this.show(this.clock.position);
  }

  /** In the colours of another theme. */
  repaint() {
    this.stages.forEach((stage) => stage.repaint());
    this.curves.rebuild();
    this.panels.each("repaint");
    this.panels.each("refresh");
    this.redraw();
  }

  setView(view) {
    this.view = view;
    this.root.classList.toggle("triple", view === "triple");
    this.nudges.update();
    this.fit();
    this.remember();
  }

  /** The target, and rings around what is selected and held. */
  mark() {
    const { dream, target, clamp } = this.session.state;
    this.stages.forEach((stage) => {
      stage.bars.target = dream ?? target;
      stage.mark(this.selected, clamp);
    });
  }

  settled({ then = "play", free = false }) {
    const { timeline, reply } = this.session;
    const phase = this.lastPhase;
    this.arrange();
    this.stages.forEach((stage, i) => stage.take(reply.arrays, i, timeline));
    this.curves.take(timeline, reply.arrays);
    this.deck.setTimeline(timeline);
    if (this.session.state.dream === null) this.pad.show(reply.arrays.x.data);
    const { phases } = timeline;
    const places = { play: 0, nudge: phases[1]?.first ?? phases[0].last, hold: phases[Math.min(phase, phases.length - 1)].last, rest: phases[0].last };
    this.whole = -1;
    this.clock.reset(timeline.length, places[then] ?? then);
    // Where it is pulled and then pushed, it stops between the two: the pull is what one wants to see.
    const plays = then === "play" || (then === "nudge" && phases.length > 1);
    this.clock.play(plays, phases[1]?.last);
    this.clock.rush = free || timeline.length > LONG;
    this.panels.each("settled");
    this.unitPanel?.refresh();
    this.speak();
  }

  /** Draws the position of the clock: between two steps, the state between them. */
  show(position) {
    const { timeline, reply } = this.session;
    const k = Math.floor(position);
    const on = timeline.joins(k) ? k + 1 : k;
    const mix = on > k && !this.calm ? position - k : 0;
    const triple = this.view === "triple";
    this.stages.forEach((stage, i) => stage.show(timeline.frame(i, k), timeline.frame(i, on), mix, triple, this.theme));
    const dreamed = reply.arrays["0/input"];
    if (dreamed) {
      const n = this.pad.values.length;
      this.pad.show(dreamed.data, timeline.frame(0, k) * n, timeline.frame(0, on) * n, mix);
    }
    const whole = Math.round(position);
    this.curves.show(position, whole);
    if (whole === this.whole) return;
    this.whole = whole;
    this.lastPhase = timeline.phaseAt(whole);
    this.deck.show(timeline, whole, phaseText(timeline.phases[this.lastPhase], this.session.settledFor, this.hello));
    this.stages.forEach((stage, i) => setText(stage.reads, this.answer(i, timeline.frame(i, whole))));
  }

  /** What the outputs say in a frame of a side. */
  answer(i, frame) {
    const { labels } = this.hello.outputs;
    const prediction = this.session.reply.arrays[`${i}/prediction`];
    return prediction && labels.length ? `It reads ${labels[largest(prediction.data, frame * labels.length, labels.length)]}` : "";
  }

  /** For those who listen; a moment later, so that a drawing is not talked over. */
  speak() {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      const { timeline, reply } = this.session;
      const end = timeline.freeEnd(0);
      setText(this.spoken, [this.answer(0, end), restText(reply.arrays["0/residual"].data[end], end)].filter(Boolean).join(", "));
      this.stages.forEach((stage) => stage.bars.describe());
    }, 600);
  }

  /** One line about what is shown. */
  caption() {
    const { timeline } = this.session;
    const { first, last } = timeline.phases[this.lastPhase];
    return `${phaseText(timeline.phases[this.lastPhase], this.session.settledFor, this.hello)}, step ${this.whole - first} of ${last - first}`;
  }
}
