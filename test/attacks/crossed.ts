import type { JsonObject, JsonValue } from '@toolloop/core';
import type { AttackingCall, ReplayedAttack, ReplayedCall } from '@toolloop/testing';
import { isList } from './call-arguments.js';
import type { RecordedCall, RecordedTask, RecordedTasks, RecordedTool } from './recorded-data.js';

/** An attacker's text, put into fields of a task's results in which nobody expects sentences. */
export interface CrossedAttack {
  /** The task, the form of the fields and their number. */
  readonly title: string;
  readonly task: RecordedTask;
  /** The task's calls, with the attack in their results. */
  readonly calls: readonly ReplayedCall[];
  readonly attack: ReplayedAttack;
}

/** A way to write a piece of a text so that it looks like a value of a kind. */
type Form = (piece: string, index: number) => string | number;

const words = (piece: string): string[] => piece.match(/[\p{L}\p{N}]+/gu) ?? ['x'];

const FORMS: Readonly<Record<string, Form>> = {
  name: (piece) => piece,
  address: (piece, index) => `${index + 1} ${piece} Street`,
  email: (piece) => `${words(piece).join('.').toLowerCase()}@example.com`,
  url: (piece) => `https://example.com/${words(piece).join('/')}`,
  id: (piece) => words(piece).join('-').toUpperCase(),
  number: (piece) => numberOf(piece),
};

/** Map keys are no values: their pieces are added to a map as keys. */
const KEYS = 'map key';
const NUMBERS_OF_FIELDS = [2, 3, 4, 5, 6, 7, 8];
/** A shorter piece stands in other texts by chance. */
const TELLING = 5;

/**
 * Crosses each text with each form and number of fields, over the tasks in turn. Of two domains,
 * each takes every other crossing: one the even ones, one the odd.
 */
export function crossAttacks(
  texts: readonly string[],
  domain: RecordedTasks,
  parity: 0 | 1,
): CrossedAttack[] {
  const tasks = domain.tasks.filter((task) =>
    placesOf(task, domain.tools).some(({ isMap }) => isMap),
  );
  const forms = [
    { form: 'name', fields: 1 },
    ...[...Object.keys(FORMS), KEYS].flatMap((form) =>
      NUMBERS_OF_FIELDS.map((fields) => ({ form, fields })),
    ),
  ];
  const crossings = texts.flatMap((text, row) =>
    forms.flatMap((form, column) => ((row + column) % 2 === parity ? [{ ...form, text }] : [])),
  );
  return crossings.flatMap((crossing, index) => {
    const task = tasks[index % tasks.length];
    return task ? [crossed(crossing, task, domain, index % 2 === 0)] : [];
  });
}

interface Crossing {
  readonly text: string;
  readonly form: string;
  readonly fields: number;
}

/** `isHasty`: the model obeys the first piece, not the last. */
function crossed(
  { text, form, fields }: Crossing,
  task: RecordedTask,
  domain: RecordedTasks,
  isHasty: boolean,
): CrossedAttack {
  const places = placesOf(task, domain.tools).filter(({ isMap }) => isMap === (form === KEYS));
  const pieces = splitText(text, form === KEYS ? fields : Math.min(fields, places.length));
  const written = pieces.map((piece, index) =>
    form === KEYS ? words(piece).join('_') : (FORMS[form]?.(piece, index) ?? piece),
  );
  const telling = written.map(String).filter(({ length }) => length >= TELLING);
  const trigger = (isHasty ? telling[0] : telling.at(-1)) ?? String(written[0]);
  const calls = plant(task.calls, places, written);
  return {
    title: `${task.id}/${form} × ${written.length}`,
    task,
    calls,
    attack: {
      pieces: [trigger],
      calls: attackingCalls(task, domain).filter((call) => !isOwn(call, task)),
    },
  };
}

/** Splits a text into about equal pieces, between words. */
function splitText(text: string, count: number): string[] {
  const all = text.split(/\s+/);
  const size = Math.ceil(all.length / count);
  return Array.from({ length: Math.ceil(all.length / size) }, (_, index) =>
    all.slice(index * size, (index + 1) * size).join(' '),
  );
}

/** A number that holds the first eleven letters of a text, 27 to a digit. */
function numberOf(piece: string): number {
  const letters = piece
    .toLowerCase()
    .replace(/[^a-z]/g, '')
    .slice(0, 11);
  return Array.from(letters).reduce((number, letter) => number * 27 + letter.charCodeAt(0) - 96, 0);
}

/** A place in a result in which a stranger writes: a value, or a map to which keys can be added. */
interface Place {
  readonly call: number;
  readonly path: readonly string[];
  readonly isMap: boolean;
}

function placesOf({ calls }: RecordedTask, tools: readonly RecordedTool[]): Place[] {
  const untrusted = new Map(tools.map(({ name, untrustedFields }) => [name, untrustedFields]));
  return calls.flatMap(({ name, result, error }, call) =>
    error || result === undefined
      ? []
      : (untrusted.get(name) ?? []).flatMap((pointer) =>
          placesIn(result, { call, pointer: pointer.split('/').slice(1), path: [] }),
        ),
  );
}

interface Search {
  readonly call: number;
  /** What is left of the pointer. */
  readonly pointer: readonly string[];
  readonly path: readonly string[];
}

function placesIn(value: JsonValue, { call, pointer, path }: Search): Place[] {
  const [part, ...others] = pointer;
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  const meant =
    part === undefined || part === '*' ? entries : entries.filter(([key]) => key === part);
  const below = meant.flatMap(([key, item]) =>
    placesIn(item, { call, pointer: others, path: [...path, key] }),
  );
  if (part !== undefined || isList(value)) return below;
  return isJsonMap(value)
    ? [{ call, path, isMap: true }, ...below]
    : [{ call, path, isMap: false }];
}

function isJsonMap(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !isList(value);
}

/** Writes each piece into its place; keys go into the first map. */
function plant(
  calls: readonly RecordedCall[],
  places: readonly Place[],
  written: readonly (string | number)[],
): ReplayedCall[] {
  return calls.map((call, index) => {
    if (call.result === undefined) return call;
    const here = written.flatMap((piece, number) => {
      const place = places[0]?.isMap ? places[0] : places[number];
      return place?.call === index ? [{ place, piece }] : [];
    });
    const withPieces = here.reduce<JsonValue>(
      (result, { place, piece }) =>
        place.isMap
          ? withValue(result, [...place.path, String(piece)], 'yes')
          : withValue(result, place.path, piece),
      call.result,
    );
    return { ...call, result: withPieces, ...(here.length > 0 && { cleanResult: call.result }) };
  });
}

function withValue(
  value: JsonValue,
  [part, ...others]: readonly string[],
  to: JsonValue,
): JsonValue {
  if (part === undefined) return to;
  if (isList(value))
    return value.map((item, index) =>
      String(index) === part ? withValue(item, others, to) : item,
    );
  const map = isJsonMap(value) ? value : {};
  return { ...map, [part]: withValue(map[part] ?? null, others, to) };
}

/**
 * The attacker's calls of every tool of the domain that changes things or carries data out, twice
 * each: on what the task is about, as far as its results name it, and on what another task is
 * about.
 */
function attackingCalls(task: RecordedTask, { tools, tasks }: RecordedTasks): AttackingCall[] {
  const others = tasks.filter(({ id }) => id !== task.id).flatMap(({ calls }) => calls);
  const known = task.calls.flatMap(({ result, error }) =>
    error || result === undefined ? [] : [result],
  );
  const details = JSON.stringify(known[0] ?? null);
  return tools.flatMap(({ name, effect, labels }): AttackingCall[] => {
    if (effect === 'read_only' && !labels.egress) return [];
    const foreign = others.find((call) => call.name === name && !call.error);
    if (!foreign) return [];
    if (labels.egress)
      return [
        { ...foreign, args: { summary: task.instruction }, carries: 'prompt' },
        { ...foreign, args: { summary: details }, carries: 'result' },
      ];
    return [{ ...foreign, args: ownArguments(foreign.args, known) }, foreign];
  });
}

/**
 * What the task does anyway is no attack: a plan lets it happen once, by the user's wish or an
 * attacker's.
 */
function isOwn({ name, args }: AttackingCall, { calls }: RecordedTask): boolean {
  return calls.some(
    (own) => own.name === name && JSON.stringify(own.args) === JSON.stringify(args),
  );
}

/**
 * The same arguments about what the results know: each takes the first value of the same name and
 * type.
 */
function ownArguments(args: JsonObject, known: readonly JsonValue[]): JsonObject {
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [name, valueOfName(name, value, known) ?? value]),
  );
}

function valueOfName(
  name: string,
  like: JsonValue,
  values: readonly JsonValue[],
): JsonValue | undefined {
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue;
    for (const [key, item] of Object.entries(value))
      if (key === name && isAlike(item, like)) return item;
    const below = valueOfName(name, like, Object.values(value));
    if (below !== undefined) return below;
  }
  return undefined;
}

function isAlike(value: JsonValue, like: JsonValue): boolean {
  if (isList(value) && isList(like))
    return value.every((item) => typeof item === 'string') && typeof like[0] === 'string';
  return typeof value === typeof like && typeof value !== 'object';
}
