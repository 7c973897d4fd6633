import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type JsonObject,
  type LoopRequest,
  type Policy,
  ToolLoopService,
} from '@toolloop/core';
import { PendingStore, RunLog } from '@toolloop/core/stores';
import {
  ScriptedModel,
  call,
  calls,
  eventsOf,
  expectInjected,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import * as fc from 'fast-check';
import { ResultPages } from '../../../src/plugins/pages/result-pages.js';
import { RESULT_READER } from '../../../src/plugins/pages/result-reader.js';
import { play, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { ask, openModule, openShop, type ShopOptions } from '../../fixtures/shop.module.js';

const READER = 'results__read';
const show = (key = 'a') => call('probe__read', { key });
const on = (handle: string, offset = 0, length = 100_000) =>
  call(READER, { handle, offset, length });
const LONG = Array.from({ length: 300 }, (_, index) => `line ${index} äöü€😀`).join('\n');
const limits = { resultBytes: 1_000, identicalCalls: 100, callsPerTool: 100, steps: 100 };

/** A run whose `probe__read` gives a long text. */
async function playLong(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
  options: ShopOptions = {},
): Promise<PlayedRun> {
  const loop = await openShop(new ScriptedModel(script), {
    policy: { allow: ['*'], flow: 'off' },
    ...options,
  });
  return play(loop, ask({ limits, context: { act: () => LONG }, ...request }));
}

/** Where the note of a page or a cut result says to go on. */
function nextIn(content: string): { readonly handle: string; readonly offset: number } | undefined {
  const note = /results__read\((\{.*?\})\)/.exec(content);
  return note?.[1] === undefined
    ? undefined
    : (JSON.parse(note[1]) as { handle: string; offset: number });
}

describe('a result that was cut', () => {
  it('names its handle, and the tool that reads it appears with the next step', async () => {
    const model = new ScriptedModel([calls(show()), text('Done.')]);
    const loop = await openShop(model, { policy: { allow: ['*'] } });
    const played = await play(loop, ask({ limits, context: { act: () => LONG } }));
    const [content = ''] = resultsIn(played.result.messages);
    expect(nextIn(content)).toEqual({ handle: 'r1', offset: content.indexOf('\n[…') });
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(1_000);
    const [first, second] = model.requests.map(({ tools }) => tools?.map(({ id }) => id) ?? []);
    expect(first).not.toContain(READER);
    expect(second).toEqual([...(first ?? []), READER]);
    expectInjected(played.events, { provider: 'results', tools: [READER] });
  });

  it('can be read to its end, page by page, each within the bytes and between characters', async () => {
    let read = '';
    const readOn: ScriptedTurn = ({ messages }) => {
      const [content = ''] = resultsIn(messages).slice(-1);
      expect(Buffer.byteLength(content)).toBeLessThanOrEqual(1_000);
      expect(content).not.toContain('\uFFFD');
      read += content.slice(0, content.lastIndexOf('\n['));
      const next = nextIn(content);
      return next ? calls(on(next.handle, next.offset)) : text('Done.');
    };
    const { result } = await playLong([
      calls(show()),
      calls(on('r1')),
      ...Array<ScriptedTurn>(10).fill(readOn),
    ]);
    expect(result.finishReason).toBe('stop');
    expect(read).toBe(LONG);
  });

  it('is read from where it was cut, and no longer than asked', async () => {
    const { result } = await playLong([
      calls(show()),
      calls(on('r1', 5, 10)),
      calls(on('r1', LONG.length - 3)),
      text('Done.'),
    ]);
    const [, some = '', end = ''] = resultsIn(result.messages);
    expect(some).toBe(
      `${LONG.slice(5, 15)}\n[r1: characters 5 to 15 of ${LONG.length}. Continue: results__read({"handle":"r1","offset":15})]`,
    );
    expect(end).toContain('the end.]');
  });

  it('is shown to the model alone', async () => {
    const { events, result } = await playLong([
      calls(show()),
      calls(on('r1', 0, 50)),
      text('Done.'),
    ]);
    const [, page] = eventsOf(events, 'tool-result');
    expect(page?.record.result).toEqual({
      handle: 'r1',
      of: 'probe__read',
      offset: 0,
      characters: LONG.length,
    });
    expect(JSON.stringify(result.toolCalls[1])).not.toContain('line 0');
  });

  it('has a page whose text counts as what a stranger said about private things', async () => {
    const { result } = await playLong([calls(show()), calls(on('r1')), text('Done.')]);
    expect(result.messages.findLast(({ role }) => role === 'tool')).toMatchObject({
      toolName: READER,
      labels: { returns: 'untrusted', reads: 'private' },
    });
  });

  it('fits into the envelope as well', async () => {
    const { result } = await playLong([calls(show()), calls(on('r1')), text('Done.')], {
      execution: { resultFormat: 'envelope' },
    });
    const [, page = ''] = resultsIn(result.messages);
    expect(Buffer.byteLength(page)).toBeLessThanOrEqual(1_000);
    expect(JSON.parse(page)).toMatchObject({ ok: true, type: READER });
  });
});

describe('the tool that reads on', () => {
  const ordinary = '; the middle was left out. Ask for less at a time. …]';

  it.each<[string, Partial<LoopRequest>, ShopOptions]>([
    ['no policy allows it', {}, { policy: { allow: ['probe__*'] } }],
    ['a policy denies it', {}, { policy: { allow: ['*'], deny: [READER] } }],
    ['the run excludes it', { exclude: [READER] }, {}],
    ['the run has no injection', { injection: false }, {}],
    ['a page would be too small', { limits: { resultBytes: 200 } }, {}],
    ['nothing is kept', { limits: { ...limits, keptResultBytes: 0 } }, {}],
  ])('is neither offered nor mentioned where %s', async (_, request, options) => {
    const { result, events } = await playLong(
      [calls(show()), calls(on('r1')), text('Done.')],
      request,
      options,
    );
    const [content = '', answer = ''] = resultsIn(result.messages);
    expect(content).toContain(ordinary);
    expect(content).not.toContain(READER);
    expect(answer).toContain('No tool is named \\"results__read\\"');
    expect(eventsOf(events, 'tools-injected')).toEqual([]);
  });

  it('is not there before a result was cut', async () => {
    const loop = await openShop(new ScriptedModel([calls(on('r1')), text('Done.')]), {
      policy: { allow: ['*'] },
    });
    const { result } = await play(loop, ask());
    expect(result.toolCalls).toMatchObject([{ error: { code: 'unknown_tool' } }]);
  });

  it('is named by policies, and listed nowhere', async () => {
    const module = await openModule(new ScriptedModel([]), {
      policy: {
        allow: ['probe__*', READER],
        callBudgets: [{ tools: ['results__*'], maxResultBytes: 500 }],
      },
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const listed = await loop.list({ actor: { id: 'alice' }, tenant: 'acme' });
    expect(listed.map(({ id }) => id)).not.toContain(READER);
    await expect(
      openModule(new ScriptedModel([]), { policy: { allow: ['results__raed'] } }),
    ).rejects.toThrow('Did you mean "results__read"?');
  });

  it('obeys a budget of its own', async () => {
    const policy: Policy = {
      allow: ['*'],
      callBudgets: [{ tools: [READER], maxResultBytes: 400 }],
    };
    const { result } = await playLong(
      [calls(show()), calls(on('r1')), text('Done.')],
      {},
      { policy },
    );
    expect(Buffer.byteLength(resultsIn(result.messages)[1] ?? '')).toBeLessThanOrEqual(400);
  });

  it('is offered although the cap of injected tools is reached', async () => {
    const { events } = await playLong([calls(show()), text('Done.')], {
      limits: { ...limits, injectedTools: 0 },
    });
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { provider: 'results', tools: [READER] },
    ]);
  });

  it.each<[string, JsonObject, string]>([
    ['a handle that never was', { handle: 'r7' }, 'No result has that handle. Available: r1.'],
    ['a name of an object', { handle: '__proto__' }, 'No result has that handle.'],
    ['a place behind the end', { handle: 'r1', offset: 1e9 }, `has ${LONG.length} characters`],
    ['a place before the beginning', { handle: 'r1', offset: -1 }, 'offset'],
    ['a run of another actor', { handle: 'r1', runId: 'x' }, 'runId'],
  ])('answers a hostile model: %s', async (_, args, answer) => {
    const { result } = await playLong([calls(show()), calls(call(READER, args)), text('Done.')]);
    expect(resultsIn(result.messages)[1]).toContain(answer);
    expect(result.toolCalls[1]?.status).toBe('failed');
  });

  it('forgets the oldest past the bytes that a run keeps, and says how to get them back', async () => {
    const kept = { ...limits, keptResultBytes: Buffer.byteLength(LONG) * 2 };
    const { result } = await playLong(
      [
        calls(show('a')),
        calls(show('b')),
        calls(show('c')),
        calls(on('r1'), on('r3')),
        text('Done.'),
      ],
      {
        limits: kept,
      },
    );
    const [, , , gone = '', there = ''] = resultsIn(result.messages);
    expect(gone).toContain('The result r1 is not kept any more. Call probe__read again');
    expect(there).toContain('line 0');
  });
});

/** Reads what it was told of, and what it was not. */
const prying = (): ScriptedModel =>
  new ScriptedModel([calls(show()), calls(on('r1'), on('r2')), text('Done.')]);
const write = () => calls(call('probe__write', { key: 'w' }));

describe('invariant 9: kept results', () => {
  it('invariant 9: are those of one run, whatever handles another names', async () => {
    const secrets = { acme: 'A'.repeat(5_000), globex: 'G'.repeat(5_000) };
    const loop = await openShop(prying(), { policy: { allow: ['*'] } });
    const runs = Object.entries(secrets).map(([tenant, secret]) =>
      play(loop, ask({ tenant, limits, model: prying(), context: { act: () => secret } })),
    );
    const [acme, globex] = await Promise.all(runs);
    expect(JSON.stringify(acme?.result.messages)).not.toContain('GG');
    expect(JSON.stringify(globex?.result.messages)).not.toContain('AA');
    expect(resultsIn(acme?.result.messages ?? [])[1]).toContain('AAAA');
  });

  it('invariant 9: are not those of an earlier run of the conversation, and their handles are never given again', async () => {
    const model = new ScriptedModel([
      calls(show()),
      text('One.'),
      calls(show()),
      calls(on('r1')),
      text('Two.'),
    ]);
    const loop = await openShop(model, { policy: { allow: ['*'] } });
    const request = ask({ limits, conversationId: 'c1', context: { act: () => LONG } });
    await loop.run(request);
    const { messages } = await loop.run(request);
    const [, second = '', answer = ''] = resultsIn(messages);
    expect(nextIn(second)?.handle).toBe('r2');
    expect(answer).toContain('No result has that handle. Available: r2.');
  });

  it('invariant 13: name no handle where a write is answered from the journal', async () => {
    const model = new ScriptedModel([write(), text('Done.'), write(), text('Done.')]);
    const loop = await openShop(model, { policy: { allow: ['*'], flow: 'off' } });
    const request = ask({ limits, requestId: 'same', context: { act: () => LONG } });
    const [one, other] = [await loop.run(request), await loop.run(request)];
    expect(resultsIn(one.messages)[0]).toContain('"r1"');
    expect(resultsIn(other.messages)[0]).not.toContain(READER);
  });
});

const script = (...turns: readonly ScriptedTurn[]) =>
  new ScriptedModel([calls(show()), write(), ...turns, text('Done.')]);

describe('a run that waited', () => {
  const policy: Policy = {
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ effects: ['state_change'] }],
  };
  const alice = { actor: { id: 'alice' }, tenant: 'acme' };
  const request = {
    ...alice,
    limits,
    context: { act: (key: string) => (key === 'w' ? 'written' : LONG) },
  };

  it('reads on in what it kept, in the same process', async () => {
    const module = await openModule(
      script(calls(show('b')), calls(on('r1', 0, 20), on('r2', 0, 20))),
      { policy },
    );
    const loop: ToolLoopService = module.get(ToolLoopService);
    const { runId } = await loop.run(ask(request));
    await approveAll(module.get(PendingService));
    const { messages } = await (await loop.resume(runId, request)).result;
    const [earlier, later] = resultsIn(messages).slice(-2);
    expect(earlier).toContain('[r1: characters 0 to 20');
    expect(later).toContain('[r2: characters 0 to 20');
  });

  it('is told that it is gone, in another', async () => {
    const model = script(calls(on('r1', 0, 20)));
    const first = await openModule(model, { policy });
    const { runId } = await first.get(ToolLoopService).run(ask(request));
    await approveAll(first.get(PendingService));
    const ports = [PendingStore, RunLog].map((port) => ({
      provide: port,
      useValue: first.get<unknown>(port),
    }));
    const second = await openModule(model, { policy, providers: ports });
    const { messages } = await (await second.get(ToolLoopService).resume(runId, request)).result;
    expect(resultsIn(messages)[2]).toContain('Call that tool again.');
  });

  async function approveAll(approvals: PendingService): Promise<void> {
    for (const { approvalId } of await approvals.list(alice))
      await approvals.decide({ approvalId, decision: 'approve' }, alice);
  }
});

describe('pages', () => {
  it('cover any text, whatever its characters, and always make progress', () => {
    const texts = fc.string({
      unit: fc.constantFrom('a', 'ä', '€', '😀', '\n', '"', '\u0001', '\uFFFD'),
      minLength: 1,
      maxLength: 2_000,
      size: 'max',
    });
    fc.assert(
      fc.property(
        texts,
        fc.integer({ min: 256, max: 2_000 }),
        fc.boolean(),
        (whole, mostBytes, quoted) => {
          const pages = new ResultPages(1e6);
          const handle = pages.keep(RESULT_READER, whole) ?? '';
          let [offset, read] = [0, ''];
          while (offset < whole.length) {
            const page = pages
              .read({ handle, offset, length: Infinity })
              .fitted(mostBytes, (words) => (quoted ? JSON.stringify(words) : words));
            expect(Buffer.byteLength(page)).toBeLessThanOrEqual(mostBytes);
            expect(Buffer.from(page).toString()).toBe(page); // no half of a character
            const content = quoted ? (JSON.parse(page) as string) : page;
            const shown = content.slice(0, content.lastIndexOf('\n['));
            expect(shown.length).toBeGreaterThan(0);
            read += shown;
            offset += shown.length;
          }
          expect(read).toBe(whole);
        },
      ),
    );
  });
});
