// How it settles, how it is nudged and how it learns; and a second way beside the first.
import { make, select, slider, setText } from "./dom.js";

const titles = (choices) => choices.map(({ name, title }) => [name, title]);
const aboutOf = (choices, name) => choices.find((each) => each.name === name)?.about ?? "";
/** Rates are chosen along powers of ten. */
const rateText = (power) => String(Number((10 ** power).toPrecision(2)));

/** The settings of side i. */
function sideFields(page, i) {
  const { hello, session } = page;
  const now = session.state.sides[i];
  const set = (changes) => {
    const sides = session.state.sides.map((side, k) => (k === i ? { ...side, ...changes } : side));
    session.change({ sides }, { then: "play" });
    say();
  };
  const about = make("p", { class: "hint" });
  const say = () => {
    const side = session.state.sides[i];
    setText(about, [aboutOf(hello.relaxations, side.relaxation), hello.targets ? aboutOf(hello.nudges, side.nudge) : ""].join(" "));
  };
  const parts = [select("Settles by", titles(hello.relaxations), now.relaxation, (relaxation) => set({ relaxation })).element];
  if (hello.targets) parts.push(select("Nudge", titles(hello.nudges), now.nudge, (nudge) => set({ nudge })).element);
  if (hello.targets && i > 0) {
    parts.push(slider({
      label: "Strength β", min: hello.betas[0], max: hello.betas[1], step: 0.01, value: now.beta,
      format: (value) => value.toFixed(2).replace("-", "−"), oninput: (beta) => set({ beta }),
    }).element);
  }
  say();
  return [...parts, about];
}

export function settingsPanel(page) {
  const { hello, session } = page;
  const first = make("fieldset", {});
  const second = make("fieldset", {});
  const compare = make("input", { type: "checkbox", onchange: () => {
    const [side] = session.state.sides;
    const others = hello.relaxations.map(({ name }) => name).filter((name) => name !== side.relaxation);
    // Many small steps beside few large ones: of all pairs, the one that differs most to the eye.
    const beside = { ...side, relaxation: ["gradient", "block", ...others].find((name) => others.includes(name)) ?? side.relaxation };
    session.change({ sides: compare.checked ? [side, beside] : [side] }, { then: "play" });
    build();
  } });
  const rule = select("Learns by", titles(hello.rules), session.state.rule, (name) => {
    session.change({ rule: name }, null);
    setText(ruleAbout, aboutOf(hello.rules, name));
    page.unitPanel?.refresh();
  });
  const ruleAbout = make("p", { class: "hint" }, aboutOf(hello.rules, session.state.rule));
  const usual = Math.log10(hello.rate || 0.1);
  const rate = slider({
    label: "Rate", min: Math.floor(usual) - 2, max: Math.ceil(usual) + 2, step: 0.05, value: Math.log10(session.state.rate || 0.1), format: rateText,
    oninput: (power) => session.change({ rate: Number(rateText(power)) }, null),
    onchange: () => page.unitPanel?.refresh(),
  });
  const learns = hello.abilities.learn && make("fieldset", {}, make("legend", {}, "Learning"), rule.element, rate.element, ruleAbout);
  const body = make("div", { class: "panel" }, first, make("label", { class: "check" }, compare, "Compare with a second way"), second, learns || null);

  function build() {
    const { sides } = session.state;
    compare.checked = sides.length > 1;
    first.replaceChildren(make("legend", {}, sides.length > 1 ? "Left" : "Settling"), ...sideFields(page, 0));
    second.hidden = sides.length < 2;
    if (sides.length > 1) second.replaceChildren(make("legend", {}, "Right"), ...sideFields(page, 1));
  }
  build();
  return { title: "Settings, and compare two", body, rebuild: build };
}

/** What a side is called over its stage. */
export function sideTitle(hello, side) {
  const titleOf = (choices, name) => choices.find((each) => each.name === name)?.title ?? name;
  const nudge = hello.targets ? `, ${titleOf(hello.nudges, side.nudge).toLowerCase()} nudge, β = ${side.beta.toFixed(2).replace("-", "−")}` : "";
  return titleOf(hello.relaxations, side.relaxation) + nudge;
}
