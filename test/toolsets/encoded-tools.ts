import { anthropic } from '@toolloop/anthropic';
import type { LanguageModel, ToolSpec } from '@toolloop/core';
import type { ModelRequest } from '@toolloop/protocol';
import { openai } from '@toolloop/openai';

/** The wires that are there, and how a request is read off them. */
export const WIRES = ['openai', 'anthropic'] as const;

export type Wire = (typeof WIRES)[number];

/** The bytes of each tool of a request, as a provider is sent them. */
export async function encodedTools(
  wire: Wire,
  tools: readonly ToolSpec[],
): Promise<readonly string[]> {
  const bodies: string[] = [];
  const request: ModelRequest = { messages: [{ role: 'user', content: 'Go on.' }], tools };
  const model = modelOf(wire, (body) => void bodies.push(body));
  await drained(model, request);
  const [body = ''] = bodies;
  const sent = (JSON.parse(body) as { readonly tools: readonly object[] }).tools.map((tool) =>
    JSON.stringify(tool),
  );
  // What was parsed and written again is what was sent, or nothing is proven about bytes.
  if (!body.includes(`"tools":[${sent.join(',')}`))
    throw new Error('The tools were sent in other bytes.');
  return sent;
}

function modelOf(wire: Wire, keep: (body: string) => void): LanguageModel {
  const fetch = (_url: unknown, init?: { readonly body?: unknown }): Promise<Response> => {
    keep(typeof init?.body === 'string' ? init.body : '');
    return Promise.resolve(
      new Response('{"error":{"message":"Only the request counts."}}', { status: 400 }),
    );
  };
  if (wire === 'openai') return openai('gpt-5-mini', { apiKey: 'none', fetch });
  return anthropic('claude-sonnet-4-5', { apiKey: 'none', promptCache: false, fetch });
}

/** The request is refused; it was sent all the same. */
async function drained(model: LanguageModel, request: ModelRequest): Promise<void> {
  try {
    for await (const _ of model.stream(request, new AbortController().signal));
  } catch {
    // as expected
  }
}
