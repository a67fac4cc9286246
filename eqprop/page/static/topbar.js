// The top of the page: its name, and what one does with the page as a whole.
import { iconButton, make } from "./dom.js";

function remembered() {
  try {
    return localStorage.getItem("eqprop-theme");
  } catch {
    return null; // where the browser forbids it, as in some notebooks
  }
}

function remember(theme) {
  try {
    localStorage.setItem("eqprop-theme", theme);
  } catch {
    // It is then dark or light as the system is.
  }
}

/** Dark or light: as it was chosen, or as the system is. */
export function setTheme(root, theme = remembered()) {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "dark" : "light";
}

export function topBar(page) {
  setTheme(page.root);
  const toggle = () => {
    const theme = page.theme === "dark" ? "light" : "dark";
    remember(theme);
    setTheme(page.root, theme);
    page.repaint();
  };
  const element = make("header", { class: "top" },
    make("div", {}, make("h1", {}, "Watch it settle"), make("p", {}, page.hello.title)),
    make("div", { class: "actions" }, iconButton("sun", "Dark or light", toggle)),
  );
  return { element };
}
