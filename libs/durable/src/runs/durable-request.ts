import { InvalidRequestError, SAID_BY_THE_RUN, type JsonObject, type LoopRequest } from '@toolloop/core';
import { toPlainJson } from './from-plain-json.js';

/** What a store keeps of a request beside what it says: whom it acts for is kept by id, and a signal is this process's. */
const KEPT_ELSEWHERE = new Set(['actor', 'tenant', 'signal', 'durable']);

const MOST_DEPTH = 64;
/** `object` is `null`: the rest is looked into. */
const PLAIN = new Set(['object', 'string', 'boolean', 'number', 'undefined']);

/** The request as JSON. Throws `InvalidRequestError`, with everything in it that no other process could know again. */
export function toDurableRequest<Output, Actor>(request: LoopRequest<Output, Actor>): JsonObject {
  const said = Object.entries(request).filter(([name, value]) => value !== undefined && !KEPT_ELSEWHERE.has(name));
  const unkept = said.filter(([, value]) => !isPlain(value)).map(([name]) => name);
  if (unkept.length > 0)
    throw new InvalidRequestError(
      'invalid_request',
      `A durable run is gone on with by other processes, which cannot know what ${quoted(unkept)} of its request is. ${remedyFor(unkept)}`,
    );
  return toPlainJson(Object.fromEntries(said));
}

const OWN = new Set<string>(SAID_BY_THE_RUN);

function remedyFor(names: readonly string[]): string {
  const [own, others] = [names.filter((name) => OWN.has(name)), names.filter((name) => !OWN.has(name))];
  const remedies = [
    ...(own.length > 0 ? [`Give ${quoted(own)} as JSON: plain objects, lists, texts, finite numbers.`] : []),
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

/** Whether JSON gives the value back as it is. */
function isPlain(value: unknown, depth = 0): boolean {
  if (typeof value === 'object' && value !== null)
    return depth < MOST_DEPTH && isPlainObject(value) && itemsOf(value).every((item) => isPlain(item, depth + 1));
  return PLAIN.has(typeof value) && (typeof value !== 'number' || Number.isFinite(value));
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}

function itemsOf(value: object): readonly unknown[] {
  return Object.values(value);
}
