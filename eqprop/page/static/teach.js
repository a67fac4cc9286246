// "Learn this": one image is learned, and the prediction moves.
import { largest } from "./hopfield.js";
import { brief, make, setText } from "./dom.js";

export function learnPanel(page) {
  const { hello, session } = page;
  if (!hello.abilities.learn) return null;
  const { labels } = hello.outputs;
  const say = make("p", { class: "hint" });
  const story = make("ol", { class: "story" });
  const buttons = [1, 5, 20].map((times) =>
    make("button", { type: "button", class: times === 1 ? "main-action" : null, onclick: () => learn(times) }, times === 1 ? "Learn this" : `${times} times`));
  const forget = make("button", { type: "button", onclick: () => session.weights("opened", 0) }, "Forget what it learned here");
  const body = make("div", { class: "panel" }, say, make("div", { class: "line" }, ...buttons), story, forget);
  let waiting = null; // what the answer was before, until the network has settled anew

  /** What the network answers now: the free state of the last settling. */
  function answer() {
    const { reply, timeline } = session;
    const { data } = reply.arrays["0/prediction"];
    const at = timeline.freeEnd(0) * labels.length;
    const { target } = session.state;
    return { reads: labels[largest(data, at, labels.length)], wanted: data[at + target], cost: reply.arrays["0/cost"].data[timeline.freeEnd(0)] };
  }

  async function learn(times) {
    if (session.state.target === null) return;
    const before = session.reply ? answer() : null;
    waiting = { times, before };
    buttons.forEach((button) => (button.disabled = true));
    if (!(await session.learn(times))) waiting = null;
    update();
  }

  /** After a settling: tells how the prediction has moved. */
  function settled() {
    if (!waiting || !waiting.before || !session.timeline.phases[1]) return;
    const { times, before } = waiting;
    const now = answer();
    waiting = null;
    const label = labels[session.state.target];
    const item = make("li", {},
      make("b", {}, times === 1 ? "Learned once" : `Learned ${times} times`),
      `: output ${label} ${before.wanted.toFixed(2)} → ${now.wanted.toFixed(2)}, cost ${brief(before.cost)} → ${brief(now.cost)}. `,
      before.reads === now.reads ? `It reads ${now.reads}.` : `It read ${before.reads}, and now ${now.reads}.`);
    story.append(item);
    while (story.children.length > 5) story.firstChild.remove();
  }

  function update() {
    const { target, dream, did } = session.state;
    const ready = target !== null && dream === null;
    buttons.forEach((button) => (button.disabled = !ready));
    forget.hidden = !did.length;
    setText(say, ready
      ? `Teach it that this input is a ${labels[target]}: the weights change a little, and the state slides to its new rest.`
      : "Choose what the answer should be (“Nudge towards”), and then teach it.");
  }
  return { title: "Learn this", body, update, settled, learn };
}
