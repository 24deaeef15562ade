// Usage: node grpc_node.cjs MODE CONFIG... Tries service configs on @grpc/grpc-js and prints what happened as JSON.
// accept: does a client take each?   hedge: a server whose first attempt hangs, for the methods of the test.
// late: every attempt answers after 600 ms.   early: headers at once, the message after 600 ms.
const fs = require("node:fs");
const grpc = require("@grpc/grpc-js");

const [, , mode, ...files] = process.argv;
const print = (found) => console.log(JSON.stringify(found));

function client(port, file) {
  return new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), { "grpc.service_config": fs.readFileSync(file, "utf8") });
}

function accepts(file) {
  try {
    client(1, file).close();
    return true;
  } catch {
    return false;
  }
}

if (mode === "accept") {
  print(files.map(accepts));
  process.exit(0);
}

const same = (bytes) => bytes;
const method = (name, responseStream = false) => ({
  path: `/llm.Chat/${name}`,
  requestStream: false,
  responseStream,
  requestSerialize: same,
  requestDeserialize: same,
  responseSerialize: same,
  responseDeserialize: same,
});
const NAMES = ["Complete", "CallTool"];
const service = Object.fromEntries(NAMES.map((name) => [name, method(name)]));
service.Stream = method("Stream", true);

let attempts = [];
let cancelled = [];
let started = 0;
const handle = (call, callback) => {
  const number = attempts.length;
  attempts.push(Date.now());
  call.on("cancelled", () => cancelled.push(number));
  if (mode === "late") setTimeout(() => callback(null, Buffer.from("late")), 600);
  else if (number === 0) call.release = setTimeout(() => callback(null, Buffer.from("answer 0")), 2500);
  else callback(null, Buffer.from(`answer ${number}`));
};
const server = new grpc.Server();
server.addService(service, {
  Complete: handle,
  CallTool: handle,
  Stream(call) {
    attempts.push(Date.now());
    call.sendMetadata(new grpc.Metadata());
    setTimeout(() => {
      call.write(Buffer.from("token"));
      call.end();
    }, 1500);
  },
});

server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), async (error, port) => {
  if (error) throw error;
  const found = {};
  for (const name of [...NAMES, "Stream"]) {
    const one = client(port, files[0]);
    attempts = [];
    cancelled = [];
    started = Date.now();
    const outcome = await new Promise((done) => {
      const path = `/llm.Chat/${name}`;
      if (name !== "Stream") {
        one.makeUnaryRequest(path, same, same, Buffer.from("x"), (failed, value) =>
          done(failed ? { code: failed.code } : { value: value.toString() }),
        );
        return;
      }
      const stream = one.makeServerStreamRequest(path, same, same, Buffer.from("x"));
      let text = "";
      stream.on("data", (bytes) => (text += bytes));
      stream.on("error", (failed) => done({ code: failed.code }));
      stream.on("end", () => done({ value: text }));
    });
    await new Promise((done) => setTimeout(done, 150)); // for the cancel to reach the server
    found[name] = { ...outcome, attempts: attempts.length, cancelled, copy_after_ms: attempts.length > 1 ? attempts[1] - started : null };
    one.close();
  }
  print(found);
  server.forceShutdown();
  process.exit(0);
});
