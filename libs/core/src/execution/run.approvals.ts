import type { DirectiveApproval } from '../protocol/directive.js';
import type { Decision } from '../protocol/policy.js';
import { canonicalDeclaration } from '../schema/canonical-json.js';

/** Between the versions of several policies that all ask. */
const JOINED = ' + ';

/** What a run does with a call that needs a person's yes. */
export type ApprovalMode = 'suspend' | 'wait' | 'deny';

/** The approvals of one run: which call asked for which, and the decisions that hold for more than one call. */
export class RunApprovals {
  private readonly asked: Map<string, string>;
  private readonly repeated: Map<string, string>;
  private readonly remembered: Map<string, string>;

  constructor(
    readonly mode: ApprovalMode,
    saved: SavedApprovals = { asked: [], repeated: [], remembered: [] },
    /** What a person said yes to before, where a directive is performed. */
    private readonly given?: DirectiveApproval,
  ) {
    this.asked = new Map(saved.asked);
    this.repeated = new Map(saved.repeated);
    this.remembered = new Map(saved.remembered);
  }

  approvalOf(toolCallId: string): string | undefined {
    return this.asked.get(toolCallId);
  }

  ask(toolCallId: string, approvalId: string): void {
    this.asked.set(toolCallId, approvalId);
  }

  /** The approval by which a call of which nobody knows may be made again. */
  repeatOf(toolCallId: string): string | undefined {
    return this.repeated.get(toolCallId);
  }

  askRepeat(toolCallId: string, approvalId: string): void {
    this.repeated.set(toolCallId, approvalId);
  }

  /** The approval whose answer holds for every call of this tool that this rule asks about. */
  standingFor(declaredId: string, rule: string): string | undefined {
    return this.remembered.get(JSON.stringify([declaredId, rule]));
  }

  remember(declaredId: string, rule: string, approvalId: string): void {
    this.remembered.set(JSON.stringify([declaredId, rule]), approvalId);
  }

  /** Whether the yes that a directive was given answers all that policy asks for now. */
  covers({ approval = [], policyVersion }: Decision): boolean {
    if (!this.given) return false;
    const { terms, policyVersion: approvedUnder } = this.given;
    const met = new Set(terms.map(canonicalDeclaration));
    const versions = new Set(approvedUnder.split(JOINED));
    return approval.every((one) => met.has(canonicalDeclaration(one))) && policyVersion.split(JOINED).every((one) => versions.has(one));
  }

  save(): SavedApprovals {
    return { asked: [...this.asked], repeated: [...this.repeated], remembered: [...this.remembered] };
  }
}

/** JSON. */
export interface SavedApprovals {
  readonly asked: readonly (readonly [string, string])[];
  readonly repeated: readonly (readonly [string, string])[];
  readonly remembered: readonly (readonly [string, string])[];
}
