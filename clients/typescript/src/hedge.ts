// Sends a second copy of a slow request, as the settings of `hedgectl emit --to client` say.
//
// What is easy to get wrong, and is done right here: a failure of the first attempt does not end the race before the
// copy; a refusal (429, 5xx) never wins; timers are cleared; losers are aborted; one deadline holds for both attempts and
// for the winner's body; after the first token the winner is never switched; everything unknown means no copy.

import { inOnBlock, inWindows, isEligible, scopeFor } from "./settings.js";
import type { HedgeSettings, RequestFacts, ScopeSettings, Signal } from "./settings.js";

export * from "./settings.js";

/** Sends attempt 0, 1, ...; must honour the signal. Attempts after the first should reach another replica. */
export type Send = (attempt: number, signal: AbortSignal) => Promise<Response>;

export interface Stats {
  requests: number;
  copies: number;
  copyWins: number;
  refused: { off: number; ineligible: number; budget: number; suppressed: number; deadline: number };
}

export class DeadlineError extends Error {
  override name = "DeadlineError";
}

class AttemptTimeout extends Error {
  override name = "AttemptTimeout";
}

const RECENT = 100; // outcomes over which error and hedge shares are taken
const ENOUGH = 20;

/** One hedger a process: it keeps the budget and what it has seen of errors. */
export class Hedger {
  readonly stats: Stats = {
    requests: 0,
    copies: 0,
    copyWins: 0,
    refused: { off: 0, ineligible: 0, budget: 0, suppressed: 0, deadline: 0 },
  };
  private readonly books = new Map<ScopeSettings, Book>();

  constructor(
    private settings: HedgeSettings,
    private readonly now: () => number = Date.now,
  ) {}

  /** New settings, for example from the remote configuration; budgets start anew. */
  update(settings: HedgeSettings): void {
    this.settings = settings;
    this.books.clear();
  }

  async fetch(send: Send, facts: RequestFacts, signal?: AbortSignal): Promise<Response> {
    this.stats.requests += 1;
    signal?.throwIfAborted();
    const scope = scopeFor(this.settings, facts);
    if (scope === undefined || !(await this.isOn(scope))) {
      this.stats.refused.off += 1;
      return send(0, signal ?? new AbortController().signal);
    }
    signal?.throwIfAborted();
    const book = this.book(scope);
    book.earn();
    const eligible = isEligible(scope, facts);
    if (!eligible) this.stats.refused.ineligible += 1;
    return new Race(send, scope, book, this.stats, eligible, signal).run();
  }

  private async isOn(scope: ScopeSettings): Promise<boolean> {
    const now = this.now();
    // an expiry that cannot be read is NaN, and nothing is below NaN: no copies
    const fresh = now < Date.parse(this.settings.expiresAt);
    return scope.enabled === true && fresh && inWindows(scope.hedgeWindowsUtc, now) && (await inOnBlock(scope, now));
  }

  private book(scope: ScopeSettings): Book {
    let book = this.books.get(scope);
    if (book === undefined) {
      book = new Book(scope);
      this.books.set(scope, book);
    }
    return book;
  }
}

/** Budget and recent outcomes of one scope in this process. */
class Book {
  private tokens: number;
  private inFlight = 0;
  private readonly errors: boolean[] = [];
  private readonly hedged: boolean[] = [];

  constructor(private readonly scope: ScopeSettings) {
    this.tokens = scope.budgetBurst ?? 1;
  }

  earn(): void {
    const { budgetPercent, budgetBurst = 1 } = this.scope;
    if (budgetPercent !== undefined) this.tokens = Math.min(budgetBurst, this.tokens + budgetPercent / 100);
  }

  /** Takes what one copy costs, or says why not. */
  take(): "budget" | "suppressed" | undefined {
    const { budgetPercent, budgetMaxConcurrent = Infinity, suppressOnErrorPercent, suppressOnHedgePercent } = this.scope;
    if (percent(this.errors) > (suppressOnErrorPercent ?? Infinity)) return "suppressed";
    if (percent(this.hedged) > (suppressOnHedgePercent ?? Infinity)) return "suppressed";
    // 0.05 twenty times is 1.0000000000000002 or 0.9999999999999999
    if (this.inFlight >= budgetMaxConcurrent || (budgetPercent !== undefined && this.tokens < 1 - 1e-9)) return "budget";
    if (budgetPercent !== undefined) this.tokens -= 1;
    this.inFlight += 1;
    return undefined;
  }

  giveBack(): void {
    this.inFlight -= 1;
  }

  record(failed: boolean, copies: number): void {
    for (const [list, value] of [[this.errors, failed], [this.hedged, copies > 0]] as const) {
      list.push(value);
      if (list.length > RECENT) list.shift();
    }
  }
}

function percent(outcomes: readonly boolean[]): number {
  return outcomes.length < ENOUGH ? 0 : (100 * outcomes.filter(Boolean).length) / outcomes.length;
}

interface Attempt {
  readonly number: number;
  readonly controller: AbortController;
  timer: ReturnType<typeof setTimeout> | undefined;
  open: boolean; // still in flight, or its body is still being read
}

type Outcome = { readonly response: Response } | { readonly error: unknown };

class Race {
  private readonly attempts: Attempt[] = [];
  private readonly failures: Outcome[] = [];
  private copyTimer: ReturnType<typeof setTimeout> | undefined;
  private deadlineTimer: ReturnType<typeof setTimeout> | undefined;
  private settled = false;
  private resolve!: (response: Response) => void;
  private reject!: (error: unknown) => void;
  private readonly onAbort = () => this.fail(this.signal?.reason);

  constructor(
    private readonly send: Send,
    private readonly scope: ScopeSettings,
    private readonly book: Book,
    private readonly stats: Stats,
    private readonly eligible: boolean,
    private readonly signal: AbortSignal | undefined,
  ) {}

  run(): Promise<Response> {
    const { totalTimeoutMs } = this.scope;
    return new Promise<Response>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
      this.signal?.addEventListener("abort", this.onAbort, { once: true });
      if (totalTimeoutMs !== undefined) {
        this.deadlineTimer = setTimeout(() => this.fail(new DeadlineError(`no answer within ${totalTimeoutMs} ms`)), totalTimeoutMs);
      }
      this.start();
      this.plan();
    });
  }

  private plan(): void {
    const { hedgeAfterMs, totalTimeoutMs = Infinity, maxAttempts = 1 } = this.scope;
    if (!this.eligible || hedgeAfterMs === undefined || this.attempts.length >= maxAttempts) return;
    if (hedgeAfterMs * this.attempts.length >= totalTimeoutMs) {
      this.stats.refused.deadline += 1;
      return;
    }
    this.copyTimer = setTimeout(() => {
      if (this.copy()) this.plan();
    }, hedgeAfterMs);
  }

  /** Sends a copy if the budget and the signals allow it. */
  private copy(): boolean {
    clearTimeout(this.copyTimer);
    const refused = this.book.take();
    if (refused !== undefined) {
      this.stats.refused[refused] += 1;
      return false;
    }
    this.stats.copies += 1;
    this.start();
    return true;
  }

  private start(): void {
    const attempt: Attempt = { number: this.attempts.length, controller: new AbortController(), timer: undefined, open: true };
    this.attempts.push(attempt);
    const { perAttemptTimeoutMs } = this.scope;
    if (perAttemptTimeoutMs !== undefined) {
      const late = new AttemptTimeout(`attempt ${attempt.number} took longer than ${perAttemptTimeoutMs} ms`);
      attempt.timer = setTimeout(() => this.stop(attempt, late, { error: late }), perAttemptTimeoutMs);
    }
    void this.follow(attempt);
  }

  private async follow(attempt: Attempt): Promise<void> {
    let outcome: Outcome;
    try {
      const response = await this.send(attempt.number, attempt.controller.signal);
      if (refuses(response)) {
        outcome = { response };
      } else {
        outcome = { response: await reached(response, this.scope.hedgeSignal ?? "response_headers") };
        if (this.settled || !attempt.open) {
          discard(outcome);
          return;
        }
        this.win(attempt, outcome.response);
        return;
      }
    } catch (error) {
      outcome = { error };
    }
    this.lose(attempt, outcome);
  }

  private win(attempt: Attempt, response: Response): void {
    this.settled = true;
    clearTimeout(this.copyTimer);
    for (const other of this.attempts) if (other !== attempt) this.stop(other, new Error("another attempt has won"));
    this.failures.forEach(discard);
    if (attempt.number > 0) this.stats.copyWins += 1;
    this.book.record(false, this.attempts.length - 1);
    // the deadlines go on until the body is read: a stream that stalls is not an answer
    this.resolve(
      ending(response, () => {
        this.close(attempt);
        this.end();
      }),
    );
  }

  /** An attempt failed. The race goes on while another runs or a copy may still be sent. */
  private lose(attempt: Attempt, outcome: Outcome): void {
    if (!attempt.open || this.settled) discard(outcome);
    if (!attempt.open) return;
    this.close(attempt);
    if (this.settled) return;
    this.failures.push(outcome);
    if (this.attempts.some((other) => other.open)) return;
    const { maxAttempts = 1 } = this.scope;
    // nothing is left to wait for, so the copy goes at once, within the same budget
    if (this.eligible && this.attempts.length < maxAttempts && this.copy()) {
      this.plan();
      return;
    }
    this.giveUp();
  }

  private giveUp(): void {
    this.settled = true;
    clearTimeout(this.copyTimer);
    this.book.record(true, this.attempts.length - 1);
    this.end();
    const [first, ...others] = this.failures; // the first is what the caller would have had without a copy
    others.forEach(discard);
    if (first !== undefined && "response" in first) this.resolve(first.response);
    else this.reject(first?.error);
  }

  /** The deadline, or the caller's own abort: also cuts the winner's body. */
  private fail(reason: unknown): void {
    const before = this.settled;
    this.settled = true;
    clearTimeout(this.copyTimer);
    for (const attempt of this.attempts) this.stop(attempt, reason);
    this.end();
    if (!before) {
      this.book.record(true, this.attempts.length - 1);
      this.reject(reason);
    }
  }

  private stop(attempt: Attempt, reason: unknown, outcome?: Outcome): void {
    if (!attempt.open) return;
    attempt.controller.abort(reason);
    if (outcome === undefined) this.close(attempt);
    else this.lose(attempt, outcome);
  }

  private close(attempt: Attempt): void {
    if (!attempt.open) return;
    attempt.open = false;
    clearTimeout(attempt.timer);
    if (attempt.number > 0) this.book.giveBack();
  }

  private end(): void {
    clearTimeout(this.deadlineTimer);
    this.signal?.removeEventListener("abort", this.onAbort);
  }
}

/** Lets go of an answer that nobody will read, so that its connection is free again. */
function discard(outcome: Outcome): void {
  if ("response" in outcome) outcome.response.body?.cancel().catch(() => undefined);
}

/** Answers that another replica may well give better. Other refusals (400, 401, ...) would only be repeated. */
function refuses(response: Response): boolean {
  return response.status >= 500 || [408, 425, 429].includes(response.status);
}

/** The response once its signal is there: headers, first bytes of the body, or all of it. */
async function reached(response: Response, signal: Signal): Promise<Response> {
  if (signal === "response_headers" || response.body === null) return response;
  if (signal === "response") return like(response, await response.arrayBuffer());
  const reader = response.body.getReader();
  let first = await reader.read();
  while (!first.done && first.value.length === 0) first = await reader.read();
  return like(
    response,
    new ReadableStream<Uint8Array>({
      start(stream) {
        if (first.done) stream.close();
        else stream.enqueue(first.value);
      },
      async pull(stream) {
        const { done, value } = await reader.read();
        if (done) stream.close();
        else stream.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    }),
  );
}

/** The same response; `ended` is called once, when its body has been read, has failed or is given up. */
function ending(response: Response, ended: () => void): Response {
  if (response.body === null) {
    ended();
    return response;
  }
  const reader = response.body.getReader();
  return like(
    response,
    new ReadableStream<Uint8Array>({
      async pull(stream) {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            stream.enqueue(value);
            return;
          }
          ended();
          stream.close();
        } catch (error) {
          ended();
          stream.error(error);
        }
      },
      async cancel(reason) {
        ended();
        await reader.cancel(reason);
      },
    }),
  );
}

function like(response: Response, body: BodyInit): Response {
  const { status, statusText, headers } = response;
  return new Response(body, { status, statusText, headers });
}
