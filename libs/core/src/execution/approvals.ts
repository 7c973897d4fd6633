import type {
  ApprovalRequest,
  ApprovalTerms,
  Endorsable,
  LoopEventBody,
  WaitingCall,
} from '@toolloop/protocol';
import {
  EXPIRES_AFTER_MS,
  isUsable,
  type Pending,
  type PendingAnswer,
  type PendingApproval,
  type PendingBinding,
  type PendingKind,
  type PendingOf,
  type PendingStore,
} from '../contracts/pending.js';
import type { RunLog } from '../contracts/stores.js';
import { firstNoticeAt } from '../pending/pending-notices.js';
import { TOOL_CHANGED } from '../pending/pending-reply.js';
import { isExpired, withdraw, withdrawal } from '../pending/pending.service.js';
import type { KeptCall } from '../pending/run-rehearsal.js';
import { areSamePeople } from '../policy/rules.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import type { BoundedStores } from './bounded-stores.js';
import type { CallAudit } from './call-audit.js';
import { linkSignal, untilAborted } from './call-failure.js';
import {
  CallPending,
  CallWaitsElsewhere,
  type ExecutionScope,
  type PlacedCall,
  type ReadCall,
} from './call.js';
import { shownArguments } from './describe.js';
import type { CallPreview } from './preview.js';
import { changesOf, isSameForm, shownFormOf } from './shown-form.js';

/**
 * Keeps what calls ask of people and clients, and waits for the answers. Everything that is asked
 * goes through it, whatever its kind.
 */
export class Asking {
  protected readonly store: PendingStore;
  private readonly runs: Pick<RunLog, 'find'>;

  constructor(
    { pending, runs }: Pick<BoundedStores, 'pending' | 'runs'>,
    protected readonly audit: CallAudit | undefined,
  ) {
    this.store = pending;
    this.runs = runs;
  }

  /**
   * Finds what was asked under an id, as long as it is of that kind: no answer to one kind stands
   * for one to another.
   */
  async findOf<Kind extends PendingKind>(
    kind: Kind,
    id: string | undefined,
  ): Promise<PendingOf<Kind> | undefined> {
    const record = id === undefined ? undefined : await this.store.find(id);
    return record && isOf(kind, record) ? record : undefined;
  }

  /**
   * Asks once. The id follows from what is asked, so that a run which lost it, as in a crash, finds
   * the record again and no person is asked twice. One that was withdrawn because its run had ended
   * is no answer, and is asked for anew.
   */
  protected async once<Kind extends PendingKind>(
    kind: Kind,
    idAfter: (before?: string) => string,
    make: Making<Kind>,
  ): Promise<PendingOf<Kind>> {
    for (let id = idAfter(); ; id = idAfter(id)) {
      const known = await this.findOf(kind, id);
      if (!known?.answer?.isWithdrawn) return known ?? make(id);
    }
  }

  protected async keep<Kind extends PendingKind>(
    call: ReadCall,
    record: PendingOf<Kind> & Pending,
  ): Promise<PendingOf<Kind>> {
    const { conversation } = call.scope;
    await this.audit?.asked(call, record);
    const noticeAt = firstNoticeAt(record);
    await this.store.add({
      ...record,
      ...(conversation !== undefined && { conversation }),
      ...(noticeAt !== undefined && { noticeAt }),
    });
    return record;
  }

  /**
   * Ensures that no equal call of the conversation waits: asked for by two runs, it would be
   * approved and made twice.
   *
   * @throws {CallWaitsElsewhere} Where another run has asked for it, and may still make it.
   */
  protected async assertAskedFirst(
    { scope: { conversation } }: ReadCall,
    binding: PendingBinding,
  ): Promise<void> {
    if (conversation === undefined) return;
    const { tenant } = binding;
    for (let last: string | undefined; ;) {
      const page = await this.store.list({
        tenant,
        conversation,
        limit: PAGE,
        ...(last !== undefined && { after: last }),
      });
      for (const record of page)
        if (isOfAnotherRun(record.binding, binding) && (await this.mayBeMade(record)))
          throw new CallWaitsElsewhere(record);
      last = page.at(-1)?.id;
      if (page.length < PAGE) return;
    }
  }

  /** An answer that was not used yet is used by its run, unless that has ended. */
  private async mayBeMade(record: Pending): Promise<boolean> {
    const { answer, usedAt, binding } = record;
    if (isExpired(record) || usedAt !== undefined) return false;
    if (!answer) return true;
    const run = isUsable(answer) ? await this.runs.find(binding.runId) : undefined;
    return run !== undefined && run.status !== 'ended';
  }

  /**
   * Resolves once there is an answer while the run waited; false where none came in time.
   *
   * @throws {CallPending} Where the run does not wait.
   */
  async answered(record: Pending, { scope, request }: Asker): Promise<boolean> {
    const { id, kind, expiresAt } = record;
    await scope.emit(requestEvent(record, request.step)); // again, for a reader who comes later
    if (scope.approvals.mode === 'suspend') throw new CallPending(kind);
    const link = linkSignal(scope.signal, {
      ms: Math.max(0, Date.parse(expiresAt) - Date.now()),
      message: 'It expired without an answer.',
    });
    try {
      await untilAborted(this.store.answered(id, link.signal), link.signal);
      return true;
    } catch (error) {
      if (scope.signal.aborted) await withdraw(this.store, id);
      if (scope.signal.aborted || !link.signal.aborted) throw error;
      return false;
    } finally {
      link.release();
    }
  }

  /** Emits what became of it. */
  async tell(
    { id, kind, binding: { toolCallId } }: Pending,
    answer: PendingAnswer,
    { scope, request: { step } }: Asker,
  ): Promise<void> {
    const { decision, reason, decidedBy } = answer;
    if (kind !== 'approval')
      return scope.emit({
        type: 'pending-answer',
        step,
        kind,
        pendingId: id,
        toolCallId,
        decision,
        answeredBy: decidedBy,
      });
    if (decision === 'answer') return;
    const told = { approvalId: id, decision, ...(reason !== undefined && { reason }) };
    return scope.emit({ type: 'approval-decision', step, decision: told, decidedBy });
  }

  /** Uses a yes or a value up, once and in time; the reason where that cannot be. */
  async use(record: Pending): Promise<string | undefined> {
    if (isExpired(record)) return 'The approval had expired';
    return (await this.store.use(record.id)) ? undefined : 'The approval was used already';
  }
}

/** The place from which something is asked. */
interface Asker {
  readonly scope: ExecutionScope;
  readonly request: Pick<PlacedCall, 'step'>;
}

const PAGE = 100;

/** Tells whether two runs ask about the same call. */
function isOfAnotherRun(one: PendingBinding, other: PendingBinding): boolean {
  const isOfOneActor = one.requesterId === other.requesterId;
  const isOneTool = one.declaredId === other.declaredId && one.instanceId === other.instanceId;
  return one.runId !== other.runId && isOfOneActor && isOneTool && one.argsHash === other.argsHash;
}

/** Makes what is asked, and keeps it under this id. */
type Making<Kind extends PendingKind> = (id: string) => Promise<PendingOf<Kind>>;

function isOf<Kind extends PendingKind>(
  kind: Kind,
  record: { readonly kind: PendingKind },
): record is PendingOf<Kind> {
  return record.kind === kind;
}

function requestEvent(record: Pending, step: number): LoopEventBody {
  if (record.kind === 'approval')
    return { type: 'approval-request', step, approval: record.request };
  if (record.kind === 'client')
    return { type: 'pending-request', step, kind: record.kind, request: record.request };
  if (record.kind === 'rehearsal')
    return { type: 'pending-request', step, kind: record.kind, request: record.request };
  return { type: 'pending-request', step, kind: record.kind, request: record.request };
}

/**
 * Asks people about calls and uses their answers. Policy's approvals and the repetition of a call
 * with an unknown outcome both go through it.
 */
export class AskedApprovals extends Asking {
  constructor(
    stores: Pick<BoundedStores, 'pending' | 'runs'>,
    private readonly preview: CallPreview,
    audit: CallAudit | undefined,
  ) {
    super(stores, audit);
  }

  async find(approvalId: string | undefined): Promise<PendingApproval | undefined> {
    return this.findOf('approval', approvalId);
  }

  /**
   * The approval that was asked for before, as long as the call is the same, the tool is as the
   * person saw it, and policy still asks the same people, in whatever version. One that no person
   * withdrew is none.
   */
  async findSame(
    approvalId: string | undefined,
    call: ReadCall,
    question: ApprovalQuestion,
  ): Promise<PendingApproval | undefined> {
    const record = await this.find(approvalId);
    if (!record || record.answer?.isWithdrawn) return undefined;
    const isSameCall =
      callIn(record.binding) === callIn(bindingOf(call, question)) && countsFor(record, call);
    const isEditable = record.answer?.args === undefined || question.mayEdit;
    return isSameCall && isEditable && areSamePeople(record.admitted, question.terms)
      ? record
      : undefined;
  }

  /** Asks a person about a call; with `after` once more, after that approval. */
  async ask(call: ReadCall, question: ApprovalQuestion, after?: string): Promise<PendingApproval> {
    return this.once(
      'approval',
      (before = after) => approvalIdOf(call, question, before),
      (id) => this.add(id, call, question),
    );
  }

  private async add(
    approvalId: string,
    call: ReadCall,
    question: ApprovalQuestion,
  ): Promise<PendingApproval> {
    const { reason, mayEdit, mayRemember, terms, rule, endorsable } = question;
    const binding = boundToForm(call, question);
    await this.assertAskedFirst(call, binding);
    const times = timesOf(expiryOf(terms));
    const preview = await this.preview.of(call);
    const mayEndorse = endorsable && shownOf(endorsable, call.tool.input.hidden);
    const replaced = await this.replacedBy(binding, question.standing);
    const asked = await this.keep(call, {
      id: approvalId,
      kind: 'approval',
      request: {
        approvalId,
        ...waitingCallOf(call),
        args: shownArguments(call.input.args, call.tool.input.hidden),
        reason,
        ...(preview && { preview }),
        ...changedSince(replaced, binding),
        expiresAt: times.expiresAt,
        mayEdit,
        mayRemember,
        ...(mayEndorse && { mayEndorse }),
        ...(call.scope.flow.integrity === 'untrusted' && { isTainted: true as const }),
        group: groupOf(call, question),
      },
      binding,
      admitted: terms,
      rule,
      ...times,
    });
    for (const record of replaced) await this.replace(record, call);
    return asked;
  }

  /**
   * Finds what was asked about the same call while the tool had another form, the oldest first;
   * before it an approval that covered further calls of the tool.
   */
  private async replacedBy(
    binding: PendingBinding,
    standing: string | undefined,
  ): Promise<readonly PendingApproval[]> {
    const { tenant, runId } = binding;
    const covering = await this.find(standing);
    const all = await this.store.list({ tenant, runId, limit: MOST_OF_A_RUN });
    const same = all
      .filter((record) => callIn(record.binding) === callIn(binding))
      .flatMap((one) => (isOf('approval', one) ? [one] : []));
    return [...(covering ? [covering] : []), ...same].filter(
      (record) => !isSameForm(record.binding.form, binding.form),
    );
  }

  /** Withdraws what no one need answer any more, and tells so. */
  private async replace({ id, answer }: PendingApproval, call: ReadCall): Promise<void> {
    const withdrawn = answer ? undefined : await this.store.answer(id, withdrawal(TOOL_CHANGED));
    if (withdrawn?.answer) await this.tell(withdrawn, withdrawn.answer, call);
  }
}

/** More than a run asks. */
const MOST_OF_A_RUN = 1_000;

/** Returns what has changed since the last of several requests, as far as their forms were kept. */
function changedSince(
  replaced: readonly PendingApproval[],
  { form: now }: PendingBinding,
): Pick<ApprovalRequest, 'changed'> {
  const before = replaced.at(-1)?.binding.form;
  return before && now ? { changed: changesOf(before, now) } : {};
}

/**
 * Tells whether an approval is about the tool as it is. A person's no holds for it however it has
 * changed since, and so does a yes that the call has used and waits behind: its client may have
 * made it, and a person is asked about its repetition anew.
 */
function countsFor(
  { binding, answer, usedAt }: PendingApproval,
  { tool, scope: { approvals }, request }: ReadCall,
): boolean {
  if (isSameForm(binding.form, shownFormOf(tool)) || (answer && !isUsable(answer))) return true;
  const { toolCallId } = request.call;
  return (
    usedAt !== undefined &&
    (approvals.hasLetIn(toolCallId) || approvals.repeatOf(toolCallId) !== undefined)
  );
}

/** A rehearsal that has come to its end. */
interface EndedRehearsal extends Asker {
  readonly calls: readonly KeptCall[];
}

/** Asks people about the list of changes of a rehearsal, once for the same list. */
export class AskedRehearsals extends Asking {
  /**
   * Returns what was asked, with its answer; without one where none came in time.
   *
   * @throws {CallPending} Where the run waits for it.
   */
  async decided(record: PendingOf<'rehearsal'>, asker: Asker): Promise<PendingOf<'rehearsal'>> {
    if (record.answer || isExpired(record)) return record;
    await this.answered(record, asker);
    return (await this.findOf('rehearsal', record.id)) ?? record;
  }

  /** Asks, or finds what was asked about the same list. */
  ask({ scope, request, calls }: EndedRehearsal): Promise<PendingOf<'rehearsal'>> {
    const { run, actorId, conversation } = scope;
    const list = calls.map(({ shown, arguments: args, terms }) => [
      shown.toolCallId,
      shown.declaredId,
      shown.instanceId ?? null,
      args,
      terms,
    ]);
    const what = {
      tenant: run.tenant,
      runId: run.runId,
      requesterId: actorId,
      argsHash: sha256(canonicalDeclaration(list)),
    };
    const idAfter = (before?: string): string =>
      idFor('reh', { ...what, ...(before !== undefined && { after: before }) });
    return this.once('rehearsal', idAfter, async (id) => {
      const admitted = calls.flatMap(({ terms }) => terms);
      const times = timesOf(expiryOf(admitted));
      const record: PendingOf<'rehearsal'> = {
        id,
        kind: 'rehearsal',
        request: {
          rehearsalId: id,
          runId: run.runId,
          step: request.step,
          calls: calls.map(({ shown }) => shown),
          expiresAt: times.expiresAt,
        },
        binding: {
          ...what,
          toolCallId: id,
          declaredId: 'rehearsal',
          instanceId: undefined,
          policyVersion: '',
        },
        ...(conversation !== undefined && { conversation }),
        admitted,
        rule: 'rehearsal',
        ...times,
      };
      const noticeAt = firstNoticeAt(record);
      await this.audit?.rehearsed(scope, record);
      await this.store.add({ ...record, ...(noticeAt !== undefined && { noticeAt }) });
      return record;
    });
  }
}

/** The call as the people who answer see it. */
export function waitingCallOf({ tool, scope, request }: ReadCall): Omit<WaitingCall, 'expiresAt'> {
  return {
    ...waitingRunOf(scope),
    step: request.step,
    toolCallId: request.call.toolCallId,
    tool: tool.spec.id,
    declaredId: tool.spec.declaredId,
    ...(tool.entity && { instanceId: tool.entity.instanceId }),
    ...(tool.presentation && { presentation: tool.presentation }),
  };
}

/** The time of a request made now, and the time at which it expires. */
export function timesOf(expiresAfterMs: number): Pick<Pending, 'createdAt' | 'expiresAt'> {
  const now = Date.now();
  return {
    createdAt: new Date(now).toISOString(),
    expiresAt: new Date(now + expiresAfterMs).toISOString(),
  };
}

const DIGITS_OF_ID = 32;

/** A question to a person about a call. */
export interface ApprovalQuestion extends Pick<
  ApprovalRequest,
  'reason' | 'mayEdit' | 'mayRemember'
> {
  /** The rule that asks. */
  readonly rule: string;
  readonly policyVersion: string;
  readonly terms: readonly ApprovalTerms[];
  /** The things that the approver may trust for the rest of the run. @default none */
  readonly endorsable?: Endorsable;
  /** The approval that would cover the call, had the tool not changed since. @default none */
  readonly standing?: string | undefined;
}

/** The reason why no person can be asked about a call of this run; undefined where one can. */
export function unaskableReason({
  approvals,
  actorId,
  rehearsal,
}: ExecutionScope): string | undefined {
  if (rehearsal) return 'No one is asked about a single call of a rehearsal.';
  if (approvals.mode === 'deny') return 'No one can give it in this run.';
  // Without an id no one could resume the run, and where the policy names no role no one could
  // approve.
  return actorId === undefined
    ? 'The actor of this run has no id, so no one can give it.'
    : undefined;
}

/** A sub-run does not wait by itself: the root run does, and is resumed. */
function waitingRunOf({
  run: { runId, path },
}: ExecutionScope): Pick<ApprovalRequest, 'runId' | 'path'> {
  return { runId: path?.[0] ?? runId, ...(path && { path }) };
}

/** Returns the milliseconds after which the first of the terms expires. */
export function expiryOf(terms: readonly ApprovalTerms[]): number {
  return Math.min(
    ...(terms.length > 0 ? terms : [{}]).map(
      ({ expiresAfterMs = EXPIRES_AFTER_MS }: ApprovalTerms) => expiresAfterMs,
    ),
  );
}

/** Binds what is asked to its call. */
export function bindingOf(
  { tool, input, scope, request }: ReadCall,
  { policyVersion }: Pick<ApprovalQuestion, 'policyVersion'>,
): PendingBinding {
  return {
    tenant: scope.run.tenant,
    runId: scope.run.path?.[0] ?? scope.run.runId,
    ...(scope.run.path && { subRunId: scope.run.runId }),
    requesterId: scope.actorId,
    toolCallId: request.call.toolCallId,
    declaredId: tool.spec.declaredId,
    instanceId: tool.entity?.instanceId,
    argsHash: sha256(input.canonical),
    policyVersion,
  };
}

/** Binds an approval to its call, and to the form of the tool that the person is shown. */
function boundToForm(
  call: ReadCall,
  question: Pick<ApprovalQuestion, 'policyVersion'>,
): PendingBinding {
  return { ...bindingOf(call, question), form: shownFormOf(call.tool) };
}

/**
 * The calls of a step of which one decision can be taken: of one tool, asked about by the same rule
 * and of the same people.
 */
function groupOf(
  { tool, scope, request }: ReadCall,
  { rule, policyVersion, terms }: ApprovalQuestion,
): string {
  const { tenant, runId } = scope.run;
  return idFor('grp', {
    tenant,
    runId,
    step: request.step,
    declaredId: tool.spec.declaredId,
    rule,
    policyVersion,
    terms,
  });
}

/** No one trusts a value that they are not shown. */
function shownOf(endorsable: Endorsable, hidden: readonly string[]): Endorsable | undefined {
  const shown = Object.entries(endorsable).flatMap(([name, all]: [string, readonly string[]]) => {
    const some = name === 'sources' ? all : all.filter((argument) => !hidden.includes(argument));
    return some.length > 0 ? [[name, some] as const] : [];
  });
  return shown.length > 0 ? Object.fromEntries(shown) : undefined;
}

/** `after` is the approval that this one follows, where another is needed for the same question. */
function approvalIdOf(call: ReadCall, question: ApprovalQuestion, after?: string): string {
  const { rule, terms } = question;
  return idFor('apr', {
    binding: boundToForm(call, question),
    step: call.request.step,
    rule,
    terms,
    ...(after !== undefined && { after }),
  });
}

/** The id of what is asked, which follows from it. */
export function idFor(prefix: 'apr' | 'cli' | 'grp' | 'qst' | 'reh', asked: object): string {
  return `${prefix}_${sha256(canonicalDeclaration(asked)).slice(0, DIGITS_OF_ID)}`;
}

/** Returns the call in a binding, whatever the policy was, and the form of the tool. */
export function callIn({
  policyVersion: _ofQuestion,
  form: _ofTool,
  ...call
}: PendingBinding): string {
  return canonicalDeclaration(call);
}
