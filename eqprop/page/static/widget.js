// The backend in a notebook: an anywidget model, where an answer is a message and each array one buffer.
import { Questions } from "./wire.js";
import { mount } from "./page.js";

/** @returns a backend: {ask, on}. */
export function modelBackend(model) {
  const questions = new Questions();
  model.on("msg:custom", (header, buffers = []) => {
    const arrays = {};
    (header.arrays ?? []).forEach(([name, shape], i) => {
      const view = buffers[i] instanceof DataView ? buffers[i] : new DataView(buffers[i].buffer ?? buffers[i]);
      // A buffer may begin anywhere, and floats may not: so it is copied.
      const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
      arrays[name] = { shape, data: new Float32Array(bytes) };
    });
    questions.answer({ ...header, arrays });
  });
  return {
    ask: (kind, fields = {}) => questions.ask(kind, fields, (message) => model.send(message)),
    on: (name, hear) => questions.on(name, hear),
  };
}

/** What anywidget calls; what it returns takes the page away again. */
export function renderWidget({ model, el }) {
  const page = mount(el, modelBackend(model), { address: false });
  return () => page.close();
}
