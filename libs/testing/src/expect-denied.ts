import type { ToolErrorCode, ToolInvocationRecord } from '@toolloop/core';
import { ExpectationError } from './expectation.error.js';
import { recordsOf } from './run-evidence.js';
import type { RunEvidence } from './run-evidence.js';

/**
 * Makes sure that a call was refused: at least one of the tool's, and with this code if one is given. `tool` is a declared id or a rendered one.
 * Throws an `ExpectationError` that says what became of the calls.
 */
export function expectDenied(evidence: RunEvidence, tool: string, code?: ToolErrorCode): void {
  const all = recordsOf(evidence);
  const ofTool = all.filter((record) => record.declaredId === tool || record.id === tool);
  if (ofTool.some(({ status, error }) => status === 'denied' && (code === undefined || error?.code === code))) return;

  const wanted = code === undefined ? 'denied' : `denied with ${code}`;
  if (ofTool.length > 0) throw new ExpectationError(`No call of ${tool} was ${wanted}. Its calls: ${listOf(ofTool)}`);
  const others = all.length === 0 ? 'The run called no tool.' : `Called: ${listOf(all)}`;
  throw new ExpectationError(`${tool} was not called, so no call of it was ${wanted}. ${others}`);
}

function listOf(records: readonly ToolInvocationRecord[]): string {
  return records
    .map(({ id, toolCallId, status, error }) => `${id} ${toolCallId} ${[status, error?.code ?? []].flat().join(' with ')}`)
    .join('; ');
}
