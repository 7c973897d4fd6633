import { type Message, ModelError, type ModelRequest } from '@toolloop/protocol';

/** The values that no error may repeat. */
export interface Confidences {
  readonly apiKey: string;
  readonly request: ModelRequest;
}

/** The number of characters in a row that count as a quotation. */
const QUOTATION = 16;

/** The shortest whole text that counts as a quotation: `Hello` stands in many errors. */
const SHORTEST_TEXT = 6;

/**
 * Removes the key, and all that is quoted from the request, from an error: a provider may echo what it was sent, and errors end up in logs. Names of
 * models and tools stay, since an error is of no use without them.
 */
export function withDiscretion(error: ModelError, { apiKey, request }: Confidences): ModelError {
  const keyless = apiKey === '' ? error.message : error.message.replaceAll(apiKey, '[api key]');
  const message = withoutQuotations(keyless, [request.instructions ?? '', ...request.messages.flatMap(textsOf)]);
  if (message === error.message) return error;
  const { status, isRetryable: retryable, requestId, retryAfterMs, cause } = error;
  return new ModelError(message, { status, retryable, requestId, retryAfterMs, cause });
}

function withoutQuotations(message: string, texts: readonly string[]): string {
  const whole = texts.map((text) => text.trim()).filter(({ length }) => length >= SHORTEST_TEXT && length < QUOTATION);
  const shortened = whole.reduce((rest, text) => rest.replaceAll(text, '[…]'), message);
  const long = texts.filter(({ length }) => length >= QUOTATION);
  const isQuoted = (start: number): boolean => {
    const piece = shortened.slice(start, start + QUOTATION);
    return piece.length === QUOTATION && long.some((text) => text.includes(piece));
  };
  let told = '';
  for (let at = 0; at < shortened.length;) {
    if (!isQuoted(at)) told += shortened.charAt(at++);
    else {
      while (isQuoted(at + 1)) at += 1;
      told += '[…]';
      at += QUOTATION;
    }
  }
  return told;
}

function textsOf(message: Message): readonly string[] {
  const { content } = message;
  const said = typeof content === 'string' ? [content] : content.map((part) => (part.type === 'text' ? part.text : part.url));
  const own = message.role === 'assistant' ? [message.reasoning ?? '', ...(message.toolCalls ?? []).map((call) => call.arguments)] : [];
  return [...said, ...own];
}
