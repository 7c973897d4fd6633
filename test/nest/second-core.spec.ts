import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import * as core from '@toolloop/core';
import { dtoSchema } from '@toolloop/core/internal';
import { registerCopy } from '@toolloop/protocol';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsString } from 'class-validator';

class Search {
  @IsString() name!: string;
}

/**
 * A second copy of core and of the protocol, as a library of tools that pins them brings along, and
 * the warnings it makes.
 */
async function secondCopy(): Promise<[typeof core, readonly string[]]> {
  const told = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  registerCopy(
    '@toolloop/core',
    'file:///app/node_modules/parcels/node_modules/@toolloop/core/dist/tool-loop.module.js',
  );
  // core loads the packages of decorators with the first class that it reads: here those that this
  // file imports
  dtoSchema(Search);
  jest.resetModules();
  const copy = await import('@toolloop/core');
  const warnings = told.mock.calls.map(([warning]) => String(warning));
  told.mockRestore();
  return [copy, warnings];
}

const [second, warnings] = await secondCopy();

/** A class of a library, decorated by the copy of core that the library has. */
@second.ToolProvider({ prefix: 'parcel' })
class Parcel {
  @Expose() readonly id = 'p1';

  @second.LlmTool({ description: 'Where this parcel is.', effect: 'read_only', reveal: 'all' })
  place(): string {
    return 'Dublin';
  }
}

@Injectable()
@second.ToolProvider({ namespace: 'parcels' })
class ParcelTools {
  @second.LlmTool({ description: 'Finds a parcel.', effect: 'read_only', output: Parcel })
  find(
    @second.ToolInput() { name }: Search,
    @second.ToolContext() { tenant }: core.ToolCallContext,
  ): Parcel {
    if (tenant !== 'acme') throw new second.ToolError(`${name} is not there.`);
    return new Parcel();
  }

  @second.LlmTool({ description: 'Draws a parcel.', effect: 'read_only', reveal: 'all' })
  draw(): unknown {
    return second.attach('drawn', {
      type: 'image',
      data: Buffer.from('GIF89a'),
      mediaType: 'image/gif',
    });
  }
}

const clock = second.tool({
  id: 'parcels__clock',
  description: 'The time.',
  effect: 'read_only',
  reveal: 'all',
  execute: () => 'noon',
});

@Module({
  imports: [second.ToolLoopModule.forFeature({ entities: [Parcel], tools: [clock] })],
  providers: [ParcelTools],
})
class ParcelModule {}

describe('a library with a copy of core of its own', () => {
  let app: TestingModule;
  const model = new ScriptedModel([
    calls(call('parcels__find', { name: 'shoes' })),
    calls(call('parcel_p1_place'), call('parcels__draw'), call('parcels__clock')),
    text('In Dublin.'),
  ]);
  beforeAll(async () => {
    const policy = { allow: ['parcels__*', 'parcel_*_*'], flow: 'off' } as const;
    app = await Test.createTestingModule({
      imports: [core.ToolLoopModule.forRoot({ model, policy }), ParcelModule],
    }).compile();
    await app.init();
  });
  afterAll(() => app.close());

  it('is told with the addresses of both as soon as it loads', () => {
    expect(second.LlmTool).not.toBe(core.LlmTool);
    expect(warnings).toEqual([expect.stringContaining('There are 2 copies of @toolloop/core: ')]);
  });

  it('brings its tools, entities, raw tools and attachments into the application', async () => {
    const { toolCalls, text: answer } = await app
      .get(core.ToolLoopService)
      .run({ prompt: 'Where is it?', actor: 'alice', tenant: 'acme' });
    expect(toolCalls.map(({ id, status, result }) => [id, status, result])).toEqual([
      ['parcels__find', 'succeeded', { id: 'p1' }],
      ['parcel_p1_place', 'succeeded', 'Dublin'],
      ['parcels__draw', 'succeeded', 'drawn'],
      ['parcels__clock', 'succeeded', 'noon'],
    ]);
    expect(toolCalls[2]?.attachments).toHaveLength(1);
    expect(answer).toBe('In Dublin.');
  });
});

describe('the classes of two copies', () => {
  it('are instances of each other, and nothing else is', () => {
    expect(clock).toBeInstanceOf(core.RawTool);
    expect(second.RawTool).not.toBe(core.RawTool);
    expect(
      [new second.ToolError('No.'), {}, null].filter((value) => value instanceof core.RawTool),
    ).toEqual([]);
  });
});
