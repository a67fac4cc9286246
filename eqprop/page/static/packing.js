// Numbers as text: base64 of bytes, and drawn pixels short enough for an address.

export function bytesFromText(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}

export function textFromBytes(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function floatsFromText(text) {
  return new Float32Array(bytesFromText(text).buffer);
}

/**
 * Pixels of 256 levels as text. Most of a drawing is empty: a run of up to 255 zeros is 0 and its length, and all
 * other bytes are themselves.
 */
export function packPixels(pixels, low, high) {
  const bytes = [];
  for (let i = 0; i < pixels.length; ) {
    const value = Math.round(((pixels[i] - low) / (high - low)) * 255);
    let run = 1;
    if (value === 0) {
      while (run < 255 && i + run < pixels.length && Math.round(((pixels[i + run] - low) / (high - low)) * 255) === 0) run++;
      bytes.push(0, run);
    } else bytes.push(value);
    i += run;
  }
  return textFromBytes(bytes);
}

/** The pixels again, exactly as `levelled` made them; null if the text is not of `count` pixels. */
export function unpackPixels(text, count, low, high) {
  const bytes = bytesFromText(text);
  const levels = [];
  for (let i = 0; i < bytes.length && levels.length <= count; i++) {
    if (bytes[i] === 0) {
      for (let left = bytes[++i] ?? 0; left > 0; left--) levels.push(0);
    } else levels.push(bytes[i]);
  }
  return levels.length === count ? levels.map((level) => low + ((high - low) * level) / 255) : null;
}

/** The nearest of 256 levels, so that an address can hold a drawing without loss. */
export function levelled(value, low, high) {
  return low + ((high - low) * Math.round(((value - low) / (high - low)) * 255)) / 255;
}
