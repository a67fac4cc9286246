// Sentences about what is going on, and what the words of the page mean.

/** The words that a newcomer meets, in the order in which they are met. */
export const MEANINGS = {
  energy: "A number for every state of the network. Each unit moves so that it falls, and where it falls no further the network rests.",
  "free phase": "The network settles with nothing but its input. Where the outputs come to rest is its answer.",
  nudge: "A weak spring between the outputs and a target, switched on after the free phase. The network settles again, to a rest nearby.",
  beta: "β, the strength of the spring. Above 0 it pulls towards the target (orange), below 0 it pushes away (purple), at 0 there is none.",
  cost: "How far the outputs are from the target. Without a target there is none.",
  residual: "How strongly the units are still pulled along. At rest it is 0; below 0.001 the page speaks of rest.",
};

const REST = 1e-3; // a residual below it is called rest

/** What happens in a phase. A nudge around a circle has β with an angle. */
export function phaseText({ beta, angle }, { dream, target }, { outputs }) {
  if (dream !== null) return `Dreaming of ${outputs.labels[dream]}`;
  if (beta === 0) return "Free phase";
  const size = `β = ${beta.toFixed(2).replace("-", "−")}`;
  if (angle !== undefined) return `Nudged, ${size} at ${Math.round((angle * 180) / Math.PI)}°`;
  return beta > 0 ? `Pulled towards ${outputs.labels[target]}, ${size}` : `Pushed away from ${outputs.labels[target]}, ${size}`;
}

/** Whether it has come to rest; a residual that is not a number is not known. */
export function restText(residual, steps) {
  const rest = Number.isNaN(residual) ? "after" : residual <= REST ? "at rest after" : "still moving after";
  return `${rest} ${steps} ${steps === 1 ? "step" : "steps"}`;
}
