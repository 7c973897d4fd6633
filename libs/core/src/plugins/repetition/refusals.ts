import type { ToolErrorCode, ToolInvocationRecord } from '@toolloop/protocol';

/** Returns whether a call was refused, or named a tool that is not there. */
export function isRefusal({ error }: Pick<ToolInvocationRecord, 'error'>): boolean {
  return error !== undefined && REFUSED.has(error.code);
}

const REFUSED = new Set<ToolErrorCode>([
  'unknown_tool',
  'policy_denied',
  'forbidden',
  'approval_denied',
  'tenant_override',
]);

/**
 * Returns whether a call was refused with the one before it in its step: a person who says no to a
 * group says it once.
 */
export function isSameNo(
  { error, declaredId, step }: ToolInvocationRecord,
  before: ToolInvocationRecord | undefined,
): boolean {
  return (
    error?.code === 'approval_denied' &&
    before?.error?.code === error.code &&
    before.declaredId === declaredId &&
    before.step === step
  );
}
