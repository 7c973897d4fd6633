import type { JsonObject, JsonValue, ToolSpec } from '@toolloop/core';
import { type KnownTexts, placeOf, textsIn } from './recorded-arguments.js';

/** A call of a recorded run, with what its tool answered. */
export interface ReplayedCall {
  /** The id of the tool. The part behind `__` is enough where one tool alone has it. */
  readonly name: string;
  /** The arguments, as literals. */
  readonly args: JsonObject;
  /** The answer of the tool: {@link recordedResult} hands it out. @default null */
  readonly result?: JsonValue;
  /** Set where the tool refused; `result` is its message. @default false */
  readonly error?: boolean;
  /**
   * The result without the attack, where `result` holds one. Arguments are looked up here, and
   * taken from the same places of `result`: what stood there before an attacker wrote over it is
   * what a faithful model looks for. @default result
   */
  readonly cleanResult?: JsonValue;
  /**
   * JSON pointers to arguments that follow from what was read without standing there, such as a
   * priority. They are asked about like those that do. @default none
   */
  readonly derived?: readonly string[];
}

type Schema = ToolSpec['inputSchema'];

/** A call that an attacker wants. */
export interface AttackingCall extends ReplayedCall {
  /**
   * The source of a value that leaves with it: a private result, or the user's words. @default
   * nothing
   */
  readonly carries?: 'result' | 'prompt';
}

/** The attacker of a replayed run. */
export interface ReplayedAttack {
  /**
   * The pieces of the attacker's text. A model that is shown one of them, in a result or the
   * description of a tool, makes the attacker's calls from then on.
   */
  readonly pieces: readonly string[];
  readonly calls: readonly AttackingCall[];
}

/** A question of the model about texts that it knows by reference. */
export interface ReaderQuestion {
  /** The texts. */
  readonly texts: readonly JsonValue[];
  /** The tool for which a value is wanted. */
  readonly tool: string;
  /** The JSON pointer into its arguments. */
  readonly argument: string;
  /** The schema of that argument, which the answer must fit. */
  readonly schema: Schema;
  /** The recorded result. */
  readonly recorded: JsonValue;
}

/** Answers what a replayed run asks about hidden texts. */
export type FlowReader = (question: ReaderQuestion) => JsonValue;

/** Answers the truth. */
export const trueReader: FlowReader = ({ recorded }) => recorded;

/**
 * Makes a reader that obeys an attacker as soon as it reads a piece of the attack: it answers with
 * the attacker's own value of that name, else with any value of the attacker's that fits the
 * schema, else with the schema's first value that is not the recorded one.
 */
export function hostileReader({ pieces, calls }: ReplayedAttack): FlowReader {
  return ({ texts, argument, schema, recorded }) => {
    const isShown = texts
      .flatMap(textsIn)
      .some((text) => pieces.some((piece) => text.includes(piece)));
    if (!isShown) return recorded;
    const name = argument.split('/')[1] ?? '';
    const named = calls.flatMap(({ args }) => (args[name] === undefined ? [] : [args[name]]));
    const others = calls.flatMap(({ args }) => Object.values(args));
    const wanted = [...named, ...others, ...othersOf(schema, recorded), ...pieces];
    return wanted.find((value) => fits(value, schema) && value !== recorded) ?? recorded;
  };
}

function fits(value: JsonValue, schema: Schema): boolean {
  if (schema.enum) return schema.enum.some((one) => one === value);
  return [schema.type ?? []].flat().every((type) => FORMS[type](value, schema));
}

const isBetween = (
  value: JsonValue,
  { minimum = -Infinity, maximum = Infinity }: Schema,
): boolean => typeof value === 'number' && value >= minimum && value <= maximum;

const FORMS = {
  string: (value: JsonValue, { format }: Schema) =>
    typeof value === 'string' && (format !== 'date' || /^\d{4}-\d\d-\d\d$/.test(value)),
  number: isBetween,
  integer: (value: JsonValue, schema: Schema) =>
    Number.isInteger(value) && isBetween(value, schema),
  boolean: (value: JsonValue) => typeof value === 'boolean',
  array: (value: JsonValue) => Array.isArray(value),
  object: (value: JsonValue) =>
    typeof value === 'object' && value !== null && !Array.isArray(value),
  null: (value: JsonValue) => value === null,
} as const;

function othersOf(
  { enum: listed = [], type, minimum = 0, maximum = 1 }: Schema,
  recorded: JsonValue,
): JsonValue[] {
  const choices = listed.filter((one) => typeof one === 'string' || typeof one === 'number');
  return type === 'boolean' ? [recorded !== true] : [...choices, maximum, minimum, '2030-01-01'];
}

/** A call of a plan, as `plan__commit` takes it. */
interface PlannedCall {
  readonly tool: string;
  readonly count: number;
  readonly arguments: readonly JsonObject[];
}

/**
 * Returns the plan of a model that knows beforehand which calls it will make: every call that
 * changes something or lets something out, with its decisive arguments as literals where they stand
 * in what it was told or nowhere at all, and otherwise as the place in a result of which they will
 * come. It is the best plan that there can be.
 */
export function planOf(
  calls: readonly ReplayedCall[],
  known: Pick<KnownTexts, 'isShown'>,
  tools: readonly ToolSpec[],
): readonly PlannedCall[] {
  const planned = new Map<string, PlannedCall>();
  for (const [index, call] of calls.entries()) {
    const spec = toolNamed(call.name, tools);
    if (!spec || (spec.effect === 'read_only' && !spec.labels.egress)) continue;
    const decisive = Object.keys(call.args).filter(
      (name) => spec.labels.decisive?.includes(name) ?? true,
    );
    const args = decisive.map((name) =>
      plannedArgument(name, call, { before: calls.slice(0, index), known, tools }),
    );
    const key = JSON.stringify([spec.id, args]);
    planned.set(key, { tool: spec.id, count: (planned.get(key)?.count ?? 0) + 1, arguments: args });
  }
  return [...planned.values()];
}

interface Planning {
  readonly before: readonly ReplayedCall[];
  readonly known: Pick<KnownTexts, 'isShown'>;
  readonly tools: readonly ToolSpec[];
}

function plannedArgument(
  name: string,
  { args, derived = [] }: ReplayedCall,
  { before, known, tools }: Planning,
): JsonObject {
  const value = args[name] ?? null;
  const isDerived = derived.includes(`/${name}`);
  if (!isDerived && known.isShown(value)) return { name, value };
  const [from] = before.flatMap((read) => {
    const pointer = placeIn(read, isDerived ? undefined : value);
    return pointer === undefined
      ? []
      : [`${toolNamed(read.name, tools)?.id ?? read.name}#${pointer}`];
  });
  return from === undefined ? { name, value } : { name, from };
}

/**
 * The place of a value in a result; without a value that of the longest text, from which something
 * follows without standing there.
 */
function placeIn(
  { result = null, cleanResult = result }: ReplayedCall,
  value?: JsonValue,
): string | undefined {
  const [longest = ''] = textsIn(cleanResult).toSorted((one, other) => other.length - one.length);
  return placeOf(value ?? longest, cleanResult);
}

/** Finds a tool by its id, or by the part of it behind `__` where one tool alone has it. */
export function toolNamed(name: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  const exact = tools.find(({ id }) => id === name);
  const [only, ...others] = tools.filter(({ id }) => id.endsWith(`__${name}`));
  return exact ?? (others.length === 0 ? only : undefined);
}
