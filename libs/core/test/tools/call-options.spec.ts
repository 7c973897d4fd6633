import { describe, expect, it } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import { LlmTool, tool, type Tool, ToolProvider, ToolSource } from '@toolloop/core';
import { findingsOf, start } from './application.js';
import { toolOf } from './tools.js';

const writes = { description: 'Does it.', effect: 'state_change', reveal: 'all' } as const;

function providerOf(options: object): Type {
  @Injectable()
  @ToolProvider({ namespace: 'demo' })
  class DemoTools {
    @LlmTool({ ...writes, ...options }) run(): void {}
  }
  return DemoTools;
}

function sourceOf(options: object): Type<ToolSource> {
  return class extends ToolSource {
    readonly origin = { source: 'ours', trusted: true };
    override tools(): readonly Tool[] {
      return [
        { ...toolOf({ id: 'demo_run', effect: 'state_change', origin: this.origin }), ...options },
      ];
    }
  };
}

const mistakes: [object, string][] = [
  ...[0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY].map((concurrency): [object, string] => [
    { concurrency },
    `Its concurrency is ${concurrency}.`,
  ]),
  [{ concurrency: '2' }, 'Its concurrency is "2".'],
  [{ idempotencyKey: 'orderId' }, 'Its idempotencyKey is "orderId".'],
  [{ idempotencyKey: () => 'k', idempotencyScope: 'all' }, 'Its idempotencyScope is "all".'],
  [{ idempotencyScope: 'tenant' }, 'It has an idempotencyScope, but no idempotencyKey.'],
  [{ idempotent: 'yes' }, 'Its idempotent is "yes".'],
];

describe('the options of all calls of a tool together', () => {
  it.each(mistakes)('are checked at the start: %p', async (options, problem) => {
    const application = {
      providers: [providerOf(options)],
      options: { tools: [tool({ ...writes, ...options, id: 'raw', execute: () => 1 })] },
    };
    expect(await findingsOf(application)).toMatchObject([
      { at: 'DemoTools.run', problem },
      { at: 'tool raw', problem },
    ]);
  });

  it.each(mistakes)('are checked of a tool of a source: %p', async (options, problem) => {
    expect(await findingsOf({ providers: [sourceOf(options)] })).toMatchObject([
      { at: 'ours: demo_run', problem },
    ]);
  });

  it('hold a key for tools that change things only', async () => {
    const options = { effect: 'read_only', idempotencyKey: () => 'k' };
    expect(await findingsOf({ providers: [providerOf(options)] })).toMatchObject([
      {
        problem: 'It only reads and has an idempotencyKey, which is never used.',
        remedy: 'Leave it out.',
      },
    ]);
  });

  it('hold idempotent for tools that change things only', async () => {
    expect(
      await findingsOf({ providers: [providerOf({ effect: 'read_only', idempotent: true })] }),
    ).toMatchObject([
      {
        problem: 'It only reads and says that it is idempotent, which is never used.',
        remedy: 'Leave it out.',
      },
    ]);
  });

  it('start the application when they are right', async () => {
    await expect(
      start({ providers: [providerOf({ concurrency: 3, idempotencyKey: () => 'k' })] }),
    ).resolves.toBeDefined();
  });
});
