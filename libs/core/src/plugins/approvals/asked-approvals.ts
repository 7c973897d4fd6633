import type { ApprovalRequest, Endorsable } from '@toolloop/protocol';
import type { BoundedStores } from '../../call/bounded-stores.js';
import type { ReadCall } from '../../call/call.js';
import { shownArguments } from '../../call/shown-arguments.js';
import { isUsable, type PendingApproval, type PendingBinding } from '../../contracts/pending.js';
import { areSamePeople } from '../../policy/rules.js';
import { TOOL_CHANGED } from '../inbox/settled-pending.js';
import { withdrawal } from '../inbox/withdrawal.js';
import {
  type ApprovalQuestion,
  bindingOf,
  callIn,
  expiryOf,
  idFor,
  timesOf,
  waitingCallOf,
} from './approval-question.js';
import { Asking, isOf } from './asking.js';
import type { CallPreview } from './call-preview.js';
import { changesOf, isSameForm, shownFormOf } from './shown-form.js';

/**
 * Asks people about calls and uses their answers. Policy's approvals and the repetition of a call
 * with an unknown outcome both go through it.
 */
export class AskedApprovals extends Asking {
  constructor(
    stores: Pick<BoundedStores, 'pending' | 'runs'>,
    private readonly preview: CallPreview,
  ) {
    super(stores);
  }

  async find(approvalId: string | undefined): Promise<PendingApproval | undefined> {
    return this.findOf('approval', approvalId);
  }

  /**
   * The approval that was asked for before, as long as the call is the same, the tool is as the
   * person saw it, and policy still asks the same people, in whatever version. A withdrawn one does
   * not count.
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
