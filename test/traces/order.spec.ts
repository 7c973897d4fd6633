import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { Policy } from '@toolloop/core';
import { call, calls, type ScriptedTurn, text } from '@toolloop/testing';
import { OPEN, WitnessedApplication } from './order/application.js';

const FOLDER = 'test/traces/order/golden';
const IS_UPDATED = process.env['UPDATE_GOLDEN'] === '1';

/** A kind of call, and a run that makes one. */
interface KindOfCall {
  readonly kind: string;
  readonly script: readonly ScriptedTurn[];
  readonly policy?: Policy;
  readonly play?: (application: WitnessedApplication) => Promise<unknown>;
}

const desk = (id: string): ReturnType<typeof call> => call(`desk__${id}`, { key: 'a' });
const DONE = text('Done.');
const ASKING: Policy = { ...OPEN, requireApproval: [{ tools: ['desk__write', 'order_*'] }] };

/** The run that waits, the answer, and the run from then on. */
const answered =
  (reply: object): NonNullable<KindOfCall['play']> =>
  async (application) => {
    const { runId } = await application.run();
    await application.answer(runId, reply);
  };
const approved = answered({ decision: 'approve' });

const KINDS: readonly KindOfCall[] = [
  { kind: 'a read', script: [calls(desk('look')), DONE] },
  { kind: 'a change', script: [calls(desk('write')), DONE] },
  { kind: 'a call that waits for an approval', script: [calls(desk('write'))], policy: ASKING },
  {
    kind: 'a call that is approved',
    script: [calls(desk('write')), DONE],
    policy: ASKING,
    play: approved,
  },
  {
    kind: 'a call that policy refuses',
    script: [calls(desk('write')), DONE],
    policy: { ...OPEN, deny: ['desk__write'] },
  },
  { kind: 'a call of no tool', script: [calls(desk('lok')), DONE] },
  {
    kind: 'a call with arguments that do not fit',
    script: [calls(call('desk__write', { key: 1 })), DONE],
  },
  {
    kind: 'a call of the client',
    script: [calls(desk('sign')), DONE],
    play: answered({ result: { signed: true } }),
  },
  {
    kind: 'a call that asks within',
    script: [calls(desk('ask')), DONE],
    play: answered({ answer: 3 }),
  },
  {
    kind: 'a call that is asked about before',
    script: [calls(desk('choose')), DONE],
    play: answered({ answer: 'large' }),
  },
  {
    kind: 'a directive',
    script: [calls(desk('book')), DONE],
    play: (application) => application.runAndPerform(),
  },
  {
    kind: 'a rehearsed call that is performed',
    script: [calls(desk('write')), DONE],
    play: async (application) => {
      const { runId } = await application.run({ rehearse: true });
      await application.answer(runId, { decision: 'approve' });
    },
  },
  {
    kind: 'a sub-run',
    script: [
      calls(call('desk__delegate', { prompt: 'Look.' })),
      calls(desk('look')),
      text('Looked.'),
      DONE,
    ],
  },
  {
    kind: 'a call of a tool of an entity',
    script: [calls(call('desk__findOrder', { id: 'o-1' })), calls(call('order_o-1_cancel')), DONE],
    policy: ASKING,
    play: approved,
  },
  {
    kind: 'a deferred call',
    script: [calls(desk('write'), desk('book'), desk('look')), DONE],
    policy: ASKING,
    play: async (application) => {
      const { runId } = await application.run();
      await application.answer(runId, { decision: 'deny' });
    },
  },
  {
    kind: 'a call that is repeated',
    script: [calls(desk('write')), DONE, calls(desk('write')), DONE],
    play: async (application) => {
      await application.run({ requestId: 'r' });
      application.witness.saw('--- the request is repeated');
      await application.run({ requestId: 'r' });
    },
  },
];

const fileOf = (kind: string): string => `${FOLDER}/${kind.replaceAll(' ', '-')}.json`;

/**
 * Where guards, pipes, interceptors, hooks, spans, strategies, stores, the audit and events meet in
 * a call. `UPDATE_GOLDEN=1` writes the orders anew, for a change that means to change one.
 */
describe('the order of everything that takes part', () => {
  it.each(KINDS)('is as it was in $kind', async ({ kind, script, policy, play }) => {
    const application = await WitnessedApplication.open(script, policy);
    await (play ?? ((one) => one.run()))(application);
    const told = `${JSON.stringify(application.witness.lines, undefined, 1)}\n`;
    await application.close();
    if (IS_UPDATED) writeFileSync(fileOf(kind), told);
    expect(told).toBe(existsSync(fileOf(kind)) ? readFileSync(fileOf(kind), 'utf8') : '');
  });

  it('is kept for each kind of call, under a name of its own', () => {
    expect(readdirSync(FOLDER).toSorted()).toEqual(
      KINDS.map(({ kind }) => fileOf(kind).slice(FOLDER.length + 1)).toSorted(),
    );
  });
});
