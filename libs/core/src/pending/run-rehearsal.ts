import type { ApprovalTerms, JsonObject, RehearsedCall } from '@toolloop/protocol';
import { type Form, list, NUMBER, object, partly, TEXT } from '../schema/saved-form.js';

/** A call of a rehearsal, as it is made again: to show what follows it, to see that nothing has changed, and once it is approved. */
export interface KeptCall {
  /** As people see it. */
  readonly shown: RehearsedCall;
  /** Its canonical arguments. */
  readonly arguments: string;
  /** The position among the calls of its step, from 0. */
  readonly index: number;
  /** The people whom policy wants to approve it; none where it needs no approval. */
  readonly terms: readonly ApprovalTerms[];
}

export const SAVED_REHEARSAL: Form<readonly KeptCall[]> = list(
  object<KeptCall>({
    shown: partly<RehearsedCall>({
      toolCallId: TEXT,
      step: NUMBER,
      tool: TEXT,
      declaredId: TEXT,
      effect: TEXT,
      as: TEXT,
      args: partly<JsonObject>(),
    }),
    arguments: TEXT,
    index: NUMBER,
    terms: list(partly<ApprovalTerms>()),
  }),
);

/** The calls that one run has rehearsed. */
export class RunRehearsal {
  private readonly calls: KeptCall[];

  constructor(saved: readonly KeptCall[] = []) {
    this.calls = [...saved];
  }

  add(call: KeptCall): void {
    this.calls.push(call);
  }

  /** The calls that change something, in the order in which the model made them. */
  get changes(): readonly KeptCall[] {
    return this.inOrder.filter(({ shown }) => shown.effect !== 'read_only');
  }

  private get inOrder(): readonly KeptCall[] {
    return this.calls.toSorted((one, other) => one.shown.step - other.shown.step || one.index - other.index);
  }

  save(): readonly KeptCall[] {
    return this.inOrder;
  }
}
