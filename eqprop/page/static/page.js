// The page: everything inside of one element, whatever computes for it.
import { addressOf, fromAddress } from "./address.js";
import { clockDeck, Clock } from "./clock.js";
import { Curves } from "./curves.js";
import { make, setText } from "./dom.js";
import { exampleWalk } from "./inputcard.js";
import { listenToKeys } from "./keys.js";
import { nudgeBar } from "./nudgebar.js";
import { Pad } from "./pad.js";
import { buildPanels } from "./panels.js";
import { Session } from "./session.js";
import { Theatre } from "./theatre.js";
import { Tip } from "./tip.js";
import { setTheme, topBar } from "./topbar.js";
import { Tour } from "./tour.js";

/**
 * @typedef {object} Reply an answer of the backend: the fields of its header, and
 * @property {Object<string, {shape: number[], data: Float32Array}>} arrays
 *
 * @param {HTMLElement} root where the page is built
 * @param {{ask: function(string, object): Promise<Reply>, on: function(string, function)}} backend
 * @param {object} options address: false leaves the browser's address alone, as in a notebook
 */
export function mount(root, backend, options = {}) {
  const page = new Page(root, backend, options);
  backend.on("progress", (news) => page.panels?.parts.train?.progress(news));
  backend.on("gone", () => page.session && page.fail("The server is away. The page tries again by itself; a server that was started anew has a new address."));
  backend.on("back", () => page.back());
  page.open();
  return page;
}

class Page extends Theatre {
  constructor(root, backend, options) {
    super();
    Object.assign(this, { root, backend, options });
    root.classList.add("eqprop-page");
    root.classList.toggle("embedded", options.address === false);
    setTheme(root);
    this.element = make("div", { class: "sheet" }, make("p", { class: "loading" }, "One moment …"));
    root.replaceChildren(this.element);
    this.view = "state";
    this.whole = -1;
    this.selected = null; // {layer, unit}
    this.lastPhase = 0;
  }

  async open() {
    try {
      this.hello = await this.backend.ask("hello", {});
    } catch (error) {
      this.element.replaceChildren(make("p", { class: "trouble", role: "alert" }, error.message));
      return;
    }
    this.session = new Session(this.backend, this.hello, {
      onsettled: (how) => this.settled(how),
      onfail: (sentence) => this.fail(sentence),
      onbusy: (yes) => this.root.classList.toggle("busy", yes),
      onchange: () => this.changed(),
      frameNow: () => this.session.timeline.frame(0, Math.ceil(this.clock.position)),
    });
    this.clock = new Clock((position) => this.show(position));
    const { state, look } = fromAddress(this.options.address === false ? "" : location.hash, this.hello);
    Object.assign(this.session.state, state);
    if (look.speed) this.clock.speed = look.speed;
    this.build();
    this.setView(look.view);
    await this.session.replay();
    this.session.settle({ then: look.frame ?? "play" });
  }

  /** The server was away, and has forgotten this page. */
  async back() {
    if (!this.session) return this.open();
    this.fail("");
    await this.session.replay();
    this.session.settle({ then: "hold" });
  }

  get theme() {
    return this.root.dataset.theme;
  }

  build() {
    const { clock, hello } = this;
    this.tip = new Tip(this.root);
    const onhover = (about, event) => this.tip.show(about, event, hello);
    this.pad = new Pad(hello.input, { onhover, ondraw: (pixels, done) => this.drawn(pixels, done) });
    this.walkBar = exampleWalk(this);
    if (this.walkBar) this.pad.element.append(this.walkBar.element);
    this.stages = [];
    this.stageRow = make("div", { class: "stages" });
    this.deck = clockDeck(clock, { onspeed: (speed) => { clock.speed = speed; this.remember(); }, onrewind: () => this.rewind(), onpause: () => this.remember() });
    this.curves = new Curves({ onhover, onseek: (k) => { clock.play(false); clock.seek(k); } });
    this.nudges = nudgeBar(this);
    this.top = topBar(this);
    this.panels = buildPanels(this);
    this.learnPanel = this.panels.parts.learn;
    this.unitPanel = this.panels.parts.unit;
    this.tour = new Tour(this);
    this.trouble = make("p", { class: "trouble", role: "alert", hidden: true });
    this.toast = make("p", { class: "toast", role: "status", hidden: true });
    this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
    this.scene = make("section", { class: "scene", "aria-label": "Network" }, this.pad.element, this.stageRow);
    const main = make("div", { class: "main" }, this.scene, this.deck.element, this.nudges.element, this.curves.element);
    this.element.replaceChildren(this.top.element, this.trouble, make("div", { class: "columns" }, main, this.panels.element),
      this.tour.element, this.tip.element, this.toast, this.spoken);
    this.changed();
    this.watching = new ResizeObserver(() => this.fit());
    this.watching.observe(this.root);
    this.unlisten = listenToKeys(this, this.options.address === false ? this.root : document);
  }

  openPanel(name) {
    const fold = this.panels.folds[name];
    if (fold) fold.open = true;
    return fold;
  }

  pick(layer, unit) {
    const fold = this.openPanel("unit");
    this.unitPanel.select(layer, unit);
    this.mark();
    if (!this.root.classList.contains("wide")) fold.scrollIntoView({ block: "nearest" });
  }

  /** A stroke: the state slides on from where it is, and is nudged only when the pen is lifted. */
  drawn(pixels, done) {
    this.session.change({ input: { pixels }, dream: null }, { here: true, free: !done, then: "play" });
  }

  take(example, target = null) {
    this.session.change({ input: { example }, dream: null, target }, { then: "play" });
  }

  walk(by) {
    const { examples } = this.hello;
    const now = this.session.state.input.example ?? (by > 0 ? -1 : 0);
    if (examples) this.take((now + by + examples) % examples);
  }

  nudgeTowards(target) {
    this.session.change({ target, dream: null }, { then: "nudge" });
  }

  rewind() {
    this.clock.play(false);
    if (this.session.fromRest) this.clock.seek(0);
    else this.session.settle({ then: 0 });
  }

  /** The state is another: everything that shows it follows. */
  changed() {
    this.arrange();
    this.nudges.update();
    this.walkBar?.update();
    this.panels.each("update");
    this.mark();
    this.remember();
  }

  link() {
    const { session, clock, view } = this;
    const frame = session.fromRest && session.reply && !clock.playing ? Math.round(clock.position) : null;
    const hash = addressOf(session.state, { frame, view, speed: clock.speed }, this.hello);
    return `${location.href.split("#")[0]}${hash}`;
  }

  /** Writes the address, not more often than browsers allow. */
  remember() {
    if (this.options.address === false || !this.session.reply) return;
    clearTimeout(this.remembering);
    this.remembering = setTimeout(() => history.replaceState(null, "", this.link()), 300);
  }

  /** Says something that went well. */
  say(sentence) {
    setText(this.toast, sentence);
    this.toast.hidden = false;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (this.toast.hidden = true), 2500);
  }

  /** Says what went wrong; nothing takes it away again. */
  fail(sentence) {
    setText(this.trouble, sentence);
    this.trouble.hidden = !sentence;
    clearTimeout(this.failing);
    this.failing = setTimeout(() => (this.trouble.hidden = true), 12000);
  }

  close() {
    this.clock?.close();
    this.watching?.disconnect();
    this.unlisten?.();
    this.root.replaceChildren();
  }
}
