// The settings of `hedgectl emit --to client`, and the question whether one request may be sent twice.

export type Signal = "first_token" | "response" | "response_headers";

export interface OtherRule {
  readonly field: string;
  readonly op: string;
  readonly value: boolean | number | string | readonly string[];
}

export interface ScopeSettings {
  readonly enabled: boolean;
  readonly model?: string;
  readonly route?: string;
  readonly sizeClass?: string;
  readonly hedgeSignal?: Signal;
  readonly hedgeAfterMs?: number;
  readonly maxAttempts?: number;
  readonly perAttemptTimeoutMs?: number;
  readonly totalTimeoutMs?: number;
  readonly budgetPercent?: number;
  readonly budgetBurst?: number;
  readonly budgetMaxConcurrent?: number;
  readonly excludeStreaming?: boolean;
  readonly onlyStreaming?: boolean;
  readonly excludeToolCalls?: boolean;
  readonly allowedTools?: readonly string[];
  readonly excludedTools?: readonly string[];
  readonly excludeCacheHits?: boolean;
  readonly excludeStoredState?: boolean;
  readonly excludeStickySessions?: boolean;
  readonly excludeBatch?: boolean;
  readonly maxChoices?: number;
  readonly maxPromptTokens?: number;
  readonly maxCachedRatio?: number;
  readonly cachedRatioBelow?: number;
  readonly allowedSegments?: readonly string[];
  readonly excludedSegments?: readonly string[];
  readonly allowedPaths?: readonly string[];
  readonly excludedPaths?: readonly string[];
  readonly otherRules?: readonly OtherRule[];
  readonly hedgeWindowsUtc?: readonly string[];
  readonly suppressOnErrorPercent?: number;
  readonly suppressOnHedgePercent?: number;
  readonly experimentKind?: string;
  readonly experimentBlockSeconds?: number;
  readonly experimentSeed?: number;
}

export interface HedgeSettings extends ScopeSettings {
  readonly schemaVersion: number;
  readonly expiresAt: string;
  readonly scopes?: readonly ScopeSettings[];
}

/** What the caller knows of a request. A rule about something that is left out is not satisfied. */
export interface RequestFacts {
  readonly model?: string;
  readonly route?: string;
  readonly sizeClass?: string;
  readonly streamed?: boolean;
  readonly tools?: readonly string[]; // names offered; [] = none
  readonly cacheHit?: boolean;
  readonly storedState?: boolean;
  readonly stickySession?: boolean;
  readonly batch?: boolean;
  readonly choices?: number;
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly requestBytes?: number;
  readonly segment?: string;
  readonly provider?: string;
}

/** The settings that speak for a request: the first scope that fits, most specific first; undefined = none. */
export function scopeFor(settings: HedgeSettings, facts: RequestFacts): ScopeSettings | undefined {
  return (settings.scopes ?? [settings]).find(
    (scope) =>
      (scope.model === undefined || scope.model === facts.model) &&
      (scope.route === undefined || scope.route === facts.route) &&
      (scope.sizeClass === undefined || scope.sizeClass === facts.sizeClass),
  );
}

export function isEligible(scope: ScopeSettings, facts: RequestFacts): boolean {
  const { tools, promptTokens, cachedTokens } = facts;
  const cachedRatio =
    promptTokens === undefined || cachedTokens === undefined ? undefined : cachedTokens / Math.max(1, promptTokens);
  const isFalse = (asked: boolean | undefined, found: boolean | undefined) => asked !== true || found === false;
  const isIn = (list: readonly string[] | undefined, found: string | undefined) =>
    list === undefined || (found !== undefined && list.includes(found));
  const notIn = (list: readonly string[] | undefined, found: string | undefined) =>
    list === undefined || (found !== undefined && !list.includes(found));
  const atMost = (limit: number | undefined, found: number | undefined) =>
    limit === undefined || (found !== undefined && found <= limit);
  return (
    isFalse(scope.excludeStreaming, facts.streamed) &&
    (scope.onlyStreaming !== true || facts.streamed === true) &&
    isFalse(scope.excludeToolCalls, tools === undefined ? undefined : tools.length > 0) &&
    (scope.allowedTools === undefined || (tools !== undefined && tools.every((t) => scope.allowedTools?.includes(t)))) &&
    (scope.excludedTools === undefined || (tools !== undefined && !tools.some((t) => scope.excludedTools?.includes(t)))) &&
    isFalse(scope.excludeCacheHits, facts.cacheHit) &&
    isFalse(scope.excludeStoredState, facts.storedState) &&
    isFalse(scope.excludeStickySessions, facts.stickySession) &&
    isFalse(scope.excludeBatch, facts.batch) &&
    atMost(scope.maxChoices, facts.choices) &&
    atMost(scope.maxPromptTokens, promptTokens) &&
    atMost(scope.maxCachedRatio, cachedRatio) &&
    (scope.cachedRatioBelow === undefined || (cachedRatio !== undefined && cachedRatio < scope.cachedRatioBelow)) &&
    isIn(scope.allowedSegments, facts.segment) &&
    notIn(scope.excludedSegments, facts.segment) &&
    isIn(scope.allowedPaths, facts.route) &&
    notIn(scope.excludedPaths, facts.route) &&
    (scope.otherRules ?? []).every((rule) => holds(rule, facts, cachedRatio))
  );
}

function holds(rule: OtherRule, facts: RequestFacts, cachedRatio: number | undefined): boolean {
  const known: Record<string, boolean | number | string | undefined> = {
    streamed: facts.streamed,
    tools_offered: facts.tools === undefined ? undefined : facts.tools.length > 0,
    cache_hit: facts.cacheHit,
    stored_state: facts.storedState,
    sticky_session: facts.stickySession,
    batch: facts.batch,
    n_choices: facts.choices,
    prompt_tokens: facts.promptTokens,
    cached_tokens: facts.cachedTokens,
    cached_ratio: cachedRatio,
    request_bytes: facts.requestBytes,
    segment: facts.segment,
    route: facts.route,
    provider: facts.provider,
  };
  const found = known[rule.field];
  const { value } = rule;
  if (found === undefined) return false;
  if (typeof value === "object") {
    const listed = value.includes(String(found));
    return rule.op === "in" ? listed : rule.op === "not_in" && !listed;
  }
  switch (rule.op) {
    case "=":
      return found === value;
    case "!=":
      return found !== value;
    case "<":
      return found < value;
    case "<=":
      return found <= value;
    case ">":
      return found > value;
    case ">=":
      return found >= value;
    default:
      return false; // a rule from the future: rather no copy
  }
}

const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/** Whether `now` (ms since 1970) lies in one of the windows, such as `mon-fri 13:00-17:30`, UTC. */
export function inWindows(windows: readonly string[] | undefined, now: number): boolean {
  if (windows === undefined) return true;
  const date = new Date(now);
  const day = (date.getUTCDay() + 6) % 7;
  const minute = date.getUTCHours() * 60 + date.getUTCMinutes();
  return windows.some((window) => {
    const [days = "", hours = ""] = window.split(" ");
    const [from = NaN, to = NaN] = hours.split("-").map((time) => {
      const [h = NaN, m = NaN] = time.split(":").map(Number);
      return h * 60 + m;
    });
    const onDay = days.split(",").some((part) => {
      const [first = "", last = first] = part.split("-");
      return DAYS.indexOf(first) <= day && day <= DAYS.indexOf(last);
    });
    return onDay && from <= minute && minute < to;
  });
}

/** Whether the block of time that holds `now` has hedging on: the first byte of sha256("seed:block") is even. */
export async function inOnBlock(scope: ScopeSettings, now: number): Promise<boolean> {
  if (scope.experimentBlockSeconds === undefined || scope.experimentSeed === undefined) return true;
  const block = Math.floor(now / 1000 / scope.experimentBlockSeconds);
  const text = new TextEncoder().encode(`${scope.experimentSeed}:${block}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  return (digest[0] ?? 1) % 2 === 0;
}
