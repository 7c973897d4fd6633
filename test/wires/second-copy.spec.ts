import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Test } from '@nestjs/testing';
import * as core from '@toolloop/core';
import { fallback, retried } from '@toolloop/core/models';
import * as protocol from '@toolloop/protocol';
import { answers, LocalProvider, streams } from '../../libs/wire/test/local-provider.js';

/** A second copy of the packages, as a dependency that pins them brings along. */
async function secondCopy(): Promise<[typeof protocol, typeof import('@toolloop/openai')]> {
  jest.resetModules();
  return [await import('@toolloop/protocol'), await import('@toolloop/openai')];
}

const [second, { openai }] = await secondCopy();
const HELLO = streams(
  'data: {"choices":[{"delta":{"content":"Hello."},"finish_reason":"stop"}]}\n\n',
);
const BUSY = answers(503, '{"error":{"message":"Busy."}}', { 'retry-after-ms': '1' });

async function failureOf(model: object): Promise<unknown> {
  const options = { model } as unknown as core.ToolLoopOptions;
  try {
    const module = await Test.createTestingModule({
      imports: [core.ToolLoopModule.forRoot(options)],
    }).compile();
    module.useLogger(false);
    await module.init();
    return await module.close();
  } catch (error) {
    return error;
  }
}

describe('a second copy of the protocol', () => {
  let provider: LocalProvider;
  beforeAll(async () => {
    provider = await LocalProvider.start(BUSY, BUSY, HELLO);
  });
  afterAll(() => provider[Symbol.asyncDispose]());

  it('has classes of its own, of which the instances are recognised', () => {
    expect(second.ModelError).not.toBe(protocol.ModelError);
    expect(new second.ModelError('No.')).toBeInstanceOf(protocol.ModelError);
    expect(new second.ToolError('No.')).not.toBeInstanceOf(protocol.ModelError);
    expect(openai('own-1', { apiKey: 'key' })).toBeInstanceOf(protocol.LanguageModel);
    expect(
      [null, undefined, {}, 'text', new Error('No.')].filter(
        (value) => value instanceof protocol.ModelError,
      ),
    ).toEqual([]);
  });

  it('leaves the classes that extend one apart', () => {
    class Own extends protocol.ToolError {}
    class Other extends protocol.ToolError {}
    expect(new Own('No.')).toBeInstanceOf(Own);
    expect(new Own('No.')).toBeInstanceOf(second.ToolError);
    expect(new Other('No.')).not.toBeInstanceOf(Own);
    expect(new protocol.ToolError('No.')).not.toBeInstanceOf(Own);
  });

  it('brings models that run, with their errors understood and their attempts repeated', async () => {
    const model = openai('own-1', { baseURL: provider.baseURL });
    const module = await Test.createTestingModule({
      imports: [core.ToolLoopModule.forRoot({ model: fallback([retried(model)]) })],
    }).compile();
    await module.init();
    const result = await module
      .get(core.ToolLoopService)
      .run({ prompt: 'Hi', actor: 'alice', tenant: 'acme' });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
    expect(provider.requests).toHaveLength(3);
    await module.close();
  });
});

describe('a model that no copy recognises', () => {
  const foreign = { provider: 'other', modelId: 'own-1', stream: () => [] };

  it('is told as what it is, and not as missing', async () => {
    const error = await failureOf(foreign);
    expect(error).toMatchObject({ name: 'ConfigurationError' });
    expect(String(error)).toContain(
      'an object with stream(), but no LanguageModel that this copy of @toolloop/protocol knows',
    );
    expect(String(error)).not.toContain('There is no model');
    expect(() => retried(foreign as unknown as core.LanguageModel)).toThrow(
      'an object with stream(), but no LanguageModel',
    );
  });

  it('is told with the addresses of the copies where there are several', async () => {
    second.registerCopy(
      '@toolloop/protocol',
      'file:///app/node_modules/other/node_modules/@toolloop/protocol/dist/index.js',
    );
    const message = String(await failureOf(foreign));
    expect(message).toContain('There are 2 copies of @toolloop/protocol: ');
    expect(message).toContain('node_modules/other/node_modules/@toolloop/protocol');
    expect(message).toContain('"npm ls @toolloop/protocol"');
  });

  it('is not there at all where nothing was given', async () => {
    expect(String(await failureOf({}))).toContain(
      'There is no model, or it is not a LanguageModel.',
    );
  });
});

describe('a package', () => {
  const manifests = readdirSync('libs').map(
    (library) =>
      JSON.parse(readFileSync(`libs/${library}/package.json`, 'utf8')) as Record<
        string,
        Record<string, string> | undefined
      >,
  );

  it('takes the core and the protocol of the application, of a range of versions', () => {
    for (const { name, dependencies = {}, peerDependencies = {} } of manifests) {
      expect([name, Object.keys(dependencies)]).not.toEqual([
        name,
        expect.arrayContaining(['@toolloop/core']),
      ]);
      const own = Object.entries({ ...dependencies, ...peerDependencies }).filter(([one]) =>
        one.startsWith('@toolloop/'),
      );
      expect([name, own.filter(([, range]) => /^\d/.test(range))]).toEqual([name, []]);
    }
  });
});
