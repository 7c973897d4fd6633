import { describe, expect, it } from '@jest/globals';
import { anthropic } from '@toolloop/anthropic';
import type { LanguageModel, Message } from '@toolloop/core';
import { openai } from '@toolloop/openai';
import { assemble, type AssistantMessage, type ToolCall } from '@toolloop/protocol';
import type { Fetch } from '@toolloop/wire';
import { answer, block, call as called, text, thinking } from '../../libs/anthropic/test/decode.js';
import { bodyIn } from './compatible-servers.js';
import { chunk, sse as chunks } from '../../libs/openai/test/decode.js';

/** A server that speaks Anthropic's Messages API. */
interface MessagesServer {
  readonly name: string;
  readonly baseURL: string;
  readonly model: string;
  /** The signature of its thinking; undefined where it sends none. */
  readonly signature?: string;
  /** `true` for a server that refuses an answer without thinking. */
  readonly isRequired: boolean;
}

const SERVERS: readonly MessagesServer[] = [
  {
    name: 'Anthropic',
    baseURL: 'https://api.anthropic.com',
    model: 'claude-sonnet-5-5',
    signature: 'EqoB',
    isRequired: false,
  },
  {
    name: 'DeepSeek',
    baseURL: 'https://api.deepseek.com/anthropic',
    model: 'deepseek-v4-pro',
    signature: '',
    isRequired: true,
  },
  {
    name: 'Kimi',
    baseURL: 'https://api.moonshot.ai/anthropic',
    model: 'kimi-k2.6',
    isRequired: true,
  },
  {
    name: 'GLM',
    baseURL: 'https://api.z.ai/api/anthropic',
    model: 'glm-5.1',
    signature: '',
    isRequired: false,
  },
  {
    name: 'MiniMax',
    baseURL: 'https://api.minimax.io/anthropic',
    model: 'MiniMax-M2.5',
    signature: 'f00d',
    isRequired: false,
  },
];

interface Block {
  readonly type: string;
  readonly id?: string;
  readonly thinking?: string;
  readonly signature?: string;
}

interface Body {
  readonly messages: readonly { readonly role: string; readonly content: readonly Block[] }[];
}

/**
 * Plays a server: its first answer thinks and calls, its second thinks and answers, its third calls
 * and its fourth answers without a thought.
 */
class PlayedServer {
  readonly bodies: Body[] = [];

  constructor(
    readonly server: MessagesServer,
    private readonly from = 0,
  ) {}

  readonly fetch: Fetch = (_url, init) => {
    const body = JSON.parse(bodyIn(init)) as Body;
    this.bodies.push(body);
    const answers = body.messages
      .filter(({ role }) => role === 'assistant')
      .map(({ content }) => content);
    const problem = this.problemIn(answers);
    if (problem !== undefined)
      return Promise.resolve(
        Response.json(
          { type: 'error', error: { type: 'invalid_request_error', message: problem } },
          { status: 400 },
        ),
      );
    const said = this.answer(answers.length - this.from);
    return Promise.resolve(
      new Response(said, { headers: { 'content-type': 'text/event-stream' } }),
    );
  };

  private answer(count: number): string {
    const { signature } = this.server;
    const thought =
      signature === undefined
        ? block(0, { type: 'thinking', thinking: 'Hm.' })
        : thinking(0, 'Hm.', signature);
    if (count === 0) return answer([...thought, ...called(1, 'toolu_a', 'look', '{}')], 'tool_use');
    if (count === 1) return answer([...thought, ...text(1, 'It is 42.')], 'end_turn');
    return count === 2
      ? answer(called(0, 'toolu_a', 'look', '{}'), 'tool_use')
      : answer(text(0, 'Again 42.'), 'end_turn');
  }

  private problemIn(answers: readonly (readonly Block[])[]): string | undefined {
    const ids = answers.flat().flatMap(({ type, id }) => (type === 'tool_use' ? [id] : []));
    if (new Set(ids).size < ids.length) return '`tool_use` ids must be unique';
    return answers
      .map((content, index) => this.problemWith(content, index - this.from))
      .find((problem) => problem !== undefined);
  }

  private problemWith(content: readonly Block[], own: number): string | undefined {
    return own === 0 || own === 1 ? this.problemWithThought(content) : this.problemWithout(content);
  }

  private problemWithThought([first]: readonly Block[]): string | undefined {
    const isAsItCame = first?.thinking === 'Hm.' && first.signature === this.server.signature;
    return isAsItCame ? undefined : 'thinking blocks cannot be modified';
  }

  /** Judges an answer for which the server did not think, or that is another's. */
  private problemWithout([first]: readonly Block[]): string | undefined {
    const { isRequired } = this.server;
    const thought = first?.type === 'thinking' ? first.thinking : undefined;
    if (thought === (isRequired ? '' : undefined)) return undefined;
    return isRequired
      ? 'The `content[].thinking` in the thinking mode must be passed back to the API.'
      : 'Invalid `signature` in `thinking` block';
  }
}

function modelAt(played: PlayedServer): LanguageModel {
  const { baseURL, model } = played.server;
  return anthropic(model, { baseURL, apiKey: 'sk-own', fetch: played.fetch });
}

async function asked(
  model: LanguageModel,
  before: readonly Message[],
  answers: number,
): Promise<readonly Message[]> {
  const messages: Message[] = [...before];
  for (let count = 0; count < answers; count += 1) {
    if (messages.at(-1)?.role !== 'tool') messages.push({ role: 'user', content: 'What is 7?' });
    const events = model.stream(
      { messages: [...messages], tools: [] },
      new AbortController().signal,
    );
    const { text: content, toolCalls, providerData } = await assemble(events);
    const step = messages.length;
    const calls = toolCalls.map(
      ({ toolCallId: providerCallId, name, arguments: input }, index): ToolCall => {
        return { toolCallId: `call_${step}_${index}`, providerCallId, name, arguments: input };
      },
    );
    const said: AssistantMessage = {
      role: 'assistant',
      content,
      ...(calls.length > 0 && { toolCalls: calls }),
      providerData,
    };
    messages.push(
      said,
      ...calls.map(
        ({ toolCallId }) =>
          ({ role: 'tool', toolCallId, toolName: 'look', content: '42' }) as const,
      ),
    );
  }
  return messages;
}

describe.each(SERVERS.map((server) => [server.name, server] as const))(
  'the Messages API of %s',
  (_name, server) => {
    it('sees in the second question of a conversation the thinking as it came', async () => {
      const played = new PlayedServer(server);
      expect((await asked(modelAt(played), [], 4)).at(-1)).toMatchObject({ content: 'Again 42.' });
      expect(played.bodies).toHaveLength(4);
    });

    it.each(
      SERVERS.filter((other) => other !== server).map((other) => [other.name, other] as const),
    )(
      'takes over a conversation that %s began, and sees none of its thinking',
      async (_other, other) => {
        const begun = await asked(modelAt(new PlayedServer(other)), [], 2);
        const played = new PlayedServer(server, 2);
        expect((await asked(modelAt(played), begun, 4)).at(-1)).toMatchObject({
          content: 'Again 42.',
        });
        expect(played.bodies).toHaveLength(4);
      },
    );
  },
);

describe('a server of the Messages API that is in no table', () => {
  it('is asked once more where it says that it wants the thinking, and known from then on', async () => {
    const played = new PlayedServer({
      name: 'a gateway',
      baseURL: 'https://gateway.example',
      model: 'deepseek-v4-pro',
      signature: '',
      isRequired: true,
    });
    expect((await asked(modelAt(played), [], 4)).at(-1)).toMatchObject({ content: 'Again 42.' });
    expect(played.bodies).toHaveLength(5);
  });

  it('sees the thinking of Claude, wherever Claude was served', async () => {
    const [claude] = SERVERS as readonly [MessagesServer];
    const begun = await asked(modelAt(new PlayedServer(claude)), [], 2);
    const played = new PlayedServer({ ...claude, baseURL: 'https://bedrock-gateway.example' });
    expect((await asked(modelAt(played), begun, 2)).at(-1)).toMatchObject({ content: 'Again 42.' });
  });
});

/** The ids of the calls in the last request, and those of their results. */
type Ids = (body: string) => readonly [readonly unknown[], readonly unknown[]];

const repeated: readonly Message[] = [1, 2, 3].flatMap((step): readonly Message[] => {
  const call = {
    toolCallId: `call_${step}_0`,
    providerCallId: 'functions.look:0',
    name: 'look',
    arguments: '{}',
  };
  return [
    { role: 'assistant', content: '', toolCalls: [call] },
    { role: 'tool', toolCallId: call.toolCallId, toolName: 'look', content: '42' },
  ];
});

interface WireBody {
  readonly messages?: readonly {
    readonly tool_calls?: readonly { id: unknown }[];
    readonly tool_call_id?: unknown;
    readonly content: readonly Block[];
  }[];
  readonly input?: readonly { readonly type?: string; readonly call_id?: unknown }[];
}

const CHAT: Ids = (body) => {
  const { messages = [] } = JSON.parse(body) as WireBody;
  return [
    messages.flatMap(({ tool_calls: calls = [] }) => calls.map(({ id }) => id)),
    messages.flatMap(({ tool_call_id: id }) => (id === undefined ? [] : [id])),
  ];
};
const RESPONSES: Ids = (body) => {
  const { input = [] } = JSON.parse(body) as WireBody;
  const of = (wanted: string): readonly unknown[] =>
    input.flatMap(({ type, call_id: id }) => (type === wanted ? [id] : []));
  return [of('function_call'), of('function_call_output')];
};
const MESSAGES: Ids = (body) => {
  const blocks = ((JSON.parse(body) as WireBody).messages ?? []).flatMap(
    ({ content }) => content,
  ) as readonly (Block & {
    tool_use_id?: string;
  })[];
  return [
    blocks.flatMap(({ type, id }) => (type === 'tool_use' ? [id] : [])),
    blocks.flatMap(({ tool_use_id: id }) => (id === undefined ? [] : [id])),
  ];
};

const COUNTED = ['functions.look:0', 'functions.look:1', 'functions.look:2'];

describe('ids that a provider repeats in every step', () => {
  const WIRES: readonly (readonly [
    string,
    (fetch: Fetch) => LanguageModel,
    Ids,
    readonly unknown[],
  ])[] = [
    [
      'chat completions',
      (fetch) => openai('m', { baseURL: 'https://own.example', apiKey: 'k', fetch }),
      CHAT,
      COUNTED,
    ],
    [
      'chat completions of Mistral',
      (fetch) => openai('m', { baseURL: 'https://api.mistral.ai/v1', apiKey: 'k', fetch }),
      CHAT,
      Array(3).fill(expect.stringMatching(/^[0-9a-f]{9}$/)),
    ],
    [
      'the responses API',
      (fetch) =>
        openai('m', { api: 'responses', baseURL: 'https://own.example', apiKey: 'k', fetch }),
      RESPONSES,
      COUNTED,
    ],
    [
      'the Messages API',
      (fetch) => anthropic('m', { baseURL: 'https://own.example', apiKey: 'k', fetch }),
      MESSAGES,
      ['functions_look_0', 'functions_look_1', 'functions_look_2'],
    ],
  ];

  it.each(WIRES)(
    'are one of a kind in a request over %s, each the same in call and result',
    async (_name, create, idsIn, wanted) => {
      let sent = '';
      const model = create((_url, init) => {
        sent = bodyIn(init);
        return Promise.resolve(new Response(chunks(chunk({ content: 'Done.' }, 'stop'))));
      });
      await assemble(
        model.stream({ messages: repeated, tools: [] }, new AbortController().signal),
      ).catch(() => undefined);
      const [calls, results] = idsIn(sent);
      expect(calls).toEqual(wanted);
      expect(results).toEqual(calls);
      expect(new Set(calls).size).toBe(3);
    },
  );

  it('keep the reasoning that stands before them in the responses API', async () => {
    const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAA' };
    const output = [
      reasoning,
      {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'functions.look:0',
        name: 'look',
        arguments: '{}',
      },
    ];
    const providerData = { openai: { model: 'm', output } };
    const messages = repeated.map((message) =>
      message.role === 'assistant' ? Object.assign({}, message, { providerData }) : message,
    );
    let sent = '';
    const fetch: Fetch = (_url, init) => {
      sent = bodyIn(init);
      return Promise.resolve(new Response(''));
    };
    const model = openai('m', {
      api: 'responses',
      baseURL: 'https://own.example',
      apiKey: 'k',
      fetch,
    });
    await assemble(model.stream({ messages, tools: [] }, new AbortController().signal)).catch(
      () => undefined,
    );
    const { input = [] } = JSON.parse(sent) as WireBody;
    expect(input.map(({ type, call_id: id }) => id ?? type)).toEqual(
      COUNTED.flatMap((id) => ['reasoning', id, id]),
    );
  });
});
