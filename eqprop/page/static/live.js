// The page of `eqprop live`: a socket on the host that served it, with the token of its address.
import { socketBackend } from "./wire.js";
import { mount } from "./page.js";

const token = new URLSearchParams(location.search).get("token") ?? "";
const scheme = location.protocol === "https:" ? "wss" : "ws";
mount(document.getElementById("page"), socketBackend(`${scheme}://${location.host}/socket?token=${encodeURIComponent(token)}`));
