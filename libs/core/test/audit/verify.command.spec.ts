import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { cases } from '../../../../test/cases.js';
import { readAuditLines } from '../../src/audit/audit-entry.js';
import { verifyCommand, type CommandOutcome } from '../../src/audit/verify-audit.js';
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

const verifyBytes = (bytes: Buffer, size = 1_000) => verifyAudit(readAuditLines(chunked(bytes, size)), { keys: KEY });

describe('an export', () => {
  it('verifies wherever its bytes are cut, whatever its texts hold', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 1, maxLength: 4 }), fc.integer({ min: 1, max: 700 }), async (events, size) => {
        const made = chain();
        for (const happened of events) await made.trail.record(draft('acme', happened));
        const bytes = Buffer.from((await linesOf(made)).join(''));
        expect(await verifyBytes(bytes, size)).toMatchObject({ valid: true, entries: events.length });
      }),
    );
  });

  it('may hold every character that Unicode takes for a line break', async () => {
    const made = chain();
    await made.trail.record(draft('acme', { kind: 'opt-out', names: [], reason: '\u2028\u2029\u0085\r\n' }));
    const lines = await linesOf(made);
    expect(lines).toHaveLength(1);
    expect(await verifyBytes(Buffer.from(lines.join('')))).toMatchObject({ valid: true });
  });

  it('has every entry, also of more than a page', async () => {
    const made = await grown('acme', 1_201);
    const lines = await linesOf(made);
    expect(lines).toHaveLength(1_201);
    expect(await verifyBytes(Buffer.from(lines.join('')), 64 * 1024)).toMatchObject({ valid: true, entries: 1_201 });
  });

  it('does not verify with any one byte changed', async () => {
    const bytes = Buffer.from((await linesOf(await grown('acme', 3))).join(''));
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: bytes.length - 1 }), fc.integer({ min: 0, max: 255 }), async (at, byte) => {
        fc.pre(bytes[at] !== byte);
        const changed = Buffer.from(bytes);
        changed[at] = byte;
        expect(await verifyBytes(changed)).toMatchObject({ valid: false });
      }),
      { numRuns: cases(500) },
    );
  });

  it.each<[string, (line: string) => string]>([
    ['a repeated key, which readers read differently', (line) => line.replace('{', '{"actorId":"mallory",')],
    ['spaces', (line) => line.replace(':', ': ')],
    ['another order', (line) => line.replace(/"actorId":"ada",(.*)\}/, '{$1,"actorId":"ada"}').replace('{{', '{')],
    ['nothing in it', () => '\n'],
    ['half of it', (line) => `${line.slice(0, line.length / 2)}\n`],
    ['a list nested without end', () => `${'['.repeat(500_000)}${']'.repeat(500_000)}\n`],
    ['an object nested without end', (line) => line.replace('{', `{"a":${'['.repeat(200_000)}${']'.repeat(200_000)},`)],
  ])('does not verify with %s in a line', async (_, change) => {
    const [first = '', second = '', third = ''] = await linesOf(await grown('acme', 3));
    expect(change(second)).not.toBe(second);
    const found = await verifyBytes(Buffer.from([first, change(second), third].join('')), 64 * 1024);
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

describe('the command', () => {
  let folder = '';
  const environment = { AUDIT_KEY: KEY, SHORT: 'short', NEWER: 'n'.repeat(32) };
  const write = async (name: string, content: string): Promise<string> => {
    const file = join(folder, name);
    await writeFile(file, content);
    return file;
  };
  const run = (...args: readonly string[]): Promise<CommandOutcome> => verifyCommand(args, environment);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'audit-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('says how it is used, and exits with 2, where it is started without a file', async () => {
    const program = 'libs/core/src/audit/verify-audit.ts';
    const args = ['--conditions=@toolloop/source', '--import', '@swc-node/register/esm-register', program];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect([status, stderr]).toEqual([2, expect.stringContaining('One file and a key are needed.\nUsage: audit:verify -- <file.jsonl>')]);
    expect(await readFile(program, 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/); // it is a `bin` of its package
  });

  it('says 0 and what was not checked, of a chain that holds', async () => {
    const file = await write('whole.jsonl', (await linesOf(await grown('acme', 3))).join(''));
    expect(await run(file, '--key-env', 'AUDIT_KEY')).toEqual({
      exitCode: 0,
      message:
        'The audit of tenant "acme" is valid: 3 entries, unchanged and in order. No head was given, so entries cut from the end would not show.',
    });
  });

  it('says 0 of a chain that a head confirms, and 1 once its tail is cut', async () => {
    const made = await grown('acme', 3);
    const lines = await linesOf(made);
    const head = await write('head.json', JSON.stringify(await made.trail.exportHead('acme')));
    const [whole, cut] = [await write('whole.jsonl', lines.join('')), await write('cut.jsonl', lines.slice(0, 2).join(''))];
    const confirmed = await run(whole, '--key-env', 'AUDIT_KEY', '--head', head);
    expect(confirmed).toEqual({ exitCode: 0, message: expect.stringMatching(/None of the 3 entries of .* was cut\.$/) });
    expect(await run(cut, '--key-env', 'AUDIT_KEY', '--head', head)).toEqual({
      exitCode: 1,
      message: 'The audit is not valid. Entry 3 and all after it were cut from the end: the head counts them.',
    });
  });

  it('says 1 and where, of a chain that was tampered with', async () => {
    const lines = await linesOf(await grown('acme', 3));
    const file = await write('removed.jsonl', lines.toSpliced(1, 1).join(''));
    expect(await run(file, '--key-env', 'AUDIT_KEY')).toEqual({ exitCode: 1, message: 'The audit is not valid. Entry 2 is missing.' });
  });

  it("says 1 of another tenant's chain", async () => {
    const file = await write('globex.jsonl', (await linesOf(await grown('globex', 1), 'globex')).join(''));
    expect(await run(file, '--key-env', 'AUDIT_KEY', '--tenant', 'acme')).toMatchObject({ exitCode: 1 });
  });

  it('takes every key there has been', async () => {
    const made = await grown('acme', 1);
    const newer = { id: '2', secret: environment.NEWER };
    await chain({ key: [newer, { id: '1', secret: KEY }] }, made.store).trail.record(draft('acme'));
    const file = await write('rotated.jsonl', (await linesOf(made)).join(''));
    expect(await run(file, '--key-env', '2=NEWER', '--key-env', '1=AUDIT_KEY')).toMatchObject({ exitCode: 0 });
    expect(await run(file, '--key-env', 'AUDIT_KEY')).toMatchObject({
      exitCode: 1,
      message: expect.stringContaining('Entry 2 is signed by'),
    });
  });

  it('says 2 where it cannot check, and why', async () => {
    const file = await write('one.jsonl', (await linesOf(await grown('acme', 1))).join(''));
    const [empty, noHead] = [await write('empty.jsonl', ''), await write('no-head.json', '{"sequence":1}')];
    const key = ['--key-env', 'AUDIT_KEY'];
    const attempts: [readonly string[], string][] = [
      [[], 'One file and a key are needed.\nUsage: '],
      [[file], 'One file and a key are needed.'],
      [[file, file, ...key], 'One file and a key are needed.'],
      [[file, ...key, '--other'], "Unknown option '--other'"],
      [[file, '--key-env', 'MISSING'], 'The environment variable MISSING is not set.'],
      [[file, '--key-env', 'SHORT'], 'The key "1" has fewer than 32 bytes.'],
      [[file, ...key, ...key], 'Two keys have the id "1".'],
      [[join(folder, 'nowhere'), ...key], 'ENOENT'],
      [[file, ...key, '--head', noHead], 'is not an exported head of an audit.'],
      [[empty, ...key], 'There is nothing to check: the file has no entries and no head was given.'],
    ];
    for (const [args, why] of attempts) expect(await run(...args)).toEqual({ exitCode: 2, message: expect.stringContaining(why) });
  });
});
