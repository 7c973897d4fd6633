import type { EndorsedArgument, Policy } from './policy.js';

/**
 * The port that keeps the policies that change while the application runs, and its kill switches.
 * Each change has a revision of its own, in the order in which the changes become visible: what was
 * read up to a revision is never added to later.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   providers: [{ provide: PolicyStore, useClass: RedisPolicyStore }],
 * });
 */
export abstract class PolicyStore {
  /**
   * Adds a version, and returns whether it is the next of its scope: of two that are added at once
   * one is. Keeps the last {@link KEPT_POLICY_VERSIONS}.
   */
  abstract add(version: PolicyVersion): Promise<boolean>;
  abstract find(scope: PolicyScope, number: number): Promise<PolicyVersion | undefined>;
  /** Lists the versions of a scope, the newest first. */
  abstract list(page: PolicyPage): Promise<readonly PolicyVersion[]>;
  /** Puts a stop in force; the same one twice is one. */
  abstract stop(stop: PolicyStop): Promise<void>;
  /** Ends a stop, and returns whether it was in force. */
  abstract release(stopId: string): Promise<boolean>;
  /** Returns what is in force, with the versions that were put after a revision; 0 for all. */
  abstract read(since: number): Promise<PolicyState>;
  /**
   * Tells signs: one at once, one within a second of each change in whatever process, and where
   * others can change it one at least every {@link POLICY_TRUST_MS} as long as the store answers,
   * whether anything has changed or not. Resolves, before the first sign or after it, to what ends
   * it.
   */
  abstract watch(told: (sign: PolicySign) => void): Promise<() => Promise<void>>;
}

/** The number of versions that a scope keeps; with each new one the oldest is forgotten. */
export const KEPT_POLICY_VERSIONS = 1_000;

/**
 * Milliseconds for which a process relies on what it has read of policies that other processes can
 * change.
 */
export const POLICY_TRUST_MS = 5_000;

/** Milliseconds between two signs of a store that other processes can change. */
export const POLICY_POLL_MS = 500;

/**
 * The reach of a policy or of a stop: one tenant, or where none is named every tenant of the
 * application.
 */
export interface PolicyScope {
  readonly tenant?: string;
}

/** A version of the policies of a scope, as a person put it. It never changes. */
export interface PolicyVersion extends PolicyScope {
  /** From 1 in its scope, without a gap. */
  readonly number: number;
  /**
   * The policies, of which the strictest decides. Absent for those that the application was started
   * with, which for a tenant are none.
   */
  readonly policies?: readonly Policy[];
  /**
   * Values that are trusted in all runs of the tenant, as far as the application's policy lets
   * people trust them. @default none
   */
  readonly endorsed?: readonly EndorsedArgument[];
  /** The id of the person who put it. */
  readonly author: string;
  readonly reason: string;
  /** Set for a rollback: the number of the version whose policies these are, or 0. */
  readonly rollbackOf?: number;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/**
 * A kill switch that is on: calls of its target are denied. A target without a tool and a source is
 * everything in its scope.
 */
export interface PolicyStop extends PolicyScope {
  readonly stopId: string;
  /** The declared id of the tool. */
  readonly tool?: string;
  /** The tool source, as `ToolCatalog.describe` names it. */
  readonly source?: string;
  /** The id of the person who stopped it. */
  readonly author: string;
  readonly reason: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** All that is in force, as far as it has changed since a revision. */
export interface PolicyState {
  /** Grows with every change. 0 before the first. */
  readonly revision: number;
  /** The newest version of every scope in which one was put since. */
  readonly versions: readonly PolicyVersion[];
  /** All stops that are in force, however old. */
  readonly stops: readonly PolicyStop[];
}

/**
 * A sign of life of a store: what is in force has this revision, and may be relied on for so many
 * milliseconds.
 */
export interface PolicySign {
  readonly revision: number;
  /** `Infinity` for a store that no other process changes. */
  readonly forMs: number;
}

/** A page of the versions of a scope. */
export interface PolicyPage extends PolicyScope {
  readonly limit: number;
  /**
   * The number of the oldest version of the page before. @default the newest version begins the
   * page
   */
  readonly before?: number;
}
