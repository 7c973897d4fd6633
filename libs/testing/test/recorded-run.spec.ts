import { describe, expect, it } from '@jest/globals';
import { tool } from '@toolloop/core';
import { MemoryCallJournal, MemoryPendingStore, MemoryRunLog } from '@toolloop/core/stores';
import { WakingPendingStore } from '@toolloop/durable';
import {
  call,
  calls,
  expectSameRun,
  readRecordedRun,
  recordRun,
  ScriptedModel,
  scriptOf,
  text,
} from '@toolloop/testing';
import type { DeskProcess } from '../../durable/test/fixtures/desk.process.js';
import { alice, bob, processStarter, until } from '../../durable/test/fixtures/durable-runs.js';

const start = processStarter();

const lookup = tool({
  id: 'crm__find',
  description: 'Finds customers.',
  effect: 'read_only',
  reveal: 'all',
  input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  execute: () => ['c-7'],
});
const SCRIPT = [
  calls(call('crm__find', { name: 'Ada' }), call('crm__unknown', {})),
  text('She is c-7, ada@acme.test.'),
];
const script = (): ScriptedModel => new ScriptedModel(SCRIPT, { perRun: true });

async function recorded() {
  const runs = new MemoryRunLog();
  const stores = {
    pending: new WakingPendingStore(new MemoryPendingStore(), runs, (work) => work()),
    journal: new MemoryCallJournal(),
  };
  const open = () =>
    Promise.resolve({ runs, stores: stores as never, close: () => Promise.resolve() });
  const desk: DeskProcess = await start({ open, effects: [] }, script(), { tools: [lookup] });
  const handle = desk.loop.open({
    ...alice,
    prompt: 'Who is Ada? Mail me at ann@acme.test.',
    durable: true,
  });
  await handle.result;
  await until(desk, handle.runId, 'ended');
  return { desk, runId: handle.runId, run: await recordRun(desk.module, handle.runId, alice) };
}

describe('a run that was stored', () => {
  it('is recorded as what was asked, answered and called, without what leads to a person', async () => {
    const { run, runId } = await recorded();
    expect(run).toEqual({
      version: 1,
      runId,
      prompt: 'Who is Ada? Mail me at person@example.com.',
      actor: { id: 'alice' },
      tenant: alice.tenant,
      steps: [
        {
          text: '',
          calls: [
            {
              tool: 'crm__find',
              declaredId: 'crm__find',
              args: { name: 'Ada' },
              status: 'succeeded',
              decision: 'allow',
            },
            { tool: 'crm__unknown', args: {}, status: 'failed', code: 'unknown_tool' },
          ],
        },
        { text: 'She is c-7, person@example.com.', calls: [] },
      ],
      finishReason: 'stop',
      text: 'She is c-7, person@example.com.',
    });
    expect(readRecordedRun(JSON.stringify(run))).toEqual(run);
  });

  it('is the script of a model, whose run is held against it', async () => {
    const { desk, run } = await recorded();
    const again = await desk.loop.run({
      ...alice,
      prompt: run.prompt ?? '',
      model: new ScriptedModel(scriptOf(run), { perRun: true }),
    });
    expectSameRun(again, run);
    const other = await desk.loop.run({
      ...alice,
      prompt: 'Who?',
      model: new ScriptedModel([calls(call('crm__find', { name: 'Bob' })), text('Done.')]),
    });
    expect(() => expectSameRun(other, run)).toThrow(
      /calls\[0\]\.args\.name\n {4}recorded {2}"Ada"\n {4}now {7}"Bob"/,
    );
  });

  it('is not recorded for another person', async () => {
    const { desk, runId } = await recorded();
    await expect(recordRun(desk.module, runId, bob)).rejects.toMatchObject({ code: 'unknown_run' });
  });

  it('is refused as a file where it is none', () => {
    expect(() => readRecordedRun('{"version":2}')).toThrow('no recorded run');
  });
});
