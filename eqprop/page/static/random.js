// Numbers by chance that a seed repeats.

/** A function that draws from [0, 1). */
export function randomFrom(seed) {
  let a = (seed + 0x9e3779b9) | 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The numbers 0 … n − 1 in a random order. */
export function shuffled(n, draw) {
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(draw() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** Weights as the library begins with: uniform in the range of Glorot & Bengio, halved; biases 0. */
export function randomNet(sizes, seed) {
  const draw = randomFrom(seed);
  const W = sizes.slice(1).map((n, k) => {
    const range = 0.5 * Math.sqrt(6 / (sizes[k] + n));
    return Float64Array.from({ length: sizes[k] * n }, () => range * (2 * draw() - 1));
  });
  return { sizes, W, b: sizes.slice(1).map((n) => new Float64Array(n)) };
}
