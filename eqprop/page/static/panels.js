// The folded panels at the side.
import { examplesPanel } from "./examples.js";
import { make } from "./dom.js";
import { dreamPanel, holdPanel } from "./hold.js";
import { settingsPanel } from "./settings.js";
import { learnPanel } from "./teach.js";
import { trainPanel } from "./train.js";
import { unitPanel } from "./units.js";

const PANELS = {
  examples: examplesPanel, learn: learnPanel, train: trainPanel, settings: settingsPanel, unit: unitPanel, hold: holdPanel, dream: dreamPanel,
};

/**
 * Each panel is {title, body} with what it listens to: onopen(), update() after each change of the state, settled() after
 * each settling, refresh() when weights are others, repaint() in another theme. What the backend lacks is left out.
 */
export function buildPanels(page) {
  const parts = {};
  const folds = {};
  for (const [name, build] of Object.entries(PANELS)) {
    const part = build(page);
    if (!part) continue;
    parts[name] = part;
    folds[name] = make("details", { class: `fold fold-${name}`, ontoggle: () => folds[name].open && part.onopen?.() }, make("summary", {}, part.title), part.body);
  }
  const element = make("aside", { "aria-label": "More to do" }, ...Object.values(folds));
  const each = (what, ...values) => Object.values(parts).forEach((part) => part[what]?.(...values));
  return { element, parts, folds, each };
}
