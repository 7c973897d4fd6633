import { afterEach, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  type LanguageModel,
  type Message,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { assemble, type AssistantMessage, type ToolCall } from '@toolloop/protocol';
import { openai } from '@toolloop/openai';
import { type CompatibleServer, PlayedServer, SERVERS, unwanted } from './compatible-servers.js';

let app: TestingModule | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
});

const look = tool({
  id: 'desk__look',
  description: 'Looks a number up.',
  input: {
    type: 'object',
    properties: { id: { type: 'integer' } },
    required: ['id'],
    additionalProperties: false,
  },
  effect: 'read_only',
  reveal: 'all',
  execute: () => 42,
});

async function loopOf(model: LanguageModel): Promise<ToolLoopService> {
  app = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model, policy: { allow: ['desk__*'] }, tools: [look] })],
  }).compile();
  await app.init();
  return app.get(ToolLoopService);
}

function modelAt(played: PlayedServer): LanguageModel {
  const { baseURL, model } = played.server;
  return openai(model, { baseURL, apiKey: 'sk-own', fetch: played.fetch });
}

describe.each(SERVERS.map((server) => [server.name, server] as const))('%s', (_name, server) => {
  it('sees in the second question of a conversation all that it wants to see again', async () => {
    const played = new PlayedServer(server);
    const loop = await loopOf(modelAt(played));
    const first = await loop.run({
      prompt: 'What is 7?',
      conversationId: 'c',
      actor: { id: 'ann' },
      tenant: 'acme',
    });
    const second = await loop.run({
      prompt: 'And again?',
      conversationId: 'c',
      actor: { id: 'ann' },
      tenant: 'acme',
    });
    expect([first.text, second.text]).toEqual([textOf(server, 1), textOf(server, 3)]);
    expect(played.bodies).toHaveLength(4);
  });

  it.each(SERVERS.filter((other) => other !== server).map((other) => [other.name, other] as const))(
    'takes over a conversation that %s began, and sees none of its data',
    async (_other, other) => {
      const begun = await asked(modelAt(new PlayedServer(other)), [], 2);
      const played = new PlayedServer(server, 2);
      const messages = await asked(modelAt(played), begun, 4);
      expect(messages.at(-1)).toMatchObject({ role: 'assistant', content: textOf(server, 3) });
      expect(played.bodies).toHaveLength(4);
    },
  );
});

describe('a server that is in no table', () => {
  const [deepSeek] = SERVERS as unknown as readonly [CompatibleServer];

  it('is asked once more where it says that it wants the reasoning, and known from then on', async () => {
    const begun = await asked(modelAt(new PlayedServer(named('OpenAI'))), [], 2);
    const played = new PlayedServer({ ...deepSeek, baseURL: 'https://gateway.example/v1' }, 2);
    const messages = await asked(modelAt(played), begun, 4);
    expect(messages.at(-1)).toMatchObject({ content: 'Again 42.' });
    expect(played.bodies).toHaveLength(5);
  });

  it('is asked once more without the reasoning where it refuses it', async () => {
    const answers = unwanted(deepSeek.answers);
    const played = new PlayedServer({
      ...deepSeek,
      answers,
      required: {},
      baseURL: 'https://gateway.example/v1',
      isStrict: true,
    });
    const messages = await asked(modelAt(played), [], 4);
    expect(messages.at(-1)).toMatchObject({ content: 'Again 42.' });
    expect(played.bodies).toHaveLength(5);
  });

  it('is asked twice at most: a refusal that stays is an error', async () => {
    const played = new PlayedServer(
      {
        ...deepSeek,
        required: { reasoning_content: 'What it can never be.' },
        baseURL: 'https://gateway.example',
      },
      2,
    );
    const begun = await asked(modelAt(new PlayedServer(named('OpenAI'))), [], 2);
    await expect(asked(modelAt(played), begun, 1)).rejects.toMatchObject({
      name: 'ModelError',
      status: 400,
    });
    expect(played.bodies).toHaveLength(2);
  });

  it('may be one behind OpenRouter, whose words stand in the metadata alone', async () => {
    const begun = await asked(modelAt(new PlayedServer(named('OpenAI'))), [], 2);
    const behind = new PlayedServer(deepSeek, 2);
    const fetch: typeof behind.fetch = async (url, init) => {
      const response = await behind.fetch(url, init);
      if (response.ok) return response;
      const metadata = { raw: await response.text(), provider_name: 'DeepSeek' };
      return Response.json(
        { error: { message: 'Provider returned error', code: 400, metadata } },
        { status: 400 },
      );
    };
    const model = openai('deepseek/deepseek-v4-pro', {
      baseURL: 'https://openrouter.ai/api/v1',
      apiKey: 'sk-own',
      fetch,
    });
    expect((await asked(model, begun, 4)).at(-1)).toMatchObject({ content: 'Again 42.' });
  });
});

function named(name: string): CompatibleServer {
  const found = SERVERS.find((server) => server.name === name);
  if (!found) throw new Error(`There is no server ${name}.`);
  return found;
}

function textOf({ answers }: CompatibleServer, index: 0 | 1 | 2 | 3): string {
  const pieces = answers[index].deltas.map((delta) =>
    'content' in delta && typeof delta.content === 'string' ? delta.content : '',
  );
  return pieces.join('');
}

/**
 * Asks a model until it has given so many answers, with a result for each of its calls, and a
 * further question behind each answer without one.
 */
async function asked(
  model: LanguageModel,
  before: readonly Message[],
  answers: number,
): Promise<readonly Message[]> {
  const messages: Message[] = [...before];
  for (let count = 0; count < answers; count += 1) {
    if (messages.at(-1)?.role !== 'tool') messages.push({ role: 'user', content: 'What is 7?' });
    const {
      text: content,
      toolCalls,
      providerData,
    } = await assemble(
      model.stream({ messages: [...messages], tools: [] }, new AbortController().signal),
    );
    // The ids of a transcript are unique, as the loop makes them.
    const step = messages.length;
    const calls = toolCalls.map(
      ({ toolCallId: providerCallId, name, arguments: text }, index): ToolCall => {
        return { toolCallId: `call_${step}_${index}`, providerCallId, name, arguments: text };
      },
    );
    const answer: AssistantMessage = {
      role: 'assistant',
      content,
      ...(calls.length > 0 && { toolCalls: calls }),
      providerData,
    };
    messages.push(
      answer,
      ...calls.map(
        ({ toolCallId }) =>
          ({ role: 'tool', toolCallId, toolName: 'desk__look', content: '42' }) as const,
      ),
    );
  }
  return messages;
}
