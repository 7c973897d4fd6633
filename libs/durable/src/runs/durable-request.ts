import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { InvalidRequestError, type JsonObject, type LoopRequest } from '@toolloop/core';
import {
  type DurableRun,
  type RunEntry,
  SAID_BY_THE_RUN,
  toJsonObject,
} from '@toolloop/core/internal';
import type { NewRun, RunLog, RunRecord } from '@toolloop/core/stores';
import { keyHash } from '../stores/storable.js';

/**
 * The parts of a request that its JSON leaves out: actor and tenant are stored beside it, and a
 * signal is this process's.
 */
const KEPT_ELSEWHERE = new Set(['actor', 'tenant', 'signal', 'durable']);

const MOST_DEPTH = 64;
/** `object` is `null`: the rest is looked into. */
const PLAIN = new Set(['object', 'string', 'boolean', 'number', 'undefined']);

/**
 * The request as JSON.
 *
 * @throws {InvalidRequestError} With the name of each part that no other process could know again.
 */
export function toDurableRequest<Output, Actor>(request: LoopRequest<Output, Actor>): JsonObject {
  const said = Object.entries(request).filter(
    ([name, value]) => value !== undefined && !KEPT_ELSEWHERE.has(name),
  );
  const unkept = said.filter(([, value]) => !isPlain(value)).map(([name]) => name);
  if (unkept.length > 0)
    throw new InvalidRequestError(
      'invalid_request',
      `A durable run is continued by other processes, which cannot know what ${quoted(unkept)} of its request is. ${remedyFor(unkept)}`,
    );
  return toJsonObject(Object.fromEntries(said));
}

const OWN = new Set<string>(SAID_BY_THE_RUN);

function remedyFor(names: readonly string[]): string {
  const [own, others] = [
    names.filter((name) => OWN.has(name)),
    names.filter((name) => !OWN.has(name)),
  ];
  const remedies = [
    ...(own.length > 0
      ? [`Give ${quoted(own)} as JSON: plain objects, lists, texts, finite numbers.`]
      : []),
    ...(others.length > 0
      ? [
          `Say ${quoted(others)} in a named loop, ToolLoopModule.forFeature({ loops: { name: { … } } }), and open or start the run by that loop.`,
        ]
      : []),
  ];
  return remedies.join(' ');
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

/** Tells if JSON gives the value back as it is. */
function isPlain(value: unknown, depth = 0): boolean {
  if (typeof value === 'object' && value !== null)
    return (
      depth < MOST_DEPTH &&
      isPlainObject(value) &&
      itemsOf(value).every((item) => isPlain(item, depth + 1))
    );
  return PLAIN.has(typeof value) && (typeof value !== 'number' || Number.isFinite(value));
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}

function itemsOf(value: object): readonly unknown[] {
  return Object.values(value);
}

/**
 * The parts of a question that a repeated request must share. What the application adds, such as a
 * policy, may have changed by then.
 */
const ASKED = ['prompt', 'messages', 'conversationId', 'cut'] as const;

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

/** The request that was kept, for whom it acts. */
export function fromDurableRequest(
  { trace: _trace, ...request }: JsonObject,
  who: Pick<LoopRequest, 'actor' | 'tenant'>,
): LoopRequest {
  return { ...(request as Partial<LoopRequest>), ...who };
}

/**
 * Adds the trace context in which a run is asked for, so that the process that runs it can say
 * which request that was.
 */
export function withTrace(run: NewRun, trace: string | undefined): NewRun {
  return trace === undefined ? run : { ...run, request: { ...run.request, trace } };
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
