import { describe, expect, it } from '@jest/globals';
import { decode, joined, type Decoded } from './decode.js';
import { GoldenFiles } from '../../wire/test/golden.js';

const golden = new GoldenFiles('openai');

/** Between two network reads of a `.chunks.txt`. */
const READ = '=== read ===\n';

const CHAT_CASES = (
  'text single-tool parallel-tools interleaved-tools arguments-in-many-deltas arguments-empty-null-object missing-index missing-index-and-id ' +
  'index-from-one-with-gap new-id-on-same-index same-id-twice late-id no-id-at-all id-and-name-repeated legacy-function-call error-event ' +
  'error-in-chunk cut-in-arguments no-finish-reason length unterminated-last-event eos-in-text-chunk usage-details usage-in-every-chunk ' +
  'usage-of-groq crlf multi-line-data reasoning-content reasoning-and-details reasoning-parts thought-signature refusal azure-filter-first ' +
  'message-beside-delta whole-completion url-citations sources-beside-choices'
).split(' ');

const RESPONSES_CASES = (
  'text reasoning-and-call reasoning-text parallel-calls interleaved-calls done-wins-over-deltas nothing-streamed ' +
  'output-in-the-last-event-only no-output-index call-without-id refusal incomplete-length incomplete-filter failed error-event ' +
  'error-without-event-name cut no-event-lines web-search-and-citation calls-that-are-not-ours phase-of-a-message ' +
  'queued-and-unknown-events whole-response whole-error connector-and-files'
)
  .split(' ')
  .map((name) => `responses-${name}`);

const CASES = [
  ...CHAT_CASES.map((name) => ['chat', name] as const),
  ...RESPONSES_CASES.map((name) => ['responses', name] as const),
];

/** One event a line; a failure comes last. Ids that were made are counted, for they are random. */
function toLines({ events, failure }: Decoded): string {
  const error = failure && {
    type: 'error',
    message: failure.message,
    status: failure.status,
    retryable: failure.isRetryable,
  };
  const made: string[] = [];
  const name = (id: string): string => {
    if (!made.includes(id)) made.push(id);
    return `made-${made.indexOf(id) + 1}`;
  };
  const text = [...events, ...(error ? [error] : [])]
    .map((event) => `${JSON.stringify(event)}\n`)
    .join('');
  return text.replaceAll(/call_[0-9a-f]{32}/g, name);
}

describe('a recorded answer', () => {
  it.each(CASES)('gives, for %s of %s, the events that are stored beside it', (api, name) => {
    const reads = golden.read(`${name}.chunks.txt`).split(READ);
    const actual = toLines(decode(reads, api));
    expect(actual).toBe(golden.keep(`${name}.events.jsonl`, actual));
  });

  it.each(CASES)(
    'gives, for %s of %s, the same events when it arrives byte by byte',
    (api, name) => {
      const reads = golden.read(`${name}.chunks.txt`).split(READ);
      const bytes = Array.from(Buffer.from(reads.join('')), (byte) => Uint8Array.of(byte));
      const [whole, single] = [decode(reads, api), decode(bytes, api)].map((decoded) =>
        toLines({ ...decoded, events: joined(decoded.events) }),
      );
      expect(single).toBe(whole);
    },
  );
});
