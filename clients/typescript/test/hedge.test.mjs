// Runs the compiled client against the scripted server, with the client's timers in the hands of the test.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, afterEach, before, test } from "node:test";
import { DeadlineError, Hedger, inOnBlock, inWindows, isEligible, scopeFor } from "../dist/hedge.js";
import * as clock from "./clock.mjs";
import { gate, scriptedServer } from "./server.mjs";

const SETTINGS = {
  schemaVersion: 1,
  expiresAt: "2999-01-01T00:00:00Z",
  enabled: true,
  hedgeSignal: "response_headers",
  hedgeAfterMs: 1000,
  maxAttempts: 2,
  perAttemptTimeoutMs: 12000,
  totalTimeoutMs: 20000,
  budgetPercent: 5,
  budgetBurst: 2,
};
const HANG = { hang: true };

let server;
before(async () => {
  clock.install();
  server = await scriptedServer();
});
afterEach(() => assert.equal(clock.pending(), 0, "a race is over, so none of its timers may be left"));
after(() => server.close());

const hedger = (changes = {}, now) => new Hedger({ ...SETTINGS, ...changes }, now);
const text = async (response) => (await response).text();

/** Starts a request and waits until its first attempt is at the server. */
async function begin(h, { send, log }, facts = {}, signal = undefined) {
  const answer = h.fetch(send, facts, signal);
  answer.catch(() => undefined); // it is looked at later
  await log.reached(1);
  return { answer }; // an object, for a promise that is returned would be awaited
}

test("a fast answer is returned and no copy is sent", async () => {
  const request = server.script({});
  const h = hedger();
  assert.equal(await text(h.fetch(request.send, {})), "answer 0");
  clock.advance(5000);
  assert.equal(request.log.attempts, 1);
  assert.equal(h.stats.copies, 0);
});

test("a slow first attempt: a copy at the delay and not before; it wins, the loser is aborted at the server", async () => {
  const request = server.script(HANG, {});
  const h = hedger();
  const { answer } = await begin(h, request);
  clock.advance(999);
  assert.equal(h.stats.copies, 0);
  clock.advance(1);
  assert.equal(h.stats.copies, 1);
  assert.equal(await text(answer), "answer 1");
  await request.log.gone(0);
  assert.equal(h.stats.copyWins, 1);
});

test("a fast failure of the first attempt does not end the race before the copy", async () => {
  const request = server.script({ status: 503 }, {});
  const response = await hedger().fetch(request.send, {});
  assert.equal(response.status, 200);
  assert.equal(await response.text(), "answer 1");
  assert.equal(request.log.attempts, 2);
});

test("a dropped connection of the first attempt is such a failure too", async () => {
  assert.equal(await text(hedger().fetch(server.script({ cut: true }, {}).send, {})), "answer 1");
});

test("a failure of the first attempt while the copy runs does not end the race either", async () => {
  const [fails, answers] = [gate(), gate()];
  const request = server.script({ status: 503, at: fails }, { at: answers });
  const { answer } = await begin(hedger(), request);
  clock.advance(1000);
  await request.log.reached(2);
  fails.open();
  answers.open();
  assert.equal((await answer).status, 200);
  assert.equal(await text(answer), "answer 1");
});

test("a refused copy never wins: the first attempt's later answer does", async () => {
  for (const status of [429, 500, 503]) {
    const late = gate();
    const refused = gate();
    const request = server.script({ at: late }, { status, chunks: [{ text: "no", at: refused }] });
    const { answer } = await begin(hedger(), request);
    clock.advance(1000);
    await request.log.reached(2);
    refused.open();
    late.open();
    const response = await answer;
    assert.equal(response.status, 200);
    assert.equal(await response.text(), "answer 0");
  }
});

test("when all fail the caller gets the first attempt's failure", async () => {
  const response = await hedger().fetch(server.script({ status: 503 }, { status: 500 }).send, {});
  assert.equal(response.status, 503);
  await assert.rejects(hedger().fetch(server.script({ cut: true }, { cut: true }).send, {}), TypeError);
});

test("a refusal that any replica would repeat ends the race", async () => {
  const request = server.script({ status: 400 }, {});
  const response = await hedger().fetch(request.send, {});
  assert.equal(response.status, 400);
  await response.text();
  clock.advance(5000);
  assert.equal(request.log.attempts, 1);
});

test("one deadline for all attempts: both are aborted", async () => {
  const request = server.script(HANG, HANG);
  const { answer } = await begin(hedger({ perAttemptTimeoutMs: 19999 }), request);
  clock.advance(1000);
  await request.log.reached(2);
  clock.advance(18998); // one millisecond before the attempts' own limit
  assert.deepEqual(request.log.aborted, []);
  clock.advance(1001);
  await assert.rejects(answer, DeadlineError);
  await request.log.gone(0, 1);
});

test("the deadline also ends a winner whose body stalls", async () => {
  const request = server.script({ chunks: [{ text: "begun" }], stall: true });
  const response = await hedger({ perAttemptTimeoutMs: undefined }).fetch(request.send, {});
  const body = response.text();
  body.catch(() => undefined);
  clock.advance(20000);
  await assert.rejects(body, DeadlineError);
  await request.log.gone(0);
});

test("no copy that would start at the deadline", async () => {
  const late = gate();
  const request = server.script({ at: late });
  const h = hedger({ hedgeAfterMs: 900, totalTimeoutMs: 900 });
  const { answer } = await begin(h, request);
  clock.advance(899);
  late.open();
  assert.equal(await text(answer), "answer 0");
  assert.equal(request.log.attempts, 1);
  assert.equal(h.stats.refused.deadline, 1);
});

test("an attempt that takes longer than its own limit is given up, and the copy goes", async () => {
  const request = server.script(HANG, {});
  const { answer } = await begin(hedger({ hedgeAfterMs: 15000 }), request);
  clock.advance(12000);
  assert.equal(await text(answer), "answer 1");
  await request.log.gone(0);
});

test("first_token: headers without a token do not stop the clock; with response_headers they do", async () => {
  const token = gate();
  const steps = [{ chunks: [{ at: token, text: "slow" }] }, { chunks: [{ text: "fast" }] }];
  const { answer } = await begin(hedger({ hedgeSignal: "first_token" }), server.script(...steps));
  clock.advance(1000);
  assert.equal(await text(answer), "fast");
  const early = server.script(...steps);
  const response = await hedger().fetch(early.send, {});
  clock.advance(1000);
  token.open();
  assert.equal(await response.text(), "slow");
  assert.equal(early.log.attempts, 1);
});

test("after its first token the winner is never switched", async () => {
  const rest = gate();
  const request = server.script({ chunks: [{ text: "one " }, { at: rest, text: "two" }] });
  const response = await hedger({ hedgeSignal: "first_token" }).fetch(request.send, {});
  clock.advance(5000);
  rest.open();
  assert.equal(await response.text(), "one two");
  assert.equal(request.log.attempts, 1);
});

test("nothing of the loser reaches the caller", async () => {
  const [loser, rest] = [gate(), gate()];
  const request = server.script({ chunks: [{ at: loser, text: "loser" }] }, { chunks: [{ text: "win" }, { at: rest, text: "ner" }] });
  const { answer } = await begin(hedger({ hedgeSignal: "first_token" }), request);
  clock.advance(1000);
  const response = await answer;
  loser.open();
  rest.open();
  assert.equal(await response.text(), "winner");
});

test("response: a begun answer is not yet an answer", async () => {
  const request = server.script({ chunks: [{ text: "begun" }], stall: true }, { chunks: [{ text: "whole" }] });
  const { answer } = await begin(hedger({ hedgeSignal: "response" }), request);
  clock.advance(1000);
  assert.equal(await text(answer), "whole");
});

/** A request that is slow until its copy would have been sent; tells how many attempts reached the server. */
async function slow(h) {
  const late = gate();
  const request = server.script({ at: late });
  const { answer } = await begin(h, request);
  const copies = h.stats.copies;
  clock.advance(1000);
  const sent = h.stats.copies - copies;
  if (sent > 0) await request.log.reached(2);
  late.open();
  await text(answer);
  return 1 + sent;
}

test("the budget: its burst, then a copy for each 20 requests at 5 %", async () => {
  const h = hedger({ budgetBurst: 1 });
  assert.equal(await slow(h), 2);
  assert.equal(await slow(h), 1);
  assert.equal(h.stats.refused.budget, 1);
  for (let k = 0; k < 18; k++) await text(h.fetch(server.script({}).send, {}));
  assert.equal(await slow(h), 2);
  assert.equal(await slow(h), 1);
});

test("copies in flight are limited, and the place is given back", async () => {
  const h = hedger({ budgetBurst: 9, budgetMaxConcurrent: 1 });
  const copy = gate();
  const first = server.script(HANG, { at: copy });
  const one = await begin(h, first);
  clock.advance(1000);
  await first.log.reached(2);
  assert.equal(await slow(h), 1);
  assert.equal(h.stats.refused.budget, 1);
  copy.open();
  assert.equal(await text(one.answer), "answer 1");
  assert.equal(await slow(h), 2);
});

test("errors above the limit stop copies", async () => {
  const h = hedger({ suppressOnErrorPercent: 10, budgetBurst: 100 });
  for (let k = 0; k < 20; k++) await h.fetch(server.script({ status: 503 }, { status: 503 }).send, {});
  assert.equal(await slow(h), 1);
  assert.equal(h.stats.refused.suppressed, 1);
});

test("copies above the limit stop copies", async () => {
  const h = hedger({ suppressOnHedgePercent: 10, budgetPercent: 100, budgetBurst: 100 });
  for (let k = 0; k < 20; k++) assert.equal(await slow(h), 2);
  assert.equal(await slow(h), 1);
});

test("three attempts: a copy at each multiple of the delay, and all losers are aborted", async () => {
  const request = server.script(HANG, HANG, {});
  const { answer } = await begin(hedger({ maxAttempts: 3 }), request);
  clock.advance(1000);
  await request.log.reached(2);
  clock.advance(1000);
  assert.equal(await text(answer), "answer 2");
  await request.log.gone(0, 1);
});

test("a cold start sends no flood of copies", async () => {
  const h = hedger();
  const requests = Array.from({ length: 30 }, () => server.script({ at: gate() }));
  const begun = await Promise.all(requests.map((request) => begin(h, request)));
  clock.advance(1000);
  assert.equal(h.stats.copies, SETTINGS.budgetBurst); // not 30, and not the burst of a whole fleet
  clock.advance(19000);
  for (const { answer } of begun) await assert.rejects(answer);
});

test("the caller's own abort reaches every attempt", async () => {
  const request = server.script(HANG, HANG);
  const controller = new AbortController();
  const { answer } = await begin(hedger(), request, {}, controller.signal);
  clock.advance(1000);
  await request.log.reached(2);
  controller.abort(new Error("gone"));
  await assert.rejects(answer, /gone/);
  await request.log.gone(0, 1);
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
    const h = hedger(changes, noon);
    assert.equal(await slow(h), 1);
    assert.equal(h.stats.refused.off, 1);
  }
});

test("what is not eligible is sent once, under the same deadline", async () => {
  const h = hedger({ excludeToolCalls: true });
  const late = gate();
  const request = server.script({ at: late });
  const { answer } = await begin(h, request, { tools: ["charge_card"] });
  clock.advance(5000);
  late.open();
  assert.equal(await text(answer), "answer 0");
  assert.equal(request.log.attempts, 1);
  assert.equal(h.stats.refused.ineligible, 1);
  const stuck = await begin(h, server.script(HANG), { tools: ["charge_card"] });
  clock.advance(20000);
  await assert.rejects(stuck.answer, /longer than 12000 ms/);
});

test("rules: what is unknown is not eligible", () => {
  const scope = { enabled: true };
  assert.equal(isEligible(scope, {}), true);
  const rows = [
    [{ excludeStreaming: true }, { streamed: false }, { streamed: true }],
    [{ onlyStreaming: true }, { streamed: true }, { streamed: false }],
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
