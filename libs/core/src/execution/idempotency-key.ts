import type { JournalHold, JournalKey } from '../contracts/stores.js';
import { Secret } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import { CallFailure, unexplained } from './call-failure.js';
import type { CallProgress, ExecutionScope } from './call.js';

const MOST_CHARACTERS = 512;
const SHOWN_SECRET = String(new Secret(undefined));

/**
 * The same for every attempt of a call: that of its directive, or what its tool declares, else its place in the request, which is the same in every run of one
 * request.
 */
export function idempotencyKeyOf({ request, scope, idempotencyKey }: CallProgress): string {
  const { performing, actorId, requestId, place = [] } = scope;
  return (
    performing?.idempotencyKey ?? idempotencyKey ?? JSON.stringify([actorId ?? null, requestId, ...place, request.step, request.index])
  );
}

/** Whether making a call again does no harm: it only reads, or whoever performs it knows it again. */
export function isRepeatable({ spec, idempotencyKey, idempotent = false }: Tool): boolean {
  return spec.effect === 'read_only' || idempotencyKey !== undefined || idempotent;
}

/** Whose a call is in the journal. */
export function journalKeyOf(progress: CallProgress): JournalKey {
  return { tenant: progress.scope.run.tenant, idempotencyKey: idempotencyKeyOf(progress) };
}

/** The same, as this attempt to make the call has it. */
export function journalHoldOf(progress: CallProgress): JournalHold {
  return { ...journalKeyOf(progress), claimId: progress.claimId ?? '' };
}

/**
 * The key of the tool's own for this input; undefined where it declares none. Whom it is handed to may serve many tools and tenants, so both are in it; and so is
 * the actor, unless the tool says otherwise: what a key answers with is somebody's result.
 * Throws `execution_failed` when there is no telling two calls apart.
 */
export function declaredKeyOf(tool: Tool, input: unknown, { scope }: CallProgress): string | undefined {
  const { spec, idempotencyKey } = tool;
  if (!idempotencyKey) return undefined;
  try {
    const key: unknown = idempotencyKey(input, scope.run);
    if (key instanceof Promise) key.catch(() => undefined); // a rejection that nobody handles would end the process
    if (typeof key !== 'string' || key === '' || key.length > MOST_CHARACTERS)
      throw new TypeError(`The idempotencyKey of ${spec.declaredId} did not return a string of 1 to ${MOST_CHARACTERS} characters.`);
    if (key.includes(SHOWN_SECRET))
      throw new TypeError(`The idempotencyKey of ${spec.declaredId} contains a Secret, and all Secrets print alike.`);
    return JSON.stringify([...whoseKey(tool, scope), spec.declaredId, tool.entity?.instanceId ?? null, key]);
  } catch (error) {
    throw new CallFailure(unexplained(), { cause: error });
  }
}

function whoseKey({ idempotencyScope = 'actor' }: Tool, { run, actorId }: ExecutionScope): (string | null)[] {
  return idempotencyScope === 'actor' ? [run.tenant, actorId ?? null] : [run.tenant];
}
