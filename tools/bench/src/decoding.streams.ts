/** An answer of one API as a provider sends it: so many chunks of text. */
export interface AnswerStream {
  readonly api: 'chat' | 'responses' | 'messages';
  readonly chunks: number;
  /** The text that a reader must have at the end. */
  readonly text: string;
  /** The network reads. */
  readonly reads: readonly Uint8Array[];
}

export type Pace = 'chunk by chunk' | '16 KB reads';

const WORD = ' word,';
const READ_BYTES = 16 * 1024;

/**
 * The answer's bytes, either each event in a read of its own, as a model that thinks sends them, or
 * in reads as a socket hands over what has piled up.
 */
export function answerStream(api: AnswerStream['api'], chunks: number, pace: Pace): AnswerStream {
  const words = Array.from({ length: chunks }, () => WORD);
  const events = EVENTS[api](words).map((event) => Buffer.from(event));
  return {
    api,
    chunks,
    text: words.join(''),
    reads: pace === 'chunk by chunk' ? events : cutInReads(Buffer.concat(events)),
  };
}

/** A response of which nothing is ahead of its reader. */
export function toResponse({ reads }: AnswerStream): Response {
  const left = reads.values();
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const { value, done } = left.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
}

function cutInReads(bytes: Uint8Array): readonly Uint8Array[] {
  return Array.from({ length: Math.ceil(bytes.length / READ_BYTES) }, (_, index) =>
    bytes.subarray(index * READ_BYTES, (index + 1) * READ_BYTES),
  );
}

const EVENTS: Readonly<
  Record<AnswerStream['api'], (words: readonly string[]) => readonly string[]>
> = {
  chat: chatEvents,
  responses: responsesEvents,
  messages: messagesEvents,
};

function chatEvents(words: readonly string[]): readonly string[] {
  const head = {
    id: 'chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG',
    object: 'chat.completion.chunk',
    created: 1_741_570_283,
    model: 'bench',
  };
  const chunk = (delta: object, finish_reason: string | null): string =>
    `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null })}\n\n`;
  const usage = {
    prompt_tokens: 812,
    completion_tokens: words.length,
    total_tokens: 812 + words.length,
  };
  return [
    chunk({ role: 'assistant', content: '' }, null),
    ...words.map((content) => chunk({ content }, null)),
    chunk({}, 'stop'),
    `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`,
    'data: [DONE]\n\n',
  ];
}

function responsesEvents(words: readonly string[]): readonly string[] {
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 };
  const text = words.join('');
  const part = { type: 'output_text', text, annotations: [], logprobs: [] };
  const item = {
    id: 'msg_1',
    type: 'message',
    status: 'completed',
    role: 'assistant',
    content: [part],
  };
  const response = {
    id: 'resp_1',
    object: 'response',
    created_at: 1_741_570_283,
    model: 'bench',
    error: null,
    incomplete_details: null,
    tools: [],
  };
  const usage = {
    input_tokens: 812,
    output_tokens: words.length,
    total_tokens: 812 + words.length,
  };
  const events = [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...item, status: 'in_progress', content: [] },
    },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...words.map((delta) => ({
      type: 'response.output_text.delta',
      ...place,
      delta,
      logprobs: [],
      obfuscation: 'n1JqBk2',
    })),
    { type: 'response.output_text.done', ...place, text, logprobs: [] },
    { type: 'response.content_part.done', ...place, part },
    { type: 'response.output_item.done', output_index: 0, item },
    {
      type: 'response.completed',
      response: { ...response, status: 'completed', output: [item], usage },
    },
  ];
  return events.map((event, index) => named({ ...event, sequence_number: index }));
}

function messagesEvents(words: readonly string[]): readonly string[] {
  const usage = {
    input_tokens: 812,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: 1,
  };
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'bench',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  };
  return [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...words.map((text) => ({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text },
    })),
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: { output_tokens: words.length },
    },
    { type: 'message_stop' },
  ].map(named);
}

function named(event: Readonly<Record<string, unknown>> & { readonly type: string }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
