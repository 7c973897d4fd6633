import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { transform } from '@swc/core';
import { environment, fileOf, toolloop } from './command.js';

const MODULE = fileOf('libs/cli/test/runs-app.module.ts');
const APP = ['--app', MODULE, '--actor', 'alice', '--tenant', 'acme'];

let folder: string;
let runId: string;

const { TOOLLOOP_CASSETTES: recordingBefore } = process.env;

beforeAll(async () => {
  // The spec of a run is recorded here, also where `CI` is set and none is by default.
  process.env['TOOLLOOP_CASSETTES'] = 'once';
  mkdirSync('node_modules/.cache', { recursive: true });
  folder = mkdtempSync(resolve('node_modules/.cache/toolloop-evals-'));
  const { stdout } = await toolloop(['runs', '--json', ...APP]);
  const [run] = JSON.parse(stdout) as readonly { readonly runId: string }[];
  runId = run?.runId ?? '';
});
afterAll(() => {
  if (recordingBefore === undefined) delete process.env['TOOLLOOP_CASSETTES'];
  else process.env['TOOLLOOP_CASSETTES'] = recordingBefore;
  rmSync(folder, { recursive: true });
});

const at = (name: string): string => join(folder, name);
const jsonAt = (name: string): unknown => JSON.parse(readFileSync(at(name), 'utf8'));

/** Runs a spec as its runner would, with a `describe` and an `it` that run at once. */
async function runSpec(name: string): Promise<void> {
  const options = JSON.parse(readFileSync('.swcrc', 'utf8')) as object;
  writeFileSync(
    at('runner.mjs'),
    'export const tests = [];\nexport const describe = (_, body) => body();\nexport const it = (_, body) => tests.push(body);\n',
  );
  const source = readFileSync(at(`${name}.spec.ts`), 'utf8').replace(
    "'@jest/globals'",
    "'./runner.mjs'",
  );
  const { code } = await transform(source, { ...options, swcrc: false, sourceMaps: false });
  writeFileSync(at(`${name}.spec.mjs`), code);
  await import(pathToFileURL(at(`${name}.spec.mjs`)).href);
  const { tests } = (await import(pathToFileURL(at('runner.mjs')).href)) as {
    readonly tests: readonly (() => Promise<void>)[];
  };
  expect(tests).toHaveLength(1);
  await tests[0]?.();
}

const rehearse = (...terms: readonly string[]) =>
  toolloop(['runs', 'rehearse', runId, ...terms, ...APP]);

describe('toolloop runs rehearse', () => {
  it('shows what a policy or a model of the application would have made of a run, and exits with 1 where a decision turns out otherwise', async () => {
    const { code, stdout } = await rehearse('--policy', 'strict');
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining('1 of 1 decisions would turn out otherwise.'),
    ]);
    expect(stdout).toMatch(
      /1 +orders__refund +allow \(.*\) +-> +require_approval \(.*\) +otherwise/,
    );
    const other = await rehearse('--model', 'other', '--json');
    expect([other.code, JSON.parse(other.stdout)]).toMatchObject([
      0,
      {
        runId,
        model: 'other',
        isOver: true,
        calls: [{ declaredId: 'orders__refund', why: 'not_made' }],
      },
    ]);
  });

  it('says that a model has come to no answer, and exits with 1: calls that were never made turn out like none', async () => {
    const { code, stdout } = await rehearse('--model', 'mute');
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/come to no answer: its run \S+ ended as "error".*\n0 of 1 decisions/),
    ]);
  });

  it('names those there are where it is told none, or another', async () => {
    expect(await rehearse()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Name --model (other, mute), --policy (strict), or both.'),
    });
    expect(await rehearse('--policy', 'lax')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Known: strict.'),
    });
  });
});

describe('a stored run', () => {
  it('becomes a file and a spec that passes, records what the model is asked, and passes again', async () => {
    const { code, stderr } = await toolloop([
      'runs',
      'test',
      runId,
      '--out',
      folder,
      '--runner',
      'jest',
      ...APP,
    ]);
    expect([code, stderr.includes('toolloop:')]).toEqual([0, false]);
    expect(jsonAt(`${runId}.run.json`)).toMatchObject({
      prompt: 'Refund o-1 for person@example.com.',
      steps: [
        { calls: [{ tool: 'orders__refund', args: { orderId: 'o-1' }, status: 'succeeded' }] },
        { text: 'It is refunded.' },
      ],
    });
    await runSpec(runId);
    expect(jsonAt(`${runId}.cassette.json`)).toMatchObject({ provider: 'scripted' });
  });

  it('becomes a case of a data set, which passes where it is run, and fails where a person says that it was wrong', async () => {
    expect((await toolloop(['runs', 'case', runId, '--to', at('cases.json'), ...APP])).code).toBe(
      0,
    );
    expect(jsonAt('cases.json')).toMatchObject({
      cases: [
        { prompt: 'Refund o-1 for person@example.com.', calls: [{ tool: 'orders__refund' }] },
      ],
    });
    const good = await toolloop(['eval', at('cases.json'), '--out', at('report.json'), ...APP]);
    expect([good.code, good.stdout]).toEqual([0, expect.stringContaining('1 of 1')]);
    expect(jsonAt('report.json')).toMatchObject({ version: 1, runs: [{ passed: true }] });
    await toolloop([
      'runs',
      'case',
      runId,
      '--to',
      at('cases.json'),
      '--verdict',
      'wrong',
      '--why',
      'Not asked for.',
      ...APP,
    ]);
    const bad = await toolloop(['eval', at('cases.json'), '--baseline', at('report.json'), ...APP]);
    expect([bad.code, bad.stdout]).toEqual([1, expect.stringContaining('Worse than before')]);
  });

  it('is judged, and the judge is held against the verdicts of people', async () => {
    const verdicts = at('verdicts.jsonl');
    expect(
      (
        await toolloop([
          'eval',
          'verdict',
          runId,
          'wrong',
          '--why',
          'Not asked for.',
          '--to',
          verdicts,
        ])
      ).code,
    ).toBe(0);
    writeFileSync(
      at('eval.config.mjs'),
      `export const judge = () => Promise.resolve({ verdict: 'right', why: 'It was asked for.', usage: { inputTokens: 1, outputTokens: 1 } });`,
    );
    const args = [
      'eval',
      'judge',
      '--config',
      at('eval.config.mjs'),
      '--question',
      'Was it asked for?',
      '--verdicts',
      verdicts,
      '--minimum',
      '0.8',
    ];
    const { code, stdout } = await toolloop([...args, ...APP]);
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining('It passes 100 % of what they call wrong'),
    ]);
  });

  it.each<[string, readonly string[], string]>([
    ['a run of no one', ['runs', 'case', 'r-0'], 'No run "r-0" of yours is stored'],
    [
      'another word',
      ['eval', 'verdict', 'r-0', 'perhaps'],
      'A verdict is right or wrong, not "perhaps".',
    ],
  ])('is not asked for with %s', async (_what, args, words) => {
    const { code, stderr } = await toolloop([...args], {
      env: environment({ TOOLLOOP_APP: MODULE, TOOLLOOP_ACTOR: 'alice', TOOLLOOP_TENANT: 'acme' }),
    });
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
  });
});
