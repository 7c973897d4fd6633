import { InvalidRequestError } from '@toolloop/core';
import { addOnce, runIdFor } from './added-once.js';
import type { RunRecord, RunStore } from './run-store.js';

/** Adds a run with what another one did until the end of a step. Its calls are its own: whatever it was asked by, their keys are of its id. */
export async function fork(store: RunStore, of: RunRecord, step: number, requestId?: string): Promise<string> {
  const { runId, tenant, actorId, loop, request } = of;
  const entries = await store.entries(runId);
  const last = entries.findLastIndex(({ key }) => key === (step === 0 ? 'begin' : `step:${step}`));
  if (last === -1)
    throw new InvalidRequestError('invalid_request', `The run ${runId} has no step ${step} that is complete and was followed by another.`);
  const id = runIdFor(requestId, tenant, actorId, runId, String(step));
  const run = { runId: id, tenant, actorId, ...(loop !== undefined && { loop }), request: { ...request, requestId: id } };
  const kept = entries
    .slice(0, last + 1)
    .map(({ key, value }) => ({ key, value: Object.assign({}, value, 'requestId' in value && { requestId: id }) }));
  return addOnce(store, { ...run, forkOf: { runId, step }, entries: kept });
}
