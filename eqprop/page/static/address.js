// The whole state of the page in its address, and back: a link shows another person what one sees.
import { packPixels, unpackPixels } from "./packing.js";

const number = (value) => String(Number(value.toFixed(4)));
const sideText = ({ relaxation, nudge, beta }) => [relaxation, nudge, number(beta)].join("~");

/** An input as a short text: "e12" for an example, "p…" for pixels. */
function inputText(input, { low, high }) {
  return "example" in input ? `e${input.example}` : `p${packPixels(input.pixels, low, high)}`;
}

function inputFrom(text, { input, examples }) {
  if (text.startsWith("e")) {
    const example = Number(text.slice(1));
    return Number.isInteger(example) && example >= 0 && example < examples ? { example } : null;
  }
  try {
    const pixels = unpackPixels(text.slice(1), input.shape.reduce((a, b) => a * b, 1), input.low, input.high);
    return pixels && { pixels };
  } catch {
    return null; // not base64
  }
}

/**
 * @param {object} state of the session (see `PageState`)
 * @param {object} look how it is shown: {frame: number | null, view, speed}
 */
export function addressOf(state, look, hello) {
  const parts = new URLSearchParams();
  parts.set("in", inputText(state.input, hello.input));
  if (state.target !== null) parts.set("target", state.target);
  parts.set("side", state.sides.map(sideText).join("!"));
  if (state.rule && state.rule !== hello.rule) parts.set("rule", state.rule);
  if (state.rate !== hello.rate) parts.set("rate", String(state.rate));
  if (state.clamp.length) parts.set("hold", state.clamp.map(({ layer, unit, value }) => [layer, unit ?? "all", number(value)].join("~")).join("!"));
  if (state.dream !== null) parts.set("dream", state.dream);
  if (state.seed) parts.set("seed", state.seed);
  if (look.frame !== null) parts.set("at", look.frame);
  if (look.view !== "state") parts.set("view", look.view);
  if (look.speed !== 8) parts.set("speed", look.speed);
  if (state.did.length) {
    const short = state.did.map((thing) => (thing.kind === "learn" ? { ...thing, input: inputText(thing.input, hello.input) } : thing));
    parts.set("did", JSON.stringify(short));
  }
  return `#${parts}`;
}

const wholeIn = (text, count) => {
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isInteger(value) && value >= 0 && value < count ? value : null;
};

function sideFrom(text, hello) {
  const [relaxation, nudge, beta] = text.split("~");
  const known = (choices, name, usual) => (choices.some((each) => each.name === name) ? name : usual);
  const [low, high] = hello.betas;
  return {
    relaxation: known(hello.relaxations, relaxation, hello.side.relaxation),
    nudge: known(hello.nudges, nudge, hello.side.nudge),
    beta: Number.isFinite(Number(beta)) ? Math.min(Math.max(Number(beta), low), high) : hello.side.beta,
  };
}

function pinFrom(text, hello) {
  const [layer, unit, value] = text.split("~");
  const { shape } = hello.layers.find((each) => each.name === layer) ?? {};
  if (!shape || !Number.isFinite(Number(value))) return null;
  const one = unit === "all" ? null : wholeIn(unit, shape.reduce((a, b) => a * b, 1));
  return unit === "all" || one !== null ? { layer, unit: one, value: Number(value) } : null;
}

/** Whether a thing that was done has all that doing it again takes. */
function complete(thing) {
  if (thing.kind === "weights") return ["opened", "random"].includes(thing.to);
  return thing.side && thing.rate > 0 && (thing.kind === "learn" ? Boolean(thing.input) : thing.kind === "train");
}

function didFrom(text, hello) {
  try {
    return JSON.parse(text)
      .map((thing) => (thing.kind === "learn" ? { ...thing, input: inputFrom(thing.input, hello) } : thing))
      .filter(complete);
  } catch {
    return [];
  }
}

/** State and look of an address; of what it does not say, or says wrongly, nothing. */
export function fromAddress(hash, hello) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = {};
  const look = { frame: wholeIn(parts.get("at"), 1e6), view: parts.get("view") === "triple" ? "triple" : "state", speed: wholeIn(parts.get("speed"), 61) };
  const input = parts.has("in") ? inputFrom(parts.get("in"), hello) : null;
  if (input) state.input = input;
  if (hello.targets) state.target = wholeIn(parts.get("target"), hello.outputs.labels.length);
  if (parts.has("side")) state.sides = parts.get("side").split("!").slice(0, 2).map((text) => sideFrom(text, hello));
  if (hello.rules.some(({ name }) => name === parts.get("rule"))) state.rule = parts.get("rule");
  if (Number(parts.get("rate")) > 0) state.rate = Number(parts.get("rate"));
  if (parts.has("hold") && hello.abilities.clamp) state.clamp = parts.get("hold").split("!").map((text) => pinFrom(text, hello)).filter(Boolean);
  if (hello.abilities.dream) state.dream = wholeIn(parts.get("dream"), hello.outputs.labels.length);
  state.seed = wholeIn(parts.get("seed"), 2 ** 31) ?? 0;
  if (parts.has("did")) state.did = didFrom(parts.get("did"), hello);
  return { state, look };
}
