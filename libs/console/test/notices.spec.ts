import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { type LoopResult, PendingService, ToolLoopService } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { filter, map, type Observable, Subscription } from 'rxjs';
import { ConsoleFeed } from '../src/console-feed.js';
import { ALICE, consoleImports, DELETE_NOTE, login, MIA, NOTES_POLICY } from './console-app.js';

const alice = { actor: ALICE, tenant: 'acme' };
const mia = { actor: MIA, tenant: 'acme' };
const stranger = { actor: MIA, tenant: 'globex' };

let app: INestApplication;

beforeAll(async () => {
  const model = new ScriptedModel([
    calls(call('notes__delete')),
    text('Done.'),
    calls(call('notes__delete')),
  ]);
  const loop = { model, policy: NOTES_POLICY, tools: [DELETE_NOTE] };
  const built = await Test.createTestingModule({
    imports: consoleImports({ login }, () => undefined, loop),
  }).compile();
  app = await built.createNestApplication({ logger: false }).init();
});
afterAll(() => app.close());

/** The kinds of the notices that this person is sent from now on. */
function heardBy(person: typeof alice): {
  readonly kinds: readonly string[];
  readonly heard: (kind: string) => Promise<void>;
} & Disposable {
  const kinds: string[] = [];
  const told: Observable<string> = app
    .get(ConsoleFeed)
    .read(person)
    .pipe(
      map(({ data }) => (typeof data === 'string' ? data : '')),
      filter((kind) => kind !== 'alive'),
    );
  const subscription: Subscription = told.subscribe((kind) => kinds.push(kind));
  const heard = async (kind: string): Promise<void> => {
    while (!kinds.includes(kind)) await new Promise((resolve) => setTimeout(resolve, 5));
    kinds.splice(0);
  };
  return { kinds, heard, [Symbol.dispose]: () => subscription.unsubscribe() };
}

function asked(): Promise<LoopResult> {
  return app.get(ToolLoopService).run({ prompt: 'Delete the note.', ...alice });
}

describe('the notices of the console, of a run that is not durable', () => {
  it('tell everyone of the tenant, and no one else, of a question, and of its answer before the run is resumed', async () => {
    using forAlice = heardBy(alice);
    using forStranger = heardBy(stranger);
    const { runId, finishReason } = await asked();
    expect(finishReason).toBe('waiting');
    await forAlice.heard('inbox');
    const [request] = await app.get(PendingService).list(mia);
    await app
      .get(PendingService)
      .decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, mia);
    await forAlice.heard('inbox');
    expect(await (await app.get(ToolLoopService).resume(runId, alice)).result).toMatchObject({
      finishReason: 'stop',
    });
    expect(forStranger.kinds).toEqual([]);
  });

  it('tell of a request that is withdrawn since its run is cancelled while it waits', async () => {
    using forMia = heardBy(mia);
    const { runId } = await asked();
    await forMia.heard('inbox');
    await app.get(RunService).cancel(runId, alice);
    await forMia.heard('inbox');
    expect(await app.get(PendingService).list(mia)).toEqual([]);
  });
});
