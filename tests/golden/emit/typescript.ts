// hedgectl emit --to typescript
// policy sha256:e4f801209b6600157b0b6b05776fab9fb048a387593d7b95a5e0515360273bc2 as of 2026-11-29T04:15:00Z
// chat: hedge
// embed: do_not_hedge
export const hedgePolicy = {
  schemaVersion: 1,
  revision: "e4f801209b66",
  policyId: "sha256:e4f801209b6600157b0b6b05776fab9fb048a387593d7b95a5e0515360273bc2",
  issuedAt: "2026-11-29T04:15:00Z",
  ttlSeconds: 604800,
  expiresAt: "2026-12-06T04:15:00Z",
  enabled: false,
  scopes: [
    {
      enabled: true,
      model: "chat",
      hedgeSignal: "response",
      hedgeAfterMs: 1840,
      hedgeAfterSeconds: 1.84,
      maxAttempts: 2,
      perAttemptTimeoutMs: 12000,
      perAttemptTimeoutSeconds: 12.0,
      totalTimeoutMs: 20000,
      totalTimeoutSeconds: 20.0,
      budgetPercent: 5,
      budgetBurst: 2,
      budgetMaxConcurrent: 8,
      differentReplica: true,
      differentPool: false,
      excludeStreaming: true,
      excludeToolCalls: true,
      maxChoices: 1,
      allowedSegments: ["pro", "team"],
      hedgeWindowsUtc: ["mon-fri 22:00-24:00", "tue-sat 00:00-02:00"],
      suppressOnErrorPercent: 10,
      experimentKind: "switchback",
      experimentBlockSeconds: 1800,
      experimentSeed: 1,
    },
    {
      enabled: false,
      model: "embed",
    },
  ],
} as const;
