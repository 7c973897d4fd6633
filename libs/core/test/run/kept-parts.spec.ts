import { describe, expect, it } from '@jest/globals';
import { type JsonObject, type JsonValue, ToolLoopService } from '@toolloop/core';
import { RunLog } from '@toolloop/core/stores';
import { ScriptedModel, call, calls } from '@toolloop/testing';
import type { OPTIONAL_PARTS, PARTS } from '../../src/run/saved-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';

/**
 * A value for each part that nothing but the saved run has: no model is asked between the two
 * waits. A part that is new does not compile until it has one here.
 */
const VALUES: Readonly<Record<keyof typeof PARTS | keyof typeof OPTIONAL_PARTS, JsonValue>> = {
  approvals: {
    repeated: [['call-9', 'approval-9']],
    endorsed: [{ approvalId: 'approval-9', endorsed: { source: 'mail__read' } }],
  },
  handles: [['["Order","o 1"]', 'h1']],
  instances: ['["order","o-1"]'],
  sentTools: ['a hash'],
  policies: [{ version: 'narrower', allow: ['*'], flow: 'off' }],
  innerSteps: 2,
  hasUnknownCost: true,
  roles: 'all',
  isOneCall: true,
  scope: 'desk',
  slots: {
    'telemetry/trace': {
      version: 1,
      value: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    },
  },
  clientTools: [
    { id: 'screen__show', description: '', inputSchema: { type: 'object', properties: {} } },
  ],
  rehearsal: [
    {
      shown: {
        toolCallId: 'call_9',
        step: 1,
        tool: 'probe__write',
        declaredId: 'probe__write',
        effect: 'state_change',
        as: 'previewed',
        args: {},
      },
      arguments: '{}',
      index: 0,
      terms: [],
      before: { hash: 'a hash', fields: { '/total': 'another' } },
    },
  ],
};

/** A run that waits for an approval, opened with what its log has. */
async function waitingRun() {
  const policy = {
    version: 'v1',
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ effects: ['state_change'] }],
  } as const;
  const module = await openModule(new ScriptedModel([calls(call('probe__write', { key: 'w' }))]), {
    policy,
    clientTools: ['screen__show'],
  });
  const [loop, log] = [module.get(ToolLoopService), module.get<RunLog>(RunLog)];
  const { runId } = await loop.run(ask());
  const { prompt: _prompt, ...request } = ask();
  const saved = async (): Promise<JsonObject> => {
    const entry = (await log.read(runId)).at(-1);
    if (entry?.type !== 'wait') throw new Error('The run does not wait.');
    return entry.value;
  };
  return {
    saved,
    change: async (parts: JsonObject): Promise<void> => {
      const held = await log.acquire(runId, { owner: 'spec', forMs: 60_000 });
      const [entry] = await log.read(runId);
      if (!held || entry?.type !== 'wait') throw new Error('The run does not wait.');
      const ending = { status: 'waiting', finishReason: 'waiting' } as const;
      const changed = { ...entry, value: { ...entry.value, ...parts } };
      await log.append({ runId, ...held.lease }, { entries: [changed], events: [], ending });
    },
    resume: async () => (await loop.resume(runId, request)).result,
  };
}

/** The step in which a rehearsal waits has no calls of a model. */
function atItsEnd(pending: JsonObject): JsonObject {
  return {
    ...pending,
    outcomes: [],
    answer: { ...(pending['answer'] as JsonObject), toolCalls: [] },
  };
}

describe('a part that is saved with a run', () => {
  it.each(Object.entries(VALUES))(
    'is there again when the run is resumed and waits once more: %s',
    async (name, value) => {
      const { saved, change, resume } = await waitingRun();
      const before = await saved();
      const part =
        name === 'approvals'
          ? { ...(before[name] as JsonObject), ...(value as JsonObject) }
          : value;
      await change({
        [name]: part,
        ...(name === 'rehearsal' && { pending: atItsEnd(before['pending'] as JsonObject) }),
      });
      expect(await resume()).toMatchObject({ finishReason: 'waiting' });
      expect((await saved())[name]).toEqual(part);
    },
  );
});
