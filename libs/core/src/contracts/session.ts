import type {
  JsonObject,
  JsonValue,
  ToolInvocationRecord,
  ToolMessage,
  ToolPresentation,
  ToolSpec,
  ValueOrigin,
  WaitingFor,
} from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import {
  BOOLEAN,
  FUNCTION,
  TEXT,
  WHOLE_ABOVE_ZERO,
  oneOf,
  wholeFrom,
} from '../findings/option-rules.js';
import { CHECKED_BY_USE, ITS, defineOptions } from '../findings/options.js';
import type { RegisteredActor } from './registered-actor.js';
import { type LoopRequest, REQUEST } from './loop-request.js';

const { rules } = REQUEST;

/**
 * The options of a call. The tool and its arguments may be a client's words: the pipeline checks
 * them.
 */
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
  plugins: rules.plugins,
  requestId: rules.requestId,
  signal: rules.signal,
  rehearse: rules.rehearse,
  tool: CHECKED_BY_USE,
  args: CHECKED_BY_USE,
  argsOrigin: oneOf('application', 'actor', 'outside'),
  vouchedFor: TEXT,
});

const {
  tool: _tool,
  args: _args,
  rehearse: _rehearse,
  requestId,
  signal,
  ...OF_SESSIONS
} = CALL.rules;

/** The options of a session. */
export const SESSION = defineOptions<SessionRequest>({
  ...OF_SESSIONS,
  labels: rules.labels,
  scope: TEXT,
  readsElsewhere: BOOLEAN,
});

/**
 * One call of one tool, made without a model. Its options are those of a run, as far as they are
 * about calls.
 */
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
  | 'plugins'
  | 'requestId'
  | 'signal'
> {
  /** The id of the tool, as `ToolLoopService.list` has it. */
  readonly tool: string;
  /**
   * The arguments, which may come from anywhere: they are checked like those of a model. @default
   * {}
   */
  readonly args?: JsonObject;
  /**
   * The writer of the arguments: `actor` for a form that a person filled in, `application` for code
   * of your own. Then they carry nothing from outside, whatever the session has read. Not where a
   * client that holds the actor's credentials may be a program: its arguments may be a model's.
   * @default 'outside': they count as written by a model that has read untrusted and private
   *   content, or in a session with a `scope` what its account tells
   */
  readonly argsOrigin?: ValueOrigin;
  /**
   * The reason for which the application vouches for a client outside, by its identity: that what
   * it sends comes from nothing the application has not seen. Each of its calls has the reason in
   * the audit, as an `opt-out`. It changes nothing else. @default none
   */
  readonly vouchedFor?: string;
  /**
   * Makes the call a rehearsal: it is rolled back or previewed, and no one is asked about it.
   * @default false
   */
  readonly rehearse?: boolean;
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
  /**
   * Set where the call was not made yet: `RunService.resume` continues its run once it was decided
   * on.
   */
  readonly waiting?: WaitingCall;
  /**
   * The model's projection of the result or the error; undefined for a call that waits. Not
   * enumerable.
   */
  readonly content: ToolMessage['content'] | undefined;
  toJSON(): JsonValue;
}

/** The run of a call that waits. */
export interface WaitingCall {
  readonly runId: string;
  readonly for: WaitingFor;
}

/**
 * Several calls of one actor without a model, which share tools, entities and what they have read.
 * The options are those of a run, as far as they are about calls.
 */
export interface SessionRequest<Actor = RegisteredActor>
  extends
    Omit<CallRequest<Actor>, 'tool' | 'args' | 'requestId' | 'signal' | 'rehearse'>,
    Pick<LoopRequest<unknown, Actor>, 'labels'> {
  /**
   * The place in which sessions of the actor belong together, such as a desk or a chat of theirs.
   * What such a session reads, spends and is refused is kept in an account, which the next session
   * of the same actor in the same scope takes over. Where a client may choose the scope, it can
   * begin anew by choosing another.
   * @default no account: arguments count as written by a model that has read untrusted and private
   *   content
   */
  readonly scope?: string;
  /**
   * Says that the client may have read anything elsewhere, as an agent outside has: its arguments
   * count as written by a model that has read untrusted and private content, whatever its account
   * tells. The account is kept all the same, for what it spends and is refused. Of a client that
   * only your own code drives, leave it out. @default false
   */
  readonly readsElsewhere?: boolean;
}

/** The options of one call of a session. */
export interface SessionCallOptions extends Pick<
  CallRequest,
  'requestId' | 'signal' | 'approvals'
> {
  /**
   * Receives what the tool says of its progress, in the order in which it says it, before the call
   * resolves.
   */
  readonly onProgress?: (value: JsonValue) => void;
}

/** A tool of a session, bound to its id. */
export type SessionTool = (args?: JsonObject, options?: SessionCallOptions) => Promise<CallResult>;

/**
 * A tool of a session as it can be shown: to a model by its spec, to people by its presentation.
 */
export interface ShownTool {
  readonly spec: ToolSpec;
  readonly presentation?: ToolPresentation;
}

/** A change in the tools of a session. */
export interface ToolsChange {
  readonly added: readonly ToolSpec[];
  /** Rendered ids. */
  readonly removed: readonly string[];
}

/**
 * A session: calls of one actor without a model, one after the other or at once. It lives in this
 * process, until it is closed or was not used for `sessions.idleMs`.
 *
 * @example
 * const session = await loop.session({ actor: user, tenant: user.tenantId, scope: 'desk' });
 * const { injectedTools } = await session.call('crm__searchCustomers', { name: 'Ada' });
 * await session.close();
 */
export interface ToolSession {
  /**
   * A UUID. It is no proof of who asks: `ToolLoopService.findSession` finds the session for its own
   * actor alone.
   */
  readonly sessionId: string;
  /**
   * False once it was closed, by its owner, for idleness, or after too many refused calls in a row.
   */
  readonly isOpen: boolean;
  /** The tools at this moment, by rendered id, and by declared id where that names one tool. */
  readonly tools: ReadonlyMap<string, SessionTool>;
  /**
   * Emits the tools that came and went after each change, be it by a result or by a source, and
   * completes when the session is closed. Subscribe as often as needed.
   */
  readonly changes$: Observable<ToolsChange>;
  /**
   * Lists the tools at this moment, those of entities included. Asks for the actor's roles, which
   * may have changed.
   *
   * @throws {InvalidRequestError} `unknown_session` for a session that is closed.
   */
  list(): Promise<readonly ToolSpec[]>;
  /**
   * Returns what is known of a tool of this moment by its rendered id; undefined for any other id.
   */
  describe(id: string): ShownTool | undefined;
  /**
   * Makes one call, as `ToolLoopService.call` does. A call that waits is a run of its own and
   * outlives the session.
   *
   * @throws {InvalidRequestError} `unknown_session` for a session that is closed, and for arguments
   *   that are no JSON.
   * @throws {RunError} For a call that was aborted, as by `close`, or that a store or a part of the
   *   application has kept from being made. `message` names a call whose outcome is unknown.
   */
  call(tool: string, args?: JsonObject, options?: SessionCallOptions): Promise<CallResult>;
  /**
   * Aborts the calls under way and lets go of everything. Resolves once they have ended; calls that
   * wait for a person stay open.
   */
  close(): Promise<void>;
}

/** The limits on sessions. Each process counts its own. */
export interface SessionOptions {
  /** Open sessions of one tenant. @default 200 */
  readonly perTenant?: number;
  /** Open sessions of one actor, where the actor has an id. @default 20 */
  readonly perActor?: number;
  /**
   * Milliseconds without a call after which a session is closed, and for which its account is kept
   * after that. @default 900,000, fifteen minutes
   */
  readonly idleMs?: number;
}

export const DEFAULT_SESSIONS = {
  perTenant: 200,
  perActor: 20,
  idleMs: 900_000,
} satisfies SessionOptions;

export const SESSIONS = defineOptions<SessionOptions>(
  {
    perTenant: WHOLE_ABOVE_ZERO,
    perActor: WHOLE_ABOVE_ZERO,
    idleMs: {
      ...wholeFrom(1, 2 ** 30),
      wanted: 'whole milliseconds, more than 0 and at most 12 days',
    },
  },
  { wording: ITS },
);

/** The options of one call of a session. */
export const SESSION_CALL = defineOptions<SessionCallOptions>({
  requestId,
  signal,
  approvals: rules.approvals,
  onProgress: FUNCTION,
});
