// The top of the page: its name, and what one does with the page as a whole.
import { copyText, showCode, showHelp } from "./dialogs.js";
import { iconButton, make } from "./dom.js";
import { savePicture } from "./export.js";

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
  const toggle = () => {
    const theme = page.theme === "dark" ? "light" : "dark";
    remember(theme);
    setTheme(page.root, theme);
    page.repaint();
  };
  const tour = make("button", { type: "button", onclick: () => page.tour.start() }, "Guided tour");
  const element = make("header", { class: "top" },
    make("div", {}, make("h1", {}, "Watch it settle"), make("p", {}, page.hello.title)),
    make("div", { class: "actions" },
      tour,
      page.options.address === false ? null : iconButton("link", "Copy a link to what is shown", () => copyText(page, page.link(), "The link is copied.")),
      iconButton("picture", "Save as a picture", () => savePicture(page)),
      page.hello.abilities.code ? iconButton("code", "Show the same in Python", () => showCode(page)) : null,
      iconButton("sun", "Dark or light", toggle),
      make("button", { type: "button", class: "icon", "aria-label": "Help (?)", title: "Help (?)", onclick: () => showHelp(page) }, "?"),
    ),
  );
  return { element, tour };
}
