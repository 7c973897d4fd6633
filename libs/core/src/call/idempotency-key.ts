import type { JournalKey } from '../contracts/call-journal.js';
import { Secret } from '../contracts/secret.js';
import type { Tool } from '../contracts/tool.js';
import { CallFailure, unexplained } from './call-failure.js';
import type { Call, ExecutionScope, ReadCall } from './call.js';

/**
 * The same for every attempt of a call: that of its directive, or what its tool declares, else its
 * place in the request, which is the same in every run of one request.
 */
export function idempotencyKeyOf({ request, scope, idempotencyKey }: Call): string {
  const { performing, actorId, requestId, callPath = [] } = scope;
  return (
    performing?.idempotencyKey ??
    idempotencyKey ??
    JSON.stringify([actorId ?? null, requestId, ...callPath, request.step, request.index])
  );
}

const MOST_CHARACTERS = 512;
const SHOWN_SECRET = String(new Secret(undefined));

/**
 * Returns whether making a call again does no harm: it only reads, or its receiver recognises its
 * key.
 */
export function isRepeatable({ spec, idempotencyKey, idempotent = false }: Tool): boolean {
  return spec.effect === 'read_only' || idempotencyKey !== undefined || idempotent;
}

/** The call's key in the journal. */
export function journalKeyOf(call: Call): JournalKey {
  return { tenant: call.scope.run.tenant, idempotencyKey: idempotencyKeyOf(call) };
}

/**
 * The key that the tool declares for this input; undefined where it declares none. A service that
 * is handed the key may serve many tools and tenants, so both are in it; and so is the actor,
 * unless the tool says otherwise: a key answers with the result of the one who asked.
 *
 * @throws {CallFailure} `execution_failed` where two calls cannot be told apart.
 */
export function declaredKeyOf({ tool, input, scope }: ReadCall): string | undefined {
  const { spec, idempotencyKey } = tool;
  if (!idempotencyKey) return undefined;
  try {
    const key: unknown = idempotencyKey(input.built, scope.run);
    // an unhandled rejection would end the process
    if (key instanceof Promise) key.catch(() => undefined);
    if (typeof key !== 'string' || key === '' || key.length > MOST_CHARACTERS)
      throw new TypeError(
        `The idempotencyKey of ${spec.declaredId} did not return a string of 1 to ${MOST_CHARACTERS} characters.`,
      );
    if (key.includes(SHOWN_SECRET))
      throw new TypeError(
        `The idempotencyKey of ${spec.declaredId} contains a Secret, and all Secrets print alike.`,
      );
    return JSON.stringify([
      ...whoseKey(tool, scope),
      spec.declaredId,
      tool.entity?.instanceId ?? null,
      key,
    ]);
  } catch (error) {
    throw new CallFailure(unexplained(), { cause: error });
  }
}

function whoseKey(
  { idempotencyScope = 'actor' }: Tool,
  { run, actorId }: ExecutionScope,
): (string | null)[] {
  return idempotencyScope === 'actor' ? [run.tenant, actorId ?? null] : [run.tenant];
}
