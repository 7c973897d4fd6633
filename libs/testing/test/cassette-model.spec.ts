import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type LanguageModel, ModelError } from '@toolloop/core';
import { openai } from '@toolloop/openai';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import {
  blockRealModels,
  call,
  calls,
  CassetteModel,
  ExpectationError,
  fails,
  ScriptedModel,
  text,
} from '@toolloop/testing';
import { CassetteMissError } from '../src/testing.error.js';
import { spec } from './run-samples.js';

let folder: string;
let files = 0;
const env = { ...process.env };

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'cassettes-'));
});
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => {
  for (const name of ['TOOLLOOP_CASSETTES', 'CI']) {
    if (env[name] === undefined) delete process.env[name];
    else process.env[name] = env[name];
  }
});

const fileName = (): string => join(folder, `${(files += 1)}`, 'cassette.json');

const ASKED: ModelRequest = {
  instructions: 'You are helpful.',
  messages: [{ role: 'user', content: 'Who is Ada? My key is sk-live-0123456789abcdef.' }],
  tools: [spec('crm__find')],
};

async function answer(model: LanguageModel, request: ModelRequest = ASKED): Promise<ModelEvent[]> {
  const read: ModelEvent[] = [];
  for await (const event of model.stream(request, new AbortController().signal)) read.push(event);
  return read;
}

async function recorded(
  ...script: ConstructorParameters<typeof ScriptedModel>[0]
): Promise<string> {
  const file = fileName();
  const model = new CassetteModel(file, { model: new ScriptedModel(script), record: 'once' });
  for (const _ of script) await answer(model).catch(() => undefined);
  return file;
}

const redact = (one: string): string => one.replaceAll(/\d{4}-\d\d-\d\d/g, 'DAY');
const on = (day: string): ModelRequest => ({ ...ASKED, instructions: `Today is ${day}.` });

describe('a cassette', () => {
  it('records a model once, and replays it without one', async () => {
    const file = await recorded(calls(call('crm__find', { name: 'Ada' })));
    const replayed = new CassetteModel(file);
    const events = await answer(replayed);
    expect(events.map(({ type }) => type)).toEqual([
      'tool-call-delta',
      'tool-call',
      'usage',
      'finish',
    ]);
    expect(events[1]).toMatchObject({ name: 'crm__find', arguments: '{"name":"Ada"}' });
    expect([replayed.provider, replayed.modelId]).toEqual(['scripted', 'script']);
    replayed.assertComplete();
  });

  it('asks no model where a file is there, though one is given', async () => {
    const file = await recorded(text('Recorded.'));
    const real = new ScriptedModel([text('Asked.')]);
    const events = await answer(new CassetteModel(file, { model: real, record: 'once' }));
    expect([JSON.stringify(events).includes('Recorded.'), real.requests.length]).toEqual([true, 0]);
  });

  it('gives an equal request the next answer that was recorded, and then the last one again', async () => {
    const model = new CassetteModel(await recorded(text('One.'), text('Two.')));
    const texts = [await answer(model), await answer(model), await answer(model)].map((events) =>
      JSON.stringify(events),
    );
    expect(texts.map((one) => [one.includes('One.'), one.includes('Two.')])).toEqual([
      [true, false],
      [false, true],
      [false, true],
    ]);
  });

  it('replays the failure of a provider', async () => {
    const model = new CassetteModel(
      await recorded(fails(new ModelError('Too many.', { status: 429, retryable: true }), 'Wait')),
    );
    await expect(answer(model)).rejects.toMatchObject({
      code: 'rate_limited',
      isRetryable: true,
      message: 'Too many.',
    });
  });

  it('prints what moved when a request is not recorded, and says it once more at the end', async () => {
    const file = await recorded(text('Recorded.'));
    const model = new CassetteModel(file);
    const moved = {
      ...ASKED,
      instructions: 'You are terse.',
      tools: [{ ...spec('crm__find'), description: 'Finds.' }, spec('crm__count')],
    };
    const miss = await answer(model, moved).catch((error: unknown) => error);
    expect(miss).toBeInstanceOf(CassetteMissError);
    expect(String(miss).replace(file, 'FILE')).toBe(
      [
        'CassetteMissError: FILE has no answer to this request. The closest recorded request, 1 of 1, differs in:',
        '  instructions',
        '    recorded  "You are helpful."',
        '    asked     "You are terse."',
        '  tools[crm__find].description',
        '    recorded  ""',
        '    asked     "Finds."',
        '  tools[crm__count]',
        '    recorded  nothing',
        '    asked     {"id":"crm__count","description":"","inputSchema":{}}',
        'If the change is meant, record it again: TOOLLOOP_CASSETTES=all, with a model to record.',
      ].join('\n'),
    );
    expect(() => model.assertComplete()).toThrow(CassetteMissError);
  });

  it('finds a request whose labels, hidden values and time limits differ, since the model reads none of them', async () => {
    const tool = { role: 'tool', toolCallId: 'c1', toolName: 'crm__find', content: 'v1' } as const;
    const file = fileName();
    const asked = {
      ...ASKED,
      messages: [
        {
          ...tool,
          labels: { returns: 'untrusted', reads: 'private' },
          hidden: [{ id: 'v1', value: 'the hidden text', from: [] }],
        },
      ],
    };
    await answer(
      new CassetteModel(file, { model: new ScriptedModel([text('Yes.')]), record: 'once' }),
      asked as unknown as ModelRequest,
    );
    expect(readFileSync(file, 'utf8')).not.toContain('the hidden text');
    const timeLimits = { firstByteMs: 1, firstContentMs: 1, idleMs: 1 };
    expect(
      await answer(new CassetteModel(file), { ...ASKED, messages: [tool], timeLimits }),
    ).toHaveLength(3);
  });

  it('stores no secret: of the request, of the answer, of a key that came in pieces, nor of an error', async () => {
    const secret = 'sk-live-0123456789abcdef';
    const file = await recorded(
      text(`Your key is ${secret}, keep it.`),
      fails(new ModelError(`Bad key ${secret}.`)),
      calls(call('crm__find', { password: 'hunter2' })),
    );
    const stored = readFileSync(file, 'utf8');
    expect(stored).not.toMatch(/sk-live|0123456789abcdef/);
    expect(stored).toContain('Your key is [secret], keep it.');
    expect(JSON.stringify(await answer(new CassetteModel(file)))).toContain('[secret]');
  });

  it('compares texts as redact returns them, so that a time does not move a request', async () => {
    const file = fileName();
    await answer(
      new CassetteModel(file, {
        model: new ScriptedModel([text('Hello.')]),
        record: 'once',
        redact,
      }),
      on('2026-01-01'),
    );
    expect(await answer(new CassetteModel(file, { redact }), on('2026-02-02'))).not.toHaveLength(0);
  });

  it('says that answers were not asked for', async () => {
    const model = new CassetteModel(await recorded(text('One.'), text('Two.')));
    await answer(model);
    expect(() => model.assertComplete()).toThrow('1 of the 2 answers');
  });

  it('keeps no answer that its reader left', async () => {
    const file = fileName();
    const model = new CassetteModel(file, {
      model: new ScriptedModel([text('Hello there, you.'), text('Whole.')]),
      record: 'once',
    });
    for await (const _ of model.stream(ASKED, new AbortController().signal)) break;
    await answer(model);
    expect(JSON.stringify(await answer(new CassetteModel(file)))).toContain('Whole.');
  });

  it('records nothing in CI, and says how to', () => {
    process.env['CI'] = 'true';
    expect(() => new CassetteModel(fileName(), { model: new ScriptedModel([]) })).toThrow(
      'Record it on your machine',
    );
  });

  it('writes the file anew with TOOLLOOP_CASSETTES=all', async () => {
    const file = await recorded(text('Old.'));
    process.env['TOOLLOOP_CASSETTES'] = 'all';
    await answer(new CassetteModel(file, { model: new ScriptedModel([text('New.')]) }));
    expect(readFileSync(file, 'utf8')).not.toContain('Old.');
  });

  it.each([
    [
      'a word that is none of its own',
      () => ((process.env['TOOLLOOP_CASSETTES'] = 'yes'), new CassetteModel(fileName())),
      'one of: once, all, none',
    ],
    ['no file and no model', () => new CassetteModel(fileName()), 'no model is given to record'],
    [
      'a file that is no cassette',
      () => (
        writeFileSync(join(folder, 'x.json'), '{}'),
        new CassetteModel(join(folder, 'x.json'))
      ),
      'is no cassette',
    ],
  ])('refuses %s', (_what, make, complaint) => {
    delete process.env['CI'];
    expect(make).toThrow(ExpectationError);
    expect(make).toThrow(complaint);
  });
});

describe('blockRealModels', () => {
  const real = openai('gpt-5-mini', {
    apiKey: 'sk-none',
    baseURL: 'https://api.openai.invalid/v1',
  });
  let unblock: () => void;
  beforeAll(() => {
    unblock = blockRealModels();
  });
  afterAll(() => unblock());

  it('fails a question to a provider, and names its host', async () => {
    await expect(answer(real)).rejects.toMatchObject({
      code: 'forbidden',
      isRetryable: false,
      message: expect.stringContaining('api.openai.invalid'),
    });
  });

  it('fails it too when the wire repeats an earlier request', async () => {
    await expect(answer(real)).rejects.toMatchObject({ code: 'forbidden' });
  });

  it('lets a server on this machine be asked', async () => {
    const local = openai('gpt-5-mini', { apiKey: 'sk-none', baseURL: 'http://127.0.0.1:9/v1' });
    await expect(answer(local)).rejects.toMatchObject({ code: 'unreachable' });
  });

  it('lets a cassette record', async () => {
    await expect(
      answer(new CassetteModel(fileName(), { model: real, record: 'once' })),
    ).rejects.toMatchObject({ code: 'unreachable' });
  });
});
