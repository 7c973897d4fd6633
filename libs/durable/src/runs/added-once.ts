import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { InvalidRequestError } from '@toolloop/core';
import { keyHash } from '../stores/storable.js';
import type { NewRun, RunRecord, RunStore } from './run-store.js';

/** Of a question: what the application adds to it, such as a policy, may have changed by the time it is repeated. */
const ASKED = ['prompt', 'messages', 'conversationId'] as const;

/** The id of a new run. The same request id of the same actor gives the same one at the same place: whoever asks again asks for no second run. */
export function runIdFor(requestId: string | undefined, ...place: readonly (string | null)[]): string {
  return requestId === undefined ? randomUUID() : `run_${keyHash(...place, requestId).slice(0, 40)}`;
}

/** Adds a run for whoever has room, unless it is there already; resolves to its id. Rejects with `InvalidRequestError` where that one was asked something else. */
export async function addOnce(store: RunStore, run: NewRun): Promise<string> {
  try {
    await store.add(run, 'queued');
  } catch (error) {
    const kept = await store.find(run.runId);
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
  return ASKED.every((name) => isDeepStrictEqual(kept[name], request[name]));
}
