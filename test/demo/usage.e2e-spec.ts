import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { closeDesks, eventsOf, headersOf, serve, type ServedDesk } from './served-desk.js';

let desk: ServedDesk;

beforeAll(async () => {
  const turns = [
    calls(call('catalog__read', { filter: { name: { contains: 'lamp' } } })),
    text('There is one.'),
  ];
  desk = await serve({ model: new ScriptedModel([...turns, ...turns, ...turns]) });
  for (const user of ['alice', 'mia', 'bob']) await eventsOf(desk, user, 'Is there a lamp?');
});
afterAll(closeDesks);

async function usageFor(
  user: string,
  query = '',
): Promise<readonly [status: number, body: Record<string, unknown>]> {
  const response = await fetch(`${desk.url}/usage${query}`, { headers: headersOf(user) });
  return [response.status, (await response.json()) as Record<string, unknown>];
}

/** The place of a page that no report has given: a text which a database cannot take. */
const FORGED = Buffer.from(JSON.stringify([['day', '\0']])).toString('base64url');

describe('the usage of the desk', () => {
  it('is shown to the operator of a tenant, by actor, tool, model and day', async () => {
    const [status, { rows }] = await usageFor('ops', '?groupBy=actor,tool');
    expect(status).toBe(200);
    expect(rows).toMatchObject([
      { actor: 'alice', tool: 'catalog__read', calls: 1 },
      { actor: 'alice', answers: 2 },
      { actor: 'mia', tool: 'catalog__read', calls: 1 },
      { actor: 'mia', answers: 2 },
    ]);
    const today = new Date().toISOString().slice(0, 10);
    expect(await usageFor('ops', `?groupBy=day&from=${today}&to=${today}`)).toMatchObject([
      200,
      { rows: [{ day: today, calls: 2, answers: 4 }] },
    ]);
  });

  it('is shown to others as far as it is their own', async () => {
    expect(await usageFor('bob', '?actor=bob')).toMatchObject([
      200,
      { rows: [{ calls: 1, answers: 2 }] },
    ]);
    expect(await usageFor('alice', '?actor=mia')).toMatchObject([403, { code: 'not_permitted' }]);
    expect(await usageFor('mia')).toMatchObject([403, { code: 'not_permitted' }]);
  });

  it('is not shown to an operator of another tenant', async () => {
    for (const query of ['?tenant=globex', '?everywhere=true&groupBy=tenant'])
      expect(await usageFor('ops', query)).toMatchObject([403, { code: 'not_permitted' }]);
  });

  it.each([
    '?from=yesterday',
    '?groupBy=week',
    '?limit=5000',
    '?limit=x',
    '?after=x&groupBy=day',
    '?groupby=day',
    '?actor=a&actor=b',
    '?from=0000-01-01&to=0000-02-01',
    `?groupBy=day&after=${FORGED}`,
  ])('is refused for %s, with a reason', async (query) => {
    const [status, { message }] = await usageFor('ops', query);
    expect(status).toBe(400);
    expect(message).toMatch(/\w/);
  });
});
