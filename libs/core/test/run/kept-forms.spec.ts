import { describe, expect, it } from '@jest/globals';
import { PendingService, type JsonObject, ToolLoopService } from '@toolloop/core';
import { RunLog } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };

/** A suspended run, as its log has it. */
interface SuspendedRun {
  readonly version: number;
  readonly content: JsonObject;
}

/** A run that waits in the log in this form, for a call that has been approved by now. */
async function keptAs(form: (run: SuspendedRun) => SuspendedRun) {
  const model = new ScriptedModel([calls(call('probe__write', { key: 'w' })), text('Done.')]);
  const policy = {
    version: 'v1',
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ effects: ['state_change'] }],
  } as const;
  const module = await openModule(model, { policy });
  const [loop, log] = [module.get(ToolLoopService), module.get<RunLog>(RunLog)];
  const { runId } = await loop.run(ask());
  const [{ approvalId } = { approvalId: '' }] = await module.get(PendingService).list(alice);
  await module.get(PendingService).decide({ approvalId, decision: 'approve' }, alice);
  const held = await log.acquire(runId, { owner: 'spec', forMs: 60_000 });
  const [entry] = await log.read(runId);
  if (!held || entry?.type !== 'wait') throw new Error('The run does not wait.');
  const { version: written, ...saved } = entry.value;
  const { version, content } = form({ version: Number(written), content: saved });
  const ending = { status: 'waiting', finishReason: 'waiting' } as const;
  await log.append(
    { runId, ...held.lease },
    { entries: [{ ...entry, value: { version, ...content } }], events: [], ending },
  );
  const { prompt: _prompt, ...request } = ask();
  return {
    resume: async () => (await loop.resume(runId, request)).result,
    isKept: async () => (await log.find(runId))?.status === 'waiting',
  };
}

describe('a run that waits', () => {
  it('continues where this version left it', async () => {
    const { resume } = await keptAs((run) => run);
    expect(await resume()).toMatchObject({ finishReason: 'stop' });
  });

  it.each([
    [
      'by another version',
      'it is of version 1, and this is 2',
      (run: SuspendedRun) => ({ ...run, version: 1 }),
    ],
    [
      'without its state',
      'run.state is not',
      ({ content, ...run }: SuspendedRun) => ({ ...run, content: without(content, 'state') }),
    ],
    [
      'without the approvals of repeats',
      'run.approvals.repeated is not',
      withPart('approvals', (part) => without(part, 'repeated')),
    ],
    [
      'with approvals of repeats that are none',
      'run.approvals.repeated is not',
      withPart('approvals', (part) => ({ ...part, repeated: 5 })),
    ],
    [
      'with a cut of nothing',
      'run.state.cut.from is not',
      withPart('state', (part) => ({ ...part, cut: { ahead: [] } })),
    ],
    [
      'with a time that is none',
      'startedAt is not',
      withPart('pending', (part) => ({
        ...part,
        outcomes: changed(part['outcomes'], 'startedAt', 'soon'),
      })),
    ],
    [
      'with a part that is unknown',
      'extra is not',
      ({ content, ...run }: SuspendedRun) => ({ ...run, content: { ...content, extra: 1 } }),
    ],
    [
      'with a removal that has a sentence and no cause',
      'run.tools.gone[0] is not',
      withGone('It was removed.'),
    ],
    [
      'with a removal of an unknown cause',
      'run.tools.gone[0] is not',
      withGone({ kind: 'unknown' }),
    ],
  ])('is refused where it was kept %s, and stays where it is', async (_, told, form) => {
    const { resume, isKept } = await keptAs(form);
    await expect(resume()).rejects.toMatchObject({
      code: 'unreadable_run',
      message: expect.stringContaining(told),
    });
    await expect(resume()).rejects.toThrow(
      'Fork it in the release that stored it, or start it again.',
    );
    expect(await isKept()).toBe(true);
  });
});

function without(content: JsonObject, name: string): JsonObject {
  return Object.fromEntries(Object.entries(content).filter(([key]) => key !== name));
}

/** The run with one part of its content changed. */
function withPart(
  name: string,
  change: (part: JsonObject) => JsonObject,
): (run: SuspendedRun) => SuspendedRun {
  return (run) => ({
    ...run,
    content: { ...run.content, [name]: change(run.content[name] as JsonObject) },
  });
}

/** The outcomes with another value in their records. */
function changed(outcomes: unknown, name: string, value: string): JsonObject[] {
  const copies = structuredClone(outcomes) as { readonly record: JsonObject }[];
  for (const { record } of copies) Object.assign(record, { [name]: value });
  return copies;
}

/** A run from which one tool was removed. */
function withGone(cause: string | JsonObject): (run: SuspendedRun) => SuspendedRun {
  return ({ content, ...run }) => ({
    ...run,
    content: {
      ...content,
      tools: { ...(content['tools'] as JsonObject), gone: [['crm__find', cause]] },
    },
  });
}
