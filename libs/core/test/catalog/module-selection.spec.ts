import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Module } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { LlmTool, tool, ToolLoopModule, ToolLoopService, ToolProvider } from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { RecordingLogger, start } from '../tools/application.js';

const READ = { description: 'Reads.', effect: 'read_only', reveal: 'all' } as const;

@ToolProvider({ prefix: 'deal' })
class Deal {
  @Expose() readonly id: string = 'd-1';

  @LlmTool(READ)
  worth(): number {
    return 1;
  }
}

@ToolProvider({ namespace: 'sales' })
class SalesTools {
  @LlmTool({ description: 'Opens.', effect: 'read_only', output: Deal })
  open(): Deal {
    return new Deal();
  }
}

@Controller('forecasts')
class ForecastController {
  @Get()
  @LlmTool(READ)
  next(): number {
    return 7;
  }
}

@ToolProvider({ namespace: 'hr' })
class HrTools {
  @LlmTool({ description: 'Finds the best.', effect: 'read_only', output: Deal })
  bestDeal(): Deal {
    return new Deal();
  }
}

const note = tool({
  id: 'notes__read',
  description: 'Reads.',
  effect: 'read_only',
  reveal: 'all',
  execute: () => 'none',
});

@Module({
  imports: [ToolLoopModule.forFeature({ entities: [Deal], tools: [note] })],
  providers: [SalesTools],
  controllers: [ForecastController],
})
class SalesModule {}

@Module({ imports: [SalesModule], providers: [HrTools] })
class HrModule {}

@Module({ imports: [HrModule] })
class EmptyModule {}

const ada = { actor: { id: 'ada' }, tenant: 'acme' };

let module: TestingModule | undefined;

afterEach(() => module?.close());

async function application(
  model = new ScriptedModel([]),
  logger = new RecordingLogger(),
  limits = {},
) {
  module = await start({ imports: [EmptyModule], options: { model, limits }, logger });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const idsOf = async (request: object): Promise<string[]> =>
    (await loop.list({ ...ada, ...request })).map(({ id }) => id);
  return { loop, idsOf };
}

describe('a Nest module as a selector', () => {
  it('selects the tools of its providers, its controllers and its features, and none of the modules that it imports', async () => {
    const { idsOf } = await application();
    expect((await idsOf({ tools: [SalesModule] })).toSorted()).toEqual([
      'forecast__next',
      'notes__read',
      'sales__open',
    ]);
    expect(await idsOf({ tools: [HrModule] })).toEqual(['hr__bestDeal']);
  });

  it('excludes them, with the tools of the entities that it brings', async () => {
    const model = new ScriptedModel([
      calls(call('hr__bestDeal')),
      text('Done.'),
      calls(call('hr__bestDeal')),
      text('Done.'),
    ]);
    const { loop, idsOf } = await application(model);
    expect(await idsOf({ exclude: [SalesModule] })).toEqual(['hr__bestDeal']);
    const injectedInto = async (request: object) =>
      (await loop.run({ prompt: 'Open it.', ...ada, ...request })).injectedTools.map(
        ({ id }) => id,
      );
    expect(await injectedInto({ exclude: [SalesTools] })).toEqual(['deal_d-1_worth']);
    expect(await injectedInto({ exclude: [SalesModule] })).toEqual([]);
  });

  it('is refused where it contributes nothing itself', async () => {
    const { idsOf } = await application();
    await expect(idsOf({ tools: [EmptyModule] })).rejects.toThrow(
      'There is no tool of the class EmptyModule.',
    );
  });
});

describe('limits.offeredTools', () => {
  it('warns once for a loop that offers more tools, and changes nothing else', async () => {
    const logger = new RecordingLogger();
    const { loop } = await application(new ScriptedModel([text('One.'), text('Two.')]), logger, {
      offeredTools: 3,
    });
    expect((await loop.run({ prompt: 'Hi', ...ada })).text).toBe('One.');
    await loop.run({ prompt: 'Hi', ...ada });
    const warnings = logger
      .warnings()
      .filter(({ message }) => String(message).includes('limits.offeredTools'));
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringContaining('A run offers its model 4 tools'),
    ]);
  });

  it('says nothing of a run that offers as many', async () => {
    const logger = new RecordingLogger();
    const { loop } = await application(new ScriptedModel([text('One.')]), logger, {
      offeredTools: 4,
    });
    await loop.run({ prompt: 'Hi', ...ada });
    expect(
      logger.warnings().filter(({ message }) => String(message).includes('limits.offeredTools')),
    ).toEqual([]);
  });
});
