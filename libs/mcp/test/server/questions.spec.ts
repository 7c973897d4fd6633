// Sampling is deprecated by the protocol, and clients that have it are still asked.
/* oxlint-disable typescript/no-deprecated -- see above */
import { afterEach, describe, expect, it } from '@jest/globals';
import type {
  Client,
  CreateMessageRequest,
  ElicitRequest,
  ProtocolError,
} from '@modelcontextprotocol/client';
import { Injectable } from '@nestjs/common';
import {
  LlmTool,
  PendingService,
  type Policy,
  ToolContext,
  type ToolCallContext,
  ToolProvider,
} from '@toolloop/core';
import { clientModel, clientRoots, serveMcpStdio } from '@toolloop/mcp';
import type { JsonValue } from '@toolloop/protocol';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import {
  closeAll,
  connect,
  type Connection,
  ERAS,
  PEOPLE,
  serve,
  type Served,
} from './served-notes.js';

afterEach(closeAll);

const READ = { effect: 'read_only', reveal: 'all' } as const;

@Injectable()
@ToolProvider({ namespace: 'ask' })
class AskingTools {
  @LlmTool({ description: 'Has the model of the client summarise.', ...READ })
  summary(@ToolContext() context: ToolCallContext): Promise<JsonValue> {
    return context.ask(
      clientModel({
        key: 'summary',
        prompt: 'Summarise: tea.',
        systemPrompt: 'Be short.',
        maxTokens: 50,
      }),
    );
  }

  @LlmTool({ description: 'Asks for the folders of the client.', ...READ })
  async folders(@ToolContext() context: ToolCallContext): Promise<string[]> {
    const roots = await context.ask(clientRoots({ key: 'roots' }));
    return typeof roots === 'string' ? roots.split('\n') : [];
  }

  @LlmTool({ description: 'Asks for a size.', ...READ })
  size(@ToolContext() context: ToolCallContext): Promise<JsonValue> {
    return context.ask({
      key: 'size',
      question: 'Which size?',
      schema: { type: 'string', enum: ['S', 'M'] },
    });
  }
}

const POLICY: Policy = { version: '1', flow: 'off', allow: ['ask__*'] };

function asking(policy: Partial<Policy> = {}): Promise<Served> {
  return serve({ providers: [AskingTools], loop: { policy: { ...POLICY, ...policy } } });
}

/** A client with a user, a model and folders for others, and what each was asked. */
async function able(
  served: Served,
  { era, token }: Connection,
  answer: unknown = { action: 'accept', content: { answer: 'M' } },
) {
  const asked: {
    model: CreateMessageRequest['params'][];
    user: ElicitRequest['params'][];
    roots: number;
  } = {
    model: [],
    user: [],
    roots: 0,
  };
  const client = await connect(served, {
    ...(era && { era }),
    ...(token !== undefined && { token }),
    options: { capabilities: { sampling: {}, roots: {}, elicitation: { form: {} } } },
  });
  client.setRequestHandler('sampling/createMessage', ({ params }) => {
    asked.model.push(params);
    return {
      role: 'assistant',
      content: { type: 'text', text: 'It is about tea.' },
      model: 'of the client',
    };
  });
  client.setRequestHandler('roots/list', () => {
    asked.roots += 1;
    return { roots: [{ uri: 'file:///srv/notes' }, { uri: 'file:///srv/mail' }] };
  });
  client.setRequestHandler('elicitation/create', ({ params }) => {
    asked.user.push(params);
    return answer as { action: 'accept' };
  });
  return { client, asked };
}

const textOf = async (client: Client, name: string): Promise<string> => {
  const { content } = await client.callTool({ name });
  const [first] = content;
  return first?.type === 'text' ? first.text : '';
};

describe.each(ERAS)('a tool that asks, in the era of %s,', (era) => {
  it('has the model of the client answer, in the words and within the tokens of the tool', async () => {
    const { client, asked } = await able(await asking(), { era });
    expect(await textOf(client, 'ask__summary')).toBe('It is about tea.');
    const [request] = asked.model;
    expect(asked.model).toHaveLength(1);
    expect(request).toMatchObject({ systemPrompt: 'Be short.', maxTokens: 50 });
    expect([request?.messages].flat()[0]).toMatchObject({
      role: 'user',
      content: { type: 'text', text: 'Summarise: tea.' },
    });
    expect(asked.user).toEqual([]);
  });

  it('gets the folders of the client, one a line', async () => {
    const { client, asked } = await able(await asking(), { era });
    expect(JSON.parse(await textOf(client, 'ask__folders'))).toEqual([
      'file:///srv/notes',
      'file:///srv/mail',
    ]);
    expect(asked.roots).toBe(1);
  });

  it.each([
    ['a model', 'ask__summary', 'sampling'],
    ['folders', 'ask__folders', 'roots'],
  ])(
    'S12: says which capability is missing where the client has no %s for others',
    async (_, name, capability) => {
      const client = await connect(await asking(), { era });
      const refused = (await client
        .callTool({ name })
        .catch((thrown: unknown) => thrown)) as ProtocolError;
      expect([refused.code, JSON.stringify(refused.data)]).toEqual([
        -32_021,
        expect.stringContaining(capability),
      ]);
    },
  );

  it('has the user answer a form once, with a value that fits', async () => {
    const { client, asked } = await able(await asking(), { era });
    expect(await textOf(client, 'ask__size')).toBe('M');
    expect(asked.user).toEqual([expect.objectContaining({ mode: 'form', message: 'Which size?' })]);
  });

  it('gets no answer from a client whose form holds another value', async () => {
    const { client } = await able(
      await asking(),
      { era },
      { action: 'accept', content: { answer: 'XXL' } },
    );
    const refused = await client.callTool({ name: 'ask__size' }).catch((thrown: unknown) => thrown);
    expect(JSON.stringify(refused) + String(refused)).not.toMatch(/"text":"XXL"/);
  });

  it('asks neither the user nor the model of a client where policy has others answer, and a later equal call fetches the result', async () => {
    const desk = await asking({ questions: [{ roles: ['manager'], notRequester: true }] });
    const { client, asked } = await able(desk, { era });
    for (const name of ['ask__size', 'ask__summary'])
      expect(await textOf(client, name)).toMatch(/waits for an answer/);
    expect([asked.user, asked.model]).toEqual([[], []]);
    const pending: PendingService = desk.app.get(PendingService);
    const { mia = { actor: {}, tenant: '' } } = PEOPLE;
    const answers: Readonly<Record<string, string>> = { size: 'S', summary: 'Mia says tea.' };
    for (const { id, kind, request } of await pending.inbox(mia))
      if (kind === 'question')
        await pending.answer({ questionId: id, answer: answers[request.key] ?? '' }, mia);
    expect([await textOf(client, 'ask__size'), await textOf(client, 'ask__summary')]).toEqual([
      'S',
      'Mia says tea.',
    ]);
    expect([asked.user, asked.model]).toEqual([[], []]);
  });
});

describe('a tool that asks a client at the other end of the standard input, in the era of 2026,', () => {
  it('has its user answer a form, since the client says so with its request', async () => {
    const { app } = await asking();
    const [input, output] = [new PassThrough(), new PassThrough({ encoding: 'utf8' })];
    const { alice = { actor: {}, tenant: '' } } = PEOPLE;
    const connection = serveMcpStdio(app, { ...alice, input, output });
    const envelope = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
    };
    const request = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'ask__size', _meta: envelope },
    };
    input.write(`${JSON.stringify(request)}\n`);
    const [line] = (await once(output, 'data')) as [string];
    expect(JSON.parse(line)).toMatchObject({
      id: 1,
      result: {
        resultType: 'input_required',
        inputRequests: {
          size: { method: 'elicitation/create', params: { message: 'Which size?' } },
        },
      },
    });
    await connection.close();
  });
});
