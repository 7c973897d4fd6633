import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ActorDirectory, type LoopProfile, ToolLoopModule } from '@toolloop/core';
import { RUN_OPTIONS, RunEngine } from '@toolloop/durable';
import { ScriptedModel } from '@toolloop/testing';

afterEach(() => {
  jest.restoreAllMocks();
});

class Staff extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve({ id });
  }
}

@Module({
  providers: [{ provide: RUN_OPTIONS, useValue: {} }, RunEngine],
})
class RunsModule {}

/** What is logged as an application with durable runs starts. */
async function warningsOf(
  loops: Readonly<Record<string, LoopProfile>>,
  providers: readonly (new () => object)[] = [],
): Promise<string[]> {
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new ScriptedModel([]),
        policy: { version: 'v1', allow: ['*'] },
      }),
      ToolLoopModule.forFeature({ loops }),
      RunsModule,
    ],
    providers: [...providers],
  }).compile();
  await module.init();
  await module.close();
  const messages = warn.mock.calls.map(([message]) => String(message));
  warn.mockRestore();
  return messages.filter((message) => message.includes('ActorDirectory'));
}

describe('an application that keeps runs and knows no actors', () => {
  it('is told once as it starts, since every durable run would be refused', async () => {
    expect(await warningsOf({ support: {} })).toEqual([
      expect.stringMatching(
        /There is no ActorDirectory, so every durable run is refused. Provide a class that extends ActorDirectory/,
      ),
    ]);
    expect(await warningsOf({ support: { durable: true } }, [Staff])).toEqual([]);
  });

  it('does not start where a loop is durable', async () => {
    await expect(
      warningsOf({ support: { durable: true }, sales: { durable: false } }),
    ).rejects.toThrow(
      /1 problem[^]*forFeature loops.support: Its runs are durable, but nothing loads their actors/,
    );
  });
});
