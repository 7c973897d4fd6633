import { type ApprovalTerms, type JsonObject, type RehearsedCall } from '@toolloop/protocol';
import type { Tool } from '../../contracts/tool.js';
import type { OutsideArgument } from '../values/value-references.js';
import { type Fingerprint, FINGERPRINT } from './fingerprint.js';
import {
  type Form,
  list,
  NUMBER,
  object,
  optional,
  partly,
  TEXT,
} from '../../schema/saved-form.js';

/** The calls that one run has rehearsed. */
export class RunRehearsal {
  private readonly kept: KeptCall[];
  private readonly tools = new Map<KeptCall, Tool>();

  constructor(saved: readonly KeptCall[] = []) {
    this.kept = [...saved];
  }

  add(call: KeptCall, tool: Tool): void {
    this.kept.push(call);
    this.tools.set(call, tool);
  }

  /** The tool as it was called; undefined in another process. */
  toolOf(call: KeptCall): Tool | undefined {
    return this.tools.get(call);
  }

  /** All of its calls, in the order in which the model made them. */
  get calls(): readonly KeptCall[] {
    return this.kept.toSorted(
      (one, other) => one.shown.step - other.shown.step || one.index - other.index,
    );
  }

  /** The calls that change something. */
  get changes(): readonly KeptCall[] {
    return this.calls.filter(({ shown }) => shown.effect !== 'read_only');
  }

  /** The calls whose changes the later ones see. */
  get writes(): readonly KeptCall[] {
    return this.changes.filter(({ shown }) => shown.as === 'rehearsed');
  }

  save(): readonly KeptCall[] {
    return this.calls;
  }
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
    outside: optional(list(object<OutsideArgument>({ name: TEXT, from: list(TEXT) }))),
    index: NUMBER,
    terms: list(partly<ApprovalTerms>()),
    form: optional(TEXT),
    before: optional(FINGERPRINT),
  }),
);

/**
 * A call of a rehearsal, as it is made again: for what follows it, to see that nothing has changed,
 * and once it is approved.
 */
export interface KeptCall {
  /** As people see it. */
  readonly shown: RehearsedCall;
  /** Its canonical arguments. */
  readonly arguments: string;
  /** The arguments that hold text from outside, which have no references any more. @default none */
  readonly outside?: readonly OutsideArgument[];
  /** The position among the calls of its step, from 0. */
  readonly index: number;
  /** The people whom policy wants to approve it; none where it needs no approval. */
  readonly terms: readonly ApprovalTerms[];
  /** The hash of the form of its tool. Absent in rehearsals of earlier releases. */
  readonly form?: string;
  /**
   * The result of a read, or the rows that a write changed as they were before. Absent where
   * nothing is compared.
   */
  readonly before?: Fingerprint;
}
