// The backend behind a socket, `eqprop live`: questions go as JSON, answers come as a header with float32 arrays.

/** One message of the server: a header and its arrays (see `Reply` in page.js). */
export function decodeReply(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const arrays = {};
  for (const [name, shape] of header.arrays ?? []) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = { shape, data: new Float32Array(buffer, at, count) };
    at += 4 * count;
  }
  return { ...header, arrays };
}

/** Who asked what, until it is answered. */
export class Questions {
  constructor() {
    this.waiting = new Map();
    this.last = 0;
    this.hearers = { progress: [], gone: [], back: [] };
  }

  ask(kind, fields, send) {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      send({ id, kind, ...fields });
    });
  }

  on(name, hear) {
    this.hearers[name]?.push(hear);
  }

  tell(name, what) {
    this.hearers[name].forEach((hear) => hear(what));
  }

  answer(reply) {
    const asked = this.waiting.get(reply.id);
    this.waiting.delete(reply.id);
    if (asked && reply.error) asked.reject(new Error(reply.error));
    else if (asked) asked.resolve(reply);
    else if (reply.kind) this.tell(reply.kind, reply);
  }

  refuseAll(message) {
    this.waiting.forEach(({ reject }) => reject(new Error(message)));
    this.waiting.clear();
  }
}

/** @returns a backend: {ask, on}; while the server is away it tries again, ever more rarely. */
export function socketBackend(url) {
  const questions = new Questions();
  let socket = null;
  let pause = 250;
  let unsent = [];

  function connect() {
    socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      if (pause > 250) questions.tell("back");
      pause = 250;
      unsent.forEach((message) => socket.send(message));
      unsent = [];
    };
    socket.onmessage = (event) => questions.answer(decodeReply(event.data));
    socket.onclose = () => {
      questions.refuseAll("The server is away. The page tries again by itself; a server that was started anew has a new address.");
      unsent = [];
      questions.tell("gone");
      setTimeout(connect, pause);
      pause = Math.min(8000, pause * 2);
    };
  }

  connect();
  const send = (message) => {
    const text = JSON.stringify(message);
    if (socket.readyState === WebSocket.OPEN) socket.send(text);
    else unsent.push(text);
  };
  return {
    ask: (kind, fields = {}) => questions.ask(kind, fields, send),
    on: (name, hear) => questions.on(name, hear),
  };
}
