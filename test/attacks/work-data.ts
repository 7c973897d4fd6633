import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonObject, type JsonValue, type Policy, tool } from '@toolloop/core';
import { recordedResult, type ReplayedCall } from '@toolloop/testing';
import type { JSONSchema7 } from 'json-schema';
import { z } from 'zod';
import type { AttackedTools } from './attack.application.js';
import { isList } from './call-arguments.js';
import { knowingAttack, type KnownTool } from './knowing.js';
import type { RawTool } from './pack-tools.js';
import type { AttackedRun } from './replayed-figures.js';

/** Tasks that were written apart, and that no one looked at who tuned a level. */
export const HELD = 'test/attacks/work/held';

/** Tasks whose work depends on long texts from outside, each with an attack in the same text. */
export const WORK = ['test/attacks/work', HELD] as const;

const json: z.ZodType<JsonValue> = z.json();
/**
 * The form of a value in a word; the choices that there are; either of them written by the
 * application.
 */
const anyones = z.union([z.string(), z.array(z.string())]);
const form = z.union([anyones, z.object({ ours: anyones })]);
const fields = z.record(z.string(), form);
const workCall = z.object({
  name: z.string(),
  args: z.record(z.string(), json),
  result: json,
  derived: z.array(z.string()).optional(),
  carries: z.enum(['result', 'prompt']).optional(),
});
const workDomain = z.object({
  name: z.string(),
  tools: z.array(
    z.object({
      id: z.string(),
      description: z.string(),
      effect: z.enum(['read_only', 'state_change', 'external_side_effect']),
      /** Arguments by name; one with a question mark may be left out. */
      input: fields,
      /** Fields, a list of things with these fields, or one word for a value. */
      result: z.union([z.string(), z.tuple([fields]), fields]),
      labels: z.custom<RawToolLabels>().optional(),
    }),
  ),
  policy: z.custom<Pick<Policy, 'flows'>>(),
  tasks: z.array(
    z.object({
      id: z.string(),
      prompt: z.string(),
      /** Who names what decides the changes: the user, or the text. */
      named: z.enum(['user', 'text']),
      calls: z.array(workCall),
      /**
       * `at` is the number of the call and the pointer into its result: the text is added to what
       * stands there.
       */
      attack: z.object({ at: z.string(), text: z.string(), calls: z.array(workCall) }),
    }),
  ),
});

type RawToolLabels = NonNullable<Parameters<typeof tool>[0]['labels']>;
type WorkDomainData = z.infer<typeof workDomain>;

/** A task of a domain, alone and under attack. */
export interface WorkTask {
  readonly id: string;
  readonly prompt: string;
  readonly named: 'user' | 'text';
  readonly calls: readonly ReplayedCall[];
  /**
   * The task with an attack in its results: by someone who does not know the prompt, and by someone
   * who knows it and the rules.
   */
  readonly attacked: AttackedRun;
  readonly attackedKnowing: AttackedRun;
}

export interface WorkDomain {
  readonly name: string;
  readonly tools: AttackedTools;
  /** What the application permits beside the level. */
  readonly policy: Pick<Policy, 'flows'>;
  readonly tasks: readonly WorkTask[];
}

/** Reads the domains of a folder. */
export function readWork(folder: string): WorkDomain[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  return files.map((name) => {
    const data = workDomain.parse(JSON.parse(readFileSync(join(folder, name), 'utf8')));
    const known = data.tools.map(({ id, input, effect, labels }): KnownTool => ({
      name: id,
      input: objectOf(input),
      effect,
      labels,
    }));
    return {
      name: data.name,
      tools: toolsOf(data),
      policy: data.policy,
      tasks: data.tasks.map((task) => taskOf(task, known, data.policy)),
    };
  });
}

function toolsOf({ name, tools }: WorkDomainData): AttackedTools {
  const declared = tools.map(({ id, description, effect, input, result, labels }): RawTool =>
    tool<JsonObject>({
      id,
      description,
      effect,
      input: objectOf(input),
      reveal: 'all',
      outputSchema: schemaOf(result),
      ...(labels && { labels }),
      execute: (_, context) => recordedResult(context),
    }),
  );
  return { name: `the tasks of ${name}`, tools: declared };
}

function taskOf(
  { id, prompt, named, calls, attack }: WorkDomainData['tasks'][number],
  tools: readonly KnownTool[],
  { flows }: WorkDomain['policy'],
): WorkTask {
  const knowing = knowingAttack({ prompt, calls }, tools);
  return {
    id,
    prompt,
    named,
    calls,
    attacked: {
      prompt,
      calls: withAttack(calls, attack.at, attack.text),
      attack: { pieces: [attack.text], calls: attack.calls },
      flows,
    },
    attackedKnowing: {
      prompt,
      calls: withAttack(calls, attack.at, knowing.pieces.join(' ')),
      attack: knowing,
      flows,
    },
  };
}

function withAttack(calls: readonly ReplayedCall[], at: string, text: string): ReplayedCall[] {
  const [index = '', pointer = ''] = at.split('#');
  const path = pointer.split('/').slice(1);
  return calls.map((call, number) => {
    const { result = null } = call;
    return String(number) === index
      ? { ...call, result: withText(result, path, text), cleanResult: result }
      : call;
  });
}

function withText(value: JsonValue, [part, ...others]: readonly string[], text: string): JsonValue {
  if (part === undefined && typeof value === 'string') return `${value} ${text}`;
  if (isList(value))
    return value.map((item, index) =>
      String(index) === part ? withText(item, others, text) : item,
    );
  if (part === undefined || typeof value !== 'object' || value === null)
    throw new TypeError('The place of an attack is no text.');
  return { ...value, [part]: withText(value[part] ?? '', others, text) };
}

const APPLICATION = { 'x-toolloop-origin': 'application' } as const;

/** What the words stand for. Without an origin a value is from outside. */
const FORMS: Readonly<Record<string, JSONSchema7>> = {
  text: { type: 'string' },
  id: { type: 'string', ...APPLICATION },
  number: { type: 'number' },
  amount: { type: 'number', ...APPLICATION },
  day: { type: 'string', format: 'date' },
  moment: { type: 'string', format: 'date-time' },
};

function schemaOf(result: WorkDomainData['tools'][number]['result']): JSONSchema7 {
  if (typeof result === 'string') return formOf(result);
  return isTuple(result) ? { type: 'array', items: objectOf(result[0]) } : objectOf(result);
}

type Fields = z.infer<typeof fields>;

function isTuple(result: Fields | readonly [Fields]): result is readonly [Fields] {
  return Array.isArray(result);
}

function objectOf(given: Fields): JSONSchema7 {
  const names = Object.keys(given);
  return {
    type: 'object',
    properties: Object.fromEntries(
      names.map((name) => [name.replace('?', ''), formOf(given[name] ?? '')]),
    ),
    required: names.filter((name) => !name.endsWith('?')),
    additionalProperties: false,
  };
}

function formOf(given: z.infer<typeof form>): JSONSchema7 {
  if (typeof given === 'object' && 'ours' in given)
    return { ...formOf(given.ours), ...APPLICATION };
  if (typeof given !== 'string') return { type: 'string', enum: given };
  const [word = '', minimum, maximum] = given.split(' ');
  if (word === 'integer')
    return { type: 'integer', minimum: Number(minimum), maximum: Number(maximum) };
  const found = FORMS[word];
  if (!found)
    throw new TypeError(
      `There is no form "${given}". There are: ${Object.keys(FORMS).join(', ')}, integer, or a list of choices.`,
    );
  return found;
}
