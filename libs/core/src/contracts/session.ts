import type { JsonObject, JsonValue, ToolInvocationRecord, ToolMessage, ToolSpec } from '@toolloop/protocol';
import { CHECKED_BY_USE, defineOptions } from '../findings/options.js';
import { type LoopRequest, REQUEST } from './loop-request.js';
import type { RegisteredActor } from './tool-call.js';

/** One call of one tool, made without a model. Its options are those of a run, as far as they are about calls. */
export interface CallRequest<Actor = RegisteredActor> extends Pick<
  LoopRequest<unknown, Actor>,
  | 'actor'
  | 'tenant'
  | 'context'
  | 'tools'
  | 'exclude'
  | 'policy'
  | 'limits'
  | 'execution'
  | 'injection'
  | 'surface'
  | 'onToolError'
  | 'approvals'
  | 'hooks'
  | 'requestId'
  | 'signal'
> {
  /** The id of the tool, as `ToolLoopService.list` has it. */
  readonly tool: string;
  /** The arguments, which may come from anywhere: they are checked like those of a model. @default {} */
  readonly args?: JsonObject;
}

/** The outcome of one call. What goes out as JSON is what a UI may show. */
export interface CallResult {
  /** The run of the call. */
  readonly runId: string;
  /** In the ui projection. */
  readonly record: ToolInvocationRecord;
  /** The result as a UI may show it; undefined for a call that did not succeed. */
  readonly ui: JsonValue | undefined;
  /** The tools that the result brought. */
  readonly injectedTools: readonly ToolSpec[];
  /** Set where the call was not made yet: `RunService.resume` continues its run once it was decided on. */
  readonly waiting?: WaitingCall;
  /** The model's projection of the result or the error; undefined for a call that waits. Not enumerable. */
  readonly content: ToolMessage['content'] | undefined;
  toJSON(): JsonValue;
}

/** The run of a call that waits. */
export interface WaitingCall {
  readonly runId: string;
  readonly for: 'approval';
}

const { rules } = REQUEST;

/** The options of a call. The tool and its arguments may be a client's words: the pipeline checks them. */
export const CALL = defineOptions<CallRequest>({
  actor: rules.actor,
  tenant: rules.tenant,
  context: rules.context,
  tools: rules.tools,
  exclude: rules.exclude,
  policy: rules.policy,
  limits: rules.limits,
  execution: rules.execution,
  injection: rules.injection,
  surface: rules.surface,
  onToolError: rules.onToolError,
  approvals: rules.approvals,
  hooks: rules.hooks,
  requestId: rules.requestId,
  signal: rules.signal,
  tool: CHECKED_BY_USE,
  args: CHECKED_BY_USE,
});

/** The key of an account: the principal, and what the application calls the place in which several of its sessions belong together. */
export interface AccountKey {
  readonly tenant: string;
  readonly actorId: string;
  readonly scope: string;
}

/** The part of sessions that outlives them, for one principal in one scope: opening another session gets rid of none of it. */
export interface SessionAccount {
  /** True once untrusted content was read. */
  readonly isTainted: boolean;
  /** True once private content was read. */
  readonly hasReadPrivate: boolean;
  /** The number of refused calls in a row. */
  readonly refusals: number;
  /** The counts of budgets, by names that say what is counted. */
  readonly counts: Readonly<Record<string, number>>;
}

/** An addition to an account. What is left out stays as it is. */
export interface AccountAddition {
  readonly isTainted?: true;
  readonly hasReadPrivate?: true;
  /** `true` counts one more refusal in a row; `false` ends the row. */
  readonly isRefused?: boolean;
  /** Amounts to add; not negative. */
  readonly counts?: Readonly<Record<string, number>>;
}

/**
 * The port that keeps the accounts of sessions, across sessions and, with a database behind it, across processes.
 *
 * Adding and reading are one atomic operation, so that no addition is lost and two who add at once are told different totals. An account expires where nothing was
 * added for as long as it was to be kept; the next addition begins it anew. Until then it is never dropped, since that would take its taint away: a store without
 * room throws.
 *
 * @example
 * { provide: AccountStore, useClass: RedisAccountStore }
 */
export abstract class AccountStore {
  /**
   * Adds to an account and returns it, this addition included. An empty addition reads it, and begins the time anew for which it is kept.
   *
   * @param keptMs milliseconds, whole, more than 0
   */
  abstract add(key: AccountKey, addition: AccountAddition, keptMs: number): Promise<SessionAccount>;
}
