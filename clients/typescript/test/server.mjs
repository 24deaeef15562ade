// A server that does to each attempt of a request what the test's script says, and remembers what it saw.
import http from "node:http";
import { once } from "node:events";

/** A gate that a script waits at until the test opens it. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

/** Steps of an attempt: {hang} never answers, {cut} drops the connection, else {status, at, chunks: [{at, text}], stall}. */
export async function scriptedServer() {
  const scripts = new Map();
  const seen = new Map();
  const server = http.createServer(async (request, response) => {
    const id = request.url;
    const log = seen.get(id);
    const number = log.attempts++;
    const step = scripts.get(id)[number] ?? { hang: true };
    response.on("close", () => {
      if (!response.writableFinished) {
        log.aborted.push(number);
        log.changed();
      }
    });
    log.changed();
    request.resume();
    if (step.hang) return;
    if (step.cut) return request.socket.destroy();
    await step.at?.opened;
    response.writeHead(step.status ?? 200, { "content-type": "text/plain", "x-attempt": String(number) });
    response.flushHeaders();
    for (const chunk of step.chunks ?? [{ text: `answer ${number}` }]) {
      await chunk.at?.opened;
      response.write(chunk.text);
    }
    if (!step.stall) response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const base = `http://127.0.0.1:${server.address().port}`;
  let count = 0;
  return {
    /** A send function for one scripted request, and what the server sees of it. */
    script(...steps) {
      const id = `/${count++}`;
      const waiting = [];
      const log = { attempts: 0, aborted: [], changed: () => waiting.splice(0).forEach((wake) => wake()) };
      log.until = async (holds) => {
        while (!holds(log)) await new Promise((wake) => waiting.push(wake));
      };
      log.reached = (attempts) => log.until((l) => l.attempts >= attempts);
      log.gone = (...numbers) => log.until((l) => numbers.every((number) => l.aborted.includes(number)));
      scripts.set(id, steps);
      seen.set(id, log);
      return { send: (_attempt, signal) => fetch(base + id, { method: "POST", body: "{}", signal }), log };
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
