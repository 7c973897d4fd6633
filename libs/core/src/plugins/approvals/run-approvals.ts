import type { Decision, JsonObject } from '@toolloop/protocol';
import type { DirectiveApproval } from '../../contracts/directive.js';
import type { PendingApproval } from '../../contracts/pending.js';
import type { Endorsed } from '../../contracts/policy.js';
import { areSamePeople } from '../../policy/rules.js';
import { TEXT, list, object, optional, pair, partly } from '../../schema/saved-form.js';

/**
 * The approvals of one run, by the calls that requested them, and the decisions that cover more
 * than one call.
 */
export class RunApprovals {
  private readonly remembered: Map<string, string>;
  /**
   * The things that people trust for the rest of the run, and the approval in which each said so.
   */
  readonly endorsed: RunEndorsement[];
  private ofCalls: ApprovalsOfCalls | undefined;

  constructor(
    readonly mode: ApprovalMode,
    saved: SavedApprovals = NO_APPROVALS,
    /** The approval of the directive that is being performed. */
    private readonly given?: DirectiveApproval,
    /**
     * The approvals of a session, whose decisions that cover more than one call hold for all of its
     * calls.
     */
    session?: RunApprovals,
    /** Those of the run around a sub-run: what people trust, they trust in both. */
    around = session,
  ) {
    const { asked, letIn, repeated } = saved;
    if (saved !== NO_APPROVALS)
      this.ofCalls = { asked: new Map(asked), letIn: new Set(letIn), repeated: new Map(repeated) };
    this.remembered = session?.remembered ?? new Map(saved.remembered);
    this.endorsed = around?.endorsed ?? [];
    for (const one of saved.endorsed ?? []) this.trust(one);
  }

  /**
   * Trusts values of a call, and sources, as far as its approver was offered that and has said so.
   */
  endorse({ declaredId, form, args }: EndorsedCall, approval: PendingApproval): void {
    const { id, request, answer } = approval;
    const chosen = (name: 'arguments' | 'sources'): readonly string[] =>
      (answer?.endorse?.[name] ?? []).filter((one) => request.mayEndorse?.[name]?.includes(one));
    for (const argument of chosen('arguments')) {
      const value = args[argument];
      if (value !== undefined)
        this.trust({ approvalId: id, endorsed: { tool: declaredId, argument, value }, form });
    }
    for (const source of chosen('sources')) this.trust({ approvalId: id, endorsed: { source } });
  }

  private trust(one: RunEndorsement): void {
    const isKnown = this.endorsed.some((other) => JSON.stringify(other) === JSON.stringify(one));
    if (!isKnown) this.endorsed.push(one);
  }

  /** Finds the approval that a call requested. */
  askedBy(toolCallId: string): string | undefined {
    return this.ofCalls?.asked.get(toolCallId);
  }

  ask(toolCallId: string, approvalId: string): void {
    this.calls.asked.set(toolCallId, approvalId);
  }

  /**
   * Tells whether a call was let in, and then waited for a value: an approval that was used for it
   * holds.
   */
  hasLetIn(toolCallId: string): boolean {
    return this.ofCalls?.letIn.has(toolCallId) === true;
  }

  letIn(toolCallId: string): void {
    this.calls.letIn.add(toolCallId);
  }

  /** Finds the approval by which a call of unknown outcome may be made again. */
  repeatOf(toolCallId: string): string | undefined {
    return this.ofCalls?.repeated.get(toolCallId);
  }

  askRepeat(toolCallId: string, approvalId: string): void {
    this.calls.repeated.set(toolCallId, approvalId);
  }

  /** Made when something is first kept: most calls need no approval. */
  private get calls(): ApprovalsOfCalls {
    return (this.ofCalls ??= { asked: new Map(), letIn: new Set(), repeated: new Map() });
  }

  /**
   * Finds the approval whose answer covers every call of a tool under a rule, as long as the tool
   * is as it was.
   */
  standingFor({ declaredId, rule, form }: CoveredCalls): string | undefined {
    return this.remembered.get(JSON.stringify([declaredId, rule, form]));
  }

  /**
   * Finds the last approval that covered every call of the tool under the rule while the tool was
   * another.
   */
  stoodFor({ declaredId, rule }: CoveredCalls): string | undefined {
    const prefix = JSON.stringify([declaredId, rule]).slice(0, -1);
    return [...this.remembered].findLast(([key]) => key.startsWith(prefix))?.[1];
  }

  remember({ declaredId, rule, form }: CoveredCalls, approvalId: string): void {
    this.remembered.set(JSON.stringify([declaredId, rule, form]), approvalId);
  }

  /**
   * Tells whether the approval of the directive is by all whom policy asks for now, and about the
   * tool as it is.
   */
  covers({ approval = [] }: Decision, form: string): boolean {
    return (
      this.given !== undefined &&
      !this.isOfAnother(form) &&
      areSamePeople(this.given.terms, approval)
    );
  }

  /** Tells whether the approval of the directive is about the tool in another form. */
  isOfAnother(form: string): boolean {
    return this.given?.form !== undefined && this.given.form !== form;
  }

  save(): SavedApprovals {
    const { asked, letIn, repeated } = this.calls;
    const more = {
      ...(letIn.size > 0 && { letIn: [...letIn] }),
      ...(this.endorsed.length > 0 && { endorsed: [...this.endorsed] }),
    };
    return {
      asked: [...asked],
      repeated: [...repeated],
      remembered: [...this.remembered],
      ...more,
    };
  }
}

/** The way a run handles a call that requires an approval. */
export type ApprovalMode = 'suspend' | 'wait' | 'deny';

/** The calls that one decision covers: of a tool in one form, about which one rule asks. */
export interface CoveredCalls {
  readonly declaredId: string;
  readonly rule: string;
  /** The hash of the form of the tool. */
  readonly form: string;
}

/** The questions about the single calls of a run, and the answers to them. */
interface ApprovalsOfCalls {
  readonly asked: Map<string, string>;
  readonly letIn: Set<string>;
  readonly repeated: Map<string, string>;
}

/** A call that its approver let in, trusting something of it. */
interface EndorsedCall extends Pick<CoveredCalls, 'declaredId' | 'form'> {
  readonly args: JsonObject;
}

/**
 * A value or a source that a person trusts for the rest of a run, and the approval in which the
 * person said so.
 */
export interface RunEndorsement {
  readonly approvalId: string;
  readonly endorsed: Endorsed;
  /** The hash of the form of the tool in whose arguments a value is trusted. @default any form */
  readonly form?: string;
}

/** The approvals of a run as JSON. */
export interface SavedApprovals {
  readonly asked: readonly (readonly [string, string])[];
  readonly repeated: readonly (readonly [string, string])[];
  readonly remembered: readonly (readonly [string, string])[];
  /** @default none */
  readonly letIn?: readonly string[];
  /** @default nothing */
  readonly endorsed?: readonly RunEndorsement[];
}

const NO_APPROVALS: SavedApprovals = { asked: [], repeated: [], remembered: [] };

export const SAVED_APPROVALS = object<SavedApprovals>({
  asked: list(pair(TEXT)),
  repeated: list(pair(TEXT)),
  remembered: list(pair(TEXT)),
  letIn: optional(list(TEXT)),
  endorsed: optional(
    list(
      object<RunEndorsement>({
        approvalId: TEXT,
        endorsed: partly<Endorsed>(),
        form: optional(TEXT),
      }),
    ),
  ),
});
