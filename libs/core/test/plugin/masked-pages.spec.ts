import { describe, expect, it } from '@jest/globals';
import type { CallOutcome, OpenedCall, ResultChange } from '@toolloop/core/plugin';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { having } from '../fixtures/plugins.js';
import { play, resultsIn } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const CARDS = Array.from({ length: 200 }, (_, at) => `line ${at} 4111111111111111`).join('\n');
const limits = { resultBytes: 1_000, identicalCalls: 100, callsPerTool: 100 };
const policy = { version: 'v1', allow: ['*'], flow: 'off' } as const;

/** Masks the numbers of cards, and notes of which tools. */
function masking(seen: string[]) {
  return (opened: OpenedCall, { content }: CallOutcome): ResultChange | undefined => {
    seen.push(opened.tool?.spec.declaredId ?? '');
    return typeof content === 'string'
      ? { content: content.replaceAll(/\d{16}/g, '****') }
      : undefined;
  };
}

const concernsProbe = ({ spec }: { readonly spec: { readonly declaredId: string } }): boolean =>
  spec.declaredId === 'probe__read';

const isResult = ({ type, record }: { type: string; record?: { id: string } }): boolean =>
  type === 'tool-result' && record?.id === 'results__read';

describe('a result that a plugin masks, and that is too large to be shown whole', () => {
  it.each([
    ['every tool', {}],
    ['its tool alone', { concerns: concernsProbe }],
  ])('is masked as well where it is read on, by a plugin of %s', async (_what, declaration) => {
    const seen: string[] = [];
    const loop = await openShop(
      new ScriptedModel([
        calls(call('probe__read', { key: 'a' })),
        calls(call('results__read', { handle: 'r1', offset: 1_000 })),
        text('Done.'),
      ]),
      { policy, providers: [having('acme.mask', { result: masking(seen) }, declaration)] },
    );
    const { result, events } = await play(loop, ask({ limits, context: { act: () => CARDS } }));
    const [first = '', second = ''] = resultsIn(result.messages);
    expect([first.includes('****'), second.includes('****')]).toEqual([true, true]);
    expect(JSON.stringify([result.messages, events.filter(isResult)])).not.toMatch(/411111111111/);
    expect(seen).toEqual(['probe__read', 'probe__read']);
  });
});
