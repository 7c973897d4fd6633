import { addressable, type JsonValue } from '@toolloop/protocol';
import type { CallPart, RunView } from '@toolloop/react';
import { isJsonObject } from '../office/json-lines.js';
import { textOf } from '../parts/names.js';

/** A place at which a value stands: in the result of a call, or in its arguments. */
export interface ValuePlace {
  readonly call: CallPart;
  /** The JSON pointer. */
  readonly at: string;
}

/**
 * The way of a value through a run: the results in which it was read, and the calls that it
 * reached.
 */
export interface ValuePath {
  readonly read: readonly ValuePlace[];
  readonly reached: readonly ValuePlace[];
  /** The answers of the model that say it. */
  readonly said: readonly { readonly step: number; readonly text: string }[];
}

/** A shorter text stands in too many others by chance. */
const SHORTEST_PART = 4;
const MOST_PLACES = 100;

/**
 * Finds the way of a value, by what people may see of the calls: their results and arguments, in
 * the order in which they came.
 */
export function pathOf(value: string, run: RunView): ValuePath {
  const calls = callsIn(run);
  const wanted = searched(value.trim());
  const holds = (text: string): boolean => {
    const own = searched(text);
    return own === wanted || (wanted.length >= SHORTEST_PART && own.includes(wanted));
  };
  const placesIn = (part: (call: CallPart) => JsonValue | undefined): readonly ValuePlace[] =>
    calls
      .flatMap((call) =>
        leavesOf(part(call), '')
          .filter(({ text }) => holds(text))
          .map(({ at }) => ({ call, at })),
      )
      .slice(0, MOST_PLACES);
  const texts = run.parts.flatMap((part) =>
    part.kind === 'text' && wanted.length >= SHORTEST_PART ? [part] : [],
  );
  return {
    read: placesIn(({ record }) => record?.result),
    reached: placesIn(({ args, record }) => ({
      ...args,
      ...(record?.entity && { instance: record.entity.instanceId }),
    })),
    said: texts.filter(({ text }) => searched(text).includes(wanted)),
  };
}

/**
 * A text as it is compared: in small letters, and with what an address cannot hold replaced as in
 * the address of the value.
 */
function searched(text: string): string {
  return addressable(text).toLowerCase();
}

/** The calls of a run, those of a sub-run behind the call that started it. */
export function callsIn(run: RunView): readonly CallPart[] {
  return run.parts.flatMap((part) => {
    if (part.kind !== 'call') return [];
    const inner = part.subRunId === undefined ? undefined : run.subRuns[part.subRunId];
    return inner ? [part, ...callsIn(inner)] : [part];
  });
}

/** A value without parts, and where it stands. */
interface Leaf {
  readonly at: string;
  readonly text: string;
}

function leavesOf(value: JsonValue | undefined, at: string): readonly Leaf[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value))
    return value.flatMap((one: JsonValue, index) => leavesOf(one, `${at}/${index}`));
  if (isJsonObject(value))
    return Object.entries(value).flatMap(([name, one]) =>
      leavesOf(one, `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
    );
  return [{ at, text: textOf(value) }];
}
