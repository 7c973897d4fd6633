import { afterEach, describe, expect, it } from '@jest/globals';
import { AuditStore } from '@toolloop/core/stores';
import { type Caller, Callers, type ToolLoopHttpOptions } from '@toolloop/http';
import { ScriptedModel } from '@toolloop/testing';
import {
  closeApps,
  headersOf,
  PEOPLE,
  type Platform,
  serveApp,
  type Served,
} from './served-app.js';

afterEach(closeApps);

const REASON = 'Our own service, which reads nothing but these notes.';

/** Vouches for one caller of one tenant. */
const vouchFor = ({ actor, tenant }: Caller): string | undefined =>
  tenant === 'acme' && Reflect.get(Object(actor), 'id') === 'carl' ? REASON : undefined;

function desk(platform: Platform, http: Partial<ToolLoopHttpOptions> = {}): Promise<Served> {
  return serveApp({
    model: new ScriptedModel([]),
    http,
    platform,
    loop: { policy: { version: '1', allow: ['notes__*'] } },
  });
}

async function deleted(
  served: Served,
  person: string | undefined,
  more: { readonly headers?: object; readonly body?: object } = {},
): Promise<number> {
  const response = await fetch(`${served.url}/tools/notes__delete`, {
    method: 'POST',
    headers: { ...headersOf(person), ...more.headers },
    body: JSON.stringify({ args: { id: 'n-1' }, ...more.body }),
  });
  await response.text();
  return response.status;
}

async function reasonsIn({ app }: Served, tenant: string): Promise<readonly string[]> {
  const entries = await app.get(AuditStore).read(tenant, { from: 1, limit: 500 });
  return entries.flatMap((entry) => (entry.kind === 'opt-out' ? [entry.reason] : []));
}

describe.each(['express', 'fastify'] as const)('POST /tools/:id on %s', (platform) => {
  it('has a person asked about what a program changes, which may have read anything', async () => {
    const served = await desk(platform);
    expect(await deleted(served, 'alice')).toBe(202);
    expect(await deleted(served, 'bob')).toBe(202);
  });

  it('makes the call of a caller for whom the application vouches, with the reason in the audit, and of no other', async () => {
    const served = await desk(platform, { vouchFor });
    expect(await deleted(served, 'carl')).toBe(200);
    expect(await reasonsIn(served, 'acme')).toEqual([REASON]);
    expect([await deleted(served, 'alice'), await deleted(served, 'bob')]).toEqual([202, 202]);
    expect([await reasonsIn(served, 'acme'), await reasonsIn(served, 'globex')]).toEqual([
      [REASON],
      [],
    ]);
  });

  it('makes the call that a person has typed at a door for people', async () => {
    const served = await desk(platform);
    const [alice] = PEOPLE;
    served.app
      .get(Callers)
      .add(({ headers }) =>
        alice && headers.cookie === 'desk=alice'
          ? { actor: alice, tenant: alice.tenant }
          : undefined,
      );
    expect(
      await deleted(served, undefined, { headers: { cookie: 'desk=alice', origin: served.url } }),
    ).toBe(200);
    expect(
      await deleted(served, 'alice', { headers: { cookie: 'desk=mallory', origin: served.url } }),
    ).toBe(202);
    expect(await deleted(served, 'alice')).toBe(202);
  });

  it.each([
    [
      'headers',
      { headers: { 'x-args-origin': 'actor', 'x-vouched-for': REASON, 'x-user': 'carl' } },
      202,
    ],
    [
      'fields beside its arguments',
      { body: { argsOrigin: 'actor', vouchedFor: REASON, isPerson: true } },
      400,
    ],
    [
      'its arguments',
      { body: { args: { id: 'n-1', argsOrigin: 'actor', vouchedFor: REASON } } },
      200,
    ],
  ])('believes nothing that a program says of itself in %s', async (_, more, status) => {
    const served = await desk(platform, { vouchFor });
    // 200 has the error of the arguments in its record
    expect(await deleted(served, 'bob', more)).toBe(status);
    expect(await reasonsIn(served, 'globex')).toEqual([]);
    const done = (await served.app.get(AuditStore).read('globex', { from: 1, limit: 500 })).filter(
      ({ kind }) => kind === 'outcome',
    );
    expect(done.map((entry) => ('status' in entry ? entry.status : undefined))).not.toContain(
      'succeeded',
    );
  });
});
