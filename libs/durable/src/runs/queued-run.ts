import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { InvalidRequestError } from '@toolloop/core';
import type { DurableRun, RunEntry } from '@toolloop/core/internal';
import type { NewRun, RunLog, RunRecord } from '@toolloop/core/stores';
import { keyHash } from '../stores/storable.js';

/**
 * The id of a new run. The same request id of the same actor gives the same one at the same place,
 * so that a repeated request starts no second run.
 */
export function runIdFor(
  requestId: string | undefined,
  ...place: readonly (string | null)[]
): string {
  return requestId === undefined
    ? randomUUID()
    : `run_${keyHash(...place, requestId).slice(0, 40)}`;
}

/**
 * The parts of a question that a repeated request must share. What the application adds, such as a
 * policy, may have changed by then.
 */
const ASKED = ['prompt', 'messages', 'conversationId', 'cut'] as const;

/**
 * Adds a run for any process with room, unless it is there already; resolves to its id.
 *
 * @throws {InvalidRequestError} Where that one was asked something else.
 */
export async function addOnce(log: RunLog, run: NewRun): Promise<string> {
  try {
    await log.add(run, 'queued');
  } catch (error) {
    const kept = await log.find(run.runId);
    if (!kept) throw error;
    if (!isRepeated(kept, run))
      throw new InvalidRequestError(
        'invalid_request',
        'This request id was used for another question. Use a new id, or repeat the same question.',
      );
  }
  return run.runId;
}

function isRepeated({ request: kept }: RunRecord, { request }: NewRun): boolean {
  return ASKED.every((name) => isDeepStrictEqual(kept?.[name], request?.[name]));
}

/**
 * The time that a run has waited for a process, and who asked for it. Clocks of machines differ, so
 * it is never less than nothing.
 */
export function queuedFor({
  createdAt,
  request,
}: Pick<RunRecord, 'createdAt' | 'request'>): NonNullable<DurableRun['queued']> {
  const trace = request?.['trace'];
  return {
    forMs: Math.max(0, Date.now() - Date.parse(createdAt)),
    ...(typeof trace === 'string' && { trace }),
  };
}

/**
 * Adds a run with what another one did until the end of a step. Its calls are its own: their
 * idempotency keys are of its id.
 */
export async function fork(
  log: RunLog,
  of: RunRecord,
  step: number,
  requestId?: string,
): Promise<string> {
  const { runId, tenant, actorId, loop, request } = of;
  const entries = await log.read(runId);
  const last = entries.findLastIndex(({ key }) => key === (step === 0 ? 'begin' : `step:${step}`));
  if (last === -1)
    throw new InvalidRequestError(
      'invalid_request',
      `The run ${runId} has no step ${step} that is complete and was followed by another.`,
    );
  const id = runIdFor(requestId, tenant, actorId, runId, String(step));
  const run = {
    runId: id,
    tenant,
    actorId,
    ...(loop !== undefined && { loop }),
    request: { ...request, requestId: id },
  };
  const kept = entries.slice(0, last + 1).map((entry) => askedBy(entry, id));
  return addOnce(log, { ...run, forkOf: { runId, step }, entries: kept });
}

/**
 * Adds a rehearsal of a run, which begins with what that one began with. With no one to ask, its
 * changes are shown and never performed.
 */
export async function rehearse(log: RunLog, of: RunRecord, model: string): Promise<string> {
  const { runId, tenant, actorId, loop, request } = of;
  const begin = (await log.read(runId)).find(({ key }) => key === 'begin');
  if (!request || !begin || !('value' in begin))
    throw new InvalidRequestError(
      'invalid_request',
      `The run ${runId} is not durable, or has not begun, so no model can be asked again.`,
    );
  const id = randomUUID();
  const asked = { ...request, requestId: id, rehearse: true, approvals: 'deny', model };
  const entry = { ...begin, value: { ...begin.value, requestId: id, rehearsal: [] } };
  const run = { runId: id, tenant, actorId, ...(loop !== undefined && { loop }), request: asked };
  return addOnce(log, { ...run, forkOf: { runId, step: 0 }, entries: [entry] });
}

/** The entry with another request id in it, where it tells one. */
function askedBy(entry: RunEntry, requestId: string): RunEntry {
  return 'value' in entry && 'requestId' in entry.value
    ? { ...entry, value: { ...entry.value, requestId } }
    : entry;
}
