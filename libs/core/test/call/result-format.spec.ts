import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  type ExecutionOptions,
  type JsonValue,
  LlmTool,
  tool,
  type Tool,
  type ToolLoopOptions,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { toolOf } from '../tools/tools.js';
import { Bench, type RunOptions } from './bench.js';

const envelope = { resultFormat: 'envelope' } as const;
const inline = { metadata: 'inline' } as const;

class Customer {
  @Expose() id = 'c1';
  @Expose({ groups: ['model'] }) email = 'ada@acme.test';
  @Expose({ groups: ['ui'] }) phone = '555';
  passwordHash = 'hash';
}

/** What is handed to `humanReadable`. */
const worded: JsonValue[] = [];

@Injectable()
@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool({
    description: 'Finds.',
    effect: 'read_only',
    output: Customer,
    humanReadable: (result) => {
      worded.push(result);
      return 'Found Ada.';
    },
  })
  find(): Customer {
    return new Customer();
  }

  @LlmTool({ description: 'Loses.', effect: 'read_only', output: Customer })
  lose(): Customer {
    return 4 as never;
  }
}

async function parsed(
  options: RunOptions,
  id: string,
  args: unknown = {},
): Promise<{ model: unknown; ui: unknown; status: string }> {
  const bench = await Bench.start({ providers: [CrmTools] });
  const { content, record } = await bench.run(options).exec(id, args);
  return { model: JSON.parse(content), ui: record.result, status: record.status };
}

const returning = (value: unknown, more: Partial<Tool> = {}): Tool => ({
  ...toolOf({ id: 'run', origin: { source: 'here', trusted: true }, invoke: () => value }),
  ...more,
});

const speechless = (): string => {
  throw new Error('no words');
};

const metadata = {
  duration_ms: expect.any(Number),
  timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
};

describe('the envelope', () => {
  it('is read by the model; the ui keeps the plain value', async () => {
    const { model, ui } = await parsed({ execution: envelope }, 'crm__find');
    const result = { id: 'c1', email: 'ada@acme.test' };
    expect(model).toEqual({ ok: true, type: 'crm__find', result, human_readable: 'Found Ada.' });
    expect(ui).toEqual({ id: 'c1', phone: '555' });
    expect(worded.splice(0)).toEqual([result]);
  });

  it('is all that a sentence is made for', async () => {
    await parsed({}, 'crm__find');
    expect(worded).toEqual([]);
  });

  it.each<[unknown, JsonValue]>([
    ['text', 'text'],
    [null, null],
    [undefined, null],
    [
      [1, 2],
      [1, 2],
    ],
  ])('holds any result: %j', async (value, result) => {
    expect((await parsed({ execution: envelope, tools: [returning(value)] }, 'run')).model).toEqual(
      { ok: true, type: 'run', result },
    );
  });

  it('does without a sentence that cannot be made', async () => {
    const bench = await Bench.start();
    const outcome = await bench
      .run({ execution: envelope, tools: [returning(1, { humanReadable: speechless })] })
      .exec('run');
    expect(outcome).toMatchObject({
      content: '{"ok":true,"type":"run","result":1}',
      record: { status: 'succeeded' },
    });
    expect(bench.logger.warnings()).toHaveLength(1);
  });

  it('says what went wrong', async () => {
    const { model, status } = await parsed({ execution: envelope }, 'crm__lose');
    expect(status).toBe('failed');
    expect(model).toEqual({
      ok: false,
      type: 'crm__lose',
      errors: [expect.objectContaining({ code: 'invalid_output', status: '500' })],
    });
  });

  it.each<Partial<ExecutionOptions>>([envelope, {}])(
    'does not tell a denied tool from one that does not exist: %j',
    async (app) => {
      const denied = {
        ...returning(1),
        execution: { resultFormat: 'envelope', logging: false },
      } as const;
      const policies = [{ allow: ['crm__*'] }];
      const bench = await Bench.start({ providers: [CrmTools], options: { execution: app } });
      const [one, other] = [
        bench.run({ tools: [denied], policies }),
        bench.run({ tools: [], policies }),
      ];
      const [refused, unknown] = [
        await one.exec('run', { a: 1 }),
        await other.exec('run', { a: 1 }),
      ];
      expect(refused.record.error?.code).toBe('policy_denied');
      expect(refused.content).toBe(unknown.content);
      expect(refused.content.startsWith('{"ok":false,"type":"run","errors":[')).toBe(
        app === envelope,
      );
    },
  );

  it('is within the byte budget', async () => {
    const tools = [returning('x'.repeat(5000))];
    const bench = await Bench.start();
    const { content, record } = await bench
      .run({ tools, execution: envelope, limits: { resultBytes: 1000 } })
      .exec('run');
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(1000);
    expect(content.startsWith('{"ok":true,"type":"run","result":"xxx')).toBe(true);
    expect(record).toMatchObject({
      truncated: true,
      resultBytes: 5000 + '{"ok":true,"type":"run","result":""}'.length,
    });
  });

  it('is told again as it was when a call is answered from the journal', async () => {
    const tools = [
      { ...returning({ n: 1 }), spec: { ...returning(1).spec, effect: 'state_change' as const } },
    ];
    const bench = await Bench.start();
    const options = { tools, execution: { ...envelope, ...inline }, requestId: 'r' };
    const [first, second] = [
      await bench.run(options).exec('run'),
      await bench.run(options).exec('run'),
    ];
    expect(second.content).toBe(first.content);
    expect(second.record.result).toEqual(first.record.result);
  });
});

describe('inline metadata', () => {
  it('is in the projections for model and ui', async () => {
    const { model, ui } = await parsed({ execution: inline, agentName: 'clerk' }, 'crm__find');
    const added = { ...metadata, tool_name: 'crm__find', agent_name: 'clerk' };
    expect(model).toEqual({ id: 'c1', email: 'ada@acme.test', _execution_metadata: added });
    expect(ui).toEqual({ id: 'c1', phone: '555', _execution_metadata: added });
  });

  it.each([[[1]], ['"text"'], [null], [4]])('is not in what is no object: %j', async (value) => {
    const bench = await Bench.start();
    const { content, record } = await bench
      .run({ execution: inline, tools: [returning(value)] })
      .exec('run');
    expect([content, record.result]).toEqual([
      typeof value === 'string' ? value : JSON.stringify(value),
      value,
    ]);
  });

  it('stands in the result of an envelope, and cannot be forged by it', async () => {
    const tools = [returning({ a: 1, _execution_metadata: 'mine' })];
    const { model } = await parsed({ execution: { ...inline, ...envelope }, tools }, 'run');
    expect(model).toEqual({
      ok: true,
      type: 'run',
      result: { a: 1, _execution_metadata: { ...metadata, tool_name: 'run' } },
    });
  });

  it('is no part of what the output schema describes', async () => {
    const outputSchema = {
      type: 'object',
      properties: { a: { type: 'number' } },
      additionalProperties: false,
    } as const;
    const base = returning({ a: 1 });
    const tools = [{ ...base, spec: { ...base.spec, outputSchema } }];
    expect(await parsed({ execution: inline, tools }, 'run')).toMatchObject({
      status: 'succeeded',
      model: { a: 1, _execution_metadata: metadata },
    });
  });

  it.each<[Partial<ToolLoopOptions>, string]>([
    [{ agentName: 'clerk' }, 'clerk'],
    [{}, new ScriptedModel([]).modelId],
  ])('names who called: %j', async (options, agent_name) => {
    const echo = tool({
      id: 'raw__run',
      description: 'Runs.',
      effect: 'read_only',
      reveal: 'all',
      execution: inline,
      execute: () => ({}),
    });
    const model = new ScriptedModel([calls(call('raw__run', {})), text('Done.')]);
    const bench = await Bench.start({ options: { model, tools: [echo], ...options } });
    const { toolCalls } = await bench.module
      .get(ToolLoopService)
      .run({ prompt: 'Go.', actor: { id: 'ada' }, tenant: 'acme' });
    expect(toolCalls[0]?.result).toEqual({
      _execution_metadata: { ...metadata, tool_name: 'raw__run', agent_name },
    });
  });
});
