import type { JsonApiError, ToolErrorCode, ToolFailure } from '@toolloop/protocol';

/**
 * A failure as the model reads it, in JSON:API form. A tool that policy denies reads like one that
 * does not exist.
 */
export function toJsonApi(
  failure: ToolFailure,
  shownAs: ToolErrorCode = failure.code,
): { readonly errors: readonly JsonApiError[] } {
  const status = FORBIDDEN.has(shownAs) ? '403' : INVALID.has(shownAs) ? '400' : '500';
  const base = { status, code: shownAs, title: TITLES[shownAs] };
  if (!failure.problems?.length) return { errors: [{ ...base, detail: withCorrelation(failure) }] };
  return {
    errors: failure.problems.map(({ pointer, message }) => ({
      ...base,
      detail: message,
      source: { pointer },
    })),
  };
}

const TITLES: Record<ToolErrorCode, string> = {
  unknown_tool: 'Unknown tool',
  tool_gone: 'Tool no longer available',
  invalid_json: 'Arguments are not JSON',
  invalid_args: 'Invalid arguments',
  tenant_override: 'Reserved argument',
  forbidden: 'Forbidden',
  policy_denied: 'Unknown tool',
  approval_denied: 'Approval denied',
  unknown_outcome: 'Outcome unknown',
  invalid_output: 'Invalid result',
  timeout: 'Timed out',
  aborted: 'Aborted',
  budget_exceeded: 'Limit reached',
  storage_unavailable: 'Storage unavailable',
  execution_failed: 'Tool failed',
};

const FORBIDDEN = new Set<ToolErrorCode>(['forbidden', 'approval_denied']);
const INVALID = new Set<ToolErrorCode>([
  'unknown_tool',
  'policy_denied',
  'tool_gone',
  'invalid_json',
  'invalid_args',
  'tenant_override',
]);

function withCorrelation({ safeMessage, correlationId }: ToolFailure): string {
  return correlationId === undefined ? safeMessage : `${safeMessage} (Reference ${correlationId})`;
}
