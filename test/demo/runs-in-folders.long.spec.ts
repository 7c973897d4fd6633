import { afterAll, describe, expect, it } from '@jest/globals';
import { Database } from '@toolloop/durable';
import { text } from '@toolloop/testing';
import { createDatabaseFolder } from '../../libs/durable/test/databases.js';
import {
  approve,
  eventsOf,
  model,
  NOTHING,
  REFUND,
  sent,
  started,
  toldToOthers,
  until,
} from './desk-runs.js';
import { ask, close, closeDesks, eventsIn, ofType, serve } from './served-desk.js';

const folders: (() => Promise<void>)[] = [];

afterAll(async () => {
  await closeDesks();
  await Promise.all(folders.map((drop) => drop()));
});

async function folder(): Promise<string> {
  const { dataDir, drop } = await createDatabaseFolder();
  folders.push(drop);
  return dataDir;
}

describe('a run of another actor, in a folder', () => {
  it('is not there for another tenant, nor for a manager, nor by a made-up id', async () => {
    const desk = await serve({ model: model(REFUND), settings: { dataDir: await folder() } });
    expect(await toldToOthers(desk)).toEqual(NOTHING);
  });

  it('is not there either where the database takes its time to say so', async () => {
    const desk = await serve({ model: model(), settings: { dataDir: await folder() } });
    const busy = desk.app
      .get<Database>(Database, { strict: false })
      .transaction(() => new Promise((resolve) => setTimeout(resolve, 500)));
    expect(await sent(desk, 'alice', '/runs/made-up/events')).toMatchObject([
      404,
      { code: 'unknown_run' },
    ]);
    await busy;
  });
});

describe('a desk that is closed while a run waits', () => {
  it('continues it after the next start, in the same folder, once mia says yes', async () => {
    const dataDir = await folder();
    const auditKey = 'k'.repeat(32);
    const first = await serve({ model: model(REFUND), settings: { dataDir, auditKey } });
    const runId = await started(first);
    const { lastSequence } = await until(first, runId, 'waiting');
    const chat = eventsIn(
      await (await ask(first, 'alice', { message: 'And?' })).text().catch(() => ''),
    );
    expect(chat.at(-1)).toMatchObject({ finishReason: 'error' }); // the script is over
    await close(first);

    const second = await serve({
      model: model(text('It is on its way.')),
      settings: { dataDir, auditKey },
    });
    expect(await until(second, runId, 'waiting')).toMatchObject({ lastSequence });
    const watched = eventsOf(second, runId, `?after=${lastSequence}`);
    expect(await approve(second, runId)).toBe(200);
    const events = await watched;
    expect(ofType(events, 'directive-request')).toMatchObject([
      { directive: { subject: 'o-1021' } },
    ]);
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'stop',
      text: 'It is on its way.',
    });
    expect(events[0]?.sequence).toBe(lastSequence + 1);
  });
});
