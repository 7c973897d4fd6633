import { randomUUID } from 'node:crypto';
import { InvalidRequestError } from '@toolloop/core';
import type { RunRecord, RunStore } from './run-store.js';

/** Adds a run with what another one did until the end of a step. Its calls are its own: it has a request id of its own. */
export async function fork(store: RunStore, { runId, tenant, actorId, loop, request }: RunRecord, step: number): Promise<string> {
  const entries = await store.entries(runId);
  const last = entries.findLastIndex(({ key }) => key === (step === 0 ? 'begin' : `step:${step}`));
  if (last === -1)
    throw new InvalidRequestError('invalid_request', `The run ${runId} has no step ${step} that ended and was followed by another.`);
  const id = randomUUID();
  const run = { runId: id, tenant, actorId, ...(loop !== undefined && { loop }), request: { ...request, requestId: id } };
  const kept = entries
    .slice(0, last + 1)
    .map(({ key, value }) => ({ key, value: Object.assign({}, value, 'requestId' in value && { requestId: id }) }));
  await store.add({ ...run, forkOf: { runId, step }, entries: kept }, 'queued');
  return id;
}
