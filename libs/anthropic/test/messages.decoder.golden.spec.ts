import { describe, expect, it } from '@jest/globals';
import { decode, joined, type Decoded } from './decode.js';
import { GoldenFiles } from '../../wire/test/golden.js';

const golden = new GoldenFiles('anthropic');

/** Between two network reads of a `.chunks.txt`. */
const READ = '=== read ===\n';

const CASES =
  'text parallel-tools thinking-and-tool server-tool citations call-whole-in-start crlf-without-names cut-in-arguments max-tokens error-event connector-and-failed-search'.split(
    ' ',
  );

/** One event a line; a failure comes last. */
function toLines({ events, failure }: Decoded): string {
  const error = failure && {
    type: 'error',
    message: failure.message,
    status: failure.status,
    retryable: failure.isRetryable,
  };
  return [...events, ...(error ? [error] : [])]
    .map((event) => `${JSON.stringify(event)}\n`)
    .join('');
}

describe('an answer on the wire', () => {
  it.each(CASES)('%s gives the events kept beside it', (name) => {
    const actual = toLines(decode(golden.read(`${name}.chunks.txt`).split(READ)));
    expect(actual).toBe(golden.keep(`${name}.events.jsonl`, actual));
  });

  it.each(CASES)('%s gives the same when every byte comes alone', (name) => {
    const reads = golden.read(`${name}.chunks.txt`).split(READ);
    const bytes = Array.from(Buffer.from(reads.join('')), (byte) => Uint8Array.of(byte));
    const [whole, single] = [decode(reads), decode(bytes)].map((decoded) =>
      toLines({ ...decoded, events: joined(decoded.events) }),
    );
    expect(single).toBe(whole);
  });
});
