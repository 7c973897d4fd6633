import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import {
  type FinishReason,
  InvalidRequestError,
  type LoopEvent,
  type ToolInvocationRecord,
  type WaitingFor,
} from '@toolloop/protocol';
import { type Observable, ReplaySubject } from 'rxjs';
import type { PendingView } from '../contracts/pending.js';
import type { LoopRequest, ResumeRequest, RunHandle } from '../contracts/loop-request.js';
import type { RunLog, RunQuery, RunRecord, RunStatus } from '../contracts/run-log.js';
import type { RegisteredActor } from '../contracts/registered-actor.js';
import { DirectiveError } from '../plugins/directives/directive-error.js';
import { DirectiveService } from '../plugins/directives/directive.service.js';
import { Operators } from '../plugins/operators/operators.js';
import { BoundedStores } from '../call/bounded-stores.js';
import { isWhole } from '../findings/option-rules.js';
import { wholeRun } from '../run/run-entries.js';
import { flushBeforeClose } from '../run/flush-before-close.js';
import { RunOpener } from '../run/run-opener.js';
import { invalid } from '../run/request-check.js';
import type { SavedRun } from '../run/saved-run.js';
import type { GivenReply } from '../plugins/inbox/pending-reply.js';
import { PendingService, type Respondent } from '../plugins/inbox/pending.service.js';
import { ActorIdentity } from '../policy/actor-identity.js';
import { type RunReading, observed, WatchedRun } from './watched-run.js';
import { SharedReads } from './shared-reads.js';

/**
 * Runs by their ids, whichever process they are in, or if they are in none. Durable runs and
 * suspended ones are listed, read, resumed and cancelled alike.
 */
@Injectable()
export class RunService<Actor = RegisteredActor> implements OnModuleDestroy {
  private readonly log: RunLog;
  private readonly found = new SharedReads<RunRecord | undefined>();
  private readonly pages = new SharedReads<readonly LoopEvent[]>();
  private readonly closed = new ReplaySubject<void>(1);

  constructor(
    private readonly opener: RunOpener,
    { runs }: BoundedStores,
    private readonly identity: ActorIdentity,
    private readonly pending: PendingService<Actor>,
    private readonly operators: Operators<Actor>,
    private readonly directives: DirectiveService<Actor>,
  ) {
    this.log = runs;
  }

  /**
   * Adds a durable run for any process with room, and resolves to its id. `loop` is the name of its
   * loop. With a `requestId` the actor's same request is the same run, however often and in how
   * many processes at once it is started.
   *
   * @throws {InvalidRequestError} For what `ToolLoopService.open` would refuse, and for a request
   *   id that was used for another question.
   *
   * @example
   * const runId = await runs.start({
   *   prompt: 'Refund o-1021.',
   *   actor: user,
   *   tenant: user.tenantId,
   *   requestId: key,
   * });
   */
  async start(request: LoopRequest<unknown, Actor>, loop?: string): Promise<string> {
    return this.opener.durable.start(request, loop);
  }

  /**
   * Completes what is read of events while the readers can still be told: they connect to another
   * process and miss nothing.
   */
  async onModuleDestroy(): Promise<void> {
    const isRead = this.closed.observed;
    this.closed.next();
    this.closed.complete();
    if (isRead) await flushBeforeClose();
  }

  /**
   * The run as it is now.
   *
   * @throws {InvalidRequestError} `unknown_run`, also for the run of another actor.
   *
   * @example
   * const { status } = await runs.get(runId, { actor: user, tenant: user.tenantId });
   */
  async get(runId: string, reader: RunReader<Actor>): Promise<RunView> {
    return viewOf(await this.readable(runId, reader));
  }

  /**
   * The newest first, 100 unless `limit` says otherwise, and never more than 1,000.
   *
   * @throws {InvalidRequestError} For a filter that cannot be.
   *
   * @example
   * const waiting = await runs.list({ actor: user, tenant: user.tenantId }, { status: 'waiting' });
   */
  async list(reader: RunReader<Actor>, filter: RunFilter = {}): Promise<readonly RunView[]> {
    assertFilter(filter);
    const { actorId: whose = this.actorIdOf(reader), ofTenant = false, ...which } = filter;
    if (ofTenant || whose !== this.actorIdOf(reader))
      await this.operators.use(reader, 'runs', {
        details: ofTenant ? { ofTenant } : { actorId: whose.slice(0, 256) },
      });
    const runs = await this.log.list({
      ...which,
      tenant: reader.tenant,
      ...(!ofTenant && { actorId: whose }),
    });
    return runs.map((run) => Object.assign(viewOf(run), ofTenant && { actorId: run.actorId }));
  }

  /**
   * The events of a run behind this sequence: those there are, and then those that come, whichever
   * process they come from. Completes after the `run-end` of a run that has ended, and without one
   * when this process shuts down. A `step-start` of a step that was begun before replaces what was
   * shown of that step.
   *
   * @throws {InvalidRequestError} For an `after` that is no sequence. For the run of another actor,
   *   and for one that is not durable, the Observable errors.
   *
   * @example
   * return runs.events(runId, { actor: user, tenant: user.tenantId }, lastEventId).pipe(toSse());
   */
  events(runId: string, reader: RunReader<Actor>, after = 0): Observable<LoopEvent> {
    assertSequence(after);
    return observed(() => this.read(runId, reader, after));
  }

  /**
   * The same events, for a reader that pulls: no more is read of the log than it asks for. Leaving
   * the iteration stops the reading.
   *
   * @throws {InvalidRequestError} For an `after` that is no sequence. For the run of another actor,
   *   and for one that is not durable, the iteration rejects.
   *
   * @example
   * for await (const event of runs.read(runId, { actor: user, tenant: user.tenantId }))
   *   await send(event);
   */
  read(runId: string, reader: RunReader<Actor>, after = 0): RunReading {
    assertSequence(after);
    let found: RunRecord | undefined;
    const find = async (): Promise<RunRecord> => {
      // Who may read it is asked once; then its status is looked at.
      const run = found
        ? await this.found.of(runId, () => this.log.find(runId))
        : asDurable(await this.readable(runId, reader));
      return (found = run ?? unknown(runId));
    };
    return new WatchedRun(this.log, this.pages, find, this.closed).read(after);
  }

  /**
   * Continues a run that waits, and resolves to its events: those that follow, or all of them for a
   * durable run, which has kept them. A durable run continues by itself as soon as a decision is
   * made, so this only has it looked at again; so it has one that is put off since a store failed,
   * or was put off too often and waits for this. Any other run starts when its events are read, and
   * the request gives again what is no JSON. An operator who is permitted `runs` resumes the
   * durable runs of others.
   *
   * @throws {InvalidRequestError} `unknown_run` for the run of another actor, and for one that is
   *   not durable and has ended.
   *
   * @example
   * const events$ = await runs.resume(runId, { actor: user, tenant: user.tenantId });
   */
  async resume(
    runId: string,
    request: ResumeRequest<unknown, Actor>,
  ): Promise<Observable<LoopEvent>> {
    const handle = await this.reopen(runId, request);
    return handle ? handle.events$ : this.events(runId, request);
  }

  /**
   * Continues a run as `resume` does, for a reader that pulls. Resolves to the handle of a run that
   * is not durable, which starts when it is read; undefined for a durable one, which continues by
   * itself and is read by `read`.
   *
   * @throws {InvalidRequestError} As `resume` does.
   *
   * @example
   * const events = (await runs.reopen(runId, who)) ?? runs.read(runId, who);
   */
  async reopen<Output>(
    runId: string,
    request: ResumeRequest<Output, Actor>,
  ): Promise<RunHandle<Output> | undefined> {
    const run = await this.readable(runId, request);
    if (!run.request) return this.opener.resume(runId, request);
    if (run.status === 'waiting' || run.putOffs !== undefined) await this.log.wake(runId);
    return undefined;
  }

  /**
   * Answers what this run asked, as one of the people who may; the actor of the run need not be. A
   * durable run continues by itself then, any other is resumed by its actor.
   *
   * @throws {PendingError} As `PendingService.answer` does; `not_found` also for what another run
   *   asked.
   *
   * @example
   * await runs.answer(
   *   runId,
   *   { approvalId, decision: 'approve' },
   *   { actor: user, tenant: user.tenantId },
   * );
   */
  async answer(runId: string, answer: GivenReply, person: Respondent<Actor>): Promise<PendingView> {
    return this.pending.answer(answer, person, runId);
  }

  /**
   * Ends a run as `aborted`. Does nothing where it has ended.
   *
   * @throws {InvalidRequestError} `unknown_run`, also for the run of another actor.
   *
   * @example
   * await runs.cancel(runId, { actor: user, tenant: user.tenantId }, 'The customer called.');
   */
  async cancel(
    runId: string,
    reader: RunReader<Actor>,
    reason = 'The run was cancelled.',
  ): Promise<void> {
    const run = await this.readable(runId, reader);
    if (typeof reason !== 'string') throw invalid('The reason is not a string.');
    await this.log.cancel(runId, reason);
    if (!run.request) await this.opener.cancelSuspended(run);
  }

  /**
   * Adds a run that begins where this one stood after that step, and resolves to its id. What the
   * steps before did is not done again. With the same `requestId` it is the same run.
   *
   * @throws {InvalidRequestError} For a step that is not complete, or was not followed by another,
   *   and for a run that is not durable.
   *
   * @example
   * const forked = await runs.fork(runId, 2, { actor: user, tenant: user.tenantId });
   */
  async fork(
    runId: string,
    step: number,
    reader: RunReader<Actor>,
    requestId?: string,
  ): Promise<string> {
    return this.opener.durable.fork(asDurable(await this.find(runId, reader)), step, requestId);
  }

  /**
   * Undoes what a durable run did that has ended, the latest effect first: cancels the directives
   * that are pending, and has those that were performed compensated, each as a call through the
   * whole pipeline, before it turns to the one before. It says what cannot be undone; called again,
   * it continues.
   *
   * @param person an operator whom `forRoot({ operators })` permits `undo`, or the actor of the run
   *   as far as `forRoot({ directives: { operators } })` lets them decide
   * @throws {InvalidRequestError} `unknown_run`; also for a run that has not ended, which is to be
   *   cancelled first, and for one that is not durable.
   * @throws {DirectiveError} `not_permitted` where the actor may not undo what the run did.
   *
   * @example
   * const { calls } = await runs.undo(
   *   runId,
   *   { actor: user, tenant: user.tenantId },
   *   'The customer has changed their mind.',
   * );
   */
  async undo(runId: string, person: RunReader<Actor>, reason?: string): Promise<RunUndoing> {
    const run = await this.undoable(runId, person);
    const calls: UndoneCall[] = [];
    for (const call of changesIn(wholeRun(runId, await this.log.read(runId)))) {
      const isBlocked = calls.some(({ status }) => status === 'under_way' || status === 'failed');
      calls.push(
        isBlocked
          ? { ...call, status: 'not_reached' }
          : await this.undone(call, { ...person, tenant: run.tenant }, reason),
      );
    }
    return { runId, calls };
  }

  private async undoable(runId: string, person: RunReader<Actor>): Promise<RunRecord> {
    if (typeof runId !== 'string') throw unknownRun(runId);
    const isOperator = this.operators.may(person, 'undo');
    if (isOperator)
      await this.operators.use(person, 'undo', { details: { runId: runId.slice(0, 64) } });
    const run = isOperator ? await this.log.find(runId) : await this.find(runId, person);
    if (run?.tenant !== person.tenant) throw unknownRun(runId);
    if (run.status === 'ended' && run.request) return run;
    throw invalid(
      run.request
        ? 'The run has not ended. Cancel it first.'
        : 'The run is not durable. Undo its directives one by one.',
    );
  }

  private async undone(
    call: ChangingCall,
    person: RunReader<Actor>,
    reason?: string,
  ): Promise<UndoneCall> {
    if (call.directiveId === undefined)
      return { ...call, status: 'not_possible', reason: 'It had its effect at once.' };
    try {
      const { status, task, failure } = await this.directives.undo(
        call.directiveId,
        person,
        reason === undefined ? {} : { reason },
      );
      return {
        ...call,
        status: UNDONE[`${task} ${status}`] ?? 'under_way',
        ...(failure && { reason: failure.safeMessage }),
      };
    } catch (error) {
      const isImpossible =
        error instanceof DirectiveError &&
        (error.code === 'not_possible' || error.code === 'not_found');
      if (isImpossible) return { ...call, status: 'not_possible', reason: error.message };
      throw error;
    }
  }

  /**
   * Finds a run of the reader, or one of another whom the reader may look at as an operator; that
   * is in the audit.
   */
  private async readable(runId: string, reader: RunReader<Actor>): Promise<RunRecord> {
    const run =
      typeof runId === 'string'
        ? await this.found.of(runId, () => this.log.find(runId))
        : undefined;
    const isOthers =
      run &&
      run.actorId !== this.identity.idOf(reader.actor) &&
      this.operators.may(reader, 'runs', run.tenant);
    if (!isOthers) return this.find(runId, reader);
    await this.operators.use(reader, 'runs', { tenant: run.tenant, details: { runId } });
    return run;
  }

  private async find(runId: string, reader: RunReader<Actor>): Promise<RunRecord> {
    const run =
      typeof runId === 'string'
        ? await this.found.of(runId, () => this.log.find(runId))
        : undefined;
    if (run && run.tenant === reader.tenant && run.actorId === this.actorIdOf(reader)) return run;
    throw unknownRun(runId);
  }

  private actorIdOf({ actor }: RunReader<Actor>): string {
    const actorId = this.identity.idOf(actor);
    if (actorId !== undefined) return actorId;
    throw new InvalidRequestError(
      'unknown_run',
      'Runs belong to actors, and this actor has no id.',
    );
  }
}

/**
 * The actor who asks, as the application identified them; never what a client says. A run is its
 * actor's alone.
 */
export interface RunReader<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** A run, as its actor may see it. */
export interface RunView {
  readonly runId: string;
  /** Set where the runs of a whole tenant are listed. */
  readonly actorId?: string;
  readonly status: RunStatus;
  /**
   * Set where any process continues it. A run that is not durable is resumed by its actor, and none
   * of its events are kept.
   */
  readonly durable: boolean;
  /** Absent for a run that has not ended and does not wait. */
  readonly finishReason?: FinishReason;
  /** The kind of answer that a waiting run waits for. */
  readonly waitingFor?: WaitingFor;
  /** The sequence of its last event that was kept; 0 for none. */
  readonly lastSequence: number;
  readonly forkOf?: RunRecord['forkOf'];
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A call of a run that changed something, and whether that is undone. */
export interface UndoneCall {
  readonly toolCallId: string;
  readonly declaredId: string;
  /** Absent for a call that had its effect at once. */
  readonly directiveId?: string;
  /**
   * `undone`: its compensation has ended. `no_effect`: it never had its effect, and will not have
   * it. `under_way`: the compensation, or the effect, has not ended yet; undo the run again to
   * continue. `failed`: the compensation failed, or it is unknown whether the effect took place.
   * `not_possible`: its tool cannot undo it, or its directive is not there. `not_reached`: an
   * effect that came later is not undone yet.
   */
  readonly status: 'undone' | 'no_effect' | 'under_way' | 'failed' | 'not_possible' | 'not_reached';
  /** The reason, where it is not undone. */
  readonly reason?: string;
}

/** The undoing of a run, as far as it came. */
export interface RunUndoing {
  readonly runId: string;
  /** The calls that changed something, sub-runs included, the latest first. */
  readonly calls: readonly UndoneCall[];
}

/** A selection of an actor's runs. */
export interface RunFilter extends Pick<RunQuery, 'status' | 'limit' | 'after'> {
  /** Another actor of the tenant, for an operator who is permitted `runs`. @default the reader */
  readonly actorId?: string;
  /** All of the reader's tenant, for an operator who is permitted `runs`. @default false */
  readonly ofTenant?: boolean;
}

const STATUSES: Readonly<Record<RunStatus, true>> = {
  queued: true,
  running: true,
  waiting: true,
  ended: true,
};
const MOST_LISTED = 1_000;

function assertFilter({ status, limit, after, actorId, ofTenant }: RunFilter): void {
  if (ofTenant && actorId !== undefined)
    throw invalid('`ofTenant` and `actorId` do not go together.');
  if (limit !== undefined && !isWhole(limit, 1, MOST_LISTED))
    throw invalid(`The limit is not a whole number from 1 to ${MOST_LISTED}.`);
  if (status !== undefined && !Object.hasOwn(STATUSES, status))
    throw invalid(`There is no such status; there are ${Object.keys(STATUSES).join(', ')}.`);
  if (after !== undefined && typeof after !== 'string')
    throw invalid('`after` is not the id of a run.');
}

function viewOf({
  runId,
  status,
  request,
  finishReason,
  waitingFor,
  lastSequence,
  forkOf,
  createdAt,
  updatedAt,
}: RunRecord): RunView {
  const durable = request !== undefined;
  const ended = { ...(finishReason && { finishReason }), ...(waitingFor && { waitingFor }) };
  return {
    runId,
    status,
    durable,
    ...ended,
    lastSequence,
    ...(forkOf && { forkOf }),
    createdAt,
    updatedAt,
  };
}

/** A call that changed something. */
type ChangingCall = Pick<UndoneCall, 'toolCallId' | 'declaredId' | 'directiveId'>;

/** The statuses of directives that are over, by their last task. */
const UNDONE: Readonly<Record<string, UndoneCall['status']>> = {
  'compensate compensated': 'undone',
  'perform cancelled': 'no_effect',
  'perform dead': 'no_effect',
  'perform unknown_outcome': 'failed',
  'compensate dead': 'failed',
  'compensate cancelled': 'failed',
  'compensate unknown_outcome': 'failed',
};

/**
 * The calls of a run that changed something, or may have, sub-runs and the step in which it was
 * cancelled included, the latest first.
 */
function changesIn(saved: SavedRun | undefined): readonly ChangingCall[] {
  const { state, pending } = saved ?? {};
  return callsIn([
    ...(state?.records ?? []),
    ...(pending?.outcomes.map(({ record }) => record) ?? []),
  ])
    .filter(
      ({ effect, ...by }) =>
        effect !== 'read_only' &&
        [by.pendingId, by.madeBefore, by.rehearsal].every((one) => one === undefined),
    )
    .filter(({ status, error }) => status === 'succeeded' || error?.code === 'unknown_outcome')
    .toReversed()
    .flatMap(changeOf);
}

function changeOf({
  toolCallId,
  declaredId,
  directiveId,
}: ToolInvocationRecord): readonly ChangingCall[] {
  return declaredId === undefined
    ? []
    : [{ toolCallId, declaredId, ...(directiveId !== undefined && { directiveId }) }];
}

/** The calls of records, those of sub-runs in the place of their sub-run. */
function callsIn(records: readonly ToolInvocationRecord[]): readonly ToolInvocationRecord[] {
  return records.flatMap((record) =>
    record.subRun ? callsIn(record.subRun.toolCalls ?? []) : record,
  );
}

function asDurable(run: RunRecord): RunRecord {
  if (run.request) return run;
  throw invalid(
    `The run ${run.runId} is not durable: its events are not kept, and it cannot be forked. Resume it to read the events that follow.`,
  );
}

function assertSequence(after: number): void {
  if (!isWhole(after, 0))
    throw invalid('`after` is not the sequence of an event, which is a whole number, 0 for none.');
}

function unknown(runId: string): never {
  throw unknownRun(runId);
}

function unknownRun(runId: unknown): InvalidRequestError {
  const shown = typeof runId === 'string' ? ` ${JSON.stringify(runId.slice(0, 64))}` : '';
  return new InvalidRequestError(
    'unknown_run',
    `No run${shown} of yours is stored: only durable runs are, and those that wait.`,
  );
}
