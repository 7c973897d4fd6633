import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import { readAuditLines } from '../../../src/plugins/audit/audit-lines.js';
import { verifyAudit } from '@toolloop/core/audit';
import { KEY, chain, draft, event, grown, type Chain } from './chains.js';

async function linesOf({ trail }: Chain, tenant = 'acme'): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of trail.exportLines(tenant)) lines.push(line);
  return lines;
}

/** The bytes in chunks of a size, wherever that cuts them. */
async function* chunked(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let start = 0; start < bytes.length; start += size) {
    await Promise.resolve();
    yield bytes.subarray(start, start + size);
  }
}

const verifyBytes = (bytes: Buffer, size = 1_000) =>
  verifyAudit(readAuditLines(chunked(bytes, size)), { keys: KEY });

describe('an export', () => {
  it('verifies wherever its bytes are cut, whatever its texts hold', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 700 }),
        async (events, size) => {
          const made = chain();
          for (const happened of events) await made.trail.record(draft('acme', happened));
          const bytes = Buffer.from((await linesOf(made)).join(''));
          expect(await verifyBytes(bytes, size)).toMatchObject({
            valid: true,
            entries: events.length,
          });
        },
      ),
    );
  });

  it('may hold every character that Unicode takes for a line break', async () => {
    const made = chain();
    await made.trail.record(
      draft('acme', { kind: 'opt-out', names: [], reason: '\u2028\u2029\u0085\r\n' }),
    );
    const lines = await linesOf(made);
    expect(lines).toHaveLength(1);
    expect(await verifyBytes(Buffer.from(lines.join('')))).toMatchObject({ valid: true });
  });

  it('has every entry, also of more than a page', async () => {
    const made = await grown('acme', 1_201);
    const lines = await linesOf(made);
    expect(lines).toHaveLength(1_201);
    expect(await verifyBytes(Buffer.from(lines.join('')), 64 * 1024)).toMatchObject({
      valid: true,
      entries: 1_201,
    });
  });

  it('does not verify with any one byte changed', async () => {
    const bytes = Buffer.from((await linesOf(await grown('acme', 3))).join(''));
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: bytes.length - 1 }),
        fc.integer({ min: 0, max: 255 }),
        async (at, byte) => {
          fc.pre(bytes[at] !== byte);
          const changed = Buffer.from(bytes);
          changed[at] = byte;
          expect(await verifyBytes(changed)).toMatchObject({ valid: false });
        },
      ),
      { numRuns: cases(500) },
    );
  });

  it.each<[string, (line: string) => string]>([
    [
      'a repeated key, which readers read differently',
      (line) => line.replace('{', '{"actorId":"mallory",'),
    ],
    ['spaces', (line) => line.replace(':', ': ')],
    [
      'another order',
      (line) => line.replace(/"actorId":"ada",(.*)\}/, '{$1,"actorId":"ada"}').replace('{{', '{'),
    ],
    ['nothing in it', () => '\n'],
    ['half of it', (line) => `${line.slice(0, line.length / 2)}\n`],
    ['a list nested without end', () => `${'['.repeat(500_000)}${']'.repeat(500_000)}\n`],
    [
      'an object nested without end',
      (line) => line.replace('{', `{"a":${'['.repeat(200_000)}${']'.repeat(200_000)},`),
    ],
  ])('does not verify with %s in a line', async (_, change) => {
    const [first = '', second = '', third = ''] = await linesOf(await grown('acme', 3));
    expect(change(second)).not.toBe(second);
    const found = await verifyBytes(
      Buffer.from([first, change(second), third].join('')),
      64 * 1024,
    );
    expect(found).toMatchObject({ valid: false, sequence: 2, reason: 'malformed' });
  });

  it('is given up soon when it is one endless line', async () => {
    let read = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      for (;;) {
        await Promise.resolve();
        read += 64 * 1024;
        yield Buffer.alloc(64 * 1024, 'x');
      }
    }
    const found = await verifyAudit(readAuditLines(endless()), { keys: KEY });
    expect(found).toMatchObject({ valid: false, sequence: 1, reason: 'malformed' });
    expect(read).toBeLessThan(2 * 1024 * 1024);
  });
});
