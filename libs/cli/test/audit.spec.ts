import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { chain, type Chain, draft, grown, KEY } from '../../core/test/plugins/audit/chains.js';
import { type AuditOptions, auditIn, verified } from '../src/looks.js';
import { failureOf } from '../src/output.js';

async function linesOf({ trail }: Chain, tenant = 'acme'): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of trail.exportLines(tenant)) lines.push(line);
  return lines;
}

interface Outcome {
  readonly exitCode: number;
  readonly text: string;
}

/** The outcome of `toolloop audit verify FILE`, as `run` tells it. */
async function outcomeOf(file: string, given: Partial<AuditOptions> = {}): Promise<Outcome> {
  const options = { keyEnv: ['AUDIT_KEY'], ...given };
  try {
    const { text, exitCode = 0 } = await verified(auditIn(file, options), options);
    return { exitCode, text };
  } catch (error) {
    return { exitCode: 2, text: failureOf(error) };
  }
}

describe('toolloop audit verify, of a file,', () => {
  let folder = '';
  const write = async (name: string, content: string): Promise<string> => {
    const file = join(folder, name);
    await writeFile(file, content);
    return file;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'audit-'));
    Object.assign(process.env, { AUDIT_KEY: KEY, SHORT: 'short', NEWER: 'n'.repeat(32) });
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('says 0 and what was not checked, of a chain that holds', async () => {
    const file = await write('whole.jsonl', (await linesOf(await grown('acme', 3))).join(''));
    expect(await outcomeOf(file)).toEqual({
      exitCode: 0,
      text: 'The audit of acme is valid: 3 entries, unchanged and in order. Without a head, entries cut from the end do not show.',
    });
  });

  it('says 0 of a chain that a head confirms, and 1 once its tail is cut', async () => {
    const made = await grown('acme', 3);
    const lines = await linesOf(made);
    const head = await write('head.json', JSON.stringify(await made.trail.exportHead('acme')));
    const [whole, cut] = [
      await write('whole.jsonl', lines.join('')),
      await write('cut.jsonl', lines.slice(0, 2).join('')),
    ];
    expect(await outcomeOf(whole, { head })).toEqual({
      exitCode: 0,
      text: expect.stringMatching(/None of the 3 entries of .* was cut\.$/),
    });
    expect(await outcomeOf(cut, { head })).toEqual({
      exitCode: 1,
      text: 'The audit is not valid. Entry 3 and all after it were cut from the end: the head counts them.',
    });
  });

  it('says 1 and where, of a chain that was tampered with', async () => {
    const lines = await linesOf(await grown('acme', 3));
    const file = await write('removed.jsonl', lines.toSpliced(1, 1).join(''));
    expect(await outcomeOf(file)).toEqual({
      exitCode: 1,
      text: 'The audit is not valid. Entry 2 is missing.',
    });
  });

  it("says 1 of another tenant's chain", async () => {
    const file = await write(
      'globex.jsonl',
      (await linesOf(await grown('globex', 1), 'globex')).join(''),
    );
    expect(await outcomeOf(file, { tenant: 'acme' })).toMatchObject({ exitCode: 1 });
  });

  it('takes every key there has been', async () => {
    const made = await grown('acme', 1);
    const newer = { id: '2', secret: 'n'.repeat(32) };
    await chain({ key: [newer, { id: '1', secret: KEY }] }, made.store).trail.record(draft('acme'));
    const file = await write('rotated.jsonl', (await linesOf(made)).join(''));
    expect(await outcomeOf(file, { keyEnv: ['2=NEWER', '1=AUDIT_KEY'] })).toMatchObject({
      exitCode: 0,
    });
    expect(await outcomeOf(file)).toEqual({
      exitCode: 1,
      text: expect.stringContaining('Entry 2 is signed by'),
    });
  });

  it('says 2 where it cannot check, and why', async () => {
    const file = await write('one.jsonl', (await linesOf(await grown('acme', 1))).join(''));
    const [empty, noHead] = [
      await write('empty.jsonl', ''),
      await write('no-head.json', '{"sequence":1}'),
    ];
    const attempts: [string, Partial<AuditOptions>, string][] = [
      [
        file,
        { keyEnv: ['MISSING'] },
        'The environment variable MISSING, which holds the key of the audit, is not set.',
      ],
      [file, { keyEnv: ['SHORT'] }, 'The key has fewer than 32 bytes.'],
      [file, { keyEnv: ['AUDIT_KEY', 'AUDIT_KEY'] }, 'Two keys have the id "1".'],
      [join(folder, 'nowhere'), {}, 'ENOENT'],
      [file, { head: noHead }, 'The head is no exported head of an audit.'],
      [empty, {}, 'There is nothing to check: there are no entries, and no head.'],
    ];
    for (const [path, given, why] of attempts)
      expect(await outcomeOf(path, given)).toEqual({
        exitCode: 2,
        text: expect.stringContaining(why),
      });
  });
});
