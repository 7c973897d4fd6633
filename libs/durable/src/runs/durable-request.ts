import { InvalidRequestError, type JsonObject, type LoopRequest } from '@toolloop/core';
import { SAID_BY_THE_RUN, toJsonObject } from '@toolloop/core/internal';
import type { NewRun } from '@toolloop/core/stores';

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

/**
 * The parts of a request that its JSON leaves out: actor and tenant are stored beside it, and a
 * signal is this process's.
 */
const KEPT_ELSEWHERE = new Set(['actor', 'tenant', 'signal', 'durable']);

const MOST_DEPTH = 64;
/** `object` is `null`: the rest is looked into. */
const PLAIN = new Set(['object', 'string', 'boolean', 'number', 'undefined']);

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
