import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { RehearsedRun } from '@toolloop/protocol';
import { Database } from '@toolloop/durable';
import { counterpartOf } from '../../libs/cli/src/counterpart.js';
import { rehearsalOf } from '../../libs/cli/src/looks.js';
import { ask, closeDesks, eventsIn, headersOf, serve, type ServedDesk } from './served-desk.js';

let desk: ServedDesk;

beforeAll(async () => {
  desk = await serve();
});
afterAll(closeDesks);

interface Answered<Body> {
  readonly status: number;
  readonly body: Body;
}

async function got<Body>(user: string, path: string): Promise<Answered<Body>> {
  const response = await fetch(desk.url + path, { headers: headersOf(user) });
  return { status: response.status, body: (await response.json()) as Body };
}

async function sent<Body = { code?: string; message?: string }>(
  user: string,
  path: string,
  body: unknown,
): Promise<Answered<Body>> {
  const response = await ask(desk, user, body, path);
  return { status: response.status, body: (await response.json()) as Body };
}

/** Starts a durable run, and waits until it has ended or waits for people. */
async function run(user: string, message: string): Promise<string> {
  const { body } = await sent<{ runId: string }>(user, '/runs', { message });
  await watched(user, body.runId);
  return body.runId;
}

async function watched(user: string, runId: string): Promise<void> {
  eventsIn(
    await (await fetch(`${desk.url}/runs/${runId}/events`, { headers: headersOf(user) })).text(),
  );
}

const decisions = ({ calls }: RehearsedRun) =>
  calls.map(({ declaredId, recorded, candidate, flipped }) => [
    declaredId,
    recorded?.kind,
    candidate?.kind,
    flipped,
  ]);

const carts = (): Promise<unknown> =>
  desk.app.get(Database).query('select id from desk.carts order by id');

const QUESTION = 'Open a cart for customer c-123';

describe('a rehearsal with another model or policy, over HTTP', () => {
  it('offers what the application names, and shows which decisions of a run flip', async () => {
    expect(await got('ops', '/rehearsals')).toEqual({
      status: 200,
      body: { models: ['brief'], policies: ['careful', 'readOnly'] },
    });
    const runId = await run('alice', QUESTION);
    const { status, body } = await sent<RehearsedRun>('ops', `/runs/${runId}/rehearse`, {
      policy: 'careful',
    });
    expect([status, body.isOver, body.policy]).toEqual([200, true, 'careful']);
    expect(decisions(body)).toContainEqual(['carts__openCart', 'allow', 'require_approval', true]);
    expect(await got('ops', `/runs/${runId}/rehearsal?policy=careful`)).toEqual({
      status: 200,
      body,
    });
  });

  it('asks another model again, and changes no row', async () => {
    const runId = await run('ops', QUESTION);
    const before = await carts();
    const { body: begun } = await sent<RehearsedRun>('ops', `/runs/${runId}/rehearse`, {
      model: 'brief',
    });
    await watched('ops', begun.rehearsedBy ?? '');
    const { body } = await got<RehearsedRun>('ops', `/runs/${begun.rehearsedBy}/rehearsal`);
    expect(body).toMatchObject({
      runId,
      rehearsedBy: begun.rehearsedBy,
      model: 'brief',
      isOver: true,
    });
    expect(decisions(body)).toContainEqual(['carts__openCart', 'allow', 'allow', false]);
    expect(await carts()).toEqual(before);
    expect(await got('ops', `/pending?runId=${begun.rehearsedBy}`)).toEqual({
      status: 200,
      body: [],
    });
  });

  it('is told by the command line too', async () => {
    const runId = await run('ops', QUESTION);
    process.env['TOOLLOOP_TOKEN'] = 'demo-ops';
    const counterpart = await counterpartOf({ url: desk.url });
    delete process.env['TOOLLOOP_TOKEN'];
    const { text, exitCode } = await rehearsalOf(counterpart, runId, {
      model: 'brief',
      policy: 'careful',
    });
    expect([text, exitCode]).toEqual([
      expect.stringContaining('1 of 1 decisions would turn out otherwise.'),
      1,
    ]);
    await expect(rehearsalOf(counterpart, runId, {})).rejects.toThrow(
      'Name --model (brief), --policy (careful, readOnly), or both.',
    );
  });

  it('names what there is where another is named, and refuses who may not, another tenant, and what is no order', async () => {
    const runId = await run('alice', QUESTION);
    const rehearse = (user: string, order: object) => sent(user, `/runs/${runId}/rehearse`, order);
    expect(await rehearse('ops', { policy: 'lax' })).toMatchObject({
      status: 400,
      body: { message: 'No policy is named "lax". Known: careful, readOnly.' },
    });
    expect(await rehearse('ops', { model: 'gpt' })).toMatchObject({
      body: { message: 'No model is named "gpt". Known: brief.' },
    });
    expect(await rehearse('ops', { model: 'brief' })).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('of your own') },
    });
    expect(await rehearse('ops', { policy: 3 })).toMatchObject({ status: 400 });
    expect(await rehearse('ops', { policy: 'careful', tenant: 'globex' })).toMatchObject({
      status: 400,
    });
    for (const user of ['alice', 'mia', 'bob']) {
      expect(await rehearse(user, { policy: 'careful' })).toMatchObject({
        status: 403,
        body: { code: 'not_permitted' },
      });
      expect(await got(user, '/rehearsals')).toMatchObject({ status: 403 });
    }
    const others = await run('bob', 'List the products');
    expect(await sent('ops', `/runs/${others}/rehearse`, { policy: 'careful' })).toMatchObject({
      status: 404,
      body: { code: 'unknown_run' },
    });
  });

  it('is refused for a run that is not durable, and so is a fork of it, with what to do', async () => {
    await (await ask(desk, 'ops', { message: QUESTION })).text();
    const { body: runs } = await got<
      readonly { readonly runId: string; readonly durable: boolean }[]
    >('ops', '/runs');
    const runId = runs.find(({ durable }) => !durable)?.runId ?? '';
    for (const [path, body, done] of [
      ['rehearse', { policy: 'careful' }, 'rehearsed'],
      ['fork', { step: 1 }, 'forked'],
    ] as const)
      expect(await sent('ops', `/runs/${runId}/${path}`, body)).toMatchObject({
        status: 404,
        body: {
          message: expect.stringContaining(
            `so that it cannot be ${done}. Ask with "durable": true`,
          ),
        },
      });
  });
});
