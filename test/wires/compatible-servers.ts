import type { Fetch } from '@toolloop/wire';
import { chunk, sse } from '../../libs/openai/test/decode.js';

/** The fields of a message as a server reads them. */
export type Fields = Readonly<Record<string, unknown>>;

/**
 * An answer of a server: its deltas, and the fields in which it wants to see of it what is neither
 * words nor calls.
 */
export interface Said {
  readonly deltas: readonly object[];
  readonly wanted: Fields;
}

/**
 * A server that speaks chat completions, with its own rules for what it wants to see again. It
 * refuses a request that breaks one of them, as the real one does.
 */
export interface CompatibleServer {
  readonly name: string;
  readonly baseURL: string;
  readonly model: string;
  /**
   * The first answer thinks and calls, the second thinks and answers, the third calls and the
   * fourth answers without a thought.
   */
  readonly answers: readonly [Said, Said, Said, Said];
  /** The fields that an answer of another provider must have, too. */
  readonly required?: Fields;
  /** The refusal of an answer that lacks what the server wants. */
  readonly lacking: string;
  /** `true` for a server that refuses fields which it does not know. */
  readonly isStrict?: true;
  /** The form of a call's id, if the server accepts no other. */
  readonly callId?: RegExp;
  /**
   * The ids of the calls that it makes. @default `functions.look:0` for each, as Kimi's and many an
   * open model's server do
   */
  readonly ids?: readonly [string, string];
}

const LOOK = { name: 'desk__look', arguments: '{"id":7}' };

function calling(id: string, rest: object = {}): object {
  return { tool_calls: [{ index: 0, id, type: 'function', function: LOOK, ...rest }] };
}

/** The answers of a server that thinks in fields of text. */
function thinkingIn(
  fields: readonly string[],
  ids = ['functions.look:0', 'functions.look:0'],
): CompatibleServer['answers'] {
  const all = (text: string) => Object.fromEntries(fields.map((field) => [field, text]));
  const [first = '', second = ''] = ids;
  return [
    {
      deltas: [{ role: 'assistant', content: '' }, all('I look '), all('it up.'), calling(first)],
      wanted: all('I look it up.'),
    },
    {
      deltas: [all('So it is 42.'), { content: 'It is ' }, { content: '42.' }],
      wanted: all('So it is 42.'),
    },
    { deltas: [all(''), calling(second)], wanted: all('') },
    { deltas: [{ ...all(''), content: 'Again 42.' }], wanted: all('') },
  ];
}

/** The same answers without a field of thinking in those that are not thought about. */
function omitting([
  one,
  two,
  three,
  four,
]: CompatibleServer['answers']): CompatibleServer['answers'] {
  const [call] = three.deltas.slice(-1);
  return [
    one,
    two,
    { deltas: call ? [call] : [], wanted: {} },
    { ...four, deltas: [{ content: 'Again 42.' }], wanted: {} },
  ];
}

/** The same answers of a server that wants nothing of them again. */
export function unwanted([
  one,
  two,
  three,
  four,
]: CompatibleServer['answers']): CompatibleServer['answers'] {
  const wanted = {};
  return [
    { deltas: one.deltas, wanted },
    { deltas: two.deltas, wanted },
    { deltas: three.deltas, wanted },
    { deltas: four.deltas, wanted },
  ];
}

const DETAIL = { type: 'reasoning.text', text: 'I look it up.', index: 0, format: 'unknown' };
const BLOCK = { type: 'thinking', thinking: 'I look it up.', signature: 'sig' };
const THOUGHT = { type: 'thinking', thinking: [{ type: 'text', text: 'I look it up.' }] };

function withFirst(
  answers: CompatibleServer['answers'],
  deltas: readonly object[],
  wanted: Fields,
): CompatibleServer['answers'] {
  const [one, ...rest] = answers;
  return [{ deltas: [...deltas, ...one.deltas], wanted: { ...one.wanted, ...wanted } }, ...rest];
}

const MISSING = 'The `reasoning_content` in the thinking mode must be passed back to the API.';
const EXTRA = { google: { thought_signature: 'c2ln' } };

export const SERVERS: readonly CompatibleServer[] = [
  {
    name: 'DeepSeek',
    baseURL: 'https://api.deepseek.com',
    model: 'deepseek-v4-pro',
    answers: thinkingIn(['reasoning_content']),
    required: { reasoning_content: '' },
    lacking: MISSING,
  },
  {
    name: 'Kimi',
    baseURL: 'https://api.moonshot.ai/v1',
    model: 'kimi-k2.6',
    answers: thinkingIn(['reasoning_content']),
    required: { reasoning_content: '' },
    lacking:
      'thinking is enabled but reasoning_content is missing in assistant tool call message at index 2',
  },
  {
    name: 'MiMo',
    baseURL: 'https://api.xiaomimimo.com/v1',
    model: 'mimo-v2.5',
    answers: thinkingIn(['reasoning_content']),
    required: { reasoning_content: '' },
    lacking: MISSING,
  },
  {
    name: 'Qwen',
    baseURL: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    model: 'qwen3.6-plus',
    answers: thinkingIn(['reasoning_content']),
    lacking: 'reasoning_content was lost',
  },
  {
    name: 'GLM',
    baseURL: 'https://api.z.ai/api/paas/v4',
    model: 'glm-5.1',
    answers: thinkingIn(['reasoning_content']),
    lacking: 'reasoning_content was lost',
  },
  {
    name: 'MiniMax',
    baseURL: 'https://api.minimax.io/v1',
    model: 'MiniMax-M2.5',
    answers: withFirst(thinkingIn(['reasoning_content']), [{ reasoning_details: [DETAIL] }], {
      reasoning_details: [DETAIL],
    }),
    lacking: 'reasoning_details were lost',
  },
  {
    name: 'Mistral',
    baseURL: 'https://api.mistral.ai/v1',
    model: 'magistral-medium-latest',
    answers: [
      {
        deltas: [
          { content: [{ ...THOUGHT, thinking: [{ type: 'text', text: 'I look ' }] }] },
          { content: [{ ...THOUGHT, thinking: [{ type: 'text', text: 'it up.' }] }] },
          calling('D681PevKs'),
        ],
        wanted: { content: [THOUGHT] },
      },
      {
        deltas: [{ content: [THOUGHT] }, { content: 'It is ' }, { content: '42.' }],
        wanted: { content: [THOUGHT, { type: 'text', text: 'It is 42.' }] },
      },
      { deltas: [calling('A1b2C3d4E')], wanted: {} },
      { deltas: [{ content: 'Again 42.' }], wanted: {} },
    ],
    lacking: 'thinking was lost',
    isStrict: true,
    callId: /^[a-zA-Z0-9]{9}$/,
    ids: ['D681PevKs', 'A1b2C3d4E'],
  },
  {
    name: 'OpenRouter',
    baseURL: 'https://openrouter.ai/api/v1',
    model: 'anthropic/claude-sonnet-5.5',
    answers: withFirst(
      omitting(thinkingIn(['reasoning'])),
      [
        { reasoning_details: [{ ...DETAIL, text: 'I look ' }] },
        { reasoning_details: [{ ...DETAIL, text: 'it up.', signature: 's' }] },
      ],
      { reasoning_details: [{ ...DETAIL, signature: 's' }] },
    ),
    lacking: 'reasoning_details were lost',
  },
  {
    name: 'xAI',
    baseURL: 'https://api.x.ai/v1',
    model: 'grok-4.3',
    answers: omitting(thinkingIn(['reasoning_content'])),
    lacking: 'reasoning_content was lost',
  },
  {
    name: 'Groq',
    baseURL: 'https://api.groq.com/openai/v1',
    model: 'gpt-oss-120b',
    answers: omitting(thinkingIn(['reasoning'])),
    lacking: 'reasoning was lost',
    isStrict: true,
  },
  {
    name: 'vLLM',
    baseURL: 'http://vllm.internal:8000/v1',
    model: 'gpt-oss-120b',
    answers: omitting(
      thinkingIn(
        ['reasoning'],
        [
          'chatcmpl-tool-0123456789abcdef0123456789abcdef',
          'chatcmpl-tool-0123456789abcdef0123456789abcdee',
        ],
      ),
    ),
    lacking: 'reasoning was lost',
    ids: [
      'chatcmpl-tool-0123456789abcdef0123456789abcdef',
      'chatcmpl-tool-0123456789abcdef0123456789abcdee',
    ],
  },
  {
    name: 'SGLang',
    baseURL: 'http://sglang.internal:30000/v1',
    model: 'gpt-oss-120b',
    answers: omitting(thinkingIn(['reasoning_content'])),
    lacking: 'reasoning_content was lost',
  },
  {
    name: 'llama.cpp',
    baseURL: 'http://127.0.0.1:8080/v1',
    model: 'gpt-oss-120b',
    answers: omitting(thinkingIn(['reasoning_content'])),
    lacking: 'reasoning_content was lost',
  },
  {
    name: 'Ollama',
    baseURL: 'http://127.0.0.1:11434/v1',
    model: 'gpt-oss-120b',
    answers: omitting(thinkingIn(['reasoning'])),
    lacking: 'reasoning was lost',
  },
  {
    name: 'LM Studio',
    baseURL: 'http://127.0.0.1:1234/v1',
    model: 'gpt-oss-120b',
    answers: thinkingIn(['reasoning_content']),
    lacking: 'reasoning_content was lost',
  },
  {
    name: 'LiteLLM',
    baseURL: 'http://litellm.internal:4000/v1',
    model: 'claude-sonnet-5-5',
    answers: [
      {
        deltas: [
          {
            reasoning_content: 'I look ',
            thinking_blocks: [{ type: 'thinking', thinking: 'I look ', signature: null }],
          },
          {
            reasoning_content: 'it up.',
            thinking_blocks: [{ type: 'thinking', thinking: 'it up.', signature: null }],
          },
          { thinking_blocks: [{ type: 'thinking', thinking: '', signature: 'sig' }] },
          calling('call_long__thought__0123456789abcdef0123456789abcdef', {
            provider_specific_fields: { thought_signature: 's' },
          }),
        ],
        wanted: { reasoning_content: 'I look it up.', thinking_blocks: [BLOCK] },
      },
      ...omitting(thinkingIn(['reasoning_content'])).slice(1),
    ] as unknown as CompatibleServer['answers'],
    lacking: 'thinking_blocks were lost',
    ids: ['call_long__thought__0123456789abcdef0123456789abcdef', 'functions.look:0'],
  },
  {
    name: 'Gemini',
    baseURL: 'https://generativelanguage.googleapis.com/v1beta/openai',
    model: 'gemini-3.8-flash',
    answers: [
      {
        deltas: [calling('function-call-1', { extra_content: EXTRA })],
        wanted: { signatures: [EXTRA] },
      },
      {
        deltas: [{ content: 'It is 42.', extra_content: EXTRA }],
        wanted: { extra_content: EXTRA },
      },
      {
        deltas: [calling('function-call-2', { extra_content: EXTRA })],
        wanted: { signatures: [EXTRA] },
      },
      { deltas: [{ content: 'Again 42.' }], wanted: {} },
    ],
    required: {
      signatures: [{ google: { thought_signature: 'skip_thought_signature_validator' } }],
    },
    lacking: 'Function call is missing a thought_signature in functionCall parts.',
    ids: ['function-call-1', 'function-call-2'],
  },
  {
    name: 'Cerebras',
    baseURL: 'https://api.cerebras.ai/v1',
    model: 'gpt-oss-120b',
    answers: unwanted(omitting(thinkingIn(['reasoning']))),
    lacking: 'Nothing is required.',
    isStrict: true,
  },
  {
    name: 'OpenAI',
    baseURL: 'https://api.openai.com/v1',
    model: 'gpt-5-mini',
    answers: omitting(thinkingIn([], ['call_a', 'call_b'])),
    lacking: 'Nothing is required.',
    isStrict: true,
    ids: ['call_a', 'call_b'],
  },
];

const PLAIN_FIELDS = new Set(['role', 'content', 'tool_calls', 'signatures']);

interface WireMessage extends Fields {
  readonly role: string;
  readonly content: unknown;
  readonly tool_calls?: readonly { readonly id: string; readonly extra_content?: unknown }[];
  readonly tool_call_id?: string;
}

/** Plays a server. `from` is the number of answers in the transcript that other servers gave. */
export class PlayedServer {
  readonly bodies: { readonly messages: readonly WireMessage[] }[] = [];

  constructor(
    readonly server: CompatibleServer,
    private readonly from = 0,
  ) {}

  readonly fetch: Fetch = (_url, init) => {
    const body = JSON.parse(bodyIn(init)) as { readonly messages: readonly WireMessage[] };
    this.bodies.push(body);
    const problem = this.problemIn(body.messages);
    const answered = body.messages.filter(({ role }) => role === 'assistant').length - this.from;
    if (problem !== undefined) return Promise.resolve(refusal(problem));
    const said = this.server.answers[answered];
    const isCall = said?.deltas.some((delta) => 'tool_calls' in delta) ?? false;
    const chunks = (said?.deltas ?? [{ content: 'Done.' }]).map((delta) => chunk(delta));
    const text = sse(...chunks, chunk({}, isCall ? 'tool_calls' : 'stop'));
    return Promise.resolve(
      new Response(text, { headers: { 'content-type': 'text/event-stream' } }),
    );
  };

  private problemIn(messages: readonly WireMessage[]): string | undefined {
    const ids = messages.flatMap(({ tool_calls: calls = [] }) => calls.map(({ id }) => id));
    const { callId } = this.server;
    if (new Set(ids).size < ids.length) return `Duplicate tool call id in ${ids.join()}.`;
    const strange = ids.find((id) => callId?.test(id) === false);
    if (strange !== undefined)
      return `Tool call id was ${strange} but must be a-z, A-Z, 0-9, with a length of 9.`;
    const answers = messages.filter(({ role }) => role === 'assistant');
    return answers
      .map((answer, index) => this.problemWith(answer, index))
      .find((problem) => problem !== undefined);
  }

  private problemWith(answer: WireMessage, index: number): string | undefined {
    const { server, from } = this;
    const isOwn = index >= from;
    const wanted = (isOwn ? server.answers[index - from]?.wanted : server.required) ?? {};
    if (isLost(answer, wanted)) return server.lacking;
    const unknown = Object.keys(answer).find(
      (field) => !PLAIN_FIELDS.has(field) && !(field in wanted),
    );
    const isRefused = unknown !== undefined && (server.isStrict === true || !isOwn);
    return isRefused ? `property '${unknown}' is unsupported` : undefined;
  }
}

function isLost(answer: WireMessage, wanted: Fields): boolean {
  const { tool_calls: calls } = answer;
  const given: Fields = calls
    ? { ...answer, signatures: signaturesOf(calls) }
    : { ...answer, signatures: wanted.signatures };
  return Object.entries(wanted).some(
    ([field, value]) => JSON.stringify(given[field]) !== JSON.stringify(value),
  );
}

/** Reads the body of a request, which the wires send as text. */
export function bodyIn(init: Parameters<Fetch>[1]): string {
  return typeof init?.body === 'string' ? init.body : '';
}

function signaturesOf(calls: NonNullable<WireMessage['tool_calls']>): readonly unknown[] {
  return calls.flatMap(({ extra_content: extra }) => (extra === undefined ? [] : [extra]));
}

function refusal(message: string): Response {
  return Response.json(
    { error: { message, type: 'invalid_request_error', code: 'invalid_request_error' } },
    { status: 400 },
  );
}
