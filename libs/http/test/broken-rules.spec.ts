import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { HttpException } from '@nestjs/common';
import {
  BODIES,
  type FormSchema,
  type Route,
  type RouteKey,
  ROUTES,
} from '@toolloop/protocol/routes';
import { ScriptedModel } from '@toolloop/testing';
import { readRequest } from '../src/read-request.js';
import { ask, closeApps, type Served, serveApp } from './served-app.js';

/** A member of a query or a body, with the values that surround it. */
interface Field {
  readonly key: RouteKey;
  readonly part: 'query' | 'body';
  readonly path: readonly string[];
  readonly form: FormSchema;
  readonly isRequired: boolean;
  /** The right value of the whole part. */
  readonly around: unknown;
}

/** A value that fits a form. */
function fitting(form: FormSchema): unknown {
  const { type = 'object', anyOf, minimum = 1 } = form;
  if (anyOf) return fitting(anyOf[0] ?? {});
  const byType = {
    object: () => fittingMembers(form),
    array: () => [fitting(form.items ?? {})],
    boolean: () => true,
    integer: () => minimum,
    number: () => minimum,
    string: () => fittingText(form),
  };
  return byType[type]();
}

function fittingMembers({ properties = {} }: FormSchema): object {
  return Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, fitting(of)]));
}

function fittingText({ enum: choices, pattern = '' }: FormSchema): string | undefined {
  return choices?.[0] ?? ['x', '1'].find((text) => new RegExp(pattern).test(text));
}

function fieldsOf(
  { properties = {}, required = [] }: FormSchema,
  owner: Pick<Field, 'key' | 'part' | 'path' | 'around'>,
): Field[] {
  const fields: Field[] = [];
  for (const [name, form] of Object.entries(properties)) {
    const path = owner.path.concat(name);
    fields.push({ ...owner, path, form, isRequired: required.includes(name) });
    fields.push(...fieldsOf(form, { ...owner, path }));
  }
  return fields;
}

function fieldsIn([name, { query, body }]: readonly [string, Route]): Field[] {
  const parts = { query, body: typeof body === 'string' ? BODIES[body] : undefined };
  return (['query', 'body'] as const).flatMap((part) => {
    const form = parts[part];
    const owner = { key: name as RouteKey, part, path: [], around: form && fitting(form) };
    return form ? fieldsOf(form, owner) : [];
  });
}

const FIELDS = Object.entries<Route>(ROUTES).flatMap((entry) => fieldsIn(entry));

/** The same object with another value at a place. */
function having(object: unknown, [name, ...rest]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value;
  const { [name]: inner, ...others } = object as Readonly<Record<string, unknown>>;
  return { ...others, [name]: having(inner, rest, value) };
}

/** The texts that are told of a request with this value in a field. */
function toldOf({ key, part, path, around }: Field, value: unknown): readonly string[] {
  try {
    readRequest(key, { params: { number: '1' }, [part]: having(around, path, value) });
    return [];
  } catch (error) {
    if (!(error instanceof HttpException)) throw error;
    return (error.getResponse() as { readonly message: readonly string[] }).message;
  }
}

function told(key: RouteKey, body: unknown): readonly string[] {
  return toldOf({ key, part: 'body', path: [], form: {}, isRequired: true, around: {} }, body);
}

const OF_EVERY_TYPE = [null, true, 'x', 1, 1.5, [], {}, ['x', 1], [null, [], '']];

/** Values of other types than that of a form; a text of an address stands for other types too. */
function ofOtherTypes({ type, anyOf }: FormSchema): readonly unknown[] {
  if (anyOf) return [];
  return OF_EVERY_TYPE.filter((value) => {
    if (type === 'array') return !Array.isArray(value) && typeof value !== 'string';
    if (type === 'object') return typeof value !== 'object' || value === null;
    return type === 'integer'
      ? !Number.isInteger(value)
      : typeof value !== (type ?? '') && !(type === 'boolean' && value === 'true');
  });
}

/** Values that are too long, too large or too small. */
function beyond({ maxLength, maxItems, maximum, minimum, items }: FormSchema): readonly unknown[] {
  return [
    ...(maxLength === undefined ? [] : ['x'.repeat(maxLength + 1), ' '.repeat(maxLength + 1)]),
    ...(maxItems === undefined
      ? []
      : [Array.from({ length: maxItems + 1 }, () => fitting(items ?? {})), Array(maxItems + 1)]),
    ...(maximum === undefined ? [] : [maximum + 1]),
    ...(minimum === undefined ? [] : [minimum - 1]),
    ...(items?.maxLength === undefined ? [] : [['x'.repeat(items.maxLength + 1), 1, '']]),
  ];
}

/** The empty values that a form refuses. */
function empties({ minLength, pattern, enum: choices }: FormSchema): readonly unknown[] {
  const isRefused =
    minLength !== undefined || choices || (pattern !== undefined && !new RegExp(pattern).test(''));
  return isRefused ? [''] : [];
}

describe('a mistake in a request', () => {
  it('is looked for in the fields of every route that has a form', () => {
    expect(FIELDS.length).toBeGreaterThan(100);
    for (const field of FIELDS) expect(toldOf(field, fitting(field.form))).toEqual([]);
  });

  it.each(FIELDS.map((field) => [field.key, field.path.join('.'), field] as const))(
    'is told in one text that names its place: %s %s',
    (_key, place, field) => {
      const missing = field.isRequired ? [undefined] : [];
      const mistakes = [
        ...ofOtherTypes(field.form),
        ...beyond(field.form),
        ...empties(field.form),
        ...missing,
      ];
      for (const mistake of mistakes)
        expect({ mistake, told: toldOf(field, mistake) }).toEqual({
          mistake,
          told: [expect.stringContaining(place)],
        });
    },
  );

  it('is one of its type before one of its contents, and of a list before its values', () => {
    expect(told('POST /runs', {})).toEqual(['message must be a text']);
    expect(told('POST /runs', { message: '' })).toEqual(['message must not be empty']);
    expect(told('POST /runs', { message: 'hi', cut: { at: [1, '', 'x'.repeat(300)] } })).toEqual([
      'cut.at must be a list of ids',
    ]);
    expect(told('POST /runs', { message: 'hi', cut: { at: Array(101).fill(1) } })).toEqual([
      'cut.at must contain no more than 100 elements',
    ]);
    expect(told('POST /approvals/:approvalId', { decision: 1, also: 'x', reason: [] })).toEqual([
      'decision must be "approve" or "deny"',
      'reason must be a text',
      'also must be a list of texts',
    ]);
    expect(told('POST /policies', { policy: null, reason: [], expected: '1' })).toEqual([
      'reason must be a string',
      'expected must be an integer number',
      'policy should not be null or undefined',
    ]);
  });
});

describe('a mistake that is answered over HTTP', () => {
  let served: Served;

  beforeAll(async () => {
    served = await serveApp({ model: new ScriptedModel([]) });
  });
  afterAll(closeApps);

  async function answered(person: string, path: string, body: unknown): Promise<unknown> {
    const response = await ask(served, person, body, path);
    const { message, details } = (await response.json()) as Readonly<Record<string, unknown>>;
    expect(response.status).toBe(400);
    return details ?? [message];
  }

  const user = { id: 'm', role: 'user' };
  const asked =
    'must end with a message of the user that has a text, or with an answer to what a run asked';

  it.each<readonly [string, object, string]>([
    ['/ai/assistant', { commands: [] }, 'commands'],
    [
      '/ai/assistant',
      { commands: [{ type: 'add-message', message: { parts: [{ type: 'text', text: ' ' }] } }] },
      'commands',
    ],
    ['/ai/agui', { threadId: 't', runId: 'r', messages: [] }, 'messages'],
    ['/ai/agui', { threadId: 't', runId: 'r', messages: [{ ...user, content: '' }] }, 'messages'],
    ['/ai/chat', { id: 'c', messages: [{ ...user, parts: [] }] }, 'messages'],
    ['/ai/data-stream', { messages: [{ ...user, content: '' }] }, 'messages'],
  ])('is the place of the question of %s %j', async (path, body, place) => {
    expect(await answered('alice', path, body)).toEqual([`${place} ${asked}`]);
  });

  it.each<readonly [string, unknown]>([
    ['policy', 'allow-all'],
    ['policy', 5],
    ['policy/allow', { allow: 'notes__read' }],
    ['policy/flow', { allow: [], flow: 5 }],
    ['policy/allow/0', { allow: [''] }],
    ['policy/runBudgets/0/beyond', { allow: [], runBudgets: [{ calls: 1, beyond: [] }] }],
  ])('is told once of %s in policies', async (place, policy) => {
    const texts = await answered('ops', '/policies', { policy, reason: 'A test.', expected: 0 });
    expect(texts).toEqual([expect.stringMatching(`^${place}: `)]);
  });
});
