// hedgectl emit --to swift
// policy sha256:e4f801209b6600157b0b6b05776fab9fb048a387593d7b95a5e0515360273bc2 as of 2026-11-29T04:15:00Z
// chat: hedge
// embed: do_not_hedge
public enum HedgePolicy {
    public static let schemaVersion = 1
    public static let revision = "e4f801209b66"
    public static let policyId = "sha256:e4f801209b6600157b0b6b05776fab9fb048a387593d7b95a5e0515360273bc2"
    public static let issuedAt = "2026-11-29T04:15:00Z"
    public static let ttlSeconds = 604800
    public static let expiresAt = "2026-12-06T04:15:00Z"

    public struct Scope: Sendable {
        public let enabled: Bool
        public let model: String?
        public let route: String?
        public let sizeClass: String?
        public let hedgeSignal: String?
        public let hedgeAfterSeconds: Double?
        public let maxAttempts: Int?
        public let perAttemptTimeoutSeconds: Double?
        public let totalTimeoutSeconds: Double?
        public let budgetPercent: Double?
        public let budgetBurst: Int?
        public let budgetMaxConcurrent: Int?
        public let differentReplica: Bool?
        public let differentPool: Bool?
        public let excludeStreaming: Bool?
        public let onlyStreaming: Bool?
        public let excludeToolCalls: Bool?
        public let allowedTools: [String]?
        public let excludedTools: [String]?
        public let excludeCacheHits: Bool?
        public let excludeStoredState: Bool?
        public let excludeStickySessions: Bool?
        public let excludeBatch: Bool?
        public let maxChoices: Int?
        public let maxPromptTokens: Int?
        public let maxCachedRatio: Double?
        public let cachedRatioBelow: Double?
        public let allowedSegments: [String]?
        public let excludedSegments: [String]?
        public let allowedPaths: [String]?
        public let excludedPaths: [String]?
        public let hedgeWindowsUtc: [String]?
        public let suppressOnErrorPercent: Double?
        public let suppressOnHedgePercent: Double?
        public let experimentKind: String?
        public let experimentBlockSeconds: Int?
        public let experimentSeed: Int?
    }

    public static let scopes: [Scope] = [
        Scope(
            enabled: true,
            model: "chat",
            route: nil,
            sizeClass: nil,
            hedgeSignal: "response",
            hedgeAfterSeconds: 1.84,
            maxAttempts: 2,
            perAttemptTimeoutSeconds: 12.0,
            totalTimeoutSeconds: 20.0,
            budgetPercent: 5.0,
            budgetBurst: 2,
            budgetMaxConcurrent: 8,
            differentReplica: true,
            differentPool: false,
            excludeStreaming: true,
            onlyStreaming: nil,
            excludeToolCalls: true,
            allowedTools: nil,
            excludedTools: nil,
            excludeCacheHits: nil,
            excludeStoredState: nil,
            excludeStickySessions: nil,
            excludeBatch: nil,
            maxChoices: 1,
            maxPromptTokens: nil,
            maxCachedRatio: nil,
            cachedRatioBelow: nil,
            allowedSegments: ["pro", "team"],
            excludedSegments: nil,
            allowedPaths: nil,
            excludedPaths: nil,
            hedgeWindowsUtc: ["mon-fri 22:00-24:00", "tue-sat 00:00-02:00"],
            suppressOnErrorPercent: 10.0,
            suppressOnHedgePercent: nil,
            experimentKind: "switchback",
            experimentBlockSeconds: 1800,
            experimentSeed: 1
        ),
        Scope(
            enabled: false,
            model: "embed",
            route: nil,
            sizeClass: nil,
            hedgeSignal: nil,
            hedgeAfterSeconds: nil,
            maxAttempts: nil,
            perAttemptTimeoutSeconds: nil,
            totalTimeoutSeconds: nil,
            budgetPercent: nil,
            budgetBurst: nil,
            budgetMaxConcurrent: nil,
            differentReplica: nil,
            differentPool: nil,
            excludeStreaming: nil,
            onlyStreaming: nil,
            excludeToolCalls: nil,
            allowedTools: nil,
            excludedTools: nil,
            excludeCacheHits: nil,
            excludeStoredState: nil,
            excludeStickySessions: nil,
            excludeBatch: nil,
            maxChoices: nil,
            maxPromptTokens: nil,
            maxCachedRatio: nil,
            cachedRatioBelow: nil,
            allowedSegments: nil,
            excludedSegments: nil,
            allowedPaths: nil,
            excludedPaths: nil,
            hedgeWindowsUtc: nil,
            suppressOnErrorPercent: nil,
            suppressOnHedgePercent: nil,
            experimentKind: nil,
            experimentBlockSeconds: nil,
            experimentSeed: nil
        ),
    ]
}
