import { describe, expect, it } from '@jest/globals';
import { LlmTool, type Tool, ToolCatalog, ToolProvider, ToolSource } from '@toolloop/core';
import type { ToolOrigin } from '@toolloop/core/contracts';
import type { JSONSchema7 } from 'json-schema';
import { Bench } from '../execution/bench.js';
import { findingsOf, RecordingLogger, start } from './application.js';
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

const sourceOf = (...tools: Tool[]) => ({ provide: Symbol('source'), useValue: new FixedSource(tools) });
/** A text that a pattern such as `^(a+)+$` takes for ever to refuse. */
const ALMOST = `${'a'.repeat(40)}!`;

const withSchema = (schema: JSONSchema7) => sourceOf(toolOf({ id: 'remote__run', schema, origin: { source: 'remote', trusted: false } }));

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool({ description: 'x', effect: 'read_only', reveal: 'all' }) search(): void {}
}

describe('invariant 4: a tool that a source contributes', () => {
  it('invariant 4: is refused with an id that another tool has', async () => {
    expect(await findingsOf({ providers: [CrmTools, sourceOf(toolOf({ id: 'crm__search' }))] })).toEqual([
      {
        at: 'remote: crm__search',
        problem: 'Its id "crm__search" is also the id of CrmTools.search.',
        remedy: expect.stringContaining('another name'),
      },
    ]);
  });

  it('invariant 4: is refused with an unsafe id', async () => {
    expect(await findingsOf({ providers: [sourceOf(toolOf({ id: 'run it' }))] })).toMatchObject([
      { at: 'remote: run it', problem: 'Its id is not accepted by every model provider.' },
    ]);
  });

  it.each([
    ['a glob, which a policy could name by accident', '*'],
    ['the id of another tool', 'crm__search'],
  ])('invariant 4: is refused with a declared id of its own: %s', async (_, declaredId) => {
    const tool = toolOf({ id: 'remote__run' });
    const posing = { ...tool, spec: { ...tool.spec, declaredId } };
    expect(await findingsOf({ providers: [sourceOf(posing)] })).toEqual([
      {
        at: `remote: ${declaredId}`,
        problem: 'Its declared id is not its id, "remote__run".',
        remedy: 'Only the tools of an entity have a declared id of their own.',
      },
    ]);
  });

  it('invariant 4: is refused without an effect, a description, or a redaction', async () => {
    const { spec, ...tool } = toolOf({ id: 'remote__run' });
    const { effect: _effect, redaction: _redaction, ...rest } = spec;
    const bare = { ...tool, spec: { ...rest, description: '' } } as Tool;
    expect((await findingsOf({ providers: [sourceOf(bare)] })).map(({ problem }) => problem)).toEqual([
      'The tool has no description.',
      'The tool declares no effect.',
      'The tool does not say which data may leave it.',
    ]);
  });

  it.each<[string, JSONSchema7, string]>([
    ['oneOf', { type: 'object', properties: { a: { oneOf: [] } } }, '"/properties/a/oneOf": "oneOf" is not supported'],
    [
      'a remote reference',
      { type: 'object', properties: { a: { $ref: 'https://x.test' } } },
      '"/properties/a/$ref": "https://x.test" is not',
    ],
    ['a whole that is no object', { type: 'string' }, '"/type": the type of the whole must be "object"'],
  ])('invariant 4: is refused with a schema outside the subset: %s', async (_, schema, problem) => {
    expect(await findingsOf({ providers: [withSchema(schema)] })).toEqual([
      {
        at: 'remote: remote__run',
        problem: expect.stringContaining(problem),
        remedy: expect.stringContaining('nested objects and arrays only'),
      },
    ]);
  });

  it('invariant 4: is refused with a schema that does not compile', async () => {
    const schema: JSONSchema7 = { type: 'object', properties: { a: { type: 'string', pattern: '(' } } };
    expect(await findingsOf({ providers: [withSchema(schema)] })).toMatchObject([
      { at: 'remote: remote__run', problem: expect.stringContaining('Invalid regular expression') },
    ]);
  });

  it.each<JSONSchema7>([
    { type: 'object', properties: { tenant_id: { type: 'string' } } },
    { type: 'object', properties: { filter: { type: 'object', properties: { actor: { type: 'string' } } } } },
  ])('invariant 4: is refused with a reserved argument: %j', async (schema) => {
    expect(await findingsOf({ providers: [withSchema(schema)] })).toMatchObject([
      { at: 'remote: remote__run', problem: expect.stringMatching(/^The argument "(tenant_id|actor)" has a reserved name\.$/) },
    ]);
  });

  it('invariant 4: is read with an optional value as pydantic writes it', async () => {
    const limit: JSONSchema7 = { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null };
    const received: unknown[] = [];
    const schema: JSONSchema7 = { type: 'object', properties: { limit } };
    const found = toolOf({ id: 'remote__run', schema, invoke: (input) => received.push(input) });
    const bench = await Bench.start({ providers: [sourceOf(found)], options: { policy: { allow: ['remote__run'] } } });
    expect(bench.catalog.describe('remote__run').inputSchema.properties).toEqual({ limit: { type: 'integer' } });
    const run = bench.run({ policies: [{ allow: ['remote__run'] }] });
    for (const args of [{ limit: null }, { limit: 3 }, {}]) await run.exec('remote__run', args);
    expect(received).toEqual([{}, { limit: 3 }, {}]);
  });

  it.each<[string, 'inputSchema' | 'outputSchema']>([
    ['arguments', 'inputSchema'],
    ['result', 'outputSchema'],
  ])('has a pattern for its %s left out that could block the process, and the application starts', async (_, name) => {
    const pattern = '^(?=a)(a+)+$';
    const schema: JSONSchema7 = { type: 'object', properties: { text: { type: 'string', pattern } } };
    const found = toolOf({
      id: 'remote__run',
      schema: name === 'inputSchema' ? schema : { type: 'object' },
      invoke: () => ({ text: ALMOST }),
    });
    const patterned = { ...found, spec: { ...found.spec, [name]: schema } };
    const bench = await Bench.start({ providers: [sourceOf(patterned)], options: { policy: { allow: ['remote__run'] } } });
    expect(bench.logger.warnings().map(({ message }) => message)).toContain(
      'remote: remote__run: Its pattern "^(?=a)(a+)+$" cannot be run in linear time, so it is not applied. Have its source write it shorter, without look-around and back references.',
    );
    const startedAt = performance.now();
    const args = name === 'inputSchema' ? { text: ALMOST } : {};
    const { record } = await bench.run({ policies: [{ allow: ['remote__run'] }] }).exec('remote__run', args);
    expect(record).toMatchObject({ status: 'succeeded' });
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  });

  it('is refused with an output schema that does not compile', async () => {
    const found = toolOf({ id: 'remote__run' });
    const broken: JSONSchema7 = { type: 'object', properties: { a: { $ref: '#/$defs/Missing' } } };
    expect(await findingsOf({ providers: [sourceOf({ ...found, spec: { ...found.spec, outputSchema: broken } })] })).toMatchObject([
      { at: 'remote: remote__run', problem: expect.stringMatching(/^The output schema cannot be used: .*Missing/) },
    ]);
  });

  it('invariant 4: is accepted when it declares all of it', async () => {
    const module = await start({ providers: [sourceOf(toolOf({ id: 'remote__run' }))] });
    expect(module.get(ToolCatalog).describe('remote__run')).toMatchObject({ source: 'remote', trusted: false, perInstance: false });
  });
});

const trusted: ToolOrigin = { source: 'ours', trusted: true };
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
      'remote: crm__Search: Its id "crm__Search" differs only in case from "crm__search", the id of CrmTools.search. Have its source name it otherwise; until then the tool is left out.',
    );
  });

  it('is the one of the two that is not trusted, whichever comes first', async () => {
    const module = await start({ providers: [posing(), sourceOf(toolOf({ id: 'crm__search', origin: trusted }))] });
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

  it('is a finding where its source is trusted', async () => {
    const source = sourceOf(toolOf({ id: 'crm__Search', origin: trusted }));
    expect(await findingsOf({ providers: [CrmTools, source] })).toMatchObject([
      { at: 'ours: crm__Search', problem: 'Its id "crm__Search" differs only in case from "crm__search", the id of CrmTools.search.' },
    ]);
  });
});
