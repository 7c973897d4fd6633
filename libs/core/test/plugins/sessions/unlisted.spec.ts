import { describe, expect, it } from '@jest/globals';
import { LlmTool, tool, ToolLoopService, ToolProvider } from '@toolloop/core';
import { calls, call, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { alice } from '../../fixtures/approval.shop.js';
import { openModule } from '../../fixtures/shop.module.js';

const manual = (id: string, unlisted?: boolean) =>
  tool({
    id,
    description: `Reads ${id}.`,
    effect: 'read_only',
    reveal: 'all',
    ...(unlisted !== undefined && { unlisted }),
    execute: () => `${id} was read`,
  });

describe('an unlisted tool', () => {
  it('is offered to no model, which is told that there is none, and is called by its id without one', async () => {
    const model = new ScriptedModel([calls(call('kept', {})), text('Done.')]);
    const module = await openModule(model, {
      tools: [manual('shown', false), manual('kept', true)],
      policy: { version: '1', allow: ['shown', 'kept'] },
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    expect((await loop.list(alice)).map(({ id }) => id)).toEqual(['shown']);
    const { toolCalls } = await loop.run({
      ...alice,
      prompt: 'Read it.',
      tools: ['kept', 'shown'],
    });
    expect(toolCalls[0]?.error?.code).toBe('unknown_tool');
    expect((await loop.call({ ...alice, tool: 'kept' })).ui).toBe('kept was read');
    const session = await loop.session(alice);
    expect((await session.list()).map(({ id }) => id)).toEqual(['shown', 'kept']);
    expect((await session.call('kept')).ui).toBe('kept was read');
  });

  it('is denied by policy like any other', async () => {
    const module = await openModule(new ScriptedModel([]), {
      tools: [manual('kept', true)],
      policy: { version: '1', allow: [] },
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    expect((await loop.call({ ...alice, tool: 'kept' })).record.status).toBe('denied');
  });

  it('is a finding on an entity, whose tools come with a result', async () => {
    @ToolProvider({ prefix: 'leaf', instanceIdProperty: 'id' })
    class Leaf {
      @Expose() readonly id = 'l1';

      @LlmTool({ description: 'Turns.', effect: 'read_only', reveal: 'all', unlisted: true })
      turn(): string {
        return this.id;
      }
    }
    await expect(openModule(new ScriptedModel([]), { entities: [Leaf] })).rejects.toThrow(
      /Leaf\.turn: It is unlisted and a tool of an entity/,
    );
  });
});
