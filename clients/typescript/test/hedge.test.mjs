// Runs the compiled client against the scripted server. No test measures time: attempts that must not answer hang.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { DeadlineError, Hedger, inOnBlock, inWindows, isEligible, scopeFor } from "../dist/hedge.js";
import { scriptedServer } from "./server.mjs";

const SETTINGS = {
  schemaVersion: 1,
  expiresAt: "2999-01-01T00:00:00Z",
  enabled: true,
  hedgeSignal: "response_headers",
  hedgeAfterMs: 30,
  maxAttempts: 2,
  perAttemptTimeoutMs: 20000,
  totalTimeoutMs: 30000,
  budgetPercent: 5,
  budgetBurst: 2,
};
const HANG = { hang: true };
const LATE = { wait: 300 };

let server;
before(async () => {
  server = await scriptedServer();
});
after(async () => {
  await server.close();
  assert.ok(timers.length > 50);
  assert.equal(timers.filter((timer) => !timer._destroyed).length, 0, "every race is over, so no timer of the client may be left");
});

const timers = []; // those that the client set
const setTimer = globalThis.setTimeout;
globalThis.setTimeout = (...given) => {
  const timer = setTimer(...given);
  if (new Error().stack.includes("/dist/hedge.js")) timers.push(timer);
  return timer;
};

const hedger = (changes = {}, now) => new Hedger({ ...SETTINGS, ...changes }, now);
const text = async (response) => (await response).text();

test("a fast answer is returned and no copy is sent", async () => {
  const { send, log } = server.script({});
  const h = hedger({ hedgeAfterMs: 5000 });
  assert.equal(await text(h.fetch(send, {})), "answer 0");
  assert.equal(log.attempts, 1);
  assert.equal(h.stats.copies, 0);
});

test("a slow first attempt: the copy wins and the loser is aborted at the server", async () => {
  const { send, log } = server.script(HANG, {});
  const h = hedger();
  assert.equal(await text(h.fetch(send, {})), "answer 1");
  await log.until((l) => l.aborted.length === 1);
  assert.deepEqual(log.aborted, [0]);
  assert.deepEqual([h.stats.copies, h.stats.copyWins], [1, 1]);
});

test("a fast failure of the first attempt does not end the race before the copy", async () => {
  const { send, log } = server.script({ status: 503 }, {});
  const response = await hedger({ hedgeAfterMs: 5000 }).fetch(send, {});
  assert.equal(response.status, 200);
  assert.equal(await response.text(), "answer 1");
  assert.equal(log.attempts, 2);
});

test("a dropped connection of the first attempt is such a failure too", async () => {
  const { send } = server.script({ cut: true }, {});
  assert.equal(await text(hedger({ hedgeAfterMs: 5000 }).fetch(send, {})), "answer 1");
});

test("a refused copy never wins: the first attempt's later answer does", async () => {
  for (const status of [429, 500, 503]) {
    const { send } = server.script(LATE, { status });
    const response = await hedger().fetch(send, {});
    assert.equal(response.status, 200);
    assert.equal(await response.text(), "answer 0");
  }
});

test("when all fail the caller gets the first attempt's failure", async () => {
  const { send } = server.script({ status: 503 }, { status: 500 });
  assert.equal((await hedger().fetch(send, {})).status, 503);
  const cut = server.script({ cut: true }, { cut: true });
  await assert.rejects(hedger().fetch(cut.send, {}), TypeError);
});

test("a refusal that any replica would repeat ends the race", async () => {
  const { send, log } = server.script({ status: 400 }, {});
  const response = await hedger({ hedgeAfterMs: 5000 }).fetch(send, {});
  assert.equal(response.status, 400);
  await response.text();
  assert.equal(log.attempts, 1);
});

test("one deadline for all attempts: both are aborted", async () => {
  const { send, log } = server.script(HANG, HANG);
  await assert.rejects(hedger({ totalTimeoutMs: 200 }).fetch(send, {}), DeadlineError);
  await log.until((l) => l.aborted.length === 2);
  assert.equal(log.attempts, 2);
});

test("the deadline also ends a winner whose body stalls", async () => {
  const { send, log } = server.script({ chunks: [{ text: "begun" }], stall: true });
  const response = await hedger({ totalTimeoutMs: 200, hedgeAfterMs: 150 }).fetch(send, {});
  await assert.rejects(response.text(), DeadlineError);
  await log.until((l) => l.aborted.length === 1);
});

test("no copy that would start at the deadline", async () => {
  const { send, log } = server.script(LATE);
  const h = hedger({ hedgeAfterMs: 900, totalTimeoutMs: 900 });
  assert.equal(await text(h.fetch(send, {})), "answer 0");
  assert.equal(log.attempts, 1);
  assert.equal(h.stats.refused.deadline, 1);
});

test("an attempt that takes longer than its own limit is given up, and the copy goes", async () => {
  const { send, log } = server.script(HANG, {});
  assert.equal(await text(hedger({ hedgeAfterMs: 5000, perAttemptTimeoutMs: 50 }).fetch(send, {})), "answer 1");
  await log.until((l) => l.aborted.includes(0));
});

test("first_token: headers without a token do not stop the clock", async () => {
  const steps = [{ chunks: [{ wait: 400, text: "slow" }] }, { chunks: [{ text: "fast" }] }];
  assert.equal(await text(hedger({ hedgeSignal: "first_token" }).fetch(server.script(...steps).send, {})), "fast");
  const early = server.script(...steps);
  assert.equal(await text(hedger().fetch(early.send, {})), "slow"); // response_headers: they came at once
  assert.equal(early.log.attempts, 1);
});

test("after its first token the winner is never switched", async () => {
  const { send, log } = server.script({ chunks: [{ text: "one " }, { wait: 200, text: "two " }, { wait: 100, text: "three" }] });
  assert.equal(await text(hedger({ hedgeSignal: "first_token" }).fetch(send, {})), "one two three");
  assert.equal(log.attempts, 1);
});

test("nothing of the loser reaches the caller", async () => {
  const { send } = server.script({ chunks: [{ wait: 200, text: "loser" }] }, { chunks: [{ text: "win" }, { wait: 400, text: "ner" }] });
  assert.equal(await text(hedger({ hedgeSignal: "first_token" }).fetch(send, {})), "winner");
});

test("response: a begun answer is not yet an answer", async () => {
  const { send } = server.script({ chunks: [{ text: "begun" }], stall: true }, { chunks: [{ text: "whole" }] });
  assert.equal(await text(hedger({ hedgeSignal: "response" }).fetch(send, {})), "whole");
});

test("the budget: its burst, then a copy for each 20 requests at 5 %", async () => {
  const h = hedger({ budgetBurst: 1 });
  const slow = async () => {
    const { send, log } = server.script({ wait: 120 }, { wait: 2000 });
    await text(h.fetch(send, {}));
    return log.attempts;
  };
  assert.equal(await slow(), 2);
  assert.equal(await slow(), 1);
  assert.equal(h.stats.refused.budget, 1);
  for (let k = 0; k < 18; k++) await text(h.fetch(server.script({}).send, {}));
  assert.equal(await slow(), 2);
  assert.equal(await slow(), 1);
});

test("copies in flight are limited, and the place is given back", async () => {
  const h = hedger({ budgetBurst: 9, budgetMaxConcurrent: 1 });
  const first = server.script(HANG, { wait: 200 });
  const second = server.script(LATE, {});
  assert.deepEqual(await Promise.all([text(h.fetch(first.send, {})), text(h.fetch(second.send, {}))]), ["answer 1", "answer 0"]);
  assert.equal(h.stats.refused.budget, 1);
  assert.equal(await text(h.fetch(server.script(HANG, {}).send, {})), "answer 1");
});

test("errors above the limit stop copies", async () => {
  const h = hedger({ suppressOnErrorPercent: 10, maxAttempts: 2, budgetBurst: 100 });
  for (let k = 0; k < 20; k++) await h.fetch(server.script({ status: 503 }, { status: 503 }).send, {});
  const { send, log } = server.script(LATE, {});
  assert.equal(await text(h.fetch(send, {})), "answer 0");
  assert.equal(log.attempts, 1);
  assert.equal(h.stats.refused.suppressed, 1);
});

test("the caller's own abort reaches every attempt", async () => {
  const { send, log } = server.script(HANG, HANG);
  const controller = new AbortController();
  const result = hedger().fetch(send, {}, controller.signal);
  await log.until((l) => l.attempts === 2);
  controller.abort(new Error("gone"));
  await assert.rejects(result, /gone/);
  await log.until((l) => l.aborted.length === 2);
});

test("off: the kill switch, an expired or unreadable expiry, another hour", async () => {
  const noon = () => Date.parse("2026-11-29T12:00:00Z"); // a Sunday
  const cases = [
    { enabled: false },
    { expiresAt: "2026-11-29T12:00:00Z" },
    { expiresAt: "soon" },
    { hedgeWindowsUtc: ["mon-sat 00:00-24:00", "sun 13:00-14:00"] },
  ];
  for (const changes of cases) {
    const { send, log } = server.script({ wait: 80 }, {});
    const h = hedger(changes, noon);
    assert.equal(await text(h.fetch(send, {})), "answer 0");
    assert.equal(log.attempts, 1);
    assert.equal(h.stats.refused.off, 1);
  }
});

test("what is not eligible is sent once, under the same deadline", async () => {
  const { send, log } = server.script({ wait: 80 }, {});
  const h = hedger({ excludeToolCalls: true });
  assert.equal(await text(h.fetch(send, { tools: ["charge_card"] })), "answer 0");
  assert.equal(log.attempts, 1);
  assert.equal(h.stats.refused.ineligible, 1);
  await assert.rejects(hedger({ excludeToolCalls: true, totalTimeoutMs: 100 }).fetch(server.script(HANG).send, {}), DeadlineError);
});

test("rules: what is unknown is not eligible", () => {
  const scope = { enabled: true };
  assert.equal(isEligible(scope, {}), true);
  const rows = [
    [{ excludeStreaming: true }, { streamed: false }, { streamed: true }],
    [{ excludeToolCalls: true }, { tools: [] }, { tools: ["a"] }],
    [{ allowedTools: ["a"] }, { tools: ["a"] }, { tools: ["a", "b"] }],
    [{ excludedTools: ["b"] }, { tools: ["a"] }, { tools: ["b"] }],
    [{ excludeCacheHits: true }, { cacheHit: false }, { cacheHit: true }],
    [{ excludeStoredState: true }, { storedState: false }, { storedState: true }],
    [{ excludeStickySessions: true }, { stickySession: false }, { stickySession: true }],
    [{ excludeBatch: true }, { batch: false }, { batch: true }],
    [{ maxChoices: 1 }, { choices: 1 }, { choices: 2 }],
    [{ maxPromptTokens: 9 }, { promptTokens: 9 }, { promptTokens: 10 }],
    [{ maxCachedRatio: 0.5 }, { promptTokens: 10, cachedTokens: 5 }, { promptTokens: 10, cachedTokens: 6 }],
    [{ cachedRatioBelow: 0.5 }, { promptTokens: 10, cachedTokens: 4 }, { promptTokens: 10, cachedTokens: 5 }],
    [{ allowedSegments: ["pro"] }, { segment: "pro" }, { segment: "free" }],
    [{ excludedSegments: ["free"] }, { segment: "pro" }, { segment: "free" }],
    [{ allowedPaths: ["/a"] }, { route: "/a" }, { route: "/b" }],
    [{ excludedPaths: ["/b"] }, { route: "/a" }, { route: "/b" }],
    [{ otherRules: [{ field: "request_bytes", op: "<", value: 5 }] }, { requestBytes: 4 }, { requestBytes: 5 }],
    [{ otherRules: [{ field: "provider", op: "not_in", value: ["x"] }] }, { provider: "y" }, { provider: "x" }],
  ];
  for (const [rule, good, bad] of rows) {
    assert.equal(isEligible({ ...scope, ...rule }, good), true, JSON.stringify(rule));
    assert.equal(isEligible({ ...scope, ...rule }, bad), false, JSON.stringify(rule));
    assert.equal(isEligible({ ...scope, ...rule }, {}), false, JSON.stringify(rule));
  }
  assert.equal(isEligible({ ...scope, otherRules: [{ field: "batch", op: "~", value: true }] }, { batch: true }), false);
});

test("allowedSegments: [] allows nobody", () => {
  assert.equal(isEligible({ enabled: true, allowedSegments: [] }, { segment: "pro" }), false);
});

test("several scopes: the first that fits; none fits: off", () => {
  const scopes = [{ enabled: true, model: "a", route: "/x" }, { enabled: false, model: "a" }];
  const settings = { ...SETTINGS, enabled: false, scopes };
  assert.equal(scopeFor(settings, { model: "a", route: "/x" }), scopes[0]);
  assert.equal(scopeFor(settings, { model: "a", route: "/y" }), scopes[1]);
  assert.equal(scopeFor(settings, { model: "b" }), undefined);
});

test("windows are UTC, split at midnight, ends excluded", () => {
  const at = (time) => Date.parse(time);
  const windows = ["mon-fri 22:00-24:00", "tue-sat 00:00-02:00", "sun,wed 05:00-06:00"];
  assert.equal(inWindows(windows, at("2026-11-27T23:59:59Z")), true); // Friday
  assert.equal(inWindows(windows, at("2026-11-28T01:59:59Z")), true); // Saturday
  assert.equal(inWindows(windows, at("2026-11-28T02:00:00Z")), false);
  assert.equal(inWindows(windows, at("2026-11-28T22:30:00Z")), false);
  assert.equal(inWindows(windows, at("2026-11-29T05:00:00Z")), true); // Sunday
  assert.equal(inWindows(["garbage"], at("2026-11-29T05:00:00Z")), false);
});

test("blocks of the experiment are those that verify computes", async () => {
  const scope = { enabled: true, experimentBlockSeconds: 1800, experimentSeed: 7 };
  const found = [];
  for (let block = 0; block < 40; block++) {
    const on = createHash("sha256").update(`7:${block}`).digest()[0] % 2 === 0;
    assert.equal(await inOnBlock(scope, block * 1_800_000 + 1), on);
    found.push(on);
  }
  assert.ok(found.includes(true) && found.includes(false));
});
