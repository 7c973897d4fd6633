import { isJsonList, isJsonObject, type JsonValue } from '@toolloop/protocol';

/** A place at which two values differ; what one of them does not have there is undefined. */
export interface JsonDifference {
  /**
   * Such as `messages[2].content`, or `tools[crm__find].description` in a list whose entries have
   * ids.
   */
  readonly path: string;
  readonly expected: JsonValue | undefined;
  readonly actual: JsonValue | undefined;
}

/**
 * Returns the places at which two values differ, in the order of the expected one. Entries of lists
 * are compared by their `id` where each has one, else by their index.
 */
export function differencesOf(
  expected: JsonValue | undefined,
  actual: JsonValue | undefined,
  path = '',
): readonly JsonDifference[] {
  if (isJsonList(expected) && isJsonList(actual))
    return ofEntries(entriesOf(expected), entriesOf(actual), (key) => `${path}[${key}]`);
  if (isJsonObject(expected) && isJsonObject(actual))
    return ofEntries(Object.entries(expected), Object.entries(actual), (key) =>
      path === '' ? key : `${path}.${key}`,
    );
  return Object.is(expected, actual) ? [] : [{ path, expected, actual }];
}

type Entries = readonly (readonly [key: string, value: JsonValue])[];

function ofEntries(
  expected: Entries,
  actual: Entries,
  pathTo: (key: string) => string,
): readonly JsonDifference[] {
  const given = new Map(actual);
  const known = new Map(expected);
  return [
    ...expected.flatMap(([key, value]) => differencesOf(value, given.get(key), pathTo(key))),
    ...actual.flatMap(([key, value]) =>
      known.has(key) ? [] : [{ path: pathTo(key), expected: undefined, actual: value }],
    ),
  ];
}

function entriesOf(list: readonly JsonValue[]): Entries {
  const ids = list.map((one) =>
    isJsonObject(one) && typeof one['id'] === 'string' ? one['id'] : undefined,
  );
  const areIds = new Set(ids).size === list.length && !ids.includes(undefined);
  return list.map((one, index) => [(areIds ? ids[index] : undefined) ?? String(index), one]);
}

/**
 * Returns the candidate that differs from a value in the fewest places; undefined where there is
 * none.
 */
export function closestTo<Candidate>(
  actual: JsonValue,
  candidates: readonly Candidate[],
  valueOf: (candidate: Candidate) => JsonValue,
):
  | {
      readonly index: number;
      readonly candidate: Candidate;
      readonly differences: readonly JsonDifference[];
    }
  | undefined {
  return candidates
    .map((candidate, index) => ({
      index,
      candidate,
      differences: differencesOf(valueOf(candidate), actual),
    }))
    .reduce<
      { index: number; candidate: Candidate; differences: readonly JsonDifference[] } | undefined
    >(
      (best, one) => (best && best.differences.length <= one.differences.length ? best : one),
      undefined,
    );
}

const MOST_SHOWN = 12;
const AROUND = 40;

/**
 * Writes differences for a reader, two lines for each place; of long texts the part in which they
 * differ.
 */
export function differenceText(
  differences: readonly JsonDifference[],
  names: readonly [expected: string, actual: string],
): string {
  const width = Math.max(...names.map((name) => name.length));
  const [was, is] = names.map((name) => name.padEnd(width));
  const lines = differences.slice(0, MOST_SHOWN).map(({ path, expected, actual }) => {
    const [one, other] = excerptsOf(expected, actual);
    return `  ${path === '' ? 'the whole' : path}\n    ${was}  ${one}\n    ${is}  ${other}`;
  });
  const left = differences.length - lines.length;
  return [...lines, ...(left > 0 ? [`  … and ${left} more places`] : [])].join('\n');
}

function excerptsOf(
  expected: JsonValue | undefined,
  actual: JsonValue | undefined,
): readonly [string, string] {
  const [one, other] = [textOf(expected), textOf(actual)];
  let same = 0;
  while (same < one.length && one[same] === other[same]) same += 1;
  const from = Math.max(0, same - AROUND);
  return [excerptFrom(one, from), excerptFrom(other, from)];
}

function textOf(value: JsonValue | undefined): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

function excerptFrom(text: string, from: number): string {
  const part = text.slice(from, from + 3 * AROUND);
  return `${from > 0 ? '…' : ''}${part}${from + part.length < text.length ? '…' : ''}`;
}
