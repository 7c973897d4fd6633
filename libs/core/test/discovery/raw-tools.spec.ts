import { describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { JSONSchema7 } from 'json-schema';
import { IsInt, IsString, Min } from 'class-validator';
import { ConfigurationError, rawTool, type RawTool, tool, ToolCatalog, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';

class GreetInput {
  @IsString() name!: string;
  @IsInt() @Min(1) times: number = 1;
}

/** Needs nothing of ours. */
class Shout {
  constructor(private readonly options: { readonly mark?: string } = {}) {}

  call({ word }: { readonly word: string }): string {
    return `${word.toUpperCase()}${this.options.mark ?? '!'}`;
  }
}

const WORD: JSONSchema7 = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] };

const shout = rawTool(Shout, {
  as: 'voice__shout',
  description: 'Say a word loudly.',
  effect: 'read_only',
  reveal: 'all',
  input: WORD,
  options: { mark: '?!' },
});

const greet = tool<GreetInput>({
  id: 'voice__greet',
  description: 'Greet somebody.',
  effect: 'read_only',
  input: GreetInput,
  reveal: 'all',
  execute: (input, context) => `${context.tenant}: ${'hello '.repeat(input.times)}${input.name} (${input instanceof GreetInput})`,
});

async function answerOf(tools: readonly RawTool[], name: string, args: object): Promise<unknown> {
  const model = new ScriptedModel([calls(call(name, { ...args })), text('done')]);
  const app = await Test.createTestingModule({ imports: [ToolLoopModule.forRoot({ model, tools, policy: { allow: ['*'] } })] }).compile();
  await app.init();
  const { toolCalls } = await app.get(ToolLoopService).run({ prompt: 'Go.', actor: { id: 'a' }, tenant: 'acme' });
  return toolCalls[0]?.result ?? toolCalls[0]?.error?.code;
}

async function findingsOf(tools: readonly RawTool[]): Promise<unknown> {
  Logger.overrideLogger(false);
  const app = await Test.createTestingModule({ imports: [ToolLoopModule.forRoot({ model: new ScriptedModel([]), tools })] }).compile();
  return app.init().then(
    () => [],
    (error: unknown) => (error instanceof ConfigurationError ? error.findings.map(({ at, problem }) => `${at}: ${problem}`) : error),
  );
}

describe('a raw tool', () => {
  it('receives its DTO and the context when it is made of a function', async () => {
    expect(await answerOf([greet], 'voice__greet', { name: 'Ada', times: 2 })).toBe('acme: hello hello Ada (true)');
  });

  it('receives its options once and its arguments each time when it is made of a class that has only `call`', async () => {
    expect(await answerOf([shout], 'voice__shout', { word: 'fire' })).toBe('FIRE?!');
  });

  it('is validated as any tool is', async () => {
    expect(await answerOf([shout], 'voice__shout', { word: 3 })).toBe('invalid_args');
    expect(await answerOf([shout], 'voice__shout', { word: 'a', tenant: 'globex' })).toBe('tenant_override');
    expect(await answerOf([shout], 'voice__shout', { word: 'a', other: 1 })).toBe('invalid_args');
  });

  it('is selected by its class, its id and its short name', async () => {
    const app = await Test.createTestingModule({
      imports: [ToolLoopModule.forRoot({ model: new ScriptedModel([]), tools: [shout, greet] })],
    }).compile();
    await app.init();
    const catalog = app.get(ToolCatalog);
    const ids = (selector: string | typeof Shout): string[] => catalog.build({ tools: [selector] }).map(({ spec }) => spec.id);
    expect(ids(Shout)).toEqual(['voice__shout']);
    expect(ids('greet')).toEqual(['voice__greet']);
    expect(ids('voice__*')).toEqual(['voice__shout', 'voice__greet']);
  });

  it('stops the application when its declaration is incomplete', async () => {
    const findings = await findingsOf([
      rawTool(Shout),
      rawTool(Shout, { as: 'not an id', description: 'x', effect: 'read_only', reveal: 'all' }),
    ]);
    expect(findings).toEqual([
      'Shout: The tool has no description.',
      'Shout: The tool declares no effect.',
      'Shout: The tool does not say which data may leave it.',
      'Shout: "" is not a tool id that every model provider accepts.',
      'Shout: "not an id" is not a tool id that every model provider accepts.',
    ]);
  });

  it('comes with a feature as well', async () => {
    const model = new ScriptedModel([]);
    const app = await Test.createTestingModule({
      imports: [ToolLoopModule.forRoot({ model }), ToolLoopModule.forFeature({ tools: [shout] })],
    }).compile();
    await app.init();
    expect(
      app
        .get(ToolCatalog)
        .list()
        .map(({ id }) => id),
    ).toEqual(['voice__shout']);
  });
});
