import { describe, expect, it } from '@jest/globals';
import {
  LlmTool,
  type LoopEvent,
  type LoopRequest,
  ToolError,
  type ToolInvocationRecord,
  type ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, calls, collect, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import { resultOf, resultsIn } from '../../fixtures/played-run.js';
import { ask, openShop } from '../../fixtures/shop.module.js';
import {
  SURFACES,
  over,
  show,
  type KnownSurface,
  type SaidCall,
} from '../entities/surface-calls.js';

/** Whose method takes arguments of the names that surfaces use themselves. */
@ToolProvider({ prefix: 'box' })
class Box {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'Puts something in.', effect: 'state_change', reveal: 'all' })
  put(
    @ToolParam('id', { description: 'Of the thing' }) id: string,
    @ToolParam('args', { description: 'How many', default: 2, minimum: 1, maximum: 5 })
    args: number,
    @ToolParam('note', { description: 'Why', required: false }) note?: string,
  ): string {
    if (note === 'fail') throw new ToolError('It is full.');
    return `${this.id}: ${args} of ${id}${note ?? ''}`;
  }

  @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all' })
  look(): string {
    return this.id;
  }
}

/**
 * Everything that can be told of a call from outside, but for what differs between any two runs.
 */
interface Told {
  readonly record: object | undefined;
  readonly content: string | undefined;
  readonly events: readonly object[];
}

const boxes = (key: string) => key.split(',').map((id) => new Box(id));
const policy = { allow: ['*'], flow: 'off' } as const;

async function tell(
  loop: ToolLoopService,
  surface: KnownSurface,
  said: SaidCall,
  request: Partial<LoopRequest> = {},
): Promise<Told> {
  const model = new ScriptedModel([show('a,b'), calls(over(surface, said)), text('Done.')]);
  const handle = loop.open(ask({ model, surface, context: { act: boxes }, ...request }));
  const events = await collect(handle.events$);
  const result = await resultOf(handle);
  return {
    record: stripped(result.toolCalls[1]),
    content: withoutReference(resultsIn(result.messages)[1]),
    events: events.flatMap(lifeOf),
  };
}

function stripped(record: ToolInvocationRecord | undefined): object | undefined {
  if (!record) return undefined;
  const { startedAt: _s, endedAt: _e, durationMs: _d, error, ...rest } = record;
  return {
    ...rest,
    ...(error && { error: { ...error, correlationId: error.correlationId && 'some' } }),
  };
}

function withoutReference(content: string | undefined): string | undefined {
  return content?.replace(/Reference [0-9a-f-]+/, 'Reference');
}

function lifeOf(event: LoopEvent): object[] {
  if (event.type === 'tool-result' && event.record.step === 2)
    return [{ type: event.type, record: stripped(event.record) }];
  if (event.type !== 'tool-call' && event.type !== 'tool-start') return [];
  const { runId: _r, sequence: _s, timestamp: _t, ...rest } = event;
  return event.step === 2 ? [rest] : [];
}

async function expectSame(
  loop: ToolLoopService,
  said: SaidCall,
  request: Partial<LoopRequest> = {},
): Promise<Told> {
  const [named, ...others] = await Promise.all(
    SURFACES.map((surface) => tell(loop, surface, said, request)),
  );
  for (const other of others) expect(other).toEqual(named);
  if (!named) throw new Error('nothing was told');
  return named;
}

const put = (args?: string): SaidCall => ({
  prefix: 'box',
  id: 'a',
  method: 'put',
  ...(args !== undefined && { args }),
});
const open = () => openShop(new ScriptedModel([]), { entities: [Box], policy });

describe('the same arguments come to the same, over every surface', () => {
  it.each<[string, string | undefined, string]>([
    ['valid ones', '{"id":"x","args":3}', 'a: 3 of x'],
    ['defaults', '{"id":"x"}', 'a: 2 of x'],
    ['null for what is optional', '{"id":"x","note":null}', 'a: 2 of x'],
    ['a failure of the tool', '{"id":"x","note":"fail"}', 'It is full.'],
    ['none', undefined, 'invalid_args'],
    ['null for all of them', 'null', 'invalid_args'],
    ['a wrong type', '{"id":7}', 'invalid_args'],
    ['one too many', '{"id":"x","more":1}', 'invalid_args'],
    ['a number out of range', '{"id":"x","args":9}', 'invalid_args'],
    ['a number too large', '{"id":"x","args":1e999}', 'invalid_args'],
    ['a reserved name', '{"id":"x","tenantId":"globex"}', 'tenant_override'],
    ['a reserved name, deep', '{"id":"x","note":{"actor":{"id":1}}}', 'tenant_override'],
    ['a list', '[1]', 'invalid_args'],
    ['a text', '"x"', 'invalid_args'],
    ['a name of the prototype', '{"id":"x","__proto__":{"args":1}}', 'invalid_args'],
  ])('%s', async (_, args, expected) => {
    const { content } = await expectSame(await open(), put(args));
    expect(content).toContain(expected);
  });

  it('holds for too large ones', async () => {
    const args = JSON.stringify({ id: 'x', note: 'n'.repeat(200) });
    const { content } = await expectSame(await open(), put(args), {
      limits: { argumentBytes: 100 },
    });
    expect(content).toContain(`have ${args.length} bytes; at most 100`);
  });

  it('holds under a policy that reads the arguments', async () => {
    const strict = { allow: ['*'], requireApproval: [{ tools: ['box_*_put'] }] };
    const { content } = await expectSame(await open(), put('{"id":"x"}'), {
      policy: strict,
      approvals: 'deny',
    });
    expect(content).toContain('approval_denied');
  });

  it('holds for any arguments (property)', async () => {
    const loop = await open();
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom<unknown>('x', 1, 3, null, 'fail'),
    );
    const name = fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom('id', 'args', 'note') },
      fc.constantFrom('tenant', 'entity', 'method', '', 'constructor'),
    );
    const args = fc.oneof(
      { weight: 5, arbitrary: fc.dictionary(name, value).map((one) => JSON.stringify(one)) },
      fc.jsonValue().map((one) => JSON.stringify(one)),
    );
    await fc.assert(
      fc.asyncProperty(args, async (one) => {
        await expectSame(loop, put(one));
      }),
      { numRuns: cases(60) },
    );
  });
});

const look = (id: string): SaidCall => ({ prefix: 'box', id, method: 'look' });
const dispatched = (entity: string, method: string) => ({
  name: 'entity__call',
  arguments: JSON.stringify({ entity, id: 'a', method }),
});

describe('what means no instance', () => {
  it.each(['grouped', 'dispatcher'] as const)(
    'is told the closest over the surface %s, and nothing is made',
    async (surface) => {
      const near = new ScriptedModel([
        show('box-1,box-2'),
        calls(over(surface, look('box_1'))),
        text('Done.'),
      ]);
      const { messages, toolCalls } = await (
        await open()
      ).open(ask({ model: near, surface, context: { act: boxes } })).result;
      expect(resultsIn(messages)[1]).toMatch(
        /There is no box \\"box_1\\" in this run\. Did you mean \\"box-1\\"/,
      );
      expect(toolCalls[1]).toMatchObject({ status: 'failed', error: { code: 'invalid_args' } });
    },
  );

  it('is told what there is where nothing is close, some of it', async () => {
    const loop = await open();
    const ids = Array.from({ length: 9 }, (_, index) => `box-${index}`).join(',');
    const model = new ScriptedModel([
      show(ids),
      calls(over('grouped', look('completely else'))),
      text('Done.'),
    ]);
    const { messages } = await loop.open(
      ask({ model, surface: 'grouped', context: { act: boxes } }),
    ).result;
    expect(resultsIn(messages)[1]).toMatch(
      /There are \\"box-4\\", .*\\"box-8\\" and 4 more\. For any other, call a tool that returns it first\./,
    );
  });

  it.each<[string, string, string]>([
    ['no JSON', '{"id":"a"', 'invalid_json'],
    ['an id that is no text', '{"id":7}', 'invalid_args'],
    ['no id', '{}', 'invalid_args'],
    ['arguments beside the id', '{"id":"a","note":"x"}', 'invalid_args'],
    ['null', 'null', 'invalid_args'],
  ])('is an error for %s, which is not guessed at', async (_, args, code) => {
    const model = new ScriptedModel([
      show('a'),
      calls({ name: 'box__put', arguments: args }),
      text('Done.'),
    ]);
    const { toolCalls } = await (
      await open()
    ).open(ask({ model, surface: 'grouped', context: { act: boxes } })).result;
    expect(toolCalls[1]).toMatchObject({
      id: 'box__put',
      declaredId: 'box_*_put',
      status: 'failed',
      error: { code },
    });
  });

  it.each<[string, string, string]>([
    ['an entity that is none', '{"entity":"chest","id":"a","method":"look"}', 'invalid_args'],
    ['a method that is none', '{"entity":"box","id":"a","method":"lock"}', 'unknown_tool'],
    [
      'an entity that nothing has returned',
      '{"entity":"cart","id":"a","method":"list"}',
      'invalid_args',
    ],
  ])('is an error over a dispatcher %s', async (_, args, code) => {
    const model = new ScriptedModel([
      show('a'),
      calls({ name: 'entity__call', arguments: args }),
      text('Done.'),
    ]);
    const { toolCalls } = await (
      await open()
    ).open(ask({ model, surface: 'dispatcher', context: { act: boxes } })).result;
    expect(toolCalls[1]).toMatchObject({ id: 'entity__call', status: 'failed', error: { code } });
  });

  it('a name of the prototype is no method and no entity', async () => {
    const model = new ScriptedModel([
      show('a'),
      calls(dispatched('box', 'constructor'), dispatched('__proto__', 'look')),
      text('Done.'),
    ]);
    const { toolCalls } = await (
      await open()
    ).open(ask({ model, surface: 'dispatcher', context: { act: boxes } })).result;
    expect(toolCalls.slice(1).map(({ error }) => error?.code)).toEqual([
      'unknown_tool',
      'invalid_args',
    ]);
  });
});
