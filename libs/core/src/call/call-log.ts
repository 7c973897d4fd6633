import type { ToolInvocationRecord } from '@toolloop/protocol';
import type { Call } from './call.js';
import { logCall } from './perform.js';

export function logEnd(
  call: Call,
  { status, durationMs, error, attempt }: ToolInvocationRecord,
): void {
  const { rehearsal } = call;
  const facts = {
    durationMs,
    status,
    ...(rehearsal && { rehearsal }),
    ...(attempt > 1 && { attempt }),
    ...(error && { code: error.code }),
  };
  logCall(status === 'succeeded' ? 'debug' : 'warn', 'Tool call ended', call, facts);
}
