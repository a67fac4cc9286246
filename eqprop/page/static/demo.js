// The demonstration without a server.
import { localBackend } from "./local.js";
import { mount } from "./page.js";

mount(document.getElementById("page"), localBackend());
