import type { ApprovalRequest, ApprovalTerms, Endorsable, WaitingCall } from '@toolloop/protocol';
import type { ExecutionScope, ReadCall } from '../../call/call.js';
import { EXPIRES_AFTER_MS, type Pending, type PendingBinding } from '../../contracts/pending.js';
import { canonicalDeclaration, sha256 } from '../../schema/canonical-json.js';

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
