import { describe, expect, it } from '@jest/globals';
import { UseFilters, UseGuards, UseInterceptors, UsePipes, ValidationPipe } from '@nestjs/common';
import { LlmTool, type Tool, ToolCatalog, ToolProvider, ToolSource } from '@toolloop/core';
import type { ToolOrigin } from '@toolloop/core/contracts';
import { ToolSources } from '@toolloop/core/sources';
import type { Finding } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { firstValueFrom } from 'rxjs';
import { Bench } from '../call/bench.js';
import { type Declared, findingsOf, RecordingLogger, start } from './application.js';
import { toolOf } from './tools.js';

class FixedSource extends ToolSource {
  constructor(
    private readonly given: readonly Tool[],
    readonly origin: ToolOrigin = { source: 'remote', trusted: false },
  ) {
    super();
  }

  override tools(): Promise<readonly Tool[]> {
    return Promise.resolve(this.given);
  }
}

const sourceOf = (...tools: Tool[]) => ({
  provide: Symbol('source'),
  useValue: new FixedSource(tools),
});
const trustedSourceOf = (...tools: Tool[]) => ({
  provide: Symbol('source'),
  useValue: new FixedSource(tools, trusted),
});
const trusted: ToolOrigin = { source: 'ours', trusted: true };
/** A text that a pattern such as `^(a+)+$` takes for ever to refuse. */
const ALMOST = `${'a'.repeat(40)}!`;

const withSchema = (schema: JSONSchema7) =>
  sourceOf(toolOf({ id: 'remote__run', schema, origin: { source: 'remote', trusted: false } }));

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool({ description: 'x', effect: 'read_only', reveal: 'all' }) search(): void {}
}

const asks = (required: string[]): JSONSchema7 => ({
  type: 'object',
  properties: { a: {}, tenant: { type: 'string' } },
  required,
});

/**
 * Starts the application, and says which findings it has all the same; none of the tools with one
 * is in the catalog.
 */
async function quarantineOf(declared: Declared): Promise<readonly Finding[]> {
  const module = await start(declared);
  const [status] = module.get(ToolSources).list();
  expect(status?.tools).toEqual([]);
  expect(status?.quarantined).toHaveLength(1);
  return firstValueFrom(module.get(ToolCatalog).findings$);
}

it.each<[decorator: string, decorator: ClassDecorator]>([
  ['UseGuards', UseGuards({ canActivate: () => true })],
  ['UsePipes', UsePipes(new ValidationPipe())],
  ['UseInterceptors', UseInterceptors({ intercept: (_context, next) => next.handle() })],
  ['UseFilters', UseFilters({ catch: () => undefined })],
])('a source whose class has %s keeps the application from starting', async (_name, decorator) => {
  @decorator
  class GuardedSource extends FixedSource {}
  const provider = { provide: Symbol('source'), useValue: new GuardedSource([]) };
  expect(await findingsOf({ providers: [provider] })).toEqual([
    {
      at: 'GuardedSource',
      problem:
        'It has guards, pipes, interceptors or filters, which Nest does not apply to the tools that it lists.',
      remedy: 'Make them global, such as by APP_GUARD, or decide by policy.',
    },
  ]);
});

describe('invariant 4: a tool that a source contributes', () => {
  it('invariant 4: is in quarantine with an id that another tool has', async () => {
    expect(
      await quarantineOf({ providers: [CrmTools, sourceOf(toolOf({ id: 'crm__search' }))] }),
    ).toEqual([
      {
        at: 'remote: crm__search',
        problem: 'Its id "crm__search" is also the id of CrmTools.search.',
        remedy: expect.stringContaining('another name'),
      },
    ]);
  });

  it.each<[string, string, string]>([
    ['spaces', 'run it', 'remote: run it'],
    ['characters that are not seen', 'run\u200bit', 'remote: run\\u{200b}it'],
    ['a thousand characters', 'x'.repeat(1_000), `remote: ${'x'.repeat(64)}…`],
  ])('invariant 4: is in quarantine with an unsafe id: %s', async (_, id, at) => {
    expect(await quarantineOf({ providers: [sourceOf(toolOf({ id }))] })).toMatchObject([
      { at, problem: 'Its id is not accepted by every model provider.' },
    ]);
  });

  it.each([
    ['a glob, which a policy could name by accident', '*'],
    ['the id of another tool', 'crm__search'],
  ])('invariant 4: is in quarantine with a declared id of its own: %s', async (_, declaredId) => {
    const tool = toolOf({ id: 'remote__run' });
    const posing = { ...tool, spec: { ...tool.spec, declaredId } };
    expect(await quarantineOf({ providers: [sourceOf(posing)] })).toEqual([
      {
        at: `remote: ${declaredId}`,
        problem: 'Its declared id is not its id, "remote__run".',
        remedy: 'Only the tools of an entity have a declared id of their own.',
      },
    ]);
  });

  it('invariant 4: is in quarantine as the tool of an entity, which has a declared id of its own', async () => {
    const tool = toolOf({ id: 'remote__run' });
    const entity = { provider: 'Customer', instanceId: 'c1', depth: 1 };
    const posing: Tool = { ...tool, entity, spec: { ...tool.spec, declaredId: 'customer_*_run' } };
    expect(await quarantineOf({ providers: [sourceOf(posing)] })).toMatchObject([
      { problem: expect.stringContaining('which only the application can declare') },
    ]);
  });

  it('invariant 4: is in quarantine without an effect, a description, or a redaction', async () => {
    const { spec, ...tool } = toolOf({ id: 'remote__run' });
    const { effect: _effect, redaction: _redaction, ...rest } = spec;
    const bare = { ...tool, spec: { ...rest, description: '' } } as Tool;
    expect(
      (await quarantineOf({ providers: [sourceOf(bare)] })).map(({ problem }) => problem),
    ).toEqual([
      'The tool has no description.',
      'The tool declares no effect.',
      'The tool does not say which data may leave it.',
    ]);
  });

  it.each<[string, unknown]>([
    ['nothing', null],
    ['a text', 'crm__search'],
    ['an object', { name: 'crm__search' }],
    ['a tool without a codec', { ...toolOf({ id: 'remote__run' }), input: {} }],
  ])('invariant 4: is in quarantine if it is none: %s', async (_, given) => {
    expect(await quarantineOf({ providers: [sourceOf(given as Tool)] })).toMatchObject([
      { at: 'remote', problem: expect.stringContaining('Among its tools is') },
    ]);
  });

  it('invariant 4: is in quarantine if it cannot be read', async () => {
    const tool = toolOf({ id: 'remote__run' });
    const broken = Object.defineProperty({ ...tool }, 'timeoutMs', {
      enumerable: true,
      get: () => {
        throw new Error('no');
      },
    });
    expect(await quarantineOf({ providers: [sourceOf(broken)] })).toMatchObject([
      { problem: expect.stringContaining('could not be read') },
    ]);
  });

  it.each<[string, JSONSchema7, string]>([
    [
      'a whole that is no object',
      { type: 'string' },
      '"/type": the type of the whole must be "object"',
    ],
    [
      'five megabytes',
      { type: 'object', description: 'x'.repeat(5_000_000) },
      'more than 65536 characters',
    ],
  ])(
    'invariant 4: is in quarantine with a schema that cannot be used: %s',
    async (_, schema, problem) => {
      expect(await quarantineOf({ providers: [withSchema(schema)] })).toMatchObject([
        { at: 'remote: remote__run', problem: expect.stringContaining(problem) },
      ]);
    },
  );

  it.each<[string, JSONSchema7, string]>([
    ['not', { type: 'object', properties: { a: { not: { const: 1 } } } }, '"/properties/a/not"'],
    [
      'a remote reference',
      { type: 'object', properties: { a: { $ref: 'https://x.test' } } },
      '"/properties/a/$ref"',
    ],
    [
      'a pattern that does not compile',
      { type: 'object', properties: { a: { pattern: '(' } } },
      '"/properties/a/pattern"',
    ],
  ])(
    'invariant 4: is narrowed to a schema within the subset, and the model is told of it: %s',
    async (_, schema, pointer) => {
      const module = await start({ providers: [withSchema(schema)] });
      const description = expect.stringMatching(
        /^(?:Not: 1|Its form is described elsewhere|Its pattern: "\(")\.$/,
      );
      expect(module.get(ToolCatalog).describe('remote__run').inputSchema).toEqual({
        type: 'object',
        properties: { a: { description } },
      });
      expect(await firstValueFrom(module.get(ToolCatalog).findings$)).toMatchObject([
        {
          at: 'remote: remote__run',
          problem: `Parts of its schemas are not applied, so it takes more than its source says: ${pointer}.`,
        },
      ]);
    },
  );

  it.each<JSONSchema7>([
    { type: 'object', properties: { tenant_id: { type: 'string' } } },
    {
      type: 'object',
      properties: { filter: { type: 'object', properties: { actor: { type: 'string' } } } },
    },
  ])('invariant 4: is in quarantine with a reserved argument: %j', async (schema) => {
    expect(await quarantineOf({ providers: [withSchema(schema)] })).toMatchObject([
      {
        at: 'remote: remote__run',
        problem: expect.stringMatching(/^The argument "(tenant_id|actor)" has a reserved name\.$/),
      },
    ]);
  });

  it('invariant 4: is sent no reserved argument where its schema was open', async () => {
    const schema: JSONSchema7 = {
      type: 'object',
      properties: { filter: { anyOf: [{ properties: { tenant: {} } }, { type: 'string' }] } },
    };
    const found = {
      ...toolOf({ id: 'remote__run', schema }),
      input: { ...toolOf({ id: 'remote__run', schema }).input, reserved: [] },
    };
    const bench = await Bench.start({
      providers: [sourceOf(found)],
      options: { policy: { allow: ['remote__run'] } },
    });
    const { record } = await bench
      .run({ policies: [{ allow: ['remote__run'] }] })
      .exec('remote__run', { filter: { tenant: 'globex' } });
    expect(record.error?.code).toBe('tenant_override');
  });

  it('invariant 4: is read with an optional value as pydantic writes it', async () => {
    const limit: JSONSchema7 = { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null };
    const received: unknown[] = [];
    const schema: JSONSchema7 = { type: 'object', properties: { limit } };
    const found = toolOf({ id: 'remote__run', schema, invoke: (input) => received.push(input) });
    const bench = await Bench.start({
      providers: [sourceOf(found)],
      options: { policy: { allow: ['remote__run'] } },
    });
    expect(bench.catalog.describe('remote__run').inputSchema.properties).toEqual({
      limit: { type: 'integer' },
    });
    const run = bench.run({ policies: [{ allow: ['remote__run'] }] });
    for (const args of [{ limit: null }, { limit: 3 }, {}]) await run.exec('remote__run', args);
    expect(received).toEqual([{}, { limit: 3 }, {}]);
  });

  it.each<[string, 'inputSchema' | 'outputSchema']>([
    ['arguments', 'inputSchema'],
    ['result', 'outputSchema'],
  ])(
    'has a pattern for its %s left out that could block the process, and the application starts',
    async (_, name) => {
      const pattern = '^(?=a)(a+)+$';
      const schema: JSONSchema7 = {
        type: 'object',
        properties: { text: { type: 'string', pattern } },
      };
      const found = toolOf({
        id: 'remote__run',
        schema: name === 'inputSchema' ? schema : { type: 'object' },
        invoke: () => ({ text: ALMOST }),
      });
      const patterned = { ...found, spec: { ...found.spec, [name]: schema } };
      const bench = await Bench.start({
        providers: [sourceOf(patterned)],
        options: { policy: { allow: ['remote__run'] } },
      });
      expect(bench.logger.warnings().map(({ message }) => message)).toContain(
        'remote: remote__run: Its pattern "^(?=a)(a+)+$" cannot be run in linear time, so it is not applied. Have its source write it shorter, without look-around and back references.',
      );
      const before = process.cpuUsage();
      const args = name === 'inputSchema' ? { text: ALMOST } : {};
      const { record } = await bench
        .run({ policies: [{ allow: ['remote__run'] }] })
        .exec('remote__run', args);
      expect(record).toMatchObject({ status: 'succeeded' });
      expect(process.cpuUsage(before).user / 1_000_000).toBeLessThan(2); // backtracking takes hours
    },
  );

  it('keeps its place with a schema of results that cannot be used, which is left out with a finding', async () => {
    const found = toolOf({ id: 'remote__run' });
    const wide = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`p${index}`, {}]));
    const module = await start({
      providers: [
        sourceOf({
          ...found,
          spec: { ...found.spec, outputSchema: { type: 'object', properties: wide } },
        }),
      ],
    });
    expect(module.get(ToolCatalog).describe('remote__run')).not.toHaveProperty('outputSchema');
    expect(await firstValueFrom(module.get(ToolCatalog).findings$)).toMatchObject([
      {
        at: 'remote: remote__run',
        problem: 'Its outputSchema is not applied: a schema holds more than 2000 values.',
      },
    ]);
  });

  it('tells the model in its description of a union of the whole', async () => {
    const schema: JSONSchema7 = {
      type: 'object',
      properties: { a: {}, b: {} },
      anyOf: [{ required: ['a'] }, { required: ['b'] }],
    };
    const module = await start({ providers: [withSchema(schema)] });
    expect(module.get(ToolCatalog).describe('remote__run').description).toBe(
      'Runs remote__run.\nIts arguments. One of: { a: anything } | { b: anything }.',
    );
  });

  it('has no optional argument with a reserved name, and is in quarantine if it needs one', async () => {
    const module = await start({ providers: [withSchema(asks(['a']))] });
    expect(module.get(ToolCatalog).describe('remote__run').inputSchema.properties).toEqual({
      a: {},
    });
    expect(await firstValueFrom(module.get(ToolCatalog).findings$)).toMatchObject([
      { problem: 'Arguments with reserved names are left out of it.' },
    ]);
    expect(await quarantineOf({ providers: [withSchema(asks(['tenant']))] })).toMatchObject([
      { problem: 'The argument "tenant" has a reserved name.' },
    ]);
  });

  it('invariant 4: is accepted when it declares all of it', async () => {
    const module = await start({ providers: [sourceOf(toolOf({ id: 'remote__run' }))] });
    expect(module.get(ToolCatalog).describe('remote__run')).toMatchObject({
      source: 'remote',
      trusted: false,
      perInstance: false,
    });
  });
});

const posing = () => sourceOf(toolOf({ id: 'crm__Search' }));

describe('a tool of a source whose id differs from another only in case', () => {
  it('is left out and told where its source is not trusted, and the application starts', async () => {
    const logger = new RecordingLogger();
    const module = await start({ providers: [CrmTools, posing()], logger });
    expect(
      module
        .get(ToolCatalog)
        .list()
        .map(({ id }) => id),
    ).toEqual(['crm__search']);
    expect(logger.warnings().map(({ message }) => message)).toContainEqual(
      'remote: crm__Search: Its id "crm__Search" differs only in case from "crm__search", the id of CrmTools.search. Give one of them another name or namespace, or provide its class in one module only.',
    );
  });

  it('is the one of the two that is not trusted, whichever comes first', async () => {
    const module = await start({
      providers: [posing(), trustedSourceOf(toolOf({ id: 'crm__search', origin: trusted }))],
    });
    expect(module.get(ToolCatalog).describe('crm__search')).toMatchObject({ source: 'ours' });
    expect(() => module.get(ToolCatalog).describe('crm__Search')).toThrow('crm__search');
  });

  it('is the later one of two that are not trusted', async () => {
    const module = await start({ providers: [posing(), sourceOf(toolOf({ id: 'crm__search' }))] });
    expect(
      module
        .get(ToolCatalog)
        .list()
        .map(({ id }) => id),
    ).toEqual(['crm__Search']);
  });

  it('is no more trusted than its source, whatever it says of itself', async () => {
    const module = await start({
      providers: [CrmTools, sourceOf(toolOf({ id: 'remote__run', origin: trusted }))],
    });
    expect(module.get(ToolCatalog).describe('remote__run')).toMatchObject({
      source: 'remote',
      trusted: false,
      effect: 'external_side_effect',
    });
  });

  it('is a finding where its source is trusted', async () => {
    const source = trustedSourceOf(toolOf({ id: 'crm__Search', origin: trusted }));
    expect(await findingsOf({ providers: [CrmTools, source] })).toMatchObject([
      {
        at: 'ours: crm__Search',
        problem:
          'Its id "crm__Search" differs only in case from "crm__search", the id of CrmTools.search.',
      },
    ]);
  });
});
