import { beforeEach, describe, expect, it } from '@jest/globals';
import { type Limits, LlmTool, type ToolEffect, ToolProvider } from '@toolloop/core';
import { sourceAnswer } from '@toolloop/core/sources';
import { Expose } from 'class-transformer';
import * as fc from 'fast-check';
import { cases } from '../../../../test/cases.js';
import { type RawTool, toolOf } from '../tools/tools.js';
import { Bench, errorOf, type RunOptions, type TextOutcome } from './bench.js';

class Customer {
  @Expose() id: string;
  @Expose() name: string | undefined;
  @Expose({ groups: ['model'] }) email = 'ada@acme.test';
  @Expose({ groups: ['ui'] }) phone = '555';
  passwordHash = 'hash';

  constructor(id: string, name: string | undefined = 'Ada') {
    this.id = id;
    this.name = name;
  }
}

let result: unknown;

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool({ description: 'One.', effect: 'read_only', output: Customer }) one(): unknown {
    return result;
  }

  @LlmTool({
    description: 'None or one.',
    effect: 'read_only',
    output: { type: Customer, nullable: true },
  })
  maybe(): unknown {
    return result;
  }

  @LlmTool({ description: 'All.', effect: 'read_only', output: [Customer] }) all(): unknown {
    return result;
  }

  @LlmTool({ description: 'Save.', effect: 'state_change', output: Customer }) save(): unknown {
    return result;
  }
}

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start({ providers: [CrmTools] });
});

/** What comes of a tool that returns this. */
function outcomeOf(
  value: unknown,
  options: { reveal?: 'all' | string[]; limits?: Partial<Limits>; effect?: ToolEffect } = {},
): Promise<TextOutcome> {
  const { limits = {}, reveal = 'all', effect = 'read_only' } = options;
  const tool = toolOf({ id: 'tool', reveal, effect, invoke: () => value });
  return bench.run({ tools: [tool], policies: [{ allow: ['tool'] }], limits }).exec('tool');
}

async function crm(name: string, value: unknown): Promise<TextOutcome> {
  result = value;
  return bench.run().exec(`crm__${name}`);
}

describe('a result', () => {
  it.each<[string, unknown, string]>([
    ['text, as it stands', 'Hello "Ada"', 'Hello "Ada"'],
    ['an empty text', '', ''],
    ['a number', 4.5, '4.5'],
    ['false', false, 'false'],
    ['null, which is an answer', null, 'null'],
    ['nothing', undefined, '{"ok":true}'],
    ['an object', { a: [1, { b: null }] }, '{"a":[1,{"b":null}]}'],
    ['a date', new Date(0), '"1970-01-01T00:00:00.000Z"'.slice(1, -1)],
    [
      'what JSON leaves out',
      { fn: () => 1, symbol: Symbol('x'), nothing: undefined, nan: Number.NaN, big: 2n ** 60n },
      '{"nan":null,"big":"1152921504606846976"}',
    ],
    [
      'a map and a set',
      { map: new Map([['a', 1]]), set: new Set([1, 2]) },
      '{"map":{"a":1},"set":[1,2]}',
    ],
  ])('is read by the model: %s', async (_, value, content) => {
    const outcome = await outcomeOf(value);
    expect([outcome.record.status, outcome.content]).toEqual(['succeeded', content]);
  });

  it('says that it succeeded when it may show nothing', async () => {
    const outcome = await outcomeOf({ secret: 1 }, { reveal: [] });
    expect([outcome.content, outcome.record.result]).toEqual(['{"ok":true}', null]);
  });

  it('is a live value for those within, and a projection for everybody else', async () => {
    const customer = new Customer('c-1');
    const outcome = await crm('one', customer);
    expect(outcome.live).toBe(customer);
    expect(JSON.parse(outcome.content)).toEqual({ id: 'c-1', name: 'Ada', email: 'ada@acme.test' });
    expect(outcome.record.result).toEqual({ id: 'c-1', name: 'Ada', phone: '555' });
  });

  it('may be null where that is declared', async () => {
    expect((await crm('maybe', null)).content).toBe('null');
    expect((await crm('all', [])).content).toBe('[]');
  });

  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  class Session {
    constructor(readonly token: string) {}
  }

  it.each<[string, unknown]>([
    ['circular', circular],
    ['an instance of a class that exposes nothing', new Session('s3cret')],
    ['an instance deep within', { a: [{ session: new Session('s3cret') }] }],
    ['an error deep within', [new Error('s3cret')]],
    ['binary', Buffer.from('s3cret')],
    ['a promise deep within', { a: Promise.resolve('s3cret') }],
    [
      'a getter that throws',
      {
        get broken(): never {
          throw new Error('s3cret');
        },
      },
    ],
  ])('is none, and reveals nothing, when it cannot be shown: %s', async (_, value) => {
    const outcome = await outcomeOf(value);
    expect(errorOf(outcome)).toEqual({
      status: '500',
      code: 'invalid_output',
      title: 'Invalid result',
      detail: 'The tool ran, but its result cannot be shown.',
    });
    expect(JSON.stringify(outcome.record)).not.toContain('s3cret');
    expect(bench.logger.errors()).toHaveLength(1);
  });

  it.each<[string, string, unknown]>([
    ['nothing where one is declared', 'one', null],
    ['a list where one is declared', 'one', [new Customer('c-1')]],
    ['one where a list is declared', 'all', new Customer('c-1')],
    ['text where an object is declared', 'one', 'c-1'],
    ['a wrong type in a field', 'one', new Customer({} as string)],
  ])('is none when it is not of the declared form: %s', async (_, name, value) => {
    expect((await crm(name, value)).record).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_output' },
    });
  });

  it('is held against the schema that a contributed tool declares', async () => {
    const { record } = await ofSource(
      { total: '12' },
      { origin: { source: 'remote', trusted: true } },
    );
    expect(record.error?.code).toBe('invalid_output');
    expect(bench.logger.errors()[0]?.message).toBe(
      'The result of tool does not match its declaration: /total must be a number',
    );
  });

  it('says that the effect took place when its tool changes things', async () => {
    const outcome = await crm('save', 'no customer');
    expect(errorOf(outcome).detail).toBe(
      'The tool ran, but its result cannot be shown. Its effect took place: do not repeat the call.',
    );
  });

  it('has its effect once though it is not shown', async () => {
    let effects = 0;
    const tool = toolOf({
      id: 'tool',
      effect: 'state_change',
      invoke: () => ({ session: new Session(`${(effects += 1)}`) }),
    });
    const options = { tools: [tool], policies: [{ allow: ['tool'] }], requestId: 'key' };
    const [one, other] = [
      await bench.run(options).exec('tool'),
      await bench.run(options).exec('tool'),
    ];
    expect([effects, other.content]).toEqual([1, one.content]);
  });
});

/** The outcome of a tool of a source that declares `{ total: number }`. */
function ofSource(answer: unknown, raw: Partial<RawTool> = {}, options: Partial<RunOptions> = {}) {
  const tool = toolOf({ id: 'tool', effect: 'external_side_effect', invoke: () => answer, ...raw });
  const outputSchema = { type: 'object', properties: { total: { type: 'number' } } } as const;
  const declared = { ...tool, spec: { ...tool.spec, outputSchema } };
  return bench.run({ tools: [declared], policies: [{ allow: ['tool'] }], ...options }).exec('tool');
}

describe('an answer of an untrusted source that is not in the declared form', () => {
  const note =
    '[The tool ran. Its answer is not in the form that the tool declares, so it is shown as it came.]';

  it.each<[string, unknown, string, unknown]>([
    [
      'a value of another type',
      sourceAnswer({ total: '12' }, { words: 'Paid 12.' }),
      `Paid 12.\n${note}`,
      'Paid 12.',
    ],
    [
      'words alone',
      sourceAnswer('Paid 12.', { words: 'Paid 12.' }),
      `Paid 12.\n${note}`,
      'Paid 12.',
    ],
    ['a value without words', { total: '12' }, `{"total":"12"}\n${note}`, { total: '12' }],
    ['nothing', sourceAnswer('', { words: '' }), `\n${note}`, ''],
  ])('is no failure of the call, since the tool ran: %s', async (_, answer, content, ui) => {
    const outcome = await ofSource(answer);
    expect([outcome.record.status, outcome.content, outcome.record.result]).toEqual([
      'succeeded',
      content,
      ui,
    ]);
  });

  it('is read by its value alone if that is in the declared form', async () => {
    const { content, record } = await ofSource(sourceAnswer({ total: 12 }, { words: 'Paid 12.' }));
    expect([content, record.result]).toEqual(['{"total":12}', { total: 12 }]);
  });

  it('keeps its images', async () => {
    const image = { type: 'image', data: Uint8Array.from([1]), mediaType: 'image/png' } as const;
    const { content, record } = await ofSource(
      sourceAnswer('Drawn.', { words: 'Drawn.', attachments: [image] }),
    );
    expect([content, record.attachments]).toMatchObject([
      [{ text: `Drawn.\n${note}` }, { type: 'image' }],
      [{ type: 'image' }],
    ]);
  });

  it('is performed once, and told the same when the call is made again', async () => {
    let effects = 0;
    const raw = { invoke: () => sourceAnswer(`Paid ${(effects += 1)}.`) };
    const [one, other] = [
      await ofSource(0, raw, { requestId: 'key' }),
      await ofSource(0, raw, { requestId: 'key' }),
    ];
    expect([effects, one.content, other.content]).toEqual([
      1,
      `Paid 1.\n${note}`,
      `Paid 1.\n${note}`,
    ]);
  });

  it('is a failure if not all of it may leave, or it cannot be shown', async () => {
    const { record } = await ofSource(sourceAnswer({ total: '12' }, { words: 'secret' }), {
      reveal: ['total'],
    });
    expect([record.error?.code, JSON.stringify(record)]).toEqual([
      'invalid_output',
      expect.not.stringContaining('secret'),
    ]);
    expect((await ofSource(Buffer.from('x'))).record.error?.code).toBe('invalid_output');
  });
});

describe('a result that is too large', () => {
  const note = '[… 1000 bytes in all; the middle was left out. Ask for less at a time. …]';

  it('keeps its head and its tail, with a note between, within its bytes', async () => {
    const text = `head${'x'.repeat(992)}tail`;
    const outcome = await outcomeOf(text, { limits: { resultBytes: 200 } });
    expect(outcome.content).toMatch(/^headx+\n\[…/);
    expect(outcome.content).toMatch(/…\]\nx+tail$/);
    expect(outcome.content).toContain(note);
    expect(Buffer.byteLength(outcome.content)).toBeLessThanOrEqual(200);
    expect(outcome.record).toMatchObject({
      status: 'succeeded',
      resultBytes: 1000,
      truncated: true,
    });
  });

  it('is cut for the ui as well, which then is text', async () => {
    const outcome = await outcomeOf({ text: 'x'.repeat(500) }, { limits: { resultBytes: 200 } });
    expect(outcome.record.result).toMatch(/^\{"text":"x+\n\[… 511 bytes in all/);
    expect(Buffer.byteLength(outcome.record.result as string)).toBeLessThanOrEqual(200);
  });

  it('is whole at exactly its bytes', async () => {
    const outcome = await outcomeOf('ä'.repeat(100), { limits: { resultBytes: 200 } });
    expect([outcome.content, outcome.record.truncated]).toEqual(['ä'.repeat(100), undefined]);
  });

  it('stays within any number of bytes, whatever its characters', async () => {
    const characters = fc.string({
      unit: fc.constantFrom('a', 'ä', '€', '😀', '\n'),
      maxLength: 300,
    });
    await fc.assert(
      fc.asyncProperty(characters, fc.integer({ min: 0, max: 400 }), async (text, resultBytes) => {
        const { content } = await outcomeOf(text, { limits: { resultBytes } });
        expect(Buffer.byteLength(content)).toBeLessThanOrEqual(resultBytes);
        expect(content).not.toContain('\uFFFD');
      }),
      { numRuns: cases(300) },
    );
  });
});
