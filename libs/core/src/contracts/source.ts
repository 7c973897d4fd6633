import type { Finding, ToolOrigin } from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import { defineOptions } from '../findings/options.js';
import { WHOLE_ABOVE_ZERO } from '../findings/option-rules.js';
import type { Tool } from './tool.js';

/**
 * The port for contributing tools. A module registers one as a provider; the catalog finds it.
 *
 * A source that is slow, empty or out of reach does not keep the application from starting, and
 * neither does a tool that cannot be used: both are in quarantine until they are well. Only a
 * trusted source without a `prefix` counts as a part of the application, whose mistakes are
 * reported at the start.
 *
 * @example
 * class ReportTools extends ToolSource {
 *   readonly origin = { source: 'reports', trusted: true };
 *
 *   tools(): Promise<readonly Tool[]> {
 *     return this.reports.asTools();
 *   }
 * }
 * @example
 * class GithubTools extends ToolSource {
 *   readonly origin = { source: 'github', trusted: false };
 *   override readonly prefix = 'github';
 *   override readonly changes$ = this.server.listChanged$;
 *
 *   tools(signal: AbortSignal): Promise<readonly Tool[]> {
 *     return this.server.listTools(signal);
 *   }
 * }
 */
export abstract class ToolSource {
  /**
   * Its name, and whether its tools are trusted; read once. A tool is never more trusted than its
   * source.
   */
  abstract readonly origin: ToolOrigin;
  /**
   * Announces the first part of the ids of its tools: `github` for `github__createIssue`, or
   * `mcp__github` for `mcp__github__createIssue`. No other tool can have such an id, and policies
   * may name ids under it before the source has answered. Letters, digits, `-` and `_`, 32
   * characters at most; read once. @default none: policies can only name tools that are there at
   * the start
   */
  readonly prefix?: string;
  /**
   * True where the application has pinned the definitions of all tools that the source hands over,
   * for example by their hashes in a file under version control. Their descriptions then count as
   * pinned, as if a policy did it. @default false: only a policy pins them
   */
  readonly isPinned?: boolean;
  /**
   * Emits anything when {@link tools} would return something else. @default the tools are asked for
   * once
   */
  readonly changes$?: Observable<unknown>;
  /**
   * Returns all of its tools, and those that it keeps back itself. The signal is aborted when the
   * answer has taken too long, or the application shuts down. Definitions that are equal to those
   * of before keep their tools in place; the newest objects are called.
   */
  abstract tools(signal: AbortSignal): readonly SourceTool[] | Promise<readonly SourceTool[]>;
  /**
   * Returns the tools that it is known to have while it has not answered yet: they are in the
   * catalog until it does, and their calls say that it is away.
   * @default none: its tools join when it answers
   */
  known?(): readonly SourceTool[];
}

/**
 * A tool that its own source keeps out of the catalog. It is in quarantine, with this reason, and a
 * finding.
 */
export interface RefusedTool {
  readonly id: string;
  readonly refused: Omit<Finding, 'at'>;
}

/** A part of what a source answers. */
export type SourceTool = Tool | RefusedTool;

/** Options for all sources of tools, in milliseconds but for `tools`. */
export interface SourceOptions {
  /**
   * The time that the start of the application waits for the tools of its sources. Later ones join
   * when they come. @default 5_000
   */
  readonly startMs?: number;
  /** The time that one answer of a source may take. @default 30_000 */
  readonly answerMs?: number;
  /**
   * The pause before a source that failed is asked again, and between two of its changes. It
   * doubles while the source fails or keeps changing. @default 1_000
   */
  readonly pauseMs?: number;
  /** The longest such pause. @default 60_000 */
  readonly longestPauseMs?: number;
  /** The most tools of one source; the others are left out. @default 500 */
  readonly tools?: number;
}

export const SOURCES = defineOptions<SourceOptions>({
  startMs: WHOLE_ABOVE_ZERO,
  answerMs: WHOLE_ABOVE_ZERO,
  pauseMs: WHOLE_ABOVE_ZERO,
  longestPauseMs: WHOLE_ABOVE_ZERO,
  tools: WHOLE_ABOVE_ZERO,
});

export const DEFAULT_SOURCES: Required<SourceOptions> = {
  startMs: 5_000,
  answerMs: 30_000,
  pauseMs: 1_000,
  longestPauseMs: 60_000,
  tools: 500,
};

/** A tool of a source that is not in the catalog. */
export interface QuarantinedTool {
  /**
   * The id that its source gives it, cut to 64 characters, with escapes for characters that are not
   * seen.
   */
  readonly id: string;
  readonly reason: string;
  /**
   * The hash of the declaration that a policy would pin to let it in. Absent where it is in
   * quarantine for another reason.
   */
  readonly schemaHash?: string;
}

/** The state of a source of tools; JSON. */
export interface SourceStatus {
  readonly source: string;
  readonly prefix?: string;
  readonly trusted: boolean;
  /**
   * `starting`: it has not answered yet. `unreachable`: it did not answer when it was last asked;
   * the tools of its last answer stay.
   */
  readonly state: 'starting' | 'ready' | 'unreachable';
  /** The time since when it is in this state: ISO 8601. */
  readonly since: string;
  /** The declared ids of its tools in the catalog. */
  readonly tools: readonly string[];
  /** The first hundred of those that are not. */
  readonly quarantined: readonly QuarantinedTool[];
  /** The number of tools beyond the limits, which were not looked at. */
  readonly leftOut: number;
  /** A description of the last failure, without what the source said of it. */
  readonly lastError?: string;
}
