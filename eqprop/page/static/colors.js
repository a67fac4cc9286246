// Colours that the colour-blind can tell apart: blue to yellow for states (cividis), blue to orange for differences.

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const GREYS = ["#0c0e12", "#ffffff"];
const DIVERGING = {
  light: ["#123f8c", "#2f6fc4", "#8db7e6", "#f6f4f0", "#f3b679", "#d2700f", "#8a3d00"],
  dark: ["#8fc1ff", "#4a8ee0", "#234a7d", "#171a20", "#7d4512", "#dd7f22", "#ffc48a"],
};

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** 256 colours along the stops, each as one number in the order of bytes that canvases have. */
function tableOf(stops) {
  const colours = stops.map(channels);
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (colours.length - 1);
    const k = Math.min(Math.floor(at), colours.length - 2);
    const [r, g, b] = [0, 1, 2].map((c) => Math.round(colours[k][c] + (at - k) * (colours[k + 1][c] - colours[k][c])));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

export const STATES = tableOf(CIVIDIS);
export const INK = tableOf(GREYS);
const CONTRASTS = { light: tableOf(DIVERGING.light), dark: tableOf(DIVERGING.dark) };

/** The table for differences: what is 0 looks like the page. */
export const contrastTable = (theme) => CONTRASTS[theme];

/** Several tables as gradients, for legends. */
export const statesGradient = `linear-gradient(90deg, ${CIVIDIS.join(", ")})`;
export const contrastGradient = (theme) => `linear-gradient(90deg, ${DIVERGING[theme].join(", ")})`;
