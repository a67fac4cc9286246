// Sentences about what is going on.

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
