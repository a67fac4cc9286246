// The keyboard.
import { showHelp } from "./dialogs.js";

/** Whether a key belongs to what has the focus: a field, or a button that space presses. */
function taken(event) {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("dialog")) return true;
  if (target.matches?.("input[type=range]")) return /^(Arrow|Home|End|Page)/.test(key);
  if (target.matches?.("input[type=checkbox]")) return key === " ";
  if (target.matches?.("input, select, textarea")) return key !== "?";
  return key === " " && Boolean(target.closest?.("button, summary, a"));
}

/** What was pressed with the mouse lets go of the keyboard: space then plays, and does not press it once more. */
function letGo(page, event) {
  const pressed = event.target.closest?.("button, summary, label");
  if (!event.detail || !pressed || pressed.closest("dialog")) return; // by a key, a click has no detail
  setTimeout(() => {
    const { activeElement } = page.root.getRootNode();
    const held = activeElement && (activeElement === pressed || activeElement === pressed.control);
    if (held && activeElement.matches("button, summary, input[type=checkbox]")) page.root.focus({ preventScroll: true });
  });
}

/** Listens at `ears`: the document, or in a notebook the page alone. Returns how to stop. */
export function listenToKeys(page, ears) {
  const { clock, session, hello } = page;
  const actions = {
    " ": () => clock.play(!clock.playing),
    ArrowLeft: () => clock.step(-1),
    ArrowRight: () => clock.step(1),
    Home: () => page.rewind(),
    r: () => page.rewind(),
    End: () => { clock.play(false); clock.seek(clock.length - 1); },
    n: () => hello.targets && page.nudgeTowards(null),
    d: () => page.setView(page.view === "triple" ? "state" : "triple"),
    l: () => page.learnPanel && session.state.target !== null && page.learnPanel.learn(1),
    "[": () => page.walk(-1),
    "]": () => page.walk(1),
    "?": () => showHelp(page),
  };
  const hear = (event) => {
    if (taken(event)) return;
    const digit = /^\d$/.test(event.key) && hello.targets && Number(event.key) < hello.outputs.labels.length;
    const action = digit ? () => page.nudgeTowards(Number(event.key)) : actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    action();
    event.preventDefault();
    event.stopPropagation();
  };
  const free = (event) => letGo(page, event);
  page.root.tabIndex = -1; // it can have the focus, and Tab passes it by
  page.root.addEventListener("click", free);
  ears.addEventListener("keydown", hear);
  return () => {
    page.root.removeEventListener("click", free);
    ears.removeEventListener("keydown", hear);
  };
}
