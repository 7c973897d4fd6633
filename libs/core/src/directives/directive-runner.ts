import { randomUUID } from 'node:crypto';
import { type BeforeApplicationShutdown, Injectable, Optional } from '@nestjs/common';
import {
  type DirectiveEventType,
  type JsonObject,
  StorageUnavailableError,
  type ToolErrorCode,
  type ToolFailure,
  type ToolInvocationRecord,
} from '@toolloop/protocol';
import { type AuditDraft, AuditTrail } from '../audit/audit-trail.js';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { Toolset } from '../catalog/toolset.js';
import {
  type DirectiveApproval,
  type DirectiveAuthority,
  type DirectiveChange,
  type DirectiveIntent,
  type DirectiveRecord,
  type DirectiveReference,
  type DirectiveStore,
  type StopWork,
  versionOf,
} from '../contracts/directive.js';
import type { InformationFlow } from '../contracts/policy.js';
import type { CallJournal, JournalEntry } from '../contracts/stores.js';
import { ActorDirectory, type RunContext } from '../contracts/tool-call.js';
import type { Tool, ToolDirective } from '../contracts/tool.js';
import { ToolExplorer } from '../discovery/tool-explorer.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import { CallFailure, Interruption, unexplained, withinTime } from '../execution/call-failure.js';
import type { PlacedCall, ExecutionScope } from '../execution/call.js';
import { longerThanStores } from '../execution/store-calls.js';
import { ToolRunner } from '../execution/tool-runner.js';
import { Logger } from '../findings/logger.js';
import type { ToolLoopOptions } from '../loop/loop-options.js';
import { LoopSettings } from '../loop/loop-settings.js';
import { ActorIdentity } from '../policy/actor-identity.js';
import { RunApprovals } from '../policy/rules.js';
import { SpendingLedger } from '../policy/spending.js';
import { compileReveal } from '../schema/reveal.js';
import { toolFoundAgain } from '../injection/entity-tools.js';
import { type DEFAULT_DIRECTIVES, directiveOptionsOf } from '../loop/run-directives.js';
import { HeldLease } from '../loop/run-directives.js';
import { DirectiveAttempt, HeldDirectives } from './directive-effects.js';

const ATTEMPTS_WITHOUT_TOOL = 1;
/**
 * Beside the tool's own time, which its guards and its `canCall` have as well. What takes longer
 * has hung, and is anybody's.
 */
const MARGIN_MS = 60_000;
const PARTS_WITH_TIME_LIMIT = 3;
/**
 * The time for the directives in progress to end when the application stops; and then, once they
 * are interrupted, for their outcomes to be kept: an entry of the audit, and the state.
 */
const LONGEST_STOP_MS = 10_000;
const LONGEST_KEEPING_MS = longerThanStores(2);

/** The tool of a directive; undefined where the application has none any more. */
export function directiveToolOf(
  catalog: ToolCatalog,
  { call, type }: DirectiveIntent,
): DirectiveTool | undefined {
  const { declaredId, instanceId } = call;
  const tool =
    instanceId === undefined
      ? catalog.find(declaredId)
      : toolFoundAgain(catalog, declaredId, instanceId);
  return tool?.directive?.type === type ? { ...tool, directive: tool.directive } : undefined;
}

/**
 * Makes the place where a directive is performed: whose it is now, under which rules, and which
 * tool.
 */
class DirectiveScopes {
  private readonly journal: CallJournal;

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly identity: ActorIdentity,
    private readonly explorer: ToolExplorer,
    stores: BoundedStores,
  ) {
    this.journal = stores.journal;
  }

  /**
   * Throws a `CallFailure` for whom or what is not there any more, and anything else where that
   * could not be found out.
   */
  async open(
    record: DirectiveRecord,
    attempt: DirectiveAttempt,
    signal: AbortSignal,
  ): Promise<DirectiveExecution> {
    const { intent } = record;
    const { call, authority, tenant, correlationId } = intent;
    const found = directiveToolOf(this.catalog, intent);
    if (!found)
      throw CallFailure.of(
        'tool_gone',
        `The tool ${call.declaredId} does not take directives of this type any more.`,
      );
    const tool = record.task === 'compensate' ? undoing(found, record) : found;
    const actor = await this.actorOf(authority, tenant);
    const run: RunContext = { runId: call.runId, actor, tenant, context: {}, state: new Map() };
    const { toolCallId, step, index, args } = call;
    return {
      request: {
        call: { toolCallId, name: tool.spec.id, arguments: args },
        step,
        index,
        outside: authority.flow.outside,
      },
      scope: {
        run,
        requestId: correlationId,
        actorId: authority.actorId,
        toolset: Toolset.of([tool]),
        actor: { tenant, roles: this.identity.rolesOf(actor) },
        policies: this.settings.policiesFor(authority.policies),
        flow: flowOf(authority),
        spending: new SpendingLedger(),
        approvals: new RunApprovals('deny', undefined, approvalOf(record)),
        limits: this.settings.limitsFor(),
        hooks: this.settings.hooksFor(run),
        performing: attempt,
        signal,
        emit: () => undefined,
      },
    };
  }

  /**
   * Returns the journal's entry for an attempt whose process died before it could report; undefined
   * if none has begun the effect.
   */
  earlier(record: DirectiveRecord): Promise<JournalEntry | undefined> {
    const { tenant, call } = record.intent;
    const { declaredId, instanceId, args } = call;
    const instance = instanceId !== undefined && { instanceId };
    return this.journal.find({
      tenant,
      idempotencyKey: effectKeyOf(record),
      declaredId,
      ...instance,
      args,
    });
  }

  private directory(): ActorDirectory | undefined {
    return this.explorer.instancesOf(ActorDirectory)[0];
  }

  /** Loads the actor as of now; another one under the same id does not count. */
  private async actorOf({ actorId }: DirectiveAuthority, tenant: string): Promise<unknown> {
    const finding = Promise.resolve(this.directory()?.find(actorId, tenant));
    const actor: unknown = await withinTime(finding, LONGEST_FIND_MS);
    if (actor === undefined || actor === null || this.identity.idOf(actor) !== actorId)
      throw CallFailure.of(
        'forbidden',
        'The actor in whose name this was asked for is not there any more.',
      );
    return actor;
  }
}

/**
 * Writes what happens to directives into the audit, where the application keeps one. That one was
 * asked for is recorded with the call.
 */
export class DirectiveAudit {
  constructor(private readonly trail: AuditTrail | undefined) {}

  /**
   * Before it happens. Rejects with `AuditError` when it cannot be kept: then it must not happen.
   */
  async record(
    event: DirectiveEventType | 'refused',
    record: DirectiveRecord,
    more?: JsonObject,
  ): Promise<void> {
    await this.trail?.record(draftOf(event, record, more));
  }

  /** After it happened: nothing can be undone, so what cannot be kept now is kept later. */
  async note(event: DirectiveEventType, record: DirectiveRecord, more?: JsonObject): Promise<void> {
    await this.trail?.after(draftOf(event, record, more));
  }
}

function draftOf(
  event: DirectiveEventType | 'refused',
  {
    intent,
    task,
    epoch,
    attempts,
  }: Pick<DirectiveRecord, 'intent' | 'task' | 'epoch' | 'attempts'>,
  more: JsonObject = {},
): AuditDraft {
  const { tenant, directiveId, authority, call, correlationId } = intent;
  const { runId, toolCallId, step, declaredId, instanceId } = call;
  const subject = {
    actorId: authority.actorId,
    runId,
    toolCallId,
    step,
    declaredId,
    ...(instanceId !== undefined && { instanceId }),
    correlationId,
  };
  const details = { task, epoch, attempts, ...more };
  return {
    tenant,
    subject,
    event: { kind: `directive-${event.replaceAll('_', '-')}`, directiveId, details },
  };
}

/**
 * Performs directives, each once, in the name of who asked: through the one pipeline, which checks,
 * permits and authorises the call anew.
 */
@Injectable()
export class DirectiveRunner implements BeforeApplicationShutdown {
  private readonly logger = new Logger(DirectiveRunner.name);
  private readonly shutdown = new AbortController();
  private mostMs = 0;
  private stop: StopWork | undefined;
  private readonly held: HeldDirectives;

  private readonly store: DirectiveStore;
  private readonly audit: DirectiveAudit;
  private readonly options: ToolLoopOptions;
  private readonly scopes: DirectiveScopes;

  constructor(
    stores: BoundedStores,
    private readonly runner: ToolRunner,
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    identity: ActorIdentity,
    explorer: ToolExplorer,
    @Optional() trail?: AuditTrail,
  ) {
    this.options = settings.options;
    this.scopes = new DirectiveScopes(catalog, settings, identity, explorer, stores);
    this.store = stores.directives;
    this.audit = new DirectiveAudit(trail);
    this.held = new HeldDirectives(stores.directives, settings.inForce);
  }

  /** Begins to work, where this process performs directives at all. */
  async start(longestCallMs: number): Promise<void> {
    const { perform, concurrency } = directiveOptionsOf(this.options.directives);
    this.mostMs = longestCallMs * PARTS_WITH_TIME_LIMIT + MARGIN_MS;
    if (!perform) return;
    const stopWork = await this.store.work((reference) => this.perform(reference), concurrency);
    const stopHeld = this.held.follow((reference) => this.perform(reference));
    this.stop = async () => void (await Promise.all([stopWork(), stopHeld()]));
  }

  /** Takes nothing new, and waits for what is in hand; what is not over by then is interrupted. */
  async beforeApplicationShutdown(): Promise<void> {
    const stopping = this.stop?.();
    if (!stopping) return;
    await withinTime(stopping, LONGEST_STOP_MS).catch((error: unknown) =>
      this.logger.warn('Directives are interrupted.', error),
    );
    this.shutdown.abort(new Interruption('aborted', 'The application stops.'));
    await withinTime(stopping, LONGEST_KEEPING_MS).catch((error: unknown) =>
      this.logger.warn('Directives still being performed are left until their leases end.', error),
    );
  }

  private async perform(reference: DirectiveReference): Promise<void> {
    if (await this.held.takes(reference)) return;
    const { heartbeatMs: everyMs, takeoverMs } = directiveOptionsOf(this.options.directives);
    const record = await this.store.acquire(reference, { owner: randomUUID(), forMs: takeoverMs });
    if (!record) return; // another process has it, or it is over
    const lease = new HeldLease(
      () => this.store.renew({ ...reference, ...record.lease }, takeoverMs),
      { everyMs, mostMs: this.mostMs },
    );
    await this.performClaimed(record).finally(() => lease.end());
  }

  private async performClaimed(record: DirectiveRecord): Promise<void> {
    const change = await this.attempt(record);
    const more: JsonObject = change.failure ? { code: change.failure.code } : {};
    const isOver = change.status !== 'pending'; // the last word is kept before it counts
    if (isOver) await this.audit.note(change.event, record, more);
    const changed = await this.store.change(versionOf(record), change);
    if (change.failure?.code === 'storage_unavailable' && isOver)
      this.logParked(record, change.failure);
    if (changed && !isOver) await this.audit.note(change.event, record, more);
    if (!changed)
      this.logger.warn(
        `The directive ${record.intent.directiveId} was taken over meanwhile; the outcome of this attempt is not kept.`,
      );
  }

  private logParked({ intent }: DirectiveRecord, { correlationId }: ToolFailure): void {
    const reference = correlationId === undefined ? '' : ` (reference ${correlationId})`;
    this.logger.error(
      `The directive ${intent.directiveId} was put off ${MOST_PUT_OFFS} times in a row and waits for an operator${reference}.`,
    );
  }

  private async attempt(record: DirectiveRecord): Promise<DirectiveChange> {
    const attempt = new DirectiveAttempt(effectKeyOf(record), () => this.isOurs(record));
    const most =
      directiveToolOf(this.catalog, record.intent)?.directive.attempts ?? ATTEMPTS_WITHOUT_TOOL;
    const terms = { ...directiveOptionsOf(this.options.directives), attempts: most };
    const outcome = await this.outcomeOf(record, attempt, most);
    if (outcome.status === 'succeeded' || attempt.mayHaveEffect)
      return verdictOn(outcome, { record, attempt, terms });
    try {
      const earlier = await this.scopes.earlier(record);
      return verdictOn(outcome, { record, attempt, terms, ...(earlier && { earlier }) });
    } catch (error) {
      if (!StorageUnavailableError.in(error)) throw error;
      // what an earlier attempt did is not known, so this one decides nothing
      return verdictOn(PUT_OFF, { record, attempt, terms });
    }
  }

  private async outcomeOf(
    record: DirectiveRecord,
    attempt: DirectiveAttempt,
    most: number,
  ): Promise<AttemptOutcome> {
    try {
      await this.audit.record('started', record);
      if (record.attempts > most) return ENDLESS;
      const { request, scope } = await this.scopes.open(record, attempt, this.shutdown.signal);
      const { record: made, unavailable } = await this.runner.exec(request, scope);
      return unavailable ? PUT_OFF : made;
    } catch (error) {
      if (StorageUnavailableError.in(error)) return PUT_OFF;
      const failure = error instanceof CallFailure ? error.failure : unexplained();
      const { correlationId } = failure;
      if (correlationId !== undefined)
        this.logger.error(
          `The directive ${record.intent.directiveId} failed (reference ${correlationId}).`,
          error,
        );
      return { status: error instanceof CallFailure ? 'denied' : 'failed', error: failure };
    }
  }

  private async isOurs({ intent, epoch }: DirectiveRecord): Promise<boolean> {
    const now = await this.store.find(intent);
    return now?.status === 'performing' && now.epoch === epoch;
  }
}

/** The outcome of an attempt that a store prevented: it does not count. */
const PUT_OFF = {
  status: 'failed',
  error: { code: 'storage_unavailable', safeMessage: 'It could not be begun for now.' },
} as const;
/**
 * The times in a row that a directive is put off since a store failed, before it waits for an
 * operator: an error that does not pass would have it tried for ever.
 */
const MOST_PUT_OFFS = 10;
const PARKED =
  'The storage has failed again and again, so it was not performed. Once the storage is mended, an operator can have it tried again.';

const ENDLESS = {
  status: 'failed',
  error: {
    code: 'unknown_outcome',
    safeMessage:
      'It was begun again and again and never ended; it is unknown whether its effect took place.',
  },
} as const;

/** A directory that has not answered by then is tried again later. */
const LONGEST_FIND_MS = 10_000;
const NOTHING = compileReveal([]);

/** A tool whose calls are directives. */
export type DirectiveTool = Tool & { readonly directive: ToolDirective };

/** The call of a directive, and where it is executed. */
export interface DirectiveExecution {
  readonly request: PlacedCall;
  readonly scope: ExecutionScope;
}

/** The same tool under the same rules, whose method undoes. */
function undoing(tool: DirectiveTool, record: DirectiveRecord): Tool {
  const { rehydration } = tool;
  const undone = withUndoing(tool, record);
  return rehydration
    ? {
        ...undone,
        rehydration: {
          ...rehydration,
          on: (instance) => withUndoing(rehydration.on(instance), record),
        },
      }
    : undone;
}

function withUndoing(tool: Tool, { intent, result }: DirectiveRecord): Tool {
  const [{ directive }, { directiveId, key: idempotencyKey }] = [tool, intent];
  const performed = { directiveId, idempotencyKey, ...(result !== undefined && { result }) };
  if (!directive?.compensate)
    throw CallFailure.of(
      'tool_gone',
      `The tool ${intent.call.declaredId} cannot undo its effect any more.`,
    );
  return {
    ...tool,
    output: NOTHING,
    invoke: (input, context) => directive.compensate?.(input, performed, context),
  };
}

/**
 * Returns the approval of a directive. What was performed may be undone, whatever its tool is by
 * now.
 */
function approvalOf({
  task,
  intent: { authority },
}: DirectiveRecord): DirectiveApproval | undefined {
  if (task === 'perform' || !authority.approved) return authority.approved;
  const { form: _form, ...approved } = authority.approved;
  return approved;
}

/** Returns the recorded flow. `isSaid` is asked about reads alone, and a directive is none. */
function flowOf({ flow }: DirectiveAuthority): InformationFlow {
  const {
    integrity,
    confidentiality,
    requested = false,
    committed = false,
    outsideBits = integrity === 'trusted' ? 0 : Infinity,
  } = flow;
  return {
    integrity,
    confidentiality,
    outsideBits,
    isRequested: () => requested,
    mayCommit: false,
    isCommitted: (_tool, { fixed }) => committed === true || committed === fixed,
    isTraced: (value) => flow.traced.includes(value),
    isSaid: () => false,
  };
}

/** An attempt that is over, and what may follow it. */
export interface AttemptTerms {
  readonly record: DirectiveRecord;
  readonly attempt: DirectiveAttempt;
  readonly terms: Pick<typeof DEFAULT_DIRECTIVES, 'firstDelayMs' | 'longestDelayMs'> & {
    readonly attempts: number;
  };
  /**
   * The journal's entry for an earlier attempt whose process died; looked up if this one failed
   * before it began.
   */
  readonly earlier?: JournalEntry;
}

export type AttemptOutcome = Pick<ToolInvocationRecord, 'status' | 'error' | 'result'>;

/** The errors of a call that did not reach its method, for a reason that may pass. */
const PASSING = new Set<ToolErrorCode>(['execution_failed', 'timeout', 'aborted']);

/** Returns the change of a directive after an attempt. */
export function verdictOn(outcome: AttemptOutcome, context: AttemptTerms): DirectiveChange {
  const { record, earlier } = context;
  const { status, error, result } = outcomeOf(earlier) ?? outcome;
  if (status === 'succeeded')
    return {
      ...DONE[record.task],
      ...(record.task === 'perform' && result !== undefined && { result }),
    };
  const failure = error ?? { code: 'execution_failed', safeMessage: 'The call had no result.' };
  // the effect took place
  if (failure.code === 'invalid_output') return { ...DONE[record.task], failure };
  return verdictOnFailure(keepUnknown(failure, context), failure, context);
}

/**
 * Returns the outcome of an effect that took place before, even if its actor may no longer request
 * it.
 */
function outcomeOf(earlier: JournalEntry | undefined): AttemptOutcome | undefined {
  if (earlier?.status === 'in_progress') return earlier.kept && { status: 'succeeded' };
  if (!earlier) return undefined;
  const { outcome } = earlier;
  if (outcome.status === 'failed' || outcome.failure)
    return { status: 'failed', error: outcome.failure };
  return { status: 'succeeded', result: outcome.ui };
}

/** The changes after an effect took place, or was undone. */
export const DONE = {
  perform: { event: 'succeeded', status: 'succeeded' },
  compensate: { event: 'compensated', status: 'compensated' },
} as const satisfies Record<DirectiveRecord['task'], DirectiveChange>;

/** The key of the effect, or of the undoing of it: that is an effect, too. */
export function effectKeyOf({ intent, task }: Pick<DirectiveRecord, 'intent' | 'task'>): string {
  return task === 'perform' ? intent.key : `${intent.key}:compensate`;
}

function verdictOnFailure(
  failure: ToolFailure,
  latest: ToolFailure,
  context: AttemptTerms,
): DirectiveChange {
  const { record, terms } = context;
  const { putOffs = 0 } = record;
  const again = {
    event: 'retried',
    status: 'pending',
    attempts: record.attempts - 1,
    failure,
  } as const;
  if (latest.code === 'aborted') return { ...again, dueInMs: terms.firstDelayMs, putOffs };
  if (latest.code === 'storage_unavailable') {
    const times = putOffs + 1;
    const dueInMs = Math.min(terms.firstDelayMs * 2 ** putOffs, terms.longestDelayMs);
    return times < MOST_PUT_OFFS ? { ...again, dueInMs, putOffs: times } : parked(record, failure);
  }
  const wait = waitFor(latest, context);
  if (wait !== undefined && record.attempts < terms.attempts)
    return { event: 'retried', status: 'pending', dueInMs: wait, failure };
  const status = failure.code === 'unknown_outcome' ? 'unknown_outcome' : 'dead';
  return { event: status, status, failure };
}

/**
 * The change of a directive that was put off too often: an operator has it tried again, and says
 * before that whether the effect took place, if that is unknown.
 */
function parked({ attempts }: DirectiveRecord, failure: ToolFailure): DirectiveChange {
  if (failure.code === 'unknown_outcome')
    return { event: 'unknown_outcome', status: 'unknown_outcome', attempts: attempts - 1, failure };
  const latest = { ...failure, safeMessage: PARKED, correlationId: randomUUID() };
  return { event: 'dead', status: 'dead', attempts: attempts - 1, failure: latest };
}

/** Keeps an unknown outcome of an earlier attempt until a later one gets an answer. */
function keepUnknown(
  failure: ToolFailure,
  { record, attempt, earlier }: AttemptTerms,
): ToolFailure {
  if (earlier && failure.code !== 'unknown_outcome') return LEFT;
  const isAnswer =
    attempt.mayHaveEffect && attempt.retryAfterMs === undefined && !NOT_CALLED.has(failure.code);
  return record.failure?.code === 'unknown_outcome' && !isAnswer ? record.failure : failure;
}

const LEFT: ToolFailure = {
  code: 'unknown_outcome',
  safeMessage: 'It was begun by a process that died; it is unknown whether its effect took place.',
};

/** The errors of a call whose method was never called. */
const NOT_CALLED = new Set<ToolErrorCode>(['timeout', 'aborted', 'storage_unavailable']);

/** Milliseconds; undefined where another attempt would come to the same, or might do harm. */
function waitFor(
  failure: ToolFailure,
  { record, attempt, terms }: AttemptTerms,
): number | undefined {
  const asked = attempt.retryAfterMs ?? (!attempt.hasBegun && mayPass(failure) ? 0 : undefined);
  if (asked === undefined) return undefined;
  const longest = Math.min(terms.firstDelayMs * 2 ** (record.attempts - 1), terms.longestDelayMs);
  return Math.max(asked, longest * (0.5 + Math.random() / 2));
}

function mayPass({ code, retryable = false }: ToolFailure): boolean {
  return retryable || PASSING.has(code);
}
