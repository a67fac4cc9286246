// The page as one picture, for slides and papers.
import { setText } from "./dom.js";

const WIDTH = 1600;
const EDGE = 60;

/** Draws a canvas of the page within a box, crisp; returns its height. */
function place(context, canvas, x, y, width, height) {
  const scale = Math.min(width / canvas.width, height / canvas.height);
  context.imageSmoothingEnabled = canvas.width > 300;
  context.drawImage(canvas, x, y, canvas.width * scale, canvas.height * scale);
  return canvas.height * scale;
}

/** All pictures of the scene in a row: the input, then of each stage the layers and the bars. */
function sceneColumns(page) {
  const triple = page.view === "triple";
  const rows = page.stages.map((stage, i) => [
    ...(i === 0 ? [{ name: "input", pictures: [page.pad.grid.canvas] }] : [{ name: "", pictures: [] }]),
    ...stage.cards.map(({ layer, now, free, difference }) => ({
      name: layer.name, pictures: triple ? [free.canvas, now.canvas, difference.canvas] : [now.canvas],
      captions: triple ? ["free", "now", "difference"] : [],
    })),
    ...(stage.bars ? [{ name: stage.outputs ?? "prediction", pictures: [stage.bars.canvas] }] : []),
  ]);
  return rows;
}

/** @returns {HTMLCanvasElement} title, layers and curves. */
export function pictureOf(page) {
  const style = getComputedStyle(page.root);
  const colour = (name) => style.getPropertyValue(name).trim();
  const rows = sceneColumns(page);
  const rowHeight = page.view === "triple" ? 620 : 400;
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH;
  canvas.height = 150 + rows.length * rowHeight + 340;
  const c = canvas.getContext("2d");
  c.fillStyle = colour("--card");
  c.fillRect(0, 0, canvas.width, canvas.height);
  const write = (text, x, y, size, tone = "--ink", weight = 400) => {
    c.fillStyle = colour(tone);
    c.font = `${weight} ${size}px ${style.fontFamily}`;
    c.fillText(text, x, y);
  };
  write("Watch it settle", EDGE, 70, 40, "--ink", 650);
  write(`${page.hello.title} · ${page.caption()}`, EDGE, 112, 24, "--soft");
  let y = 150;
  rows.forEach((columns, i) => {
    const width = (WIDTH - 2 * EDGE - 40 * (columns.length - 1)) / columns.length;
    columns.forEach(({ name, pictures, captions = [] }, k) => {
      const x = EDGE + k * (width + 40);
      write(name, x, y + 24, 22, "--ink", 600);
      let top = y + 40;
      pictures.forEach((picture, j) => {
        top += place(c, picture, x, top, width, (rowHeight - 60) / pictures.length - 30) + 22;
        if (captions[j]) write(captions[j], x, top - 4, 16, "--soft");
      });
    });
    if (rows.length > 1) write(page.stages[i].title.textContent, EDGE, y + rowHeight - 12, 18, "--soft");
    y += rowHeight;
  });
  const width = (WIDTH - 2 * EDGE - 80) / 3;
  page.curves.curves.forEach(({ quantity, plot }, k) => {
    const x = EDGE + k * (width + 40);
    write(quantity.title, x, y + 24, 22, "--ink", 600);
    place(c, plot.ctx.canvas, x, y + 40, width, 250);
  });
  return canvas;
}

/** Lets the browser save the picture. */
export function savePicture(page) {
  pictureOf(page).toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "eqprop.png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    setText(page.spoken, "The picture is saved.");
  });
}
