import { describe, expect, it } from '@jest/globals';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { z } from 'zod';
import {
  type JsonObject,
  type RawTool,
  tool,
  ToolCatalog,
  type ToolInvocationRecord,
  ToolLoopService,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { findingsOf, start } from '../tools/application.js';

const says = {
  id: 'weather__forecast',
  description: 'The forecast.',
  effect: 'read_only',
  reveal: 'all',
} as const;

const byZod = tool({
  ...says,
  input: z.object({
    city: z.string().min(2).describe('Where'),
    days: z.int().min(1).max(7).default(3),
    unit: z.enum(['c', 'f']).default('c'),
    since: z.iso
      .date()
      .transform((day) => new Date(day))
      .optional(),
    note: z.string().nullable().optional(),
    tags: z.array(z.string().trim()).max(2).optional(),
    at: z.object({ lat: z.number(), lon: z.number() }).optional(),
  }),
  execute: ({ city, days, unit, since, note, tags, at }) => [
    city,
    days + 0,
    unit,
    since?.getUTCFullYear(),
    note,
    tags,
    at,
  ],
});

const byValibot = tool({
  ...says,
  input: toStandardJsonSchema(
    v.object({
      city: v.pipe(v.string(), v.minLength(2)),
      days: v.optional(v.pipe(v.number(), v.integer(), v.maxValue(7)), 3),
      since: v.optional(
        v.pipe(
          v.string(),
          v.isoDate(),
          v.transform((day) => new Date(day)),
        ),
      ),
    }),
  ),
  execute: ({ city, days, since }) => [city, days + 0, since?.getUTCFullYear()],
});

/** Asks for the day that the prompt names. */
const asks: ScriptedTurn = ({ messages }) =>
  calls(call('weather__forecast', `{"day":${JSON.stringify(messages[0]?.content)}}`));

async function open(raw: RawTool, ...sent: readonly JsonObject[]) {
  const model = new ScriptedModel([
    calls(...sent.map((args) => call('weather__forecast', args))),
    text('Done.'),
  ]);
  return { model, app: await start({ options: { model, tools: [raw] } }) };
}

/** What became of calls with these arguments. */
async function recordsOf(
  raw: RawTool,
  ...sent: readonly JsonObject[]
): Promise<readonly ToolInvocationRecord[]> {
  const { app } = await open(raw, ...sent);
  return (await app.get(ToolLoopService).run({ prompt: 'Go.', actor: { id: 'a' }, tenant: 'acme' }))
    .toolCalls;
}

async function answerTo(raw: RawTool, args: JsonObject): Promise<unknown> {
  const [record] = await recordsOf(raw, args);
  return record?.result ?? record?.error;
}

describe("a tool whose input is Zod's", () => {
  it('shows the model its JSON Schema', async () => {
    const { app } = await open(byZod, {});
    expect(app.get(ToolCatalog).list()[0]?.inputSchema).toMatchObject({
      type: 'object',
      properties: {
        city: { type: 'string', minLength: 2, description: 'Where' },
        days: { type: 'integer', minimum: 1, maximum: 7, default: 3 },
        unit: { type: 'string', enum: ['c', 'f'], default: 'c' },
        since: { type: 'string', format: 'date' },
        tags: { type: 'array', items: { type: 'string' }, maxItems: 2 },
        at: { type: 'object', required: ['lat', 'lon'], additionalProperties: false },
      },
      required: ['city'],
      additionalProperties: false,
    });
  });

  it('receives what Zod makes of the arguments: defaults, transforms, trimmed text', async () => {
    expect(await answerTo(byZod, { city: 'Rome' })).toEqual([
      'Rome',
      3,
      'c',
      null,
      null,
      null,
      null,
    ]);
    const args = {
      city: 'Rome',
      days: 2,
      unit: 'f',
      since: '2026-02-28',
      tags: [' a '],
      at: { lat: 1, lon: 2 },
    };
    expect(await answerTo(byZod, args)).toEqual([
      'Rome',
      2,
      'f',
      2026,
      null,
      ['a'],
      { lat: 1, lon: 2 },
    ]);
    expect(await answerTo(byZod, { city: 'Rome', note: null, days: null, since: null })).toEqual([
      'Rome',
      3,
      'c',
      null,
      null,
      null,
      null,
    ]);
  });

  it.each<[string, JsonObject, string]>([
    ['an argument that is missing', {}, '/city'],
    ['one of another type', { city: 7 }, '/city'],
    ['one that is too short', { city: 'R' }, '/city'],
    ['one beyond its bounds', { city: 'Rome', days: 8 }, '/days'],
    ['one of no enum', { city: 'Rome', unit: 'k' }, '/unit'],
    ['a day there never was', { city: 'Rome', since: '2026-02-30' }, '/since'],
    ['a nested one', { city: 'Rome', at: { lat: 1 } }, '/at/lon'],
    ['too many', { city: 'Rome', tags: ['a', 'b', 'c'] }, '/tags'],
    ['one that was not declared', { city: 'Rome', country: 'IT' }, '/country'],
  ])('refuses %s, and says where', async (_, args, pointer) => {
    const [record] = await recordsOf(byZod, args);
    expect(record).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_args', problems: [{ pointer }] },
    });
  });

  it.each(['tenant', 'actorId'])('refuses a %s, at any depth', async (name) => {
    expect(await answerTo(byZod, { city: 'Rome', [name]: 'globex' })).toMatchObject({
      code: 'tenant_override',
    });
    expect(
      await answerTo(byZod, { city: 'Rome', at: { lat: 1, lon: 2, [name]: 'globex' } }),
    ).toMatchObject({ code: 'tenant_override' });
  });

  it('tells the model what a check said that no JSON Schema can say', async () => {
    const paired = z
      .object({ from: z.int(), to: z.int() })
      .refine(({ from, to }) => from <= to, { path: ['to'], error: 'ends before it begins' });
    const raw = tool({ ...says, input: paired, execute: ({ from, to }) => to - from });
    expect(await answerTo(raw, { from: 1, to: 3 })).toBe(2);
    expect(await answerTo(raw, { from: 3, to: 1 })).toMatchObject({
      problems: [{ pointer: '/to', message: 'ends before it begins' }],
    });
  });

  it('waits for checks that take their time, and tells nothing of those that throw', async () => {
    const slow = z.object({
      id: z.string().refine(async (id) => Promise.resolve(id === 'a'), 'is unknown'),
    });
    const raw = tool({ ...says, input: slow, execute: ({ id }) => id });
    expect(await answerTo(raw, { id: 'a' })).toBe('a');
    expect(await answerTo(raw, { id: 'b' })).toMatchObject({ code: 'invalid_args' });
    const throwing = z.object({ id: z.string() }).refine(() => {
      throw new Error('SECRET');
    });
    const answer = JSON.stringify(
      await answerTo(tool({ ...says, input: throwing, execute: () => 1 }), { id: 'a' }),
    );
    expect(answer).toContain('"code"');
    expect(answer).not.toContain('SECRET');
  });

  it('serves two tenants at once, each with its own arguments', async () => {
    const input = z.object({ day: z.string().transform((day) => new Date(day)) });
    const raw = tool({
      ...says,
      input,
      execute: ({ day }, { tenant }) => `${tenant} ${day.getUTCDate()}`,
    });
    const model = new ScriptedModel([asks, asks, text('Done.'), text('Done.')]);
    const loop = (await start({ options: { model, tools: [raw] } })).get(ToolLoopService);
    const runs = await Promise.all([
      loop.run({ prompt: '2026-01-01', actor: { id: 'a' }, tenant: 'acme' }),
      loop.run({ prompt: '2026-01-02', actor: { id: 'b' }, tenant: 'globex' }),
    ]);
    expect(runs.map(({ toolCalls }) => toolCalls[0]?.result)).toEqual(['acme 1', 'globex 2']);
  });

  it.each<[string, z.ZodType, RegExp]>([
    [
      'a union',
      z.object({ a: z.union([z.object({ b: z.string() }), z.object({ c: z.string() })]) }),
      /"anyOf" is not supported/,
    ],
    [
      'a date',
      z.object({ a: z.date() }),
      /The input has no JSON Schema: Date cannot be represented/,
    ],
    ['a list', z.array(z.string()), /type of the whole must be "object"/],
    [
      'a reserved name',
      z.object({ at: z.object({ tenantId: z.string() }) }),
      /"tenantId" has a reserved name/,
    ],
  ])('does not start with %s', async (_, input, problem) => {
    const raw = tool({ ...says, input, execute: () => 1 });
    expect(
      (await findingsOf({ options: { tools: [raw] } })).map((finding) => finding.problem),
    ).toEqual([expect.stringMatching(problem)]);
  });

  it('is typed by it', () => {
    const input = z.object({ day: z.string().transform((day) => new Date(day)) });
    // @ts-expect-error: a Date is what the tool receives
    const wrong = tool({ ...says, input, execute: ({ day }: { day: string }) => day });
    expect(wrong.declaration.input).toBe(input);
  });
});

describe("a tool whose input is Valibot's", () => {
  it('receives what Valibot makes of the arguments', async () => {
    expect(await answerTo(byValibot, { city: 'Rome' })).toEqual(['Rome', 3, null]);
    expect(await answerTo(byValibot, { city: 'Rome', days: 2, since: '2026-02-28' })).toEqual([
      'Rome',
      2,
      2026,
    ]);
  });

  it('refuses what Valibot or its JSON Schema refuses', async () => {
    const records = await recordsOf(
      byValibot,
      { city: 'R' },
      { city: 'Rome', days: 8 },
      { city: 'Rome', country: 'IT' },
      { city: 'Rome', tenant: 'b' },
    );
    expect(records.map(({ error }) => error?.code)).toEqual([
      'invalid_args',
      'invalid_args',
      'invalid_args',
      'tenant_override',
    ]);
  });

  it('does not start without its JSON Schema', async () => {
    const raw = tool({ ...says, input: v.object({ city: v.string() }), execute: () => 1 });
    const [finding] = await findingsOf({ options: { tools: [raw] } });
    expect(finding?.problem).toBe(
      'The input is a schema of valibot, which cannot be converted to JSON Schema.',
    );
  });
});
