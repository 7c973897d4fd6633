import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import { LlmTool, ToolInput, ToolLoopService, ToolParam, ToolProvider } from '@toolloop/core';
import { type ToolParamOptions } from '@toolloop/core/catalog';
import Core from 'ajv/dist/core.js';
import { IsIn, IsInt, IsString, Matches, Max, Min } from 'class-validator';
import { findingsOf, start } from './application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

class Search {
  @IsString() @Matches(/^late-\d+$/) key!: string;
  @IsIn(['open', 'paid']) state = 'open';
  @IsInt() @Min(1) @Max(50) limit = 20;
}

@Injectable()
@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool(fine) find(@ToolInput() { key, limit }: Search): string {
    return `${key} ${limit}`;
  }

  @LlmTool(fine) read(
    @ToolParam('late', { description: 'A key.', pattern: '^late' }) late: string,
  ): string {
    return late;
  }
}

/** A provider whose one tool takes a parameter with these options. */
function withParameter(options: ToolParamOptions): Type {
  @Injectable()
  @ToolProvider({ namespace: 'desk' })
  class ParameterTools {
    @LlmTool(fine) find(@ToolParam('key', options) key: string): string {
      return key;
    }
  }
  return ParameterTools;
}

describe('the schema that is made of decorators', () => {
  const compile = jest.spyOn(Core.default.prototype, 'compile');
  const compiled = (): readonly unknown[] =>
    compile.mock.calls
      .map(([schema]) => schema)
      .filter((schema) => JSON.stringify(schema).includes('late'));

  beforeEach(() => {
    compile.mockClear();
  });

  it('is compiled by the first call of its tool alone, and neither by the start nor by the next call', async () => {
    const app = await start({ providers: [DeskTools] });
    expect(compiled()).toEqual([]);
    const loop = app.get(ToolLoopService);
    const call = (key: string) =>
      loop.call({ tool: 'desk__find', args: { key }, actor: {}, tenant: 'acme' });
    expect((await call('late-1')).record).toMatchObject({ result: 'late-1 20' });
    expect((await call('other')).record).toMatchObject({ error: { code: 'invalid_args' } });
    expect(compiled()).toHaveLength(1);
    await app.close();
  });

  it('keeps the application from starting all the same where its pattern is none', async () => {
    const findings = await findingsOf({
      providers: [withParameter({ description: 'A key.', pattern: '(late' })],
    });
    expect(findings).toMatchObject([
      {
        at: 'ParameterTools.find',
        problem: expect.stringMatching(/^The input schema cannot be used: .*Invalid/),
      },
    ]);
  });

  it('keeps the application from starting all the same where a list of values has none', async () => {
    const findings = await findingsOf({
      providers: [withParameter({ description: 'A key.', type: 'string', enum: [] })],
    });
    expect(findings.map(({ problem }) => problem)).toEqual([
      '"key" allows no value at all.',
      expect.stringMatching(/^The input schema cannot be used: .*enum/),
    ]);
  });
});
