import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Inject, Injectable, Optional } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { BoundedStores } from '../../call/bounded-stores.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { CallJournal } from '../../contracts/call-journal.js';
import {
  type DirectiveChange,
  type DirectiveEvent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveStore,
  versionOf,
} from '../../contracts/directive.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import { TOOL_LOOP_OPTIONS, type ToolLoopOptions } from '../../run/loop-options.js';
import { AuditTrail } from '../audit/audit-trail.js';
import { Operators } from '../operators/operators.js';
import { DONE, effectKeyOf } from './attempt-verdict.js';
import { DirectiveAudit } from './directive-audit.js';
import { DirectiveError } from './directive-error.js';
import { directiveToolOf } from './directive-execution.js';
import { DirectiveOperators } from './directive-operators.js';
import { toDirectiveView } from './directive-view.js';
import type { DirectiveView } from '@toolloop/protocol';

/**
 * Lets people see the directives that were requested, cancel them, and have them tried again.
 * Another tenant's directives do not exist.
 */
@Injectable()
export class DirectiveService<Actor = RegisteredActor> {
  private readonly store: DirectiveStore;
  private readonly journal: CallJournal;

  private readonly operators: DirectiveOperators;
  private readonly audit: DirectiveAudit;

  constructor(
    stores: BoundedStores,
    private readonly identity: ActorIdentity<Actor>,
    private readonly catalog: ToolCatalog,
    @Inject(TOOL_LOOP_OPTIONS) { directives }: ToolLoopOptions,
    private readonly applicationOperators: Operators<Actor>,
    @Optional() trail?: AuditTrail,
  ) {
    this.store = stores.directives;
    this.journal = stores.journal;
    this.operators = new DirectiveOperators(directives?.operators);
    this.audit = new DirectiveAudit(trail);
  }

  /**
   * The changes of directives of every tenant: for the application's own code, not for clients. It
   * never errors.
   */
  get events$(): Observable<DirectiveEvent> {
    return this.store.changes$;
  }

  /**
   * Lists directives, the newest first: all of the tenant's for an operator, else this person's
   * own.
   *
   * @example
   * const failed = await directives.list({ actor, tenant }, { status: 'dead' });
   */
  async list(
    operator: DirectiveOperator<Actor>,
    filter: DirectiveFilter = {},
  ): Promise<readonly DirectiveView[]> {
    const { id, isOperator } = this.identified(operator);
    if (id === undefined && !isOperator) return [];
    const own = isOperator || id === undefined ? {} : { actorId: id };
    const records = await this.store.list({ ...filter, ...own, tenant: operator.tenant });
    return records.map(toDirectiveView);
  }

  /**
   * Returns a directive. Rejects with a `DirectiveError` (`not_found`), also for one that this
   * person may not see.
   *
   * @example
   * const { status } = await directives.get(directiveId, { actor, tenant });
   */
  async get(directiveId: string, operator: DirectiveOperator<Actor>): Promise<DirectiveView> {
    return toDirectiveView(await this.find(directiveId, operator));
  }

  /**
   * Cancels a pending directive; for a performed one, starts to undo the effect if its tool can, as
   * a task with attempts of its own. Rejects with a `DirectiveError`.
   *
   * @example
   * await directives.cancel(
   *   directiveId,
   *   { actor, tenant },
   *   'The customer has changed their mind.',
   * );
   */
  async cancel(
    directiveId: string,
    operator: DirectiveOperator<Actor>,
    reason?: string,
  ): Promise<DirectiveView> {
    const record = await this.find(directiveId, operator);
    return toDirectiveView(stillThere(await this.cancelled(record, operator, reason)));
  }

  /**
   * Cancels a directive as {@link cancel} does, and resolves once its effect is undone: to its view
   * then, or as it is when the time is up. One that had no effect, or is undone by now, stays as it
   * is. Rejects with a `DirectiveError`: `not_possible` if its tool cannot undo it.
   *
   * @example
   * const { status } = await directives.undo(directiveId, { actor, tenant }); // 'compensated'
   */
  async undo(
    directiveId: string,
    operator: DirectiveOperator<Actor>,
    { reason, waitMs = UNDOING_MS }: DirectiveUndoing = {},
  ): Promise<DirectiveView> {
    const until = performance.now() + waitMs;
    for (;;) {
      const record = await this.find(directiveId, operator);
      const { status, task } = record;
      const isToUndo = task === 'perform' && (status === 'pending' || status === 'succeeded');
      if (isToUndo)
        // if it has changed meanwhile, it is looked at again
        await this.cancelled(record, operator, reason);
      else if (status !== 'pending' && status !== 'performing') return toDirectiveView(record);
      if (performance.now() >= until) return toDirectiveView(record);
      await wait(POLL_MS);
    }
  }

  /**
   * Performs a directive after all that is dead or was cancelled; settles one whose outcome is
   * unknown by a person's finding: an effect that took place is not performed again, one that did
   * not is. Of a dead one a person may also say that it took place. Rejects with a
   * `DirectiveError`: `outcome_needed` if the finding is missing or invalid.
   *
   * @example
   * await directives.redrive(directiveId, { actor, tenant }, { tookPlace: false });
   */
  async redrive(
    directiveId: string,
    operator: DirectiveOperator<Actor>,
    finding: DirectiveFinding = {},
  ): Promise<DirectiveView> {
    const record = await this.find(directiveId, operator);
    const change = await this.permitted('redrive', record, operator, () =>
      this.redriveOf(record, operator, finding),
    );
    const said = {
      by: this.nameOf(operator),
      ...(finding.tookPlace !== undefined && { tookPlace: finding.tookPlace }),
    };
    if (record.status !== 'unknown_outcome' || change.status !== 'pending')
      return this.changed(record, change, said);
    // The key is given back while the directive is in hand: no other process can have taken it, and
    // its former holder has lost it.
    const lease = { owner: randomUUID(), forMs: TURN_MS };
    const held = await this.change(
      record,
      { event: 'redriven', status: 'performing', lease, attempts: 0 },
      said,
    );
    const key = { tenant: record.intent.tenant, idempotencyKey: effectKeyOf(record) };
    const stolen = await this.journal.steal(key, lease);
    if (stolen) await this.journal.release({ ...key, ...stolen });
    return toDirectiveView(await this.required(held, { ...change, event: 'retried' }));
  }

  /** Resolves to undefined if the directive has changed meanwhile. */
  private async cancelled(
    record: DirectiveRecord,
    operator: DirectiveOperator<Actor>,
    reason: string | undefined,
  ): Promise<DirectiveRecord | undefined> {
    const change = await this.permitted('cancel', record, operator, () =>
      this.cancellationOf(record, operator),
    );
    await this.audit.record(change.event, record, {
      by: this.nameOf(operator),
      ...(reason !== undefined && { reason }),
    });
    return this.store.change(versionOf(record), change);
  }

  private cancellationOf(
    { intent, status, task, failure }: DirectiveRecord,
    operator: DirectiveOperator<Actor>,
  ): DirectiveChange {
    if (status === 'pending' && task === 'perform')
      return failure?.code === 'unknown_outcome'
        ? // an attempt may have had its effect
          { event: 'unknown_outcome', status: 'unknown_outcome', failure }
        : { event: 'cancelled', status: 'cancelled' };
    if (status !== 'succeeded') throw notPossible(`It is ${status} and cannot be cancelled.`);
    if (!this.identified(operator).mayUndo) this.assertOperator(intent.authority.actorId, operator);
    if (!directiveToolOf(this.catalog, intent)?.directive.compensate)
      throw notPossible('It was performed, and its tool has no way to undo it.');
    return { event: 'cancelled', status: 'pending', task: 'compensate', attempts: 0, dueInMs: 0 };
  }

  private redriveOf(
    { intent, status, task }: DirectiveRecord,
    operator: DirectiveOperator<Actor>,
    { tookPlace }: DirectiveFinding,
  ): DirectiveChange {
    this.assertOperator(intent.authority.actorId, operator);
    if (!ANSWERS.has(tookPlace))
      throw new DirectiveError(
        'outcome_needed',
        'Say whether the effect took place: tookPlace true or false.',
      );
    const again = { event: 'redriven', status: 'pending', attempts: 0, dueInMs: 0 } as const;
    // a person may know better than the tool did
    if (status === 'dead' || status === 'cancelled') return tookPlace ? DONE[task] : again;
    if (status !== 'unknown_outcome')
      throw notPossible(
        `It is ${status}; only one that is dead, cancelled or of unknown outcome is tried again.`,
      );
    if (tookPlace === undefined)
      throw new DirectiveError(
        'outcome_needed',
        'It is unknown whether its effect took place. Check, and say so: tookPlace true or false.',
      );
    return tookPlace ? DONE[task] : again;
  }

  /** Checks a change; a refused one is recorded in the audit, too. */
  private async permitted(
    action: string,
    record: DirectiveRecord,
    operator: DirectiveOperator<Actor>,
    decide: () => DirectiveChange,
  ): Promise<DirectiveChange> {
    try {
      return decide();
    } catch (error) {
      if (error instanceof DirectiveError)
        await this.audit.record('refused', record, {
          action,
          by: this.nameOf(operator),
          code: error.code,
        });
      throw error;
    }
  }

  private async changed(
    record: DirectiveRecord,
    change: DirectiveChange,
    said: Readonly<Record<string, string | boolean>>,
  ): Promise<DirectiveView> {
    return toDirectiveView(await this.change(record, change, said));
  }

  /** Recorded before it counts. */
  private async change(
    record: DirectiveRecord,
    change: DirectiveChange,
    said: Readonly<Record<string, string | boolean>>,
  ): Promise<DirectiveRecord> {
    await this.audit.record(change.event, record, said);
    return this.required(record, change);
  }

  private async required(
    record: DirectiveRecord,
    change: DirectiveChange,
  ): Promise<DirectiveRecord> {
    return stillThere(await this.store.change(versionOf(record), change));
  }

  /**
   * Returns all that is stored of a directive, which is not for clients.
   *
   * @throws {DirectiveError} `not_found`, also for one that this person may not see.
   * @example
   * const { intent } = await directives.find(directiveId, { actor, tenant });
   */
  async find(directiveId: string, operator: DirectiveOperator<Actor>): Promise<DirectiveRecord> {
    const { tenant } = operator;
    const record =
      typeof directiveId === 'string' ? await this.store.find({ tenant, directiveId }) : undefined;
    const { id, mayUndo } = this.identified(operator);
    if (record && (mayUndo || id === record.intent.authority.actorId)) return record;
    throw new DirectiveError('not_found', 'There is no such directive.');
  }

  /**
   * Checks that the person may decide. Without operators, everybody is the operator of their own
   * directives.
   */
  private assertOperator(requesterId: string, operator: DirectiveOperator<Actor>): void {
    const { id, isOperator } = this.identified(operator);
    const { roles, described } = this.operators;
    if (isOperator || (!roles && id === requesterId)) return;
    throw new DirectiveError('not_permitted', `${described} decides about this.`);
  }

  private identified(person: DirectiveOperator<Actor>): Identified {
    const held = this.identity.rolesOf(person.actor);
    const isOperator = this.operators.roles?.some((role) => held.includes(role)) ?? false;
    return {
      id: this.identity.idOf(person.actor),
      isOperator,
      mayUndo: isOperator || this.applicationOperators.may(person, 'undo'),
    };
  }

  private nameOf({ actor }: DirectiveOperator<Actor>): string {
    return this.identity.idOf(actor) ?? 'unknown';
  }
}

/**
 * The valid answers. Others of an untyped caller, such as null or 'no', could be read either way,
 * and one reading is a second effect.
 */
const ANSWERS: ReadonlySet<unknown> = new Set([true, false, undefined]);

const UNDOING_MS = 30_000;

const POLL_MS = 50;

/** The lease between a person's answer and the next attempt, in milliseconds. */
const TURN_MS = 15_000;

/**
 * The person who looks at directives, or decides about them: as the application identified them,
 * never as a client says.
 */
export interface DirectiveOperator<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** A selection of directives. */
export type DirectiveFilter = Omit<DirectiveQuery, 'tenant' | 'actorId'>;

/** A person's finding about an effect. */
export interface DirectiveFinding {
  /**
   * True if the effect took place, false if it did not; needed if that is unknown. No other value
   * is an answer, whatever a client sent.
   */
  readonly tookPlace?: boolean;
}

/** The terms of an undoing. */
export interface DirectiveUndoing {
  /** Kept with the change. */
  readonly reason?: string;
  /** The milliseconds to wait for its end. @default 30,000 */
  readonly waitMs?: number;
}

interface Identified {
  readonly id: string | undefined;
  /** True if the person may see and decide about every directive of the tenant. */
  readonly isOperator: boolean;
  /**
   * True if the person may undo every effect of the tenant, as an operator of the application or of
   * directives.
   */
  readonly mayUndo: boolean;
}

function stillThere(changed: DirectiveRecord | undefined): DirectiveRecord {
  if (changed) return changed;
  throw notPossible('It has changed meanwhile. Look at it again.');
}

function notPossible(message: string): DirectiveError {
  return new DirectiveError('not_possible', message);
}
