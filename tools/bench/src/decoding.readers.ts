import { Anthropic } from '@anthropic-ai/sdk';
import { anthropic } from '@toolloop/anthropic';
import type { LanguageModel } from '@toolloop/core';
import { assemble } from '@toolloop/protocol';
import { openai } from '@toolloop/openai';
import { OpenAI } from 'openai';
import { toResponse, type AnswerStream } from './decoding.streams.js';

/** Reads an answer to its end, and gives its text. */
export type Reader = (stream: AnswerStream) => Promise<string>;

const REQUEST = { messages: [{ role: 'user' as const, content: 'Go on.' }], tools: [] };
const OPTIONS = { apiKey: 'none', baseURL: 'http://127.0.0.1:9/v1' };

/** Our models: the SDK's request, and our decoder. */
export const ours: Reader = async (stream) => {
  const fetch = (): Promise<Response> => Promise.resolve(toResponse(stream));
  const answer = await assemble(
    modelOf(stream.api, fetch).stream(REQUEST, new AbortController().signal),
  );
  return answer.text;
};

function modelOf(api: AnswerStream['api'], fetch: () => Promise<Response>): LanguageModel {
  return api === 'messages'
    ? anthropic('bench', { ...OPTIONS, fetch })
    : openai('bench', { ...OPTIONS, api, fetch });
}

/** The SDKs' own accumulators: what their `stream()` gives in the end. */
export const sdks: Reader = async (stream) => {
  const options = { ...OPTIONS, fetch: () => Promise.resolve(toResponse(stream)) };
  if (stream.api === 'chat') {
    const completion = await new OpenAI(options).chat.completions
      .stream({ model: 'bench', messages: REQUEST.messages })
      .finalChatCompletion();
    return completion.choices[0]?.message.content ?? '';
  }
  if (stream.api === 'responses') {
    const response = await new OpenAI(options).responses
      .stream({ model: 'bench', input: 'Go on.' })
      .finalResponse();
    return response.output_text;
  }
  const reading = new Anthropic(options).messages.stream({
    model: 'bench',
    max_tokens: 16_000,
    messages: REQUEST.messages,
  });
  return reading.finalText();
};

/** The least possible work: every data line through `JSON.parse`, and the words put together. */
export const floor: Reader = async (stream) => {
  const reader = (toResponse(stream).body ?? new ReadableStream<Uint8Array>()).getReader();
  const utf8 = new TextDecoder();
  let [rest, text] = ['', ''];
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const events = (rest + utf8.decode(read.value, { stream: true })).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) text += wordIn(event);
  }
  return text;
};

function wordIn(event: string): string {
  const payload = event.slice(event.indexOf('data: ') + 'data: '.length);
  if (payload === '[DONE]') return '';
  const { choices, delta }: Payload = parsed(payload);
  if (typeof delta === 'string') return delta;
  return choices?.[0]?.delta?.content ?? delta?.text ?? '';
}

/** As far as the floor looks at it. */
interface Payload {
  readonly choices?: readonly { readonly delta?: { readonly content?: string } }[];
  readonly delta?: string | { readonly text?: string };
}

function parsed(payload: string): Payload {
  const value: unknown = JSON.parse(payload);
  return typeof value === 'object' && value !== null ? value : {};
}
