// One scenario with a client of the TypeScript SDK. The argument is JSON, see `clients.py`, and so is what is printed.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const given = JSON.parse(process.argv[2]);
const require = createRequire(`${given.packages}/package.json`);
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const isFirst = given.sdk === 1;
const sdk = isFirst
  ? {
      ...(await load("@modelcontextprotocol/sdk/client/index.js")),
      ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
      ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
      ...(await load("@modelcontextprotocol/sdk/types.js")),
    }
  : { ...(await load("@modelcontextprotocol/client")), ...(await load("@modelcontextprotocol/client/stdio")) };

const transport = (sessionId) =>
  given.url
    ? new sdk.StreamableHTTPClientTransport(new URL(given.url), {
        requestInit: { headers: { Authorization: `Bearer ${given.token}` } },
        sessionId,
      })
    : new sdk.StdioClientTransport({ command: given.command[0], args: given.command.slice(1), env: given.env });

const logged = [];
const asked = [];
let begun;
const whenBegun = new Promise((resolve) => (begun = resolve));

async function connected(way = transport()) {
  const client = new sdk.Client(
    { name: "typescript", version: "1" },
    { capabilities: given.answer ? { elicitation: {} } : {} },
  );
  client.setNotificationHandler(
    isFirst ? sdk.LoggingMessageNotificationSchema : "notifications/message",
    ({ params }) => {
      logged.push(params.data);
      if (String(params.data).includes("begun")) begun();
    },
  );
  if (given.answer)
    client.setRequestHandler(isFirst ? sdk.ElicitRequestSchema : "elicitation/create", ({ params }) => {
      asked.push(params.message);
      return { action: "accept", content: { decision: given.answer } };
    });
  await client.connect(way);
  return client;
}

const call = (client, name, args, options) =>
  isFirst
    ? client.callTool({ name, arguments: args }, undefined, options)
    : client.callTool({ name, arguments: args }, options);
const output = async (client, command) => (await call(client, "terminal", { command })).structuredContent.output;

const scenarios = {
  async tour(client) {
    const { tools } = await client.listTools();
    const command = await call(client, "terminal", { command: "echo there; exit 3" });
    const script = await call(client, "execute_code", { code: "print(6 * 7)" });
    const failed = await call(client, "read_file", { path: "not-there" });
    const unknown = await call(client, "nothing", {}).catch((error) => error);
    return {
      name: client.getServerVersion().name,
      tools: tools.map((tool) => tool.name),
      command: command.structuredContent,
      script: script.structuredContent.output,
      failed: [failed.isError, failed.structuredContent.error],
      unknown: [unknown.code, unknown.message],
    };
  },
  async cancel(client) {
    const stop = new AbortController();
    const calling = call(client, "execute_code", { code: given.code }, { signal: stop.signal }).then(
      () => "answered",
      () => "cancelled",
    );
    await whenBegun;
    stop.abort();
    const ended = await calling;
    return { ended, next: await output(client, "echo next") };
  },
  async progress(client) {
    const told = [];
    const result = await call(client, "terminal", { command: given.command_text }, { onprogress: (news) => told.push(news) });
    return { output: result.structuredContent.output, told: told.map((news) => [news.progress, news.message]), logged };
  },
  async elicitation(client) {
    const result = await call(client, "terminal", { command: "touch asked && echo done" });
    return { asked, result: result.structuredContent };
  },
  async pause(client) {
    await output(client, "kept=kept; cd /");
    await sleep(given.pause * 1000);
    const first = await output(client, "echo $kept; pwd");
    await sleep(given.pause * 1000);
    const several = await Promise.all([1, 2, 3].map(() => call(client, "execute_code", { code: "print(1)" })));
    return { first, several: several.map((each) => each.structuredContent.output) };
  },
  async reconnect(client) {
    await output(client, "kept=kept");
    const { sessionId } = client.transport;
    await client.close(); // which leaves the session
    await sleep(given.pause * 1000);
    const again = await connected(transport(sessionId));
    const kept = await output(again, "echo $kept");
    await again.transport.terminateSession();
    await again.close();
    const late = await connected(transport(sessionId)).then((ended) => output(ended, "echo $kept")).catch(String);
    return { kept, late };
  },
};

const client = await connected();
console.log(JSON.stringify(await scenarios[given.scenario](client)));
await client.close();
process.exit(0);
